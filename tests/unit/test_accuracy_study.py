"""The study of predicted accuracies, ``benchmarks/accuracy``, on small synthetic domains."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import domaincal as dc

pytest.importorskip("matplotlib")


@pytest.fixture
def study(monkeypatch):
    """Modules of the study, which is no part of the package."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))
    from benchmarks.accuracy import estimators, page, scores, summary
    from benchmarks.shift.problems import Cell

    kept = {name: entry for name, entry in estimators.ESTIMATORS.items() if name != "auto"}
    monkeypatch.setattr(scores, "ESTIMATORS", kept)  # a choice among calibrators takes long
    return SimpleNamespace(Cell=Cell, page=page, scores=scores, summary=summary)


@pytest.fixture
def split():
    data, _ = dc.make_multi_domain(n_domains=13, n_rows=120, random_state=0)
    return dc.split_domains(data, ["domain-03", "domain-05", "domain-07"])


@pytest.mark.parametrize(("size", "n_batches"), [("20", 6), ("100", 1), ("all", 1)])
def test_batches_are_disjoint_and_have_exactly_n_rows_of_one_domain(study, split, size, n_batches):
    _, new = split
    rows, batch, domain = study.scores.full_batches(new, size, np.random.default_rng(0))
    n = 120 if size == "all" else int(size)
    assert len(set(rows.tolist())) == len(rows)
    assert np.bincount(batch).tolist() == [n] * 3 * n_batches
    assert domain.tolist() == np.repeat(np.arange(3), n_batches).tolist()
    np.testing.assert_array_equal(new.domain_codes[0][rows], domain[batch])


def test_errors_and_coverage_are_those_computed_by_hand_and_the_page_shows_them(
    study, split, tmp_path
):
    known, new = split
    cell = study.Cell("Digits-C", 0, "kinds")
    table = study.scores.score_cell(cell, lambda _: split, tmp_path)
    assert study.scores.score_cell(cell, None, tmp_path).equals(table)  # kept, not computed again

    hits = np.asarray(new.logits).argmax(axis=1) == new.labels
    confidence = dc.TemperatureScaling().fit(known).predict_confidence(new.logits)
    expected = np.abs(confidence.reshape(3, -1).mean(axis=1) - hits.reshape(3, -1).mean(axis=1))
    of_ts = table[table["estimator"] == "TS"].set_index("n")
    np.testing.assert_allclose(of_ts.loc["all", "error"], expected)
    assert of_ts["batches"].tolist() == [6] * 3 + [1] * 6
    weighted = table[table["estimator"] == "importance weighting"]
    assert (weighted["batches"] == 1).all()

    drawn = study.scores.score_cell(study.Cell("Digits-C", 0, "draw of 10", 10), lambda _: split,
                                    tmp_path)  # fmt: skip
    covered = study.summary.coverages(drawn).set_index(["estimator", "n"])
    own = drawn[(drawn["estimator"] == "TS") & (drawn["n"] == "20")]
    inside = (own["low"] <= own["accuracy"]) & (own["accuracy"] <= own["high"])
    assert covered.loc[("TS", "20"), "covered"] == pytest.approx(100 * inside.mean())

    written = tmp_path / "accuracy.md"
    written.write_text("By hand.\n\n")
    study.page.write_page(pd.concat([table, drawn]), written)
    text = written.read_text()
    assert text.startswith(f"By hand.\n\n{study.page.MARK}\n")
    assert f" / {100 * expected.mean():.2f}" in text
    assert (tmp_path / "accuracy" / "predicted.png").stat().st_size > 0

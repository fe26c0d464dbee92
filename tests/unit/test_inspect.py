"""inspect: counts, scores of domains, and findings."""

import numpy as np
import pandas as pd
import pytest

import domaincal as dc

DATA, _ = dc.make_multi_domain(4, 50, 3, 5, random_state=0)
FULL = {"labels": DATA.labels, "features": DATA.features, "domains": DATA.domains.astype(str)}


def _findings(tmp_path, logits=DATA.logits, **arrays):
    path = tmp_path / "scores.npz"
    np.savez(path, logits=logits, **arrays)
    return dc.inspect(path).findings


def test_counts_names_and_scores_are_those_of_the_data(tmp_path):
    data = dc.CalibrationData(
        DATA.logits, **FULL, class_names=list("abc"), provenance={"model": "resnet"}
    )
    dc.write(data, tmp_path / "scores")
    found = dc.inspect(tmp_path / "scores")
    assert (found.format, found.n_rows, found.n_classes, found.n_features) == ("store", 200, 3, 5)
    assert found.class_names == ("a", "b", "c")
    assert found.provenance == {"model": "resnet"}
    assert found.fingerprint == data.fingerprint()
    assert found.arrays["logits"] == "float32"
    assert found.findings == found.ignored == ()
    table = dc.score_table(dc.MaxSoftmax().fit(DATA), DATA)
    for column in ("domain", "n", "accuracy", "mean_confidence"):
        expected = table[column].tolist()
        if column in ("domain", "n"):
            assert found.domains[column].tolist() == expected
        else:
            np.testing.assert_allclose(found.domains[column], expected, rtol=1e-6)
    counts = pd.Series(DATA.labels).groupby(DATA.domains).nunique()
    assert found.domains["classes"].tolist() == counts.tolist()


def test_missing_labels_and_domains_are_findings(tmp_path):
    findings = _findings(tmp_path)
    assert any("no labels" in text for text in findings)
    assert any("no domains" in text for text in findings)
    table = dc.inspect(tmp_path / "scores.npz").domains
    assert table["domain"].tolist() == ["all"]
    assert table["accuracy"].isna().all()


def _with(place, value):
    changed = DATA.logits.copy()
    changed[place] = value
    return changed


@pytest.mark.parametrize(
    ("arrays", "text"),
    [
        ({"logits": _with((3, 1), np.nan)}, "1 rows hold NaN or infinity"),
        ({"logits": _with((slice(0, 7), 1), np.inf)}, "7 rows hold NaN or infinity"),
        ({"features": np.full((200, 2), np.nan)}, "200 rows hold NaN or infinity"),
        ({"logits": _with(slice(0, 2), 1.5)}, "2 rows have equal logits for all classes"),
        ({"logits": _with((5, 0), -1e9)}, "1 rows have logits more than 10000 below"),
        ({"logits": _with(7, 50 * DATA.logits[7])}, "1 rows have logits more than 20 times as far"),
        ({"logits": np.full((200, 3), 1 / 3)}, "sum to 1 in each row"),
        ({"labels": np.zeros(200, int)}, "2 of 3 classes never occur among the labels: 1, 2"),
        ({"labels": np.zeros(200, int)}, "all rows have the same label in domain-0, domain-1"),
        ({"labels": DATA.logits.argmin(axis=1)}, "accuracy is below chance in domain-0"),
        ({"domains": ["rare"] * 9 + ["often"] * 191}, "fewer than 10 rows in rare"),
        ({"features": np.ones((200, 3))}, "3 of 3 features are the same in all rows"),
        ({"features": DATA.features - DATA.features.mean(axis=0)}, "features are nearly centred"),
    ],
)  # fmt: skip
def test_every_problem_is_a_finding(tmp_path, arrays, text):
    assert any(text in finding for finding in _findings(tmp_path, **{**FULL, **arrays})), text


def test_outliers_are_rows_that_differ_from_their_domain(tmp_path):
    """A domain of large logits has no outliers, and a masked row is not an outlier."""
    findings = _findings(tmp_path, _with(slice(0, 50), 100 * DATA.logits[:50]), **FULL)
    assert "times as far apart" not in " ".join(findings)
    findings = _findings(tmp_path, _with((5, 0), -1e9), **FULL)
    assert "times as far apart" not in " ".join(findings)
    changed = _with(7, 1000 * DATA.logits[7])
    changed[11] *= 900
    findings = " ".join(_findings(tmp_path, changed, **FULL))
    assert "2 rows have logits more than 20 times as far" in findings
    times = np.ptp(changed, axis=1) / np.median(np.ptp(changed[:50], axis=1))
    worst = int(times.argmax())
    assert f"(row {worst}: {times[worst]:.0f} times)" in findings


def test_rows_that_are_not_finite_are_counted_by_domain(tmp_path):
    np.savez(tmp_path / "scores.npz", logits=_with((slice(0, 60), 0), np.nan), **FULL)
    assert dc.inspect(tmp_path / "scores.npz").domains["not_finite"].tolist() == [50, 10, 0, 0]
    with pytest.raises(dc.errors.FileFormatError, match="NaN"):
        dc.read(tmp_path / "scores.npz")

"""``domaincal estimate``."""

import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import domaincal as dc
from domaincal.cli import main

DATA, _ = dc.make_multi_domain(n_domains=12, n_rows=80, n_classes=4, random_state=0)
KNOWN, NEW = dc.split_domains(DATA, ["domain-03", "domain-05"])


def run(*arguments, code=0):
    result = CliRunner().invoke(main, [str(a) for a in arguments])
    assert result.exit_code == code, (result.output, result.exception)
    return result


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("estimate")
    dc.write(KNOWN, folder / "known.npz")
    unlabelled = dc.CalibrationData(NEW.logits, features=NEW.features, domains=NEW.domains)
    dc.write(unlabelled, folder / "new.npz")
    run("fit", folder / "known.npz", "-o", folder / "model.safetensors", "--method", "batch")
    run("fit", folder / "known.npz", "-o", folder / "ts.safetensors", "--method", "ts")
    return folder


def document(*arguments, code=0):
    return json.loads(run("estimate", *arguments, "--json", code=code).stdout)


@pytest.fixture(scope="module")
def table():
    found = dc.shift.ConfidenceEstimator().fit(KNOWN).predict(NEW)
    return found.sort_values(["low", "predicted_accuracy"], ignore_index=True)


def test_the_document_has_the_table_of_the_library_worst_first(folder, table):
    found = document(folder / "model.safetensors", folder / "new.npz")
    pd.testing.assert_frame_equal(pd.DataFrame(found["domains"]), table)
    assert found["document"] == "domaincal estimate"
    assert found["n_domains_of_fit"] == 10
    assert found["coverage"] == 0.9


def test_the_table_and_the_sentences(folder, table):
    out = " ".join(run("estimate", folder / "model.safetensors", folder / "new.npz").stdout.split())
    worst = table.iloc[0]
    assert f"Lowest: in {worst['domain']}, about {100 * worst['predicted_accuracy']:.0f} of" in out
    by_domain = pd.Series(KNOWN.logits.argmax(axis=1) == KNOWN.labels).groupby(KNOWN.domains).mean()
    low, high = 100 * by_domain.min(), 100 * by_domain.max()
    assert f"In the 10 domains of the fit, it is {low:.0f} to {high:.0f}." in out
    assert f"{100 * worst['low']:.1f}" in out
    assert "for 90% of new domains, if they are like further draws of the 10 of the fit" in out


def test_the_gate_compares_the_lowest_limit(folder):
    model, new = folder / "model.safetensors", folder / "new.npz"
    found = document(model, new)
    low = min(row["low"] for row in found["domains"])
    assert document(model, new, "--fail-below", str(low - 1e-6))["gate"]["holds"] is True
    failed = document(model, new, "--fail-below", str(low + 1e-6), code=3)["gate"]
    assert failed["holds"] is False
    assert failed["low"] == low
    out = run("estimate", model, new, "--fail-below", "99%", code=3).stdout
    assert "gate fails: low is below 99.0% in 2 of 2 domains" in " ".join(out.split())
    assert "99.0%" in out
    assert "write 0.99 or 99%" in run("estimate", model, new, "--fail-below", "99", code=2).stderr


def test_the_data_need_what_apply_needs(folder, tmp_path):
    bare = dc.CalibrationData(NEW.logits, domains=NEW.domains)
    dc.write(bare, tmp_path / "bare.npz")
    assert document(folder / "ts.safetensors", tmp_path / "bare.npz")["domains"]
    result = run("estimate", folder / "model.safetensors", tmp_path / "bare.npz", code=1)
    assert "has no features" in result.stderr


def test_rows_without_domains_are_one_domain(folder, tmp_path):
    dc.write(dc.CalibrationData(NEW.logits), tmp_path / "rows.npz")
    result = run("estimate", folder / "ts.safetensors", tmp_path / "rows.npz", "--json")
    assert "has no domains" in result.stderr
    assert [row["domain"] for row in json.loads(result.stdout)["domains"]] == ["all rows"]


def test_a_figure_is_written_and_not_replaced(folder, tmp_path):
    pytest.importorskip("matplotlib")
    arguments = [folder / "model.safetensors", folder / "new.npz", "--plot", tmp_path / "a.svg"]
    assert "figure written to" in run("estimate", *arguments).stdout
    assert "<svg" in (tmp_path / "a.svg").read_text()
    assert "exists; pass --force" in run("estimate", *arguments, code=1).stderr
    run("estimate", *arguments, "--force")


def test_a_fit_to_few_domains_has_no_interval_or_no_estimate(folder, tmp_path):
    names = [str(name) for name in KNOWN.domain_names]
    for n_domains in (2, 5):
        few, _ = dc.split_domains(KNOWN, names[n_domains:])
        dc.write(few, tmp_path / f"{n_domains}.npz")
        model = tmp_path / f"{n_domains}.safetensors"
        run("fit", tmp_path / f"{n_domains}.npz", "-o", model, "--method", "ts")
    result = run("estimate", tmp_path / "2.safetensors", folder / "new.npz", code=1)
    assert "at least 3 domains" in " ".join(result.stderr.split())
    found = document(tmp_path / "5.safetensors", folder / "new.npz")["domains"]
    assert all(row["low"] == 0 and row["high"] == 1 for row in found)
    assert all("90% needs 9 labelled domains" in row["reason"] for row in found)
    out = run("estimate", tmp_path / "5.safetensors", folder / "new.npz").stdout
    assert "There are no intervals" in out


def test_scores_unlike_all_others_are_outside(folder, tmp_path):
    far = dc.CalibrationData(20.0 * np.asarray(NEW.logits), domains=NEW.domains)
    dc.write(far, tmp_path / "far.npz")
    out = " ".join(run("estimate", folder / "ts.safetensors", tmp_path / "far.npz").stdout.split())
    assert "do not rely on the prediction (2 of 2 domains)" in out
    assert "by the histograms in the model file" in out
    # No interval holds so far away, and no gate.
    found = document(folder / "ts.safetensors", tmp_path / "far.npz", "--fail-below", "1%", code=3)
    assert [(row["low"], row["high"]) for row in found["domains"]] == [(0.0, 1.0)] * 2
    assert all("unlike all known ones" in row["reason"] for row in found["domains"])
    assert found["gate"]["n_below"] == 2


def test_a_domain_outside_comes_first_and_is_not_called_the_lowest(folder, tmp_path):
    scale = np.where(NEW.domains == "domain-05", 20.0, 1.0)[:, None]
    far = dc.CalibrationData(scale * np.asarray(NEW.logits), domains=NEW.domains)
    dc.write(far, tmp_path / "far.npz")
    found = document(folder / "ts.safetensors", tmp_path / "far.npz")["domains"]
    assert [row["domain"] for row in found] == ["domain-05", "domain-03"]
    assert found[0]["predicted_accuracy"] > found[1]["predicted_accuracy"]
    assert (
        "Lowest: in domain-03"
        in run("estimate", folder / "ts.safetensors", tmp_path / "far.npz").stdout
    )


def test_labels_are_not_used_and_few_rows_are_named(folder, tmp_path):
    few = NEW.select(np.r_[0:5, 80:160])
    dc.write(few, tmp_path / "few.npz")
    result = run("estimate", folder / "ts.safetensors", tmp_path / "few.npz")
    assert "labels are not used" in result.stderr
    assert "only large differences would show: domain-03." in " ".join(result.stdout.split())


def test_probabilities_get_the_floor_of_the_fit(tmp_path):
    z = np.asarray(KNOWN.logits)
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    columns = {f"p_{k}": p[:, k].round(2) for k in range(4)}
    frame = pd.DataFrame({**columns, "label": KNOWN.labels, "site": KNOWN.domains})
    frame.to_csv(tmp_path / "cases.csv", index=False)
    options = ["--probabilities", "p_*", "--domain", "site"]
    model = tmp_path / "m.safetensors"
    fit = ["fit", tmp_path / "cases.csv", "-o", model, "--method", "ts", "--floor", "0.004"]
    run(*fit, *options)
    found = document(model, tmp_path / "cases.csv", *options)
    assert found["data"]["floor"] == 0.004

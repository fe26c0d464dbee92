"""Protocols on one data set, tables of means and predictions, the gate."""

import numpy as np
import pandas as pd
import pytest

import domaincal as dc
from support import fit, given, probabilities, small_domains

DATA = small_domains()
METHODS = {"TS": dc.TemperatureScaling(), "MD-TS": dc.MultiDomainTemperatureScaling()}


def _grouped(data=DATA):
    groups = np.arange(len(data)) % 80
    return dc.CalibrationData(
        data.logits, labels=data.labels, features=data.features, domains=data.domains, groups=groups
    )


def test_halves_are_those_of_evaluate():
    ind, ood = dc.split_domains(DATA, ["domain-2", "domain-4"])
    train, test = dc.split_halves(ind, random_state=5)
    found = dc.evaluate_split(METHODS, DATA, ood="domain-[24]", n_bins=10, random_state=5)
    for kind, rows in (("InD", test), ("OOD", ood)):
        expected = dc.evaluate(METHODS, train=train, test=rows, n_bins=10)
        part = found[found["kind"] == kind].drop(columns="kind").reset_index(drop=True)
        pd.testing.assert_frame_equal(part, expected)


def test_without_ood_domains_and_without_domains():
    table = dc.evaluate_split(METHODS, DATA)
    assert set(table["kind"]) == {"InD"}
    assert (table["n"] == 40).all()
    plain = dc.CalibrationData(DATA.logits, labels=DATA.labels)
    table = dc.evaluate_split(dc.TemperatureScaling(), plain)
    assert table[["domain", "n"]].values.tolist() == [["all", 240]]


def test_leave_one_domain_out_is_evaluate_for_each_domain():
    found = dc.evaluate_leave_one_domain_out(METHODS, DATA)
    assert found["method"].tolist() == ["TS"] * 6 + ["MD-TS"] * 6
    for name, others, rows in dc.leave_one_domain_out(DATA):
        expected = dc.evaluate(METHODS, train=others, test=rows)
        part = found[found["domain"] == name].drop(columns="kind").reset_index(drop=True)
        pd.testing.assert_frame_equal(part, expected)


class _Spy(dc.TemperatureScaling):
    """Remembers the rows that it saw, by their first logit."""

    fitted: set = set()  # noqa: RUF012
    scored: set = set()  # noqa: RUF012

    def fit(self, logits, y, **options):
        self.fitted.update(logits[:, 0].tolist())
        return super().fit(logits, y, **options)

    def predict_confidence(self, logits, **options):
        self.scored.update(logits[:, 0].tolist())
        return super().predict_confidence(logits, **options)


@pytest.mark.parametrize("leave_out", [False, True])
def test_by_group_no_group_is_both_fitted_and_scored(leave_out):
    data = _grouped()
    group = dict(zip(data.logits[:, 0].tolist(), data.groups.tolist(), strict=True))
    for by, shared in (("group", False), ("row", True)):
        _Spy.fitted, _Spy.scored = set(), set()
        by = None if by == "group" else by  # where there are groups, that is the default
        if leave_out:
            dc.evaluate_leave_one_domain_out(_Spy(), data, by=by)
        else:
            dc.evaluate_split(_Spy(), data, ood=["domain-1"], by=by)
        fitted, scored = ({group[z] for z in seen} for seen in (_Spy.fitted, _Spy.scored))
        assert bool(fitted & scored) == shared
        assert len(scored) >= 40


@pytest.mark.parametrize("leave_out", [False, True])
def test_progress_is_tracked(leave_out):
    seen = []

    def track(steps):
        for step in steps:
            seen.append(step)
            yield step

    if leave_out:
        dc.evaluate_leave_one_domain_out(METHODS, DATA, track=track)
        assert seen == DATA.domain_names.tolist()
    else:
        dc.evaluate_split(METHODS, DATA, track=track)
        assert [name for name, _ in seen] == ["TS", "MD-TS"]


@pytest.mark.parametrize("evaluate", [dc.evaluate_split, dc.evaluate_leave_one_domain_out])
def test_protocols_need_labels(evaluate):
    with pytest.raises(dc.InputError, match="data has no labels"):
        evaluate(METHODS, dc.CalibrationData(DATA.logits, domains=DATA.domains))


def test_means_are_means_over_domains():
    table = dc.evaluate_split(METHODS, DATA, ood="domain-[24]")
    means = dc.summary_table(table)
    assert means[["kind", "method", "n_domains"]].values.tolist() == [
        ["InD", "TS", 4], ["InD", "MD-TS", 4], ["OOD", "TS", 2], ["OOD", "MD-TS", 2],
    ]  # fmt: skip
    for _, row in means.iterrows():
        part = table[(table["kind"] == row["kind"]) & (table["method"] == row["method"])]
        mean = dc.mean_over_domains(part["ece"])
        assert row["ece"] == pytest.approx(mean.mean)
        assert row["ece_standard_error"] == pytest.approx(mean.standard_error)
        assert row["worst_excess"] == part["excess"].max()
        assert row["n"] == part["n"].sum()
    assert "kind" not in dc.summary_table(table.drop(columns="kind"))


@pytest.mark.parametrize("worst", [False, True])
@pytest.mark.parametrize("score", ["excess", "ece", "gap"])
def test_the_gate_looks_at_the_last_method_over_ood_domains(score, worst):
    table = dc.evaluate_split(METHODS, DATA, ood="domain-[24]")
    rows = table[(table["method"] == "MD-TS") & (table["kind"] == "OOD")]
    value = rows[score].max() if worst else rows[score].mean()
    found = dc.check_gate(table, value, score=score, worst=worst)
    assert found.holds
    assert found.value == pytest.approx(value)
    assert (found.method, found.kind, found.n_domains) == ("MD-TS", "OOD", 2)
    assert not dc.check_gate(table, value - 1e-6, score=score, worst=worst).holds
    ind = dc.check_gate(table[table["kind"] == "InD"], 0.5, score=score, worst=worst)
    assert (ind.kind, ind.n_domains) == ("InD", 4)


def test_a_gate_never_holds_for_nan():
    table = dc.evaluate_split(METHODS, DATA)
    table.loc[table.index[-1], "ece"] = np.nan
    for worst in (False, True):
        assert not dc.check_gate(table, 1.0, score="ece", worst=worst).holds
    with pytest.raises(dc.InputError, match="score must be"):
        dc.check_gate(table, 0.1, score="nll")
    for limit in (5, "2%", np.nan, True, None):
        with pytest.raises(dc.InputError, match="limit must be a fraction"):
            dc.check_gate(table, limit)


def test_a_gate_on_a_table_without_kinds():
    train, test = dc.split_halves(DATA)
    table = dc.evaluate(METHODS, train=train, test=test)
    found = dc.check_gate(table, 1.0)
    assert (found.kind, found.n_domains) == ("all", 6)
    assert "over 6 domains is" in found.sentence()


def test_domains_without_rows_to_score_are_named():
    few = DATA.select(np.r_[0:80, 80, 160:240])
    with pytest.warns(dc.SmallDomainWarning, match="no row is left to score in 'domain-1'"):
        table = dc.evaluate_split(dc.TemperatureScaling(), few)
    assert table["domain"].tolist() == ["domain-0", "domain-2"]
    groups = np.where(few.domains == "domain-1", 0, np.arange(len(few)) % 50)
    grouped = dc.CalibrationData(few.logits, labels=few.labels, domains=few.domains, groups=groups)
    for seed in range(8):  # the group of the single row is on either side
        first, _ = dc.split_halves(grouped, random_state=seed)
        expected = {"domain-0", "domain-2"} | ({"domain-1"} - set(first.domains))
        if len(expected) == 3:
            table = dc.evaluate_leave_one_domain_out(
                dc.TemperatureScaling(), grouped, random_state=seed
            )
        else:
            with pytest.warns(dc.SmallDomainWarning, match="no row is left"):
                table = dc.evaluate_leave_one_domain_out(
                    dc.TemperatureScaling(), grouped, random_state=seed
                )
        assert set(table["domain"]) == expected


def test_data_must_be_a_container():
    with pytest.raises(dc.InputError, match="data must be CalibrationData, got ndarray"):
        dc.prediction_table(dc.MaxSoftmax().fit(DATA.logits, DATA.labels), DATA.logits)


@pytest.mark.parametrize("name", ["p.csv", "p.npz", "p.parquet"])
@pytest.mark.parametrize("classes", [None, ("ant", "bee", "cat", "dog", "emu")])
def test_a_table_of_predictions_can_be_read_as_rows(tmp_path, name, classes):
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    data = _grouped()
    data = dc.CalibrationData(
        data.logits, labels=data.labels, features=data.features, domains=data.domains,
        groups=data.groups, class_names=classes,
    )  # fmt: skip
    calibrator = fit(dc.MultiDomainTemperatureScaling(), data)
    table = dc.prediction_table(calibrator, data)
    assert len(table) == len(data)
    t = calibrator.predict_temperature(data.logits, **given(data))
    np.testing.assert_array_equal(table["temperature"], t)
    np.testing.assert_array_equal(
        table["confidence"], calibrator.predict_confidence(data.logits, **given(data))
    )
    predicted = data.logits.argmax(axis=1)
    expected = predicted if classes is None else np.array(classes)[predicted]
    assert table["predicted"].tolist() == expected.tolist()
    dc.write_table(table, tmp_path / name)
    again = dc.read(tmp_path / name)
    np.testing.assert_array_equal(again.labels, data.labels)
    np.testing.assert_array_equal(again.domains, data.domains)
    np.testing.assert_array_equal(again.groups, data.groups)
    assert again.class_names == classes
    p = probabilities(calibrator, data)
    np.testing.assert_allclose(np.exp(again.logits), np.maximum(p, 1e-12), rtol=1e-12)


def test_methods_without_a_temperature_and_rows_without_labels():
    calibrator = dc.IsotonicCalibration().fit(DATA.logits, DATA.labels)
    table = dc.prediction_table(calibrator, dc.CalibrationData(DATA.logits))
    assert table.columns.tolist() == ["predicted", "confidence", *(f"prob_{k}" for k in range(5))]


def test_tables_go_to_known_formats_only(tmp_path):
    table = dc.prediction_table(dc.MaxSoftmax().fit(DATA.logits, DATA.labels), DATA)
    with pytest.raises(dc.InputError, match=r"suffix '\.txt'; predictions are written to"):
        dc.write_table(table, tmp_path / "p.txt")

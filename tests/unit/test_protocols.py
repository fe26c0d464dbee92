"""Protocols on one data set, tables of means and predictions, the gate."""

import warnings

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
    """Remembers the rows that it was fitted on and those that it scored, by their first logit."""

    seen: list = []  # noqa: RUF012

    def fit(self, logits, y, **options):
        self.seen.append((set(logits[:, 0].tolist()), set()))
        return super().fit(logits, y, **options)

    def predict_confidence(self, logits, **options):
        self.seen[-1][1].update(logits[:, 0].tolist())
        return super().predict_confidence(logits, **options)


def _spied(data, *, leave_out, **options):
    """For each fit: groups and domains fitted, groups and domains scored."""
    rows = zip(data.groups.tolist(), data.domains.tolist(), strict=True)
    known = dict(zip(data.logits[:, 0].tolist(), rows, strict=True))
    _Spy.seen = []
    if leave_out:
        dc.evaluate_leave_one_domain_out(_Spy(), data, **options)
    else:
        dc.evaluate_split(_Spy(), data, ood=["domain-1"], **options)
    return [[{known[z][k] for z in side} for side in sides for k in (0, 1)] for sides in _Spy.seen]


@pytest.mark.parametrize("leave_out", [False, True])
def test_by_group_no_group_is_both_fitted_and_scored(leave_out):
    data = _grouped()
    for by, shared in ((None, False), ("group", False), ("row", True)):
        for fitted, domains, scored, new in _spied(data, leave_out=leave_out, by=by):
            assert bool(fitted & scored) == shared
            assert len(scored) >= 40
            assert not domains & {"domain-1"} or leave_out
            if leave_out:
                assert len(new) == 1
                assert not new & domains
                assert len(domains) == 5


def test_the_seed_decides_which_groups_are_scored():
    data = _grouped()
    for leave_out in (False, True):
        halves = {
            frozenset(_spied(data, leave_out=leave_out, random_state=seed)[0][2])
            for seed in range(4)
        }
        assert len(halves) > 1


def test_groups_inside_of_domains_lose_no_rows():
    """Groups that are in one domain only need not be split to leave that domain out."""
    data = dc.CalibrationData(
        DATA.logits, labels=DATA.labels, domains=DATA.domains,
        groups=np.char.add(DATA.domains, (np.arange(480) % 2).astype(str)),
    )  # fmt: skip
    table = dc.evaluate_leave_one_domain_out(dc.TemperatureScaling(), data)
    expected = dc.evaluate_leave_one_domain_out(dc.TemperatureScaling(), data, by="row")
    pd.testing.assert_frame_equal(table, expected)
    table = dc.evaluate_split(dc.TemperatureScaling(), data, ood="domain-1")
    assert (table.loc[table["kind"] == "OOD", "n"] == 80).all()
    assert (table.loc[table["kind"] == "InD", "n"] == 40).all()


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
    with pytest.raises(dc.errors.InputError, match="data has no labels"):
        evaluate(METHODS, dc.CalibrationData(DATA.logits, domains=DATA.domains))


def test_means_are_means_over_domains():
    table = dc.evaluate_split(METHODS, DATA, ood="domain-[24]")
    means = dc.summary_table(table)
    assert means[["kind", "method", "n_domains"]].values.tolist() == [
        ["InD", "TS", 4], ["InD", "MD-TS", 4], ["OOD", "TS", 2], ["OOD", "MD-TS", 2],
    ]  # fmt: skip
    for _, row in means.iterrows():
        part = table[(table["kind"] == row["kind"]) & (table["method"] == row["method"])]
        mean = dc.metrics.mean_over_domains(part["ece"])
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
    with pytest.raises(dc.errors.InputError, match="score must be"):
        dc.check_gate(table, 0.1, score="nll")
    for limit in (5, "2%", np.nan, True, None):
        with pytest.raises(dc.errors.InputError, match="limit must be a fraction"):
            dc.check_gate(table, limit)


def test_a_gate_on_a_table_without_kinds():
    train, test = dc.split_halves(DATA)
    table = dc.evaluate(METHODS, train=train, test=test)
    found = dc.check_gate(table, 1.0)
    assert (found.kind, found.n_domains) == ("all", 6)
    assert "over 6 domains is" in found.sentence()


def test_domains_without_rows_to_score_are_named():
    few = DATA.select(np.r_[0:80, 80, 160:240])
    with pytest.warns(dc.errors.SmallDomainWarning, match="no row is left to score in 'domain-1'"):
        table = dc.evaluate_split(dc.TemperatureScaling(), few)
    assert table["domain"].tolist() == ["domain-0", "domain-2"]
    groups = np.where(few.domains == "domain-1", 0, np.arange(len(few)) % 50)
    grouped = dc.CalibrationData(few.logits, labels=few.labels, domains=few.domains, groups=groups)
    found = set()
    for seed in range(8):  # the group of the single row is on either side
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            table = dc.evaluate_leave_one_domain_out(
                dc.TemperatureScaling(), grouped, random_state=seed
            )
        scored = "domain-1" in set(table["domain"])
        assert scored == (not any("no row is left" in str(w.message) for w in caught))
        found.add(scored)
    assert found == {False, True}


def test_classes_in_another_order_are_not_applied():
    data = dc.CalibrationData(DATA.logits, labels=DATA.labels, class_names=tuple("abcde"))
    fitted = dc.TemperatureScaling().fit(data.logits, data.labels)
    fitted.class_names_ = tuple("abced")
    with pytest.raises(dc.errors.InputError, match=r"another order, e.g. 'd' in place of 'e'"):
        dc.prediction_table(fitted, data)


def test_what_to_leave_out_must_be_named():
    for wrong in (3, None):
        with pytest.raises(dc.errors.InputError, match="ood must be a domain"):
            dc.evaluate_split(dc.TemperatureScaling(), DATA, ood=wrong)


def test_a_negative_worst_excess_is_the_largest():
    table = dc.evaluate_split(METHODS, DATA).assign(excess=lambda t: -0.1 - 0.001 * t.index)
    last = table[table["method"] == "MD-TS"]["excess"]
    assert dc.check_gate(table, 0.0, worst=True).value == last.max()
    with pytest.raises(dc.errors.InputError, match="table is empty"):
        dc.check_gate(table[:0], 0.0)


def test_data_must_be_a_container():
    with pytest.raises(dc.errors.InputError, match="data must be CalibrationData, got ndarray"):
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
    with pytest.raises(dc.errors.InputError, match=r"suffix '\.txt'; predictions are written to"):
        dc.write_table(table, tmp_path / "p.txt")

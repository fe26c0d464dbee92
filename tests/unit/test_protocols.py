"""Evaluation protocols, summary and prediction tables, and the gate."""

import warnings

import numpy as np
import pandas as pd
import pytest

import domaincal as dc
from support import small_domains

DATA = small_domains()
METHODS = {"TS": dc.TemperatureScaling(), "MD-TS": dc.MultiDomainTemperatureScaling()}


def _grouped(data=DATA):
    groups = np.arange(len(data)) % 80
    return dc.CalibrationData(
        data.logits, labels=data.labels, features=data.features, domains=data.domains, groups=groups
    )


def test_evaluate_split_equals_evaluate_on_the_same_halves():
    ind, ood = dc.split_domains(DATA, ["domain-2", "domain-4"])
    train, test = dc.split_halves(ind, random_state=5)
    found = dc.evaluate_split(METHODS, DATA, ood="domain-[24]", n_bins=10, random_state=5)
    for kind, rows in (("InD", test), ("OOD", ood)):
        expected = dc.evaluate(METHODS, train=train, test=rows, n_bins=10)
        part = found[found["kind"] == kind].drop(columns="kind").reset_index(drop=True)
        pd.testing.assert_frame_equal(part, expected)


def test_evaluate_split_works_without_ood_domains_and_without_domains():
    table = dc.evaluate_split(METHODS, DATA)
    assert set(table["kind"]) == {"InD"}
    assert (table["n"] == 40).all()
    plain = dc.CalibrationData(DATA.logits, labels=DATA.labels)
    table = dc.evaluate_split(dc.TemperatureScaling(), plain)
    assert table[["domain", "n"]].values.tolist() == [["all", 240]]


def test_leave_one_domain_out_equals_evaluate_for_each_domain():
    found = dc.evaluate_leave_one_domain_out(METHODS, DATA)
    assert found["method"].tolist() == ["TS"] * 6 + ["MD-TS"] * 6
    for name, others, rows in dc.leave_one_domain_out(DATA):
        expected = dc.evaluate(METHODS, train=others, test=rows)
        part = found[found["domain"] == name].drop(columns="kind").reset_index(drop=True)
        pd.testing.assert_frame_equal(part, expected)


class _Recorder(dc.TemperatureScaling):
    """Records the fitted and the scored rows of each fit, by their first logit."""

    fits: list = []  # noqa: RUF012

    def fit(self, logits, y, **options):
        self.fits.append((set(logits[:, 0].tolist()), set()))
        return super().fit(logits, y, **options)

    def predict_confidence(self, logits, **options):
        self.fits[-1][1].update(logits[:, 0].tolist())
        return super().predict_confidence(logits, **options)


def _record(data, *, leave_out, **options):
    """Groups and domains fitted, groups and domains scored, for each fit."""
    rows = zip(data.groups.tolist(), data.domains.tolist(), strict=True)
    known = dict(zip(data.logits[:, 0].tolist(), rows, strict=True))
    _Recorder.fits = []
    if leave_out:
        dc.evaluate_leave_one_domain_out(_Recorder(), data, **options)
    else:
        dc.evaluate_split(_Recorder(), data, ood=["domain-1"], **options)
    return [
        [{known[z][k] for z in side} for side in sides for k in (0, 1)] for sides in _Recorder.fits
    ]


@pytest.mark.parametrize("leave_out", [False, True])
def test_no_group_is_both_fitted_and_scored(leave_out):
    data = _grouped()
    for by, shared in ((None, False), ("group", False), ("row", True)):
        for fitted, domains, scored, new in _record(data, leave_out=leave_out, by=by):
            assert bool(fitted & scored) == shared
            assert len(scored) >= 40
            assert not domains & {"domain-1"} or leave_out
            if leave_out:
                assert len(new) == 1
                assert not new & domains
                assert len(domains) == 5


def test_the_random_state_chooses_the_scored_groups():
    data = _grouped()
    for leave_out in (False, True):
        halves = {
            frozenset(_record(data, leave_out=leave_out, random_state=seed)[0][2])
            for seed in range(4)
        }
        assert len(halves) > 1


def test_all_rows_are_scored_if_groups_lie_inside_domains():
    """Only groups that occur in several domains have to be split."""
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
def test_track_gets_the_methods_or_the_folds(leave_out):
    seen = []

    def track(steps):
        for step in steps:
            seen.append(step)
            yield step

    if leave_out:
        dc.evaluate_leave_one_domain_out(METHODS, DATA, track=track)
        assert seen == [[name] for name in DATA.domain_names.tolist()]
    else:
        dc.evaluate_split(METHODS, DATA, track=track)
        assert [name for name, _ in seen] == ["TS", "MD-TS"]


@pytest.mark.parametrize("evaluate", [dc.evaluate_split, dc.evaluate_leave_one_domain_out])
def test_protocols_refuse_data_without_labels(evaluate):
    with pytest.raises(dc.errors.InputError, match="data has no labels"):
        evaluate(METHODS, dc.CalibrationData(DATA.logits, domains=DATA.domains))


def test_the_summary_has_means_over_domains():
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
def test_the_gate_compares_the_last_method_on_ood_domains(score, worst):
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


def test_a_gate_does_not_hold_for_nan():
    table = dc.evaluate_split(METHODS, DATA)
    table.loc[table.index[-1], "ece"] = np.nan
    for worst in (False, True):
        assert not dc.check_gate(table, 1.0, score="ece", worst=worst).holds


def test_a_gate_refuses_invalid_scores_and_limits():
    table = dc.evaluate_split(METHODS, DATA)
    with pytest.raises(dc.errors.InputError, match="score must be"):
        dc.check_gate(table, 0.1, score="nll")
    for limit in (5, "2%", np.nan, True, None):
        with pytest.raises(dc.errors.InputError, match="limit must be a fraction"):
            dc.check_gate(table, limit)


def test_a_gate_on_a_table_without_kinds_uses_all_domains():
    train, test = dc.split_halves(DATA)
    table = dc.evaluate(METHODS, train=train, test=test)
    found = dc.check_gate(table, 1.0)
    assert (found.kind, found.n_domains) == ("all", 6)
    assert "over 6 domains is" in found.sentence()


def test_the_warning_names_domains_without_rows_to_score():
    few = DATA.select(np.r_[0:80, 80, 160:240])
    with pytest.warns(dc.errors.SmallDomainWarning, match="no row is left to score in 'domain-1'"):
        table = dc.evaluate_split(dc.TemperatureScaling(), few)
    assert table["domain"].tolist() == ["domain-0", "domain-2"]
    groups = np.where(few.domains == "domain-1", 0, np.arange(len(few)) % 50)
    grouped = dc.CalibrationData(few.logits, labels=few.labels, domains=few.domains, groups=groups)
    found = set()
    for seed in range(8):  # the group of the single row can be in either half
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            table = dc.evaluate_leave_one_domain_out(
                dc.TemperatureScaling(), grouped, random_state=seed
            )
        scored = "domain-1" in set(table["domain"])
        assert scored == (not any("no row is left" in str(w.message) for w in caught))
        found.add(scored)
    assert found == {False, True}


def test_prediction_table_refuses_classes_in_another_order():
    data = dc.CalibrationData(DATA.logits, labels=DATA.labels, class_names=tuple("abcde"))
    fitted = dc.TemperatureScaling().fit(data.logits, data.labels)
    fitted.class_names_ = tuple("abced")
    with pytest.raises(dc.errors.InputError, match=r"another order, e.g. 'd' in place of 'e'"):
        dc.prediction_table(fitted, data)


def test_ood_must_be_a_domain_a_pattern_or_a_list():
    for wrong in (3, None):
        with pytest.raises(
            dc.errors.InputError, match="ood must be a pattern or a list of domains"
        ):
            dc.evaluate_split(dc.TemperatureScaling(), DATA, ood=wrong)


def test_the_worst_excess_is_the_largest_even_if_negative():
    table = dc.evaluate_split(METHODS, DATA).assign(excess=lambda t: -0.1 - 0.001 * t.index)
    last = table[table["method"] == "MD-TS"]["excess"]
    assert dc.check_gate(table, 0.0, worst=True).value == last.max()


def test_a_gate_refuses_an_empty_table():
    table = dc.evaluate_split(METHODS, DATA)
    with pytest.raises(dc.errors.InputError, match="table is empty"):
        dc.check_gate(table[:0], 0.0)


def test_prediction_table_needs_calibration_data():
    with pytest.raises(dc.errors.InputError, match="data must be CalibrationData, got ndarray"):
        dc.prediction_table(dc.MaxSoftmax().fit(DATA.logits, DATA.labels), DATA.logits)


@pytest.mark.parametrize("name", ["p.csv", "p.npz", "p.parquet"])
@pytest.mark.parametrize("classes", [None, ("ant", "bee", "cat", "dog", "emu")])
def test_a_written_prediction_table_can_be_read_as_data(tmp_path, name, classes):
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    data = _grouped()
    data = dc.CalibrationData(
        data.logits, labels=data.labels, features=data.features, domains=data.domains,
        groups=data.groups, class_names=classes,
    )  # fmt: skip
    calibrator = dc.MultiDomainTemperatureScaling().fit(data)
    table = dc.prediction_table(calibrator, data)
    assert len(table) == len(data)
    np.testing.assert_array_equal(table["temperature"], calibrator.predict_temperature(data))
    np.testing.assert_array_equal(table["confidence"], calibrator.predict_confidence(data))
    predicted = data.logits.argmax(axis=1)
    expected = predicted if classes is None else np.array(classes)[predicted]
    assert table["predicted"].tolist() == expected.tolist()
    dc.write_table(table, tmp_path / name)
    again = dc.read(tmp_path / name)
    np.testing.assert_array_equal(again.labels, data.labels)
    np.testing.assert_array_equal(again.domains, data.domains)
    np.testing.assert_array_equal(again.groups, data.groups)
    assert again.class_names == classes
    p = calibrator.predict_proba(data)
    np.testing.assert_allclose(np.exp(again.logits), np.maximum(p, 1e-12), rtol=1e-12)


def test_prediction_table_has_no_column_for_missing_values():
    calibrator = dc.IsotonicCalibration().fit(DATA.logits, DATA.labels)
    table = dc.prediction_table(calibrator, dc.CalibrationData(DATA.logits))
    assert table.columns.tolist() == ["predicted", "confidence", *(f"prob_{k}" for k in range(5))]


def test_write_table_refuses_unknown_formats(tmp_path):
    table = dc.prediction_table(dc.MaxSoftmax().fit(DATA.logits, DATA.labels), DATA)
    with pytest.raises(dc.errors.InputError, match=r"suffix '\.txt'; predictions are written to"):
        dc.write_table(table, tmp_path / "p.txt")


def test_a_fold_for_each_domain_is_leaving_one_domain_out():
    for data in (DATA, _grouped()):
        folds = dc.evaluate_leave_one_domain_out(METHODS, data, n_folds=6, random_state=3)
        single = dc.evaluate_leave_one_domain_out(METHODS, data, random_state=3)
        pd.testing.assert_frame_equal(folds, single)


def test_a_fold_is_scored_by_a_fit_to_all_other_folds():
    folds = []

    def track(steps):
        folds.extend(steps)
        return iter(steps)

    found = dc.evaluate_leave_one_domain_out(METHODS, DATA, n_folds=4, track=track)
    assert sorted(map(len, folds)) == [1, 1, 2, 2]
    assert found["domain"].tolist() == DATA.domain_names.tolist() * 2
    for fold in folds:
        others, rows = dc.split_domains(DATA, fold)
        expected = dc.evaluate(METHODS, train=others, test=rows)
        part = found[found["domain"].isin(fold)].drop(columns="kind").reset_index(drop=True)
        pd.testing.assert_frame_equal(part, expected)
    fitted = _record(_grouped(), leave_out=True, n_folds=3)
    assert len(fitted) == 3
    for groups, domains, scored, new in fitted:
        assert not groups & scored
        assert (len(domains), len(new)) == (4, 2)
        assert not domains & new


def test_the_random_state_deals_the_folds():
    dealt = set()
    for seed in range(4):
        _record(_grouped(), leave_out=True, n_folds=2, by="row", random_state=seed)
        dealt.add(frozenset(_Recorder.fits[0][1]))
    assert len(dealt) > 1


@pytest.mark.parametrize(
    ("n_folds", "message"),
    [
        (1, "n_folds must be a whole number >= 2, got 1"),
        (2.5, "n_folds must be a whole number"),
        (7, "7 folds need at least 7 domains, but the data have 6; use fewer folds"),
    ],
)
def test_wrong_numbers_of_folds_are_refused(n_folds, message):
    with pytest.raises(dc.errors.InputError, match=message):
        dc.evaluate_leave_one_domain_out(METHODS, DATA, n_folds=n_folds)


def test_warnings_and_errors_name_the_methods_they_come_from():
    few = DATA.select(np.r_[0:160, 160:164, 240:480])
    methods = {"one": dc.DomainTemperatureScaling(), "two": dc.MultiDomainTemperatureScaling()}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        dc.evaluate(methods, train=few, test=few)
    (warning,) = caught
    assert str(warning.message).startswith("one, two: fewer than 10 rows in domain 'domain-2'")
    assert warning.filename == __file__
    plain = dc.CalibrationData(DATA.logits, labels=DATA.labels, domains=DATA.domains)
    with pytest.raises(dc.errors.InputError, match=r"^two: .*TemperatureScaling needs feat"):
        dc.evaluate_split(methods, plain)

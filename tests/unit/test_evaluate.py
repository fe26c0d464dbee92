"""evaluate and score_table: results table of calibrators."""

import numpy as np
import pytest

import domaincal as dc
from support import CALIBRATORS, small_domains

DATA = small_domains()


def test_the_columns_of_the_table_are_the_public_metrics():
    ind, ood = dc.split_domains(DATA, ["domain-2", "domain-4"])
    train, _ = dc.split_halves(ind)
    table = dc.evaluate(dc.MultiDomainTemperatureScaling(), train=train, test=ood, n_bins=10)
    assert table["domain"].tolist() == ["domain-2", "domain-4"]
    calibrator = dc.MultiDomainTemperatureScaling().fit(train)
    for _, row in table.iterrows():
        part = ood.select(ood.domains == row["domain"])
        p = calibrator.predict_proba(part)
        assert row["n"] == len(part)
        assert row["ece"] == pytest.approx(dc.expected_calibration_error(p, part.labels, n_bins=10))
        assert row["excess"] == pytest.approx(
            dc.excess_calibration_error(p, part.labels, n_bins=10)
        )
        assert row["floor"] == pytest.approx(row["ece"] - row["excess"])
        assert row["accuracy"] == pytest.approx(dc.metrics.accuracy(p, part.labels))
        assert row["gap"] == pytest.approx(abs(row["mean_confidence"] - row["accuracy"]))
        assert row["nll"] == pytest.approx(dc.negative_log_likelihood(p, part.labels))
        assert row["brier"] == pytest.approx(dc.brier_score(p, part.labels))


def test_evaluate_does_not_fit_the_given_calibrator():
    calibrator = dc.TemperatureScaling()
    dc.evaluate(calibrator, train=DATA, test=DATA)
    assert not hasattr(calibrator, "temperature_")


def test_every_calibrator_can_be_evaluated():
    methods = {name: make() for name, make in CALIBRATORS.items()}
    table = dc.evaluate(methods, train=DATA, test=DATA)
    assert table["method"].unique().tolist() == list(CALIBRATORS)
    assert np.isfinite(table.drop(columns=["method", "domain"])).all(axis=None)
    # On the rows of the fit, no temperatures of domains have a lower NLL than the fitted ones.
    nll = table.groupby("method")["nll"].mean()
    assert nll["domain-ts"] <= nll["ts"] <= nll["msp"]


class _HalfConfident(dc.TemperatureScaling):
    """Confidence that is not the maximum of the probabilities, as in binning methods."""

    def predict_confidence(self, logits, **given):
        return np.full(len(logits), 0.5)

    def predict_proba(self, logits, **given):
        return np.roll(super().predict_proba(logits, **given), 1, axis=1)


def test_confidence_is_scored_with_the_argmax_of_the_logits():
    table = dc.evaluate(_HalfConfident(), train=DATA, test=DATA)
    assert (table["mean_confidence"] == 0.5).all()
    right = DATA.logits.argmax(axis=1) == DATA.labels
    assert table["accuracy"].mean() == pytest.approx(right.mean())
    np.testing.assert_allclose(table["ece"], (table["accuracy"] - 0.5).abs())


def test_methods_are_named_by_class_or_by_repr_if_a_class_occurs_twice():
    two = [dc.MultiDomainTemperatureScaling(), dc.MultiDomainTemperatureScaling(target="log")]
    names = dc.evaluate(two, train=DATA, test=DATA)["method"].unique().tolist()
    assert names == [
        "MultiDomainTemperatureScaling()", "MultiDomainTemperatureScaling(target='log')",
    ]  # fmt: skip


def test_invalid_calibrators_are_refused():
    with pytest.raises(dc.errors.InputError, match=r"MaxSoftmax\(\) twice"):
        dc.evaluate(
            [dc.TemperatureScaling(), dc.MaxSoftmax(), dc.MaxSoftmax()], train=DATA, test=DATA
        )
    for empty in ([], {}):
        with pytest.raises(dc.errors.InputError, match="calibrators is empty"):
            dc.evaluate(empty, train=DATA, test=DATA)
    for wrong in (dc.TemperatureScaling, "ts", {"a": 3}):
        with pytest.raises(dc.errors.InputError, match="not a calibrator; pass instances"):
            dc.evaluate(wrong, train=DATA, test=DATA)
    with pytest.raises(dc.errors.InputError, match="train must be CalibrationData, got tuple"):
        dc.evaluate(dc.MaxSoftmax(), train=(1, 2), test=DATA)


def test_rows_without_domains_are_one_domain():
    plain = dc.CalibrationData(DATA.logits, labels=DATA.labels)
    table = dc.evaluate(dc.TemperatureScaling(), train=plain, test=plain)
    assert table["domain"].tolist() == ["all"]


def test_rows_without_labels_are_refused():
    plain = dc.CalibrationData(DATA.logits, labels=DATA.labels)
    unlabelled = dc.CalibrationData(DATA.logits)
    for train, test, name in ((unlabelled, plain, "train"), (plain, unlabelled, "test")):
        with pytest.raises(dc.errors.InputError, match=f"{name} has no labels"):
            dc.evaluate(dc.TemperatureScaling(), train=train, test=test)


def test_synthetic_data_have_the_requested_shape_and_temperatures():
    data, truth = dc.make_multi_domain(3, 50, 4, 2, temperatures=(2.0, 2.0), random_state=1)
    assert truth.tolist() == [2.0] * 3
    assert data.logits.shape == (150, 4)
    same, _ = dc.make_multi_domain(3, 50, 4, 2, temperatures=(2.0, 2.0), random_state=1)
    np.testing.assert_array_equal(same.logits, data.logits)


def test_invalid_options_of_synthetic_data_are_refused():
    for options in (
        {"n_domains": 0}, {"n_classes": 1}, {"temperatures": (3.0, 1.0)}, {"temperatures": 2.0},
        {"noise": -1.0}, {"noise": np.nan}, {"random_state": -1},
    ):  # fmt: skip
        with pytest.raises(dc.errors.InputError, match=next(iter(options))):
            dc.make_multi_domain(**options)


def test_rows_are_selected_by_number_or_mask():
    assert len(DATA.select([2, 0])) == 2
    assert len(DATA.select(DATA.domains == "domain-1")) == 80
    for rows, message in [([], "empty"), ([999], "do not match"), ([True], "do not match"),
                          ("domain-1", "row numbers, a mask")]:  # fmt: skip
        with pytest.raises(dc.errors.InputError, match=message):
            DATA.select(rows)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_nll_does_not_depend_on_the_precision_of_the_logits(dtype):
    """Probabilities that single precision would round to 0 still count in the NLL."""
    rng = np.random.default_rng(0)
    scores = rng.normal(0, 2, size=(400, 10))
    labels = np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)
    z = (30 * scores).astype(np.float16).astype(dtype)
    data = dc.CalibrationData(z, labels=labels)
    found = dc.evaluate(dc.MaxSoftmax(), train=data, test=data).loc[0, "nll"]
    exact = z.astype(np.float64)
    log_p = exact - np.logaddexp.reduce(exact, axis=1, keepdims=True)
    assert found == pytest.approx(-log_p[np.arange(400), labels].mean(), rel=1e-6)

"""Data from which little can be learned: warnings name the domains and the cure."""

import warnings

import numpy as np
import pytest

import domaincal as dc
from support import CALIBRATORS, SLOW_TO_FIT, fit, probabilities, small_domains, temperatures

DATA = small_domains()
N = len(DATA)


def _with_degenerate_domain(name):
    z, y = DATA.logits.copy(), DATA.labels.copy()
    odd = DATA.domains == "domain-3"
    if name == "all right":
        y[odd] = z[odd].argmax(axis=1)
    elif name == "all wrong":
        y[odd] = z[odd].argmin(axis=1)
    elif name == "all equal":
        z[odd] = 2.5
    keep = np.ones(N, bool)
    if name in ("three rows", "one row"):
        keep[np.flatnonzero(odd)[3 if name == "three rows" else 1 :]] = False
    return dc.CalibrationData(
        z[keep], labels=y[keep], features=DATA.features[keep], domains=DATA.domains[keep]
    )


@pytest.mark.parametrize("name", ["all right", "all wrong", "all equal", "three rows", "one row"])
@pytest.mark.parametrize("method", ["domain-ts", "md-ts", "md-ts-log", "md-ts-ridge"])
def test_a_degenerate_domain_is_named_and_not_used(kernel, name, method):
    data = _with_degenerate_domain(name)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted = fit(CALIBRATORS[method](), data)
    wanted = dc.errors.SmallDomainWarning if "row" in name else dc.errors.BoundaryWarning
    reason = {
        "all right": "No row is misclassified", "all wrong": "The labels contradict the logits",
        "all equal": "All logits of each row are equal",
    }  # fmt: skip
    named = [w for w in caught if issubclass(w.category, wanted)]
    assert len(named) == 1
    assert "in domain 'domain-3'" in str(named[0].message)
    assert reason.get(name, "Add rows or merge domains") in str(named[0].message)
    t = fitted.domain_temperatures_
    assert (np.isfinite(t) & (t > 0)).all()
    assert len(t) == 6
    predicted = temperatures(fitted, data)
    assert (np.isfinite(predicted) & (predicted > 0)).all()
    assert "domain-3" not in fitted.used_domains_
    if method == "domain-ts":
        np.testing.assert_array_equal(predicted[data.domains == "domain-3"], fitted.temperature_)
    else:
        rest = fit(CALIBRATORS[method](), data.select(data.domains != "domain-3"))
        np.testing.assert_allclose(fitted.coef_, rest.coef_, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("make", CALIBRATORS.values(), ids=CALIBRATORS)
@pytest.mark.parametrize("right", [True, False])
@pytest.mark.filterwarnings("ignore::domaincal.DomaincalWarning")
def test_probabilities_are_finite_if_all_rows_are_right_or_wrong(kernel, make, right):
    labels = DATA.logits.argmax(axis=1) if right else DATA.logits.argmin(axis=1)
    data = dc.CalibrationData(
        DATA.logits, labels=labels, features=DATA.features, domains=DATA.domains
    )
    p = probabilities(fit(make(), data), data)
    assert (np.isfinite(p) & (p >= 0)).all()
    np.testing.assert_allclose(p.sum(axis=1), 1.0)


@pytest.mark.filterwarnings("ignore::domaincal.errors.BoundaryWarning")
def test_without_a_usable_domain_every_row_gets_the_pooled_temperature():
    domains = np.arange(N) // 5
    with (
        pytest.warns(dc.errors.SmallDomainWarning, match=r"and 86 more"),
        pytest.warns(dc.errors.SmallDomainWarning, match=r"every row gets the pooled temperature"),
    ):
        fitted = dc.MultiDomainTemperatureScaling("ridge").fit(
            DATA.logits, DATA.labels, features=DATA.features, domains=domains
        )
    t = fitted.predict_temperature(DATA.logits, features=DATA.features)
    np.testing.assert_allclose(t, fitted.temperature_)
    assert len(fitted.used_domains_) == 0


@pytest.mark.parametrize("scale", [1e-4, 1e4, 1e12])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_temperature_scales_with_large_and_small_logits(kernel, scale, dtype):
    z = (DATA.logits * scale).astype(dtype)
    fitted = dc.TemperatureScaling().fit(z, DATA.labels)
    expected = dc.TemperatureScaling().fit(DATA.logits, DATA.labels).temperature_
    assert fitted.temperature_ == pytest.approx(scale * expected, rel=1e-5)
    p = fitted.predict_proba(z)
    assert np.isfinite(p).all()


def test_logits_whose_spread_overflows_are_an_error(kernel):
    z = DATA.logits.astype(np.float64) * 1e300
    with (
        pytest.raises(dc.errors.InputError, match="too large for their precision"),
        np.errstate(over="ignore"),
    ):
        dc.TemperatureScaling().fit(z, DATA.labels)


def test_standardised_features_without_an_intercept_raise_a_warning():
    """Without an intercept, predictions for standardised features collapse to the lower clip."""
    standard = (DATA.features - DATA.features.mean(axis=0)) / DATA.features.std(axis=0)
    arguments = {"features": standard, "domains": DATA.domains}
    cures = (
        r"try fit_intercept=True \(standardised features need it\), target='log' or another head"
    )
    with pytest.warns(dc.errors.PoorHeadWarning, match=cures):
        dc.MultiDomainTemperatureScaling().fit(DATA.logits, DATA.labels, **arguments)
    dc.MultiDomainTemperatureScaling(fit_intercept=True).fit(DATA.logits, DATA.labels, **arguments)


def _warns_in_fit():
    fit_domains = dc.DomainTemperatureScaling().fit
    fit_domains(DATA.logits, DATA.labels, domains=np.arange(N) // 5)


def _warns_in_prediction():
    fitted = dc.DomainTemperatureScaling().fit(DATA)
    fitted.predict_proba(DATA.logits, domains=np.full(N, "new"))


def _warns_in_evaluate():
    rows = DATA.select(np.r_[0:3, 80:480])
    dc.evaluate(dc.DomainTemperatureScaling(), train=rows, test=rows)


def _warns_in_evaluate_split():
    dc.evaluate_split(dc.TemperatureScaling(), DATA.select(np.r_[0, 80:480]))


@pytest.mark.parametrize(
    "call", [_warns_in_fit, _warns_in_prediction, _warns_in_evaluate, _warns_in_evaluate_split]
)
def test_a_warning_points_to_the_line_that_called_domaincal(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    assert caught
    assert {warning.filename for warning in caught} == {__file__}


#: Why a calibrator depends on the unit of the weights.
COUNTS_ROWS = {
    "md-ts-ridge-fixed": "alpha has the unit of the weights, as in scikit-learn",
    "bbq": "the posterior of a bin depends on its number of rows",
    "bbq-rest": "the posterior of a bin depends on its number of rows",
    "transcal": "the variance of an accuracy depends on its number of rows",
    "vector": "the penalty has the unit of the weights",
}
WEIGHT = np.random.default_rng(3).uniform(0.5, 2.0, N)


@pytest.mark.filterwarnings("ignore::domaincal.errors.DomaincalWarning")
@pytest.mark.parametrize("name", sorted({*CALIBRATORS} - {*COUNTS_ROWS, *SLOW_TO_FIT}))
def test_the_unit_of_the_weights_changes_nothing(name):
    few = DATA.select(np.arange(N) % 4 == 0)
    weight = WEIGHT[: len(few)]
    expected = probabilities(fit(CALIBRATORS[name](), few, sample_weight=weight), few)
    for unit in (1e-100, 1e89):
        found = probabilities(fit(CALIBRATORS[name](), few, sample_weight=weight * unit), few)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


@pytest.mark.filterwarnings("ignore::domaincal.errors.DomaincalWarning")
@pytest.mark.parametrize("name", ["domain-ts", "md-ts-equal", "md-ts-krr", "isotonic"])
def test_weights_of_very_different_size_give_finite_numbers(name):
    """For kernel ridge, whose penalty is divided by the weights, too."""
    for tiny in (np.arange(N) % 2 == 0, DATA.domains == "domain-2"):
        fitted = fit(CALIBRATORS[name](), DATA, sample_weight=np.where(tiny, 1e-119, 1e95))
        assert np.isfinite(probabilities(fitted, DATA)).all()


@pytest.mark.parametrize("unit", [1e-100, 1e-15, 1e15, 1e89])
def test_bayesian_binning_takes_weights_that_can_be_rows(unit):
    fit(dc.BayesianBinning(), DATA, sample_weight=WEIGHT)
    with pytest.raises(dc.errors.InputError, match=r"weight of 2 as two rows.*scale the weights"):
        fit(dc.BayesianBinning(), DATA, sample_weight=WEIGHT * unit)


def test_bayesian_binning_takes_weights_that_sum_to_1_up_to_rounding():
    for seed in range(20):
        weight = np.random.default_rng(seed).uniform(0.5, 1.5, N)
        fit(dc.BayesianBinning(), DATA, sample_weight=weight / weight.sum())


@pytest.mark.parametrize(("size", "weight"), [(1e150, 1e90), (1e154, None), (1e200, None)])
def test_logits_too_large_for_their_sums_are_an_error(kernel, size, weight):
    """Not a warning of numpy, nor a temperature from sums that are infinite."""
    weights = None if weight is None else np.full(N, weight)
    with pytest.raises(dc.errors.InputError, match="too large for their precision"):
        dc.TemperatureScaling().fit(DATA.logits * size, DATA.labels, sample_weight=weights)

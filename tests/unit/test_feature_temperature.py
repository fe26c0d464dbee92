"""FeatureTemperatureScaling and its joint fit."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax

import domaincal as dc
from domaincal.calibrators.features import feature_temperature
from domaincal.calibrators.features.feature_temperature import _limits
from domaincal.calibrators.features.joint_temperature_fit import JointRows
from support import fit, small_domains, temperatures

DATA = small_domains(n_domains=8)


def _replace(data, **arrays):
    names = ("logits", "labels", "features", "domains")
    return dc.CalibrationData(**{name: arrays.get(name, getattr(data, name)) for name in names})


def _linear_rows(rng, n, n_features=3, coef=0.4, scale=1.0):
    """Rows whose log T is coef times the first feature."""
    x = rng.normal(size=(n, n_features))
    z = rng.normal(size=(n, 5)) * 3.0
    t = np.exp(coef * x[:, 0])
    y = np.argmax(z / t[:, None] + rng.gumbel(size=z.shape), axis=1)
    return scale * z, y, x, scale * t


@pytest.mark.parametrize("penalty", [1e-4, 0.01, 1.0])
def test_the_joint_fit_is_the_minimum_of_its_objective(penalty):
    """Oracle: scipy's BFGS on the objective, with numerical derivatives."""
    rng = np.random.default_rng(0)
    z, y, x, _ = _linear_rows(rng, 300)
    share = rng.uniform(0.5, 2.0, 300)
    share /= share.sum()

    def objective(theta):
        p = log_softmax(z / np.exp(x @ theta[:-1] + theta[-1])[:, None], axis=1)
        return -share @ p[np.arange(300), y] + 0.5 * penalty * theta[:-1] @ theta[:-1]

    expected = minimize(objective, np.zeros(4), tol=1e-10)
    found = JointRows(z, y, x, share).fit(penalty, np.zeros(4))
    np.testing.assert_allclose(found, expected.x, atol=1e-5)
    assert objective(found) <= expected.fun + 1e-12


def test_the_joint_fit_reaches_the_minimum_from_a_far_start():
    z, y, x, _ = _linear_rows(np.random.default_rng(1), 300)
    rows = JointRows(z, y, x, np.full(300, 1 / 300))
    near = rows.fit(0.01, np.zeros(4))
    for start in ([3.0, -2.0, 1.0, 3.0], [-4.0, 0.0, 0.0, -3.0]):
        np.testing.assert_allclose(rows.fit(0.01, np.array(start)), near, atol=1e-8)


@pytest.mark.parametrize("domains", [True, False])
def test_a_linear_log_temperature_is_recovered(domains):
    """log T = 0.4 x: within 0.1 for rows inside the limits."""
    z, y, x, t = _linear_rows(np.random.default_rng(2), 6000)
    # Domains by the first feature, so that leaving some out shows whether the line goes on.
    names = np.digitize(x[:, 0], np.linspace(-2, 2, 9))
    given = {"domains": names} if domains else {}
    fitted = dc.FeatureTemperatureScaling().fit(z, y, features=x, **given)
    found = fitted.predict_temperature(z, features=x)
    inside = (t > fitted.clip_[0]) & (t < fitted.clip_[1])
    assert inside.mean() > 0.95
    assert np.abs(np.log(found / t))[inside].max() < 0.15
    assert fitted.coef_[0] == pytest.approx(0.4, abs=0.05)
    assert np.abs(fitted.coef_[1:]).max() < 0.05


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("n_features", [5, 60])
@pytest.mark.parametrize("with_domains", [True, False])
def test_useless_features_shrink_to_temperature_scaling(seed, n_features, with_domains):
    """On new rows, the NLL is hardly above that of one temperature."""
    data = small_domains(seed, n_domains=8, n_rows=100)
    rng = np.random.default_rng([seed, 1])
    train = np.arange(len(data)) % 2 == 0
    noise = rng.normal(size=(len(data), n_features))
    given = {"domains": data.domains[train]} if with_domains else {}
    fitted = dc.FeatureTemperatureScaling().fit(
        data.logits[train], data.labels[train], features=noise[train], **given
    )
    one = dc.TemperatureScaling().fit(data.logits[train], data.labels[train])
    nll, nll_one = (
        dc.negative_log_likelihood(
            c.predict_proba(data.logits[~train], features=noise[~train]), data.labels[~train]
        )
        for c in (fitted, one)
    )
    assert nll < nll_one + 0.015


def test_an_infinite_penalty_is_temperature_scaling(monkeypatch):
    monkeypatch.setattr(feature_temperature, "PENALTIES", (np.inf,))
    fitted = fit(dc.FeatureTemperatureScaling(), DATA)
    assert fitted.penalty_ == np.inf
    expected = fit(dc.TemperatureScaling(), DATA).temperature_
    np.testing.assert_allclose(temperatures(fitted, DATA), expected, rtol=1e-12)


def test_the_search_scores_temperature_scaling_of_the_other_domains():
    """Below 6 domains, every domain is a fold; the first candidate is one temperature."""
    data = DATA.select(np.isin(DATA.domains, [f"domain-{k}" for k in range(5)]))
    fitted = fit(dc.FeatureTemperatureScaling(), data)
    expected = []
    for name in np.unique(data.domains):
        own = data.domains == name
        others = fit(dc.TemperatureScaling(), data.select(~own))
        p = others.predict_proba(data.logits[own])
        expected.append(dc.negative_log_likelihood(p, data.labels[own]))
    search = fitted.penalty_search_
    assert search["nll"].iloc[0] == pytest.approx(np.mean(expected), rel=1e-9)
    assert fitted.penalty_ == search["penalty"].iloc[search["nll"].argmin()]


@pytest.mark.parametrize("factor", [1e3, -1e6, 1e12])
@pytest.mark.filterwarnings("ignore::domaincal.errors.ClippedTemperatureWarning")
def test_far_rows_stay_within_the_limits(factor):
    fitted = fit(dc.FeatureTemperatureScaling(), DATA)
    assert np.isfinite(fitted.penalty_)
    own = temperatures(fitted, DATA)
    t = fitted.predict_temperature(DATA.logits, features=DATA.features * factor)
    assert t.min() >= fitted.clip_[0]
    assert t.max() <= fitted.clip_[1]
    # The limits are temperatures of calibration rows, and hardly any of them lies beyond.
    assert (own.min(), own.max()) == fitted.clip_
    assert ((own > fitted.clip_[0]) & (own < fitted.clip_[1])).mean() > 0.98


def test_the_limits_are_quantiles_of_weighted_rows():
    rng = np.random.default_rng(0)
    values, times = rng.normal(size=400), rng.integers(1, 5, 400)
    repeated = np.repeat(values, times)
    expected = _limits(repeated, np.full(len(repeated), 1 / len(repeated)))
    assert _limits(values, times / times.sum()) == expected
    low, high = np.exp(np.quantile(repeated, [0.005, 0.995], method="inverted_cdf"))
    assert expected == pytest.approx((low, high), rel=1e-12)


@pytest.mark.filterwarnings("ignore::domaincal.errors.BoundaryWarning")
def test_rows_that_do_not_determine_a_temperature_give_the_pooled_one(tmp_path):
    right = _replace(DATA, labels=DATA.logits.argmax(axis=1))
    fitted = fit(dc.FeatureTemperatureScaling(), right)
    np.testing.assert_allclose(temperatures(fitted, right), fitted.temperature_, rtol=1e-12)
    assert len(fitted.penalty_search_) == 0
    fitted.save(tmp_path / "model.safetensors")
    assert dc.load(tmp_path / "model.safetensors").penalty_ == np.inf


@pytest.mark.parametrize("n_rows", [6, 15])
def test_too_few_rows_for_a_search_give_temperature_scaling(n_rows):
    few = DATA.select(np.arange(n_rows))
    fitted = dc.FeatureTemperatureScaling().fit(few.logits, few.labels, features=few.features)
    expected = dc.TemperatureScaling().fit(few.logits, few.labels).temperature_
    np.testing.assert_allclose(temperatures(fitted, DATA), expected, rtol=1e-12)


def test_a_sample_of_the_rows_is_close_to_all():
    z, y, x, _ = _linear_rows(np.random.default_rng(3), 8000)
    with pytest.warns(dc.errors.SubsampleWarning, match="4000 of 8000 rows; raise max_rows=4000"):
        some = dc.FeatureTemperatureScaling(max_rows=4000).fit(z, y, features=x)
    whole = dc.FeatureTemperatureScaling().fit(z, y, features=x)
    np.testing.assert_allclose(some.coef_, whole.coef_, atol=0.05)
    again = dc.FeatureTemperatureScaling(max_rows=8000).fit(z, y, features=x)
    np.testing.assert_array_equal(again.coef_, whole.coef_)


def test_features_that_cannot_be_inverted_are_fitted():
    """A column twice, and more features than rows."""
    rng = np.random.default_rng(4)
    twice = np.column_stack([DATA.features, DATA.features])
    single, double = (
        fit(dc.FeatureTemperatureScaling(), _replace(DATA, features=x))
        for x in (DATA.features, twice)
    )
    assert np.isfinite(temperatures(double, _replace(DATA, features=twice))).all()
    # Two copies halve each coefficient.
    np.testing.assert_allclose(double.coef_[:4], double.coef_[4:], atol=1e-8)
    assert np.sign(double.coef_[:4] + double.coef_[4:]) == pytest.approx(np.sign(single.coef_))
    few = DATA.select(np.arange(len(DATA)) % 8 == 0)
    wide = _replace(few, features=rng.normal(size=(len(few), 300)))
    t = temperatures(fit(dc.FeatureTemperatureScaling(), wide), wide)
    assert (np.isfinite(t) & (t > 0)).all()

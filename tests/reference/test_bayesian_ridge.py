"""Bayesian ridge regression from sums, compared with scikit-learn's."""

from functools import reduce
from operator import add

import numpy as np
import pytest
from sklearn.linear_model import BayesianRidge

from domaincal.statistics.bayesian_ridge import RidgeSums, fit_bayesian_ridge

# Rows, columns, noise of the targets.
SHAPES = [(300, 5, 0.5), (40, 12, 0.1), (2000, 3, 2.0), (25, 20, 0.3), (60, 12, 5.0)]


def _problem(seed, n_rows, n_columns, noise):
    """Rows with columns of different scales and a constant, and linear targets with noise."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_rows, n_columns)) * rng.uniform(0.3, 3.0, n_columns)
    x[:, -1] = 1.0
    targets = x @ rng.normal(size=n_columns) + noise * rng.normal(size=n_rows)
    return x, targets


def _oracle(x, targets):
    return BayesianRidge(fit_intercept=False, tol=1e-12, max_iter=10_000).fit(x, targets)


def _fit(x, targets, weight=None):
    weight = np.ones(len(x)) if weight is None else np.asarray(weight, np.float64)
    return fit_bayesian_ridge(RidgeSums.from_rows(x, targets, weight))


def _assert_equal(found, expected, rtol=1e-4):
    scale = np.abs(expected.coef_).max()
    np.testing.assert_allclose(found.coef, expected.coef_, rtol=rtol, atol=rtol * scale)
    assert found.noise == pytest.approx(1.0 / expected.alpha_, rel=rtol)
    spread = np.abs(expected.sigma_).max()
    np.testing.assert_allclose(found.covariance, expected.sigma_, rtol=rtol, atol=rtol * spread)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_the_posterior_is_that_of_scikit_learn(seed, shape):
    x, targets = _problem(seed, *shape)
    _assert_equal(_fit(x, targets), _oracle(x, targets))


@pytest.mark.parametrize("shape", SHAPES[:3], ids=str)
def test_an_integer_weight_is_a_repetition(shape):
    x, targets = _problem(3, *shape)
    times = np.random.default_rng(0).integers(0, 4, len(x))
    rows = np.repeat(np.arange(len(x)), times)
    _assert_equal(_fit(x, targets, times), _oracle(x[rows], targets[rows]))


def test_few_rows_shrink_towards_0():
    """With fewer rows than columns there is no least-squares solution to fall back to."""
    x, targets = _problem(4, 6, 15, 0.3)
    found = _fit(x, targets)
    assert np.isfinite(found.coef).all()
    smallest = np.linalg.pinv(x) @ targets  # the shortest solution without noise
    assert np.linalg.norm(found.coef) <= np.linalg.norm(smallest) * (1 + 1e-9)
    one = _fit(x[:1], targets[:1])
    assert np.isfinite(one.coef).all()
    assert abs(x[0] @ one.coef) <= abs(targets[0])


@pytest.mark.parametrize("copies", [2, 3])
def test_equal_columns_share_a_coefficient(copies):
    x, targets = _problem(5, 200, 4, 0.5)
    wide = np.hstack([x] + [x[:, :1]] * (copies - 1) + [np.zeros((200, 2))])
    found = _fit(wide, targets)
    own = found.coef[[0, *range(4, 3 + copies)]]
    np.testing.assert_allclose(own, own[0], rtol=1e-8)
    np.testing.assert_allclose(found.coef[-2:], 0.0, atol=1e-12)
    _assert_equal(found, _oracle(wide, targets))


def test_targets_of_0_give_coefficients_of_0():
    x, _ = _problem(6, 50, 4, 0.5)
    found = _fit(x, np.zeros(50))
    np.testing.assert_array_equal(found.coef, 0.0)
    assert np.isfinite(found.covariance).all()
    assert np.isfinite(found.noise)


def test_pure_noise_has_smaller_coefficients_than_least_squares():
    norms = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        x, targets = rng.normal(size=(60, 12)), rng.normal(size=60)
        least_squares = np.linalg.lstsq(x, targets)[0]
        norms.append(np.linalg.norm(_fit(x, targets).coef) / np.linalg.norm(least_squares))
    assert np.mean(norms) < 0.5


def test_sums_of_parts_add_to_the_sums_of_all_rows():
    x, targets = _problem(7, 100, 4, 0.5)
    weight = np.random.default_rng(0).uniform(0.1, 3.0, 100)
    parts = [slice(0, 30), slice(30, 31), slice(31, 100)]
    total = reduce(add, (RidgeSums.from_rows(x[p], targets[p], weight[p]) for p in parts))
    whole = RidgeSums.from_rows(x, targets, weight)
    for name in ("gram", "moments", "square", "weight"):
        np.testing.assert_allclose(getattr(total, name), getattr(whole, name), rtol=1e-12)
    np.testing.assert_allclose(
        fit_bayesian_ridge(total).coef, fit_bayesian_ridge(whole).coef, rtol=1e-9
    )


def test_selected_sums_are_those_of_the_selected_columns():
    x, targets = _problem(8, 100, 6, 0.5)
    weight = np.random.default_rng(0).uniform(0.1, 3.0, 100)
    columns = np.array([4, 0, 5])
    selected = RidgeSums.from_rows(x, targets, weight).select(columns)
    expected = RidgeSums.from_rows(x[:, columns], targets, weight)
    for name in ("gram", "moments", "square", "weight"):
        np.testing.assert_allclose(getattr(selected, name), getattr(expected, name), rtol=1e-12)


def test_times_is_the_sums_of_repeated_rows():
    x, targets = _problem(9, 50, 4, 0.5)
    weight = np.ones(50)
    times = RidgeSums.from_rows(x, targets, weight).times(3.0)
    repeated = RidgeSums.from_rows(*(np.repeat(a, 3, axis=0) for a in (x, targets, weight)))
    for name in ("gram", "moments", "square", "weight"):
        np.testing.assert_allclose(getattr(times, name), getattr(repeated, name), rtol=1e-12)

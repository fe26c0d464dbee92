"""T is the root of the slope of the NLL: comparison with brentq in float64."""

from functools import cache

import numpy as np
import pytest

from domaincal import TemperatureScaling
from domaincal.statistics import LabelledRows, fit_temperature
from support import random_problem, root_temperature, slope

# 9 numbers of classes x 23 seeds = 207 problems, in 3 precisions and with both kernels.
CLASSES = (2, 3, 7, 10, 63, 64, 130, 200, 1000)


def _problem(seed, n_classes, dtype):
    rng = np.random.default_rng([seed, n_classes])
    n = int(rng.integers(60, max(100, min(2000, 30_000 // n_classes))))
    return random_problem(rng, n, n_classes, dtype)


@cache
def _root(seed, n_classes, dtype):
    """Temperature of the reference solver, computed once for both kernels."""
    problem = _problem(seed, n_classes, dtype)
    return root_temperature(problem.logits, problem.labels)


@pytest.mark.parametrize("n_classes", CLASSES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_temperature_is_the_root_of_the_slope(kernel, n_classes, dtype):
    for seed in range(23):
        problem = _problem(seed, n_classes, dtype)
        found = TemperatureScaling().fit(problem.logits, problem.labels).temperature_
        tolerance = 1e-8 if dtype is np.float64 else 1e-5
        assert found == pytest.approx(_root(seed, n_classes, dtype), rel=tolerance), seed


def test_the_temperature_of_many_rows_is_the_root_of_the_slope():
    """There are enough rows for a start from samples."""
    rng = np.random.default_rng(0)
    problem = random_problem(rng, 60_000, 10)
    found = fit_temperature(LabelledRows(problem.logits, problem.labels))
    expected = root_temperature(problem.logits, problem.labels)
    assert found.temperature[0] == pytest.approx(expected, rel=1e-8)
    assert found.n_iter <= 3


def test_temperatures_of_domains_are_those_of_their_rows(kernel):
    rng = np.random.default_rng(1)
    problem = random_problem(rng, 3000, 12)
    group = rng.integers(0, 7, size=3000)
    found = fit_temperature(LabelledRows(problem.logits, problem.labels, group, 7)).temperature
    for k in range(7):
        rows = group == k
        expected = root_temperature(problem.logits[rows], problem.labels[rows])
        assert found[k] == pytest.approx(expected, rel=1e-8)


def test_standard_error_is_the_spread_of_log_t_over_samples():
    """The sandwich formula is right although the model, one T for all rows, is wrong."""
    rng = np.random.default_rng(2)
    logs, errors = [], []
    for _ in range(300):
        z = rng.normal(0, 2, size=(400, 5))
        true = np.where(rng.random(400) < 0.5, 0.6, 3.0)
        y = np.argmax(z / true[:, None] + rng.gumbel(size=z.shape), axis=1)
        fit = fit_temperature(LabelledRows(z, y))
        logs.append(np.log(fit.temperature[0]))
        errors.append(fit.standard_error[0])
    # With 300 draws, a standard deviation is known to about 4%.
    assert np.mean(errors) == pytest.approx(np.std(logs), rel=0.13)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_few_iterations_are_needed_if_nearly_all_rows_are_correct(kernel, dtype):
    """Newton steps alone would be too short. A fit is at a bound if and only if it has no root."""
    for seed in range(150):
        rng = np.random.default_rng([7, seed])
        n, n_classes = int(rng.integers(3, 600)), int(rng.choice([2, 3, 10, 70]))
        z = rng.normal(size=(n, n_classes)) * rng.uniform(0.1, 20)
        y = z.argmax(axis=1)
        wrong = rng.choice(n, int(rng.integers(0, 3)), replace=False)
        y[wrong] = rng.integers(0, n_classes, len(wrong))
        z = (z * 10.0 ** rng.uniform(-3, 3)).astype(dtype)
        found = fit_temperature(LabelledRows(z, y))
        assert found.n_iter <= 20
        unit = z.astype(np.float64).std(axis=1).mean()
        if slope(z, y, 1 / (100 * unit)) < 0 < slope(z, y, 1 / (0.01 * unit)):
            assert not found.at_bound[0]
            tolerance = 1e-8 if dtype is np.float64 else 1e-5
            assert found.temperature[0] == pytest.approx(root_temperature(z, y), rel=tolerance)
        else:
            assert found.at_bound[0]
            ends = np.array([0.01, 100.0]) * unit
            assert np.isclose(found.temperature[0], ends, rtol=1e-5).any()

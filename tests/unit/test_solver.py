"""The temperature solver, which needs sums over rows only."""

from functools import reduce
from operator import add

import numpy as np
import pytest

import domaincal as dc
from domaincal.statistics import (
    LabelledRows,
    TemperatureSums,
    fit_temperature,
    solve_temperature,
)
from support import random_problem, root_temperature


def test_sums_of_sites_give_the_fit_of_all_rows():
    """Three sites send sums; no site sees the rows of another."""
    problem = random_problem(np.random.default_rng(0), 900, 6)
    sites = np.array_split(np.arange(900), [200, 210])

    def evaluate(beta):
        return reduce(
            add,
            (TemperatureSums.from_rows(problem.logits[s], problem.labels[s], beta) for s in sites),
        )

    fit = solve_temperature(evaluate)
    expected = root_temperature(problem.logits, problem.labels)
    assert fit.temperature[0] == pytest.approx(expected, rel=1e-10)
    assert not fit.at_bound[0]


@pytest.mark.parametrize("start", [1e-6, 0.01, 1.0, 50.0, 1e6])
def test_any_start_leads_to_the_root(start):
    problem = random_problem(np.random.default_rng(1), 300, 4)
    expected = root_temperature(problem.logits, problem.labels)
    fit = solve_temperature(
        lambda beta: TemperatureSums.from_rows(problem.logits, problem.labels, beta),
        start=np.array([start]),
    )
    assert fit.temperature[0] == pytest.approx(expected, rel=1e-10)
    assert fit.n_iter < 30


def test_few_evaluations_are_needed():
    counts = []
    for seed in range(50):
        problem = random_problem(np.random.default_rng(seed), 300, 4)
        fit = solve_temperature(
            lambda beta, p=problem: TemperatureSums.from_rows(p.logits, p.labels, beta)
        )
        counts.append(fit.n_iter)
    assert max(counts) <= 8


@pytest.mark.parametrize("right", [True, False])
def test_separable_rows_stop_at_the_bound(right):
    z = np.array([[3.0, 0.0, -1.0]] * 5)
    y = np.full(5, 0 if right else 2)
    fit = solve_temperature(lambda beta: TemperatureSums.from_rows(z, y, beta))
    assert fit.at_bound[0]
    assert fit.temperature[0] == pytest.approx(z[0].std() * (0.01 if right else 100.0))
    assert np.isnan(fit.standard_error[0])


def test_rows_without_spread_have_temperature_one():
    fit = solve_temperature(
        lambda beta: TemperatureSums.from_rows(np.full((4, 3), 2.0), np.zeros(4, int), beta)
    )
    assert fit.at_bound[0]
    assert fit.temperature[0] == 1.0


def test_bounds_are_in_units_of_the_spread():
    problem = random_problem(np.random.default_rng(2), 300, 4)
    fit = solve_temperature(
        lambda beta: TemperatureSums.from_rows(problem.logits, problem.labels, beta),
        bounds=(1e-4, 1e-3),
    )
    assert fit.at_bound[0]
    assert fit.temperature[0] == pytest.approx(1e-3 * problem.logits.std(axis=1).mean())


def test_converged_domains_are_left_out_of_later_passes():
    easy = random_problem(np.random.default_rng(3), 200, 4)
    z = np.concatenate([easy.logits, [[1.0, 0, 0, 0]] * 20])
    y = np.concatenate([easy.labels, [0] * 20])
    group = np.repeat([0, 1], [200, 20])
    seen = []

    def evaluate(beta):
        seen.append(np.isnan(beta))
        return TemperatureSums.from_rows(z, y, beta[group], domain=group, n_domains=2)

    fit = solve_temperature(evaluate, n_domains=2)
    assert fit.at_bound.tolist() == [False, True]
    assert any(skipped[0] != skipped[1] for skipped in seen)
    expected = root_temperature(easy.logits, easy.labels)
    assert fit.temperature[0] == pytest.approx(expected, rel=1e-10)


def test_standard_error_and_nll_equal_a_calculation_by_hand(kernel):
    """The sandwich sqrt(sum g^2) / (beta sum Var), and the mean NLL, in plain numpy."""
    problem = random_problem(np.random.default_rng(4), 3000, 12)
    fit = fit_temperature(LabelledRows(problem.logits, problem.labels))
    beta = 1.0 / fit.temperature[0]
    z = problem.logits
    log_p = beta * z - np.logaddexp.reduce(beta * z, axis=1, keepdims=True)
    p = np.exp(log_p)
    mean = (p * z).sum(axis=1)
    g = mean - z[np.arange(3000), problem.labels]
    variance = (p * (z - mean[:, None]) ** 2).sum(axis=1)
    expected = np.sqrt((g**2).sum()) / (beta * variance.sum())
    assert fit.standard_error[0] == pytest.approx(expected, rel=1e-6)
    nll = -log_p[np.arange(3000), problem.labels].mean()
    assert fit.nll[0] == pytest.approx(nll, rel=1e-8)


def test_rows_that_are_correct_with_probability_one_stop_at_the_bound(kernel):
    """One logit is far above 999 others: the slope is rounded to 0 long before the bound."""
    z = np.zeros((400, 1000))
    z[:, 3] = 10.0
    fit = fit_temperature(LabelledRows(z, np.full(400, 3)))
    assert fit.at_bound[0]
    assert fit.temperature[0] == pytest.approx(0.01 * z[0].std())


def test_a_domain_outside_the_sample_needs_no_more_passes_for_larger_logits():
    rng = np.random.default_rng(5)
    problem = random_problem(rng, 60_000, 10)
    group = np.zeros(60_000, int)
    group[140:170] = 1  # between the runs of rows that samples take
    passes = [
        fit_temperature(LabelledRows(c * problem.logits, problem.labels, group, 2)).n_iter
        for c in (1.0, 1e4)
    ]
    assert passes[0] == passes[1]


def test_sums_that_are_not_numbers_are_an_error():
    nan, one = np.full(1, np.nan), np.ones(1)
    with pytest.raises(dc.DomaincalError, match="no temperature found"):
        solve_temperature(lambda beta: TemperatureSums(one, nan, nan, nan, nan, one))

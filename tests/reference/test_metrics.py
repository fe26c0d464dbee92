"""Metrics against fractions by hand, literal second implementations and published values."""

from fractions import Fraction
from math import comb, erf, sqrt

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq

import domaincal as dc
from domaincal.statistics import error_interval
from domaincal.statistics.bin_sums import SMOOTH_BINS


def _confidences(n, overconfidence):
    """Confidences and hits of the reference values."""
    rng = np.random.default_rng(n)
    c = rng.uniform(0.3, 1.0, n)
    return c, rng.random(n) < np.clip(c - overconfidence, 0, 1)


def test_debiased_squared_error_equals_a_calculation_by_hand():
    """Confidence 3/4 with 1 hit of 3, and 1/4 with 1 hit of 2; a third bin has a single row."""
    c = [0.75, 0.75, 0.75, 0.25, 0.25, 0.05]
    hits = [1, 0, 0, 1, 0, 0]
    first = (Fraction(3, 4) - Fraction(1, 3)) ** 2 - Fraction(1, 3) * Fraction(2, 3) / 2
    second = (Fraction(1, 4) - Fraction(1, 2)) ** 2 - Fraction(1, 4)
    expected = (3 * first + 2 * second) / 5
    found = dc.metrics.BinSums.from_confidences(c, hits, n_bins=10).debiased_squared_error()
    assert found == pytest.approx(float(expected), abs=1e-15)
    assert np.isnan(dc.metrics.BinSums.from_confidences([0.5], [1]).debiased_squared_error())


@pytest.mark.parametrize(("n", "confidence", "accuracy"), [(2, 0.7, 0.7), (5, 0.9, 0.6)])
def test_debiased_squared_error_has_no_bias(n, confidence, accuracy):
    """Mean over all outcomes of n rows, weighted by their probabilities."""
    mean = 0.0
    for k in range(n + 1):
        chance = comb(n, k) * accuracy**k * (1 - accuracy) ** (n - k)
        sums = dc.metrics.BinSums.from_confidences([confidence] * n, [1] * k + [0] * (n - k))
        mean += chance * sums.debiased_squared_error()
    assert mean == pytest.approx((confidence - accuracy) ** 2, abs=1e-12)


def _literal_smooth_error(c, hits):
    """By quadrature: residuals smoothed by a Gaussian that is reflected at 0 and 1."""

    def smoothed(t, s):
        images = [t + 2 * k for k in range(-3, 4)] + [-t + 2 * k for k in range(-3, 4)]
        density = sum(np.exp(-0.5 * ((x - c) / s) ** 2) for x in images) / (s * sqrt(2 * np.pi))
        return float(np.mean(density * (hits - c)))

    def error(s):
        return quad(lambda t: abs(smoothed(t, s)), 0, 1, limit=400, epsabs=1e-7)[0]

    return brentq(lambda s: error(s) - s, 1e-3, 1.0, xtol=1e-7)


@pytest.mark.filterwarnings("ignore::scipy.integrate.IntegrationWarning")
@pytest.mark.parametrize("overconfidence", [0.0, 0.15])
def test_smooth_error_equals_a_literal_implementation(overconfidence):
    c, hits = _confidences(60, overconfidence)
    found = dc.metrics.BinSums.from_confidences(c, hits, n_bins=SMOOTH_BINS).smooth_error()
    assert found == pytest.approx(_literal_smooth_error(c, hits), abs=1e-4)


# smECE of relplot 1.0.3, which the authors of smooth ECE publish, on the recipe above:
# relplot.smECE(c, hits.astype(float)). It searches the width to 1e-3.
@pytest.mark.parametrize(
    ("n", "overconfidence", "published"),
    [(300, 0.0, 0.054982), (2000, 0.05, 0.071146), (5000, 0.2, 0.202420)],
)
def test_smooth_error_equals_the_published_values(n, overconfidence, published):
    c, hits = _confidences(n, overconfidence)
    found = dc.metrics.BinSums.from_confidences(c, hits, n_bins=SMOOTH_BINS).smooth_error()
    assert found == pytest.approx(published, abs=1e-3)


def test_smooth_error_of_equal_confidences_is_the_gap():
    p = [[0.7, 0.3]] * 10
    found = dc.metrics.smooth_calibration_error(p, [0] * 4 + [1] * 6)
    assert found == pytest.approx(0.3, abs=1e-6)
    assert dc.metrics.smooth_calibration_error([[1.0, 0.0]] * 3, [0, 0, 0]) == 0.0


def test_smooth_error_of_two_confidences_equals_a_calculation_by_hand():
    """Residuals +d and -d at 1/4 and 3/4: smoothed, they cancel where the Gaussians overlap.

    By symmetry the smoothed residual is antisymmetric about 1/2, and its integral over a half is
    d/2 (P(in own half) - P(in the other half)), with the folded Gaussian around 1/4.
    """
    d = 0.2
    c = np.array([0.25] * 20 + [0.75] * 20)
    hits = np.array([1] * 9 + [0] * 11 + [1] * 11 + [0] * 9)  # 0.45 and 0.55

    def error(s):
        def cdf(x):
            return 0.5 * (1 + erf((x - 0.25) / (s * sqrt(2))))

        own = sum(cdf(0.5 + 2 * k) - cdf(-0.5 + 2 * k) for k in range(-3, 4))
        return d * (2 * own - 1)

    expected = brentq(lambda s: error(s) - s, 1e-3, 1.0)
    found = dc.metrics.BinSums.from_confidences(c, hits, n_bins=SMOOTH_BINS).smooth_error()
    assert found == pytest.approx(expected, abs=1e-4)


def test_smooth_error_needs_many_uniform_bins():
    for options in ({"n_bins": 15}, {"n_bins": 2000, "strategy": "quantile"}):
        sums = dc.metrics.BinSums.from_confidences([0.2, 0.6, 0.9], [0, 1, 1], **options)
        with pytest.raises(dc.errors.InputError, match=r"at least 1000 uniform bins.*n_bins=16384"):
            sums.smooth_error()


def test_classwise_error_equals_a_calculation_by_hand():
    """Class 0: 0.8 and 0.7 with one occurrence in the bin, 0.1 with none; the others likewise."""
    p = [[0.8, 0.1, 0.1], [0.7, 0.2, 0.1], [0.1, 0.3, 0.6]]
    y = [0, 1, 2]
    # Two bins (0, 1/2] and (1/2, 1]; sums of p less occurrences, class by class.
    first = abs(1.5 - 1) + abs(0.1 - 0)
    second = abs(0.6 - 1)
    third = abs(0.2 - 0) + abs(0.6 - 1)
    expected = (first + second + third) / 3 / 3
    assert dc.metrics.classwise_calibration_error(p, y, n_bins=2) == pytest.approx(expected)
    weighted = dc.metrics.classwise_calibration_error(p, y, n_bins=2, sample_weight=[2, 1, 3])
    rows = [p[0]] * 2 + [p[1]] + [p[2]] * 3
    repeated = dc.metrics.classwise_calibration_error(rows, [0, 0, 1, 2, 2, 2], n_bins=2)
    assert weighted == pytest.approx(repeated)


def test_both_of_two_classes_have_the_same_error():
    rng = np.random.default_rng(0)
    p = rng.dirichlet([1, 1], 200)
    y = rng.integers(0, 2, 200)
    of_class = dc.metrics.confidence_calibration_error(p[:, 1], y == 1, n_bins=1)
    assert dc.metrics.classwise_calibration_error(p, y, n_bins=1) == pytest.approx(of_class)


def _literal_decomposition(p, y, n_bins):
    """Every term from its definition, in fractions."""
    terms = [Fraction(0)] * 4
    n = len(y)
    for k in range(len(p[0])):
        score = [Fraction(row[k]) for row in p]
        hit = [Fraction(int(label == k)) for label in y]
        overall = sum(hit) / n
        terms[2] += overall * (1 - overall)
        for m in range(n_bins):
            a, b = Fraction(m / n_bins), Fraction((m + 1) / n_bins)
            rows = [i for i in range(n) if a < score[i] <= b or (m == 0 and score[i] == 0)]
            if not rows:
                continue
            mean = sum(score[i] for i in rows) / len(rows)
            frequency = sum(hit[i] for i in rows) / len(rows)
            terms[0] += Fraction(len(rows), n) * (mean - frequency) ** 2
            terms[1] += Fraction(len(rows), n) * (frequency - overall) ** 2
            for i in rows:
                d = score[i] - mean
                terms[3] += (d * d - 2 * d * (hit[i] - frequency)) / n
    return [float(term) for term in terms]


@pytest.mark.parametrize("seed", range(5))
def test_brier_decomposition_equals_a_literal_implementation(seed):
    rng = np.random.default_rng(seed)
    p, y = rng.dirichlet(np.ones(3), 40), rng.integers(0, 3, 40)
    found = dc.metrics.brier_decomposition(p, y, n_bins=6)
    np.testing.assert_allclose(found, _literal_decomposition(p.tolist(), y, 6), atol=1e-12)
    total = found.reliability - found.resolution + found.uncertainty + found.within_bins
    assert total == pytest.approx(dc.brier_score(p, y))


def test_a_weight_equals_a_repetition_in_the_decomposition():
    rng = np.random.default_rng(1)
    p, y, w = rng.dirichlet(np.ones(3), 30), rng.integers(0, 3, 30), rng.integers(1, 4, 30)
    weighted = dc.metrics.brier_decomposition(p, y, sample_weight=w)
    repeated = dc.metrics.brier_decomposition(np.repeat(p, w, axis=0), np.repeat(y, w))
    np.testing.assert_allclose(weighted, repeated, atol=1e-12)


@pytest.mark.parametrize(
    ("n", "q", "c"), [(1, 0.3, 0.4), (5, 0.5, 0.5), (7, 0.9, 0.2), (12, 0.05, 1.0), (9, 1.0, 0.3)]
)
def test_the_deviation_of_a_binomial_equals_a_sum_over_outcomes(n, q, c):
    """Mean and variance of |K - n c|, summed over all outcomes."""
    chance = [comb(n, k) * q**k * (1 - q) ** (n - k) for k in range(n + 1)]
    mean = sum(p * abs(k - n * c) for k, p in enumerate(chance))
    second = sum(p * (k - n * c) ** 2 for k, p in enumerate(chance))
    found = error_interval.deviation(*(np.array([v]) for v in (float(n), q, n * c)))
    assert found[0][0] == pytest.approx(mean, abs=1e-12)
    assert found[1][0] == pytest.approx(second - mean**2, abs=1e-12)

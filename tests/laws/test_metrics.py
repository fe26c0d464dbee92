"""Laws of the metrics, and comparisons with other implementations."""

from fractions import Fraction
from functools import partial
from math import comb

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp
from scipy.stats import binomtest
from sklearn.metrics import brier_score_loss, log_loss

import domaincal as dc

confidences = hnp.arrays(
    np.float64, st.integers(1, 60), elements=st.floats(0, 1) | st.sampled_from([0.0, 0.5, 1.0])
)


def _with_hits(c, seed=0):
    return np.random.default_rng(seed).random(len(c)) < 0.5


def _literal_ece(c, hits, n_bins):
    """The definition of the paper, bin by bin, in exact fractions."""
    exact = [Fraction(float(v)) for v in c]
    total = Fraction(0)
    for m in range(1, n_bins + 1):
        a, b = Fraction((m - 1) / n_bins), Fraction(m / n_bins)
        rows = [i for i, v in enumerate(exact) if a < v <= b or (m == 1 and v == 0)]
        total += abs(sum((exact[i] - int(hits[i]) for i in rows), Fraction(0)))
    return float(total / len(c))


@given(c=confidences, n_bins=st.integers(1, 30))
def test_ece_is_the_papers_definition(c, n_bins):
    hits = _with_hits(c)
    found = dc.metrics.confidence_calibration_error(c, hits, n_bins=n_bins)
    assert found == pytest.approx(_literal_ece(c, hits, n_bins), abs=1e-12)


def test_ece_of_compiled_bins_is_the_papers_definition(kernel):
    rng = np.random.default_rng(0)
    c = np.concatenate([rng.random(300), np.arange(101) / 100])
    hits = _with_hits(c)
    found = dc.metrics.confidence_calibration_error(c, hits, n_bins=100)
    assert found == pytest.approx(_literal_ece(c, hits, 100), abs=1e-12)


def test_confidence_one_belongs_to_the_last_bin():
    """Packages with an additional bin for 1.0 give 0.525 here."""
    c = np.array([1.0, 1.0, 0.95, 0.05])
    hits = np.array([True, False, True, True])
    found = dc.metrics.confidence_calibration_error(c, hits, n_bins=10)
    assert found == pytest.approx((abs(2.95 - 2) + abs(0.05 - 1)) / 4)


def test_every_row_is_in_a_bin():
    sums = dc.metrics.BinSums.from_confidences(np.arange(101) / 100, np.ones(101, bool), n_bins=100)
    assert sums.weight.sum() == 101


@given(c=confidences)
def test_nested_bins_never_lower_ece(c):
    hits = _with_hits(c)
    values = [dc.metrics.confidence_calibration_error(c, hits, n_bins=m) for m in (1, 2, 4, 8, 16)]
    assert (np.diff(values) >= -1e-12).all()


@given(c=confidences, n_bins=st.integers(1, 30))
def test_the_gap_is_at_most_ece_and_norms_are_ordered(c, n_bins):
    hits = _with_hits(c)
    sums = dc.metrics.BinSums.from_confidences(c, hits, n_bins=n_bins)
    ece = sums.calibration_error()
    assert abs(sums.mean_confidence - sums.accuracy) <= ece + 1e-12
    assert ece <= sums.calibration_error("l2") + 1e-12
    assert sums.calibration_error("l2") <= sums.calibration_error("max") + 1e-12


@given(c=confidences, n_bins=st.integers(1, 30), cut=st.integers(0, 60))
def test_bins_of_parts_add_up(c, n_bins, cut):
    hits = _with_hits(c)
    cut = min(cut, len(c) - 1)
    whole = dc.metrics.BinSums.from_confidences(c, hits, n_bins=n_bins)
    if cut == 0:
        return
    parts = [
        dc.metrics.BinSums.from_confidences(c[s], hits[s], n_bins=n_bins)
        for s in (slice(None, cut), slice(cut, None))
    ]
    total = parts[0] + parts[1]
    np.testing.assert_allclose(total.confidence, whole.confidence, atol=1e-12)
    np.testing.assert_array_equal(total.hits, whole.hits)


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
@given(c=confidences, n_bins=st.integers(1, 12), seed=st.integers(0, 99))
def test_a_weight_equals_a_repetition(strategy, c, n_bins, seed):
    hits = _with_hits(c)
    times = np.random.default_rng(seed).integers(1, 4, len(c))
    weighted = dc.metrics.BinSums.from_confidences(
        c, hits, n_bins=n_bins, strategy=strategy, sample_weight=times
    )
    repeated = dc.metrics.BinSums.from_confidences(
        np.repeat(c, times), np.repeat(hits, times), n_bins=n_bins, strategy=strategy
    )
    np.testing.assert_allclose(weighted.weight, repeated.weight)
    assert weighted.calibration_error() == pytest.approx(repeated.calibration_error(), abs=1e-12)
    assert weighted.floor() == pytest.approx(repeated.floor(), abs=1e-12)


def test_quantile_bins_hold_the_same_number_of_rows():
    c = np.random.default_rng(0).random(1000)
    sums = dc.metrics.BinSums.from_confidences(c, _with_hits(c), n_bins=10, strategy="quantile")
    assert sums.weight.tolist() == [100.0] * 10


def test_the_error_of_no_rows_is_nan():
    full = dc.metrics.BinSums.from_confidences([0.5], [1], n_bins=2)
    none = dc.metrics.BinSums(full.edges, *np.zeros((3, 2)))
    values = [none.calibration_error(norm) for norm in ("l1", "l2", "max")]
    assert np.isnan([*values, none.floor(), none.accuracy, none.mean_confidence]).all()


def test_probabilities_must_sum_to_one_up_to_rounding():
    for off, fine in [(5e-4, True), (1e-2, False)]:
        p = np.array([[0.7 + off, 0.3]])
        if fine:
            dc.expected_calibration_error(p, [0])
        else:
            with pytest.raises(dc.errors.InputError, match="sum to 1"):
                dc.expected_calibration_error(p, [0])
    above = np.array([[np.nextafter(np.float32(1), np.float32(2)), 0.0]], np.float32)
    assert dc.expected_calibration_error(above, [0]) == 0.0
    assert dc.metrics.confidence_calibration_error(above[:, 0], [1]) == 0.0


def test_perfect_bins_give_zero():
    c, hits = np.full(4, 0.75), np.array([1, 1, 1, 0])
    assert dc.metrics.confidence_calibration_error(c, hits) == 0.0


@pytest.mark.parametrize(
    ("n", "p"), [(1, 0.3), (5, 0.5), (7, 0.9), (40, 0.99), (10, 1.0), (9, 0.0)]
)
def test_floor_is_the_mean_absolute_deviation_of_a_binomial(n, p):
    exact = sum(comb(n, k) * p**k * (1 - p) ** (n - k) * abs(k / n - p) for k in range(n + 1))
    sums = dc.metrics.BinSums.from_confidences(np.full(n, p), np.zeros(n, bool), n_bins=1)
    assert sums.floor() == pytest.approx(exact, abs=1e-12)


@pytest.mark.parametrize("power", [1.0, 0.1])
def test_floor_is_the_mean_ece_of_a_calibrated_model(power):
    """Spread-out and saturated confidences; n = 5000 and 100 bins, as in DESIGN 6."""
    rng = np.random.default_rng(0)
    c = rng.random(5000) ** power
    eces = [
        dc.metrics.confidence_calibration_error(c, rng.random(5000) < c, n_bins=100)
        for _ in range(200)
    ]
    floor = dc.metrics.BinSums.from_confidences(c, c > 0, n_bins=100).floor()
    assert floor == pytest.approx(np.mean(eces), rel=0.03)


@given(seed=st.integers(0, 999))
def test_pooled_ece_is_at_most_the_weighted_mean_of_domain_eces(seed):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(3), 60)
    y, domains = rng.integers(0, 3, 60), rng.integers(0, 4, 60)
    table = dc.per_domain(dc.expected_calibration_error, p, y, domains)
    pooled = dc.expected_calibration_error(p, y)
    assert pooled <= np.average(table["value"], weights=table["n"]) + 1e-12
    mdece = dc.multi_domain_calibration_error(p, y, domains)
    assert mdece == pytest.approx(table["value"].mean())
    largest = dc.per_domain(partial(dc.expected_calibration_error, norm="max"), p, y, domains)
    mdece = dc.multi_domain_calibration_error(p, y, domains, norm="max")
    assert mdece == pytest.approx(largest["value"].mean())


@given(seed=st.integers(0, 999))
def test_scores_are_scikit_learns(seed):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(4), 30)
    y, w = rng.integers(0, 4, 30), rng.random(30)
    options = {"sample_weight": w, "labels": [0, 1, 2, 3]}
    assert dc.negative_log_likelihood(p, y, sample_weight=w) == pytest.approx(
        log_loss(y, p, **options)
    )
    assert dc.brier_score(p, y, sample_weight=w) == pytest.approx(
        brier_score_loss(y, p, scale_by_half=False, **options)
    )
    assert dc.metrics.accuracy(p, y, sample_weight=w) == pytest.approx(
        np.average(p.argmax(axis=1) == y, weights=w)
    )


def test_the_log_loss_of_a_probability_of_zero_is_large_but_finite():
    p = np.array([[1.0, 0.0]], np.float32)
    assert 80 < dc.negative_log_likelihood(p, [1]) < 90


def test_accuracy_prediction_error_equals_a_calculation_by_hand():
    p = np.array([[0.8, 0.2], [0.6, 0.4], [0.9, 0.1]])
    # a: mean confidence 0.7, accuracy 1/2; b: 0.9 and 0.
    found = dc.accuracy_prediction_error(p, [0, 1, 1], ["a", "a", "b"])
    assert found == pytest.approx((0.2 + 0.9) / 2)


def test_the_jackknife_standard_error_of_a_mean_is_the_usual_one():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 4000)
    y = rng.integers(0, 3, 4000)
    row = dc.per_domain(dc.negative_log_likelihood, p, y, np.zeros(4000, int)).iloc[0]
    losses = -np.log(p[np.arange(4000), y])
    # With 20 parts, a standard deviation is known to about 16%.
    assert row["standard_error"] == pytest.approx(losses.std() / np.sqrt(4000), rel=0.5)


def test_jackknife_of_twenty_rows_is_exact_for_a_mean():
    """Each row is a part: the textbook standard error, and Student's interval around it."""
    rng = np.random.default_rng(1)
    p, y = rng.dirichlet(np.ones(3), 20), rng.integers(0, 3, 20)
    losses = -np.log(p[np.arange(20), y])
    table = dc.per_domain(dc.negative_log_likelihood, p, y, ["a"] * 20, level=0.9)
    error = losses.std(ddof=1) / np.sqrt(20)
    assert table.loc[0, "standard_error"] == pytest.approx(error)
    # 1.729 is the 95% quantile of Student's t with 19 degrees of freedom, from any table.
    assert table.loc[0, "high"] == pytest.approx(losses.mean() + 1.729 * error, rel=1e-4)
    assert table.loc[0, "low"] == pytest.approx(losses.mean() - 1.729 * error, rel=1e-4)


def test_the_jackknife_is_right_for_periodic_rows():
    hits = np.arange(2000) % 20 < 10
    confidences = np.full(2000, 0.5)
    table = dc.per_domain(lambda c, h: float(np.mean(h)), confidences, hits, np.zeros(2000, int))
    assert table.loc[0, "standard_error"] == pytest.approx(0.5 / np.sqrt(2000), rel=0.6)


def test_a_domain_of_one_row_has_no_standard_error():
    table = dc.per_domain(dc.metrics.accuracy, [[0.9, 0.1]] * 3, [0, 0, 1], ["a", "b", "b"])
    assert table["n"].tolist() == [1, 2]
    assert np.isnan(table.loc[0, "standard_error"])
    assert np.isnan(table.loc[0, "low"])


def test_mean_over_domains_has_the_usual_standard_error():
    assert dc.metrics.mean_over_domains([1.0, np.nan, 3.0]) == (2.0, 1.0, 2)
    assert np.isnan(dc.metrics.mean_over_domains([1.0]).standard_error)


def test_reliability_curve_equals_a_calculation_by_hand():
    p = np.array([[0.9, 0.1], [0.7, 0.3], [0.8, 0.2]])
    curve = dc.reliability_curve(p, [0, 1, 0], n_bins=5)
    np.testing.assert_array_equal(curve.n, [0, 0, 0, 2, 1])
    np.testing.assert_allclose(curve.accuracy, [np.nan, np.nan, np.nan, 0.5, 1.0])
    np.testing.assert_allclose(curve.confidence, [np.nan, np.nan, np.nan, 0.75, 0.9])
    np.testing.assert_allclose(curve.standard_error[3:], [np.sqrt(0.125), 0.0])
    for k, hits in ((3, 1), (4, 1)):
        expected = binomtest(hits, int(curve.n[k])).proportion_ci(method="wilson")
        np.testing.assert_allclose([curve.low[k], curve.high[k]], expected, rtol=1e-12)
    with pytest.raises(AttributeError):
        curve.n = 3

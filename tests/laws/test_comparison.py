"""Intervals that cover, tests that keep their level, comparisons that allow for chance."""

from math import comb

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st
from scipy.stats import norm, ttest_rel

import domaincal as dc
from domaincal import metrics
from domaincal.metrics.comparison import adjust_p_values


def _uniform(rng, n):
    return rng.uniform(0.3, 1.0, n)


def _saturated(rng, n):
    return rng.random(n) ** 0.1


def _sums(rng, n, n_bins, confidences, overconfidence):
    """Bin sums of a sample, and the calibration error of the accuracies that it was drawn with."""
    c = confidences(rng, n)
    accuracy = np.clip(c - overconfidence, 0.0, 1.0)
    sums = metrics.BinSums.from_confidences(c, rng.random(n) < accuracy, n_bins=n_bins)
    index = np.clip(np.searchsorted(sums.edges, c) - 1, 0, n_bins - 1)
    true = np.abs(np.bincount(index, c - accuracy, minlength=n_bins)).sum() / n
    return sums, true


CASES = [
    (n, n_bins, confidences, overconfidence)
    for n, n_bins in ((200, 15), (1000, 15), (5000, 100))
    for confidences in (_uniform, _saturated)
    for overconfidence in (0.0, 0.02, 0.05, 0.15)
]


@pytest.mark.parametrize(("n", "n_bins", "confidences", "overconfidence"), CASES)
def test_the_interval_covers(n, n_bins, confidences, overconfidence):
    """With 1500 samples, between 92% and 99% in these cases; 200 tell it to about 2 points."""
    rng = np.random.default_rng(0)
    covered, corrected, seen, truth = [], [], [], []
    for _ in range(200):
        sums, true = _sums(rng, n, n_bins, confidences, overconfidence)
        found = sums.interval()
        assert found.low <= found.corrected <= found.high
        assert found.corrected <= found.value + 1e-12
        covered.append(found.low <= true + 1e-12 <= found.high + 2e-12)
        corrected.append(found.corrected)
        seen.append(found.value)
        truth.append(true)
    assert np.mean(covered) > 0.87
    # What is left of the bias is less than half of it, or a point where there is hardly any.
    bias = abs(np.mean(seen) - np.mean(truth))
    assert abs(np.mean(corrected) - np.mean(truth)) < max(0.55 * bias, 0.01)


def test_a_naive_bootstrap_inflates_the_error_of_a_calibrated_model():
    """By about sqrt(2), since resampling adds the noise once more; the interval here does not."""
    rng = np.random.default_rng(1)
    ratios, zeros = [], 0
    for _ in range(40):
        c = _uniform(rng, 2000)
        hits = rng.random(2000) < c
        sums = metrics.BinSums.from_confidences(c, hits, n_bins=50)
        resampled = []
        for _ in range(20):
            rows = rng.integers(0, 2000, 2000)
            resampled.append(metrics.confidence_calibration_error(c[rows], hits[rows], n_bins=50))
        ratios.append(np.mean(resampled) / sums.calibration_error())
        interval = sums.interval()
        zeros += interval.low == 0.0
        assert interval.corrected < 0.75 * np.mean(resampled)
    assert np.mean(ratios) == pytest.approx(np.sqrt(2), rel=0.05)
    assert zeros >= 36


def test_the_test_of_calibration_keeps_its_level():
    rng = np.random.default_rng(2)
    p = np.array([_sums(rng, 1000, 15, _uniform, 0.0)[0].interval().p_value for _ in range(600)])
    # Three standard errors of a share of 600.
    assert np.mean(p < 0.05) == pytest.approx(0.05, abs=0.03)
    assert np.mean(p < 0.5) == pytest.approx(0.5, abs=0.065)


@given(seed=st.integers(0, 500), level=st.floats(0.5, 0.999))
def test_a_higher_level_gives_a_wider_interval(seed, level):
    rng = np.random.default_rng(seed)
    sums, _ = _sums(rng, int(rng.integers(1, 300)), 10, _uniform, rng.uniform(0, 0.3))
    narrow, wide = sums.interval(0.4), sums.interval(level)
    assert wide.low <= narrow.low + 1e-9
    assert wide.high >= narrow.high - 1e-9
    assert wide.low >= 0.0
    assert wide.high <= 1.0


def test_intervals_of_extreme_rows():
    rows = [([1.0], [1]), ([1.0], [0]), ([0.5], [1]), ([0.0] * 5, [0] * 5), ([1.0] * 50, [1] * 50),
            ([0.9] * 50, [0] * 50), ([0.2] * 3, [1] * 3)]  # fmt: skip
    for c, hits in rows:
        found = metrics.BinSums.from_confidences(c, hits).interval()
        assert np.isfinite(found).all()
        assert found.low <= found.corrected <= found.high
    impossible = metrics.BinSums.from_confidences([1.0] * 5, [0] * 5).interval()
    assert impossible.p_value == 0.0
    empty = metrics.BinSums(np.linspace(0, 1, 3), *np.zeros((3, 2)))
    assert np.isnan(empty.interval()).all()
    for level in (0.0, 1.0, 95, "x"):
        with pytest.raises(dc.errors.InputError, match="level must be a number"):
            metrics.calibration_error_interval([[0.7, 0.3]], [0], level=level)


def test_interval_of_probabilities_is_that_of_its_bins():
    rng = np.random.default_rng(0)
    p, y = rng.dirichlet(np.ones(3), 200), rng.integers(0, 3, 200)
    found = metrics.calibration_error_interval(p, y, n_bins=10, level=0.9)
    sums = metrics.BinSums.from_confidences(p.max(axis=1), p.argmax(axis=1) == y, n_bins=10)
    assert found == sums.interval(0.9)
    assert found.value == pytest.approx(dc.expected_calibration_error(p, y, n_bins=10))


def _domains(rng, n_domains, n, overconfident=()):
    c = rng.uniform(0.3, 1.0, (n_domains, n))
    accuracy = c - np.isin(np.arange(n_domains), overconfident)[:, None] * 0.2
    hits = rng.random(c.shape) < accuracy
    names = np.repeat([f"d{k:02d}" for k in range(n_domains)], n)
    return metrics.bins_by_domain(c.ravel(), hits.ravel(), names)


def test_calibrated_domains_are_rarely_called_otherwise():
    """Of 40 experiments with 30 domains, 5% may name one wrongly: 2, and 7 is far out."""
    rng = np.random.default_rng(0)
    named = {"p_calibrated": 0, "p_same": 0, "low": 0, "covered": 0}
    raw = 0
    for _ in range(40):
        bins = _domains(rng, 30, 300)
        table = dc.compare_domains(bins)
        for column in ("p_calibrated", "p_same"):
            named[column] += bool((table[column] < 0.05).any())
        named["low"] += bool((table["low"] > 0).any())
        raw += any(sums.interval().p_value < 0.05 for sums in bins.values())
    assert named["p_calibrated"] < 7
    assert named["p_same"] < 7
    assert named["low"] < 7
    assert raw > 20  # without adjustment, most experiments would name one


def test_the_bad_domains_are_found():
    table = dc.compare_domains(_domains(np.random.default_rng(1), 20, 500, [3, 11]))
    bad = table["domain"].isin(["d03", "d11"])
    assert (table["p_calibrated"][bad] < 1e-6).all()
    assert (table["p_calibrated"][~bad] > 0.05).all()
    assert (table["p_same"][bad] < 1e-6).all()
    assert (table["difference_low"][bad] > 0.1).all()
    assert (table["low"][bad] > 0.1).all()
    assert table["gap"][bad].to_numpy() == pytest.approx([0.2, 0.2], abs=0.07)


def test_the_table_is_made_of_bin_sums():
    rng = np.random.default_rng(2)
    c, hits = rng.random(100), rng.random(100) < 0.5
    domains = np.repeat([2, 1], 50)
    bins = metrics.bins_by_domain(c, hits, domains, n_bins=5)
    assert list(bins) == [1, 2]
    table = dc.compare_domains(bins, level=0.9).set_index("domain")
    one = metrics.BinSums.from_confidences(c[50:], hits[50:], n_bins=5)
    assert table.loc[1, "ece"] == pytest.approx(one.calibration_error())
    assert table.loc[1, "floor"] == pytest.approx(one.floor())
    assert table.loc[1, "low":"high"].tolist() == list(one.interval(0.9**0.5)[2:4])
    assert table.loc[1, "n"] == 50
    gap = table["mean_confidence"] - table["accuracy"]
    np.testing.assert_allclose(table["gap"], gap)
    assert table.loc[1, "difference"] == pytest.approx(gap[1] - gap[2])
    half = table["difference_high"] - table["difference"]
    np.testing.assert_allclose(half, table["difference"] - table["difference_low"])


def test_a_weight_equals_a_repetition():
    rng = np.random.default_rng(3)
    c, hits, times = rng.random(60), rng.random(60) < 0.5, rng.integers(1, 4, 60)
    domains = rng.integers(0, 3, 60)
    weighted = dc.compare_domains(metrics.bins_by_domain(c, hits, domains, sample_weight=times))
    repeated = dc.compare_domains(
        metrics.bins_by_domain(*(np.repeat(a, times) for a in (c, hits, domains)))
    )
    pd.testing.assert_frame_equal(weighted, repeated)


def test_a_single_domain_has_nothing_to_differ_from():
    table = dc.compare_domains({"a": metrics.BinSums.from_confidences([0.5, 0.7], [1, 0])})
    assert np.isnan(table.loc[0, "difference"])
    assert np.isnan(table.loc[0, "p_same"])
    assert np.isfinite(table.loc[0, "p_calibrated"])


def test_what_compare_domains_does_not_take():
    sums = metrics.BinSums.from_confidences([0.5], [1])
    none = metrics.BinSums(sums.edges, *np.zeros((3, 15)))
    for bins, message in [({}, "empty"), ([sums], "must map domains"), ({"a": 3}, "BinSums"),
                          ({"a": sums, "b": none}, "no rows in domain 'b'")]:  # fmt: skip
        with pytest.raises(dc.errors.InputError, match=message):
            dc.compare_domains(bins)


def test_holm_by_hand():
    assert adjust_p_values([0.01, 0.04, 0.03]).tolist() == pytest.approx([0.03, 0.06, 0.06])
    assert adjust_p_values([0.5, 0.9]).tolist() == [1.0, 1.0]


def _table(scores):
    return pd.DataFrame(
        [(method, domain, value) for method, values in scores.items()
         for domain, value in values.items()],
        columns=["method", "domain", "ece"],
    )  # fmt: skip


def test_two_methods_are_compared_in_pairs():
    rng = np.random.default_rng(0)
    a, b = rng.random(12), rng.random(12)
    table = _table({"A": dict(enumerate(a)), "B": dict(enumerate(b))})
    shuffled = table.sample(frac=1, random_state=0)
    found = dc.compare_methods(shuffled, "A", "B", level=0.9)
    theirs = ttest_rel(a, b)
    interval = theirs.confidence_interval(0.9)
    assert found.p_value == pytest.approx(theirs.pvalue)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))
    assert (found.first, found.second) == pytest.approx((a.mean(), b.mean()))
    assert found.difference == pytest.approx(a.mean() - b.mean())
    assert (found.n_domains, found.wins, found.losses) == (12, (a < b).sum(), (a > b).sum())


def test_domains_that_one_method_misses_are_left_out():
    table = _table({"A": {1: 0.1, 2: 0.2, 3: np.nan}, "B": {2: 0.4, 1: 0.2, 3: 0.5, 4: 0.1}})
    found = dc.compare_methods(table, "A", "B")
    assert found.n_domains == 2
    assert found.difference == pytest.approx(-0.15)


def test_a_comparison_without_spread():
    same = dc.compare_methods(_table({"A": {1: 0.1, 2: 0.2}, "B": {1: 0.1, 2: 0.2}}), "A", "B")
    assert (same.difference, same.low, same.high, same.p_value) == (0.0, 0.0, 0.0, 1.0)
    one = dc.compare_methods(_table({"A": {1: 0.1}, "B": {1: 0.2}}), "A", "B")
    assert one.difference == pytest.approx(-0.1)
    assert np.isnan([one.low, one.high, one.p_value]).all()


def test_what_compare_methods_does_not_take():
    table = _table({"A": {1: 0.1}, "B": {2: 0.2}})
    twice = pd.concat([table, table])
    for arguments, options, message in [
        ((table, "A", "C"), {}, r"second='C' is no method of the table, which has 'A', 'B'"),
        ((table, "A", "B"), {"score": "nll"}, r"got 'nll'; it has ece"),
        ((table, "A", "B"), {}, r"no domain with a 'ece' of both"),
        ((twice, "A", "B"), {}, r"'A' more than once on domain 1"),
        (([1], "A", "B"), {}, r"table must be a results table"),
        ((table, "A", "B"), {"level": 2}, r"level must be"),
        ((table, "A", "B"), {"score": "domain"}, r"column of numbers of the table, got 'domain'"),
        ((table, "A", "B"), {"score": "method"}, r"column of numbers of the table, got 'method'"),
    ]:
        with pytest.raises(dc.errors.InputError, match=message):
            dc.compare_methods(*arguments, **options)


SATURATED = [(10, 0.99, 0.85), (300, 0.995, 0.99), (100, 0.999, 0.98), (20, 0.99, 0.9),
             (100, 0.999, 0.999), (5, 0.6, 0.6)]  # fmt: skip


@pytest.mark.parametrize(("n", "confidence", "accuracy"), SATURATED)
def test_the_interval_covers_where_few_rows_may_miss(n, confidence, accuracy):
    rng = np.random.default_rng(0)
    covered, small = 0, 0
    for _ in range(200):
        found = metrics.BinSums.from_confidences(
            [confidence] * n, rng.random(n) < accuracy
        ).interval()
        covered += found.low - 1e-9 <= abs(confidence - accuracy) <= found.high + 1e-9
        small += found.p_value < 0.05
    assert covered > 186
    if confidence == accuracy:
        assert small < 20


def test_a_single_bin_is_a_binomial_test():
    """All n right at confidence 1: the largest error that leaves this a chance of 2.5%."""
    found = metrics.BinSums.from_confidences([1.0] * 5, [1] * 5).interval()
    assert found.high == pytest.approx(1 - 0.025 ** (1 / 5), abs=1e-4)
    never = metrics.BinSums.from_confidences([0.0] * 5, [0] * 5).interval()
    assert never.high == pytest.approx(found.high)
    assert found.p_value == pytest.approx(1.0)
    right = metrics.BinSums.from_confidences([0.99999] * 100, [1] * 100).interval()
    assert right == pytest.approx((right.value, 0.0, 0.0, right.high, 1.0))
    # 8 of 10 at confidence 1/2: P(|K - 5| >= 3) = 2 (45 + 10 + 1) / 1024.
    found = metrics.BinSums.from_confidences([0.5] * 10, [1] * 8 + [0] * 2).interval()
    assert found.p_value == pytest.approx(112 / 1024, abs=1e-6)


def test_two_bins_by_enumeration():
    """P(sum |K - a| >= seen) over all outcomes of two bins."""
    n, c, hits = (6, 4), (0.3, 0.8), (4, 2)
    seen = sum(abs(h - m * p) for h, m, p in zip(hits, n, c, strict=True))
    exact = sum(
        comb(6, i) * 0.3**i * 0.7 ** (6 - i) * comb(4, j) * 0.8**j * 0.2 ** (4 - j)
        for i in range(7)
        for j in range(5)
        if abs(i - 1.8) + abs(j - 3.2) >= seen - 1e-9
    )
    rows = [0.3] * 6 + [0.8] * 4
    outcome = [1] * 4 + [0] * 2 + [1] * 2 + [0] * 2
    found = metrics.BinSums.from_confidences(rows, outcome, n_bins=2).interval()
    assert found.p_value == pytest.approx(exact, abs=1e-6)


def test_the_difference_to_the_others_by_hand():
    """Three domains of unequal size; a normal test of the gap against that of all other rows."""
    sizes, hits = (100, 50, 10), (60, 40, 9)
    c = 0.7
    bins = {
        k: metrics.BinSums.from_confidences([c] * n, [1] * h + [0] * (n - h), n_bins=1)
        for k, (n, h) in enumerate(zip(sizes, hits, strict=True))
    }
    table = dc.compare_domains(bins, level=0.9)
    gaps = [c - h / n for n, h in zip(sizes, hits, strict=True)]
    others = c - 49 / 60
    assert table.loc[0, "difference"] == pytest.approx(gaps[0] - others)
    shrunk = [(h + 0.5) / (n + 1) for n, h in zip(sizes, hits, strict=True)]
    variance = [p * (1 - p) / n for p, n in zip(shrunk, sizes, strict=True)]
    pooled = (50**2 * variance[1] + 10**2 * variance[2]) / 60**2
    error = np.sqrt(variance[0] + pooled)
    half = norm.ppf(0.5 + 0.9 ** (1 / 3) / 2) * error
    assert table.loc[0, "difference_high"] == pytest.approx(gaps[0] - others + half)
    raw = 2 * norm.sf(abs(gaps[0] - others) / error)
    assert table.loc[0, "p_same"] == pytest.approx(3 * raw)  # the smallest of three, by Holm


def test_options_reach_the_bins():
    rng = np.random.default_rng(4)
    p, y = rng.dirichlet(np.ones(3), 300), rng.integers(0, 3, 300)
    w = rng.integers(1, 4, 300)
    repeated = (np.repeat(p, w, axis=0), np.repeat(y, w))
    for metric in (metrics.calibration_error_interval, metrics.debiased_squared_calibration_error,
                   metrics.smooth_calibration_error):  # fmt: skip
        np.testing.assert_allclose(metric(p, y, sample_weight=w), metric(*repeated), rtol=1e-9)
    for metric in (metrics.calibration_error_interval, metrics.debiased_squared_calibration_error,
                   metrics.classwise_calibration_error, metrics.brier_decomposition):  # fmt: skip
        uniform, quantile = (metric(p, y, strategy=s) for s in ("uniform", "quantile"))
        assert not np.allclose(uniform, quantile)
    largest = metrics.classwise_calibration_error(p, y, norm="max")
    assert largest > metrics.classwise_calibration_error(p, y)
    domains = rng.integers(0, 3, 300)
    for metric in (dc.multi_domain_calibration_error, dc.accuracy_prediction_error):
        found = metric(p, y, domains, sample_weight=w)
        assert found == pytest.approx(metric(*repeated, np.repeat(domains, w)))

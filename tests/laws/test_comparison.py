"""Coverage of intervals, levels of tests, and comparisons of domains and methods."""

from math import comb

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st
from scipy.stats import binom, norm, ttest_rel

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


@pytest.mark.parametrize("confidences", [_uniform, _saturated])
@pytest.mark.parametrize(("n", "n_bins"), [(200, 15), (1000, 15), (5000, 100)])
def test_the_interval_covers_the_error_and_the_corrected_error_has_less_bias(
    n, n_bins, confidences
):
    """1500 samples of each case give a coverage between 92% and 99%; 50 give it to 4 points."""
    rng = np.random.default_rng(0)
    coverage = []
    for overconfidence in (0.0, 0.02, 0.05, 0.15):
        drawn = [_sums(rng, n, n_bins, confidences, overconfidence) for _ in range(50)]
        found = np.array([sums.interval() for sums, _ in drawn])
        value, corrected, low, high, _ = found.T
        true = np.array([true for _, true in drawn])
        assert (low <= corrected).all()
        assert (corrected <= high).all()
        assert (corrected <= value + 1e-12).all()
        coverage.append(np.mean((low <= true + 1e-12) & (true <= high + 1e-12)))
        # At most about half of the bias is left, or 1.5 points if there is hardly any.
        bias = abs(np.mean(value - true))
        assert abs(np.mean(corrected - true)) < max(0.55 * bias, 0.015)
    assert min(coverage) > 0.85
    assert np.mean(coverage) > 0.9


def test_a_naive_bootstrap_inflates_the_error_and_the_interval_does_not():
    """For a calibrated model the bootstrap adds the noise a second time: a factor of sqrt(2)."""
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
    p = np.array([_sums(rng, 1000, 15, _uniform, 0.0)[0].interval().p_value for _ in range(300)])
    # Three standard errors of a share of 300.
    assert np.mean(p < 0.05) == pytest.approx(0.05, abs=0.038)
    assert np.mean(p < 0.5) == pytest.approx(0.5, abs=0.087)


@given(seed=st.integers(0, 500), level=st.floats(0.5, 0.999))
def test_a_higher_level_gives_a_wider_interval(seed, level):
    rng = np.random.default_rng(seed)
    sums, _ = _sums(rng, int(rng.integers(1, 300)), 10, _uniform, rng.uniform(0, 0.3))
    narrow, wide = sums.interval(0.4), sums.interval(level)
    assert wide.low <= narrow.low + 1e-9
    assert wide.high >= narrow.high - 1e-9
    assert wide.low >= 0.0
    assert wide.high <= 1.0


def test_intervals_of_extreme_rows_are_finite():
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


def test_the_interval_of_probabilities_equals_that_of_their_bins():
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


def test_calibrated_domains_are_rarely_called_miscalibrated():
    """5% of 20 experiments with 30 domains may name a domain: 1 on average, rarely 5."""
    rng = np.random.default_rng(0)
    named = {"p_calibrated": 0, "p_same": 0, "low": 0}
    without_adjustment = 0
    for experiment in range(20):
        bins = _domains(rng, 30, 300)
        table = dc.compare_domains(bins)
        for column in ("p_calibrated", "p_same"):
            named[column] += bool((table[column] < 0.05).any())
        named["low"] += bool((table["low"] > 0).any())
        if experiment < 8:
            without_adjustment += any(sums.interval().p_value < 0.05 for sums in bins.values())
    assert max(named.values()) < 5
    assert without_adjustment > 4  # most experiments would name a domain


def test_miscalibrated_domains_are_found():
    table = dc.compare_domains(_domains(np.random.default_rng(1), 20, 500, [3, 11]))
    bad = table["domain"].isin(["d03", "d11"])
    assert (table["p_calibrated"][bad] < 1e-6).all()
    assert (table["p_calibrated"][~bad] > 0.05).all()
    assert (table["p_same"][bad] < 1e-6).all()
    assert (table["difference_low"][bad] > 0.1).all()
    assert (table["low"][bad] > 0.1).all()
    assert table["gap"][bad].to_numpy() == pytest.approx([0.2, 0.2], abs=0.07)


def test_the_values_of_the_table_are_those_of_the_bin_sums():
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


def test_a_single_domain_has_no_difference_to_others():
    table = dc.compare_domains({"a": metrics.BinSums.from_confidences([0.5, 0.7], [1, 0])})
    assert np.isnan(table.loc[0, "difference"])
    assert np.isnan(table.loc[0, "p_same"])
    assert np.isfinite(table.loc[0, "p_calibrated"])


def test_compare_domains_refuses_invalid_bins():
    sums = metrics.BinSums.from_confidences([0.5], [1])
    none = metrics.BinSums(sums.edges, *np.zeros((3, 15)))
    for bins, message in [({}, "empty"), ([sums], "must map domains"), ({"a": 3}, "BinSums"),
                          ({"a": sums, "b": none}, "no rows in domain 'b'")]:  # fmt: skip
        with pytest.raises(dc.errors.InputError, match=message):
            dc.compare_domains(bins)


def test_holm_adjustment_equals_a_calculation_by_hand():
    assert adjust_p_values([0.01, 0.04, 0.03]).tolist() == pytest.approx([0.03, 0.06, 0.06])
    assert adjust_p_values([0.5, 0.9]).tolist() == [1.0, 1.0]


def _table(scores):
    return pd.DataFrame(
        [(method, domain, value) for method, values in scores.items()
         for domain, value in values.items()],
        columns=["method", "domain", "ece"],
    )  # fmt: skip


def test_a_comparison_of_two_methods_is_the_paired_t_test():
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


def test_a_comparison_without_spread_has_no_interval():
    same = dc.compare_methods(_table({"A": {1: 0.1, 2: 0.2}, "B": {1: 0.1, 2: 0.2}}), "A", "B")
    assert (same.difference, same.low, same.high, same.p_value) == (0.0, 0.0, 0.0, 1.0)
    one = dc.compare_methods(_table({"A": {1: 0.1}, "B": {1: 0.2}}), "A", "B")
    assert one.difference == pytest.approx(-0.1)
    assert np.isnan([one.low, one.high, one.p_value]).all()


def _compared(score, *differences):
    b = 0.5 + 0.01 * np.arange(len(differences))
    table = _table({"A": dict(enumerate(b + differences)), "B": dict(enumerate(b))})
    return dc.compare_methods(table.rename(columns={"ece": score}), "A", "B", score=score)


def test_a_sentence_adds_other_scores_and_says_but_if_they_say_something_else():
    better, worse = (-0.1, -0.11, -0.12), (0.1, 0.11, 0.12)
    unclear = (-0.1, 0.1, 0.01)
    for ece, nll, word in [
        (better, better, "with"), (worse, worse, "with"), (better, unclear, "with"),
        (unclear, unclear, "with"), (unclear, better, "but"), (better, worse, "but"),
    ]:  # fmt: skip
        first, second = _compared("ece", *ece), _compared("nll", *nll)
        start, _, end = first.sentence(second).partition(f", {word} NLL ")
        assert start == first.sentence()
        interval = f"{second.difference:+.3f}, {second.low:+.3f} to {second.high:+.3f}"
        assert end == f"{second.first:.3f} against {second.second:.3f} ({interval})"
    one = _compared("ece", 0.1).sentence(_compared("nll", -0.1))
    assert one == (
        "A against B in the only domain: ECE 60.00% against 50.00%, NLL 0.400 against 0.500"
    )


def test_compare_methods_refuses_invalid_arguments():
    table = _table({"A": {1: 0.1}, "B": {2: 0.2}})
    twice = pd.concat([table, table])
    for arguments, options, message in [
        ((table, "A", "C"), {}, r"second='C' is not a method of the table; choose from 'A', 'B'"),
        ((table, "A", "B"), {"score": "nll"}, r"got 'nll'; choose from ece"),
        ((table, "A", "B"), {}, r"no domain with a 'ece' of both"),
        ((twice, "A", "B"), {}, r"'A' more than once on domain 1"),
        (([1], "A", "B"), {}, r"table must be a results table"),
        ((table, "A", "B"), {"level": 2}, r"level must be"),
        ((table, "A", "B"), {"score": "domain"}, r"numeric column of the table, got 'domain'"),
        ((table, "A", "B"), {"score": "method"}, r"numeric column of the table, got 'method'"),
    ]:
        with pytest.raises(dc.errors.InputError, match=message):
            dc.compare_methods(*arguments, **options)


@pytest.mark.parametrize(
    ("n", "confidence", "accuracy"),
    [(10, 0.99, 0.85), (300, 0.995, 0.99), (100, 0.999, 0.98), (20, 0.99, 0.9),
     (100, 0.999, 0.999), (5, 0.6, 0.6)],
)  # fmt: skip
def test_the_interval_covers_where_few_rows_may_miss(n, confidence, accuracy):
    """Exact coverage: the interval of a single bin depends on the number of hits only."""
    coverage, small = 0.0, 0.0
    for hits in range(n + 1):
        probability = binom.pmf(hits, n, accuracy)
        if probability < 1e-5:
            continue
        rows = [1] * hits + [0] * (n - hits)
        found = metrics.BinSums.from_confidences([confidence] * n, rows).interval()
        covers = found.low - 1e-9 <= abs(confidence - accuracy) <= found.high + 1e-9
        coverage += probability * covers
        small += probability * (found.p_value < 0.05)
    assert coverage > 0.95
    if confidence == accuracy:
        assert small < 0.05


def test_the_interval_of_a_single_bin_is_that_of_a_binomial_test():
    """All rows are hits at confidence 1: the upper end has a probability of 2.5%."""
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


def test_the_p_value_of_two_bins_equals_an_enumeration():
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


def test_the_difference_to_the_others_equals_a_calculation_by_hand():
    """Three domains of unequal size; a normal test of the gap against the gap of all others."""
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

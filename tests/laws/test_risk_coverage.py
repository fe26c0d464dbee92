"""Laws of risk-coverage curves and of the thresholds chosen from them."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp
from scipy.stats import binomtest

import domaincal as dc

#: Few different values, so that there are ties.
confidences = hnp.arrays(
    np.float64, st.integers(1, 40), elements=st.floats(0, 1) | st.sampled_from([0.0, 0.5, 1.0])
)
seeds = st.integers(0, 99)
targets = st.sampled_from([0.3, 0.5, 0.75, 1.0])


def _rows(c, seed):
    rng = np.random.default_rng(seed)
    return c, rng.random(len(c)) < 0.3 + 0.6 * c, rng.integers(0, 3, len(c))


def _parts(c, hits, domains):
    """Confidences and hits of each domain, and of all rows."""
    parts = {k: (c[domains == k], hits[domains == k]) for k in np.unique(domains).tolist()}
    return {**parts, "all": (c, hits)}


@given(c=confidences, seed=seeds)
def test_curves_and_areas_are_those_of_the_definition(c, seed):
    rows = _rows(c, seed)
    found = dc.risk_coverage(*rows)
    assert found.table["domain"].tolist() == list(found.curves) == list(_parts(*rows))
    for (own, hits), curve, row in zip(
        _parts(*rows).values(), found.curves.values(), found.table.itertuples(), strict=True
    ):
        np.testing.assert_array_equal(curve.thresholds, np.unique(own)[::-1])
        kept = [own >= t for t in curve.thresholds]
        np.testing.assert_allclose(curve.coverage, [np.mean(k) for k in kept])
        np.testing.assert_allclose(curve.risk, [1 - np.mean(hits[k]) for k in kept], atol=1e-15)
        area = np.mean([1 - np.mean(hits[own >= one]) for one in own])
        ordered = np.sort(~hits)
        best = np.mean([np.mean(ordered[: k + 1]) for k in range(len(own))])
        assert row.area == pytest.approx(area, abs=1e-12)
        assert row.best_area == pytest.approx(best, abs=1e-12)
        assert row.excess_area >= -1e-12
        assert (row.n, row.accuracy) == (len(own), pytest.approx(np.mean(hits)))
        assert curve.risk[-1] == pytest.approx(1 - row.accuracy)


@given(c=confidences, seed=seeds, target=targets)
def test_the_order_of_the_rows_changes_nothing(c, seed, target):
    rows = _rows(c, seed)
    order = np.random.default_rng(seed + 1).permutation(len(c))
    a, b = dc.risk_coverage(*rows), dc.risk_coverage(*(values[order] for values in rows))
    pd.testing.assert_frame_equal(a.table, b.table)
    pd.testing.assert_frame_equal(a.threshold_for(target), b.threshold_for(target))


def test_a_perfect_order_has_the_best_area_and_equal_confidences_the_error_rate():
    hits = np.array([True] * 5 + [False] * 3)
    perfect = dc.risk_coverage(np.linspace(1, 0, 8), hits).table.iloc[0]
    assert perfect["area"] == pytest.approx(perfect["best_area"])
    assert perfect["best_area"] == pytest.approx((1 / 6 + 2 / 7 + 3 / 8) / 8)
    assert dc.risk_coverage(np.full(8, 0.5), hits).table["area"].item() == pytest.approx(3 / 8)


@given(c=confidences, seed=seeds, threshold=st.floats(0, 1) | st.sampled_from([0.0, 0.5, 1.0]))
def test_a_shared_threshold_keeps_the_rows_of_at_least_its_confidence(c, seed, threshold):
    rows = _rows(c, seed)
    table = dc.risk_coverage(*rows).at(threshold, level=0.9)
    for (own, hits), row in zip(_parts(*rows).values(), table.itertuples(), strict=True):
        kept = hits[own >= threshold]
        assert (row.n, row.kept, row.coverage) == (len(own), len(kept), len(kept) / len(own))
        if len(kept) == 0:
            assert np.isnan([row.accuracy, row.low, row.high]).all()
            continue
        exact = binomtest(int(kept.sum()), len(kept)).proportion_ci(0.9)
        assert row.accuracy == pytest.approx(kept.mean())
        assert (row.low, row.high) == pytest.approx((exact.low, exact.high), abs=1e-9)


@given(c=confidences, seed=seeds, target=targets)
def test_the_threshold_is_the_lowest_that_reaches_the_accuracy(c, seed, target):
    rows = _rows(c, seed)
    found = dc.risk_coverage(*rows)
    table = found.threshold_for(target)
    for (own, hits), row in zip(_parts(*rows).values(), table.itertuples(), strict=True):
        reached = [t for t in np.unique(own) if hits[own >= t].mean() >= target]
        if not reached:
            assert np.isnan(row.threshold)
            assert (row.kept, row.coverage) == (0, 0.0)
            assert np.isnan(row.accuracy)
            assert np.isnan(row.high)
            continue
        assert row.threshold == reached[0]
        assert not row.low > row.threshold
        assert not row.high < row.threshold
        at = found.at(row.threshold).set_index("domain").loc[row.domain]
        assert (row.kept, row.coverage, row.accuracy) == (
            at["kept"],
            at["coverage"],
            at["accuracy"],
        )
        assert (row.accuracy_low, row.accuracy_high) == (at["low"], at["high"])


@pytest.mark.parametrize("n", [30, 80, 400, 3000])
@pytest.mark.parametrize("target", [0.8, 0.95, 1.0])
def test_the_interval_inverts_exact_tests(n, target):
    rng = np.random.default_rng(n)
    c = rng.random(n).round(2)
    hits = rng.random(n) < 1 - 0.4 * (1 - c) ** 2
    row = dc.risk_coverage(c, hits).threshold_for(target, level=0.9).iloc[0]

    def limits(t):
        found = binomtest(int(hits[c >= t].sum()), int((c >= t).sum())).proportion_ci(0.9)
        return found.low, found.high

    thresholds = np.unique(c)
    assert row["low"] == next(t for t in thresholds if limits(t)[1] >= target)
    starts = []
    while target ** (n / 2 ** len(starts)) <= 0.05 / (len(starts) + 1):
        starts.append(n / 2 ** len(starts))
    passed, allowed, before = [], 0.0, 0
    for t in thresholds[::-1]:
        kept = (c >= t).sum()
        allowed += 0.05 * sum(before < start <= kept for start in starts) / max(len(starts), 1)
        before = kept
        better = binomtest(int(hits[c >= t].sum()), int(kept), target, alternative="greater")
        if starts and kept >= starts[-1] and better.pvalue <= allowed:
            passed.append(t)
        else:
            allowed = 0.0
    if passed:
        assert row["high"] == passed[-1]
        assert row["coverage_at_high"] == (c >= passed[-1]).mean()
    else:
        assert np.isnan(row["high"])
        assert row["coverage_at_high"] == 0.0


def test_errors_among_the_most_confident_rows_are_forgiven():
    row = dc.risk_coverage(np.linspace(1, 0, 1000), np.arange(1000) >= 40).threshold_for(0.9)
    assert row["coverage_at_high"].item() == 1.0


def test_as_many_rows_as_could_pass_without_an_error_are_needed():
    """0.95**72 is below 2.5%, and 0.95**71 is not."""
    for n, high in ((71, np.nan), (72, 0.5)):
        table = dc.risk_coverage(np.full(n, 0.5), np.ones(n)).threshold_for(0.95)
        np.testing.assert_equal(table["high"].item(), high)


@pytest.mark.parametrize("rising", [False, True])
def test_the_upper_end_is_rarely_too_low(rising):
    """Also if the accuracy is just below the target everywhere, where many looks mislead."""
    rng = np.random.default_rng(0)
    n, target, wrong = 500, 0.9, 0
    c = np.sort(rng.random(n))[::-1]
    p = 0.75 + 0.25 * c if rising else np.full(n, target - 1e-4)
    for _ in range(400):
        row = dc.risk_coverage(c, rng.random(n) < p).threshold_for(target, level=0.8).iloc[0]
        wrong += bool(row["high"] >= 0) and p[c >= row["high"]].mean() < target
    # At most 10% are promised; 400 data sets give more than 13.5% with a probability of 1%.
    assert wrong <= 0.135 * 400

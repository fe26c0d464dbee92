"""Laws of many domains: results of all domains at once are those of each, with as many calls."""

from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import domaincal as dc
from domaincal.data import calibration_data
from domaincal.errors import InputError
from domaincal.evaluation.score_table import temperature_spread
from domaincal.evaluation.temperature_table import temperature_spreads
from domaincal.kernels import dispatch
from domaincal.kernels.row_groups import group_means, rows_of_codes
from domaincal.metrics import bins_by_domain
from domaincal.statistics import (
    BinSums,
    NormalEquations,
    domain_folds,
    feature_products,
    normal_equations,
)
from domaincal.statistics.bayesian_ridge import RidgeSums, sums_of_others
from domaincal.statistics.domain_bins import DomainBins
from domaincal.statistics.domain_folds import neighbour_groups, similar_domain_folds


def _data(n_domains: int, n_rows: int, seed: int = 0) -> dc.CalibrationData:
    random = np.random.default_rng(seed)
    codes = np.concatenate([np.arange(n_domains), random.integers(0, n_domains, n_rows)])
    n = len(codes)
    logits = 3.0 * random.normal(size=(n, 4))
    return dc.CalibrationData(
        logits,
        labels=(logits + random.gumbel(size=(n, 4))).argmax(axis=1),
        features=random.normal(size=(n, 3)) + codes[:, None] % 5,
        domains=[f"site-{k}" for k in random.permutation(n_domains)[codes]],
        groups=random.integers(0, n, n),
    )


@given(st.integers(1, 30), st.integers(0, 60), st.integers(0, 100))
def test_parts_by_domain_are_selections_by_a_mask(n_domains, n_rows, seed):
    data = _data(n_domains, n_rows, seed)
    parts = list(data.by_domain())
    assert [name for name, _ in parts] == data.domain_names.tolist()
    for name, part in parts:
        own = data.domains == name
        for array in ("logits", "labels", "features", "domains", "groups"):
            assert np.array_equal(getattr(part, array), getattr(data, array)[own])
        assert part.domain_names.tolist() == [name]
        codes, names = part.group_codes
        assert np.array_equal(names, np.unique(data.groups[own]))
        assert np.array_equal(names[codes], data.groups[own])


@given(st.lists(st.integers(0, 9)), st.integers(10, 12))
def test_rows_of_codes_are_those_of_a_mask(codes, n_codes):
    codes = np.array(codes, np.int64)
    found = rows_of_codes(codes, n_codes)
    assert len(found) == n_codes
    for k, rows in enumerate(found):
        assert np.array_equal(rows, np.flatnonzero(codes == k))


def test_group_means_are_those_of_each_group():
    random = np.random.default_rng(0)
    codes = np.concatenate([np.arange(50), random.integers(0, 50, 3000)])
    values = random.normal(size=len(codes))
    expected = [values[codes == k].mean() for k in range(50)]
    np.testing.assert_allclose(group_means(values, codes), expected, rtol=1e-12)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_bins_of_all_domains_are_those_of_each(compiled, weighted):
    random = np.random.default_rng(1)
    codes = np.concatenate([np.arange(40), random.integers(0, 40, 1000)])
    c = np.round(random.random(len(codes)), 2)  # some on an edge
    hits = random.random(len(codes)) < c
    weight = random.integers(1, 4, len(codes)).astype(np.float64) if weighted else None
    with mock.patch.object(dispatch, "use_compiled", return_value=compiled):
        bins = DomainBins.from_confidences(c, hits, codes, 40, n_bins=10, weight=weight)
    for k in range(40):
        own = codes == k
        one = BinSums.from_confidences(
            c[own], hits[own], n_bins=10, sample_weight=None if weight is None else weight[own]
        )
        same = bins.of_domain(k)
        for name in ("edges", "weight", "confidence", "hits"):
            assert np.array_equal(getattr(same, name), getattr(one, name))
        for name in ("calibration_error", "floor"):
            np.testing.assert_allclose(getattr(bins, name)()[k], getattr(one, name)(), rtol=1e-12)
        for name in ("n", "accuracy", "mean_confidence"):
            np.testing.assert_allclose(getattr(bins, name)[k], getattr(one, name), rtol=1e-12)


def test_tables_of_many_domains_are_those_of_each_domain():
    data = _data(30, 600)
    fitted = dc.TemperatureScaling().fit(data)
    scores = dc.score_table(fitted, data)
    values = np.random.default_rng(0).random(len(data))
    spreads = temperature_spreads(values, data.domain_codes[0])
    for k, (name, part) in enumerate(data.by_domain()):
        own = dc.score_table(fitted, part)
        assert own["domain"][0] == scores["domain"][k] == name
        for score in own.columns[3:]:
            np.testing.assert_allclose(scores[score][k], own[score][0], rtol=1e-12, atol=1e-15)
        expected = temperature_spread(values[data.domains == name])
        assert spreads.loc[k].to_dict() == pytest.approx(expected, rel=1e-12)


def test_differences_to_the_others_are_those_of_added_bins():
    data = _data(7, 300)
    confidences = np.random.default_rng(0).random(len(data))
    bins = bins_by_domain(confidences, data.labels == 0, data.domains)
    table = dc.compare_domains(bins)
    for k, name in enumerate(bins):
        rest = sum(sums for other, sums in bins.items() if other != name)
        gap = bins[name].mean_confidence - bins[name].accuracy
        expected = gap - (rest.mean_confidence - rest.accuracy)
        np.testing.assert_allclose(table["difference"][k], expected, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("n_domains", [3, 300])
def test_the_number_of_passes_does_not_grow_with_the_domains(n_domains):
    data = _data(n_domains, 900)
    fitted = dc.TemperatureScaling().fit(data)
    with (
        mock.patch.object(dispatch, "domain_bin_sums", wraps=dispatch.domain_bin_sums) as passes,
        mock.patch.object(
            calibration_data, "rows_of_codes", wraps=calibration_data.rows_of_codes
        ) as sorts,
    ):
        dc.score_table(fitted, data)
        bins_by_domain(np.full(len(data), 0.5), data.labels == 0, data.domains)
        assert passes.call_count == 2
        assert len(list(data.by_domain())) == n_domains
        assert sorts.call_count == 1


@given(st.integers(2, 40))
def test_sums_of_others_are_those_of_all_but_one(n):
    random = np.random.default_rng(n)
    parts = [RidgeSums(random.normal(size=(2, 2)), random.normal(size=2), float(k), 1.0)
             for k in range(n)]  # fmt: skip
    for k, others in enumerate(sums_of_others(parts)):
        rest = [part for j, part in enumerate(parts) if j != k]
        np.testing.assert_allclose(others.gram, sum(p.gram for p in rest), atol=1e-12)
        np.testing.assert_allclose(others.moments, sum(p.moments for p in rest), atol=1e-12)
        assert (others.square, others.weight) == (sum(p.square for p in rest), n - 1)


def test_normal_equations_of_small_blocks_are_those_of_all_rows(monkeypatch):
    random = np.random.default_rng(0)
    domain = random.integers(0, 50, 400)
    x = random.normal(size=(400, 3))
    monkeypatch.setattr(feature_products, "BLAS_BLOCK_BYTES", 3 * 8 * 7)
    (found,) = normal_equations.sum_normal_equations(x, domain, part=np.zeros(50, np.int64))
    whole = NormalEquations.from_rows(x, domain, 50, shift=np.zeros(3))
    for name in ("gram", "moments", "weight"):
        np.testing.assert_allclose(getattr(found, name), getattr(whole, name), atol=1e-12)


@given(st.integers(1, 80), st.integers(1, 20))
def test_groups_of_neighbours_have_equal_sizes(n, n_groups):
    x = np.random.default_rng(n).normal(size=(n, 2))
    sizes = np.bincount(neighbour_groups(x, n_groups))
    assert len(sizes) == min(n, n_groups)
    assert np.ptp(sizes) <= 1


@settings(max_examples=30)
@given(st.integers(20, 90), st.integers(3, 10))
def test_folds_of_many_domains_are_limited_and_keep_similar_ones(n_domains, max_folds):
    # Only 16 groups are clustered, as if there were more than 4,096 domains.
    random = np.random.default_rng(n_domains)
    cluster = np.arange(n_domains) % 4
    profiles = 100.0 * np.eye(4)[cluster] + random.normal(size=(n_domains, 4))
    with mock.patch.object(domain_folds, "MOST_CLUSTERED", 16):
        folds = similar_domain_folds(profiles, max_folds)
        order = random.permutation(n_domains)
        shuffled = similar_domain_folds(profiles[order], max_folds)
    assert np.bincount(folds).max() <= n_domains / 2
    assert folds.max() < max_folds
    same = folds[:, None] == folds
    assert np.array_equal(same[order][:, order], shuffled[:, None] == shuffled)


def test_chosen_domains_of_a_long_list_are_those_of_a_mask():
    data = _data(60, 200)
    asked = data.domain_names[::3].tolist()
    inside, outside = dc.split_domains(data, asked)
    own = np.isin(data.domains.astype(str), asked)
    assert np.array_equal(outside.logits, data.logits[own])
    assert np.array_equal(inside.logits, data.logits[~own])
    with pytest.raises(InputError, match="matches no domain"):
        dc.split_domains(data, [*asked, ("site-1", ["site-2"])])

"""Folds of similar domains."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import pdist

from domaincal.statistics.domain_folds import similar_domain_folds

# Few different values, so that duplicates, ties and constant columns are common.
PROFILES = st.tuples(
    st.tuples(st.integers(1, 25), st.integers(1, 4)).flatmap(
        lambda shape: arrays(np.int64, shape, elements=st.integers(-3, 3))
    ),
    st.sampled_from([1e-300, 0.1, 1.0, 1e150]),
).map(lambda drawn: drawn[0] * drawn[1])


def _groups(folds):
    """Sets of domains, which do not depend on the numbers of the folds."""
    return {frozenset(np.flatnonzero(folds == k).tolist()) for k in np.unique(folds)}


@given(PROFILES, st.integers(2, 12))
@settings(deadline=None)
def test_every_domain_is_in_one_of_a_few_folds(profiles, max_folds):
    n = len(profiles)
    folds = similar_domain_folds(profiles, max_folds)
    assert folds.shape == (n,)
    numbers = np.unique(folds)
    assert numbers.tolist() == list(range(len(numbers)))
    assert min(n, 2) <= len(numbers) <= max_folds
    if n < 6 and n <= max_folds:
        assert folds.tolist() == list(range(n))
    if n > 1:
        limit = n / 2 if max_folds > 2 else 2 * n / 3
        assert np.bincount(folds).max() <= max(1, limit)
    # Numbered by their first domains.
    assert np.array_equal(numbers, np.argsort([np.argmax(folds == k) for k in numbers]))


@given(PROFILES, st.integers(2, 12), st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_the_order_of_the_domains_decides_only_the_numbers(profiles, max_folds, seed):
    order = np.random.default_rng(seed).permutation(len(profiles))
    folds = similar_domain_folds(profiles, max_folds)
    shuffled = similar_domain_folds(profiles[order], max_folds)
    # Domains with the same profile can take each other's place.
    same = np.unique(profiles, axis=0, return_inverse=True)[1].ravel()

    def of_profiles(codes, kinds):
        return sorted(sorted(kinds[codes == k].tolist()) for k in np.unique(codes))

    if len(profiles) >= 6 or len(profiles) > max_folds:
        assert of_profiles(folds, same) == of_profiles(shuffled, same[order])


@given(PROFILES, st.integers(-6, 6))
@settings(deadline=None)
def test_units_and_constant_columns_decide_nothing(profiles, exponent):
    other_units = np.column_stack([profiles * 2.0**exponent, np.full(len(profiles), 7.0)])
    assert _groups(similar_domain_folds(profiles)) == _groups(similar_domain_folds(other_units))


@pytest.mark.parametrize("max_folds", [5, 10])
def test_severities_of_one_corruption_are_in_one_fold(max_folds):
    """Each corruption moves the features in its own direction, the further the more severe."""
    rng = np.random.default_rng(0)
    kinds, severity = np.repeat(np.arange(10), 5), np.tile(np.arange(1, 6), 10)
    directions = np.linalg.qr(rng.normal(size=(60, 10)))[0].T
    profiles = directions[kinds] * (3.0 + severity)[:, None] + rng.normal(0, 0.02, (50, 60))
    folds = similar_domain_folds(profiles, max_folds)
    assert len(np.unique(folds)) == max_folds
    assert all(len(np.unique(folds[kinds == kind])) == 1 for kind in range(10))


def test_folds_are_the_clusters_of_average_linkage():
    compared = 0
    for seed in range(20):
        profiles = np.random.default_rng(seed).normal(size=(32, 2)) * [1.0, 100.0]
        z = (profiles - profiles.mean(axis=0)) / profiles.std(axis=0)
        theirs = fcluster(linkage(pdist(z), "average"), 5, "maxclust")
        if np.bincount(theirs).max() <= 16:  # no cluster is cut further
            assert _groups(similar_domain_folds(profiles, 5)) == _groups(theirs)
            compared += 1
    assert compared >= 10


def test_a_cluster_of_most_domains_is_cut_further():
    """Thirty similar people and nine unlike all: ten clusters alone would leave out the thirty."""
    rng = np.random.default_rng(1)
    profiles = np.concatenate([rng.normal(size=(30, 5)), 50.0 * rng.normal(size=(9, 5))])
    folds = similar_domain_folds(profiles)
    assert len(np.unique(folds)) == 10
    assert np.bincount(folds).max() <= 39 / 2
    assert len(np.unique(folds[:30])) > 1

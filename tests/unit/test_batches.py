"""Disjoint batches of shuffled rows of one domain."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import arrays

import domaincal as dc
from domaincal.data.batches import check_batch_size, shuffled_batches

DOMAINS = arrays(np.int64, st.integers(1, 60), elements=st.sampled_from([0, 1, 5, -2]))


@given(DOMAINS, st.integers(1, 70), st.integers(0, 2**32 - 1))
def test_batches_are_full_except_the_last_of_each_domain(domain, size, seed):
    batches = shuffled_batches(domain, size, np.random.default_rng(seed))
    numbers = np.unique(batches)
    assert numbers.tolist() == list(range(len(numbers)))
    for name in np.unique(domain):
        own = domain == name
        inside = np.unique(batches[own])
        assert not np.isin(batches[~own], inside).any()  # one domain a batch
        counts = sorted(np.bincount(batches[own])[inside].tolist(), reverse=True)
        n = int(own.sum())
        assert counts == [size] * (n // size) + [n % size] * (n % size > 0)


@given(DOMAINS)
def test_all_rows_of_a_domain_are_a_batch(domain):
    batches = shuffled_batches(domain, "domain", np.random.default_rng(0))
    assert np.array_equal(batches, np.unique(domain, return_inverse=True)[1])


def test_rows_are_shuffled_by_the_generator_alone():
    domain = np.repeat([0, 1], 50)
    one, same, other = (shuffled_batches(domain, 10, np.random.default_rng(s)) for s in (0, 0, 1))
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()
    # Neighbouring rows are rarely in the same batch: 1 in 5 by chance, all if nothing is shuffled.
    assert np.mean(one[:-1] == one[1:]) < 0.5


def test_single_rows_are_batches_of_their_own():
    batches = shuffled_batches(np.array([0, 1, 0, 1]), 1, np.random.default_rng(0))
    assert sorted(batches.tolist()) == [0, 1, 2, 3]


@pytest.mark.parametrize("size", [1, 7, np.int64(3), "domain"])
def test_numbers_of_rows_and_domain_are_sizes(size):
    check_batch_size(size)


@pytest.mark.parametrize("size", [0, -1, 2.5, "all", "10", "", True, None, np.nan, [1], 10**20])
def test_other_sizes_are_refused(size):
    with pytest.raises(dc.errors.InputError, match="batch_size must be"):
        check_batch_size(size)

"""Samples of rows with equally many of each domain."""

from __future__ import annotations

from itertools import accumulate
from typing import cast

import numpy as np
import pandas as pd

from domaincal._row_arrays import is_row_array, parts_of, row_range
from domaincal._typing import Array, FloatArray, IntArray
from domaincal._warnings import warn_caller
from domaincal.errors import InputError, SubsampleWarning
from domaincal.statistics.blocks import row_blocks
from domaincal.statistics.domain_counts import domain_counts


def weighted_rows(codes: IntArray, used: Array, weight: FloatArray | None) -> IntArray:
    """Numbers of the rows of used domains with a positive weight."""
    mask = used[codes] if weight is None else used[codes] & (weight > 0)
    return np.flatnonzero(mask)


def sample_rows(rows: IntArray, codes: IntArray, *, max_rows: int, random_state: int) -> IntArray:
    """The given rows, or a random sample of about ``max_rows`` of them.

    A sample has the same number of rows of each domain, at least one; all rows of a domain with
    fewer.
    """
    if len(rows) <= max_rows:
        return rows
    per_domain = max(1, max_rows // len(np.unique(codes[rows])))
    shuffled = np.random.default_rng(random_state).permutation(rows)
    rank = pd.Series(codes[shuffled]).groupby(codes[shuffled]).cumcount().to_numpy()
    return np.sort(shuffled[rank < per_domain])


def sample_blocks(
    codes: Array, sizes: IntArray, *, n_rows: IntArray, random_state: int
) -> IntArray:
    """Row numbers of a random sample of rows that are read in blocks, in increasing order.

    The draw is not that of :func:`sample_rows`: it takes no memory for rows that are not drawn.

    Parameters
    ----------
    codes : RowArray of integers
        Number of the domain of each row.
    sizes, n_rows : arrays of shape (n_domains,)
        Number of rows to draw, and number of rows, of each domain.
    """
    random = np.random.default_rng(random_state)
    starts = np.cumsum(n_rows) - n_rows
    # A row has the number that it would have if the rows were sorted by domain.
    drawn = []
    for start, n, size in zip(starts.tolist(), n_rows.tolist(), sizes.tolist(), strict=True):
        drawn.append(start + distinct_numbers(n, size, random))
    chosen = np.concatenate(drawn)
    parts = parts_of(codes)
    if parts is None:
        return _drawn_rows(codes, chosen, starts)
    counts = parts.map(domain_counts, codes, len(n_rows))
    before = [*accumulate((one.astype(np.int64) for one in counts[:-1]), initial=starts)]
    return np.concatenate(parts.map(_drawn_rows, codes, chosen, each=before))


def spread_places(n_rows: IntArray, sizes: IntArray, *, random_state: int) -> IntArray:
    """Places, in ascending order, of sampled rows among all rows sorted by domain.

    The rows of each domain are cut into as many parts of equal length as are drawn from it, and a
    random row is taken from each part.

    Examples
    --------
    >>> spread_places(np.array([4, 2, 3]), np.array([4, 0, 3]), random_state=0).tolist()
    [0, 1, 2, 3, 6, 7, 8]
    """
    starts, first = np.cumsum(n_rows) - n_rows, np.cumsum(sizes) - sizes
    domain = np.repeat(np.arange(len(sizes)), sizes)
    part = np.arange(len(domain)) - first[domain]
    n, size = n_rows[domain], sizes[domain]
    low, high = part * n // size, (part + 1) * n // size
    chosen = low + np.random.default_rng(random_state).integers(high - low)
    return np.asarray(starts[domain] + chosen)


def distinct_numbers(n: int, size: int, random: np.random.Generator) -> IntArray:
    """Random numbers below ``n``, all different, in increasing order; as if without replacement."""
    if 2 * size >= n:
        return np.sort(random.choice(n, size, replace=False, shuffle=False))
    # random.choice would take memory for all n.
    found = np.empty(0, np.int64)
    while len(found) < size:
        found = np.union1d(found, random.integers(n, size=size - len(found)))
    return found


def _drawn_rows(codes: Array, chosen: IntArray, before: IntArray) -> IntArray:
    """Numbers of the chosen rows, in increasing order.

    ``chosen`` holds their places if the rows were sorted by domain, and ``before`` the place of the
    first row of each domain that this process reads.
    """
    before = before.copy()
    found = [np.empty(0, np.int64)]
    for block in row_blocks(row_range(codes), 8) if len(chosen) else []:
        own = codes[block]
        order = np.argsort(own, kind="stable")
        present, counts = np.unique(own, return_counts=True)
        places = np.arange(len(own)) - np.repeat(np.cumsum(counts) - counts, counts)
        numbers = np.repeat(before[present], counts) + places
        at = np.minimum(np.searchsorted(chosen, numbers), len(chosen) - 1)
        found.append(block.start + np.sort(order[chosen[at] == numbers]))
        before[present] += counts
    return np.concatenate(found)


def equal_sizes(n_rows: IntArray, used: Array, max_rows: int) -> IntArray:
    """Rows to draw from each domain, equally many of each used domain.

    Examples
    --------
    >>> equal_sizes(np.array([5, 100, 70]), np.array([True, True, False]), 40).tolist()
    [5, 20, 0]
    """
    available = np.where(used, n_rows, 0)
    if available.sum() <= max_rows:
        return available
    return np.minimum(available, max(1, max_rows // max(1, int(used.sum()))))


def draw_rows(
    codes: Array, used: Array, weight: FloatArray | None, *, max_rows: int, random_state: int
) -> tuple[IntArray, int]:
    """Numbers of the rows of used domains, or of a sample of them; and the number of all of them.

    A sample has equally many rows of each domain.
    """
    if is_row_array(codes):
        n_rows = domain_counts(cast(Array, codes), len(used)).astype(np.int64)
        sizes = equal_sizes(n_rows, used, max_rows)
        rows = sample_blocks(cast(Array, codes), sizes, n_rows=n_rows, random_state=random_state)
        return rows, int(n_rows[used].sum())
    available = weighted_rows(codes, used, weight)
    rows = sample_rows(available, codes, max_rows=max_rows, random_state=random_state)
    return rows, len(available)


def check_max_rows(max_rows: int, n_domains: int) -> None:
    """Raise InputError if ``max_rows`` is less than one row for each domain."""
    if max_rows < n_domains:
        raise InputError(
            f"max_rows={max_rows} is less than the {n_domains} domains; raise it to at least one "
            "row for each domain."
        )


def warn_of_sample(name: str, n_sampled: int, n_rows: int, max_rows: int) -> None:
    """Warn if a calibrator learns from the features of some of the rows only."""
    if n_sampled < n_rows:
        warn_caller(
            f"{name} learned from the features of {n_sampled} of {n_rows} rows; raise max_rows="
            f"{max_rows} to use more.",
            SubsampleWarning,
        )

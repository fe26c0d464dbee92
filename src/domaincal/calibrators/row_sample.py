"""Samples of rows with equally many of each domain."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import pandas as pd

from domaincal._row_arrays import RowArray, parts_of, row_range
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
    codes: RowArray, used: Array, *, n_rows: IntArray, max_rows: int, random_state: int
) -> IntArray:
    """Row numbers of a sample of rows that are read in blocks, as :func:`sample_rows` draws it.

    The draw is another one for the same seed: it takes no memory for the rows that are not drawn.
    ``n_rows`` is the number of rows of each domain.
    """
    random = np.random.default_rng(random_state)
    per_domain = max(1, max_rows // max(1, int(used.sum())))
    everything = int(n_rows[used].sum()) <= max_rows
    drawn = {}
    for k in np.flatnonzero(used).tolist():
        n = int(n_rows[k])
        size = n if everything else min(n, per_domain)
        drawn[k] = np.sort(random.choice(n, size, replace=False, shuffle=False))
    before = np.zeros(len(n_rows), np.int64)
    parts = parts_of(codes)
    if parts is None:
        found = _drawn_rows(codes, drawn, before)
    else:
        counts = parts.map(domain_counts, codes, len(n_rows))
        starts = [*accumulate((one.astype(np.int64) for one in counts[:-1]), initial=before)]
        found = np.concatenate(parts.map(_drawn_rows, codes, drawn, each=starts))
    return found


def _drawn_rows(codes: RowArray, drawn: dict[int, IntArray], before: IntArray) -> IntArray:
    """Row numbers of the drawn rows, in ascending order.

    ``drawn[k]`` counts the rows of domain k, of which ``before[k]`` come before the rows that this
    process reads.
    """
    before = before.copy()
    found = [np.empty(0, np.int64)]
    for block in row_blocks(row_range(codes), 8):
        own = codes[block]
        for k in np.unique(own).tolist():
            places = np.flatnonzero(own == k)
            if k in drawn:
                low, high = np.searchsorted(drawn[k], [before[k], before[k] + len(places)])
                found.append(block.start + places[drawn[k][low:high] - before[k]])
            before[k] += len(places)
    return np.sort(np.concatenate(found))


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

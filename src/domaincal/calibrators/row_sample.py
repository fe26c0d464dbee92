"""Samples of rows with equally many of each domain."""

from __future__ import annotations

import numpy as np
import pandas as pd

from domaincal._typing import Array, FloatArray, IntArray
from domaincal._warnings import warn_caller
from domaincal.errors import InputError, SubsampleWarning


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

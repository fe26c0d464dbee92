"""Batches of rows of one domain, as a method that looks at batches would meet them."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np

from domaincal._typing import IntArray
from domaincal._validation import check_count
from domaincal.errors import InputError

#: Number of rows of a batch, or ``"domain"``: all rows of a domain are one batch.
BatchSize: TypeAlias = int | Literal["domain"]


def check_batch_size(batch_size: Any) -> None:
    """Raise InputError unless ``batch_size`` is a number of rows or ``"domain"``."""
    if isinstance(batch_size, str):
        if batch_size != "domain":
            raise InputError(
                f"batch_size must be a number of rows (1 or more) or 'domain', got {batch_size!r}."
            )
        return
    check_count(batch_size, "batch_size", minimum=1)


def shuffled_batches(
    domain: IntArray, batch_size: BatchSize, random: np.random.Generator
) -> IntArray:
    """Number of the batch of each row: disjoint batches of shuffled rows of one domain.

    The last batch of a domain has the rows that are left.

    Examples
    --------
    >>> import numpy as np
    >>> batches = shuffled_batches(np.array([0, 0, 0, 1]), 2, np.random.default_rng(0))
    >>> np.bincount(batches).tolist()
    [2, 1, 1]
    """
    if batch_size == "domain":
        return np.asarray(np.unique(domain, return_inverse=True)[1])
    shuffled = random.permutation(len(domain))
    order = shuffled[np.argsort(domain[shuffled], kind="stable")]
    counts = np.unique(domain, return_counts=True)[1]
    place = np.concatenate([np.arange(n) // int(batch_size) for n in counts])
    pairs = np.column_stack([domain[order], place])
    batches = np.empty(len(domain), np.int64)
    batches[order] = np.concatenate([[0], np.cumsum((pairs[1:] != pairs[:-1]).any(axis=1))])
    return batches

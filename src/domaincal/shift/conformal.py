"""Conformal prediction: limits that a new domain keeps with a given probability."""

from __future__ import annotations

import math

# Rounding must not move a whole number to the next one: 0.9 * 10 is 9.
_ROUNDING = 1e-9


def conformal_rank(n_values: int, level: float) -> int | None:
    """Rank, from 1, of the smallest of n values that is a limit with probability ``level``.

    A new value that is exchangeable with n known ones is at most the ``ceil(level (n + 1))``-th
    smallest of them with this probability or more. None if n is too small for that.

    Examples
    --------
    >>> conformal_rank(9, 0.9), conformal_rank(20, 0.9), conformal_rank(8, 0.9)
    (9, 19, None)
    """
    rank = math.ceil(level * (n_values + 1) - _ROUNDING)
    return rank if rank <= n_values else None


def needed_domains(level: float) -> int:
    """Smallest number of domains for which :func:`conformal_rank` is not None.

    Examples
    --------
    >>> needed_domains(0.9), needed_domains(0.95)
    (9, 19)
    """
    return math.ceil(level / (1.0 - level) - _ROUNDING)

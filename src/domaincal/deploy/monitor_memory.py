"""Which rows of a stream a monitor remembers: the last ones, or all with falling weights."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, ClassVar, TypeAlias

import numpy as np

from domaincal._typing import FloatArray, IntArray
from domaincal._validation import check_count, check_number
from domaincal.deploy.monitored_sums import SQUARES, N
from domaincal.errors import InputError

#: Sums of consecutive rows of one domain, the oldest first.
Parts: TypeAlias = tuple[FloatArray, ...]
#: Number of the part of its domain to which each new row is added, and weight of the row.
Placed: TypeAlias = tuple[IntArray, FloatArray]

#: Window of a monitor that is given neither a window nor a half-life.
DEFAULT_WINDOW = 1000
_LONGEST_HALF_LIFE = 1e12
# Parts of a window: rows are forgotten part by part.
_N_PARTS = 20


@dataclass(frozen=True)
class SlidingWindow:
    """The last rows of a domain, at least ``n_rows`` of them, in at most 21 parts.

    The oldest part is dropped as soon as the others have ``n_rows`` rows.
    """

    n_rows: int

    def parameters(self) -> dict[str, Any]:
        """Parameters of :class:`TemperatureMonitor`."""
        return {"window": self.n_rows, "half_life": None}

    def shown(self) -> str:
        """Text for messages."""
        return f"window={self.n_rows}"

    @property
    def most_parts(self) -> int:
        """Largest number of parts."""
        return math.ceil(self.n_rows / self._part_rows) + 1

    def place(self, position: IntArray, n_new: IntArray, n_open: IntArray) -> Placed:
        """Part and weight of each new row.

        Parameters
        ----------
        position : array of shape (n,)
            Number of earlier new rows of the same domain.
        n_new, n_open : arrays of shape (n,)
            Numbers of new rows of the domain, and of rows in its open part.
        """
        return (n_open + position) // self._part_rows, np.ones(len(position))

    def n_open(self, parts: Parts) -> int:
        """Number of rows in the last part, if it has room for more, otherwise 0."""
        n = int(parts[-1][N]) if parts else 0
        return n if n < self._part_rows else 0

    def extend(self, parts: Parts, new: Iterable[FloatArray], n_new: int) -> Parts:
        """Parts with the sums of new rows; the first continue the open part, if there is one."""
        kept, added = list(parts), list(new)
        if self.n_open(parts):
            kept[-1] = kept[-1] + added.pop(0)
        kept += added
        total = sum(part[N] for part in kept)
        while total - kept[0][N] >= self.n_rows:
            total -= kept.pop(0)[N]
        return tuple(kept)

    @property
    def _part_rows(self) -> int:
        return math.ceil(self.n_rows / _N_PARTS)


@dataclass(frozen=True)
class Forgetting:
    """All rows of a domain; the weight of a row halves with each ``half_life`` rows after it."""

    half_life: float
    most_parts: ClassVar[int] = 1

    def parameters(self) -> dict[str, Any]:
        """Parameters of :class:`TemperatureMonitor`."""
        return {"window": None, "half_life": self.half_life}

    def shown(self) -> str:
        """Text for messages."""
        return f"half_life={self.half_life:g}"

    def place(self, position: IntArray, n_new: IntArray, n_open: IntArray) -> Placed:
        """Part and weight of each new row; see :meth:`SlidingWindow.place`."""
        later = n_new - 1 - position
        return np.zeros(len(position), np.int64), 0.5 ** (later / self.half_life)

    def n_open(self, parts: Parts) -> int:
        """Number of rows in the only part, which does not decide where new rows go."""
        return 0

    def extend(self, parts: Parts, new: Iterable[FloatArray], n_new: int) -> Parts:
        """The one part, with the sums of new rows."""
        (total,) = new
        if parts:
            factor = 0.5 ** (n_new / self.half_life)
            old = factor * parts[0]
            old[SQUARES] *= factor
            total = total + old
        return (total,)


def make_memory(window: Any, half_life: Any) -> SlidingWindow | Forgetting:
    """Memory with these parameters of :class:`TemperatureMonitor`, which are checked."""
    if window is not None and half_life is not None:
        raise InputError(
            f"both window={window!r} and half_life={half_life!r} are given; pass one of them."
        )
    if half_life is None:
        return SlidingWindow(check_count(DEFAULT_WINDOW if window is None else window, "window"))
    return Forgetting(check_number(half_life, "half_life", low=0.0, high=_LONGEST_HALF_LIFE))


def merged(one: Parts, other: Parts) -> Parts:
    """Parts of both, the last with the last and so on."""
    pairs = zip_longest(reversed(one), reversed(other))
    return tuple(b if a is None else a if b is None else a + b for a, b in pairs)[::-1]

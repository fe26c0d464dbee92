"""Logits from the probabilities or binary scores of a model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from domaincal._typing import ArrayLike, FloatArray
from domaincal._validation import check_number, check_probabilities, check_real_array
from domaincal._warnings import warn_caller
from domaincal.errors import InputError, RoundedProbabilitiesWarning

#: Floor of probabilities: below it, their logarithm depends on rounding.
DEFAULT_FLOOR = 1e-12
# Zeros beside a smallest positive probability of this or more come from rounding or from votes.
_COARSE = 1e-6
# Rows from which the smallest positive probability tells something.
_ENOUGH_ROWS = 20


def logits_from_probabilities(
    probabilities: ArrayLike, *, floor: float | None = None
) -> FloatArray:
    """Logits whose softmax is ``probabilities``: ``log(max(p, floor))``.

    Parameters
    ----------
    probabilities : array, shape (n, n_classes)
        Rows must sum to 1 within 0.02, which allows for rounded values. The softmax of the logits
        sums to 1 exactly.
    floor : float, default 1e-12
        Replaces smaller probabilities, whose logarithm depends on rounding more than on the model.
        It limits the log loss of a row at T = 1 to ``-log(floor)``, 27.6 by default. Zeros of
        rounded probabilities, or of a forest, mean more than 1e-12: without ``floor``, a
        ``RoundedProbabilitiesWarning`` suggests one. Use the same for fit and prediction.

    Examples
    --------
    >>> logits_from_probabilities([[0.2, 0.8], [0.5, 0.5]]).round(3).tolist()
    [[-1.609, -0.223], [-0.693, -0.693]]
    """
    if floor is not None:
        check_number(floor, "floor", low=0.0, high=1.0)
    return floored_logits(probabilities, floor, if_wrong="if they are logits, use them as logits")


def floored_logits(
    probabilities: ArrayLike,
    floor: float | None,
    *,
    if_wrong: str,
    first_row: int = 0,
    zeros: ZeroCount | None = None,
) -> FloatArray:
    """:func:`logits_from_probabilities`; ``if_wrong`` is the cure of rows that do not sum to 1.

    Of rows that are a part of others, ``first_row`` is the number of the first, and ``zeros``
    counts for the warning, which is left to the caller.
    """
    p = check_probabilities(
        probabilities, tolerance=0.02, if_logits=if_wrong, first_row=first_row
    ).astype(np.float64)
    if floor is None:
        counted = ZeroCount() if zeros is None else zeros
        counted.add(p)
        if zeros is None:
            counted.warn()
    np.maximum(p, DEFAULT_FLOOR if floor is None else floor, out=p)
    return np.asarray(np.log(p, out=p))


def logits_from_scores(scores: ArrayLike) -> FloatArray:
    """Two-class logits ``(0, s)`` from the score ``s`` of a binary classifier.

    The softmax of the logits gives ``P(y=1) = 1 / (1 + exp(-s))``.

    Parameters
    ----------
    scores : array, shape (n,) or (n, 1)
        Log-odds of class 1, e.g. ``decision_function(X)``; not a probability.

    Examples
    --------
    >>> logits_from_scores([-1.5, 2.0]).tolist()
    [[0.0, -1.5], [0.0, 2.0]]
    """
    s = check_real_array(scores, "scores").astype(np.float64)
    if s.ndim == 2 and s.shape[1] == 1:
        s = s[:, 0]
    if s.ndim != 1 or len(s) == 0:
        raise InputError(
            f"scores must be a 1-D array with at least one score, got shape {s.shape}; an array "
            "with one column for each class needs no conversion: use it as logits."
        )
    if not np.isfinite(s).all():
        row = int(np.argmin(np.isfinite(s)))
        raise InputError(f"scores contains {s[row]} (row {row}); drop those rows.")
    return np.column_stack([np.zeros_like(s), s])


@dataclass
class ZeroCount:
    """Number of probabilities of 0, and the smallest other one."""

    n_rows: int = 0
    n_values: int = 0
    n_zeros: int = 0
    smallest: float = 1.0

    def add(self, probabilities: FloatArray) -> None:
        """Count those of more rows."""
        positive = probabilities > 0.0
        self.n_rows += len(probabilities)
        self.n_values += positive.size
        self.n_zeros += positive.size - int(np.count_nonzero(positive))
        self.smallest = float(np.min(probabilities, where=positive, initial=self.smallest))

    def warn(self) -> None:
        """Warn if zeros stand beside probabilities that are far above the default floor."""
        if self.n_rows < _ENOUGH_ROWS or not self.n_zeros or self.smallest < _COARSE:
            return
        # Half of the resolution; much less than equal shares, if all probabilities are 0 or 1.
        floor = min(self.smallest / 2.0, 0.1 * self.n_rows / self.n_values)
        warn_caller(
            f"{self.n_zeros} of {self.n_values} probabilities are 0, and the smallest other one "
            f"is {self.smallest:.3g}: they seem to be rounded, or shares of votes. Zeros count as "
            f"{DEFAULT_FLOOR:g}, which spoils temperatures. Keep more digits, or pass floor=... "
            f"(--floor), such as {floor:.2g}, for fit and prediction.",
            RoundedProbabilitiesWarning,
        )

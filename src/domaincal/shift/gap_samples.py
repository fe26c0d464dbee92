"""Gaps of the confidences of known domains and a new one, and the mixture that is nearest to it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import scipy.optimize

from domaincal._typing import Array, FloatArray, IntArray
from domaincal.errors import InputError
from domaincal.shift.divergence import grid_confidences

# The divergence of the best mixture is at most this much above the smallest one.
_TOLERANCE = 1e-6
_MAX_ROUNDS = 100
# Bins of the gaps in unexplained_part, of equal shares in known and new rows together.
_N_BINS = 10


@dataclass(frozen=True, eq=False)
class GapSamples:
    """Gaps |h_T - h_T'| of the known domains and of a new one, sorted for each pair.

    Attributes
    ----------
    order : list of arrays of shape (n,)
        Domain of each row in the order of the gaps, for each pair; the new domain is the last.
    ends : list of arrays
        Positions in ``order`` at which the gap is different from the next one.
    n : array of shape (n_known + 1,)
        Number of rows of each domain.
    """

    order: list[Array]
    ends: list[IntArray]
    n: IntArray

    @classmethod
    def from_rows(
        cls, known: Array, codes: IntArray, new: Array, temperatures: FloatArray
    ) -> GapSamples:
        """Sort the gaps of each pair of temperatures; takes 8 bytes for each row and pair."""
        if known.shape[1] != new.shape[1]:
            raise InputError(
                f"the known domains have {known.shape[1]} classes and the new one has "
                f"{new.shape[1]}; pass logits of the same model."
            )
        confidence = np.hstack([grid_confidences(rows, temperatures) for rows in (known, new)])
        n_known = int(codes.max()) + 1
        domain = np.append(codes, np.full(len(new), n_known)).astype(np.int32)
        order, ends = [], []
        for a, b in combinations(range(len(temperatures)), 2):
            gap = np.abs(confidence[a] - confidence[b])
            sorted_rows = np.argsort(gap)
            gap = gap[sorted_rows]
            order.append(domain[sorted_rows])
            ends.append(np.append(np.flatnonzero(gap[1:] != gap[:-1]), len(gap) - 1))
        return cls(order, ends, np.bincount(domain, minlength=n_known + 1))

    def divergence(self, alpha: FloatArray) -> float:
        """Divergence of the new domain from the mixture with these shares."""
        return float(self._largest_differences(alpha)[0].max())

    def best_mixture(self) -> tuple[FloatArray, float]:
        """Shares with the smallest divergence, and this divergence.

        The divergence is the maximum of linear functions of alpha, one for each pair and
        threshold. A linear program over some of them gives a lower limit; the functions that are
        largest at its solution are added until the divergence there is no more than 1e-6 above.
        """
        n_known = len(self.n) - 1
        cuts = [
            self._shares(p, end)
            for p in range(len(self.order))
            for end in self._deciles(p).tolist()
        ]
        best, smallest = np.full(n_known, 1.0 / n_known), np.inf
        for _ in range(_MAX_ROUNDS):
            alpha, lower = _smallest_maximum(np.reshape(cuts, (-1, n_known + 1)))
            values, positions = self._largest_differences(alpha)
            if values.max() < smallest:
                best, smallest = alpha, float(values.max())
            if smallest - lower <= _TOLERANCE:
                break
            cuts += [
                self._shares(int(p), int(positions[p]))
                for p in np.flatnonzero(values > lower + _TOLERANCE / 2)
            ]
        return best, smallest

    def unexplained_part(self) -> float:
        """Smallest total variation of the gaps in ten bins, the largest over the pairs."""
        cuts = [
            [self._shares(p, end) for end in self._deciles(p).tolist()]
            for p in range(len(self.order))
        ]
        return _smallest_variation([np.array(of_pair) for of_pair in cuts if of_pair])

    def _largest_differences(self, alpha: FloatArray) -> tuple[FloatArray, IntArray]:
        """Largest difference of the distribution functions of each pair, and its position."""
        weight = np.append(alpha, -1.0) / self.n
        values, positions = [], []
        for order, ends in zip(self.order, self.ends, strict=True):
            sums = np.abs(np.cumsum(weight[order])[ends])
            at = int(np.argmax(sums))
            values.append(min(float(sums[at]), 1.0))
            positions.append(ends[at])
        return np.array(values), np.array(positions)

    def _shares(self, pair: int, position: int) -> FloatArray:
        """Share of the rows of each domain up to a position, shape (n_known + 1,)."""
        counts = np.bincount(self.order[pair][: position + 1], minlength=len(self.n))
        return np.asarray(counts / self.n)

    def _deciles(self, pair: int) -> IntArray:
        """Positions of the deciles of the gaps, without the largest gap.

        The known rows together count as much as the new ones.
        """
        of_new = self.order[pair] == len(self.n) - 1
        shares = np.cumsum(np.where(of_new, 0.5 / self.n[-1], 0.5 / self.n[:-1].sum()))
        # Rounding must not move a decile from the end of one value to the next one.
        deciles = np.searchsorted(shares, np.arange(1, _N_BINS) / _N_BINS - 1e-9)
        ends = self.ends[pair]
        found = np.unique(ends[np.searchsorted(ends, deciles)])
        return np.asarray(found[found < len(self.order[pair]) - 1], np.int64)


def _smallest_maximum(shares: FloatArray) -> tuple[FloatArray, float]:
    """Mixture with the smallest maximum of ``|F_alpha - F_new|``, and this maximum.

    Each row of ``shares`` has the distribution functions of the known domains at one gap, and that
    of the new domain in its last column.
    """
    n_known = shares.shape[1] - 1
    objective = np.append(np.zeros(n_known), 1.0)
    if not len(shares):
        return np.full(n_known, 1.0 / n_known), 0.0
    known, new = shares[:, :-1], shares[:, -1]
    limit = np.full((len(shares), 1), -1.0)
    solution = _solve(
        objective,
        np.block([[known, limit], [-known, limit]]),
        np.concatenate([new, -new]),
        n_known,
    )
    return solution[:n_known], float(solution[n_known])


def _smallest_variation(shares: list[FloatArray]) -> float:
    """Smallest total variation over mixtures, the largest over the pairs.

    Each pair has an array as in :func:`_smallest_maximum`, whose differences are bins.
    """
    if not shares:
        return 0.0
    n_known = shares[0].shape[1] - 1
    bins = [np.diff(s, axis=0, prepend=0.0, append=1.0) for s in shares]
    n_bins = [len(b) for b in bins]
    total = sum(n_bins)
    stacked = np.concatenate(bins)
    known, new = stacked[:, :-1], stacked[:, -1]
    # Variables: shares, absolute difference of each bin, total variation.
    identity, nothing = -np.eye(total), np.zeros((total, 1))
    of_pair = np.repeat(np.eye(len(bins)), n_bins, axis=1) / 2
    rows = np.block(
        [
            [known, identity, nothing],
            [-known, identity, nothing],
            [np.zeros((len(bins), n_known)), of_pair, np.full((len(bins), 1), -1.0)],
        ]
    )
    objective = np.append(np.zeros(n_known + total), 1.0)
    limits = np.concatenate([new, -new, np.zeros(len(bins))])
    return float(np.clip(_solve(objective, rows, limits, n_known)[-1], 0.0, 1.0))


def _solve(objective: FloatArray, rows: FloatArray, limits: FloatArray, n_known: int) -> FloatArray:
    """Linear program in non-negative variables, of which the first are shares that sum to 1."""
    sums = np.zeros((1, len(objective)))
    sums[0, :n_known] = 1.0
    found = scipy.optimize.linprog(
        objective, A_ub=rows, b_ub=limits, A_eq=sums, b_eq=[1.0], method="highs"
    )
    if found.x is None:
        raise RuntimeError(f"the linear program of the mixture weights failed: {found.message}")
    x = np.asarray(found.x, np.float64)
    # The solver keeps its conditions to within 1e-7.
    x[:n_known] = np.maximum(x[:n_known], 0.0)
    x[:n_known] /= x[:n_known].sum()
    return x

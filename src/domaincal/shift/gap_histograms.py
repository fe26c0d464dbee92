"""Histograms of the gaps |h_T - h_T'| between confidences at two temperatures."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from domaincal._tensors import host_array
from domaincal._typing import Array, FloatArray, IntArray
from domaincal._validation import check_logits, check_number, non_finite_logits_error
from domaincal.errors import InputError
from domaincal.kernels import dispatch
from domaincal.statistics.blocks import Workers, row_blocks

#: Temperatures of the pairs, as multiples of the pooled temperature. At an infinite temperature
#: the confidence is 1 / n_classes, so that its gap to another temperature is the confidence there.
MULTIPLES = (0.5, 1.0, 2.0, np.inf)
#: Pairs of them.
PAIRS = tuple(combinations(MULTIPLES, 2))

# Gaps are rounded down to multiples of 1 / 4096, a power of two: the edges of the bins are exact.
_CELLS = 4096
_N_BINS = 50
# Narrow bins at both ends: with a confident model, most gaps are near 0, most confidences near 1.
_EDGES = np.round(_CELLS * np.sin(np.pi * np.arange(_N_BINS + 1) / (2 * _N_BINS)) ** 2)
#: Edges of the bins [a, b); the last bin includes 1.
BIN_EDGES: FloatArray = _EDGES / _CELLS
_BIN_OF_CELL = np.searchsorted(_EDGES[1:-1], np.arange(_CELLS + 1), side="right").astype(np.uint8)
# Bytes of the logits of a block.
_BLOCK_BYTES = 1 << 21


@dataclass(frozen=True, eq=False)
class GapHistograms:
    """How often each gap |h_T - h_T'| occurs in each batch, where h_T is the confidence at T.

    The gaps are those of the six pairs of the temperatures 1/2, 1, 2 and infinity, in units of a
    given temperature. They are what the divergence of section 5 of the paper compares
    (:func:`domaincal.shift.divergence`), in 50 bins instead of exactly. Histograms of two parts of
    the same batches can be added.

    Attributes
    ----------
    temperature : float
        Unit of the temperatures, usually the pooled temperature of a calibrator.
    counts : array of shape (n_batches, 6, 50)
        Number of rows of each batch with a gap in each bin of :data:`BIN_EDGES`, for each pair of
        :data:`PAIRS`.

    Examples
    --------
    >>> import numpy as np
    >>> logits = np.array([[2.0, 0.0], [4.0, 0.0], [0.0, 1.0]])
    >>> gaps = GapHistograms.from_rows(logits, np.array([0, 0, 1]), 2, temperature=1.5)
    >>> gaps.n.tolist()
    [2.0, 1.0]
    >>> (gaps + gaps).n.tolist()
    [4.0, 2.0]
    """

    temperature: float
    counts: FloatArray

    @classmethod
    def from_rows(
        cls, logits: Array, codes: IntArray, n_batches: int, temperature: float
    ) -> GapHistograms:
        """Histograms of the rows of each batch; ``codes`` is the number of the batch of each row.

        The rows are read block by block. An array of shape (n_batches, 6, 50) is made.
        """
        logits = check_logits(logits)
        check_number(temperature, "temperature", low=0.0, high=np.inf)
        if codes.shape != (len(logits),) or codes.min() < 0 or codes.max() >= n_batches:
            raise InputError(
                f"codes must be {len(logits)} numbers from 0 to {n_batches - 1}, the batch of each "
                f"row, got shape {codes.shape} and values up to {codes.max(initial=0)}."
            )
        compiled = dispatch.use_compiled(logits.size)

        def block_counts(block: slice) -> FloatArray:
            bins = gap_bins(host_array(logits[block]), temperature, compiled=compiled)
            return count_bins(bins, codes[block], n_batches)

        row_bytes = logits.shape[1] * logits.dtype.itemsize
        # The result of a block is as large as that of all rows: few blocks if there are many.
        size = max(_BLOCK_BYTES, 2 * row_bytes * n_batches)
        with Workers() as workers:
            counts = workers.sum(block_counts, row_blocks(len(codes), row_bytes, size))
        return cls(temperature, counts)

    def __add__(self, other: GapHistograms) -> GapHistograms:
        if not isinstance(other, GapHistograms):
            return NotImplemented
        if self.temperature != other.temperature or self.counts.shape != other.counts.shape:
            raise InputError(
                "only histograms of the same batches at the same temperature can be added, got "
                f"{len(self.counts)} batches at T = {self.temperature:g} and {len(other.counts)} "
                f"at T = {other.temperature:g}."
            )
        return GapHistograms(self.temperature, self.counts + other.counts)

    @property
    def n(self) -> FloatArray:
        """Number of rows of each batch."""
        return np.asarray(self.counts[:, 0].sum(axis=1))

    def distributions(self) -> FloatArray:
        """Share of the rows of each batch in a bin or the bins below it, shape (n_batches, 300).

        NaN for a batch without rows.
        """
        return cumulated_shares(self.counts)


def gap_bins(logits: Array, temperature: float, *, compiled: bool = False) -> Array:
    """Bin of the gap of each row for each pair, shape (6, n)."""
    constant = 1.0 / logits.shape[1]
    confidence = {
        multiple: constant
        if np.isinf(multiple)
        else dispatch.top_label(
            logits, np.array([1.0 / (multiple * temperature)]), compiled=compiled
        )[0]
        for multiple in MULTIPLES
    }
    gaps = np.stack([np.abs(confidence[a] - confidence[b]) for a, b in PAIRS])
    if not np.isfinite(gaps).all():
        raise non_finite_logits_error(logits)
    return _BIN_OF_CELL[(gaps * _CELLS).astype(np.int64)]


def count_bins(
    bins: Array, codes: IntArray, n_batches: int, weight: FloatArray | None = None
) -> FloatArray:
    """Number of rows, or their weight, in each bin of each batch, shape (n_batches, 6, 50)."""
    counts = [
        np.bincount(codes * _N_BINS + of_pair, weight, minlength=n_batches * _N_BINS)
        for of_pair in bins
    ]
    return np.stack(counts).reshape(len(bins), n_batches, _N_BINS).swapaxes(0, 1).astype(np.float64)


def cumulated_shares(counts: FloatArray) -> FloatArray:
    """Distribution functions of the gaps of each batch, one after the other."""
    with np.errstate(invalid="ignore"):
        shares = counts.cumsum(axis=2) / counts.sum(axis=2, keepdims=True)
    return np.asarray(shares.reshape(len(counts), counts.shape[1] * counts.shape[2]))

"""Facts about rows, domain by domain, summed over blocks of rows for ``inspect``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from domaincal._typing import Array, FloatArray, IntArray
from domaincal.data import BlockedRows, CalibrationData
from domaincal.data.blocked_rows import domain_names_of
from domaincal.kernels import numpy_kernels

# A row whose logits span more than this has masked classes.
MASK_SPAN = 1e4
# A row whose logits span so many times the median of its domain is an outlier.
OUTLIER_RATIO = 20.0
# Spans are counted in bins of this relative width, from which medians are read.
_SPAN_STEP = np.log(1.01)
# Counts of (domain, bin) that are collected before equal ones are added.
_MOST_PAIRS = 1 << 21


@dataclass(frozen=True)
class Outliers:
    """Rows whose logits are much further apart than the median of their domain.

    ``row`` is the number of the row with the largest ratio.
    """

    n: int
    row: int
    ratio: float


class RowFacts:
    """Sums over all rows; the attributes are described in :meth:`table` and where they are used.

    Parameters
    ----------
    rows : BlockedRows
        Values that are not finite are counted.
    """

    def __init__(self, rows: BlockedRows) -> None:
        self._rows = rows
        self.names = domain_names_of(rows)
        n_domains, n_classes = len(self.names), rows.logits.shape[1]
        self._sums = np.zeros((5, n_domains))  # rows, finite rows, hits, confidence, not finite
        self._classes: list[Array] = []  # domain * n_classes + label, each pair once
        self._largest_span = np.zeros(n_domains)
        self._spans = _PairCounts()
        self.label_counts = np.zeros(n_classes, np.int64)
        self.n_flat = self.n_masked = 0
        self.features = None if rows.features is None else FeatureFacts(rows.features.shape[1])
        for block, codes in self._blocks():
            self._add(block, codes)

    def _blocks(self) -> Iterator[tuple[CalibrationData, IntArray]]:
        """Blocks of rows, with the number of the domain of each row."""
        number = {name: k for k, name in enumerate(self.names.tolist())}
        for block in self._rows.blocks():
            codes, names = block.domain_codes
            yield block, np.array([number[name] for name in names.tolist()])[codes]

    def _add(self, block: CalibrationData, codes: IntArray) -> None:
        z, finite, span = _spans(block)
        confidence, predicted = numpy_kernels.top_label(z, np.ones(1))
        labels = block.labels
        hits = np.zeros(len(z), bool) if labels is None else finite & (predicted == labels)
        of_finite = np.where(finite, confidence, 0.0)
        for total, values in zip(self._sums, (1.0, finite, hits, of_finite, ~finite), strict=True):
            total += np.bincount(codes, np.broadcast_to(values, len(z)), len(self.names))
        if labels is not None:
            self.label_counts += np.bincount(labels, minlength=len(self.label_counts))
            self._classes.append(np.unique(codes * len(self.label_counts) + labels))
            if sum(map(len, self._classes)) > _MOST_PAIRS:
                self._classes = [np.unique(np.concatenate(self._classes))]
        flat, masked = span == 0, span > MASK_SPAN
        self.n_flat += int(flat.sum())
        self.n_masked += int(masked.sum())
        usual = finite & ~flat & ~masked
        np.maximum.at(self._largest_span, codes[usual], span[usual])
        self._spans.add(codes[usual], np.floor(np.log(span[usual]) / _SPAN_STEP).astype(np.int64))
        if self.features is not None and block.features is not None:
            self.features.add(block.features[finite])

    def table(self) -> pd.DataFrame:
        """The table ``Inspection.domains``."""
        n, n_finite, hits, confidence, not_finite = self._sums
        n_classes = len(self.label_counts)
        classes = np.zeros(len(n), np.int64)
        if self._rows.labels is None:
            hits = np.full(len(n), np.nan)
        else:
            pairs = np.unique(np.concatenate(self._classes))
            classes = np.bincount(pairs // n_classes, minlength=len(n))
        with np.errstate(invalid="ignore"):
            return pd.DataFrame({
                "domain": self.names, "n": n.astype(np.int64), "accuracy": hits / n_finite,
                "mean_confidence": confidence / n_finite, "classes": classes,
                "not_finite": not_finite.astype(np.int64),
            })  # fmt: skip

    def outliers(self) -> Outliers | None:
        """Rows with far larger spans than the median of their domain, from a second pass."""
        median = self._spans.medians(len(self.names))
        with np.errstate(invalid="ignore"):
            suspicious = self._largest_span / median > OUTLIER_RATIO
        if not suspicious.any():
            return None
        n, row, largest, start = 0, 0, 0.0, 0
        for block, codes in self._blocks():
            _, finite, span = _spans(block)
            usual = finite & (span <= MASK_SPAN) & suspicious[codes]
            ratio = np.where(usual, span / median[codes], 0.0)
            n += int((ratio > OUTLIER_RATIO).sum())
            if ratio.max() > largest:
                row, largest = start + int(ratio.argmax()), float(ratio.max())
            start += len(block)
        return Outliers(n, row, largest)


class FeatureFacts:
    """Sums over the features of finite rows."""

    def __init__(self, n_features: int) -> None:
        self.n = 0
        self.total, self.square, self.low, self.high = (np.zeros(n_features) for _ in range(4))
        self.low += np.inf
        self.high -= np.inf

    def add(self, features: Array) -> None:
        """Add rows."""
        if len(features):
            x = features.astype(np.float64)
            self.n += len(x)
            self.total, self.square = self.total + x.sum(axis=0), self.square + (x * x).sum(axis=0)
            self.low = np.minimum(self.low, x.min(axis=0))
            self.high = np.maximum(self.high, x.max(axis=0))


class _PairCounts:
    """Number of rows of each domain in each bin of the spans, for bins that occur."""

    def __init__(self) -> None:
        self._domain = self._bin = self._count = np.empty(0, np.int64)

    def add(self, domain: IntArray, span_bin: IntArray) -> None:
        """Add rows."""
        domain = np.concatenate([self._domain, domain])
        span_bin = np.concatenate([self._bin, span_bin])
        count = np.concatenate([self._count, np.ones(len(domain) - len(self._count), np.int64)])
        order = np.lexsort((span_bin, domain))
        domain, span_bin, count = domain[order], span_bin[order], count[order]
        new = np.ones(len(domain), bool)
        new[1:] = (domain[1:] != domain[:-1]) | (span_bin[1:] != span_bin[:-1])
        first = np.flatnonzero(new)
        self._domain, self._bin = domain[first], span_bin[first]
        self._count = np.add.reduceat(count, first) if len(first) else count

    def medians(self, n_domains: int) -> FloatArray:
        """Median span of each domain, to the width of a bin; NaN without rows."""
        median = np.full(n_domains, np.nan)
        total = np.bincount(self._domain, self._count, n_domains)
        cumulated = np.cumsum(self._count)
        before = np.concatenate([[0], np.cumsum(total)[:-1]])
        within = cumulated - before[self._domain]
        reached = np.flatnonzero(2 * within >= total[self._domain])
        domain, first = np.unique(self._domain[reached], return_index=True)
        median[domain] = np.exp((self._bin[reached[first]] + 0.5) * _SPAN_STEP)
        return median


def _spans(block: CalibrationData) -> tuple[FloatArray, Array, FloatArray]:
    """Logits with 0 in rows that are not finite, which rows are finite, largest minus smallest."""
    z = block.logits.astype(np.float64)
    finite = np.asarray(np.isfinite(z).all(axis=1))
    if block.features is not None:
        finite &= np.isfinite(block.features).all(axis=1)
    z[~finite] = 0.0
    return z, finite, np.where(finite, np.ptp(z, axis=1), np.nan)

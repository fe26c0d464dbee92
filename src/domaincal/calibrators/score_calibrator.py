"""Base class of calibrators that map softmax scores to probabilities."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np

from domaincal._row_arrays import sum_over_parts
from domaincal._typing import Array, ArrayLike, FloatArray, IntArray
from domaincal._validation import check_option, non_finite_logits_error
from domaincal.calibrators.base import Calibrator, RowValues
from domaincal.calibrators.drawings import draw_maps
from domaincal.calibrators.inputs import TrainingRows
from domaincal.calibrators.score_maps import LineMap, ScoreMap
from domaincal.calibrators.softmax import (
    logit_blocks,
    probabilities_from_confidences,
    probability_dtype,
    top_scores,
)
from domaincal.kernels import numpy_kernels
from domaincal.statistics.blocks import Workers
from domaincal.statistics.score_sums import ScoreSums, fine_edges

Scheme = Literal["top-label", "one-vs-rest"]
SCHEMES = ("top-label", "one-vs-rest")

_BETA_ONE = np.ones(1)
#: Number of classes whose float64 scores are in memory at a time.
CLASSES_PER_BLOCK = 16


class ScoreCalibrator(Calibrator):
    """Base class of calibrators that learn maps from scores to probabilities.

    With ``scheme="top-label"`` there is one map, from the softmax confidence of the predicted
    class to its calibrated confidence; the other classes share the rest in the proportions of the
    softmax. With ``scheme="one-vs-rest"`` there is a map for each class, and the probabilities of
    each row are normalised to sum to 1.

    Subclasses implement ``_fit_map``, which fits one map.

    Of rows that are read in blocks, the maps are fitted to a histogram: scores that differ by at
    most 0.1% of their distance from 0 or 1 count as equal (more with hundreds of maps).
    """

    _fits_blocks = True

    scheme: Scheme
    maps_: list[ScoreMap]

    @abstractmethod
    def _fit_map(self, scores: FloatArray, hits: Array, weight: FloatArray | None) -> ScoreMap:
        """Fit a map from scores to the probability of a hit; all weights are positive."""

    def _check_parameters(self) -> None:
        check_option(self.scheme, "scheme", SCHEMES)

    def _learn(self, rows: TrainingRows) -> None:
        if rows.streamed:
            self._learn_blocks(rows)
            return
        weight = rows.weight
        kept = slice(None) if weight is None or weight.all() else np.flatnonzero(weight)
        weight = None if weight is None else weight[kept]
        self.maps_ = [
            self._fit_map(scores[kept], hits[kept], weight)
            for scores, hits in self._scores_and_hits(rows.logits, rows.labels)
        ]

    def _learn_blocks(self, rows: TrainingRows) -> None:
        """Fit the maps to a histogram of the scores, in one pass over rows that are read."""
        one_map = self.scheme == "top-label"
        n_maps = 1 if one_map else rows.logits.shape[1]
        edges = self._histogram_edges(n_maps)
        sums = sum_over_parts(_sum_scores, rows.logits, rows.labels, edges, n_maps)
        if not np.isfinite(sums.scores).all():
            raise non_finite_logits_error(rows.logits)
        self.maps_ = [self._fit_map(*sums.weighted_rows(k)) for k in range(n_maps)]

    def _histogram_edges(self, n_maps: int) -> FloatArray:
        """Bins in which scores count as equal, for rows that are read in blocks."""
        return fine_edges(n_maps)

    def _prepare(
        self, logits: Array, features: ArrayLike | None, domains: ArrayLike | None
    ) -> RowValues:
        """Confidence and predicted class of each row for one map; empty for a map per class."""
        if len(self.maps_) > 1:
            return ()
        scores, predicted = top_scores(logits)
        return self.maps_[0](scores), predicted

    def _confidences(self, logits: Array, values: RowValues) -> FloatArray:
        if values:
            confidences: FloatArray = values[0]
            return confidences

        def block_confidences(block: slice) -> FloatArray:
            rows = np.asarray(logits[block])
            p = self._one_vs_rest(rows)
            return np.asarray(p[np.arange(len(p)), np.argmax(rows, axis=1)])

        with Workers() as workers:
            out = np.concatenate([*workers.map(block_confidences, logit_blocks(logits))])
        if np.isnan(out).any():
            raise non_finite_logits_error(logits)
        return out

    def _probabilities(self, logits: Array, values: RowValues) -> Array:
        """Probabilities of each row.

        The largest probability can be that of another class than the argmax of the logits, if
        the map lowers the confidence of the predicted class.
        """
        if values:
            return probabilities_from_confidences(logits, *values)
        out = np.empty(logits.shape, probability_dtype(logits))

        def fill(block: slice) -> None:
            out[block] = self._one_vs_rest(np.asarray(logits[block]))

        with Workers() as workers:
            list(workers.map(fill, logit_blocks(logits)))
        if np.isnan(out).any():
            raise non_finite_logits_error(logits)
        return out

    def _torch_module(self) -> Any:
        from domaincal.calibrators.score_module import ScoreModule

        return ScoreModule(type(self).__name__, self.n_classes_, self.maps_)

    def _facts(self) -> dict[str, str]:
        sizes = [len(m.values) for m in self.maps_]
        unit = "points" if isinstance(self.maps_[0], LineMap) else "bins"
        low, high = min(sizes), max(sizes)
        return {
            "maps": f"{len(self.maps_)} ({self.scheme})",
            unit: str(low) if low == high else f"{low} to {high}",
        }

    def _drawing(self) -> str:
        return draw_maps(self.maps_)

    def _one_vs_rest(self, z: Array) -> FloatArray:
        """Normalised probabilities of a block of rows; NaN for rows that are not finite."""
        softmax = np.empty(z.shape)
        numpy_kernels.softmax(z, _BETA_ONE, softmax)
        p = np.stack([m(softmax[:, k]) for k, m in enumerate(self.maps_)], axis=1)
        p[~np.isfinite(z).all(axis=1)] = np.nan
        total = p.sum(axis=1, keepdims=True)
        # If the maps give every class the probability 0, the row keeps its softmax.
        return np.where(total == 0, softmax, p / np.where(total == 0, 1.0, total))

    def _scores_and_hits(self, z: Array, labels: Array) -> Iterator[tuple[FloatArray, Array]]:
        """Scores and hits on which each map is fitted."""
        if self.scheme == "top-label":
            scores, predicted = top_scores(z)
            yield scores, predicted == labels
            return
        z = np.asarray(z)  # the maps of single classes are fitted on the host
        top, norm = _softmax_normalisers(z)
        for start in range(0, z.shape[1], CLASSES_PER_BLOCK):
            some = np.array(z[:, start : start + CLASSES_PER_BLOCK].T, np.float64, order="C")
            scores = np.exp(some - top) / norm
            for k, class_scores in enumerate(scores, start):
                yield class_scores, labels == k


def _softmax_normalisers(z: Array) -> tuple[FloatArray, FloatArray]:
    """Largest logit of each row, and ``sum_j exp(z_j - largest)``."""

    def block_normalisers(block: slice) -> tuple[FloatArray, FloatArray]:
        d = z[block].astype(np.float64)
        top = d.max(axis=1)
        with np.errstate(invalid="ignore", over="ignore"):
            d -= top[:, None]
        finite = np.isfinite(d).all(axis=1)
        return top, np.where(finite, np.exp(d).sum(axis=1), np.nan)

    with Workers() as workers:
        top, norm = (
            np.concatenate(part)
            for part in zip(*workers.map(block_normalisers, logit_blocks(z)), strict=True)
        )
    if not np.isfinite(norm).all():
        raise non_finite_logits_error(z)
    return top, norm


def _sum_scores(logits: Array, labels: Array, edges: FloatArray, n_maps: int) -> ScoreSums:
    """Histogram of the scores of the predicted class, or of each class if there are more maps.

    Scores that are not finite make sums NaN, which the caller reports.
    """
    sums = ScoreSums.zeros(edges, n_maps)

    def scores_of(block: slice) -> tuple[FloatArray, Array, IntArray | None]:
        z, y = logits[block], labels[block]
        if n_maps == 1:
            scores, predicted = numpy_kernels.top_label(z, _BETA_ONE)
            return np.minimum(scores, 1.0), predicted == y, None
        softmax = np.empty(z.shape)
        numpy_kernels.softmax(z, _BETA_ONE, softmax)
        classes = np.arange(n_maps)
        return softmax.ravel(), (y[:, None] == classes).ravel(), np.tile(classes, len(z))

    with Workers() as workers:
        for scores, hits, maps in workers.map(scores_of, logit_blocks(logits)):
            if not np.isfinite(scores).all():
                sums.scores[:] = np.nan
                break
            sums.add_rows(scores, hits, maps)
    return sums

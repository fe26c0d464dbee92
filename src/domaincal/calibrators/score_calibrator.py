"""Calibrators that map softmax scores to probabilities, of the predicted or of each class."""

from abc import abstractmethod
from collections.abc import Iterator
from typing import ClassVar, Literal

import numpy as np

from domaincal._typing import Array, ArrayLike, FloatArray
from domaincal._validation import check_option, non_finite_logits
from domaincal.calibrators.base import Calibrator, LearnedTypes, PerRow
from domaincal.calibrators.inputs import TrainingRows
from domaincal.calibrators.notebook_view import draw_maps
from domaincal.calibrators.score_maps import LineMap, ScoreMap
from domaincal.calibrators.softmax import (
    logit_blocks,
    probability_dtype,
    top_scores,
    with_shared_rest,
)
from domaincal.kernels import numpy_kernels
from domaincal.statistics.blocks import Workers

Scheme = Literal["top-label", "one-vs-rest"]
SCHEMES = ("top-label", "one-vs-rest")

_ONE = np.ones(1)
# Classes whose scores are held at a time.
_CLASSES_AT_A_TIME = 16


class ScoreCalibrator(Calibrator):
    """A calibrator that learns maps from scores to probabilities, of all rows together.

    Subclasses learn one map in ``_fit_map``. With ``scheme="top-label"`` there is one, of the
    confidence of the predicted class; the other classes share the rest in the proportions of the
    softmax. With ``"one-vs-rest"`` there is one for each class, and the rows are normalised again.
    """

    _learned: ClassVar[LearnedTypes] = {**Calibrator._learned, "maps_": list}

    scheme: Scheme
    maps_: list[ScoreMap]

    @abstractmethod
    def _fit_map(self, scores: FloatArray, hits: Array, weight: FloatArray | None) -> ScoreMap:
        """Map from the scores of some rows to the probability of a hit; all weights are > 0."""

    def _check_parameters(self) -> None:
        check_option(self.scheme, "scheme", SCHEMES)

    def _learn(self, rows: TrainingRows) -> None:
        weight = rows.weight
        kept = slice(None) if weight is None or weight.all() else np.flatnonzero(weight)
        weight = None if weight is None else weight[kept]
        self.maps_ = [
            self._fit_map(scores[kept], hits[kept], weight)
            for scores, hits in self._scores_and_hits(rows.logits, rows.labels)
        ]

    def _prepare(
        self, logits: Array, features: ArrayLike | None, domains: ArrayLike | None
    ) -> PerRow:
        if len(self.maps_) > 1:
            return ()
        scores, predicted = top_scores(logits)
        return self.maps_[0](scores), predicted

    def _confidences(self, logits: Array, prepared: PerRow) -> FloatArray:
        if prepared:
            confidences: FloatArray = prepared[0]
            return confidences

        def of_block(block: slice) -> FloatArray:
            rows = np.asarray(logits[block])
            p = self._one_vs_rest(rows)
            return np.asarray(p[np.arange(len(p)), np.argmax(rows, axis=1)])

        with Workers() as workers:
            out = np.concatenate([*workers.map(of_block, logit_blocks(logits))])
        if np.isnan(out).any():
            raise non_finite_logits(logits)
        return out

    def _probabilities(self, logits: Array, prepared: PerRow) -> Array:
        """Probabilities of each row, whose largest may belong to another class than the argmax.

        A confidence that was mapped below the others stays with the predicted class.
        """
        if prepared:
            return with_shared_rest(logits, *prepared)
        out = np.empty(logits.shape, probability_dtype(logits))

        def fill(block: slice) -> None:
            out[block] = self._one_vs_rest(np.asarray(logits[block]))

        with Workers() as workers:
            list(workers.map(fill, logit_blocks(logits)))
        if np.isnan(out).any():
            raise non_finite_logits(logits)
        return out

    def _facts(self) -> dict[str, str]:
        steps = [len(m.values) for m in self.maps_]
        kind = "points" if isinstance(self.maps_[0], LineMap) else "bins"
        few, many = min(steps), max(steps)
        return {
            "maps": f"{len(self.maps_)} ({self.scheme})",
            kind: str(few) if few == many else f"{few} to {many}",
            **super()._facts(),
        }

    def _drawing(self) -> str:
        return draw_maps(self.maps_)

    def _one_vs_rest(self, z: Array) -> FloatArray:
        """Probabilities of a block: each class's map, then rows that sum to 1; NaN as in logits."""
        softmax = np.empty(z.shape)
        numpy_kernels.softmax(z, _ONE, softmax)
        p = np.stack([m(softmax[:, k]) for k, m in enumerate(self.maps_)], axis=1)
        p[~np.isfinite(z).all(axis=1)] = np.nan
        total = p.sum(axis=1, keepdims=True)
        # Where no class has a probability, the maps say nothing about the row.
        return np.where(total == 0, softmax, p / np.where(total == 0, 1.0, total))

    def _scores_and_hits(self, z: Array, labels: Array) -> Iterator[tuple[FloatArray, Array]]:
        """What each map is fitted on."""
        if self.scheme == "top-label":
            scores, predicted = top_scores(z)
            yield scores, predicted == labels
            return
        z = np.asarray(z)  # the maps of the classes are fitted on the host
        top, norm = _normalisers(z)
        for start in range(0, z.shape[1], _CLASSES_AT_A_TIME):
            some = np.array(z[:, start : start + _CLASSES_AT_A_TIME].T, np.float64, order="C")
            scores = np.exp(some - top) / norm
            for k, of_class in enumerate(scores, start):
                yield of_class, labels == k


def _normalisers(z: Array) -> tuple[FloatArray, FloatArray]:
    """Largest logit of each row, and the sum of the exponentials relative to it."""

    def of_block(block: slice) -> tuple[FloatArray, FloatArray]:
        d = z[block].astype(np.float64)
        top = d.max(axis=1)
        with np.errstate(invalid="ignore", over="ignore"):
            d -= top[:, None]
        finite = np.isfinite(d).all(axis=1)
        return top, np.where(finite, np.exp(d).sum(axis=1), np.nan)

    with Workers() as workers:
        top, norm = (
            np.concatenate(part)
            for part in zip(*workers.map(of_block, logit_blocks(z)), strict=True)
        )
    if not np.isfinite(norm).all():
        raise non_finite_logits(z)
    return top, norm

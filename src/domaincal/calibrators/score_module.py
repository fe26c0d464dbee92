"""Torch module of calibrators that map softmax scores to probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from domaincal._typing import FloatArray
from domaincal.calibrators.calibrator_module import (
    CalibratorModule,
    LearnedNumbers,
    TorchPredictions,
    below_top,
    torch,
)
from domaincal.calibrators.score_maps import LineMap, ScoreMap


class ScoreModule(CalibratorModule):
    """One map for the confidence of the predicted class, or a map for each class.

    Scores are computed in the precision of the maps: near 1, a map can be so steep that the
    rounding of float32 would show. The values of step functions have no gradient.
    """

    def __init__(self, method: str, n_classes: int, maps: Sequence[ScoreMap]) -> None:
        super().__init__(method, n_classes)
        self.one_map = len(maps) == 1
        self.maps = _Lines(maps) if isinstance(maps[0], LineMap) else _Steps(maps)

    def _predict(self, logits: Any, features: Any, domains: Any) -> TorchPredictions:
        finite = logits.isfinite().all(1, keepdim=True)
        z = torch.where(finite, logits, torch.nan).to(self.maps.values.dtype)
        predicted = logits.argmax(1, keepdim=True)
        p = self._shared(z, predicted) if self.one_map else self._one_vs_rest(z)
        p = p.to(logits.dtype)
        return TorchPredictions(p, p.gather(1, predicted)[:, 0], None)

    def _shared(self, z: Any, predicted: Any) -> Any:
        """Mapped confidence; the other classes share the rest in proportion to their softmax."""
        score = 1.0 / below_top(z).exp().sum(1)
        confidence = self.maps(score[None, :])[0, :, None]
        confidence = torch.where(score[:, None].isnan(), torch.nan, confidence)
        others = z.scatter(1, predicted, -torch.inf).softmax(1)
        return (others * (1.0 - confidence)).scatter(1, predicted, confidence)

    def _one_vs_rest(self, z: Any) -> Any:
        """Mapped scores of all classes, divided by their sum."""
        softmax = z.softmax(1)
        p = self.maps(softmax.T.contiguous()).T
        p = torch.where(softmax.isnan(), torch.nan, p)
        total = p.sum(1, keepdim=True)
        # If the maps give every class the probability 0, the row keeps its softmax.
        none = total == 0
        return torch.where(none, softmax, p / torch.where(none, 1.0, total))


class _Steps(LearnedNumbers):
    """Step functions; scores have the shape (n_maps, n)."""

    def __init__(self, maps: Sequence[Any]) -> None:
        super().__init__()
        self.store(
            edges=_padded([m.edges for m in maps], np.inf),
            values=_padded([m.values for m in maps], np.nan),
            last=np.array([[len(m.values) - 1] for m in maps]),
        )

    def forward(self, scores: Any) -> Any:
        """Value of the bin of each score."""
        index = (torch.searchsorted(self.edges, scores) - 1).clamp(min=0)
        return self.values.gather(1, torch.minimum(index, self.last))


class _Lines(LearnedNumbers):
    """Linear interpolation; scores have the shape (n_maps, n)."""

    def __init__(self, maps: Sequence[Any]) -> None:
        super().__init__()
        # After the last point, the next one is infinitely far: the value stays the same.
        points = [np.append(m.points, np.inf) for m in maps]
        values = [np.append(m.values, m.values[-1]) for m in maps]
        self.store(
            points=_padded(points, np.inf),
            values=_padded(values, np.nan),
            last=np.array([[len(m.points) - 1] for m in maps]),
        )

    def forward(self, scores: Any) -> Any:
        """Interpolated value of each score."""
        index = (torch.searchsorted(self.points, scores, right=True) - 1).clamp(min=0)
        index = torch.minimum(index, self.last)
        left, right = self.points.gather(1, index), self.points.gather(1, index + 1)
        low, high = self.values.gather(1, index), self.values.gather(1, index + 1)
        share = ((scores - left) / (right - left)).clamp(0.0, 1.0)
        return low + share * (high - low)


def _padded(arrays: Sequence[FloatArray], fill: float) -> FloatArray:
    """Arrays as the rows of a matrix, filled up on the right."""
    out = np.full((len(arrays), max(map(len, arrays))), fill)
    for row, array in zip(out, arrays, strict=True):
        row[: len(array)] = array
    return out

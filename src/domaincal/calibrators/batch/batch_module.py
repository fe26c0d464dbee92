"""Torch module of batch temperature scaling.

The statistics are those of :mod:`domaincal.statistics.batch_sums`, and the map to log T is
:class:`BatchMap`. Quantiles of the confidence, which are read from a histogram, have no gradient.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from domaincal.calibrators.batch.batch_map import FAR, LARGEST_VALUE, BatchMap, FeatureDirections
from domaincal.calibrators.batch.row_groups_module import number_batches, sum_batches
from domaincal.calibrators.calibrator_module import (
    LearnedNumbers,
    TemperatureModule,
    torch,
)
from domaincal.statistics.batch_sums import HISTOGRAM_EDGES, QUANTILES


class BatchTemperatures(TemperatureModule):
    """One temperature for each batch of rows.

    Parameters
    ----------
    temperature : float
        Pooled temperature, at which the statistics are computed.
    batch_map : BatchMap
    directions : FeatureDirections or None
    single_rows : bool
        Whether every row is a batch.
    """

    def __init__(
        self,
        method: str,
        n_classes: int,
        temperature: float,
        batch_map: BatchMap,
        directions: FeatureDirections | None,
        *,
        single_rows: bool,
    ) -> None:
        n_features = None if directions is None else len(directions.mean)
        batch = {"batch": "row"} if single_rows else {}
        super().__init__(method, n_classes, n_features, **batch)
        self.single_rows = single_rows
        self.store(pooled=np.array(temperature), edges=HISTOGRAM_EDGES)
        self.directions = None if directions is None else _Directions(directions)
        self.map = _Map(batch_map)

    def _temperatures(self, logits: Any, features: Any, domains: Any) -> Any:
        precise = self.pooled.dtype
        values, probabilities, confidence = self._row_values(logits.to(precise))
        if self.directions is not None:
            values = torch.cat([values, self.directions(features.to(precise))], dim=1)
        bins = (torch.searchsorted(self.edges, confidence.detach()) - 1).clamp(0, _N_BINS - 1)
        histogram = torch.zeros_like(values[:, :1]).expand(-1, _N_BINS).contiguous()
        histogram = histogram.scatter(1, bins[:, None], 1.0)
        ones = torch.ones_like(confidence)
        if self.single_rows:
            return self._of_batches(ones, values, probabilities, histogram)
        batch = None
        if domains is not None:
            batch = number_batches(self._domain_codes(domains, n_rows=logits.shape[0]))
        rows = (ones, values, probabilities, histogram)
        temperatures = self._of_batches(*(sum_batches(a, batch) for a in rows))
        return temperatures if batch is None else temperatures[batch]

    def _row_values(self, logits: Any) -> tuple[Any, Any, Any]:
        """Values of each row, probabilities and confidence."""
        d = (logits - logits.amax(1, keepdim=True)) / self.pooled
        d = d.clamp(min=-_largest(d))  # the square of a masked logit must not overflow
        log_p = d.log_softmax(1)
        p = log_p.exp()
        confidence = p.amax(1)
        values = [
            confidence,
            -(p * log_p).sum(1),
            -d.topk(2, dim=1).values[:, 1],
            -d.mean(1),
            _spread(d),
            confidence**2,
        ]
        return torch.stack(values, dim=1), p, confidence

    def _of_batches(self, n: Any, values: Any, probabilities: Any, histogram: Any) -> Any:
        """Temperature of each batch from its sums."""
        n = n.clamp(min=1.0)  # of a number without rows, which no row reads
        means, p = values / n[:, None], probabilities / n[:, None]
        confidence, entropy, margin, top, spread, square = means[:, :6].unbind(1)
        statistics = [
            confidence,
            _root(square - confidence**2),
            *_quantiles(histogram / n[:, None]),
            entropy,
            -(p * p.clamp(min=torch.finfo(p.dtype).tiny).log()).sum(1),
            margin,
            top,
            spread,
        ]
        return self.map(torch.cat([torch.stack(statistics, dim=1), means[:, 6:]], dim=1), n)


class _Directions(LearnedNumbers):
    """Norm, spread over the columns and coordinates of each centred row of features."""

    def __init__(self, directions: FeatureDirections) -> None:
        super().__init__()
        self.store(
            mean=directions.mean,
            scale=np.array(directions.scale),
            directions=directions.directions,
        )

    def forward(self, features: Any) -> Any:
        """Values of each row; NaN for features that are not finite."""
        limit = _largest(features)
        x = ((features - self.mean) / self.scale).clamp(-limit, limit)
        norm = torch.linalg.vector_norm(x, dim=1)
        values = [norm[:, None], _spread(x)[:, None], x @ self.directions]
        finite = features.isfinite().all(1, keepdim=True)
        return torch.where(finite, torch.cat(values, dim=1).clamp(-limit, limit), torch.nan)


class _Map(LearnedNumbers):
    """:meth:`BatchMap.predict`, to temperatures."""

    def __init__(self, learned: BatchMap) -> None:
        super().__init__()
        self.store(
            log_sizes=np.log(learned.sizes),
            mean=learned.mean,
            scale=learned.scale,
            coef=learned.coef,
            reach=learned.reach,
            log_pooled=np.array(learned.log_pooled),
            ends=np.array([learned.low, learned.high]),
        )

    def forward(self, statistics: Any, n: Any) -> Any:
        """Temperature of each batch of n rows."""
        x = (statistics[:, None, :] - self.mean) / self.scale  # (n_batches, n_sizes, n_statistics)
        distance = torch.linalg.vector_norm(x, dim=2) / self.reach
        nearness = (FAR / distance.clamp(min=FAR)) ** 4
        values = ((x * self.coef[:, :-1]).sum(2) + self.coef[:, -1]) * nearness
        log_t = self.log_pooled + self._interpolated(values, n.log())
        return log_t.clamp(self.ends[0], self.ends[1]).exp()

    def _interpolated(self, values: Any, log_n: Any) -> Any:
        """Values for n rows, between those of two sizes."""
        low, high = self.log_sizes[:-1], self.log_sizes[1:]
        share = ((log_n[:, None] - low) / (high - low)).clamp(0.0, 1.0)
        return values[:, 0] + (values.diff(dim=1) * share).sum(1)


def _quantiles(share: Any) -> list[Any]:
    """Quantiles of each histogram, whose bins sum to 1, interpolated within a bin."""
    cumulated = share.cumsum(1)
    below = torch.cat([torch.zeros_like(cumulated[:, :1]), cumulated], dim=1)
    quantiles = []
    for level in QUANTILES:
        # Rounding must not move a level that a bin reaches exactly into the next bin.
        k = (cumulated < level - _ROUNDING).sum(1, keepdim=True).clamp(max=_N_BINS - 1)
        start, end = below.gather(1, k), cumulated.gather(1, k)
        quantiles.append(((k + (level - start) / (end - start)) / _N_BINS)[:, 0])
    return quantiles


def _spread(values: Any) -> Any:
    """Standard deviation of each row."""
    return _root((values - values.mean(1, keepdim=True)).square().mean(1))


def _root(values: Any) -> Any:
    """Square root of values; 0, with the gradient 0, for those that are not positive."""
    positive = values > 0
    root = torch.where(positive, torch.where(positive, values, 1.0).sqrt(), 0.0)
    return torch.where(values.isnan(), torch.nan, root)


def _largest(values: Any) -> float:
    """Limit of values whose squares are summed; in float32, for a converted module."""
    largest: float = torch.finfo(values.dtype).max
    return float(min(LARGEST_VALUE, largest**0.5 / 1e3))


_N_BINS = len(HISTOGRAM_EDGES) - 1
_ROUNDING = 1e-9

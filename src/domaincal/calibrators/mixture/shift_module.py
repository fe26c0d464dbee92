"""Torch module of temperature scaling to the mixture of domains that a batch looks like."""

from __future__ import annotations

from typing import Any

import numpy as np

from domaincal._typing import FloatArray
from domaincal.calibrators.batch.row_groups_module import number_batches, rank_rows, sum_batches
from domaincal.calibrators.calibrator_module import LearnedNumbers, TemperatureModule, torch
from domaincal.calibrators.mixture.domain_posterior import DomainPosterior
from domaincal.calibrators.mixture.shift_weighted import PRIOR_ROWS, TOLERANCE
from domaincal.calibrators.mixture.weighted_temperature import CUBIC, N_BISECTIONS, SlopeTable

# Largest step from the middle of the last interval to the zero, which lies in this interval.
_LONGEST_STEP = 0.5**N_BISECTIONS


class ShiftTemperatures(TemperatureModule):
    """Temperature of each batch, from the shares of the known domains in it.

    All steps of the EM algorithm are computed; the shares of a batch that has converged stay.
    """

    def __init__(
        self,
        method: str,
        n_classes: int,
        posterior: DomainPosterior,
        table: SlopeTable,
        temperatures: FloatArray,
        *,
        n_steps: int,
        max_rows: int,
    ) -> None:
        options = {"n_steps": n_steps, "max_rows": max_rows}
        super().__init__(method, n_classes, len(posterior.coef), **options)
        self.n_steps, self.max_rows = n_steps, max_rows
        self.table = _Table(table)
        self.store(
            coef=posterior.coef,
            intercept=posterior.intercept,
            ends=np.array([temperatures.min(), temperatures.max()]),
        )

    def _temperatures(self, logits: Any, features: Any, domains: Any) -> Any:
        q = (features.to(self.coef.dtype) @ self.coef + self.intercept).softmax(1)
        batch = None
        if domains is not None:
            batch = number_batches(self._domain_codes(domains, n_rows=logits.shape[0]))
        weight = self._thinned(q, batch)
        found = self.table(self._shares(q, weight, batch)).clamp(self.ends[0], self.ends[1])
        return found if batch is None else found[batch]

    def _thinned(self, q: Any, batch: Any) -> Any:
        """Weight 1 of at most ``max_rows`` rows of each batch, evenly spread over it, else 0."""
        counts, rank = rank_rows(q, batch)
        every = (counts + self.max_rows - 1) // self.max_rows
        return (rank % every == 0).to(q.dtype)

    def _shares(self, q: Any, weight: Any, batch: Any) -> Any:
        """Shares of the domains in each batch."""
        prior = PRIOR_ROWS / q.shape[1]
        total = sum_batches(weight, batch)[:, None] + PRIOR_ROWS
        shares = torch.full_like(sum_batches(q, batch), 1.0 / q.shape[1])
        active = torch.ones_like(total, dtype=torch.bool)
        for _ in range(self.n_steps):
            old = shares if batch is None else shares[batch]
            factor = weight / (q * old).sum(1)
            new = (shares * sum_batches(factor[:, None] * q, batch) + prior) / total
            change = (new - shares).abs().amax(1, keepdim=True)
            shares = torch.where(active, new, shares)
            active = active & (change > TOLERANCE)
        return torch.where(sum_batches(q, batch).isnan(), torch.nan, shares)


class _Table(LearnedNumbers):
    """:meth:`SlopeTable.temperatures`, with the gradient of the zero."""

    def __init__(self, table: SlopeTable) -> None:
        super().__init__()
        self.store(grid=table.log_temperatures, slopes=table.slopes, cubic=CUBIC)

    def forward(self, shares: Any) -> Any:
        """Temperature of each row of shares."""
        last = len(self.grid) - 1
        slopes = shares @ self.slopes.T
        # The interval that ends at the first slope that is not negative.
        rising = slopes >= 0.0
        right = torch.where(rising.any(1), rising.long().argmax(1), last).clamp(1, last)
        nodes = (right[:, None] - 2).clamp(0, last - 3) + torch.arange(4, device=right.device)
        cubic = slopes.gather(1, nodes) @ self.cubic
        x = _bisected(cubic.detach(), (right - nodes[:, 0]).to(cubic.dtype))
        # One step of Newton's method, whose derivative is that of the zero.
        slope = _value(cubic, x, order=1).detach()
        step = _value(cubic, x) / torch.where(slope > 0, slope, torch.inf)
        x = x - step.clamp(-_LONGEST_STEP, _LONGEST_STEP)
        spacing = (self.grid[-1] - self.grid[0]) / last
        found = self.grid[nodes[:, 0]] + spacing * x
        return found.clamp(self.grid[0], self.grid[-1]).exp()


def _bisected(cubic: Any, right: Any) -> Any:
    """Zero of cubic polynomials that rise between ``right - 1`` and ``right``."""
    low, high = right - 1.0, right
    for _ in range(N_BISECTIONS):
        x = 0.5 * (low + high)
        negative = _value(cubic, x) < 0.0
        low, high = torch.where(negative, x, low), torch.where(negative, high, x)
    return 0.5 * (low + high)


def _value(cubic: Any, x: Any, *, order: int = 0) -> Any:
    """Values of cubic polynomials, or of their first derivatives."""
    a, b, c, d = cubic.unbind(1)
    if order:
        return (3.0 * d * x + 2.0 * c) * x + b
    return ((d * x + c) * x + b) * x + a

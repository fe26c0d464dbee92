"""Nodes of temperature scaling to the mixture of domains that a batch looks like."""

from __future__ import annotations

import math

import numpy as np

from domaincal._typing import FloatArray
from domaincal.calibrators.mixture.domain_posterior import DomainPosterior
from domaincal.calibrators.mixture.shift_weighted import PRIOR_ROWS, TOLERANCE
from domaincal.calibrators.mixture.weighted_temperature import CUBIC, N_BISECTIONS, SlopeTable
from domaincal.deploy.onnx.batches import Batches
from domaincal.deploy.onnx.row_temperatures import domain_probabilities
from domaincal.deploy.onnx.rows import GraphRows
from domaincal.deploy.onnx.tensors import Tensor


def shift_temperatures(
    rows: GraphRows,
    posterior: DomainPosterior,
    table: SlopeTable,
    temperatures: FloatArray,
    *,
    n_steps: int,
    max_rows: int,
) -> Tensor:
    """Temperature of the batch of each row, shape (n, 1)."""
    graph = rows.graph
    q = domain_probabilities(rows, posterior)
    batches = Batches.of_domains(rows)
    weight = _thinned(batches, max_rows)
    shares = _shares(q, weight, batches, n_domains=len(temperatures), n_steps=n_steps)
    found = _table_temperatures(shares, table)
    found = found.clip(float(temperatures.min()), float(temperatures.max()))
    return graph.where(batches.sums(q).is_finite(), found, math.nan).gather(batches.number)


def _thinned(batches: Batches, max_rows: int) -> Tensor:
    """Weight 1 of at most ``max_rows`` rows of each batch, evenly spread over it, else 0."""
    every = (batches.counts + (max_rows - 1)) / max_rows
    place = batches.number.graph.op("Mod", batches.ranks(), every.gather(batches.number))
    return place.equals(0).cast("float64").unsqueeze()


def _shares(q: Tensor, weight: Tensor, batches: Batches, *, n_domains: int, n_steps: int) -> Tensor:
    """Shares of the domains in each batch, by the EM algorithm."""
    graph = q.graph
    total = batches.sums(weight) + PRIOR_ROWS
    start = total * 0.0 + np.full((1, n_domains), 1.0 / n_domains)
    prior = PRIOR_ROWS / n_domains

    def step(shares: Tensor) -> tuple[list[Tensor], Tensor]:
        factor = weight / (q * shares.gather(batches.number)).sum()
        new = (shares * batches.sums(factor * q) + prior) / total
        # In Python, a batch that has converged stays: it would change by less than the tolerance.
        changes = ((new - shares).abs() > TOLERANCE).cast("int64")
        return [new], changes.top(0).top(1).cast("bool").squeeze().squeeze(0)

    return graph.loop(n_steps, step, [start])[0]


def _table_temperatures(shares: Tensor, table: SlopeTable) -> Tensor:
    """:meth:`SlopeTable.temperatures`, shape (n_batches, 1)."""
    graph, grid = shares.graph, table.log_temperatures
    last = len(grid) - 1
    slopes = shares @ table.slopes.T
    # The interval that ends at the first slope that is not negative.
    # Not integers, of which onnxruntime 1.16 has no ArgMax.
    rising = (slopes >= 0.0).cast("float32")
    first = graph.op("ArgMax", rising, axis=1, keepdims=1, dtype="int64")
    right = graph.where(rising.top() > 0.0, first, last).clip(1, last)
    left_node = (right - 2).clip(0, last - 3)
    cubic = slopes.gather_columns(left_node + np.arange(4)[None, :]) @ CUBIC
    a, b, c, d = (cubic.columns(k, k + 1) for k in range(4))

    def bisect(low: Tensor, high: Tensor) -> tuple[list[Tensor], None]:
        x = (low + high) * 0.5
        negative = ((d * x + c) * x + b) * x + a < 0.0
        return [graph.where(negative, x, low), graph.where(negative, high, x)], None

    end = (right - left_node).cast("float64")
    low, high = graph.loop(N_BISECTIONS, bisect, [end - 1.0, end])
    spacing = float(grid[-1] - grid[0]) / last
    found = graph.constant(grid).gather(left_node) + (low + high) * (0.5 * spacing)
    return found.clip(float(grid[0]), float(grid[-1])).exp()

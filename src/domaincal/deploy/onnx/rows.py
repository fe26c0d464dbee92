"""Inputs and outputs of a graph, and the softmax of rows at given temperatures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from domaincal.deploy.onnx.tensors import Graph, Tensor

# An infinite beta would give the largest logit 0 * inf.
_LARGEST_BETA = 0.5 * float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class GraphRows:
    """Inputs of a graph.

    Attributes
    ----------
    logits : Tensor of shape (n, n_classes)
        float32 or float64.
    features : Tensor of float64, shape (n, n_features), or None
    domains : Tensor of int64, shape (n,) or (1,), or None
    n_classes : int
    """

    logits: Tensor
    features: Tensor | None
    domains: Tensor | None
    n_classes: int

    @property
    def graph(self) -> Graph:
        """Graph of the inputs."""
        return self.logits.graph

    def needed_features(self) -> Tensor:
        """Features of the rows, for a method that uses them."""
        assert self.features is not None
        return self.features

    def needed_domains(self) -> Tensor:
        """Domains of the rows, for a method that uses them."""
        assert self.domains is not None
        return self.domains


@dataclass(frozen=True)
class GraphOutputs:
    """Outputs of a graph, in float32; ``temperature`` is None for methods without one."""

    probabilities: Tensor
    confidence: Tensor
    temperature: Tensor | None


def calibrate(rows: GraphRows, temperature: Tensor) -> GraphOutputs:
    """Softmax of the logits at a temperature.

    ``temperature`` is float64, of shape (n, 1); what is not finite makes its row NaN.
    """
    graph, z = rows.graph, rows.logits
    valid = z.is_finite() & temperature.is_finite()
    beta = (1.0 / temperature).min(_LARGEST_BETA).cast("float32")
    logits = below_top(z).cast("float32") * beta
    p = graph.where(valid, graph.op("Softmax", logits, axis=1), np.float32(np.nan))
    found = graph.where(valid, temperature.cast("float32"), np.float32(np.nan))
    return GraphOutputs(p, of_predicted(p, z), found.squeeze())


def calibrate_constant(rows: GraphRows, temperature: float) -> GraphOutputs:
    """Softmax of the logits at the same temperature for all rows, in float32 only."""
    graph, z = rows.graph, rows.logits
    valid = z.is_finite()
    beta = np.float32(min(1.0 / temperature, _LARGEST_BETA))
    p = graph.op("Softmax", below_top(z).cast("float32") * beta, axis=1)
    p = graph.where(valid, p, np.float32(np.nan))
    constant = graph.constant(np.full((1, 1), temperature, np.float32))
    found = graph.where(valid, constant, np.float32(np.nan))
    return GraphOutputs(p, of_predicted(p, z), found.squeeze())


def below_top(z: Tensor) -> Tensor:
    """Logits minus the largest of their row."""
    return z - z.top()


def predicted_class(z: Tensor) -> Tensor:
    """First class with the largest logit, shape (n, 1)."""
    return z.graph.op("ArgMax", z, axis=1, keepdims=1, dtype="int64")


def of_predicted(p: Tensor, z: Tensor) -> Tensor:
    """Probability of the predicted class of each row, shape (n,)."""
    return p.gather_columns(predicted_class(z)).squeeze()

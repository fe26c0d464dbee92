"""Nodes of the heads of MD-TS, from features to the target of each row."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from domaincal._typing import Array
from domaincal.calibrators.heads.kernel_ridge import GaussianKernel, KernelMap
from domaincal.calibrators.heads.neighbours import NeighbourMap
from domaincal.deploy.onnx.tensors import Graph, Tensor
from domaincal.errors import InputError
from domaincal.statistics import LinearMap


def require_graph(head: Any) -> None:
    """Raise InputError for a head without a graph."""
    if not isinstance(head, tuple(_NODES)):
        raise InputError(
            f"the head is a {type(head.regressor).__name__}, a regressor of scikit-learn, which "
            "has no ONNX graph here; fit with head='ridge', 'huber', 'krr' or 'knn' (--method "
            "md-ts:head=ridge)."
        )


def head_values(head: Any, features: Tensor) -> Tensor:
    """Values of a fitted head, shape (n, 1); not finite for features that are not."""
    nodes = next(nodes for learned, nodes in _NODES.items() if isinstance(head, learned))
    values: Tensor = nodes(head, features)
    return values


def nearest_rows(features: Tensor, rows: Array, n_neighbors: int) -> Tensor:
    """Positions of the nearest of ``rows``, in the order of their distance, shape (n, k)."""
    squares = np.square(rows, dtype=np.float64).sum(axis=1)
    # Without |x|**2, which is the same for all reference rows.
    distance = -(features @ (reference(features.graph, rows.T) * 2.0)) + squares
    return features.graph.ops(
        "TopK", distance, np.array([n_neighbors]), axis=1, largest=0, sorted=1,
        dtypes=["float64", "int64"],
    )[1]  # fmt: skip


def reference(graph: Graph, rows: Array) -> Tensor:
    """Stored rows in float64; the file has them in the precision of the fit."""
    return graph.constant(np.ascontiguousarray(rows)).cast("float64")


def _linear(head: LinearMap, features: Tensor) -> Tensor:
    return features @ head.coef[:, None] + head.intercept


def _kernel(head: KernelMap, features: Tensor) -> Tensor:
    kernel = GaussianKernel(head.rows, head.gamma)
    graph = features.graph
    scaled = (features - kernel.centre.astype(np.float64)) * float(kernel.root)
    squares = (scaled * scaled).sum() * -0.5
    # Too far to be squared: the kernel is 0.
    limit = -float(np.finfo(np.float64).max) / 8
    near = squares > limit
    scaled = graph.where(near, scaled, 0.0)
    squares = graph.where(near, squares, limit)
    # The two rows after those of the features are 1 and the squares of the reference rows.
    n_features = len(kernel.centre)
    of_references = kernel.right[n_features + 1].astype(np.float64)
    exponent = scaled @ reference(graph, kernel.right[:n_features]) + squares + of_references
    # Above 0 by rounding only.
    dual = head.dual.astype(np.float64)[:, None]
    values = exponent.min(0.0).exp() @ dual + head.intercept
    return graph.where(features.is_finite(), values, math.nan)


def _neighbours(head: NeighbourMap, features: Tensor) -> Tensor:
    nearest = nearest_rows(features, head.rows, head.n_neighbors)
    targets = features.graph.constant(head.targets.astype(np.float64))
    values = targets.gather(nearest).mean()
    return features.graph.where(features.is_finite(), values, math.nan)


_NODES: dict[type, Any] = {LinearMap: _linear, KernelMap: _kernel, NeighbourMap: _neighbours}

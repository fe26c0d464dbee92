"""Heads of MD-TS as torch modules, which map features to the target of each row."""

from __future__ import annotations

from typing import Any

import numpy as np

from domaincal.calibrators.calibrator_module import LearnedNumbers, torch
from domaincal.calibrators.heads.kernel_ridge import GaussianKernel, KernelMap
from domaincal.calibrators.heads.neighbours import NeighbourMap
from domaincal.errors import InputError
from domaincal.statistics import LinearMap


def head_module(head: Any) -> Any:
    """Module of a fitted head."""
    for learned, module in _MODULES.items():
        if isinstance(head, learned):
            return module(head)
    raise InputError(
        f"the head is a {type(head.regressor).__name__}, a regressor of scikit-learn, which has no "
        "torch module; fit with head='ridge', 'huber', 'krr' or 'knn', or call predict_proba, "
        "which takes tensors."
    )


class HeadModule(LearnedNumbers):
    """Base class of heads; ``options`` change its values but are no buffers."""

    def __init__(self, **options: int) -> None:
        super().__init__()
        self.options = options


class LinearHead(HeadModule):
    """``features @ coef + intercept``."""

    def __init__(self, head: LinearMap) -> None:
        super().__init__()
        self.store(coef=head.coef, intercept=np.array(head.intercept))

    def forward(self, features: Any) -> Any:
        """Value of each row."""
        return features @ self.coef + self.intercept


class KernelHead(HeadModule):
    """Gaussian kernel with the reference rows, times their dual coefficients."""

    def __init__(self, head: KernelMap) -> None:
        super().__init__()
        kernel = GaussianKernel(head.rows, head.gamma)
        self.store(
            centre=kernel.centre,
            root=kernel.root,
            right=kernel.right,
            dual=head.dual,
            intercept=np.array(head.intercept),
        )

    def forward(self, features: Any) -> Any:
        """Value of each row; NaN for features that are not finite."""
        scaled = (features - self.centre) * self.root
        squares = -0.5 * scaled.square().sum(1, keepdim=True)
        # Too far to be squared: the kernel is 0.
        limit = -torch.finfo(scaled.dtype).max / 8
        far = ~(squares > limit)
        scaled = torch.where(far, 0.0, scaled)
        squares = torch.where(far, limit, squares)
        left = torch.cat([scaled, squares, torch.ones_like(squares)], dim=1)
        # Above 0 by rounding only.
        kernel = (left @ self.right.to(left.dtype)).clamp(max=0.0).exp()
        values = kernel @ self.dual + self.intercept
        return torch.where(features.isfinite().all(1), values, torch.nan)


class NeighbourHead(HeadModule):
    """Mean target of the nearest reference rows; its gradient in the features is 0.

    Of rows at the same distance, the first of the fit count, as in
    :class:`~domaincal.kernels.torch_maps.NeighbourMeans`: the order of ``topk`` is not defined.
    """

    def __init__(self, head: NeighbourMap) -> None:
        super().__init__(n_neighbors=head.n_neighbors)
        self.n_neighbors = head.n_neighbors
        squares = np.square(head.rows, dtype=np.float64).sum(axis=1)
        self.store(rows=head.rows, squares=squares, targets=head.targets)

    def forward(self, features: Any) -> Any:
        """Value of each row; NaN for features that are not finite."""
        # Without |x|**2, which is the same for all reference rows.
        distance = self.squares - 2.0 * (features @ self.rows.to(features.dtype).T)
        limit = distance.topk(self.n_neighbors, dim=1, largest=False).values[:, -1:]
        nearer, tied = distance < limit, distance == limit
        missing = self.n_neighbors - nearer.sum(1, keepdim=True)
        chosen = nearer | (tied & (tied.cumsum(1, dtype=torch.int32) <= missing))
        values = chosen.to(self.targets.dtype) @ self.targets / self.n_neighbors
        return torch.where(features.isfinite().all(1), values, torch.nan)


_MODULES: dict[type, Any] = {
    LinearMap: LinearHead,
    KernelMap: KernelHead,
    NeighbourMap: NeighbourHead,
}

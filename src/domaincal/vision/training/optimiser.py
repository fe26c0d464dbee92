"""Stochastic gradient descent with a schedule of learning rates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as functional
from torch import Tensor, nn


class Optimiser:
    """Stochastic gradient descent with Nesterov momentum 0.9 on the cross entropy.

    Parameters
    ----------
    module : torch.nn.Module
        Module to train, on its device. On a GPU it computes in bfloat16.
    rates : sequence of float
        Learning rate of each step.
    weight_decay : float
        Weight decay of matrices and kernels. Vectors (biases, normalisation layers) have none.
    clip_norm : float or None
        Largest norm of the gradient.
    compiled : bool
        Whether to compile the module with ``torch.compile``.
    """

    def __init__(
        self,
        module: nn.Module,
        rates: Sequence[float],
        *,
        weight_decay: float,
        clip_norm: float | None,
        compiled: bool,
    ) -> None:
        self._module = module
        self._forward: Any = torch.compile(module) if compiled else module
        self._rates = iter(rates)
        self.largest_rate = max(rates)
        self._clip_norm = clip_norm
        # The first step sets the learning rate.
        self._sgd = torch.optim.SGD(
            _parameter_groups(module, weight_decay), lr=0.0, momentum=0.9, nesterov=True
        )

    def step(self, images: Tensor, labels: Tensor) -> Tensor:
        """Train on a batch, and return its loss as a tensor, without waiting for a GPU."""
        rate = next(self._rates)
        for group in self._sgd.param_groups:
            group["lr"] = rate
        with torch.autocast(images.device.type, torch.bfloat16, enabled=images.is_cuda):
            loss = functional.cross_entropy(self._forward(images).float(), labels)
        self._sgd.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        if self._clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(self._module.parameters(), self._clip_norm)
        self._sgd.step()
        return loss.detach()


def _parameter_groups(module: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    learned = [p for p in module.parameters() if p.requires_grad]
    return [
        {"params": [p for p in learned if p.ndim > 1], "weight_decay": weight_decay},
        {"params": [p for p in learned if p.ndim <= 1], "weight_decay": 0.0},
    ]

"""Choice of a device, and contexts in which a network runs on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch

from domaincal._shared_context import SharedContext
from domaincal._tensors import check_device
from domaincal.vision.networks.network import Network


def choose_device(device: str) -> torch.device:
    """Device by name; ``"auto"`` is the GPU if there is one, else the CPU."""
    found: torch.device | None = check_device(device, double_precision=False)
    return torch.device("cpu") if found is None else found


def fastest_convolutions() -> AbstractContextManager[None]:
    """Let cuDNN time its algorithms for each convolution, which pays off for many equal batches."""
    return _timed_convolutions.entered()


@SharedContext
def _timed_convolutions() -> AbstractContextManager[Any]:
    settings = torch.backends.cudnn
    return torch.backends.cudnn.flags(
        enabled=True, benchmark=True, deterministic=settings.deterministic,
        allow_tf32=settings.allow_tf32,
    )  # fmt: skip


@contextmanager
def evaluation_mode(network: Network, device: torch.device) -> Iterator[None]:
    """Move the network to the device and set eval mode; restore the former modes at the end."""
    modes = [(part, part.training) for part in network.module.modules()]
    network.to(device)
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training

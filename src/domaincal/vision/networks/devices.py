"""The device of a network, and how it works there."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch

from domaincal._tensors import check_device
from domaincal.vision.networks.network import Network


def choose_device(device: str) -> torch.device:
    """The named device; ``"auto"`` is the GPU if there is one."""
    found: torch.device | None = check_device(device, double_precision=False)
    return torch.device("cpu") if found is None else found


def fastest_convolutions() -> AbstractContextManager[Any]:
    """Try the ways in which a GPU can do each convolution: batches are many and of one size."""
    set_by_user = torch.backends.cudnn
    return torch.backends.cudnn.flags(
        enabled=True, benchmark=True, deterministic=set_by_user.deterministic,
        allow_tf32=set_by_user.allow_tf32,
    )  # fmt: skip


@contextmanager
def evaluating(network: Network, device: torch.device) -> Iterator[None]:
    """The network on the device and in eval mode; afterwards in the mode that it was in."""
    modes = [(part, part.training) for part in network.module.modules()]
    network.to(device)
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training

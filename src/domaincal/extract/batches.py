"""Images of a set as batches of tensors: decoded and cut by processes, in a given order."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from domaincal._errors import InputError
from domaincal._typing import Array, IntArray
from domaincal.datasets.image_sets import Images, ImageSet
from domaincal.extract.preprocessing import Preprocessing

# Images that are shown more than once are kept decoded up to so many bytes.
_KEPT_BYTES = 16 << 30
_DECODED_TOGETHER = 64


def choose_device(device: str | None) -> torch.device:
    """The named device, or the GPU if there is one."""
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
        torch.empty(0, device=chosen)
    except (RuntimeError, AssertionError) as error:
        raise InputError(
            f"device={device!r} cannot be used ({str(error).splitlines()[0]}); choose cpu, or cuda "
            "where torch sees a GPU."
        ) from error
    return chosen


def fastest_convolutions() -> AbstractContextManager[Any]:
    """Try the ways in which a GPU can do each convolution: batches are many and of one size."""
    return torch.backends.cudnn.flags(enabled=True, benchmark=True)


def worker_count(n_jobs: int | None) -> int:
    """Processes that decode: the given number, or one for each core; 0 is this process."""
    if n_jobs is not None:
        return n_jobs
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return cores or 1


def image_batches(
    images: Images,
    batches: list[IntArray],
    preprocessing: Preprocessing,
    *,
    n_jobs: int,
) -> Iterator[Tensor]:
    """Batches of the given rows: uint8 of shape (n, side, side, 3)."""
    loader: DataLoader[Tensor] = DataLoader(
        _Cut(images, batches, preprocessing), batch_size=None, shuffle=False, num_workers=n_jobs
    )
    yield from loader


def decoded(
    images: ImageSet, preprocessing: Preprocessing, device: torch.device, *, n_jobs: int
) -> Tensor | None:
    """All images on the device; None where they are too many to keep."""
    n, side = len(images), preprocessing.side
    if n * side * side * 3 > _kept_bytes(device):
        return None
    out = torch.empty((n, side, side, 3), dtype=torch.uint8, device=device)
    starts = range(0, n, _DECODED_TOGETHER)
    rows = [np.arange(start, min(start + _DECODED_TOGETHER, n)) for start in starts]
    parts = image_batches(images.images, rows, preprocessing, n_jobs=n_jobs)
    for own, part in zip(rows, parts, strict=True):
        out[own[0] : own[-1] + 1] = part.to(device)
    return out


def _kept_bytes(device: torch.device) -> int:
    if device.type != "cuda":
        return _KEPT_BYTES
    return min(_KEPT_BYTES, torch.cuda.mem_get_info(device)[0] // 4)


class _Cut(Dataset[Tensor]):
    """Whole batches: a process that decodes one sends it in one piece."""

    def __init__(
        self, images: Images, batches: list[IntArray], preprocessing: Preprocessing
    ) -> None:
        self._images, self._batches, self._preprocessing = images, batches, preprocessing

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, index: int) -> Tensor:
        cut: list[Array] = [
            self._preprocessing.cut(self._images[int(row)]) for row in self._batches[index]
        ]
        return torch.from_numpy(np.stack(cut))

"""Decode the images of a set, in worker processes, into batches of tensors."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from domaincal._typing import Array, IntArray
from domaincal.errors import DomaincalError, InputError
from domaincal.vision.datasets.image_files import Images
from domaincal.vision.datasets.image_set import ImageSet
from domaincal.vision.networks.preprocessing import Preprocessing

#: Images that are shown several times are kept decoded if they need at most so many bytes, and at
#: most a quarter of the memory of the device.
MAX_DECODED_BYTES = 16 << 30
_DECODED_TOGETHER = 64


def image_batches(
    images: Images,
    batches: list[IntArray],
    preprocessing: Preprocessing,
    *,
    device: torch.device,
    n_jobs: int,
) -> Iterator[Tensor]:
    """Yield batches of the given rows on the device: uint8 of shape (n, side, side, 3)."""
    on_gpu = device.type == "cuda"
    loader: DataLoader[Any] = DataLoader(
        _PreprocessedBatches(images, batches, preprocessing),
        batch_size=None, shuffle=False, num_workers=n_jobs,
        pin_memory=on_gpu,  # allows asynchronous copies to the GPU
        generator=torch.Generator(),  # otherwise it draws from torch's global random state
    )  # fmt: skip
    for batch in loader:
        if isinstance(batch, DomaincalError):  # raised here, without the traceback of a worker
            raise batch
        yield batch.to(device, non_blocking=on_gpu)


def decode_all(
    images: ImageSet, preprocessing: Preprocessing, device: torch.device, *, n_jobs: int
) -> Tensor | None:
    """All images on the device; None if they are too many to keep (see MAX_DECODED_BYTES)."""
    n, side = len(images), preprocessing.side
    if n * side * side * 3 > decoded_bytes_limit(device):
        return None
    decoded = torch.empty((n, side, side, 3), dtype=torch.uint8, device=device)
    starts = range(0, n, _DECODED_TOGETHER)
    rows = [np.arange(start, min(start + _DECODED_TOGETHER, n)) for start in starts]
    batches = image_batches(images.images, rows, preprocessing, device=device, n_jobs=n_jobs)
    for batch_rows, batch in zip(rows, batches, strict=True):
        decoded[batch_rows[0] : batch_rows[-1] + 1] = batch
    return decoded


def decoded_bytes_limit(device: torch.device) -> int:
    """Largest number of bytes that decoded images may take on a device."""
    if device.type == "cuda":
        memory = torch.cuda.mem_get_info(device)[0]
    elif hasattr(os, "sysconf"):
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    else:  # Windows
        memory = 8 << 30
    return min(MAX_DECODED_BYTES, memory // 4)


class _PreprocessedBatches(Dataset[Any]):
    """Data set whose items are whole batches, so that a worker sends each in one piece."""

    def __init__(
        self, images: Images, batches: list[IntArray], preprocessing: Preprocessing
    ) -> None:
        self._images, self._batches, self._preprocessing = images, batches, preprocessing

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, index: int) -> Tensor | DomaincalError:
        try:
            cropped = [
                self._preprocessing.resize_and_crop(_checked(self._images[int(row)]))
                for row in self._batches[index]
            ]
        except DomaincalError as error:
            return error
        return torch.from_numpy(np.stack(cropped))


def _checked(image: Array) -> Array:
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or 0 in image.shape:
        raise InputError(
            f"images must be uint8 of shape (height, width, 3), got {image.dtype} of shape "
            f"{image.shape}; scale them to 0..255, and repeat the channel of grey images."
        )
    return image

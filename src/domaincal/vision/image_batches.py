"""Images of a set as batches of tensors: decoded and cut by processes, in a given order."""

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from domaincal._typing import Array, IntArray
from domaincal.errors import DomaincalError, InputError
from domaincal.vision.datasets.image_set import Images, ImageSet
from domaincal.vision.networks.preprocessing import Preprocessing

# Images that are shown more than once are kept decoded up to so many bytes, and up to a part of
# the memory that the device has.
_KEPT_BYTES = 16 << 30
_KEPT_PART = 4
_DECODED_TOGETHER = 64


def image_batches(
    images: Images,
    batches: list[IntArray],
    preprocessing: Preprocessing,
    *,
    device: torch.device,
    n_jobs: int,
) -> Iterator[Tensor]:
    """Batches of the given rows on the device: uint8 of shape (n, side, side, 3)."""
    on_gpu = device.type == "cuda"
    loader: DataLoader[Any] = DataLoader(
        _PreprocessedBatches(images, batches, preprocessing),
        batch_size=None, shuffle=False, num_workers=n_jobs,
        pin_memory=on_gpu,  # a GPU fetches it from there while it works
        generator=torch.Generator(),  # else it draws from torch's global random state
    )  # fmt: skip
    for batch in loader:
        if isinstance(batch, DomaincalError):  # of a process, without its traceback
            raise batch
        yield batch.to(device, non_blocking=on_gpu)


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
    parts = image_batches(images.images, rows, preprocessing, device=device, n_jobs=n_jobs)
    for own, part in zip(rows, parts, strict=True):
        out[own[0] : own[-1] + 1] = part
    return out


def _kept_bytes(device: torch.device) -> int:
    if device.type == "cuda":
        memory = torch.cuda.mem_get_info(device)[0]
    elif hasattr(os, "sysconf"):
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    else:  # Windows does not say
        memory = 8 << 30
    return min(_KEPT_BYTES, memory // _KEPT_PART)


class _PreprocessedBatches(Dataset[Any]):
    """Whole batches: a process that decodes one sends it in one piece."""

    def __init__(
        self, images: Images, batches: list[IntArray], preprocessing: Preprocessing
    ) -> None:
        self._images, self._batches, self._preprocessing = images, batches, preprocessing

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(self, index: int) -> Tensor | DomaincalError:
        try:
            cut = [
                self._preprocessing.cut(_checked(self._images[int(row)]))
                for row in self._batches[index]
            ]
        except DomaincalError as error:
            return error
        return torch.from_numpy(np.stack(cut))


def _checked(image: Array) -> Array:
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or 0 in image.shape:
        raise InputError(
            f"images must be uint8 of shape (height, width, 3), got {image.dtype} of shape "
            f"{image.shape}; scale them to 0..255, and repeat the channel of grey ones."
        )
    return image

"""Images of a set as batches of tensors: decoded and cut by processes, in a given order."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from domaincal._errors import DomaincalError, InputError
from domaincal._typing import Array, IntArray
from domaincal._validation import check_count
from domaincal.datasets.image_sets import Images, ImageSet
from domaincal.extract.networks import Network
from domaincal.extract.preprocessing import Preprocessing

# Images that are shown more than once are kept decoded up to so many bytes, and up to a part of
# the memory that the device has.
_KEPT_BYTES = 16 << 30
_KEPT_PART = 4
_DECODED_TOGETHER = 64


def choose_device(device: str | None) -> torch.device:
    """The named device, or the GPU if there is one."""
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
        torch.empty(0, device=chosen)
        if chosen.type == "meta":
            raise RuntimeError("it holds no values")
    except (RuntimeError, AssertionError) as error:
        raise InputError(
            f"device={device!r} cannot be used ({str(error).splitlines()[0]}); choose cpu, or cuda "
            "where torch sees a GPU."
        ) from error
    return chosen


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


def worker_count(n_jobs: int | None) -> int:
    """Processes that decode: the given number, or one for each core; 0 is this process."""
    if n_jobs is not None:
        check_count(n_jobs, "n_jobs", minimum=0)
        return n_jobs
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return cores or 1


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
        _Cut(images, batches, preprocessing), batch_size=None, shuffle=False, num_workers=n_jobs,
        pin_memory=on_gpu,  # a GPU fetches it from there while it works
        generator=torch.Generator(),  # else it takes a number from everybody's
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


class _Cut(Dataset[Any]):
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

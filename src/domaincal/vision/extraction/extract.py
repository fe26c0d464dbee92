"""Write logits and features of images to a store."""

from __future__ import annotations

import functools
import json
import os
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from domaincal._typing import Track
from domaincal._validation import check_count
from domaincal.errors import InputError
from domaincal.io import Store
from domaincal.io.formats import require_store_name
from domaincal.vision.corruptions.corruption_set import Corruptions
from domaincal.vision.datasets.image_set import ImageSet
from domaincal.vision.extraction.batch_source import Batch, BatchSource, select_classes
from domaincal.vision.extraction.image_set_batches import ImageSetBatches
from domaincal.vision.extraction.loader_batches import LoaderBatches
from domaincal.vision.extraction.mixed_precision import (
    MixedPrecision,
    Precision,
    choose_precision,
)
from domaincal.vision.extraction.output_shard import OutputShard
from domaincal.vision.networks.devices import (
    choose_device,
    evaluation_mode,
    fastest_convolutions,
)
from domaincal.vision.networks.network import Network
from domaincal.vision.processes import worker_count

#: A shard is written after so many rows or seconds. A killed extraction loses at most one shard.
SHARD_ROWS = 16384
SHARD_SECONDS = 30.0
# A GPU needs large batches to be busy; the activations of large batches do not fit into the caches
# of a CPU.
_BATCH_SIZE_ON_GPU = 256
_BATCH_SIZE_ON_CPU = 16


@dataclass(frozen=True)
class Extraction:
    """Summary of a call of :func:`extract`.

    Attributes
    ----------
    store : Store
    n_rows, n_kept : int
        Number of rows of the store, and how many of them an earlier call had written.
    seconds : float
        Time for the new rows.
    device, precision : str
    """

    store: Store
    n_rows: int
    n_kept: int
    seconds: float
    device: str
    precision: str

    @property
    def rate(self) -> float:
        """New rows per second."""
        return (self.n_rows - self.n_kept) / self.seconds


def extract(
    network: Network | nn.Module,
    images: ImageSet | Iterable[Any],
    output: Store | str | os.PathLike[str],
    *,
    layer: str | None = None,
    corruptions: Corruptions | None = None,
    batch_size: int | None = None,
    precision: Precision | None = None,
    device: str = "auto",
    n_jobs: int | None = None,
    shard_rows: int = SHARD_ROWS,
    track: Track = iter,
) -> Extraction:
    """Show images to a network, and write its logits and features to a store.

    The network runs in eval mode and is left in its former mode. Rows are written in shards. If the
    work is interrupted, even by a kill, the same call resumes after the last complete shard: no row
    is missing and none is there twice.

    Parameters
    ----------
    network : Network or torch.nn.Module
        A module also needs ``layer``.
    images : ImageSet, or an iterable of batches such as a DataLoader
        Batches are tuples ``(images, labels)``, ``(images, labels, domains)`` or
        ``(images, labels, domains, groups)``. The images are the input of the module, in the same
        order in every call (no shuffling). Labels may be None, in all batches or in none; the store
        then has no labels. An ImageSet without class names gets those of the network.
    output : Store or path
        A new store, or one to resume.
    layer : str, optional
        Name of the module's last layer; its input are the features.
    corruptions : Corruptions, optional
        Show every image of an ImageSet under these corruptions, which are applied on the network's
        device. The domain of a row is the corruption, or ``hospital/corruption`` if the images have
        several domains. The group of a row is the image, unless the ImageSet has groups.
    batch_size : int, optional
        Number of images of an ImageSet in a batch; it changes the rows only by rounding. By default
        256 on a GPU and 16 on the CPU.
    precision : {"float32", "float16", "bfloat16"}, optional
        Precision of all layers except the last; by default float16 on a GPU and float32 on the CPU.
        With half precision, features are stored as float16. Logits are always float32. A batch with
        values that are not finite in half precision is computed again in float32, with a warning.
    device : str, default "auto"
        ``"auto"`` is the GPU if there is one, else the CPU.
    n_jobs : int, optional
        Number of processes that decode images; 0 decodes in the calling process. By default one per
        core.
    shard_rows : int, default 16384
        A shard is written when it has so many rows, or after 30 s.
    track : callable, optional
        Wraps the list of an ImageSet's batches (ranges of row numbers), or the loader, to show
        progress, e.g. ``tqdm.tqdm``.

    Returns
    -------
    Extraction

    Examples
    --------
    >>> import tempfile, numpy as np, torch, domaincal as dc
    >>> from domaincal.vision import Network, Preprocessing, extract
    >>> module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 2))
    >>> network = Network(module, "1", preprocessing=Preprocessing(side=8))
    >>> grey = np.full((6, 8, 8, 3), 128, np.uint8)
    >>> domains = ["x"] * 3 + ["y"] * 3
    >>> photos = dc.vision.ImageSet(grey, [0, 1] * 3, class_names=["a", "b"], domains=domains)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     extraction = extract(network, photos, folder + "/rows", device="cpu", n_jobs=0)
    ...     extraction.store.read()
    CalibrationData(6 rows, 2 classes, 192 features, 2 domains)

    Images without labels:

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     new = dc.vision.ImageSet(grey, domains=["z"] * 6)
    ...     extract(network, new, folder + "/rows", device="cpu", n_jobs=0).store.read()
    CalibrationData(6 rows, 2 classes, 192 features, 1 domain, no labels)
    """
    network = _as_network(network, layer)
    target = choose_device(device)
    if batch_size is None:
        batch_size = _BATCH_SIZE_ON_GPU if target.type == "cuda" else _BATCH_SIZE_ON_CPU
    check_count(batch_size, "batch_size", minimum=1)
    check_count(shard_rows, "shard_rows", minimum=1)
    store = output if isinstance(output, Store) else Store(output)
    require_store_name(store.path)
    if precision is None and network.dtype == torch.float32 and len(store):
        precision = store.provenance.get("precision")  # the store may have been begun on a GPU
    precision = choose_precision(precision, network, target)
    source: BatchSource
    if isinstance(images, ImageSet):
        source = ImageSetBatches(
            images, network, corruptions, batch_size=batch_size, n_jobs=worker_count(n_jobs)
        )
    elif corruptions is None:
        source = LoaderBatches(images, store)
    else:
        raise InputError("corruptions need an ImageSet; corrupt the batches in your loader.")
    provenance = _provenance(network, source, precision)
    n_kept = _n_rows_to_keep(store, provenance)
    started = time.perf_counter()
    mixed = MixedPrecision(network, precision)
    with evaluation_mode(network, target):
        if isinstance(images, ImageSet):
            _try_black_image(mixed, source, target)
        with fastest_convolutions():
            batches = source.batches(n_kept, target, track)
            new_shard = functools.partial(OutputShard, source, provenance, mixed)
            _write_shards(store, batches, new_shard, start=n_kept, shard_rows=shard_rows)
    mixed.warn_if_repeated(n_rows=len(store) - n_kept)
    seconds = time.perf_counter() - started
    return Extraction(store, len(store), n_kept, seconds, str(target), precision)


def _as_network(network: Network | nn.Module, layer: str | None) -> Network:
    """Network of the arguments ``network`` and ``layer``."""
    if isinstance(network, nn.Module):
        if layer is None:
            raise InputError("layer is None; name the last layer of the module, e.g. layer='fc'.")
        return Network(network, layer, name=type(network).__name__)
    if not isinstance(network, Network):
        raise InputError(
            f"network must be a Network or a torch.nn.Module, got {network!r}; make one with "
            "create_network(name) or load_network(path)."
        )
    if layer is not None:
        raise InputError(
            f"layer={layer!r}, but the Network has the layer {network.layer!r}; leave out layer."
        )
    return network


def _provenance(network: Network, source: BatchSource, precision: Precision) -> dict[str, Any]:
    """Values that distinguish the rows of this extraction from others."""
    return {
        **{f"network {key}": value for key, value in network.provenance.items()},
        **source.provenance,
        "network": network.name,
        "layer": network.layer,
        "weights": network.checksum(),
        "precision": precision,
    }


def _n_rows_to_keep(store: Store, provenance: dict[str, Any]) -> int:
    """Number of rows of an earlier call; raise an error if it had another network or images."""
    n_rows = len(store)
    if n_rows:
        store.check()
        stored = store.provenance
        for key, value in json.loads(json.dumps(provenance)).items():
            if stored.get(key) != value:
                raise InputError(
                    f"{store.path} differs in {key}: it was made with "
                    f"{_shown(stored.get(key))}, not {_shown(value)}; choose another folder, or "
                    "remove it."
                )
    return n_rows


def _shown(value: Any) -> str:
    return "none" if value is None else repr(value)


def _try_black_image(network: MixedPrecision, source: BatchSource, device: torch.device) -> None:
    """Show the network a black image, to find errors before many images are decoded."""
    preprocessing = network.network.preprocessing
    assert preprocessing is not None  # ImageSetBatches requires it
    black = torch.zeros((1, preprocessing.side, preprocessing.side, 3), device=device)
    select_classes(network.outputs(preprocessing.normalise(black)).logits, source)


def _write_shards(
    store: Store,
    batches: Iterable[Batch],
    new_shard: Callable[[int], OutputShard],
    *,
    start: int,
    shard_rows: int,
) -> None:
    """Show the batches to the network, and append its outputs to the store from row ``start`` on.

    ``new_shard(start)`` makes an empty shard.
    """
    shard = new_shard(start)
    with ThreadPoolExecutor(1) as writer:
        pending: Future[None] | None = None
        try:
            for batch in batches:
                shard.add(batch)
                if pending is not None and pending.done():
                    pending.result()  # raise an error of the writer now, not after the next shard
                is_late = time.perf_counter() - shard.created > SHARD_SECONDS
                if shard.n_rows >= shard_rows or is_late:
                    pending = _append(writer, pending, store, shard)
                    shard = new_shard(shard.start + shard.n_rows)
            shard.check_last_batch()
        finally:  # after Ctrl-C or a damaged image, keep the rows before it
            if shard.n_rows:
                pending = _append(writer, pending, store, shard)
            if pending is not None:
                pending.result()


def _append(
    writer: ThreadPoolExecutor, pending: Future[None] | None, store: Store, shard: OutputShard
) -> Future[None]:
    """Append a shard to the store in the writer's thread, while the network continues."""
    shard.check_last_batch()
    if pending is not None:
        pending.result()
    stream = shard.stream()  # of this thread: the current stream of the writer's thread differs

    def write() -> None:
        with torch.cuda.stream(stream):
            store.append(shard.data(), at=shard.start)

    return writer.submit(write)

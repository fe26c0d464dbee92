"""Logits and features of images, written to a store as they come."""

import json
import os
import time
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from domaincal._typing import Array, Track
from domaincal._validation import check_count, check_option
from domaincal.data import CalibrationData
from domaincal.errors import InputError
from domaincal.io import Store
from domaincal.io.formats import require_store_name
from domaincal.vision.corruptions.corruption_set import Corruptions
from domaincal.vision.datasets.image_set import ImageSet
from domaincal.vision.extraction.mixed_precision import MixedPrecision, Precision
from domaincal.vision.extraction.row_sources import Batch, ImageRows, LoaderRows, RowSource
from domaincal.vision.networks.devices import choose_device, evaluating, fastest_convolutions
from domaincal.vision.networks.network import Network
from domaincal.vision.processes import worker_count

# Rows of a shard, and seconds after which one is closed with fewer: what is lost, and computed
# again, when the work is killed.
_SHARD_ROWS = 16384
_SHARD_SECONDS = 30.0
# A GPU needs many images to be busy; what a processor makes of many leaves its caches, and comes
# from new pages each time.
_BATCH_ON_GPU = 256
_BATCH_ON_CPU = 16


@dataclass(frozen=True)
class Extraction:
    """What :func:`extract` did.

    Attributes
    ----------
    store : Store
    n_rows, n_kept : int
        Rows of the store, and how many of them were there before.
    seconds : float
        That the others took.
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
        """Images per second."""
        return (self.n_rows - self.n_kept) / self.seconds


def extract(
    network: Network | nn.Module,
    images: ImageSet | Iterable[Any],
    out: Store | str | os.PathLike[str],
    *,
    layer: str | None = None,
    corruptions: Corruptions | None = None,
    batch_size: int | None = None,
    precision: Precision | None = None,
    device: str = "auto",
    n_jobs: int | None = None,
    shard_rows: int = _SHARD_ROWS,
    track: Track = iter,
) -> Extraction:
    """Logits and features of images, as rows of a store.

    The network is asked in eval mode and left in the mode it was in. Shards are written as they
    come. Work that was cut off, even by a kill, goes on after the last complete shard when it is
    called again: no row is missing and none is there twice.

    Parameters
    ----------
    network : Network or torch.nn.Module
        Of a module, name the last ``layer``.
    images : ImageSet, or an iterable of batches such as a DataLoader
        Batches are tuples ``(images, labels)``, ``(images, labels, domains)`` or
        ``(images, labels, domains, groups)``, where the images are what the module takes, in the
        same order in every call: no shuffling. Labels may be None, in all batches or in none.
        Without labels the store has none either; an ImageSet without classes has the network's.
    out : Store, or its path
        One that an earlier call has begun goes on.
    layer : str, optional
        The module's last layer: what enters it are the features.
    corruptions : Corruptions, optional
        Show every image of an ImageSet under these, on the network's device; the group of a row
        is then the image, and its domain the corruption, or ``hospital/corruption`` where images
        are of several domains.
    batch_size : int, optional
        Of an ImageSet; it does not change the rows, but for rounding. By default 256 on a GPU, and
        16 elsewhere.
    precision : {"float32", "float16", "bfloat16"}, optional
        Of all layers but the last. By default float16 on a GPU and float32 elsewhere; with half
        precision, features are stored in float16. Logits are float32 always. A batch with a value
        that is not finite in half precision is shown again in float32, with a warning.
    device : str, default "auto"
        ``"auto"``: the GPU if there is one.
    n_jobs : int, optional
        Processes that decode images; 0: none but this. By default one for each core.
    shard_rows : int, default 16384
        A shard is written when it has so many rows, or after 30 s.
    track : callable, optional
        Wraps the list of an ImageSet's batches, ranges of row numbers, or the loader itself, to
        show progress: ``tqdm.tqdm``, say.

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
    ...     done = extract(network, photos, folder + "/rows", device="cpu", n_jobs=0)
    ...     done.store.read()
    CalibrationData(6 rows, 2 classes, 192 features, 2 domains)

    Images that nobody has labelled:

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     new = dc.vision.ImageSet(grey, domains=["z"] * 6)
    ...     extract(network, new, folder + "/rows", device="cpu", n_jobs=0).store.read()
    CalibrationData(6 rows, 2 classes, 192 features, 1 domain, no labels)
    """
    if isinstance(network, nn.Module):
        if layer is None:
            raise InputError("layer is None; name the last layer of the module, e.g. layer='fc'.")
        network = Network(network, layer, name=type(network).__name__)
    elif not isinstance(network, Network):
        raise InputError(
            f"network must be a Network or a torch.nn.Module, got {network!r}; "
            "create_network(name) and load_network(path) make one."
        )
    elif layer is not None:
        raise InputError(f"layer={layer!r}, but the Network has one: {network.layer!r}.")
    chosen = choose_device(device)
    if batch_size is None:
        batch_size = _BATCH_ON_GPU if chosen.type == "cuda" else _BATCH_ON_CPU
    check_count(batch_size, "batch_size", minimum=1)
    check_count(shard_rows, "shard_rows", minimum=1)
    store = out if isinstance(out, Store) else Store(out)
    require_store_name(store.path)
    if precision is None and network.dtype == torch.float32 and len(store):
        precision = store.provenance.get("precision")  # begun elsewhere, perhaps on a GPU
    precision = _precision(precision, network, chosen)
    source: RowSource
    if isinstance(images, ImageSet):
        source = ImageRows(
            images, network, corruptions, batch_size=batch_size, n_jobs=worker_count(n_jobs)
        )
    elif corruptions is None:
        source = LoaderRows(images, store)
    else:
        raise InputError("corruptions are for an ImageSet; corrupt the batches in your loader.")
    provenance = {
        **{f"network {key}": value for key, value in network.provenance.items()},
        **source.provenance,
        "network": network.name,
        "layer": network.layer,
        "weights": network.checksum(),
        "precision": precision,
    }
    n_kept = _rows_there(store, provenance)
    started = time.perf_counter()
    asked = MixedPrecision(network, precision)
    shard = _Shard(source, provenance, asked, start=n_kept)
    if isinstance(images, ImageSet) and network.preprocessing is not None:
        # What is wrong with the network is wrong before many images are decoded.
        black = torch.zeros((1, *2 * [network.preprocessing.side], 3), device=chosen)
        with evaluating(network, chosen):
            _of_classes(asked.outputs(network.preprocessing.normalise(black)).logits, source)
    with ThreadPoolExecutor(1) as writer, fastest_convolutions(), evaluating(network, chosen):
        written: Future[None] | None = None
        try:
            for batch in source.batches(n_kept, chosen, track):
                shard.add(batch)
                if written is not None and written.done():
                    written.result()  # an error is raised now, not with the next shard
                if shard.n_rows >= shard_rows or time.perf_counter() - shard.begun > _SHARD_SECONDS:
                    written = _append(writer, written, store, shard)
                    start = shard.start + shard.n_rows
                    shard = _Shard(source, provenance, asked, start=start)
            shard.check()
        finally:  # also what was done before Ctrl-C, or before a batch that cannot be decoded
            if shard.n_rows:
                written = _append(writer, written, store, shard)
            if written is not None:
                written.result()
    asked.warn(n_rows=len(store) - n_kept, stacklevel=2)
    return Extraction(
        store, len(store), n_kept, time.perf_counter() - started, str(chosen), precision
    )


@dataclass(eq=False)
class _Shard:
    """Rows that wait to be written; the network's outputs stay on its device until then."""

    source: RowSource
    provenance: dict[str, Any]
    asked: MixedPrecision
    start: int
    n_rows: int = 0
    begun: float = field(default_factory=time.perf_counter)
    logits: list[Tensor] = field(default_factory=list)
    features: list[Tensor] = field(default_factory=list)
    batches: list[Batch] = field(default_factory=list)
    unchecked: Tensor | None = None

    def add(self, batch: Batch) -> None:
        """Show a batch to the network; a GPU is at it while the outputs before it are looked at."""
        logits, features, finite = self.asked.outputs(batch.images)
        self.check()
        self.logits.append(logits)
        self.features.append(features)
        self.batches.append(batch)
        self.n_rows += len(logits)
        self.unchecked = finite
        if not logits.is_cuda:  # the images may be a loader's, who fills them anew
            self.check()

    def check(self) -> None:
        """Show the last batch again if its outputs are not finite; drop it if they stay so."""
        if self.unchecked is None:
            return
        finite, self.unchecked = bool(self.unchecked), None
        batch = self.batches.pop()
        if not finite:
            self.n_rows -= len(self.logits.pop())
            self.features.pop()
            logits, features, _ = self.asked.again(batch.images)
            self.logits.append(logits)
            self.features.append(features)
            self.n_rows += len(logits)
        self.batches.append(batch._replace(images=torch.empty(0)))

    def data(self) -> CalibrationData:
        return CalibrationData(
            _of_classes(torch.cat(self.logits), self.source).cpu().numpy(),
            labels=_joined([batch.labels for batch in self.batches]),
            features=torch.cat(self.features).cpu().numpy(),
            domains=_joined([batch.domains for batch in self.batches]),
            groups=_joined([batch.groups for batch in self.batches]),
            class_names=self.source.class_names,
            provenance=self.provenance,
        )


def _precision(asked: Precision | None, network: Network, device: torch.device) -> Precision:
    """The one that was asked for, or the best for the device; that of the weights if they are none.

    Weights of float64 work in float64, and what is stored is float32.
    """
    if asked is not None:
        check_option(asked, "precision", ("float32", "float16", "bfloat16"))
    if network.dtype == torch.float32:
        return asked or ("float16" if device.type == "cuda" else "float32")
    names: dict[torch.dtype, Precision] = {torch.float16: "float16", torch.bfloat16: "bfloat16"}
    own = names.get(network.dtype, "float32")
    if asked not in (None, own):
        raise InputError(
            f"precision={asked!r}, but the weights of the module are {network.dtype}; leave "
            "precision out, or call module.float() first."
        )
    return own


def _of_classes(logits: Tensor, source: RowSource) -> Tensor:
    """Those of the images' classes."""
    columns, names = source.columns, source.class_names
    if columns is not None:
        if columns.max() >= logits.shape[1]:
            raise InputError(
                f"the network has {logits.shape[1]} outputs, but columns of the images name "
                f"{columns.max()}; choose a network that knows their classes."
            )
        logits = logits[:, torch.as_tensor(columns, device=logits.device)]
    if names is not None and logits.shape[1] != len(names):
        raise InputError(
            f"the network has {logits.shape[1]} outputs, but the images are of {len(names)} "
            "classes; train it on them, or choose one that knows them."
        )
    return logits


def _append(
    writer: ThreadPoolExecutor, before: Future[None] | None, store: Store, shard: _Shard
) -> Future[None]:
    """Fetch and write a shard while the network goes on with the next."""
    shard.check()
    if before is not None:
        before.result()
    # The stream of this thread is not that of the other, nor that of another device.
    logits = shard.logits[0]
    stream = torch.cuda.current_stream(logits.device) if logits.is_cuda else None

    def write() -> None:
        with torch.cuda.stream(stream):
            store.append(shard.data(), at=shard.start)

    return writer.submit(write)


def _joined(parts: list[Array | None]) -> Array | None:
    known = [part for part in parts if part is not None]
    return np.concatenate(known) if known else None


def _rows_there(store: Store, provenance: dict[str, Any]) -> int:
    """Rows of an earlier call; refuse those of another network or other images."""
    n_rows = len(store)
    if n_rows:
        store.check()
        found = store.provenance
        for key, value in json.loads(json.dumps(provenance)).items():
            if found.get(key) != value:
                # Keys are singular and plural: no word before them may depend on that.
                raise InputError(
                    f"{store.path} differs in {key}: it was made with "
                    f"{_shown(found.get(key))}, not {_shown(value)}; choose another folder, or "
                    "remove it."
                )
    return n_rows


def _shown(value: Any) -> str:
    return "none" if value is None else repr(value)

"""Digests that identify the rows of a data set."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, cast

import numpy as np

from domaincal._row_arrays import row_range, sum_over_parts
from domaincal._tensors import host_array, on_device
from domaincal._typing import Array
from domaincal.kernels import torch_kernels

if TYPE_CHECKING:
    from domaincal.data.calibration_data import CalibrationData

# Rows of logits in the fingerprint. A digest of all logits would delay a fit on gigabytes.
_N_SAMPLED_ROWS = 1024
_BLOCK_ROWS = 1 << 20


def fingerprint(logits: Array, labels: Array | None) -> str:
    """Digest of the shape, of 1024 evenly spaced rows of logits and labels, and of label counts.

    Logits are converted to single precision, so that a round trip through a csv file does not
    change the fingerprint.

    Examples
    --------
    >>> import numpy as np
    >>> fingerprint(np.eye(2), np.array([0, 1])) == fingerprint(np.eye(2), np.array([1, 0]))
    False
    """
    return _digest(len(logits), _sampled(logits, labels))


def start_fingerprint(logits: Array, labels: Array | None) -> Callable[[], str]:
    """Function that gives the fingerprint.

    For rows on a device, another thread computes the digest, which takes as long as a fit there.
    """
    if not on_device(logits):
        return partial(fingerprint, logits, labels)
    arrays, found = _sampled(cast(Array, logits), labels), list[str]()
    # Not a pool of one thread: it would hand over the interpreter several times, and each time can
    # take 5 ms, longer than a fit on a GPU.
    thread = Thread(target=lambda: found.append(_digest(len(logits), arrays)))
    thread.start()

    def digest() -> str:
        thread.join()
        return found[0]

    return digest


def _sampled(logits: Array, labels: Array | None) -> list[Array]:
    """Arrays that are digested."""
    n = len(logits)
    rows = np.unique(np.linspace(0, n - 1, min(n, _N_SAMPLED_ROWS)).round().astype(np.int64))
    with np.errstate(over="ignore"):
        found = [host_array(logits[rows].astype(np.float32))]
    if labels is not None:
        found.append(sum_over_parts(_counts, labels, logits.shape[1]))
        found.append(host_array(labels[rows].astype(np.int64)))
    return found


def _digest(n_rows: int, arrays: list[Array]) -> str:
    digest = hashlib.sha256()
    for values in arrays:
        digest.update(f"{values.shape}\n".encode())
        digest.update(np.ascontiguousarray(values).data)
    return f"{n_rows} rows, sha256 {digest.hexdigest()[:16]}"


def _counts(labels: Array, n_classes: int) -> Array:
    """Number of rows of each class, read in blocks."""
    if on_device(labels):
        return torch_kernels.counts(labels.tensor, n_classes)
    total = np.zeros(n_classes, np.int64)
    rows = row_range(labels)
    for start in rows[::_BLOCK_ROWS]:
        stop = min(start + _BLOCK_ROWS, rows.stop)
        total += np.bincount(labels[start:stop], minlength=n_classes)
    return total


def checksums(data: CalibrationData) -> dict[str, str]:
    """Checksum of each array in full; unlike the fingerprint, it detects a change in any row."""
    found = {}
    for name in ("logits", "labels", "features", "domains", "groups"):
        values = getattr(data, name)
        if values is None:
            continue
        if values.dtype.kind == "O":  # names: their codes, and each name once
            values, names = data.domain_codes if name == "domains" else data.group_codes
            listed = "\0".join(names.tolist()).encode("utf-8", "surrogatepass")
            start, kind = zlib.crc32(listed), "strings"
        else:
            start, kind = 0, str(values.dtype)
        rows = np.ascontiguousarray(values)
        digest = zlib.crc32(rows.view(np.uint8).data, start)
        found[name] = f"{kind} {rows.shape} {digest:08x}"
    return found

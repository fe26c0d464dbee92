"""A short text that tells one set of rows from another."""

import hashlib
import zlib
from typing import TYPE_CHECKING

import numpy as np

from domaincal._typing import Array

if TYPE_CHECKING:
    from domaincal.data.calibration_data import CalibrationData

# So many rows are read in full: a fit of gigabytes must not wait for a checksum of them.
_ROWS = 1024


def fingerprint(logits: Array, labels: Array | None) -> str:
    """From the shape of the logits, 1024 rows spread evenly, and the labels and their counts.

    Logits count in single precision: rows that went through a csv file are the same rows.

    Examples
    --------
    >>> import numpy as np
    >>> fingerprint(np.eye(2), np.array([0, 1])) == fingerprint(np.eye(2), np.array([1, 0]))
    False
    """
    n = len(logits)
    rows = np.unique(np.linspace(0, n - 1, min(n, _ROWS)).round().astype(np.int64))
    digest = hashlib.sha256()

    def add(values: Array) -> None:
        digest.update(f"{values.shape}\n".encode())
        digest.update(np.ascontiguousarray(values).tobytes())

    with np.errstate(over="ignore"):
        add(logits[rows].astype(np.float32))
    if labels is not None:
        add(np.bincount(labels, minlength=logits.shape[1]))
        add(labels[rows].astype(np.int64))
    return f"{n} rows, sha256 {digest.hexdigest()[:16]}"


def checksums(data: "CalibrationData") -> dict[str, str]:
    """A checksum of all that each array holds: where a single changed row must be noticed."""
    found = {}
    for name in ("logits", "labels", "features", "domains", "groups"):
        values = getattr(data, name)
        if values is not None:
            rows = np.ascontiguousarray(values)
            found[name] = f"{rows.dtype} {rows.shape} {zlib.crc32(rows.view(np.uint8).data):08x}"
    return found

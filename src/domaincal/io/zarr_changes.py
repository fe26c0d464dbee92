"""Changes of a Zarr group since it was opened: other rows must not be mixed with the first."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from domaincal._optional import require
from domaincal._typing import IntArray
from domaincal.errors import FileFormatError

# Size and time of a chunk that is not there.
_MISSING = (-1, -1)


class ChunkFiles:
    """Sizes and times of the chunk files of an array, as they were when it was opened.

    Parameters
    ----------
    values : array of zarr
        In a folder of this machine.
    label : str
        Name of the array in errors.
    """

    def __init__(self, values: Any, label: str) -> None:
        self._folder = Path(values.store.root, values.path)
        self._encode = values.metadata.encode_chunk_key
        self._label = label
        # Chunks of a shard lie in one file.
        self._rows, *self._columns = values.shards or values.chunks
        # Files of the same rows, for each number of rows.
        n_columns = [-(-n // size) for n, size in zip(values.shape[1:], self._columns, strict=True)]
        self._others = list(itertools.product(*map(range, n_columns)))
        n = -(-values.shape[0] // self._rows) if values.shape[0] else 0
        self._states: IntArray = np.array([self._found(k) for k in range(n)], np.int64)

    def require_unchanged(self, row: int) -> None:
        """Raise an error if the files with this row are others than those that were opened."""
        number = row // self._rows
        if not np.array_equal(self._states[number], self._found(number)):
            raise changed(self._label)

    def _found(self, number: int) -> list[tuple[int, int]]:
        return [_state(self._folder / self._encode((number, *other))) for other in self._others]


class GroupAttributes:
    """Attributes of a group of our own at an address, with the name of its writer.

    Storage at an address has no times that all file systems give in one way.
    """

    def __init__(self, address: str, key: str, attributes: Mapping[str, Any]) -> None:
        self._address = address
        self._key = key
        self._attributes = dict(attributes)

    def require_unchanged(self, row: int) -> None:
        """Raise an error if the group was written again."""
        zarr = require("zarr", extra="zarr", purpose=".zarr")
        try:
            group = zarr.open_group(self._address, mode="r", zarr_format=3, use_consolidated=False)
        except FileNotFoundError as error:
            raise changed(self._address) from error
        if group.attrs.get(self._key) != self._attributes:
            raise changed(self._address)


def changed(name: str) -> FileFormatError:
    """The error for rows that are no longer those that were opened."""
    return FileFormatError(
        f"{name} was changed or replaced while it was read; run it again when no process writes "
        "to it."
    )


def _state(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        return _MISSING
    return found.st_size, found.st_mtime_ns

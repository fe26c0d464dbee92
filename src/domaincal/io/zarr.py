"""``.zarr``: a folder, or an address of object storage, with one array in chunks for each array."""

from __future__ import annotations

import os
import secrets
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from domaincal._files import naming_path, replacing_folder
from domaincal._memory import MemoryLimit
from domaincal._row_arrays import CodedRows, RowArray
from domaincal._typing import Array, IntArray
from domaincal.data import BlockedRows
from domaincal.data.column_choice import ColumnChoice
from domaincal.errors import InputError
from domaincal.io.addresses import address_of, shown
from domaincal.io.raw_data import ARRAYS, CODED, RawData, named_rows, sources_of
from domaincal.io.row_chunks import RowChunks, renamed_chunks
from domaincal.io.zarr_group import FORMAT, KEY, VERSION, ZarrGroup, require_zarr

_LARGEST_INTEGER = 2**63 - 1


def read_zarr(
    path: Path, limit: MemoryLimit | None, choice: ColumnChoice
) -> tuple[RawData, MemoryLimit]:
    """All arrays of a group, in memory, and the limit of the memory for them."""
    group = ZarrGroup.open(path)
    if limit is None:
        limit = MemoryLimit.of(Path(shown(path)), size=group.n_bytes())
    wanted = _wanted(group, choice)
    raw = _raw(group, choice)
    sizes = {name: _memory(group.arrays[name]) for name in wanted.values()}
    limit.require(sum(sizes.values()) + max(sizes.values(), default=0))
    arrays: dict[str, Array] = {}
    for array, name in wanted.items():
        values = group.rows(name)
        arrays[array] = values.read(0, len(values))
        names = group.attributes.get(CODED.get(name, ""))
        if names is not None:
            arrays[array] = named_rows(arrays[array], names, group.label(name))
    return replace(raw, arrays=arrays), limit


def open_zarr(
    path: Path, limit: MemoryLimit | None, choice: ColumnChoice
) -> tuple[BlockedRows | RowChunks, RawData]:
    """Rows of a group that are read where they are; or chunks, if they must be decoded first.

    Domains of other writers are names or numbers, not codes.
    """
    group = ZarrGroup.open(path)
    if limit is None:
        limit = MemoryLimit.of(Path(shown(path)), size=group.n_bytes())
    wanted = _wanted(group, choice)
    raw = _raw(group, choice)
    group.require_memory(list(wanted.values()), limit)
    arrays: dict[str, Any] = {name: _rows(group, name) for name in wanted.values()}
    direct = all(array == name for array, name in wanted.items()) and "logits" in wanted
    coded = all(isinstance(arrays[name], CodedRows) for name in CODED if name in arrays)
    labels = arrays.get("labels")
    are_codes = labels is None or (labels.dtype.kind in "iu" and labels.ndim == 1)
    widths = [arrays[name].ndim for name in ("logits", "features") if name in arrays]
    if direct and coded and are_codes and set(widths) == {2} and arrays["logits"].shape[1] > 1:
        rows = BlockedRows(
            **arrays, class_names=raw.class_names,
            feature_names=raw.feature_names if "features" in arrays else None,
            provenance=raw.provenance,
        )  # fmt: skip
        return rows, raw
    if not wanted or not {"logits", "probabilities"} & wanted.keys():
        replace(raw, arrays={}).to_data()  # raises the error that lists what there is
    return renamed_chunks(path, arrays, wanted, raw), raw


def write_zarr(rows: BlockedRows, path: Path) -> None:
    """Write a group; on this machine an earlier one stays until the new one is complete."""
    require_zarr(path)
    if address_of(path) is not None:
        with naming_path(shown(path)):
            _write(rows, shown(path))
        return
    if path.exists() and not is_zarr(path):
        raise InputError(f"{path} is a folder, but not of Zarr; choose another name.")
    with replacing_folder(path) as folder:
        _write(rows, str(folder))
        for place, _, names in os.walk(folder):
            for name in names:
                with open(Path(place, name), "rb+") as file:
                    os.fsync(file.fileno())


def exists_at(path: Path) -> bool:
    """Whether there is a group, of any content, at an address."""
    zarr = require_zarr(path)
    try:
        zarr.open_group(shown(path), mode="r")
    except FileNotFoundError:
        return False
    return True


def is_zarr(path: Path) -> bool:
    """Whether a folder is a group of Zarr."""
    return (path / "zarr.json").is_file() or (path / ".zgroup").is_file()


def _write(rows: BlockedRows, place: str) -> None:
    zarr = require_zarr(Path(place))
    group = zarr.open_group(place, mode="w", zarr_format=3)
    writer = secrets.token_hex(8)
    group.attrs.update({KEY: _incomplete(writer)})
    size = min(rows.rows_of_block(), len(rows))
    arrays: dict[str, tuple[Any, RowArray]] = {}
    attributes: dict[str, Any] = {}
    for name in ARRAYS:
        values = getattr(rows, name, None)
        if isinstance(values, CodedRows):
            attributes[CODED[name]] = _listed(values, name)
            values = values.codes
        if values is None:
            continue
        dtype = values.dtype.newbyteorder("<") if values.dtype.itemsize > 1 else values.dtype
        array = group.create_array(
            name, shape=values.shape, chunks=(size, *values.shape[1:]), dtype=dtype,
            # A checksum of each chunk: 4 bytes. Outputs of networks hardly compress.
            compressors=[zarr.codecs.Crc32cCodec()],
            fill_value=_fill_value(dtype),
            # A chunk that is missing is an error, not one of fill values.
            config={"write_empty_chunks": True},
        )  # fmt: skip
        arrays[name] = array, values
    for start in range(0, len(rows), size):
        stop = min(start + size, len(rows))
        for array, values in arrays.values():
            array[start:stop] = values.read(start, stop)
    attributes |= {
        "format": FORMAT, "version": VERSION, "complete": True, "writer": writer,
        "class_names": None if rows.class_names is None else list(rows.class_names),
        "feature_names": None if rows.feature_names is None else list(rows.feature_names),
        "provenance": dict(rows.provenance),
    }  # fmt: skip
    if zarr.open_group(place, mode="r").attrs.get(KEY, {}).get("writer") != writer:
        # Arrays of both: nobody may take the group for complete.
        group.attrs.update({KEY: _incomplete("several")})
        raise InputError(
            f"{place} was written by another process at the same time; let one of them write it."
        )
    group.attrs.update({KEY: attributes})


def _incomplete(writer: str) -> dict[str, Any]:
    """Attributes of a group until it is written to its end."""
    return {"format": FORMAT, "version": VERSION, "complete": False, "writer": writer}


def _fill_value(dtype: np.dtype[Any]) -> Any:
    """A value that no row has: numbers are finite, indices are at least 0."""
    if dtype.kind == "f":
        return np.nan
    return -1 if dtype.kind == "i" else np.iinfo(dtype).max


def _listed(values: CodedRows, array: str) -> list[Any]:
    """Names of domains or groups, for JSON."""
    if values.names.dtype.kind == "u" and values.names.max() > _LARGEST_INTEGER:
        raise InputError(
            f"{array} contains {values.names.max()}, but .zarr has integers up to "
            f"{_LARGEST_INTEGER}; convert {array} to strings."
        )
    return list(values.names.tolist())


def _raw(group: ZarrGroup, choice: ColumnChoice) -> RawData:
    """Everything but the arrays."""
    wanted = _wanted(group, choice)
    names = {
        key: None if group.attributes.get(key) is None else tuple(group.attributes[key])
        for key in ("class_names", "feature_names")
    }
    read = set(wanted.values())
    return RawData(
        ".zarr", {}, class_names=choice.of_classes() or names["class_names"],
        feature_names=names["feature_names"], provenance=group.attributes.get("provenance", {}),
        ignored=tuple(sorted(name for name in group.arrays if name not in read)),
        sources=sources_of(wanted), has_indices=group.is_own,
    )  # fmt: skip


def _wanted(group: ZarrGroup, choice: ColumnChoice) -> dict[str, str]:
    """Name of the array of the group for each array to read."""
    if group.is_own:
        group.require_own_types()
    wanted = choice.array_names(group.arrays)
    group.require_equal_lengths(list(wanted.values())) if wanted else None
    return wanted


def _rows(group: ZarrGroup, name: str) -> Any:
    """An array that is read in ranges of rows; codes with their names."""
    listed = group.attributes.get(CODED.get(name, ""))
    if listed is None:
        return group.rows(name)
    names = sorted(listed)
    number = {one: k for k, one in enumerate(names)}
    codes: IntArray = np.array([number[one] for one in listed], np.int64)
    is_integer = all(isinstance(one, int) for one in names)
    return CodedRows(group.rows(name, codes), np.array(names, np.int64 if is_integer else object))


def _memory(values: Any) -> int:
    """Bytes of an array of zarr in memory."""
    return int(np.dtype(values.dtype).itemsize * np.prod(values.shape, dtype=object))

"""``read``, ``write`` and ``convert``; the suffix of the path selects the format."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from domaincal._files import DAMAGED, decoding
from domaincal._memory import MemoryLimit, parse_size
from domaincal._warnings import warn_caller
from domaincal._wording import few
from domaincal.data import CalibrationData
from domaincal.errors import DomaincalWarning, FileFormatError, InputError
from domaincal.io.csv import read_csv, write_csv
from domaincal.io.npy import header_of_file, read_npy_file
from domaincal.io.npz import read_npz, write_npz
from domaincal.io.parquet import read_parquet, require_pyarrow, write_parquet
from domaincal.io.raw_data import ARRAYS, RawData, checked
from domaincal.io.store import Store, limit_of_store
from domaincal.io.tensor_files import read_pt, read_safetensors

_READERS: dict[str, Callable[[Path, MemoryLimit], RawData]] = {
    ".npz": read_npz,
    ".csv": read_csv,
    ".parquet": read_parquet,
    ".safetensors": read_safetensors,
    ".pt": read_pt,
}
_WRITERS: dict[str, Callable[[CalibrationData, Path], None]] = {
    ".npz": write_npz,
    ".csv": write_csv,
    ".parquet": write_parquet,
}


def read(
    path: str | os.PathLike[str],
    *,
    probabilities: bool = False,
    verify: bool = False,
    max_memory: float | str | None = None,
) -> CalibrationData:
    """Read logits, and labels, features, domains and groups if the file has them.

    Parameters
    ----------
    path : path
        ``.npz``, ``.parquet``, ``.csv``, ``.safetensors``, ``.pt``, the folder of a
        :class:`Store`, or a folder of ``logits.npy``, ``labels.npy``, ... Arrays are named
        ``logits`` (or ``probabilities``), ``labels``, ``features``, ``domains``, ``groups``;
        columns ``logit_*`` (or ``prob_*``), ``feature_*``, ``label``, ``domain``, ``group``.
        Other arrays and columns are ignored.
    probabilities : bool, default False
        Treat the logits of the file as probabilities.
    verify : bool, default False
        Compare the checksums of a store, or of the pages of a ``.parquet`` file. (Those of
        ``.npz`` are always compared; the other formats have none.)
    max_memory : int or str, optional
        Memory that reading may take: a number of bytes, or a text such as ``"4 GB"``. By default
        256 MiB, or 100 times the size of the file if that is more. A file that needs more is
        refused before the memory is allocated.

    Examples
    --------
    >>> import tempfile, domaincal as dc
    >>> data, _ = dc.make_multi_domain(n_domains=3, n_rows=100, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     dc.write(data, folder + "/scores.npz")
    ...     dc.read(folder + "/scores.npz")
    CalibrationData(300 rows, 10 classes, 16 features, 3 domains)
    """
    return read_rows(
        path, probabilities=probabilities, verify=verify, max_memory=max_memory
    )[1]  # fmt: skip


def write(data: CalibrationData, path: str | os.PathLike[str]) -> None:
    """Write rows to a file, or to a :class:`Store` if the path has no suffix.

    The write is atomic: an earlier file of that name stays until the new one is complete.

    Parameters
    ----------
    data : CalibrationData
    path : path
        ``.npz``, ``.parquet``, ``.csv`` (which keeps no dtypes and no provenance), or no suffix.

    Examples
    --------
    >>> import tempfile, domaincal as dc
    >>> data, _ = dc.make_multi_domain(n_domains=3, n_rows=100, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     dc.write(data, folder + "/scores")
    ...     len(dc.Store(folder + "/scores"))
    300
    """
    if not isinstance(data, CalibrationData):
        raise InputError(f"data must be CalibrationData, got {type(data).__name__}.")
    path = Path(path)
    require_writable_format(path)
    data = data.numpy()
    try:
        if _is_store(path):
            Store(path).write(data)
        else:
            _WRITERS[path.suffix.lower()](data, path)
    except UnicodeEncodeError as error:
        raise InputError(
            f"a name cannot be written to {path} as UTF-8 ({error}); rename it."
        ) from error


def convert(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    probabilities: bool = False,
    domain: str | None = None,
    append: bool = False,
    max_memory: float | str | None = None,
) -> CalibrationData:
    """Read a file and write its rows to another file, of any format that can be written.

    Parameters
    ----------
    source, output : path
        See :func:`read` and :func:`write`.
    probabilities : bool, default False
        Treat the logits of the source as probabilities.
    domain : str, optional
        Domain of all rows, instead of the domains of the source; for sources with one site each.
    append : bool, default False
        Append the rows to the output, which must be a :class:`Store`.
    max_memory : int or str, optional
        See :func:`read`.

    Returns
    -------
    CalibrationData
        The rows that were written.

    Examples
    --------
    >>> import tempfile, domaincal as dc
    >>> data, _ = dc.make_multi_domain(n_domains=3, n_rows=100, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     dc.write(data, folder + "/scores.csv")
    ...     dc.convert(folder + "/scores.csv", folder + "/scores.npz")
    CalibrationData(300 rows, 10 classes, 16 features, 3 domains)
    """
    output = Path(output)
    require_writable_format(output)
    if append and not _is_store(output):
        raise InputError(
            f"rows can be appended to a store only, not to {output}; give a name without a suffix."
        )
    raw, data = read_rows(source, probabilities=probabilities, max_memory=max_memory)
    if raw.ignored:
        warn_caller(
            f"{source} also holds {few(map(repr, raw.ignored), 8)}, which {output} will not have.",
            DomaincalWarning,
        )
    if domain is not None:
        data = replace(data, domains=np.full(len(data), domain, dtype=object))
    if append:
        Store(output).append(data)
    else:
        write(data, output)
    return data


def read_rows(
    path: str | os.PathLike[str],
    *,
    probabilities: bool = False,
    verify: bool = False,
    check_finite: bool = True,
    max_memory: float | str | None = None,
    work_for_row: int = 0,
) -> tuple[RawData, CalibrationData]:
    """The arrays of a file as they are, and as validated rows.

    ``work_for_row`` is the memory that the caller will need for each row, in bytes.
    """
    path = Path(path)
    _require_readable(path)
    raw, limit = _read_raw(path, max_memory, verify=verify)
    data = checked(
        path, raw, limit=limit, probabilities=probabilities, check_finite=check_finite
    )  # fmt: skip
    limit.require(raw.peak_bytes(probabilities=probabilities) + work_for_row * len(data))
    return raw, data


def _require_readable(path: Path) -> None:
    """Refuse a path that does not exist, or whose suffix is unknown."""
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    if not path.is_dir() and path.suffix.lower() not in _READERS:
        raise InputError(
            f"{path} has the suffix {path.suffix.lower()!r}; rows are read from "
            f"{', '.join(_READERS)}, a store or a folder of .npy files; convert or rename it."
        )
    if not path.is_dir() and not path.is_file():
        raise InputError(f"{path} is not a regular file; copy its content to one.")


def _read_raw(
    path: Path, max_memory: float | str | None, *, verify: bool
) -> tuple[RawData, MemoryLimit]:
    """Read the arrays of a file without validation; also return the limit of its memory."""
    suffix = path.suffix.lower()
    max_memory = None if max_memory is None else parse_size(max_memory)
    try:
        with decoding(path, DAMAGED):
            plain = (path / "logits.npy").exists() and not (path / "meta.json").exists()
            if path.is_dir() and not plain:
                raw = Store(path).read_raw(verify=verify, max_memory=max_memory)
                return raw, limit_of_store(path, raw, max_memory)
            limit = MemoryLimit.of(path, max_memory)
            if path.is_dir():
                return _read_folder(path, limit), limit
            if suffix == ".parquet":
                return read_parquet(path, limit, verify=verify), limit
            return _READERS[suffix](path, limit), limit
    except InputError as error:
        raise FileFormatError(f"{path}: {error}") from error


def require_writable_format(path: Path) -> None:
    """Refuse a path that :func:`write` cannot write to."""
    if path.is_dir() and not (path / "meta.json").exists():
        raise InputError(f"{path} is a folder, but not a store; choose another name.")
    if not _is_store(path) and path.suffix.lower() not in _WRITERS:
        raise InputError(
            f"{path} has the suffix {path.suffix!r}; rows are written to {', '.join(_WRITERS)} or, "
            "without a suffix, to a store."
        )
    if path.suffix.lower() == ".parquet":
        require_pyarrow()


def require_store_name(path: Path) -> None:
    """Refuse the suffix of a file for a new store, which is a folder."""
    if path.suffix.lower() in _READERS and not path.exists():
        raise InputError(
            f"{path} has the suffix {path.suffix!r} of a file, but the rows are written to a "
            f"store, which is a folder; name it {path.stem}, and convert it later if you need a "
            "file."
        )


def _is_store(path: Path) -> bool:
    return path.is_dir() or (path.suffix == "" and not path.is_file())


def _read_folder(path: Path, limit: MemoryLimit) -> RawData:
    """Read a folder with one ``.npy`` file for each array."""
    found = {p.stem: p for p in path.glob("*.npy")}
    wanted = {name: found[name] for name in ARRAYS if name in found}
    limit.require(sum(header_of_file(p).peak_bytes for p in wanted.values()))
    arrays = {name: read_npy_file(p) for name, p in wanted.items()}
    ignored = tuple(sorted(p.name for p in path.iterdir() if p.stem not in arrays))
    return RawData("folder of .npy", arrays, ignored=ignored)

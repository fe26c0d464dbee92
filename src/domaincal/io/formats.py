"""``read``, ``write`` and ``convert``; the suffix of the path selects the format."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from domaincal._files import DAMAGED, decoding
from domaincal._wording import few
from domaincal.data import CalibrationData
from domaincal.errors import DomaincalWarning, FileFormatError, InputError
from domaincal.io.csv import read_csv, write_csv
from domaincal.io.npy import read_npy_file
from domaincal.io.npz import read_npz, write_npz
from domaincal.io.parquet import read_parquet, require_pyarrow, write_parquet
from domaincal.io.raw_data import ARRAYS, RawData, checked
from domaincal.io.store import Store
from domaincal.io.tensor_files import read_pt, read_safetensors

_READERS: dict[str, Callable[[Path], RawData]] = {
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
    path: str | os.PathLike[str], *, probabilities: bool = False, verify: bool = False
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

    Examples
    --------
    >>> import tempfile, domaincal as dc
    >>> data, _ = dc.make_multi_domain(n_domains=3, n_rows=100, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     dc.write(data, folder + "/scores.npz")
    ...     dc.read(folder + "/scores.npz")
    CalibrationData(300 rows, 10 classes, 16 features, 3 domains)
    """
    raw = read_raw(path, verify=verify)
    return checked(path, raw, probabilities=probabilities)


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
    raw = read_raw(source)
    data = checked(source, raw, probabilities=probabilities)
    if raw.ignored:
        warnings.warn(
            f"{source} also holds {few(map(repr, raw.ignored), 8)}, which {output} will not have.",
            DomaincalWarning,
            stacklevel=2,
        )
    if domain is not None:
        data = replace(data, domains=np.full(len(data), domain))
    if append:
        Store(output).append(data)
    else:
        write(data, output)
    return data


def read_raw(path: str | os.PathLike[str], *, verify: bool = False) -> RawData:
    """Read the arrays of a file without validation."""
    path = Path(path)
    suffix = path.suffix.lower()
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    if not path.is_dir() and suffix not in _READERS:
        raise InputError(
            f"{path} has the suffix {suffix!r}; rows are read from {', '.join(_READERS)}, a store "
            "or a folder of .npy files; convert or rename it."
        )
    if not path.is_dir() and not path.is_file():
        raise InputError(f"{path} is not a regular file; copy its content to one.")
    try:
        with decoding(path, DAMAGED):
            if path.is_dir():
                plain = (path / "logits.npy").exists() and not (path / "meta.json").exists()
                return _read_folder(path) if plain else Store(path).read_raw(verify=verify)
            if suffix == ".parquet":
                return read_parquet(path, verify=verify)
            return _READERS[suffix](path)
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


def _read_folder(path: Path) -> RawData:
    """Read a folder with one ``.npy`` file for each array."""
    found = {p.stem: p for p in path.glob("*.npy")}
    arrays = {name: read_npy_file(found[name]) for name in ARRAYS if name in found}
    ignored = tuple(sorted(p.name for p in path.iterdir() if p.stem not in arrays))
    return RawData("folder of .npy", arrays, ignored=ignored)

"""``read`` and ``write``; the suffix of the path selects the format."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from domaincal._files import DAMAGED, decoding
from domaincal._memory import MemoryLimit, parse_size
from domaincal.data import BlockedRows, CalibrationData
from domaincal.data.blocked_rows import AnyData, as_rows
from domaincal.data.column_choice import ColumnChoice, Columns
from domaincal.errors import FileFormatError, InputError
from domaincal.io.addresses import address_of, local_path, shown
from domaincal.io.csv import read_csv
from domaincal.io.csv_writer import write_csv
from domaincal.io.kept_columns import Keep, kept_ids
from domaincal.io.memory_rows import rows_in_memory
from domaincal.io.npy import header_of_file, read_npy_file
from domaincal.io.npz import read_npz, write_npz
from domaincal.io.parquet import read_parquet, require_pyarrow, write_parquet
from domaincal.io.raw_data import RawData, checked, chosen_arrays, sources_of
from domaincal.io.standard_input import STDIN, spooled_input
from domaincal.io.store import Store, limit_of_store
from domaincal.io.tensor_files import read_pt, read_safetensors
from domaincal.io.zarr import is_zarr, read_zarr, write_zarr
from domaincal.io.zarr_group import require_zarr

_TABLES: dict[str, Callable[..., RawData]] = {
    ".csv": read_csv,
    ".csv.gz": read_csv,
    ".parquet": read_parquet,
}
_ARRAY_FILES: dict[str, Callable[[Path, MemoryLimit, ColumnChoice], RawData]] = {
    ".npz": read_npz,
    ".safetensors": read_safetensors,
    ".pt": read_pt,
}
_WRITERS: dict[str, Callable[[Any, Path], None]] = {
    ".npz": write_npz,
    ".csv": write_csv,
    ".csv.gz": write_csv,
    ".parquet": write_parquet,
    ".zarr": lambda rows, path: write_zarr(rows_in_memory(rows), path),
}
_READ = (*_ARRAY_FILES, *_TABLES, ".zarr")


def read(
    path: str | os.PathLike[str],
    *,
    logits: Columns | None = None,
    probabilities: Columns | None = None,
    features: Columns | None = None,
    label: str | None = None,
    domain: str | None = None,
    group: str | None = None,
    id: str | None = None,
    class_names: Sequence[str] | None = None,
    floor: float | None = None,
    verify: bool = False,
    max_memory: float | str | None = None,
) -> CalibrationData:
    """Read logits, and labels, features, domains and groups if the file has them.

    Parameters
    ----------
    path : path
        ``.npz``, ``.parquet``, ``.csv``, ``.csv.gz``, ``.safetensors``, ``.pt``, the folder of a
        :class:`Store`, a folder of ``logits.npy``, ``labels.npy``, ..., or ``"-"`` for a csv from
        standard input. Other arrays and columns than those below are ignored.
    logits, probabilities, features : str or list of str, optional
        Columns of a table: a name, a list of names, or a pattern such as ``"p_*"``, in which case
        the text in place of ``*`` is the name of the class or feature. A single name of logits or
        probabilities is a binary score: the log-odds, or the probability, of class 1. By default
        ``logit_*`` (or ``prob_*``, or one column ``score`` or ``prob``) and ``feature_*``. In
        other files, the name of an array; by default that of the parameter.
    label, domain, group : str, optional
        Column, by default ``label``, ``domain``, ``group`` in any case; or array, by default
        ``labels``, ``domains``, ``groups``.
    id : str, optional
        Column or array of ids. They must be different in every row, and are not read as features.
    class_names : list of str, optional
        Names of the classes in the order of their columns; for a binary score, the second is the
        class that it speaks for.
    floor : float, optional
        Probability in place of smaller ones; see :func:`logits_from_probabilities`.
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
    choice = ColumnChoice(
        logits=logits, probabilities=probabilities, features=features, label=label, domain=domain,
        group=group, id=id, class_names=class_names, floor=floor,
    )  # fmt: skip
    return read_rows(path, choice, verify=verify, max_memory=max_memory)[1]


def write(data: AnyData, path: str | os.PathLike[str]) -> None:
    """Write rows to a file, or to a :class:`Store` if the path has no suffix.

    The write is atomic: an earlier file of that name stays until the new one is complete.

    Parameters
    ----------
    data : CalibrationData, Store, or rows that are read in blocks
        Of the latter two, a block is in memory at a time, unless the path is ``.npz``.
    path : path
        ``.npz``, ``.parquet``, ``.csv`` or ``.csv.gz`` (which keep no dtypes and no provenance), or
        no suffix.

    Examples
    --------
    >>> import tempfile, domaincal as dc
    >>> data, _ = dc.make_multi_domain(n_domains=3, n_rows=100, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     dc.write(data, folder + "/scores")
    ...     len(dc.Store(folder + "/scores"))
    300
    """
    rows = as_rows(data)
    if not isinstance(rows, CalibrationData | BlockedRows):
        raise InputError(f"data must be CalibrationData, got {type(data).__name__}.")
    path = local_path(path)
    require_writable_format(path)
    if isinstance(rows, CalibrationData):
        rows = rows.numpy()
    try:
        if _names_store(path):
            Store(path).write(rows)
        elif suffix_of(path) == ".npz" and isinstance(rows, BlockedRows):
            write_npz(rows.read(0, len(rows)), path)
        else:
            _WRITERS[suffix_of(path)](rows, path)
    except UnicodeEncodeError as error:
        raise InputError(
            f"a name cannot be written to {path} as UTF-8 ({error}); rename it."
        ) from error


def read_rows(
    path: str | os.PathLike[str],
    choice: ColumnChoice | None = None,
    *,
    verify: bool = False,
    check_finite: bool = True,
    max_memory: float | str | None = None,
    work_for_row: int = 0,
    keep: Keep = "none",
) -> tuple[RawData, CalibrationData]:
    """The arrays of a file as they are, and as validated rows.

    ``work_for_row`` is the memory that the caller will need for each row, in bytes; ``keep`` says
    which columns of a table are read besides, as they are.
    """
    path = local_path(path)
    choice = ColumnChoice() if choice is None else choice
    require_readable(path)
    raw, limit = _read_raw(path, max_memory, choice, verify=verify, keep=keep)
    data = checked(limit.path, raw, limit=limit, floor=choice.floor, check_finite=check_finite)
    limit.require(raw.peak_bytes() + work_for_row * len(data))
    return raw, data


def suffix_of(path: Path) -> str:
    """Suffix that selects the format.

    Examples
    --------
    >>> suffix_of(Path("scores.v2.CSV")), suffix_of(Path("scores.csv.gz"))
    ('.csv', '.csv.gz')
    """
    name = path.name.lower()
    return ".csv.gz" if name.endswith(".csv.gz") else path.suffix.lower()


def is_table(path: Path) -> bool:
    """Whether a file to read is a table, whose columns can be kept."""
    return path == STDIN or (suffix_of(path) in _TABLES and not path.is_dir())


def require_readable(path: Path) -> None:
    """Refuse a path that does not exist, or whose suffix is unknown."""
    if path == STDIN:
        return
    if address_of(path) is not None:
        if suffix_of(path) != ".zarr":
            raise InputError(
                f"{shown(path)} is an address, at which only .zarr is read; copy the file to this "
                "machine."
            )
        return
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}.")
    if not path.is_dir() and suffix_of(path) not in _READ:
        raise InputError(
            f"{path} has the suffix {path.suffix.lower()!r}; rows are read from "
            f"{', '.join(_READ)}, a store, a folder of .npy files or - (standard input, a csv); "
            "convert or rename it."
        )
    if not path.is_dir() and not path.is_file():
        raise InputError(f"{path} is not a regular file; copy its content to one.")


def _read_raw(
    path: Path,
    max_memory: float | str | None,
    choice: ColumnChoice,
    *,
    verify: bool,
    keep: Keep,
) -> tuple[RawData, MemoryLimit]:
    """Read the arrays of a file without validation; also return the limit of its memory."""
    max_memory = None if max_memory is None else parse_size(max_memory)
    if suffix_of(path) == ".zarr":
        return _read_zarr(path, max_memory, choice, keep)
    if path == STDIN:
        return _read_standard_input(max_memory, choice, keep)
    suffix = suffix_of(path)
    try:
        with decoding(path, DAMAGED):
            if is_store(path):
                raw = Store(path).read_raw(verify=verify, max_memory=max_memory)
                limit = limit_of_store(path, raw, max_memory)
                return kept_ids(chosen_arrays(raw, choice), keep), limit
            limit = MemoryLimit.of(path, max_memory)
            if path.is_dir():
                return kept_ids(_read_folder(path, limit, choice), keep), limit
            if suffix == ".parquet":
                return read_parquet(path, limit, choice, verify=verify, keep=keep), limit
            if suffix in _TABLES:
                return _TABLES[suffix](path, limit, choice, keep=keep), limit
            return kept_ids(_ARRAY_FILES[suffix](path, limit, choice), keep), limit
    except InputError as error:
        raise FileFormatError(f"{path}: {error}") from error


def _read_zarr(
    path: Path, max_memory: int | None, choice: ColumnChoice, keep: Keep
) -> tuple[RawData, MemoryLimit]:
    """Read a group of Zarr, whose address need not be on this machine."""
    is_local = address_of(path) is None
    limit = MemoryLimit.of(path, max_memory) if is_local or max_memory is not None else None
    try:
        raw, limit = read_zarr(path, limit, choice)
    except InputError as error:
        raise FileFormatError(f"{shown(path)}: {error}") from error
    return kept_ids(raw, keep), limit


def _read_standard_input(
    max_memory: int | None, choice: ColumnChoice, keep: Keep
) -> tuple[RawData, MemoryLimit]:
    """Read a csv from standard input."""
    with spooled_input(max_memory) as (file, limit):
        try:
            return read_csv(limit.path, limit, choice, keep=keep, file=file), limit
        except InputError as error:
            raise FileFormatError(f"{limit.path}: {error}") from error


def require_writable_format(path: Path, *, append: bool = False) -> None:
    """Refuse a path that :func:`write` cannot write to, or that rows cannot be appended to."""
    if path == STDIN:
        raise InputError("rows are not written to standard output; give the name of a file.")
    if append and suffix_of(path) == ".zarr":
        raise InputError(
            f"rows can be appended to a store only, not to {shown(path)}; give a name without a "
            "suffix."
        )
    if address_of(path) is not None:
        if suffix_of(path) != ".zarr":
            raise InputError(f"{shown(path)} is an address, to which only .zarr is written.")
        require_zarr(path)
        return
    if suffix_of(path) == ".zarr":
        require_zarr(path)
        if path.exists() and not is_zarr(path):
            raise InputError(f"{path} exists, but is no .zarr; choose another name.")
        return
    if path.is_dir() and not (path / "meta.json").exists():
        raise InputError(f"{path} is a folder, but not a store; choose another name.")
    if not _names_store(path) and suffix_of(path) not in _WRITERS:
        raise InputError(
            f"{path} has the suffix {path.suffix!r}; rows are written to {', '.join(_WRITERS)} or, "
            "without a suffix, to a store."
        )
    if append and not _names_store(path):
        raise InputError(
            f"rows can be appended to a store only, not to {path}; give a name without a suffix."
        )
    if path.suffix.lower() == ".parquet":
        require_pyarrow()


def require_store_name(path: Path) -> None:
    """Refuse the suffix of a file for a new store, which is a folder."""
    if suffix_of(path) in _READ and not path.exists():
        raise InputError(
            f"{path} has the suffix {path.suffix!r} of a file, but the rows are written to a "
            f"store, which is a folder; name it {path.stem}, and convert it later if you need a "
            "file."
        )


def _names_store(path: Path) -> bool:
    is_folder = path.is_dir() and suffix_of(path) != ".zarr"
    return is_folder or (path.suffix == "" and not path.is_file())


def is_store(path: Path) -> bool:
    """Whether a path that exists is read as a store."""
    return path.is_dir() and suffix_of(path) != ".zarr" and not _is_plain_folder(path)


def _is_plain_folder(path: Path) -> bool:
    """Whether a folder holds .npy files, but is not a store."""
    return any(path.glob("*.npy")) and not (path / "meta.json").exists()


def _read_folder(path: Path, limit: MemoryLimit, choice: ColumnChoice) -> RawData:
    """Read a folder with one ``.npy`` file for each array."""
    found = {p.stem: p for p in path.glob("*.npy")}
    names = choice.array_names(found)
    limit.require(sum(header_of_file(found[name]).peak_bytes for name in names.values()))
    arrays = {array: read_npy_file(found[name]) for array, name in names.items()}
    read = set(names.values())
    ignored = tuple(sorted(p.name for p in path.iterdir() if p.stem not in read))
    return RawData(
        "folder of .npy", arrays, class_names=choice.of_classes(), ignored=ignored,
        sources=sources_of(names),
    )  # fmt: skip

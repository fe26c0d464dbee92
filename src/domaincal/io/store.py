"""The store: a folder of shards for large data sets; appends are atomic."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, suppress
from pathlib import Path
from typing import Any, TypeVar

from domaincal._files import (
    DAMAGED,
    atomic_file,
    atomic_folder,
    decoding,
    file_lock,
    naming_path,
    remove,
    remove_leftovers,
    replacing,
    sync_folder,
)
from domaincal._memory import MemoryLimit
from domaincal._typing import Array
from domaincal.data import BlockedRows, CalibrationData
from domaincal.data.blocked_rows import AnyData, AnyRows, RowSource, as_rows
from domaincal.errors import DomaincalError, InputError
from domaincal.io.npy import write_npy
from domaincal.io.raw_data import RawData, arrays_of, checked
from domaincal.io.store_meta import (
    SHARD_NAME,
    Shard,
    StoreMeta,
    describe,
    listed_names,
    part_name,
    require_same,
    stored_arrays,
    widened,
)
from domaincal.io.store_snapshot import EARLIER, META, SHARD, StoreSnapshot
from domaincal.io.stored_rows import open_snapshot

_LOCK = ".lock"
# A reader whose files were replaced reads again; after so many times it makes the writers wait.
_READS_WITHOUT_LOCK = 3
# Where it cannot lock, such as in a folder that it may not write, it gives up after so many.
_READS = 50

T = TypeVar("T")


class Store(RowSource):
    """A folder of ``meta.json`` and shards: ``part-00000/logits.npy`` and so on.

    Only shards that ``meta.json`` counts are read. A writer that is killed leaves the store as it
    was before. Writers in several processes wait for each other: they lock the file ``.lock`` in
    the folder. A reader gets the rows before or after a write, never some of both.

    Parameters
    ----------
    path : path of the folder
        The first :meth:`append` creates it if it does not exist.

    Examples
    --------
    >>> import tempfile, domaincal as dc
    >>> data, _ = dc.make_multi_domain(n_domains=3, n_rows=100, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = dc.Store(folder + "/scores")
    ...     for start in range(len(store), 300, 100):  # resumes after an interruption
    ...         store.append(data.select(slice(start, start + 100)))
    ...     print(len(store), store.read())
    300 CalibrationData(300 rows, 10 classes, 16 features, 3 domains)
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def __repr__(self) -> str:
        return f"Store({str(self.path)!r})"

    def __len__(self) -> int:
        """Number of rows; 0 if the store does not exist yet."""
        return self._meta().n_rows if self.path.exists() else 0

    @property
    def provenance(self) -> dict[str, Any]:
        """Origin of the rows: the entries that all appended data have in common."""
        return dict(self._meta().provenance)

    def labels(self) -> Array | None:
        """Labels of all rows, or None; nothing else is read."""
        return self._read(lambda rows: rows.array("labels"))

    def domains(self) -> Array | None:
        """Domains of all rows, or None; nothing else is read."""
        return self._read(lambda rows: rows.array("domains"))

    def groups(self) -> Array | None:
        """Groups of all rows, or None; nothing else is read."""
        return self._read(lambda rows: rows.array("groups"))

    def append(self, data: AnyData, *, at: int | None = None) -> None:
        """Add rows as a new shard; their arrays, classes and features must match the store.

        Numbers are converted to the dtypes of the store if that is exact, else it is an error.
        Provenance keeps the entries that all rows have in common.

        Parameters
        ----------
        data : CalibrationData, or rows that are read in blocks
        at : int, optional
            Number of rows that the store must have before; another number, such as after an append
            by another process, is an error.
        """
        data = _rows_to_write(data)
        if at or not self._create(data):
            with self._lock() as held:
                before = self._meta()
                if at not in (None, before.n_rows):
                    raise InputError(
                        f"{self.path} has {before.n_rows} rows instead of {at}: another process "
                        "appends to it; run one at a time."
                    )
                data = widened(data, before)
                rows = describe(data, before)
                require_same(before, rows, self.path)
                self._commit(rows, data, before, keep=True, alone=bool(held))

    def write(self, data: AnyData) -> None:
        """Replace all rows of the store by these."""
        data = _rows_to_write(data)
        if not self._create(data):
            with self._lock() as held:
                self._commit(describe(data), data, self._meta(), keep=False, alone=bool(held))

    def rows(self) -> BlockedRows:
        """The rows as they are now, read in blocks when they are needed.

        Calibrators and :func:`evaluate` take the store itself, or these rows. A file that changes
        while it is read is an error.
        """
        return self._read(open_snapshot)

    def read(
        self, *, verify: bool = False, max_memory: float | str | None = None
    ) -> CalibrationData:
        """All rows, in memory.

        Parameters
        ----------
        verify : bool, default False
            Compare the checksums of all arrays first.
        max_memory : number of bytes or text such as ``"4 GB"``, optional
            Largest memory that reading may take; by default 256 MiB, or 100 times the size of the
            files if that is more.
        """
        raw = self.read_raw(verify=verify, max_memory=max_memory)
        return checked(self.path, raw, limit=limit_of_store(self.path, raw, max_memory))

    def read_raw(self, *, verify: bool = False, max_memory: float | str | None = None) -> RawData:
        """All rows as they are stored, before validation."""

        def read(rows: StoreSnapshot) -> RawData:
            if verify:
                rows.verify()
            return rows.raw_data()

        return self._read(read, max_memory)

    def check(self) -> None:
        """Raise FileFormatError if a file is missing or its size is wrong."""
        self._read(StoreSnapshot.check)

    def verify(self) -> None:
        """Raise FileFormatError if the checksum of a file differs."""
        self._read(StoreSnapshot.verify)

    def _meta(self) -> StoreMeta:
        return StoreSnapshot.of(self.path).meta

    def _read(self, read: Callable[[StoreSnapshot], T], max_memory: float | str | None = None) -> T:
        """Result of ``read``, again if a writer replaced the rows meanwhile."""
        for attempt in range(_READS):
            with ExitStack() as stack:
                if attempt >= _READS_WITHOUT_LOCK:
                    with suppress(OSError):
                        stack.enter_context(file_lock(self.path / _LOCK))
                rows = StoreSnapshot.of(self.path, max_memory)
                try:
                    with decoding(self.path, DAMAGED):
                        return read(rows)
                except (OSError, DomaincalError):
                    if StoreSnapshot.of(self.path).meta_content == rows.meta_content:
                        raise
        raise InputError(
            f"{self.path} is replaced by other processes all the time and cannot be locked "
            f"({_LOCK}); read it when they have ended."
        )

    def _lock(self) -> AbstractContextManager[bool | None]:
        """Exclusive lock of the writers; it ends with the process."""
        self._meta()  # of an existing store: some versions of filelock create a missing folder
        return file_lock(self.path / _LOCK)

    def _create(self, data: AnyRows) -> bool:
        """Create a store of these rows; False if it exists already."""
        if self.path.exists():
            # A process that was killed when it had just created the store leaves its lock file.
            remove_leftovers(self.path)
            return False
        try:
            with atomic_folder(self.path) as folder:
                Store(folder)._commit(describe(data), data, None, keep=False, alone=True)
        except OSError:
            if not self.path.exists():
                raise
            return False  # another process created it first
        return True

    def _commit(
        self,
        rows: StoreMeta,
        data: AnyRows,
        before: StoreMeta | None,
        *,
        keep: bool,
        alone: bool,
    ) -> None:
        """Write a shard, then the ``meta.json`` that counts it; then remove replaced shards.

        ``before`` is the store as it is, ``keep`` whether its rows stay, and ``alone`` whether no
        other process writes to it.
        """
        number = 0 if before is None else before.next_part
        folder = self.path / part_name(number)
        if alone:
            remove(folder)  # of a killed writer
        elif os.path.lexists(folder):
            raise InputError(
                f"another process writes {folder}, or was killed while it did; the file system "
                "has no locks to tell: remove the folder if no process writes to the store."
            )
        with naming_path(self.path):
            folder.mkdir()
            try:
                shard = _write_shard(folder, data)
                if keep and before is not None and not before.n_parts:
                    with atomic_file(self.path / EARLIER) as file:
                        file.write(StoreSnapshot.of(self.path).meta_content)
                sync_folder(self.path)
                # Not an atomic_file, which lists the folder for leftovers: that takes long in a
                # store of many shards. What is left of this file is removed with its folder.
                with replacing(self.path / META, folder / META) as file:
                    file.write(rows.with_shard(shard, before, keep=keep).to_json())
            except BaseException:
                if not self._counts(number):  # an interrupt can come after the commit
                    remove(folder)
                raise
        if before is not None and not keep:
            self._remove_replaced(before, number, alone=alone)

    def _counts(self, number: int) -> bool:
        """Whether ``meta.json`` counts a shard of this number, or cannot be read."""
        try:
            return number < self._meta().next_part
        except (OSError, DomaincalError):
            return True

    def _remove_replaced(self, before: StoreMeta, number: int, *, alone: bool) -> None:
        """Remove what was there before the shard ``number``, and leftovers of killed writers."""
        if alone:
            names = [name for name in os.listdir(self.path) if SHARD_NAME.fullmatch(name)]
        else:
            names = [part_name(part) for part in range(before.first_part, before.next_part)]
        for name in [*names, EARLIER]:
            if name != part_name(number):
                remove(self.path / name)


def limit_of_store(path: Path, raw: RawData, max_memory: float | str | None) -> MemoryLimit:
    """Limit of the memory for rows that were read from a store.

    Their arrays are as large as its files; the files may have been replaced since.
    """
    size = sum(values.nbytes for values in raw.arrays.values())
    return MemoryLimit.of(path, max_memory, size=size)


def _rows_to_write(data: AnyData) -> AnyRows:
    """Rows in memory, or those that are read in blocks."""
    rows: AnyRows = as_rows(data)
    if isinstance(rows, BlockedRows):
        return rows
    arrays_of(rows)
    return rows.numpy()


def _write_shard(folder: Path, data: AnyRows) -> Shard:
    """Write the files of a shard, and sync them to the disk."""
    files = {
        name: write_npy(folder / f"{name}.npy", values)
        for name, values in stored_arrays(data).items()
    }
    shard = Shard(folder.name, len(data), files, listed_names(data))
    with open(folder / SHARD, "xb") as file:
        file.write(shard.to_json())
        file.flush()
        os.fsync(file.fileno())
    sync_folder(folder)
    return shard

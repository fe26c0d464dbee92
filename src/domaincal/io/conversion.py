"""``convert``: a file to another format, in blocks where the rows need not fit the memory."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from domaincal._row_arrays import CodedRows, ComputedRows
from domaincal._typing import Array
from domaincal._warnings import warn_caller
from domaincal._wording import few
from domaincal.data import BlockedRows, CalibrationData
from domaincal.data.blocked_rows import AnyRows, Rows
from domaincal.data.column_choice import ColumnChoice, Columns
from domaincal.errors import DomaincalWarning, InputError
from domaincal.io.addresses import local_path
from domaincal.io.formats import read_rows, require_writable_format, suffix_of, write
from domaincal.io.opened_rows import is_streamed, open_rows
from domaincal.io.store import Store


def convert(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
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
    set_domain: str | None = None,
    append: bool = False,
    max_memory: float | str | None = None,
) -> CalibrationData | None:
    """Read a file and write its rows to another file, of any format that can be written.

    Parameters
    ----------
    source, output : path
        See :func:`read` and :func:`write`.
    logits, probabilities, features, label, domain, group, id, class_names, floor
        Columns or arrays of the source, as in :func:`read`.
    set_domain : str, optional
        Domain of all rows, instead of the domains of the source; for sources with one site each.
    append : bool, default False
        Append the rows to the output, which must be a :class:`Store`.
    max_memory : int or str, optional
        See :func:`read`.

    Returns
    -------
    CalibrationData
        The rows that were written. None for a large file, of which a block is in memory at a time:
        one that :func:`is_streamed` (a table or store of 256 MiB or more), unless the output is
        ``.npz``, which is written at once.

    Examples
    --------
    >>> import tempfile, domaincal as dc
    >>> data, _ = dc.make_multi_domain(n_domains=3, n_rows=100, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     dc.write(data, folder + "/scores.csv")
    ...     dc.convert(folder + "/scores.csv", folder + "/scores.npz")
    CalibrationData(300 rows, 10 classes, 16 features, 3 domains)
    """
    output = local_path(output)
    require_writable_format(output, append=append)
    if append:
        require_other_store(source, output)
    choice = ColumnChoice(
        logits=logits, probabilities=probabilities, features=features, label=label, domain=domain,
        group=group, id=id, class_names=class_names, floor=floor,
    )  # fmt: skip
    if streams(source, output):
        with open_rows(source, choice, max_memory=max_memory) as opened:
            warn_of_ignored(source, opened.ignored, opened.sources, output)
            write_converted(opened.rows, output, set_domain=set_domain, append=append)
        return None
    raw, data = read_rows(source, choice, max_memory=max_memory)
    warn_of_ignored(source, raw.ignored, raw.sources, output)
    write_converted(data, output, set_domain=set_domain, append=append)
    return data if set_domain is None else in_domain(data, set_domain)


def streams(source: str | os.PathLike[str], output: Path) -> bool:
    """Whether a conversion reads and writes its rows in blocks."""
    return is_streamed(source) and suffix_of(output) != ".npz"


def require_other_store(source: str | os.PathLike[str], output: Path) -> None:
    """Refuse to append a store to itself, which would double its rows."""
    if os.path.exists(source) and output.exists() and os.path.samefile(source, output):
        raise InputError(f"{output} cannot be appended to itself; name another store.")


def warn_of_ignored(
    source: object, ignored: Sequence[str], sources: Mapping[str, Sequence[str]], output: Path
) -> None:
    """Warn of arrays or columns that a conversion leaves out.

    ``sources`` has the columns of each array; ids are checked, but not written.
    """
    left_out = [*ignored, *sources.get("ids", ())]
    if left_out:
        warn_caller(
            f"{source} also holds {few(map(repr, left_out), 8)}, which {output} will not have.",
            DomaincalWarning,
        )


def write_converted(data: AnyRows, output: Path, *, set_domain: str | None, append: bool) -> None:
    """Write the rows of another file, or append them to a store."""
    rows = data if set_domain is None else in_domain(data, set_domain)
    if append:
        Store(output).append(rows)
    else:
        write(rows, output)


def in_domain(data: Rows, name: str) -> Rows:
    """The rows with one domain for all of them."""
    if isinstance(data, CalibrationData):
        return replace(data, domains=np.full(len(data), name, dtype=object))
    assert isinstance(data, BlockedRows)
    codes = ComputedRows((len(data),), np.int64, _zeros)
    return replace(data, domains=CodedRows(codes, np.array([name], object)))


def _zeros(start: int, stop: int) -> Array:
    return np.zeros(stop - start, np.int64)

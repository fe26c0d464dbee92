"""Arguments, options and checks that several verbs share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

if TYPE_CHECKING:
    import pandas as pd

    from domaincal._typing import Array
    from domaincal.cli.cluster_options import ClusterChoice
    from domaincal.data.blocked_rows import AnyRows
    from domaincal.data.column_choice import ColumnChoice
    from domaincal.io.kept_columns import Keep
    from domaincal.io.opened_rows import OpenedRows
    from domaincal.io.raw_data import RawData

F = TypeVar("F", bound=Callable[..., Any])

DATA_HELP = (
    "A data file is .npz, .parquet, .csv, .csv.gz, .zarr, .safetensors, .pt, a store, a folder of "
    ".npy, or - for a csv from standard input. It has arrays logits (or probabilities), labels, "
    "features, domains, groups; or columns logit_* (or prob_*, or one column score or prob of a "
    "binary classifier), feature_*, label, domain, group. --logits, --probabilities, "
    "--features, --label, --domain and --group give other names: those of columns, or patterns "
    "with one *, separated by commas. A single name of --logits or --probabilities is the "
    "log-odds, or the probability, of the second of two classes."
)

data_argument = click.argument("data", type=click.Path(path_type=Path))
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document instead of tables."
)
force_option = click.option("--force", is_flag=True, help="Replace an existing output.")
seed_option = click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True,
    help="Seed of the random numbers.",
)  # fmt: skip
jobs_option = click.option(
    "--jobs", type=click.IntRange(min=1), help="Number of processes. [default: one for each core]"
)


def _size(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """Number of bytes; a wrong size is wrong usage."""
    from domaincal._memory import parse_size
    from domaincal.errors import InputError

    try:
        return None if value is None else parse_size(value, "--max-memory")
    except InputError as error:
        raise click.UsageError(str(error)) from error


max_memory_option = click.option(
    "--max-memory", callback=_size, metavar="SIZE",
    help="Memory that reading the data may take, such as '4 GB'. [default: 256 MiB, or 100 times "
    "the size of the file if that is more]",
)  # fmt: skip


def output_option(*, required: bool, text: str) -> Callable[[F], F]:
    """The option -o/--output."""
    return click.option(
        "-o", "--output", type=click.Path(path_type=Path), required=required, help=text
    )


def results_option(default: str) -> Callable[[F], F]:
    """The option -o/--output of verbs that run experiments."""
    return click.option(
        "-o", "--output", type=click.Path(path_type=Path), default=Path(default),
        show_default=True, help="Folder of the results; an interrupted run in it continues.",
    )  # fmt: skip


@dataclass(frozen=True)
class InputData:
    """Data of a file.

    Attributes
    ----------
    path : path
    data : CalibrationData or BlockedRows
        Rows in memory; of a large file, rows that are read in blocks.
    ignored : tuple of str
        Names of the columns or arrays that were not read.
    columns : dict from arrays to names, or None
        Columns of each array, if options chose some of them.
    kept : DataFrame or None
        Columns that the output repeats.
    floor : float or None
        Floor of the probabilities; None if the scores are logits.
    kept_parts : callable or None
        ``kept`` of rows that are read in blocks: takes a number of rows, and returns an iterator
        over so many rows of the columns.
    """

    path: Path
    data: Any
    ignored: tuple[str, ...]
    columns: dict[str, list[str]] | None
    kept: pd.DataFrame | None = None
    floor: float | None = None
    kept_parts: Callable[[int], Iterator[pd.DataFrame]] | None = None

    def require(self, array: str, *, needed_by: str, alternative: str = "") -> None:
        """Raise an error if the file does not have ``array``."""
        if getattr(self.data, array) is None:
            from domaincal.errors import InputError

            other = f", or {alternative}" if alternative else ""
            raise InputError(
                f"{self.path} has no {array}, which {needed_by} needs; add {self.names_of(array)}"
                f"{other}."
            )

    def warn_of_no_domains(self, consequence: str) -> None:
        """Print what follows from missing domains, and how to add them."""
        from domaincal.cli.console import say

        say(
            f"warning: {self.path} has no domains: {consequence}; to name domains, add "
            f"{self.names_of('domains')}.",
            err=True,
        )

    def names_of(self, array: str) -> str:
        """Names under which a file can hold ``array``, and names that were ignored."""
        from domaincal._wording import few

        found = few(map(repr, self.ignored), 8)
        ignored = f" (ignored: {found})" if found else ""
        columns = {"features": "columns 'feature_*'"}
        column = columns.get(array, f"a column {array.removesuffix('s')!r}")
        pointer = "them with --features" if array == "features" else f"it with --{array[:-1]}"
        return f"an array {array!r} or {column}{ignored}, or name {pointer}"


def read_input(
    path: Path, columns: ColumnChoice, *, max_memory: int | None, keep: Keep = "none"
) -> InputData:
    """Read a data file and print the columns that options chose.

    Warns if its logits look like probabilities.
    """
    from domaincal.cli.console import working
    from domaincal.io.formats import read_rows
    from domaincal.io.standard_input import STDIN, STDIN_NAME

    with working(f"reading {path}"):
        raw, data = read_rows(path, columns, max_memory=max_memory, keep=keep)
    source = _input_data(path, columns, data, raw)
    return replace(source, path=Path(STDIN_NAME) if path == STDIN else path, kept=raw.kept)


@contextmanager
def opened_input(
    path: Path,
    columns: ColumnChoice,
    *,
    max_memory: int | None,
    keep: Keep = "none",
    cluster: ClusterChoice | None = None,
) -> Iterator[InputData]:
    """Data file as :func:`read_input` reads it; the rows of a large file are read in blocks.

    The workers of a cluster read the rows of a file of any size.
    """
    from domaincal.cli.console import working
    from domaincal.io import is_streamed, open_rows

    if cluster:
        cluster.require_shared_files(path)
    elif not is_streamed(path):
        yield read_input(path, columns, max_memory=max_memory, keep=keep)
        return
    with ExitStack() as stack:
        with working(f"reading {path}"):
            opened = stack.enter_context(open_rows(path, columns, max_memory=max_memory, keep=keep))
        rows = stack.enter_context(cluster.placed(opened.rows)) if cluster else opened.rows
        yield replace(_input_data(path, columns, rows, opened), kept_parts=opened.kept)


def _input_data(
    path: Path, columns: ColumnChoice, data: AnyRows, found: RawData | OpenedRows
) -> InputData:
    """What was read; prints the columns that options chose."""
    from domaincal._validation import look_like_probabilities
    from domaincal._warnings import warn_caller
    from domaincal.cli.column_options import print_columns
    from domaincal.data.logits import DEFAULT_FLOOR
    from domaincal.errors import ProbabilitiesWarning

    print_columns(columns, found.sources)
    are_logits = "probabilities" not in found.sources
    if are_logits and look_like_probabilities(cast("Array", data.logits)):
        warn_caller(
            f"the logits of {path} are >= 0 and sum to 1 in each row; if they are probabilities, "
            "name them with --probabilities.",
            ProbabilitiesWarning,
        )
    chosen = None
    if not columns.is_default():
        chosen = {array: list(names) for array, names in found.sources.items()}
    floor = None
    if not are_logits:
        floor = DEFAULT_FLOOR if columns.floor is None else columns.floor
    return InputData(path, data, found.ignored, chosen, None, floor)


def require_output(path: Path, *, force: bool, grows: bool = False) -> None:
    """Fail early if the output exists (unless ``force`` or ``grows``) or cannot be written."""
    from domaincal.errors import InputError
    from domaincal.io.addresses import address_of, shown
    from domaincal.io.zarr import exists_at

    if address_of(path) is not None:
        if path.suffix != ".zarr":
            raise InputError(f"{shown(path)} is an address, to which only .zarr is written.")
        if not force and exists_at(path):
            raise InputError(f"{shown(path)} exists; pass --force to replace it.")
        return
    if path.exists() and not (force or grows):
        raise InputError(f"{path} exists; pass --force to replace it.")
    if not path.parent.is_dir():
        raise InputError(f"there is no folder {path.parent}; create it.")
    if not os.access(path.parent, os.W_OK):
        raise InputError(f"the folder {path.parent} cannot be written to; choose another one.")


@contextmanager
def claimed(path: Path, *, force: bool, grows: bool = False) -> Iterator[None]:
    """Fail early if the output cannot be written, also because another command is writing it."""
    require_output(path, force=force, grows=grows)
    from domaincal.io.addresses import address_of

    is_free = force or grows or address_of(path) is not None
    with nullcontext() if is_free else _claim(path):
        yield


@contextmanager
def _claim(path: Path) -> Iterator[None]:
    """Lock a hidden file beside the output; the lock ends with the process."""
    from domaincal._files import file_lock, hidden_stem, naming_path, remove
    from domaincal.errors import InputError

    target = Path(os.path.realpath(path))
    name = target.parent / f"{hidden_stem(target)}.claim"
    with ExitStack() as stack:
        with naming_path(path, name):
            held = stack.enter_context(file_lock(name, timeout=0.0))
        if held is False:
            raise InputError(
                f"another command is writing {path}; wait for it, or choose another output."
            )
        try:
            # Again: another command may have written it meanwhile.
            require_output(path, force=False)
            yield
        finally:
            if held:  # before the release, so that no command waits for a file that is removed
                remove(name)


def described(source: InputData) -> dict[str, Any]:
    """Size, fingerprint, columns and floor of the data, for JSON documents."""
    data = source.data
    return {
        "path": str(source.path),
        "n_rows": len(data),
        "n_classes": data.logits.shape[1],
        "n_features": None if data.features is None else data.features.shape[1],
        "n_domains": None if data.domains is None else len(data.domain_names),
        "fingerprint": data.fingerprint(),
        "columns": source.columns,
        "floor": source.floor,
    }


def size_of(path: Path) -> str:
    """Size of a file or folder, such as ``3.9 kB``."""
    from domaincal._memory import file_size, format_size
    from domaincal.io.addresses import address_of
    from domaincal.io.zarr_group import ZarrGroup

    if address_of(path) is not None:
        return format_size(ZarrGroup.open(path).n_bytes())
    return format_size(file_size(path))

"""Arguments, options and checks that several verbs share."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from domaincal.data import CalibrationData

F = TypeVar("F", bound=Callable[..., Any])

DATA_HELP = (
    "A data file is .npz, .parquet, .csv, .safetensors, .pt, a store or a folder of .npy. It has "
    "arrays logits (or probabilities), labels, features, domains, groups; or columns logit_* (or "
    "prob_*), feature_*, label, domain, group."
)

data_argument = click.argument("data", type=click.Path(path_type=Path))
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document instead of tables."
)
force_option = click.option("--force", is_flag=True, help="Replace an existing output.")
probabilities_option = click.option(
    "--probabilities", is_flag=True, help="Treat the logits of the file as probabilities."
)
seed_option = click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True,
    help="Seed of the random numbers.",
)  # fmt: skip
jobs_option = click.option(
    "--jobs", type=click.IntRange(min=1), help="Number of processes. [default: one for each core]"
)


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
    """Data of a file, with the names of ignored columns."""

    path: Path
    data: CalibrationData
    ignored: tuple[str, ...]

    def require(self, array: str, *, needed_by: str, alternative: str = "") -> None:
        """Raise an error if the file does not have ``array``."""
        if getattr(self.data, array) is None:
            from domaincal.errors import InputError

            other = f", or {alternative}" if alternative else ""
            raise InputError(
                f"{self.path} has no {array}, which {needed_by} needs; add {self.names_of(array)}"
                f"{other}."
            )

    def names_of(self, array: str) -> str:
        """Names under which a file can hold ``array``, and names that were ignored."""
        from domaincal._wording import few

        found = few(map(repr, self.ignored), 8)
        ignored = f" (ignored: {found})" if found else ""
        columns = {"features": "columns 'feature_*'"}
        column = columns.get(array, f"a column {array.removesuffix('s')!r}")
        return f"an array {array!r} or {column}{ignored}"


def read_input(path: Path, *, probabilities: bool) -> InputData:
    """Read a data file; warn if its logits look like probabilities."""
    from domaincal.cli.console import say, working
    from domaincal.io.formats import read_raw
    from domaincal.io.inspection import look_like_probabilities
    from domaincal.io.raw_data import checked

    with working(f"reading {path}"):
        raw = read_raw(path)
        data = checked(path, raw, probabilities=probabilities)
        stored = "logits" in raw.arrays and not probabilities
        suspicious = stored and look_like_probabilities(data.logits)
    if suspicious:
        say(
            f"warning: the logits of {path} are >= 0 and sum to 1 in each row; if they are "
            "probabilities, pass --probabilities.",
            err=True,
        )
    return InputData(path, data, raw.ignored)


def require_output(path: Path, *, force: bool, grows: bool = False) -> None:
    """Fail early if the output exists (unless ``force`` or ``grows``) or cannot be written."""
    from domaincal.errors import InputError

    if path.exists() and not (force or grows):
        raise InputError(f"{path} exists; pass --force to replace it.")
    if not path.parent.is_dir():
        raise InputError(f"there is no folder {path.parent}; create it.")
    if not os.access(path.parent, os.W_OK):
        raise InputError(f"the folder {path.parent} cannot be written to; choose another one.")


def described(path: Path, data: CalibrationData) -> dict[str, Any]:
    """Size and fingerprint of the data, for JSON documents."""
    return {
        "path": str(path),
        "n_rows": len(data),
        "n_classes": data.logits.shape[1],
        "n_features": None if data.features is None else data.features.shape[1],
        "n_domains": None if data.domains is None else len(data.domain_names),
        "fingerprint": data.fingerprint(),
    }


def size_of(path: Path) -> str:
    """Size of a file or folder, such as ``3.9 kB``."""
    files = [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
    size = float(sum(p.stat().st_size for p in files))
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"

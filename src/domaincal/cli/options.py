"""Options that several verbs share."""

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
    "DATA is .npz, .parquet, .csv, .safetensors, .pt, a store or a folder of .npy: arrays logits "
    "(or probabilities), labels, features, domains, groups; columns logit_* (or prob_*), "
    "feature_*, label, domain, group."
)

data_argument = click.argument("data", type=click.Path(path_type=Path))
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document in place of tables."
)
force_option = click.option("--force", is_flag=True, help="Replace what is there.")
probabilities_option = click.option(
    "--probabilities", is_flag=True, help="What the file calls logits are probabilities."
)
seed_option = click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed."
)

jobs_option = click.option(
    "--jobs", type=click.IntRange(min=1), help="Processes. [default: one for each core]"
)  # fmt: skip


def output_option(*, required: bool, text: str) -> Callable[[F], F]:
    """Where to write."""
    return click.option(
        "-o", "--output", type=click.Path(path_type=Path), required=required, help=text
    )


def results_option(default: str) -> Callable[[F], F]:
    """The folder of an experiment's results."""
    return click.option(
        "-o", "--output", type=click.Path(path_type=Path), default=Path(default),
        show_default=True, help="Folder of the results; an earlier one goes on.",
    )  # fmt: skip


@dataclass(frozen=True)
class InputData:
    """The data of a file, with the names of ignored columns."""

    path: Path
    data: "CalibrationData"
    ignored: tuple[str, ...]

    def require(self, array: str, *, why: str) -> None:
        """Refuse rows without ``array``: the name that was expected, and those that were found."""
        if getattr(self.data, array) is None:
            from domaincal.errors import InputError

            raise InputError(self.lacks(array) + f", {why}.")

    def lacks(self, array: str) -> str:
        """Text that says which array is missing, and which columns were ignored."""
        from domaincal._wording import few

        found = few(map(repr, self.ignored), 8)
        others = f" (there are {found}, which are ignored)" if found else ""
        column = {"features": "feature_*"}.get(array, array.removesuffix("s"))
        return f"{self.path} has no {array}, an array of that name or the column {column!r}{others}"


def read_input(path: Path, *, probabilities: bool) -> InputData:
    """Read rows, with a word on logits that look like something else."""
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
    """Fail before the work is done, not after it: the place is free, and can be written."""
    from domaincal.errors import InputError

    if path.exists() and not (force or grows):
        raise InputError(f"{path} exists; pass --force to replace it.")
    if not path.parent.is_dir():
        raise InputError(f"there is no folder {path.parent}; create it.")
    if not os.access(path.parent, os.W_OK):
        raise InputError(f"the folder {path.parent} cannot be written to; choose another.")


def described(path: Path, data: "CalibrationData") -> dict[str, Any]:
    """The data of a document."""
    return {
        "path": str(path),
        "n_rows": len(data),
        "n_classes": data.logits.shape[1],
        "n_features": None if data.features is None else data.features.shape[1],
        "n_domains": None if data.domains is None else len(data.domain_names),
        "fingerprint": data.fingerprint(),
    }


def size_of(path: Path) -> str:
    """Bytes of a file or folder, for people."""
    files = [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
    size = float(sum(p.stat().st_size for p in files))
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"

"""Reader of the TOML files that define experiments."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from domaincal.errors import FileFormatError, InputError
from domaincal.experiments.data_sources import DataSource
from domaincal.experiments.experiment import Experiment
from domaincal.experiments.methods import Method
from domaincal.experiments.partitions import CORRUPTION_PARTITIONS, PARTITION_KEYS, Partition

#: Names of the experiments that come with domaincal.
SHIPPED_EXPERIMENTS = (
    "digits-c", "tiny-imagenet-c", "tiny-imagenet-c-mild", "imagenet-c", "rxrx1", "gldv2",
)  # fmt: skip
_KEYS = ("name", "n_bins", "repeats", "random_state", "splits", "data", "partitions", "methods")
_TYPE_NAMES = {str: "string", Mapping: "table"}
# Keys that are often written in place of the right ones.
_RIGHT_KEYS = {"bins": "n_bins", "seed": "random_state"}


def read_experiment(
    path: str | os.PathLike[str], *, data: str | os.PathLike[str] | None = None
) -> Experiment:
    """Read an experiment from a TOML file.

    Parameters
    ----------
    path : path or str
        Path of a TOML file, or the name of an experiment that comes with domaincal:
        ``digits-c``, ``tiny-imagenet-c``, ``tiny-imagenet-c-mild``, ``imagenet-c``, ``rxrx1``,
        ``gldv2``.
    data : path, optional
        Folder of the data files. Default: the folder of the TOML file.

    Returns
    -------
    Experiment

    Examples
    --------
    >>> import domaincal as dc
    >>> experiment = dc.experiments.read_experiment("digits-c")
    >>> experiment.name, experiment.repeats, experiment.n_bins
    ('Digits-C', 5, 20)
    """
    if str(path) in SHIPPED_EXPERIMENTS:
        text = (files("domaincal.experiments") / "definitions" / f"{path}.toml").read_text("utf-8")
        folder = Path()
    else:
        text, folder = _read_text(Path(path)), Path(path).parent
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FileFormatError(
            f"{path} is not a valid TOML file ({error}); see docs/experiments.md."
        ) from error
    try:
        return _experiment(content, folder, folder if data is None else Path(data))
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _read_text(path: Path) -> str:
    if not path.is_file():
        raise InputError(
            f"there is no experiment {str(path)!r}; pass the path of a TOML file, or one of "
            f"{', '.join(SHIPPED_EXPERIMENTS)}."
        )
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{path} is not a text file ({error}); pass a TOML file.") from error


def _experiment(content: Mapping[str, Any], folder: Path, data: Path) -> Experiment:
    """The experiment of a parsed file; ``folder`` holds Python files, ``data`` data files."""
    _require_keys("the file", content, _KEYS)
    for key, required in (("name", str), ("data", Mapping)):
        if not isinstance(content.get(key), required):
            raise InputError(
                f"{key} must be a {_TYPE_NAMES[required]}, got {content.get(key)!r}; see "
                "docs/experiments.md."
            )
    given: dict[str, Any] = {
        key: content[key] for key in ("n_bins", "repeats", "random_state") if key in content
    }
    if "splits" in content:
        given["splits"] = tuple(_list_of(content, "splits"))
    if "partitions" in content:
        given["partitions"] = tuple(map(_partition, _list_of(content, "partitions")))
    if "methods" in content:
        methods = content["methods"]
        if not isinstance(methods, Mapping):
            raise InputError("methods must be a table, such as [methods] then MSP = 'msp'.")
        given["methods"] = tuple(Method(name, text, folder) for name, text in methods.items())
    sources = (DataSource(name, entry, data, folder) for name, entry in content["data"].items())
    return Experiment(content["name"], tuple(sources), **given)


def _partition(entry: Any) -> Partition:
    """The partition of an entry of ``partitions``: a name that is known, or a table."""
    if isinstance(entry, str):
        if entry not in CORRUPTION_PARTITIONS:
            raise InputError(
                f"there is no partition {entry!r}; choose from "
                f"{', '.join(CORRUPTION_PARTITIONS)}, or define it: "
                "{name = 'mine', ood = ['night-*']}."
            )
        return CORRUPTION_PARTITIONS[entry]
    if not isinstance(entry, Mapping) or "name" not in entry:
        raise InputError(f"a partition must be a name or a table with a name, got {entry!r}.")
    _require_keys(f"the partition {entry['name']!r}", entry, PARTITION_KEYS)
    return Partition(**entry)


def _list_of(content: Mapping[str, Any], key: str) -> Sequence[Any]:
    value = content[key]
    if not isinstance(value, list):
        raise InputError(f"{key} must be a list, got {value!r}; write {key} = [...].")
    return value


def _require_keys(where: str, content: Mapping[str, Any], known: Sequence[str]) -> None:
    for key in content:
        if key in known:
            continue
        right = _RIGHT_KEYS.get(key)
        cure = f"write {right} instead" if right in known else f"choose from {', '.join(known)}"
        raise InputError(f"{where} has the unknown key {key!r}; {cure}.")

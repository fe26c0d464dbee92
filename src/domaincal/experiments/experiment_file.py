"""Reader of the TOML files that define experiments."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

from domaincal._files import open_file
from domaincal._specs import Spec
from domaincal.errors import FileFormatError, InputError
from domaincal.experiments.data_sources import DataSource
from domaincal.experiments.experiment import Experiment
from domaincal.experiments.methods import Method
from domaincal.experiments.partitions import CORRUPTION_PARTITIONS, PARTITION_KEYS, Partition
from domaincal.experiments.user_code import code_path

#: Names of the experiments that come with domaincal.
SHIPPED_EXPERIMENTS = (
    "digits-c", "tiny-imagenet-c", "tiny-imagenet-c-mild", "imagenet-c", "rxrx1", "gldv2",
)  # fmt: skip
_KEYS = ("name", "n_bins", "repeats", "random_state", "splits", "data", "partitions", "methods")
_TYPE_NAMES = {str: "string", Mapping: "table"}
# Keys that are often written in place of the right ones.
_RIGHT_KEYS = {"bins": "n_bins", "seed": "random_state"}
_MAX_BYTES = 1_000_000
# Limits of what a file may hold; no experiment comes near them.
_MAX_TEXT, _MAX_INTEGER, _MAX_MESSAGE = 1_000, 1 << 63, 2_000
# The time that tomllib takes for a.b.c... = 1 grows with the square of the number of parts.
_LONG_KEY = re.compile(
    r"""(?<![\w-])(?:(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){20}"""
)


def read_experiment(
    path: str | os.PathLike[str],
    *,
    data: str | os.PathLike[str] | None = None,
    allow_code: bool = False,
    max_memory: float | str | None = None,
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
    allow_code : bool, default False
        Whether to run the Python files that the experiment names, in ``source = "mine.py:load"``
        or as methods, ``"mine.py:Mine"``. They must be below the folder of the TOML file. Without
        it no code runs, and an experiment that names such files is an error that lists them.
    max_memory : int or str, optional
        Memory that reading a data file may take, in bytes or such as ``"4 GB"``; see
        :func:`domaincal.read`.

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
    content = _parse(text, path)
    try:
        _require_plain(content)
        _require_keys("the file", content, _KEYS)
        _require_allowed(_code_files(content, folder), allow_code=allow_code)
        source = partial(
            DataSource,
            folder=folder if data is None else Path(data),
            code_folder=folder if allow_code else None,
            max_memory=max_memory,
        )
        return _experiment(content, source, folder if allow_code else None)
    except (InputError, RecursionError) as error:
        raise InputError(f"{path}: {str(error)[:_MAX_MESSAGE]}") from error


def _read_text(path: Path) -> str:
    if not os.path.exists(path):
        raise InputError(
            f"there is no experiment {str(path)!r}; pass the path of a TOML file, or one of "
            f"{', '.join(SHIPPED_EXPERIMENTS)}."
        )
    with open_file(path) as file:
        content = file.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise FileFormatError(f"{path} has more than 1 MB; pass a TOML file of an experiment.")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{path} is not a text file ({error}); pass a TOML file.") from error


def _parse(text: str, path: str | os.PathLike[str]) -> dict[str, Any]:
    """The tables and values of a TOML text."""
    if _LONG_KEY.search(text):
        raise FileFormatError(f"{path} has a key of 20 parts (a.b.c. ...); shorten it.")
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # deep nesting, numbers of thousands of digits
        raise FileFormatError(
            f"{path} is not a valid TOML file ({error}); see docs/experiments.md."
        ) from error


def _require_plain(content: Mapping[str, Any]) -> None:
    """Refuse values that no key has: long texts, large integers, dates and times."""
    left: list[Any] = [content]
    while left:
        value = left.pop()
        if isinstance(value, Mapping):
            left += [*value.keys(), *value.values()]
        elif isinstance(value, list):
            left += value
        elif isinstance(value, str):
            if len(value) > _MAX_TEXT:
                raise InputError(
                    f"the text {value[:40]!r}... has {len(value)} characters; at most {_MAX_TEXT} "
                    "are allowed."
                )
        elif isinstance(value, int):
            if not -_MAX_INTEGER <= value < _MAX_INTEGER:
                raise InputError("a whole number has more than 64 bits; write a smaller one.")
        elif not isinstance(value, float):
            raise InputError(f"the value {value} is a date or a time; write it in quotes.")


def _code_files(content: Mapping[str, Any], folder: Path) -> list[Path]:
    """Python files that the methods and the data name; none of them is run."""
    methods, data = content.get("methods"), content.get("data")
    named = list(methods.values()) if isinstance(methods, Mapping) else []
    texts = [Spec.parse(text).name for text in named if isinstance(text, str)]
    entries = list(data.values()) if isinstance(data, Mapping) else []
    sources = [entry.get("source") for entry in entries if isinstance(entry, Mapping)]
    texts += [source for source in sources if isinstance(source, str)]
    code = [text for text in texts if Spec.parse(text).is_code]
    return list(dict.fromkeys(code_path(text, folder) for text in code))


def _require_allowed(code: Sequence[Path], *, allow_code: bool) -> None:
    if code and not allow_code:
        raise InputError(
            f"the experiment runs the code of {', '.join(map(str, code))}; read it, and if you "
            "trust it, allow it with --allow-code (allow_code=True)."
        )


def _experiment(
    content: Mapping[str, Any], source: Callable[[str, Any], DataSource], code_folder: Path | None
) -> Experiment:
    """The experiment of a parsed file; ``source`` makes a data source of a name and an entry."""
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
        given["methods"] = tuple(Method(name, text, code_folder) for name, text in methods.items())
    sources = (source(name, entry) for name, entry in content["data"].items())
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

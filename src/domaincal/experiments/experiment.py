"""An experiment, as a TOML file defines it."""

import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from domaincal._validation import check_count, check_option
from domaincal.data.splits import SplitBy
from domaincal.errors import FileFormatError, InputError
from domaincal.experiments.data_sources import DataSource
from domaincal.experiments.methods import MAIN, Method
from domaincal.experiments.partitions import CORRUPTION_PARTITIONS, PARTITION_KEYS, Partition

_KEYS = ("name", "bins", "repeats", "seed", "splits", "data", "partitions", "methods")
#: Experiments that come with domaincal, by name.
SHIPPED = (
    "digits-c", "tiny-imagenet-c", "tiny-imagenet-c-mild", "imagenet-c", "rxrx1", "gldv2",
)  # fmt: skip


@dataclass(frozen=True)
class Experiment:
    """Data, partitions, methods and how often: everything that decides the numbers.

    Attributes
    ----------
    name : str
        Of the data set, in tables; those of the paper are ImageNet-C, RxRx1 and GLDv2.
    sources : tuple of DataSource
        One for each network.
    partitions : tuple of Partition
        The first is the main one, of most tables.
    methods : tuple of Method
    bins : int
    repeats : int
        Random halves; repeat r has the seed ``seed + r``.
    seed : int
    splits : tuple of {"row", "group"}
        Halves of rows, as in the paper, or of groups: disjoint in images, say.
    """

    name: str
    sources: tuple[DataSource, ...]
    partitions: tuple[Partition, ...] = (CORRUPTION_PARTITIONS["all"],)
    methods: tuple[Method, ...] = MAIN
    bins: int = 15
    repeats: int = 1
    seed: int = 0
    splits: tuple[SplitBy, ...] = ("row",)

    def __post_init__(self) -> None:
        for key, minimum in (("bins", 1), ("repeats", 1), ("seed", 0)):
            check_count(getattr(self, key), key, minimum=minimum)
        for split in self.splits:
            check_option(split, "splits", ("row", "group"))
        for key in ("sources", "partitions", "methods", "splits"):
            if not getattr(self, key):
                raise InputError(f"{key} of {self.name!r} is empty; give at least one.")
        _require_different("data", [source.network for source in self.sources])
        _require_different("partitions", [partition.name for partition in self.partitions])
        _require_different("methods", [method.name for method in self.methods])
        for source in self.sources:
            source.check()
        texts = [self.name, *(source.network for source in self.sources)]
        texts += [text for p in self.partitions for text in (p.name, p.title)]
        for text in (*texts, *(method.name for method in self.methods)):
            if not text.isprintable():
                raise InputError(f"the name {text!r} cannot be printed in a table; change it.")

    @property
    def main(self) -> Partition:
        """The partition of most tables."""
        return self.partitions[0]

    def partition(self, name: str) -> Partition | None:
        """A partition by its name."""
        return next((p for p in self.partitions if p.name == name), None)


class Asked(NamedTuple):
    """A cell of every network."""

    partition: Partition
    split: SplitBy
    method: Method
    repeat: int


def asked_by(
    experiment: Experiment,
    *,
    partitions: Sequence[Partition] | None = None,
    methods: Sequence[Method] | None = None,
    splits: Sequence[SplitBy] | None = None,
    repeats: int | None = None,
) -> list[Asked]:
    """All cells of an experiment, or of some of its parts."""
    return [
        Asked(partition, split, method, repeat)
        for partition, split, repeat, method in product(
            experiment.partitions if partitions is None else partitions,
            experiment.splits if splits is None else splits,
            range(experiment.repeats if repeats is None else repeats),
            experiment.methods if methods is None else methods,
        )
    ]


def only_networks(experiments: Sequence[Experiment], networks: Sequence[str]) -> list[Experiment]:
    """Experiments with some of their networks, without those that have none of them."""
    known = dict.fromkeys(source.network for e in experiments for source in e.sources)
    for name in networks:
        if name not in known:
            where = " and ".join(experiment.name for experiment in experiments)
            raise InputError(
                f"there is no network {name!r} in {where}; choose from {', '.join(known)}."
            )
    chosen = [tuple(s for s in e.sources if s.network in networks) for e in experiments]
    pairs = zip(experiments, chosen, strict=True)
    return [replace(experiment, sources=sources) for experiment, sources in pairs if sources]


def read_experiment(
    path: str | os.PathLike[str], *, data: str | os.PathLike[str] | None = None
) -> Experiment:
    """An experiment from a TOML file.

    Parameters
    ----------
    path : path or name
        Of the file, or of an experiment that comes with domaincal: ``digits-c``,
        ``tiny-imagenet-c``, ``tiny-imagenet-c-mild``, ``imagenet-c``, ``rxrx1``, ``gldv2``.
    data : path, optional
        The folder of the data; by default that of the file.

    Returns
    -------
    Experiment

    Examples
    --------
    >>> import domaincal as dc
    >>> experiment = dc.experiments.read_experiment("digits-c")
    >>> experiment.name, experiment.repeats, experiment.bins
    ('Digits-C', 5, 20)
    """
    if str(path) in SHIPPED:
        text = (files("domaincal.experiments") / "definitions" / f"{path}.toml").read_text("utf-8")
        folder = Path()
    else:
        text, folder = _read_text(Path(path)), Path(path).parent
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FileFormatError(f"{path} is no TOML ({error}); see docs/experiments.md.") from error
    try:
        return _experiment(content, folder, folder if data is None else Path(data))
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _read_text(path: Path) -> str:
    if not path.is_file():
        raise InputError(
            f"there is no experiment {str(path)!r}; give a TOML file, or one of "
            f"{', '.join(SHIPPED)}."
        )
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{path} is no text; give a TOML file ({error}).") from error


def _experiment(content: Mapping[str, Any], folder: Path, data: Path) -> Experiment:
    _require_keys("the file", content, _KEYS)
    for key, kind in (("name", str), ("data", Mapping)):
        if not isinstance(content.get(key), kind):
            raise InputError(f"{key} is missing or no {_WORDS[kind]}; see docs/experiments.md.")
    given: dict[str, Any] = {k: content[k] for k in ("bins", "repeats", "seed") if k in content}
    if "splits" in content:
        given["splits"] = tuple(_listed(content, "splits"))
    if "partitions" in content:
        given["partitions"] = tuple(map(_partition, _listed(content, "partitions")))
    if "methods" in content:
        methods = content["methods"]
        if not isinstance(methods, Mapping):
            raise InputError("methods must be a table, such as [methods] then MSP = 'msp'.")
        given["methods"] = tuple(Method(name, text, folder) for name, text in methods.items())
    sources = (DataSource(name, what, data, folder) for name, what in content["data"].items())
    return Experiment(content["name"], tuple(sources), **given)


def _partition(written: Any) -> Partition:
    """A partition that comes with domaincal, by name, or one of the user's own."""
    if isinstance(written, str):
        if written not in CORRUPTION_PARTITIONS:
            raise InputError(
                f"there is no partition {written!r}; choose from "
                f"{', '.join(CORRUPTION_PARTITIONS)}, or define it: "
                "{name = 'mine', ood = ['night-*']}."
            )
        return CORRUPTION_PARTITIONS[written]
    if not isinstance(written, Mapping) or "name" not in written:
        raise InputError(f"a partition must be a name or a table with a name, got {written!r}.")
    _require_keys(f"the partition {written['name']!r}", written, PARTITION_KEYS)
    return Partition(**written)


def _listed(content: Mapping[str, Any], key: str) -> Sequence[Any]:
    value = content[key]
    if not isinstance(value, list):
        raise InputError(f"{key} must be a list, got {value!r}; write {key} = [...].")
    return value


def _require_keys(where: str, content: Mapping[str, Any], known: Sequence[str]) -> None:
    for key in content:
        if key not in known:
            raise InputError(f"{where} has the key {key!r}; it may have {', '.join(known)}.")


def _require_different(key: str, names: Sequence[str]) -> None:
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"{key} has {twice!r} twice; give each a name of its own.")


_WORDS = {str: "text", Mapping: "table"}

"""Running an experiment: every cell once, whatever happened before."""

import json
import platform
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from domaincal._errors import DomaincalWarning, InputError
from domaincal._files import atomic_file
from domaincal.data import CalibrationData
from domaincal.data.splits import SplitBy
from domaincal.experiments.cells import Cell, Rows, cell_path, compute_cell, read_cell, write_cell
from domaincal.experiments.data_sources import DataSource
from domaincal.experiments.definition import Experiment
from domaincal.experiments.methods import Method
from domaincal.experiments.partitions import Partition
from domaincal.metrics import mean_over_domains
from domaincal.selection.protocols import split_rows

#: What tells the rows of a results table apart, before the domain.
KEYS = ("data", "network", "partition", "split", "repeat", "method", "head")
SCORES = ("accuracy", "mean_confidence", "ece", "floor", "excess", "gap", "nll", "brier")
_PACKAGES = ("domaincal", "numpy", "scipy", "scikit-learn", "pandas", "numba",
             "imagecorruptions-imaug")  # fmt: skip

#: Goes through the steps of a run and may show how far it is, like ``tqdm.tqdm``.
Track = Callable[[Sequence[Any]], Iterable[Any]]


class Asked(NamedTuple):
    """A cell of every network."""

    partition: Partition
    split: SplitBy
    method: Method
    repeat: int


@dataclass(frozen=True, eq=False)
class Results:
    """What an experiment gave.

    Attributes
    ----------
    experiment : Experiment
    cells : dict
        From (network, Asked) to Cell.
    table : DataFrame
        One row for each network, partition, split, repeat, method, kind (InD or OOD) and domain: n,
        accuracy, mean_confidence, ece, floor, excess, gap, nll, brier; learned, predicted, low and
        high are temperatures, as in :func:`temperature_table`.
    pooled : DataFrame
        The same scores of all InD and of all OOD rows together, without nll and brier.
    provenance : dict
        The experiment, the identity of its data, and versions.
    """

    experiment: Experiment
    cells: dict[tuple[str, Asked], Cell]

    def only(self, asked: Sequence[Asked]) -> "Results":
        """The results of some cells."""
        chosen = set(asked)
        kept = {name: cell for name, cell in self.cells.items() if name[1] in chosen}
        return Results(self.experiment, kept)

    @cached_property
    def table(self) -> pd.DataFrame:
        """See the class."""
        tables = []
        for name, cell in self.cells.items():
            key = pd.DataFrame([self._key(*name)] * len(cell.table), columns=list(KEYS))
            tables.append(pd.concat([key, cell.table], axis=1))
        return pd.concat(tables, ignore_index=True)

    @cached_property
    def pooled(self) -> pd.DataFrame:
        """See the class."""
        records = []
        for name, cell in self.cells.items():
            for kind in cell.table["kind"].unique():
                sums = cell.sums((cell.table["kind"] == kind).to_numpy())
                records.append((
                    *self._key(*name), kind, int(sums.n), sums.accuracy, sums.mean_confidence,
                    sums.calibration_error(), sums.floor(), sums.excess_error(),
                    abs(sums.mean_confidence - sums.accuracy),
                ))  # fmt: skip
        return pd.DataFrame(records, columns=[*KEYS, "kind", "n", *SCORES[:6]])

    @property
    def provenance(self) -> dict[str, Any]:
        """See the class."""
        networks = list(dict.fromkeys(network for network, _ in self.cells))
        return _provenance(self.experiment, networks)

    def means(self) -> pd.DataFrame:
        """Means over domains: repeats are averaged within a domain, then domains.

        Returns
        -------
        DataFrame
            One row for each data set, network, partition, split, kind, method and head: n_domains,
            repeats, the mean of every score, and ece_standard_error and gap_standard_error, the
            standard deviation over the domains divided by the root of their number.
        """
        return means_over_domains(self.table)

    def _key(self, network: str, asked: Asked) -> tuple[Any, ...]:
        return (
            self.experiment.name, network, asked.partition.name, asked.split, asked.repeat,
            asked.method.name, asked.method.head,
        )  # fmt: skip


def write_results(results: Sequence[Results], folder: Path) -> None:
    """Write results.csv, pooled.csv, means.csv and provenance.json of one or more experiments."""
    table = pd.concat([r.table for r in results], ignore_index=True)
    tables = {
        "results.csv": table,
        "pooled.csv": pd.concat([r.pooled for r in results], ignore_index=True),
        "means.csv": means_over_domains(table),
    }
    for name, content in tables.items():
        with atomic_file(folder / name) as file:
            content.to_csv(file, index=False, float_format="%.9g")
    with atomic_file(folder / "provenance.json") as file:
        file.write(json.dumps([r.provenance for r in results], indent=1).encode())


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


def run_experiment(
    experiment: Experiment,
    folder: str | Path,
    *,
    asked: Sequence[Asked] | None = None,
    track: Track = iter,
) -> Results:
    """Run an experiment, or what of it is not there yet.

    Every method in every repeat of every partition is kept in the folder as soon as it is scored.
    What is there is not fitted again, so a run that was cut off, or asks for more, goes on.

    Parameters
    ----------
    experiment : Experiment
    folder : path
        Gets ``cells/``; made if it is not there.
    asked : list of Asked, optional
        By default, all that the experiment defines.
    track : callable, optional
        Wraps the list of steps that are left, to show progress, e.g. ``tqdm.tqdm``.

    Returns
    -------
    Results

    Examples
    --------
    >>> import tempfile, domaincal as dc
    >>> data, _ = dc.make_multi_domain(n_domains=6, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     dc.write(data, folder + "/mine.npz")
    ...     _ = Path(folder, "mine.toml").write_text('''
    ...         name = "mine"
    ...         data = {mlp = "mine.npz"}
    ...         partitions = [{name = "new", ood = ["*-[45]"]}]
    ...         methods = {TS = "ts", oracle = "oracle"}
    ...     ''')
    ...     results = dc.run_experiment(dc.read_experiment(folder + "/mine.toml"), folder + "/out")
    >>> results.means()[["kind", "method", "n_domains"]].values.tolist()
    [['InD', 'TS', 4], ['OOD', 'TS', 2], ['InD', 'oracle', 4], ['OOD', 'oracle', 2]]
    """
    folder = Path(folder)
    store = folder / "cells"
    store.mkdir(parents=True, exist_ok=True)
    wanted = list(dict.fromkeys(asked_by(experiment) if asked is None else asked))
    sources = _there(experiment)
    keys = {
        (source.network, cell): _key(experiment, source, cell)
        for source in sources
        for cell in wanted
    }
    cells = {
        name: found
        for name, key in keys.items()
        if (found := read_cell(cell_path(store, key), key)) is not None
    }
    missing = [name for name in keys if name not in cells]
    by_network = {source.network: source for source in sources}
    at_hand = _AtHand(experiment)
    # Repeat by repeat, partition by partition: rows are made and split once.
    missing.sort(key=lambda name: (name[0], name[1].repeat, name[1].partition.name, name[1].split))
    for network, cell in track(missing):
        with _said_where(network, cell):
            rows = at_hand.rows(by_network[network], cell)
            done = compute_cell(cell.method, rows, n_bins=experiment.bins)
        write_cell(cell_path(store, keys[network, cell]), done, keys[network, cell])
        cells[network, cell] = done
    return Results(experiment, {name: cells[name] for name in keys})


def means_over_domains(table: pd.DataFrame) -> pd.DataFrame:
    """See :meth:`Results.means`."""
    keys = [key for key in (*KEYS, "kind") if key != "repeat"]
    per_domain = table.groupby([*keys, "domain"], sort=False, dropna=False)[list(SCORES)].mean()
    grouped = per_domain.groupby(keys, sort=False, dropna=False)
    out = grouped.mean()
    out.insert(0, "n_domains", grouped.size())
    repeats = table.groupby(keys, sort=False, dropna=False)["repeat"].nunique()
    out.insert(1, "repeats", repeats)
    for score in ("ece", "gap"):
        errors = grouped[score].apply(lambda values: mean_over_domains(values).standard_error)
        out[f"{score}_standard_error"] = errors
    return out.reset_index()


def _there(experiment: Experiment) -> list[DataSource]:
    """Sources whose data are there; a word on the others."""
    absent = [source for source in experiment.sources if source.missing]
    there = [source for source in experiment.sources if not source.missing]
    if not there:
        raise InputError(
            f"no data of {experiment.name!r} are there: looked for "
            f"{', '.join(str(source.path) for source in absent)}; give the folder of the data."
        )
    for source in absent:
        warnings.warn(
            f"{source.network} is left out: there is no {source.path}.",
            DomaincalWarning,
            stacklevel=3,
        )
    return there


def _key(experiment: Experiment, source: DataSource, cell: Asked) -> dict[str, Any]:
    """Everything that decides the numbers of a cell."""
    return {
        "data": source.identity(experiment.seed + cell.repeat),
        "partition": cell.partition.definition(),
        "split": cell.split,
        "method": cell.method.definition(),
        "seed": experiment.seed + cell.repeat,
        "bins": experiment.bins,
        "domaincal": version("domaincal"),
    }


@contextmanager
def _said_where(network: str, cell: Asked) -> Iterator[None]:
    """Warnings say which method they are about, and where."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    place = f"{cell.method.name!r} on {network!r}, {cell.partition.name!r}, repeat {cell.repeat}"
    for warning in caught:
        warnings.warn(f"{place}: {warning.message}", warning.category, stacklevel=4)


class _AtHand:
    """The data and the split that were used last: the next cell mostly wants the same."""

    def __init__(self, experiment: Experiment) -> None:
        self._experiment = experiment
        self._data: tuple[Any, CalibrationData] | None = None
        self._rows: tuple[Any, Rows] | None = None

    def rows(self, source: DataSource, cell: Asked) -> Rows:
        """Rows that a cell fits and scores."""
        turn = (source.network, cell.partition, cell.split, cell.repeat)
        if self._rows is None or self._rows[0] != turn:
            self._rows = None  # before others of its size are made
            seed = self._experiment.seed + cell.repeat
            self._rows = (turn, _split(self._load(source, cell.repeat), cell, seed))
        return self._rows[1]

    def _load(self, source: DataSource, repeat: int) -> CalibrationData:
        turn = (source.network, repeat if source.varies else None)
        if self._data is None or self._data[0] != turn:
            self._data = None
            data = source.load(self._experiment.seed + repeat)
            for array in ("labels", "domains"):
                if getattr(data, array) is None:
                    raise InputError(f"the data of {source.network!r} have no {array}; add them.")
            self._data = (turn, data)
        return self._data[1]


def _split(data: CalibrationData, cell: Asked, seed: int) -> Rows:
    names, counts = np.unique(np.asarray(data.domains), return_counts=True)
    count = dict(zip(names.tolist(), counts.tolist(), strict=True))
    ind, ood = cell.partition.choose(count, seed=seed)
    rows = data.select(np.isin(np.asarray(data.domains), [*ind, *ood]))
    return Rows.of(*split_rows(rows, ood=ood, by=cell.split, random_state=seed))


def _provenance(experiment: Experiment, networks: list[str]) -> dict[str, Any]:
    versions = {}
    for package in _PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return {
        "experiment": experiment.name,
        "bins": experiment.bins,
        "repeats": experiment.repeats,
        "seed": experiment.seed,
        "splits": list(experiment.splits),
        "data": {
            source.network: source.identity(experiment.seed)
            for source in experiment.sources
            if source.network in networks
        },
        "partitions": [partition.definition() for partition in experiment.partitions],
        "methods": {method.name: method.definition() for method in experiment.methods},
        "versions": versions,
        "python": platform.python_version(),
    }

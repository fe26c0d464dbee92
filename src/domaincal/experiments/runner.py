"""Running an experiment: every cell once, whatever happened before."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from domaincal._tensors import check_device
from domaincal._typing import Track
from domaincal.data import CalibrationData
from domaincal.data.splits import rows_of
from domaincal.errors import DomaincalWarning, InputError
from domaincal.evaluation.protocols import split_rows
from domaincal.experiments.data_sources import DataSource
from domaincal.experiments.experiment import Asked, Experiment, asked_by
from domaincal.experiments.results import Results, write_results
from domaincal.experiments.trial_results import (
    Cell,
    Rows,
    cell_path,
    compute_cell,
    read_cell,
    write_cell,
)


def run_experiment(
    experiment: Experiment,
    folder: str | Path,
    *,
    asked: Sequence[Asked] | None = None,
    track: Track = iter,
    device: Any = "cpu",
) -> Results:
    """Run an experiment, or what of it is not there yet.

    Every method in every repeat of every partition is kept in the folder as soon as it is scored.
    What is there is not fitted again, so a run that was cut off, or asks for more, goes on.

    Parameters
    ----------
    experiment : Experiment
    folder : path
        Gets ``cells/``, results.csv, pooled.csv, means.csv and provenance.json, and ``made/``,
        what sources of data keep; made if it is not there.
    asked : list of Asked, optional
        By default, all that the experiment defines.
    track : callable, optional
        Wraps the list of steps that are left, to show progress, e.g. ``tqdm.tqdm``; and lists of
        steps that make the data.
    device : str or torch.device, default "cpu"
        Where to fit and score, e.g. ``"cuda"``. The results are the same to
        about 1e-6, and cells of an earlier run count whatever device they were made on.

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
    ...     mine = dc.experiments.read_experiment(folder + "/mine.toml")
    ...     results = dc.experiments.run_experiment(mine, folder + "/out")
    >>> results.means()[["kind", "method", "n_domains"]].values.tolist()
    [['InD', 'TS', 4], ['OOD', 'TS', 2], ['InD', 'oracle', 4], ['OOD', 'oracle', 2]]
    """
    check_device(device)
    folder = Path(folder)
    store = folder / "cells"
    store.mkdir(parents=True, exist_ok=True)
    wanted = list(dict.fromkeys(asked_by(experiment) if asked is None else asked))
    sources = _there(experiment)
    identities = {
        (source.network, repeat): source.identity(experiment.seed + repeat)
        for source in sources
        for repeat in (range(experiment.repeats) if source.varies else [0])
    }
    keys = {
        (source.network, cell): _key(experiment, identities, source, cell)
        for source in sources
        for cell in wanted
    }
    # Methods that are written alike are one cell.
    paths = {name: cell_path(store, key) for name, key in keys.items()}
    cells = {
        path: found
        for name, path in paths.items()
        if (found := read_cell(path, keys[name])) is not None
    }
    missing = {path: name for name, path in paths.items() if path not in cells}
    at_hand = _AtHand(experiment, folder / "made", track, device)
    by_network = {source.network: source for source in sources}

    # Repeat by repeat, partition by partition: rows are made and split once.
    def turn(step: tuple[Path, tuple[str, Asked]]) -> tuple[Any, ...]:
        network, cell = step[1]
        return network, cell.repeat, cell.partition.name, cell.split

    for path, (network, cell) in track(sorted(missing.items(), key=turn)):
        with _said_where(network, cell):
            rows = at_hand.rows(by_network[network], cell)
            cells[path] = compute_cell(cell.method, rows, n_bins=experiment.bins)
        write_cell(path, cells[path], keys[network, cell])
    _warn_of_other_rows({name: cells[path] for name, path in paths.items()}, by_network)
    data = {source.network: identities[source.network, 0] for source in sources}
    results = Results(experiment, {name: cells[path] for name, path in paths.items()}, data)
    write_results([results], folder)
    return results


def _there(experiment: Experiment) -> list[DataSource]:
    """Sources whose data are there; a word on the others."""
    absent = [source for source in experiment.sources if source.missing]
    there = [source for source in experiment.sources if not source.missing]
    if not there:
        raise InputError(
            f"no data of {experiment.name!r} are there: looked for "
            f"{', '.join(str(source.path) for source in absent)}; paths are relative to the TOML "
            "file, or to the folder given by --data (data=...)."
        )
    for source in absent:
        warnings.warn(
            f"{source.network} is left out: there is no {source.path}.",
            DomaincalWarning,
            stacklevel=3,
        )
    return there


def _warn_of_other_rows(
    cells: dict[tuple[str, Asked], Cell], sources: dict[str, DataSource]
) -> None:
    """Cells of one network must be of the same rows: it may have been trained again meanwhile."""
    first: dict[tuple[str, int], Cell] = {}
    mixed = {}
    for (network, asked), cell in cells.items():
        if sources[network].path is not None:  # known by the numbers in it
            continue
        rows = (network, asked.repeat if sources[network].varies else 0)
        if cell.provenance != first.setdefault(rows, cell).provenance:
            mixed[network] = True
    if mixed:
        warnings.warn(
            f"results of {', '.join(map(repr, mixed))} are of rows that were made more than once, "
            "and differ: provenance.json tells them apart; remove cells/ to score all of them "
            "anew.",
            DomaincalWarning,
            stacklevel=3,
        )


def _key(
    experiment: Experiment,
    identities: dict[tuple[str, int], dict[str, Any]],
    source: DataSource,
    cell: Asked,
) -> dict[str, Any]:
    """Everything that decides the numbers of a cell."""
    return {
        "data": identities[source.network, cell.repeat if source.varies else 0],
        "partition": cell.partition.definition(),
        "split": cell.split,
        "method": cell.method.definition(),
        "seed": experiment.seed + cell.repeat,
        "bins": experiment.bins,
        "domaincal": version("domaincal"),
    }


@contextmanager
def _said_where(network: str, cell: Asked) -> Iterator[None]:
    """Warnings and errors say which method they are about, and where."""
    place = f"{cell.method.name!r} on {network!r}, {cell.partition.name!r}, repeat {cell.repeat}"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield
        except InputError as error:
            raise InputError(f"{place}: {error}") from error
    for warning in caught:
        warnings.warn(f"{place}: {warning.message}", warning.category, stacklevel=4)


class _AtHand:
    """The data and the split that were used last: the next cell mostly wants the same."""

    def __init__(self, experiment: Experiment, made: Path, track: Track, device: Any) -> None:
        self._experiment = experiment
        self._made = made
        self._track = track
        self._device = device
        self._data: tuple[Any, CalibrationData] | None = None
        self._rows: tuple[Any, Rows] | None = None

    def rows(self, source: DataSource, cell: Asked) -> Rows:
        """Rows that a cell fits and scores."""
        data = self._load(source, cell.repeat)
        _require_needs(source.network, data, cell)
        turn = (source.network, cell.partition, cell.split, cell.repeat)
        if self._rows is None or self._rows[0] != turn:
            self._rows = None  # before others of its size are made
            self._rows = (turn, _split(data, cell, self._experiment.seed + cell.repeat))
        return self._rows[1]

    def _load(self, source: DataSource, repeat: int) -> CalibrationData:
        turn = (source.network, repeat if source.varies else None)
        if self._data is None or self._data[0] != turn:
            self._data = None
            data = source.load(self._experiment.seed + repeat, self._made, self._track)
            self._data = (turn, data.to(self._device))
        return self._data[1]


def _require_needs(network: str, data: CalibrationData, cell: Asked) -> None:
    """Refuse rows that lack what a cell needs, in the words of the definition."""
    needed = {"labels": "", "domains": ""}
    if cell.split == "group":
        needed["groups"] = ', by which splits = ["group"] splits'
    if cell.method.needs_features:
        needed["features"] = (
            f", which {cell.method.text!r} needs; without them, define {cell.method.name} = "
            '"md-ts:features=logits" in [methods]'
        )
    for array, why in needed.items():
        if getattr(data, array) is None:
            raise InputError(f"the data of {network!r} have no {array}{why}.")


def _split(data: CalibrationData, cell: Asked, seed: int) -> Rows:
    codes, names = data.domain_codes
    count = dict(zip(names.tolist(), np.bincount(codes).tolist(), strict=True))
    ind, ood = cell.partition.choose(count, seed=seed)
    rows = data.select(rows_of(data, [*ind, *ood]))
    return Rows.of(*split_rows(rows, ood=ood, by=cell.split, random_state=seed))

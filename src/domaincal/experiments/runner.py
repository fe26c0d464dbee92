"""Runner of experiments: it runs the trials that are not in the cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from domaincal._memory import format_size
from domaincal._tensors import check_device
from domaincal._typing import Track
from domaincal._warnings import handle_warnings, warn_caller
from domaincal.data import CalibrationData
from domaincal.data.splits import rows_in_domains
from domaincal.errors import DomaincalWarning, InputError
from domaincal.evaluation.protocols import split_rows
from domaincal.experiments.data_sources import DataSource
from domaincal.experiments.experiment import Experiment
from domaincal.experiments.result_cache import cache_path, read_result, trial_key, write_result
from domaincal.experiments.results import Results, write_results
from domaincal.experiments.trial_results import SplitData, TrialResult, run_trial
from domaincal.experiments.trials import Trial, trials_of

#: Memory that the bins of all trials of a run may take, in bytes.
_MAX_MEMORY = 1 << 31


def run_experiment(
    experiment: Experiment,
    folder: str | Path,
    *,
    trials: Sequence[Trial] | None = None,
    track: Track = iter,
    device: Any = "cpu",
) -> Results:
    """Run an experiment and write its results to a folder.

    A trial is one method in one repeat of one partition. Its result is written to ``cells/`` as
    soon as it is known, and is read from there the next time. An interrupted run continues where
    it stopped, and a larger run adds only the trials that are missing.

    Parameters
    ----------
    experiment : Experiment
    folder : path
        Folder of the results, created if needed: results.csv, pooled.csv, means.csv,
        provenance.json, ``cells/`` (results of trials) and ``made/`` (files of data sources).
    trials : list of Trial, optional
        Default: all trials of the experiment.
    track : callable, optional
        Wraps the list of trials to run, and the lists of steps that make the data, to show
        progress, e.g. ``tqdm.tqdm``.
    device : str or torch.device, default "cpu"
        Device on which to fit and score, e.g. ``"cuda"``. Results agree between devices to about
        1e-6. A result in ``cells/`` is used whatever device it comes from.

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
    folder = Path(folder)
    results = run_trials(experiment, folder, trials=trials, track=track, device=device)
    write_results([results], folder)
    return results


def run_trials(
    experiment: Experiment,
    folder: Path,
    *,
    trials: Sequence[Trial] | None = None,
    track: Track = iter,
    device: Any = "cpu",
) -> Results:
    """Results of the trials, as :func:`run_experiment`, without the csv files."""
    check_device(device)
    cells = folder / "cells"
    cells.mkdir(parents=True, exist_ok=True)
    _require_regular_files(folder, cells)
    wanted = list(dict.fromkeys(trials_of(experiment) if trials is None else trials))
    sources = {source.network: source for source in _available_sources(experiment)}
    identities = _identities(experiment, sources)
    keys = {
        (network, trial): trial_key(
            experiment, trial, identities[network, _data_repeat(source, trial)]
        )
        for network, source in sources.items()
        for trial in wanted
    }
    # Two names for one method are one trial: they have the same key and the same path.
    paths = {name: cache_path(cells, key) for name, key in keys.items()}
    found = {path: read_result(path, keys[name]) for name, path in paths.items()}
    known = {path: result for path, result in found.items() if result is not None}
    missing = {path: name for name, path in paths.items() if path not in known}
    cache = _DataCache(experiment, folder / "made", track, device)
    for path, (network, trial) in track(sorted(missing.items(), key=_data_order)):
        with _trial_named_in_messages(network, trial):
            data = cache.split_data(sources[network], trial)
            _require_memory(data, n_bins=experiment.n_bins, n_trials=len(found))
            known[path] = run_trial(trial.method, data, n_bins=experiment.n_bins)
        write_result(path, known[path], keys[network, trial])
    results = {name: known[path] for name, path in paths.items()}
    _warn_of_mixed_data(results, sources)
    return Results(experiment, results, {network: identities[network, 0] for network in sources})


def _require_regular_files(*folders: Path) -> None:
    """Refuse pipes, and links, through which results would replace a file elsewhere."""
    for folder in folders:
        for path in folder.iterdir():
            if (path.is_symlink() and not path.is_dir()) or path.is_fifo():
                raise InputError(
                    f"{path} is a link or a pipe; remove it, or choose another folder for the "
                    "results."
                )


def _require_memory(data: SplitData, *, n_bins: int, n_trials: int) -> None:
    """Refuse results whose bins, which stay in memory for all trials, need too much of it."""
    n_domains = sum(len(scored.domain_names) for scored in data.scored.values())
    needed = n_trials * n_domains * 3 * n_bins * 8
    if needed > _MAX_MEMORY:
        raise InputError(
            f"{n_trials} trials with {n_domains} domains and n_bins={n_bins} take about "
            f"{format_size(needed)} of memory, more than {format_size(_MAX_MEMORY)}; lower n_bins "
            "or repeats, or run fewer networks at a time."
        )


def _available_sources(experiment: Experiment) -> list[DataSource]:
    """Sources whose data exist; warns about the others."""
    absent = [source for source in experiment.sources if source.is_missing]
    available = [source for source in experiment.sources if not source.is_missing]
    if not available:
        raise InputError(
            f"the data of {experiment.name!r} do not exist: there is no "
            f"{' and no '.join(str(source.path) for source in absent)}; paths are relative to the "
            "TOML file, or to the folder given by --data (data=...)."
        )
    for source in absent:
        warn_caller(f"{source.network} is left out: there is no {source.path}.", DomaincalWarning)
    return available


def _data_repeat(source: DataSource, trial: Trial) -> int:
    """The repeat whose data a trial uses: the first, unless each repeat has its own."""
    return trial.repeat if source.varies else 0


def _identities(
    experiment: Experiment, sources: dict[str, DataSource]
) -> dict[tuple[str, int], dict[str, Any]]:
    """Identity of the data of each network and repeat."""
    return {
        (network, repeat): source.identity(experiment.random_state + repeat)
        for network, source in sources.items()
        for repeat in (range(experiment.repeats) if source.varies else [0])
    }


def _data_order(item: tuple[Path, tuple[str, Trial]]) -> tuple[Any, ...]:
    """Sort key that brings trials of the same data and split together, so as to load them once."""
    network, trial = item[1]
    return network, trial.repeat, trial.partition.name, trial.split


def _warn_of_mixed_data(
    results: dict[tuple[str, Trial], TrialResult], sources: dict[str, DataSource]
) -> None:
    """Warn where results of one network come from different data, e.g. after another training."""
    first: dict[tuple[str, int], TrialResult] = {}
    mixed = {}
    for (network, trial), result in results.items():
        if sources[network].path is not None:  # files are identified by their numbers
            continue
        data = (network, _data_repeat(sources[network], trial))
        if result.provenance != first.setdefault(data, result).provenance:
            mixed[network] = True
    if mixed:
        warn_caller(
            f"results of {', '.join(map(repr, mixed))} come from data that were made more than "
            "once and differ; provenance.json lists them. To score all methods on the same data, "
            "remove cells/ and run again.",
            DomaincalWarning,
        )


@contextmanager
def _trial_named_in_messages(network: str, trial: Trial) -> Iterator[None]:
    """Put the method, network, partition and repeat in front of warnings and errors."""
    place = f"{trial.method.name!r} on {network!r}, {trial.partition.name!r}, repeat {trial.repeat}"

    def warn(message: str, category: type[Warning]) -> None:
        warn_caller(f"{place}: {message}", category)

    try:
        with handle_warnings(warn):
            yield
    except InputError as error:
        raise InputError(f"{place}: {error}") from error


class _DataCache:
    """Cache of the data and of the split that were used last: the next trial mostly needs them."""

    def __init__(self, experiment: Experiment, folder: Path, track: Track, device: Any) -> None:
        self._experiment = experiment
        self._folder = folder
        self._track = track
        self._device = device
        self._data: tuple[Any, CalibrationData] | None = None
        self._split: tuple[Any, SplitData] | None = None

    def split_data(self, source: DataSource, trial: Trial) -> SplitData:
        """The split that a trial fits and scores."""
        data = self._load(source, trial)
        _require_arrays(source.network, data, trial)
        key = (source.network, trial.partition, trial.split, trial.repeat)
        if self._split is None or self._split[0] != key:
            self._split = None  # free the memory before the next split is made
            self._split = (key, _split(data, trial, self._experiment.random_state + trial.repeat))
        return self._split[1]

    def _load(self, source: DataSource, trial: Trial) -> CalibrationData:
        repeat = _data_repeat(source, trial)
        key = (source.network, repeat)
        if self._data is None or self._data[0] != key:
            self._data = None
            random_state = self._experiment.random_state + repeat
            data = source.load(random_state, self._folder, self._track)
            _require_names_that_csv_can_hold(source.network, data)
            self._data = (key, data.to(self._device))
        return self._data[1]


def _require_names_that_csv_can_hold(network: str, data: CalibrationData) -> None:
    names = [] if data.domains is None else data.domain_names.tolist()
    wrong = next((name for name in names if isinstance(name, str) and "\r" in name), None)
    if wrong is not None:
        raise InputError(
            f"the data of {network!r} have the domain {wrong!r}, which results.csv cannot hold; "
            "rename it."
        )


def _require_arrays(network: str, data: CalibrationData, trial: Trial) -> None:
    """Refuse data without an array that the trial needs."""
    needed = {"labels": "", "domains": ""}
    if trial.split == "group":
        needed["groups"] = ', which splits = ["group"] needs'
    if trial.method.needs_features:
        needed["features"] = (
            f", which {trial.method.text!r} needs; without them, write {trial.method.name} = "
            '"md-ts:features=logits" in [methods]'
        )
    for array, reason in needed.items():
        if getattr(data, array) is None:
            raise InputError(f"the data of {network!r} have no {array}{reason}.")


def _split(data: CalibrationData, trial: Trial, random_state: int) -> SplitData:
    codes, names = data.domain_codes
    counts = dict(zip(names.tolist(), np.bincount(codes).tolist(), strict=True))
    ind, ood = trial.partition.choose(counts, random_state=random_state)
    rows = data.select(rows_in_domains(data, [*ind, *ood]))
    train, scored = split_rows(rows, ood=ood, by=trial.split, random_state=random_state)
    return SplitData.with_oracles(train, scored)

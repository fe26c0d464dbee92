"""Make targets: run their trials, and write tables, figures and results.csv to a folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from domaincal._files import atomic_file
from domaincal._typing import Track
from domaincal.errors import InputError
from domaincal.experiments.experiment import Experiment
from domaincal.experiments.figures import save_figure
from domaincal.experiments.paper_tables import ResultTable
from domaincal.experiments.results import Results, write_results
from domaincal.experiments.runner import run_trials
from domaincal.experiments.targets import Target, select_targets
from domaincal.experiments.verdicts import verdicts


@dataclass(frozen=True)
class TargetOutput:
    """Output of a target: its files, table and sentences.

    Attributes
    ----------
    target : Target
    files : tuple of Path
        Files that were written.
    table : ResultTable or None
        None for a figure.
    sentences : tuple of str
        Verdicts, for the summary.
    """

    target: Target
    files: tuple[Path, ...]
    table: ResultTable | None
    sentences: tuple[str, ...]


def reproduce(
    names: Sequence[str],
    experiments: Sequence[Experiment],
    folder: str | Path,
    *,
    figures: bool = True,
    track: Track = iter,
    device: Any = "cpu",
) -> tuple[list[TargetOutput], list[Results]]:
    """Run the trials of the targets, and write the targets to a folder.

    Parameters
    ----------
    names : list of str
        Names of targets. ``"all"`` stands for those whose partitions the experiments have.
    experiments : list of Experiment
    folder : path
        Folder of the output: tables as .txt, .md, .tex and .csv, figures as .png and .svg, and the
        files of :func:`run_experiment`.
    figures : bool, default True
        Whether to draw figures. If not, they are left out.
    track : callable, optional
        Wraps the list of trials to run, to show progress.
    device : str or torch.device, default "cpu"
        Device on which to fit and score; see :func:`run_experiment`.

    Returns
    -------
    outputs : list of TargetOutput
    results : list of Results
        One for each experiment that has trials of the targets.
    """
    folder = Path(folder)
    _require_unique_names(experiments)
    targets = [t for t in select_targets(names, experiments) if figures or t.is_table]
    if not targets:
        raise InputError("the targets are all figures; add a table, or pass figures=True.")
    runs = []
    for experiment in experiments:
        trials = [trial for target in targets for trial in target.trials(experiment)]
        if trials:
            runs.append(run_trials(experiment, folder, trials=trials, track=track, device=device))
    write_results(runs, folder)
    return [_make_target(target, runs, folder) for target in targets], runs


def _require_unique_names(experiments: Sequence[Experiment]) -> None:
    names = [experiment.name for experiment in experiments]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"two experiments have the name {twice!r}; rename one of them.")


def _make_target(target: Target, runs: Sequence[Results], folder: Path) -> TargetOutput:
    """Make a table or a figure from the trials that it needs, and write its files."""
    selected = [run.only(target.trials(run.experiment)) for run in runs]
    selected = [run for run in selected if run.trial_results]
    made = target.make(selected)
    if not target.is_table:
        return TargetOutput(target, tuple(save_figure(made, folder / target.name)), None, ())
    sentences = [s for run in selected for s in verdicts(run)] if target.name == "summary" else []
    files = _write_table(made, folder / target.name, sentences)
    return TargetOutput(target, files, made, tuple(sentences))


def _write_table(table: ResultTable, path: Path, sentences: Sequence[str]) -> tuple[Path, ...]:
    """Write a table in its four formats."""
    text = "".join(f"{sentence}\n" for sentence in sentences)
    contents = {
        ".txt": table.printed.text() + text,
        ".md": table.printed.markdown() + "".join(f"\n{sentence}\n" for sentence in sentences),
        ".tex": table.printed.latex(),
        ".csv": table.numbers.to_csv(index=False, float_format="%.6g"),
    }
    for suffix, content in contents.items():
        with atomic_file(path.with_suffix(suffix)) as file:
            file.write(content.encode())
    return tuple(path.with_suffix(suffix) for suffix in contents)

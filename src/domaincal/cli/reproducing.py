"""What ``domaincal reproduce`` and ``domaincal demo`` run and print."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from domaincal._errors import InputError, MissingDependencyError
from domaincal._optional import require
from domaincal.cli.console import emit, print_json, progress, records, say
from domaincal.experiments import Experiment
from domaincal.experiments.definition import SHIPPED
from domaincal.experiments.targets import TARGETS, Made, reproduce


def print_targets(*, as_json: bool) -> None:
    """What can be made."""
    if as_json:
        print_json("targets", {
            "targets": {target.name: target.about for target in TARGETS.values()},
            "experiments": list(SHIPPED),
        })  # fmt: skip
        return
    width = max(map(len, TARGETS))
    for target in TARGETS.values():
        emit(f"{target.name:{width}}  {target.about}")
    emit(f"{'all':{width}}  all for which the experiments have what is needed")
    say(f"Experiments: {', '.join(SHIPPED)}, or a TOML file of your own.")


def make_and_print(
    names: Sequence[str],
    experiments: Sequence[Experiment],
    output: Path,
    *,
    kind: str,
    as_json: bool,
    form: str = "text",
    device: str | None = None,
) -> None:
    """Make the targets, print the tables, and say which files there are."""
    _require_own(output)
    figures = _can_draw(names)
    with progress("fitting and scoring", within="making the data") as track:
        made, runs = reproduce(
            names, experiments, output, figures=figures, track=track, device=device
        )
    if as_json:
        print_json(kind, {
            "output": str(output),
            "provenance": [run.provenance for run in runs],
            "targets": {
                m.target.name: {
                    "files": [str(path) for path in m.files],
                    "numbers": None if m.table is None else records(m.table.numbers),
                    "sentences": list(m.sentences),
                }
                for m in made
            },
        })  # fmt: skip
        return
    for m in made:
        _print_table(m, form)
    # A table that goes on to another program is not followed by words.
    _print_files(made, output, figures=figures, err=form != "text")


def _print_files(made: Sequence[Made], output: Path, *, figures: bool, err: bool) -> None:
    """Which files there are, and which to open first."""
    drawn = [m.files[0] for m in made if m.table is None]
    if drawn:
        names = ", ".join(path.name for path in drawn)
        say(f"Figures in {output}: {names}, and the same as .svg.", err=err)
    if not figures:
        say("warning: figures are left out, for want of matplotlib: pip install "
            "'domaincal[plots]'.", err=True)  # fmt: skip
    first = drawn[0] if drawn else made[0].files[0]
    say(f"Open {first}; results.csv in {output} has every method in every domain, means.csv the "
        "means with all scores.", err=err)  # fmt: skip


def _print_table(made: Made, form: str) -> None:
    if made.table is None:
        return
    if form == "text":
        printed = made.table.printed
        emit(replace(printed, notes=()).text().rstrip())
        for text in (*printed.notes, "", *made.sentences, ""):
            say(text) if text else emit("")
    elif form == "csv":
        emit(made.table.numbers.to_csv(index=False, float_format="%.6g").rstrip())
    else:
        emit(getattr(made.table.printed, form)())


def _require_own(output: Path) -> None:
    """A new folder, or what an earlier run has kept: other files are not mixed with ours."""
    if output.exists() and not output.is_dir():
        raise InputError(f"{output} is no folder; choose another name.")
    ours = any((output / name).is_dir() for name in ("cells", "made"))
    if output.is_dir() and any(output.iterdir()) and not ours:
        raise InputError(f"{output} holds other files; choose a new or empty folder.")


def _can_draw(names: Sequence[str]) -> bool:
    """Whether figures can be drawn here; an error where nothing else is asked for."""
    try:
        require("matplotlib", extra="plots", purpose="drawing")
    except MissingDependencyError:
        if all(name in TARGETS and not TARGETS[name].is_table for name in names):
            raise
        return False
    return True

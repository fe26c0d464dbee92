"""``domaincal reproduce``."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from domaincal.cli.options import json_option, results_option

if TYPE_CHECKING:
    from domaincal.experiments import Experiment
    from domaincal.experiments.targets import Made


@click.command(short_help="The paper's tables and figures; experiments of your own.")
@click.argument("targets", nargs=-1)
@click.option("--list", "listing", is_flag=True, help="List what can be made, and stop.")
@click.option(
    "--experiment", "experiments", multiple=True, default=["digits-c"], show_default=True,
    help="A TOML file, or digits-c, tiny-imagenet-c, tiny-imagenet-c-mild, imagenet-c, rxrx1 or "
    "gldv2. Can be repeated.",
)  # fmt: skip
@click.option(
    "--data", type=click.Path(path_type=Path),
    help="The folder of the data that the experiments name. [default: that of the TOML file]",
)  # fmt: skip
@click.option(
    "--network", "networks", multiple=True,
    help="Only this network of the experiments. Can be repeated. [default: all]",
)  # fmt: skip
@click.option("--repeats", type=click.IntRange(min=1), help="In place of what the experiments say.")
@click.option(
    "--format", "form", type=click.Choice(["text", "markdown", "latex", "csv"]), default="text",
    show_default=True, help="How tables are printed; all four are written.",
)  # fmt: skip
@click.option(
    "--device",
    default="cpu",
    show_default=True,
    help="Where to fit and score, e.g. cuda (extra torch).",
)
@results_option("domaincal-results")
@json_option
def reproduce(
    targets: tuple[str, ...],
    listing: bool,
    experiments: tuple[str, ...],
    data: Path | None,
    networks: tuple[str, ...],
    repeats: int | None,
    form: str,
    device: str,
    output: Path,
    as_json: bool,
) -> None:
    """Make tables and figures of experiments: those of the paper, and overviews.

    TARGETS are names that --list shows, or all. What was scored before is not fitted again, so what
    was cut off goes on. By default they are made of the embedded benchmark, digits-c.

    \b
    Examples:
      domaincal reproduce --list
      domaincal reproduce table-1 figure-3
      domaincal reproduce all --experiment imagenet-c --data stores
      domaincal reproduce all --experiment tiny-imagenet-c --data tiny-imagenet-200 \\
          --network ResNet-50
      domaincal reproduce summary --experiment mine.toml -o out
    """
    from dataclasses import replace

    from domaincal.experiments import read_experiment
    from domaincal.experiments.experiment import only_networks

    if listing:
        _print_targets(as_json=as_json)
        return
    if not targets:
        raise click.UsageError("name a target, or all; --list shows them.")
    read = [read_experiment(experiment, data=data) for experiment in experiments]
    if networks:
        read = only_networks(read, networks)
    if repeats is not None:
        read = [replace(experiment, repeats=repeats) for experiment in read]
    make_and_print(
        targets, read, output, kind="reproduction", as_json=as_json, form=form, device=device
    )


def _print_targets(*, as_json: bool) -> None:
    """List the targets and the experiments that ship with domaincal."""
    from domaincal.cli.console import emit, print_json, say
    from domaincal.experiments.experiment import SHIPPED
    from domaincal.experiments.targets import TARGETS

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
    experiments: "Sequence[Experiment]",
    output: Path,
    *,
    kind: str,
    as_json: bool,
    form: str = "text",
    device: str = "cpu",
) -> None:
    """Make the targets, print the tables, and say which files were written."""
    from domaincal.cli.console import print_json, progress, records
    from domaincal.experiments.targets import reproduce as make_targets

    _require_own(output)
    figures = _can_draw(names)
    with progress("fitting and scoring", within="making the data") as track:
        made, runs = make_targets(
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


def _print_files(made: "Sequence[Made]", output: Path, *, figures: bool, err: bool) -> None:
    """Say which files were written, and which one to open first."""
    from domaincal.cli.console import say

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


def _print_table(made: "Made", form: str) -> None:
    from dataclasses import replace

    from domaincal.cli.console import emit, say

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
    """Refuse a folder that holds files of something else."""
    from domaincal.errors import InputError

    if output.exists() and not output.is_dir():
        raise InputError(f"{output} is no folder; choose another name.")
    ours = any((output / name).is_dir() for name in ("cells", "made"))
    if output.is_dir() and any(output.iterdir()) and not ours:
        raise InputError(f"{output} holds other files; choose a new or empty folder.")


def _can_draw(names: Sequence[str]) -> bool:
    """Whether matplotlib is installed; an error where nothing but figures is asked for."""
    from domaincal._optional import require
    from domaincal.errors import MissingDependencyError
    from domaincal.experiments.targets import TARGETS

    try:
        require("matplotlib", extra="plots", purpose="drawing")
    except MissingDependencyError:
        if all(name in TARGETS and not TARGETS[name].is_table for name in names):
            raise
        return False
    return True

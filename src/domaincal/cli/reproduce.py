"""``domaincal reproduce``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from domaincal.cli.options import json_option, max_memory_option, results_option

if TYPE_CHECKING:
    from domaincal.experiments import Experiment
    from domaincal.experiments.reproduce import TargetOutput


@click.command(short_help="Make the paper's tables and figures, or those of your experiments.")
@click.argument("targets", nargs=-1)
@click.option("--list", "listing", is_flag=True, help="List the targets and exit.")
@click.option(
    "--experiment", "experiments", multiple=True, default=["digits-c"], show_default=True,
    help="A TOML file, or digits-c, tiny-imagenet-c, tiny-imagenet-c-mild, imagenet-c, rxrx1 or "
    "gldv2. Can be given several times.",
)  # fmt: skip
@click.option("--allow-code", is_flag=True, help="Run the Python files that the experiments name.")
@click.option(
    "--data", type=click.Path(path_type=Path),
    help="Folder of the data files. [default: the folder of the TOML file]",
)  # fmt: skip
@click.option(
    "--network", "networks", multiple=True,
    help="Run only this network. Can be given several times. [default: all]",
)  # fmt: skip
@click.option(
    "--repeats", type=click.IntRange(min=1),
    help="Number of repeats. [default: that of the experiment]",
)  # fmt: skip
@click.option(
    "--format", "table_format", type=click.Choice(["text", "markdown", "latex", "csv"]),
    default="text", show_default=True,
    help="Format of printed tables; files are written in all four formats.",
)  # fmt: skip
@click.option(
    "--device",
    default="cpu",
    show_default=True,
    help="Device on which to fit and score, e.g. cuda (extra torch).",
)
@max_memory_option
@results_option("domaincal-results")
@json_option
def reproduce(
    targets: tuple[str, ...],
    listing: bool,
    experiments: tuple[str, ...],
    allow_code: bool,
    data: Path | None,
    networks: tuple[str, ...],
    repeats: int | None,
    table_format: str,
    device: str,
    max_memory: int | None,
    output: Path,
    as_json: bool,
) -> None:
    """Make tables and figures of experiments: those of the paper, and overviews.

    TARGETS are the names that --list shows, or all. The default experiment is the embedded
    benchmark, digits-c. Results that are in the output folder are used again, so that an
    interrupted run continues.

    \b
    Examples:
      domaincal reproduce --list
      domaincal reproduce table-1 figure-3
      domaincal reproduce all --experiment imagenet-c --data stores
      domaincal reproduce all --experiment tiny-imagenet-c \\
          --data tiny-imagenet-200 --network ResNet-50
      domaincal reproduce summary --experiment mine.toml -o out
      domaincal reproduce summary --experiment with-code.toml --allow-code -o out
    """
    from dataclasses import replace

    from domaincal.experiments import read_experiment
    from domaincal.experiments.experiment import select_networks

    if listing:
        _print_targets(as_json=as_json)
        return
    if not targets:
        raise click.UsageError("TARGETS is empty; name a target, or all. --list shows them.")
    read = [
        read_experiment(path, data=data, allow_code=allow_code, max_memory=max_memory)
        for path in experiments
    ]
    if networks:
        read = select_networks(read, networks)
    if repeats is not None:
        read = [replace(experiment, repeats=repeats) for experiment in read]
    make_and_print(
        targets, read, output, document="reproduction", as_json=as_json,
        table_format=table_format, device=device,
    )  # fmt: skip


def _print_targets(*, as_json: bool) -> None:
    """List the targets, and the experiments that come with domaincal."""
    from domaincal.cli.console import print_json, say
    from domaincal.experiments.experiment_file import SHIPPED_EXPERIMENTS
    from domaincal.experiments.targets import TARGETS

    if as_json:
        print_json("targets", {
            "targets": {target.name: target.about for target in TARGETS.values()},
            "experiments": list(SHIPPED_EXPERIMENTS),
        })  # fmt: skip
        return
    width = max(map(len, TARGETS))
    for target in TARGETS.values():
        say(f"{target.name:{width}}  {target.about}", indent=" " * (width + 2))
    say(f"{'all':{width}}  all targets whose partitions the experiments have")
    say(f"Experiments: {', '.join(SHIPPED_EXPERIMENTS)}, or a TOML file of your own.")


def make_and_print(
    names: Sequence[str],
    experiments: Sequence[Experiment],
    output: Path,
    *,
    document: str,
    as_json: bool,
    table_format: str = "text",
    device: str = "cpu",
) -> None:
    """Make the targets, print the tables, and list the files that were written."""
    from domaincal.cli.console import print_json, progress, records
    from domaincal.experiments.reproduce import reproduce as make_targets

    _require_results_folder(output)
    figures = _can_draw_figures(names)
    with progress("fitting and scoring", within="making the data") as track:
        made, runs = make_targets(
            names, experiments, output, figures=figures, track=track, device=device
        )
    if as_json:
        print_json(document, {
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
        _print_table(m, table_format)
    # Other formats are for other programs: stdout gets the tables only.
    _print_files(made, output, figures=figures, err=table_format != "text")


def _print_table(made: TargetOutput, table_format: str) -> None:
    """Print a table and its sentences; nothing for a figure."""
    from domaincal.cli.console import displayed, emit, output_width, say

    if made.table is None:
        return
    if table_format == "text":
        printed = made.table.printed
        emit("\n".join(printed.text_lines(output_width(), displayed)))
        for text in (*printed.legend(), "", *made.sentences, ""):
            say(text) if text else emit("")
    elif table_format == "csv":
        emit(made.table.numbers.to_csv(index=False, float_format="%.6g").rstrip())
    else:
        emit(getattr(made.table.printed, table_format)())


def _print_files(made: Sequence[TargetOutput], output: Path, *, figures: bool, err: bool) -> None:
    """List the figures, and name the file to open first."""
    from domaincal.cli.console import say

    drawn = [m.files[0] for m in made if m.table is None]
    if drawn:
        names = ", ".join(path.name for path in drawn)
        say(f"Figures in {output}: {names}; each also as .svg.", err=err)
    if not figures:
        say("warning: figures are left out, because matplotlib is not installed: pip install "
            "'domaincal[plots]'.", err=True)  # fmt: skip
    first = drawn[0] if drawn else made[0].files[0]
    say(f"Open {first}. {output}/results.csv has the scores of every method in every domain, "
        "means.csv their means over domains.", err=err)  # fmt: skip


def _require_results_folder(output: Path) -> None:
    """Refuse a folder that has files, but not those of an earlier run."""
    from domaincal.errors import InputError

    if output.exists() and not output.is_dir():
        raise InputError(f"{output} is not a folder; choose another output.")
    has_results = any((output / name).is_dir() for name in ("cells", "made"))
    if output.is_dir() and any(output.iterdir()) and not has_results:
        raise InputError(f"{output} holds other files; choose a new or empty folder.")


def _can_draw_figures(names: Sequence[str]) -> bool:
    """Whether matplotlib is installed; without it, refuse targets that are all figures."""
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

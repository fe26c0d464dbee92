"""``domaincal demo``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from domaincal.cli.options import json_option, results_option, seed_option

if TYPE_CHECKING:
    from domaincal.experiments import Experiment


@click.command(short_help="Compare MSP, TS and MD-TS on corrupted digits.")
@seed_option
@click.option(
    "--repeats", type=click.IntRange(min=1), default=5, show_default=True,
    help="Number of repeats; each trains a network with its own seed.",
)  # fmt: skip
@click.option("--heads", is_flag=True, help="Add the other heads of MD-TS (slow).")
@click.option("--binning", is_flag=True, help="Add the binning methods.")
@results_option("domaincal-demo")
@json_option
@click.pass_context
def demo(
    context: click.Context,
    seed: int,
    repeats: int,
    heads: bool,
    binning: bool,
    output: Path,
    as_json: bool,
) -> None:
    """Compare MSP, TS, MD-TS and an oracle on digits under 75 corruptions, seen and unseen.

    Each repeat trains a small network on half of scikit-learn's digits, corrupts the other half,
    calibrates on some domains and scores all of them. The default takes about a minute.

    \b
    Examples:
      domaincal demo
      domaincal demo --binning -o out
    """
    from domaincal.cli.command_text import command_text
    from domaincal.cli.reproduce import make_and_print
    from domaincal.experiments.demo import DEMO_TARGETS, demo_experiment

    experiment = demo_experiment(random_state=seed, repeats=repeats, heads=heads, binning=binning)
    make_and_print(DEMO_TARGETS, [experiment], output, document="demo", as_json=as_json)
    _write_page(experiment, output, command_text(context), as_json=as_json)


def _write_page(experiment: Experiment, output: Path, command: str, *, as_json: bool) -> None:
    """Write report.html; without its packages, say how to get them."""
    from domaincal.cli.console import progress, say, working
    from domaincal.errors import MissingDependencyError
    from domaincal.experiments.demo import DEMO_TITLE, corruption_report, demo_data
    from domaincal.report.make_report import require_page

    path = output / "report.html"
    try:
        require_page(path)
    except MissingDependencyError as error:
        say(f"warning: {error}", err=True)
        return
    with progress("making the data of the page") as track:
        data = demo_data(experiment, output, track)
    with working(f"computing {path}"):
        made = corruption_report(
            data, title=DEMO_TITLE, random_state=experiment.random_state, command=command
        )
        made.save(path)
    # stdout has one JSON document, or the tables first.
    say(f"Open {path} in a browser: {made.contents['verdict']['headline']}", err=as_json)

"""``domaincal demo``."""

from __future__ import annotations

from pathlib import Path

import click

from domaincal.cli.options import json_option, results_option, seed_option


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
def demo(seed: int, repeats: int, heads: bool, binning: bool, output: Path, as_json: bool) -> None:
    """Compare MSP, TS, MD-TS and an oracle on digits under 75 corruptions, seen and unseen.

    Each repeat trains a small network on half of scikit-learn's digits, corrupts the other half,
    calibrates on some domains and scores all of them. The default takes about a minute.

    \b
    Examples:
      domaincal demo
      domaincal demo --binning -o out
    """
    from domaincal.cli.reproduce import make_and_print
    from domaincal.experiments.demo import DEMO_TARGETS, demo_experiment

    experiment = demo_experiment(random_state=seed, repeats=repeats, heads=heads, binning=binning)
    make_and_print(DEMO_TARGETS, [experiment], output, document="demo", as_json=as_json)

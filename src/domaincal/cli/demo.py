"""``domaincal demo``."""

from pathlib import Path

import click

from domaincal.cli.options import json_option, results_option, seed_option


@click.command(short_help="The benchmark: MSP, TS, MD-TS on corrupted digits.")
@seed_option
@click.option(
    "--repeats", type=click.IntRange(min=1), default=5, show_default=True,
    help="Networks, each with a seed of its own.",
)  # fmt: skip
@click.option("--heads", is_flag=True, help="Also the other heads of MD-TS; takes long.")
@click.option("--binning", is_flag=True, help="Also the binning methods.")
@results_option("domaincal-demo")
@json_option
def demo(seed: int, repeats: int, heads: bool, binning: bool, output: Path, as_json: bool) -> None:
    """Compare MSP, TS, MD-TS and an oracle on digits under 75 corruptions, seen and unseen.

    Trains a small network on half of scikit-learn's digits, corrupts the other half, calibrates on
    some domains and scores all of them, five times; takes about a minute.

    \b
    Examples:
      domaincal demo
      domaincal demo --binning -o out
    """
    from domaincal.cli.reproduce import make_and_print
    from domaincal.experiments.demo import TARGETS, demo_experiment

    experiment = demo_experiment(seed=seed, repeats=repeats, heads=heads, binning=binning)
    make_and_print(TARGETS, [experiment], output, kind="demo", as_json=as_json)

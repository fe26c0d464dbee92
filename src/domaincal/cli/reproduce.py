"""``domaincal reproduce``."""

from pathlib import Path

import click

from domaincal.cli.options import json_option, results_option


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
    "--device", help="Where to fit and score, e.g. cuda (extra torch). [default: the CPU]"
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
    device: str | None,
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

    from domaincal.cli.reproducing import make_and_print, print_targets
    from domaincal.experiments import read_experiment
    from domaincal.experiments.definition import only_networks

    if listing:
        print_targets(as_json=as_json)
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

"""Entry point ``domaincal`` and its verbs; heavy packages are imported inside them."""

import click


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="domaincal")
def main() -> None:
    """Confidence that means what it says, in every domain and in the next one."""


@main.command()
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True,
    help="Seed of the synthetic data.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the results table as JSON.")
def demo(seed: int, as_json: bool) -> None:
    """Compare MSP, TS and MD-TS on synthetic domains, seen and unseen.

    Example: domaincal demo --seed 1
    """
    from domaincal.cli.tables import print_demo
    from domaincal.experiments.demo import run_demo

    result = run_demo(seed)
    if as_json:
        click.echo(result.table.to_json(orient="records", indent=1))
    else:
        print_demo(result)

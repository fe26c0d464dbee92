"""``domaincal demo``."""

from pathlib import Path

import click

from domaincal.cli.options import force_option, json_option, output_option, seed_option


@click.command(short_help="MSP, TS and MD-TS on synthetic domains.")
@seed_option
@output_option(
    required=False, text="Write the synthetic rows to a file, to try the other verbs on."
)
@force_option
@json_option
def demo(seed: int, output: Path | None, force: bool, as_json: bool) -> None:
    """Compare MSP, TS and MD-TS on synthetic domains, seen and unseen.

    \b
    Examples:
      domaincal demo
      domaincal demo -o scores.npz
    """
    from domaincal.cli.console import print_json, records, say
    from domaincal.cli.options import require_output, size_of
    from domaincal.cli.tables import print_demo
    from domaincal.experiments.demo import demo_data, run_demo
    from domaincal.io import write
    from domaincal.io.formats import require_writable_format
    from domaincal.selection import summary_table

    if output is not None:
        require_writable_format(output)
        require_output(output, force=force)
    result = run_demo(seed)
    if output is not None:
        write(demo_data(seed)[0], output)
    if as_json:
        print_json(
            "demo",
            {
                "seed": seed,
                "table": records(result.table),
                "means": records(summary_table(result.table)),
                "output": None if output is None else str(output),
            },
        )
        return
    print_demo(result)
    if output is not None:
        say(f"The rows are in {output} ({size_of(output)}).")

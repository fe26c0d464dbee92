"""``domaincal convert``."""

from __future__ import annotations

from pathlib import Path

import click

from domaincal.cli.options import (
    DATA_HELP,
    force_option,
    json_option,
    max_memory_option,
    probabilities_option,
)


@click.command(
    short_help="Convert a file to another format, or append it to a store.", epilog=DATA_HELP
)
@click.argument("source", type=click.Path(path_type=Path))
@click.argument("output", type=click.Path(path_type=Path))
@probabilities_option
@click.option("--domain", help="Domain of all rows; for files with one site each.")
@click.option(
    "--append", is_flag=True, help="Append the rows to a store; a missing one is created."
)
@max_memory_option
@force_option
@json_option
def convert(
    source: Path,
    output: Path,
    probabilities: bool,
    domain: str | None,
    append: bool,
    max_memory: int | None,
    force: bool,
    as_json: bool,
) -> None:
    """Read rows from SOURCE and write them to OUTPUT.

    OUTPUT is .npz, .parquet or .csv. Without a suffix it is a store, a folder to which rows can be
    appended.

    \b
    Examples:
      domaincal convert scores.csv scores.parquet
      domaincal convert site-a.csv all --domain site-a --append
    """
    from domaincal import io
    from domaincal.cli.console import print_json, say, working
    from domaincal.cli.options import claimed, described, size_of
    from domaincal.io.formats import require_writable_format

    require_writable_format(output)
    with claimed(output, force=force, grows=append), working(f"converting {source}"):
        data = io.convert(
            source, output, probabilities=probabilities, domain=domain, append=append,
            max_memory=max_memory,
        )  # fmt: skip
    if as_json:
        print_json("conversion", {"output": str(output), "data": described(source, data)})
        return
    rows = f"{len(data)} rows"
    if append:
        rows += f", {len(io.Store(output))} in total"
    say(f"{source} to {output}: {rows}, {size_of(output)}")

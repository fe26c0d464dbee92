"""``domaincal convert``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from domaincal.cli.column_options import column_options
from domaincal.cli.options import (
    DATA_HELP,
    force_option,
    json_option,
    max_memory_option,
)

if TYPE_CHECKING:
    from domaincal.data.column_choice import ColumnChoice


@click.command(
    short_help="Convert a file to another format, or append it to a store.", epilog=DATA_HELP
)
@click.argument("source", type=click.Path(path_type=Path))
@click.argument("output", type=click.Path(path_type=Path))
@column_options
@click.option("--set-domain", metavar="NAME", help="Domain of all rows; for files of one site.")
@click.option(
    "--append", is_flag=True, help="Append the rows to a store; a missing one is created."
)
@max_memory_option
@force_option
@json_option
def convert(
    source: Path,
    output: Path,
    columns: ColumnChoice,
    set_domain: str | None,
    append: bool,
    max_memory: int | None,
    force: bool,
    as_json: bool,
) -> None:
    """Read rows from SOURCE and write them to OUTPUT.

    OUTPUT is .npz, .parquet, .csv or .csv.gz. Without a suffix it is a store, a folder to
    which rows can be appended.

    \b
    Examples:
      domaincal convert scores.csv scores.parquet
      domaincal convert site-a.csv all --set-domain site-a --append
    """
    from dataclasses import replace

    from domaincal import io
    from domaincal.cli.console import print_json, say, working
    from domaincal.cli.options import claimed, described, read_input, size_of
    from domaincal.io.formats import require_writable_format, warn_of_ignored, write_converted

    require_writable_format(output, append=append)
    with claimed(output, force=force, grows=append):
        rows = read_input(source, columns, max_memory=max_memory)
        warn_of_ignored(rows.path, rows.ignored, output)
        with working(f"writing {output}"):
            data = write_converted(rows.data, output, set_domain=set_domain, append=append)
    if as_json:
        content = {"output": str(output), "data": described(replace(rows, data=data))}
        print_json("conversion", content)
        return
    written = f"{len(data)} rows"
    if append:
        written += f", {len(io.Store(output))} in total"
    say(f"{rows.path} to {output}: {written}, {size_of(output)}")

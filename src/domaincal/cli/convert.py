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

    OUTPUT is .npz, .parquet, .csv, .csv.gz or .zarr, which can be an address. Without a suffix it
    is a store, a folder to which rows can be appended.

    \b
    Examples:
      domaincal convert scores.csv scores.parquet
      domaincal convert site-a.csv all --set-domain site-a --append
      domaincal convert scores s3://bucket/scores.zarr
    """
    from contextlib import ExitStack
    from dataclasses import replace

    from domaincal import io
    from domaincal.cli.console import print_json, reading, say
    from domaincal.cli.options import claimed, described, opened_input, read_input, size_of
    from domaincal.io.addresses import local_path, shown
    from domaincal.io.conversion import (
        in_domain,
        require_other_store,
        streams,
        warn_of_ignored,
        write_converted,
    )
    from domaincal.io.formats import require_writable_format

    output = local_path(output)
    require_writable_format(output, append=append)
    if append:
        require_other_store(source, output)
    with claimed(output, force=force, grows=append), ExitStack() as stack:
        if streams(source, output):
            opened = opened_input(source, columns, max_memory=max_memory)
            rows = stack.enter_context(opened)
        else:
            rows = read_input(source, columns, max_memory=max_memory)
        warn_of_ignored(rows.path, rows.ignored, rows.columns or {}, output)
        with reading(f"writing {output}", rows.data, passes=1) as data:
            write_converted(data, output, set_domain=set_domain, append=append)
        n_rows = len(rows.data)
        if as_json:
            data = rows.data if set_domain is None else in_domain(rows.data, set_domain)
            facts = described(replace(rows, data=data))
    if as_json:
        print_json("conversion", {"output": shown(output), "data": facts})
        return
    written = f"{n_rows} rows"
    if append:
        written += f", {len(io.Store(output))} in total"
    say(f"{shown(rows.path)} to {shown(output)}: {written}, {size_of(output)}")

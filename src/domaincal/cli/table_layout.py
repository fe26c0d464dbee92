"""Layout of tables of names and numbers within the width of the output."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.markup import escape
from rich.table import Table

from domaincal._wording import fold
from domaincal.cli.console import displayed, output_width, print_table

# Widths to which the headers of number columns may be folded.
_HEADER_WIDTHS = (24, 18, 14, 12)
# Names of rows get at least this width, unless all are shorter.
_NAME_WIDTH = 18
# Width of the frame: three characters for each column, and one more.
_FRAME = 3


@dataclass(frozen=True)
class Section:
    """Rows of a table under a heading; a row is a name and its numbers."""

    heading: str
    rows: Sequence[Sequence[str]]


def print_numbers(title: str, columns: Sequence[str], sections: Sequence[Section]) -> None:
    """Print a table whose first column has names and whose other columns have numbers.

    Long names are folded, numbers are never cut. If the columns do not fit beside each other,
    several tables follow.
    """
    shown = [displayed(column) for column in columns]
    cells = [
        Section(displayed(part.heading), [[displayed(cell) for cell in row] for row in part.rows])
        for part in sections
    ]
    rows = [row for part in cells for row in part.rows]
    names = [shown[0], *(row[0] for row in rows), *(part.heading for part in cells)]
    longest = max(map(cell_len, names))
    widths = [max([1, *(len(row[k]) for row in rows)]) for k in range(len(shown))]
    least = min(longest, _NAME_WIDTH)
    headers, full, parts = min(
        (_layout(shown, widths, limit, least) for limit in _HEADER_WIDTHS),
        key=lambda layout: len(layout[2]),  # the first, and widest, of those with fewest tables
    )
    for k, part in enumerate(parts):
        room = output_width() - 1 - _FRAME - sum(full[j] + _FRAME for j in part)
        table = Table(title=displayed(title) + (" (continued)" if k else ""), title_justify="left")
        name_width = max(min(longest, room), 1)
        table.add_column(escape(shown[0]), overflow="fold", max_width=name_width)
        for j in part:
            table.add_column(escape("\n".join(headers[j])), justify="right", no_wrap=True)
        for section in cells:
            if section.heading:
                table.add_row(f"[bold]{escape(_folded(section.heading, name_width))}[/]")
            for row in section.rows:
                table.add_row(escape(_folded(row[0], name_width)), *(row[j] for j in part))
            table.add_section()
        print_table(table)


def _layout(
    columns: Sequence[str], widths: Sequence[int], limit: int, name_width: int
) -> tuple[list[list[str]], list[int], list[list[int]]]:
    """Lines of each header, width of each column, and the columns of each table."""
    headers = [fold(name, max(limit, width)) for name, width in zip(columns, widths, strict=True)]
    full = [max(width, *map(cell_len, lines)) for width, lines in zip(widths, headers, strict=True)]
    return headers, full, list(_fitting_columns(full, name_width))


def _fitting_columns(widths: Sequence[int], name_width: int) -> Iterator[list[int]]:
    """Numbers of the columns of each table, in order; column 0 is part of every table."""
    part: list[int] = []
    used = start = 1 + _FRAME + name_width
    for k in range(1, len(widths)):
        if part and used + widths[k] + _FRAME > output_width():
            yield part
            part, used = [], start
        part.append(k)
        used += widths[k] + _FRAME
    yield part


def _folded(name: str, width: int) -> str:
    return "\n".join(fold(name, width))

"""Printing: results to stdout, progress and messages to stderr."""

from __future__ import annotations

import io
import json
import math
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

import click

from domaincal._warnings import handle_warnings
from domaincal.cli.column_options import in_words_of_options
from domaincal.cli.method_options import in_words_of_methods
from domaincal.errors import PoorHeadWarning, ProbabilitiesWarning

if TYPE_CHECKING:
    from rich.table import Table

# Of lines in a file or a pipe, unless COLUMNS says otherwise; tables need some room.
_WIDTH_OF_FILES = 80
_SMALLEST_WIDTH = 40
# Values that Python itself gives LC_CTYPE in the locale C.
_COERCED = ("C.UTF-8", "C.utf8", "UTF-8")
# Warnings that differ only in these count as the same: numbers, names in quotes, and lists of them.
_VALUE = r"""(?:'[^']*'|"[^"]*"|[\d.]+)"""
_VARIABLE_PARTS = re.compile(rf"s? ?{_VALUE}(?:, {_VALUE})*(?: and \d+ more)?")


def emit(text: str, *, err: bool = False) -> None:
    """Print a text; a closed pipe is ignored, so that the exit status stays the same."""
    stream = sys.stderr if err else sys.stdout
    try:
        click.echo(_encodable(text, stream), err=err)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def say(text: str, *, err: bool = False, indent: str = "  ") -> None:
    """Print a paragraph, wrapped to the width of the output; ``indent`` starts its other lines."""
    emit(wrapped(text, err=err, indent=indent), err=err)


def wrapped(text: object, *, err: bool = False, indent: str = "  ") -> str:
    """Text in lines of the width of the output; words that are longer stay whole."""
    fill = textwrap.TextWrapper(
        output_width(err=err), subsequent_indent=indent, break_on_hyphens=False,
        break_long_words=False, replace_whitespace=False,
    )  # fmt: skip
    return fill.fill(displayed(text, err=err))


def displayed(text: object, *, err: bool = False) -> str:
    """Text as the output shows it: control characters and other signs it cannot show escaped."""
    return _encodable(printable(text), sys.stderr if err else sys.stdout)


def printable(text: object) -> str:
    """Text with line breaks and control characters escaped."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode()
        for c in str(text)
    )


def output_width(*, err: bool = False) -> int:
    """Columns of the terminal; in a file or a pipe 80, or the value of COLUMNS."""
    width = _WIDTH_OF_FILES
    if _is_terminal(sys.stderr if err else sys.stdout):
        width = shutil.get_terminal_size().columns
    elif os.environ.get("COLUMNS", "").isdecimal():
        width = int(os.environ["COLUMNS"])
    return max(width, _SMALLEST_WIDTH)


def print_table(table: Table) -> None:
    """Print a table of rich, in colours on a terminal."""
    from rich.box import ASCII2
    from rich.console import Console

    if not _encoding(sys.stdout).startswith("utf"):
        table.box = ASCII2
    on_terminal = _is_terminal(sys.stdout)
    screen = Console(
        file=io.StringIO(), width=output_width(), highlight=False, force_terminal=on_terminal,
        color_system="auto" if on_terminal else None,
    )  # fmt: skip
    screen.print(table)
    lines = screen.file.getvalue().splitlines()  # type: ignore[attr-defined]
    emit("\n".join(line.rstrip() for line in lines))


def print_json(name: str, content: dict[str, Any]) -> None:
    """Print one JSON document; NaN and infinity become null."""
    document = {"document": f"domaincal {name}", "version": 1, **content}
    emit(json.dumps(_plain(document), indent=1, allow_nan=False))


def records(table: Any) -> list[dict[str, Any]]:
    """Rows of a data frame as dictionaries."""
    return [dict(zip(table.columns, row, strict=True)) for row in table.itertuples(index=False)]


@contextmanager
def working(text: str) -> Iterator[None]:
    """Show a status line on the terminal during the block."""
    if not _is_terminal(sys.stderr):
        yield
        return
    from rich.console import Console
    from rich.markup import escape

    with Console(stderr=True).status(escape(printable(text))):
        yield


@contextmanager
def reading(text: str, data: Any, *, passes: int | None = None) -> Iterator[Any]:
    """Show a status line; for rows that are read in blocks, how much was read. Yields the data.

    With a number of ``passes`` over the rows, a bar shows how much is left.
    """
    from domaincal.data import BlockedRows

    if not isinstance(data, BlockedRows) or not _is_terminal(sys.stderr):
        with working(text):
            yield data
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn
    from rich.text import Text

    from domaincal._memory import format_size

    class Amount(TextColumn):
        def render(self, task: Any) -> Text:
            rate = "" if task.speed is None else f", {format_size(int(task.speed))}/s"
            return Text(f"{format_size(int(task.completed))} read{rate}")

    columns: list[Any] = [SpinnerColumn(), TextColumn("{task.description}"), Amount("")]
    total = None
    if passes is not None:
        columns = [*Progress.get_default_columns(), Amount("")]
        total = passes * sum(
            array.row_bytes * len(array) for array in (data.logits, data.features) if array
        )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(printable(text), total=total)
        yield data.watched(lambda n_bytes: bar.advance(task, n_bytes))


@contextmanager
def progress(
    text: str, *, within: str = "", unit: str = ""
) -> Iterator[Callable[[Sequence[Any]], Iterable[Any]]]:
    """Show a progress bar on the terminal; yields a function that wraps the list of steps.

    A list that is wrapped during another one gets a second bar with the text ``within``. With a
    ``unit``, the bar counts the elements of the steps instead of the steps, and shows their rate.
    """
    if not _is_terminal(sys.stderr):
        yield iter
        return
    from rich.console import Console
    from rich.progress import Progress, Task, TextColumn
    from rich.text import Text

    class Rate(TextColumn):
        def render(self, task: Task) -> Text:
            rate = "" if task.speed is None else f"{task.speed:,.0f} {unit}/s"
            return Text(rate, style="progress.data.speed")

    columns = [*Progress.get_default_columns(), *([Rate("")] if unit else [])]
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:

        def track(steps: Sequence[Any]) -> Iterator[Any]:
            inner = bool(bar.tasks)
            total = sum(map(len, steps)) if unit else len(steps)
            task = bar.add_task(within if inner else text, total=total)
            for step in steps:
                yield step
                bar.advance(task, len(step) if unit else 1)
            if inner:
                bar.remove_task(task)

        yield track


@contextmanager
def warnings_in_one_line() -> Iterator[None]:
    """Print warnings of domaincal as messages; of those that differ in names or numbers, one."""
    counts: dict[str, int] = {}
    reported = False

    def show(message: str, category: type[Warning]) -> None:
        nonlocal reported
        if category is ProbabilitiesWarning and reported:
            return  # the reader of the file has named its option; calibrators name a function
        reported = reported or category is ProbabilitiesWarning
        text = " ".join(message.split())
        if category is PoorHeadWarning:
            text = in_words_of_methods(text)
        pattern = _VARIABLE_PARTS.sub("", text)
        counts[pattern] = counts.get(pattern, 0) + 1
        if counts[pattern] == 1:
            say(f"warning: {in_words_of_options(text)}", err=True)

    try:
        with handle_warnings(show):
            yield
    finally:
        more = sum(counts.values()) - len(counts)
        if more:
            say(f"warning: {more} more like {'this' if len(counts) == 1 else 'these'}", err=True)


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()


def _encodable(text: str, stream: TextIO | None) -> str:
    """Text without signs that the stream cannot show."""
    encoding = _encoding(stream)
    if not encoding.startswith("utf"):
        text = text.replace("±", "+-")
    return text.encode(encoding, "backslashreplace").decode(encoding)


def _encoding(stream: TextIO | None) -> str:
    """Encoding of a stream; ASCII in the locale C, although Python writes UTF-8 there."""
    encoding = (getattr(stream, "encoding", None) or "utf-8").lower()
    variables = os.environ
    if variables.get("PYTHONIOENCODING") or variables.get("PYTHONUTF8") == "1":
        return encoding
    character_type = variables.get("LC_CTYPE", "")
    locale = (
        variables.get("LC_ALL")
        or (character_type if character_type not in _COERCED else "")
        or variables.get("LANG")
    )
    return "ascii" if locale in ("C", "POSIX") else encoding


def _plain(value: Any) -> Any:
    """Value that JSON can hold."""
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if hasattr(value, "item"):  # a numpy scalar
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value

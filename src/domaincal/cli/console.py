"""Where things are printed: results to stdout, progress and messages to stderr."""

import json
import math
import os
import shutil
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

import click

from domaincal._errors import DomaincalWarning

if TYPE_CHECKING:
    from rich.console import Console

# Into a file or a pipe, lines are as long as they are, unless COLUMNS says otherwise.
_WIDTH_OF_FILES = 500


def console() -> "Console":
    """Rich's console on stdout."""
    from rich.console import Console

    return Console(width=_width(sys.stdout), highlight=False)


def say(text: str, *, err: bool = False) -> None:
    """Prose, in lines that a terminal can show."""
    fill = textwrap.TextWrapper(
        _width(sys.stderr if err else sys.stdout), subsequent_indent="  ",
        break_on_hyphens=False, break_long_words=False,
    )  # fmt: skip
    for line in text.splitlines():
        click.echo(fill.fill(line), err=err)


def print_json(kind: str, content: dict[str, Any]) -> None:
    """One document, whose keys stay; what is not a number is null."""
    document = {"document": f"domaincal {kind}", "version": 1, **content}
    click.echo(json.dumps(_plain(document), indent=1, allow_nan=False, ensure_ascii=False))


def records(table: Any) -> list[dict[str, Any]]:
    """A data frame as a list of rows."""
    return [dict(zip(table.columns, row, strict=True)) for row in table.itertuples(index=False)]


@contextmanager
def working(text: str) -> Iterator[None]:
    """A line that says what is being done, on a terminal, while it is being done."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(text):
        yield


@contextmanager
def progress(text: str) -> Iterator[Callable[[Sequence[Any]], Iterable[Any]]]:
    """A bar for the steps of long work, on a terminal; wraps the list of steps."""
    if not sys.stderr.isatty():
        yield iter
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        yield lambda steps: bar.track(steps, description=text)


@contextmanager
def warnings_in_one_line() -> Iterator[None]:
    """Warnings as messages to a user, each once."""
    said = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        text = " ".join(str(message).split())
        if text not in said:
            said.add(text)
            say(f"warning: {text}", err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("always", DomaincalWarning)
        warnings.showwarning = show
        yield


def _width(stream: TextIO) -> int:
    if stream.isatty() or os.environ.get("COLUMNS", "").isdigit():
        return shutil.get_terminal_size().columns
    return _WIDTH_OF_FILES


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if hasattr(value, "item"):  # a number of numpy's
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value

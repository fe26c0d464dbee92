"""Options that say which columns of a table, or arrays of a file, hold what."""

from __future__ import annotations

import csv
import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from domaincal.data.column_choice import ColumnChoice

F = TypeVar("F", bound=Callable[..., Any])

# Option of the command line, keyword of ColumnChoice, placeholder, help.
_LISTS = (
    ("--logits", "logits", "Logits of the classes: columns, such as 'z_*', or an array."),
    ("--probabilities", "probabilities", "Probabilities of the classes, in place of logits."),
    ("--features", "features", "Features: columns of numbers, or an array."),
    ("--classes", "class_names", "Names of the classes, in the order of their columns."),
)
_SINGLE = (
    ("--label", "label", "Column or array of the labels."),
    ("--domain", "domain", "Column or array of the domains."),
    ("--group", "group", "Column or array of the groups."),
    ("--id", "id", "Column or array of ids, which must be different in every row."),
)
# Most columns that a line names.
_SHOWN = 12
_PYTHON_AND_COMMAND = re.compile(
    r"(?:\w+=\.\.\.|[\w.]+\(\w*\)) \((--[a-z-]+|domaincal [a-z][a-z -]*)\)"
)


def column_options(command: F) -> F:
    """Add the options; the command gets their values as ``columns``, a ColumnChoice."""

    @functools.wraps(command)
    def with_columns(*arguments: Any, **options: Any) -> Any:
        from domaincal.data.column_choice import ColumnChoice
        from domaincal.errors import InputError

        given = {keyword: options.pop(keyword) for _, keyword, _ in (*_LISTS, *_SINGLE)}
        given["floor"] = options.pop("floor")
        try:
            columns = ColumnChoice(**given)
        except InputError as error:
            raise click.UsageError(in_words_of_options(str(error))) from error
        return command(*arguments, columns=columns, **options)

    decorated: Any = click.option(
        "--floor", type=float, metavar="PROBABILITY",
        help="Probability in place of smaller ones, such as zeros of rounded values. [default: "
        "1e-12; fitted models keep that of the fit]",
    )(with_columns)  # fmt: skip
    for option, keyword, text in reversed(_SINGLE):
        decorated = click.option(option, keyword, metavar="NAME", help=text)(decorated)
    for option, keyword, text in reversed(_LISTS):
        decorated = click.option(
            option, keyword, callback=_names, metavar="NAME,...", help=text
        )(decorated)  # fmt: skip
    result: F = decorated
    return result


def in_words_of_options(message: str) -> str:
    """Message of the library with options and verbs in place of Python arguments and calls.

    Messages of the library name both: ``argument=... (--option)`` or ``call() (domaincal verb)``.

    Examples
    --------
    >>> in_words_of_options("name it with label=... (--label).")
    'name it with --label.'
    >>> in_words_of_options("give a file that calibrator.save(path) (domaincal fit) has written.")
    'give a file that domaincal fit has written.'
    """
    return _PYTHON_AND_COMMAND.sub(r"\1", message)


def print_columns(columns: ColumnChoice, sources: Mapping[str, Sequence[str]]) -> None:
    """Print, to stderr, which columns were read as what, if the user chose any."""
    from domaincal._wording import few
    from domaincal.cli.console import say
    from domaincal.data.column_choice import KEYWORDS

    if columns.is_default():
        return
    shown: set[str] = set()
    for array, names in sources.items():
        is_score = array in ("logits", "probabilities")
        if is_score and "classes" in shown:
            continue  # logits were read in place of probabilities
        name = "classes" if is_score else KEYWORDS[array]
        shown.add(name)
        kind = f" ({array})" if is_score else ""
        say(f"{name}: {few(names, _SHOWN)}{kind}", err=True)


def _names(ctx: click.Context, param: click.Parameter, value: str | None) -> list[str] | None:
    """Names that are separated by commas; one that contains a comma is put in double quotes."""
    if value is None:
        return None
    return [name.strip() for name in next(csv.reader([value], skipinitialspace=True), [])]

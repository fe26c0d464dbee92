"""Entry point ``domaincal``: the verbs, and one line for everything that may go wrong."""

from typing import Any

import click

from domaincal.cli.apply import apply
from domaincal.cli.console import printable, warnings_in_one_line
from domaincal.cli.convert import convert
from domaincal.cli.corrupt import corrupt
from domaincal.cli.demo import demo
from domaincal.cli.evaluate import evaluate
from domaincal.cli.extract import extract
from domaincal.cli.fit import fit
from domaincal.cli.inspect import inspect
from domaincal.cli.reproduce import reproduce
from domaincal.cli.train import train
from domaincal.errors import DomaincalError


class _Verbs(click.Group):
    """Verbs in the order of a day's work; errors in one line, on stderr, with exit status 1."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with warnings_in_one_line():
                return super().invoke(ctx)
        except DomaincalError as error:
            raise _failure(str(error)) from error
        except OSError as error:
            place = f"{error.filename}: " if error.filename else ""
            raise _failure(f"{place}{error.strerror or error}") from error
        except MemoryError as error:
            raise _failure(
                f"not enough memory ({error}); use a machine with more, or fewer rows."
            ) from error


def _failure(message: str) -> click.ClickException:
    return click.ClickException(printable(" ".join(message.split())))


@click.group(
    cls=_Verbs,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Try it: domaincal demo. "
    "Exit status: 0 success, 1 error, 2 wrong usage, 3 a gate (evaluate --fail-above) that did "
    "not hold.",
)
@click.version_option(package_name="domaincal")
def main() -> None:
    """Confidence that means what it says, in every domain and in the next one."""


for _verb in (demo, inspect, convert, fit, apply, evaluate, train, extract, corrupt, reproduce):
    main.add_command(_verb)

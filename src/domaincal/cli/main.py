"""Entry point ``domaincal``: the verbs, and errors in one message."""

from __future__ import annotations

import errno
from typing import Any

import click

from domaincal.cli.apply import apply
from domaincal.cli.column_options import in_words_of_options
from domaincal.cli.console import emit, warnings_in_one_line, wrapped
from domaincal.cli.convert import convert
from domaincal.cli.corrupt import corrupt
from domaincal.cli.demo import demo
from domaincal.cli.estimate import estimate
from domaincal.cli.evaluate import evaluate
from domaincal.cli.export import export
from domaincal.cli.extract import extract
from domaincal.cli.fit import fit
from domaincal.cli.inspect import inspect
from domaincal.cli.report import report
from domaincal.cli.reproduce import reproduce
from domaincal.cli.site import site
from domaincal.cli.train import train
from domaincal.cli.watch import watch
from domaincal.errors import DomaincalError

#: Exit status after Ctrl-C: 128 plus the number of the signal.
INTERRUPTED = 130


class _Verbs(click.Group):
    """Group of verbs, listed in the order of use.

    Errors of domaincal and of the system become one message on stderr and exit status 1. Ctrl-C is
    exit status 130, as for programs that the signal ends; click would say 1.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with warnings_in_one_line():
                return super().invoke(ctx)
        except KeyboardInterrupt:
            emit("Interrupted.", err=True)
            raise SystemExit(INTERRUPTED) from None
        except click.UsageError as error:
            raise click.UsageError(_wrapped(error.format_message()), ctx=error.ctx) from error
        except DomaincalError as error:
            raise _failure(str(error)) from error
        except OSError as error:
            raise _failure(_system_error(error)) from error
        except MemoryError as error:
            raise _failure(
                f"not enough memory ({error}); use fewer rows, or a machine with more memory."
            ) from error


def _failure(message: str) -> click.ClickException:
    return click.ClickException(_wrapped(in_words_of_options(message)))


def _system_error(error: OSError) -> str:
    """Message of an error of the system, with the name of the file."""
    if error.filename is None:
        return str(error.strerror or error)
    if isinstance(error, FileNotFoundError):
        return f"there is no file {error.filename}."
    cure = ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        cure = "; free some space, or write to another disk"
    return f"{error.filename}: {error.strerror or error}{cure}"


def _wrapped(message: str) -> str:
    """Message in lines of the width of stderr, to be printed after "Error: "."""
    prefix = "Error: "
    return wrapped(prefix + " ".join(message.split()), err=True).removeprefix(prefix)


@click.group(
    cls=_Verbs,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="To try it: domaincal demo. "
    "Exit status: 0 success, 1 error, 2 wrong usage, 3 failed gate (evaluate --fail-above and "
    "--fail-worse, estimate --fail-below), 130 interrupted.",
)
@click.version_option(package_name="domaincal")
def main() -> None:
    """Calibrate the confidence of a classifier in every domain, seen or unseen."""


for _verb in (
    demo, inspect, convert, fit, apply, evaluate, estimate, report, watch, site, export, train,
    extract, corrupt, reproduce,
):  # fmt: skip
    main.add_command(_verb)

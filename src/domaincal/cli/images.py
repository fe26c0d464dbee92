"""Sets of images as they are written on the command line, and options to show them."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from domaincal.datasets._written import ImageKind

F = TypeVar("F", bound=Callable[..., Any])

KIND_HELP = (
    "KIND is tiny-imagenet, cifar-10, cifar-100, imagenet-c, rxrx1 or gldv2, and PLACE the folder "
    "of that data set; or KIND is table, and PLACE a csv file with the columns path, label and "
    "domain. Parameters of its class follow after colons: gldv2:variant=gld23k:n_ind=5, "
    "imagenet-c:domains=clean,fog-3, table:label=species:domain=site, table:label=null where there "
    "are no labels. "
    "imagenet-c has clean (the folder of the clean images, by class), classes (imagenet-r or all), "
    "domains; gldv2 variant, training_clients, min_rows, n_ind, seed; table folder, path, label, "
    "domain, group, class_names."
)

kind_argument = click.argument("kind")
place_argument = click.argument("place", type=click.Path(path_type=Path))


def parse_kind(text: str) -> "ImageKind":
    """A kind of data set from its name and parameters; a wrong one is wrong usage."""
    from domaincal._errors import InputError
    from domaincal.datasets._written import kind_from_text

    try:
        return kind_from_text(text)
    except InputError as error:
        raise click.UsageError(str(error)) from error


def device_options(function: F) -> F:
    """Where a network works, and with how many processes that decode images."""
    for option in (
        click.option("--device", help="cpu or cuda. [default: the GPU if there is one]"),
        click.option(
            "--jobs", type=click.IntRange(min=0),
            help="Processes that decode images. [default: one for each core]",
        ),
    ):  # fmt: skip
        function = option(function)
    return function

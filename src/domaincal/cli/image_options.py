"""Arguments and options of the verbs train and extract."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from domaincal.vision.datasets.catalogue import NamedDataSet

F = TypeVar("F", bound=Callable[..., Any])

DATASET_HELP = (
    "DATASET is tiny-imagenet, cifar-10, cifar-100, imagenet-c, rxrx1 or gldv2, and PATH its "
    "folder; or DATASET is table, and PATH a csv file with the columns path, label and domain. "
    "Parameters follow after colons: gldv2:variant=gld23k:n_ind=5, imagenet-c:domains=clean,fog-3, "
    "table:label=species:domain=site, or table:label=null for images without labels. "
    "Parameters of imagenet-c: clean (folder of the clean images), classes (imagenet-r or all), "
    "domains. Parameters of gldv2: variant, training_clients, min_rows, n_ind, random_state. "
    "Parameters of table: folder, path, label, domain, group, class_names."
)

dataset_argument = click.argument("dataset")
path_argument = click.argument("path", type=click.Path(path_type=Path))


def parse_dataset(text: str) -> NamedDataSet:
    """Parse the argument DATASET; an invalid one is a usage error."""
    from domaincal.errors import InputError
    from domaincal.vision.datasets.catalogue import data_set_from_spec

    try:
        return data_set_from_spec(text)
    except InputError as error:
        raise click.UsageError(str(error)) from error


def device_options(function: F) -> F:
    """Options --device and --jobs."""
    for option in (
        click.option(
            "--device", default="auto", show_default=True,
            help="cpu, cuda, or auto: the GPU if there is one, else the CPU.",
        ),
        click.option(
            "--jobs", type=click.IntRange(min=0),
            help="Number of processes that decode images. [default: one per core]",
        ),
    ):  # fmt: skip
        function = option(function)
    return function

"""Sets of images by name, for the verbs that show them to a network."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from domaincal.datasets import ImageSet

F = TypeVar("F", bound=Callable[..., Any])

#: What a name stands for, and the splits that it has, the first being the usual one.
KINDS = {
    "tiny-imagenet": ("TinyImageNet", ("val", "train")),
    "cifar-10": ("Cifar10", ("test", "train")),
    "cifar-100": ("Cifar100", ("test", "train")),
    "imagenet-c": ("ImageNetC", ()),
    "rxrx1": ("RxRx1", ("val", "test", "id_test", "train")),
    "gldv2": ("GoogleLandmarks", ("validation", "train")),
    "table": ("ImageTable", ()),
}

kind_argument = click.argument("kind", type=click.Choice(list(KINDS)))
place_argument = click.argument("place", type=click.Path(path_type=Path))


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


def open_images(kind: str, place: Path, *, split: str | None = None, **options: Any) -> "ImageSet":
    """The images of a data set; options that are None are left out."""
    import domaincal.datasets
    from domaincal._errors import InputError

    name, splits = KINDS[kind]
    given = {key: value for key, value in options.items() if value is not None}
    if given and kind != "imagenet-c":
        raise InputError(f"--{next(iter(given))} is for imagenet-c; leave it out for {kind}.")
    chosen = [] if split is None else split.split(",")
    for one in chosen:
        if one not in splits:
            has = f"it has {', '.join(splits)}" if splits else "it has none: leave it out"
            raise InputError(f"{kind} has no split {one!r}; {has}.")
    if len(chosen) > 1 and kind != "rxrx1":
        raise InputError(f"{kind} takes one split at a time, got {split!r}.")
    if chosen:
        given["split"] = chosen if len(chosen) > 1 else chosen[0]
    images: ImageSet = getattr(domaincal.datasets, name)(place, **given)
    return images

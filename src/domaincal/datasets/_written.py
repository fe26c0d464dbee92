"""Sets of images as they are written in a command: ``gldv2:variant=gld23k:seed=1``."""

import inspect
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any, NamedTuple, get_args, get_origin

from domaincal._errors import InputError
from domaincal._validation import written_parameters
from domaincal.datasets.cifar import Cifar10, Cifar100
from domaincal.datasets.google_landmarks import GoogleLandmarks
from domaincal.datasets.image_sets import ImageSet
from domaincal.datasets.image_table import ImageTable
from domaincal.datasets.imagenet_c import ImageNetC
from domaincal.datasets.rxrx1 import RxRx1
from domaincal.datasets.tiny_imagenet import TinyImageNet


class _Known(NamedTuple):
    data_set: type[ImageSet]
    splits: tuple[str, ...] = ()


#: What a name stands for.
KINDS = {
    "tiny-imagenet": _Known(TinyImageNet, ("val", "train")),
    "cifar-10": _Known(Cifar10, ("test", "train")),
    "cifar-100": _Known(Cifar100, ("test", "train")),
    "imagenet-c": _Known(ImageNetC),
    "rxrx1": _Known(RxRx1, ("val", "test", "id_test", "train")),
    "gldv2": _Known(GoogleLandmarks, ("validation", "train")),
    "table": _Known(ImageTable),
}


@dataclass(frozen=True)
class ImageKind:
    """A kind of data set, with parameters of its class.

    Attributes
    ----------
    name : str
    parameters : dict
    """

    name: str
    parameters: dict[str, Any]

    @property
    def splits(self) -> tuple[str, ...]:
        """Of the data set."""
        return KINDS[self.name].splits

    def open(self, place: Path, split: str | None = None) -> ImageSet:
        """The images at a place; of ``rxrx1``, those of several splits, separated by commas."""
        chosen = [] if split is None else split.split(",")
        for one in chosen:
            if one not in self.splits:
                has = ", ".join(self.splits) if self.splits else "none: leave it out"
                raise InputError(f"{self.name} has no split {one!r}; it has {has}.")
        if len(chosen) > 1 and self.name != "rxrx1":
            raise InputError(f"{self.name} takes one split at a time, got {split!r}.")
        given = dict(self.parameters)
        if chosen:
            given["split"] = chosen if len(chosen) > 1 else chosen[0]
        data_set: Any = KINDS[self.name].data_set
        images: ImageSet = data_set(place, **given)
        return images


def kind_from_text(text: str) -> ImageKind:
    """A kind of data set from its name and parameters.

    Examples
    --------
    >>> kind_from_text("imagenet-c:classes=all:domains=clean,fog-3")
    ImageKind(name='imagenet-c', parameters={'classes': 'all', 'domains': ['clean', 'fog-3']})
    """
    name, colon, rest = text.partition(":")
    if name not in KINDS:
        raise InputError(f"there is no kind of images {name!r}; choose from {', '.join(KINDS)}.")
    types = parameters_of(KINDS[name].data_set)
    # A path may have colons: only those before KEY=, or before a parameter at the end, separate.
    last = "|".join(map(re.escape, types))
    pairs = re.split(rf":(?=[\w-]+=|(?:{last})?$)", rest) if colon else []
    for key, _, value in (pair.partition("=") for pair in pairs):
        if key == "split":
            raise InputError(f"{name} has no parameter 'split'; write --split {value or 'SPLIT'}.")
    given = written_parameters(pairs, types, name)
    return ImageKind(name, {key: _value(given[key], types[key], key, name) for key in given})


def parameters_of(data_set: type[ImageSet]) -> dict[str, Any]:
    """Types of a class' parameters, without the place of its images and the split."""
    _, *others = inspect.signature(data_set).parameters.values()
    return {p.name: p.annotation for p in others if p.name != "split"}


def _value(text: str, annotation: Any, key: str, name: str) -> Any:
    """A number, a list or a text, whichever the parameter takes; null where it may be None."""
    types = (annotation, *get_args(annotation))
    if text == "null" and NoneType in types:
        return None
    if any(get_origin(one) is Sequence for one in types):
        return text.split(",")
    if int not in types:
        return text
    try:
        return int(text)
    except ValueError as error:
        raise InputError(f"{key} of {name} must be a whole number, got {text!r}.") from error

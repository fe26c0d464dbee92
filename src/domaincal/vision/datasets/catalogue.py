"""Data sets of images by name: ``gldv2:variant=gld23k:seed=1``."""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any, NamedTuple, get_args, get_origin

from domaincal._specs import Spec
from domaincal.errors import InputError
from domaincal.vision.datasets.cifar import Cifar10, Cifar100
from domaincal.vision.datasets.google_landmarks import GoogleLandmarks
from domaincal.vision.datasets.image_set import ImageSet
from domaincal.vision.datasets.image_table import ImageTable
from domaincal.vision.datasets.imagenet_c import ImageNetC
from domaincal.vision.datasets.rxrx1 import RxRx1
from domaincal.vision.datasets.tiny_imagenet import TinyImageNet


class _Entry(NamedTuple):
    data_set: type[ImageSet]
    splits: tuple[str, ...] = ()


#: Every data set of images that a command can name.
DATA_SETS = {
    "tiny-imagenet": _Entry(TinyImageNet, ("val", "train")),
    "cifar-10": _Entry(Cifar10, ("test", "train")),
    "cifar-100": _Entry(Cifar100, ("test", "train")),
    "imagenet-c": _Entry(ImageNetC),
    "rxrx1": _Entry(RxRx1, ("val", "test", "id_test", "train")),
    "gldv2": _Entry(GoogleLandmarks, ("validation", "train")),
    "table": _Entry(ImageTable),
}


@dataclass(frozen=True)
class NamedDataSet:
    """The name of a data set, with parameters of its class.

    Attributes
    ----------
    name : str
    parameters : dict
    """

    name: str
    parameters: dict[str, Any]

    @property
    def splits(self) -> tuple[str, ...]:
        """Splits of the data set; the first is the one for evaluation."""
        return DATA_SETS[self.name].splits

    def open(self, path: Path, split: str | None = None) -> ImageSet:
        """The images at a path; of ``rxrx1``, those of several splits, separated by commas."""
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
        data_set: Any = DATA_SETS[self.name].data_set
        images: ImageSet = data_set(path, **given)
        return images


def data_set_from_spec(text: str) -> NamedDataSet:
    """A data set from its name and its parameters.

    Examples
    --------
    >>> data_set_from_spec("imagenet-c:classes=all:domains=clean,fog-3")
    NamedDataSet(name='imagenet-c', parameters={'classes': 'all', 'domains': ['clean', 'fog-3']})
    """
    spec = Spec.parse(text)
    if spec.name not in DATA_SETS:
        raise InputError(
            f"there is no data set of images {spec.name!r}; choose from {', '.join(DATA_SETS)}."
        )
    types = parameter_types(DATA_SETS[spec.name].data_set)
    if "split" in spec.keys(types):
        raise InputError(f"{spec.name} has no parameter 'split'; use the option --split.")
    given = spec.parameters(types)
    values = {key: _value(text, types[key], f"{key} of {spec.name}") for key, text in given.items()}
    return NamedDataSet(spec.name, values)


def parameter_types(data_set: type[ImageSet]) -> dict[str, Any]:
    """Types of the parameters of a class, without the path of its images and the split."""
    _, *others = inspect.signature(data_set, eval_str=True).parameters.values()
    return {p.name: p.annotation for p in others if p.name != "split"}


def _value(text: str, annotation: Any, name: str) -> Any:
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
        raise InputError(f"{name} must be a whole number, got {text!r}.") from error

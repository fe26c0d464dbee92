"""Data sets of images by name, such as ``gldv2:variant=gld23k:random_state=1``."""

from __future__ import annotations

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
    """Class of a data set, and its splits; the first split is the one for evaluation."""

    data_set: type[ImageSet]
    splits: tuple[str, ...] = ()


#: Data sets by their names on the command line.
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
    """Name of a data set, and parameters of its class.

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
        """Open the data set at a path. ``rxrx1`` allows several splits, separated by commas."""
        splits = [] if split is None else split.split(",")
        for name in splits:
            if name not in self.splits:
                known = ", ".join(self.splits) if self.splits else "no splits: leave it out"
                raise InputError(f"{self.name} has no split {name!r}; it has {known}.")
        if len(splits) > 1 and self.name != "rxrx1":
            raise InputError(f"{self.name} takes one split at a time, got {split!r}.")
        parameters = dict(self.parameters)
        if splits:
            parameters["split"] = splits if len(splits) > 1 else splits[0]
        data_set: Any = DATA_SETS[self.name].data_set
        images: ImageSet = data_set(path, **parameters)
        return images


def data_set_from_spec(text: str) -> NamedDataSet:
    """Parse the name of a data set and its parameters.

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
    texts = spec.parameters(types)
    values = {
        key: _parse_value(value, types[key], f"{key} of {spec.name}")
        for key, value in texts.items()
    }
    return NamedDataSet(spec.name, values)


def parameter_types(data_set: type[ImageSet]) -> dict[str, Any]:
    """Types of the parameters of a class, except the path of the images and the split."""
    _, *others = inspect.signature(data_set, eval_str=True).parameters.values()
    return {p.name: p.annotation for p in others if p.name != "split"}


def _parse_value(text: str, annotation: Any, name: str) -> Any:
    """Value of the annotated type: None for ``null``, a list, an integer or the text itself."""
    types = (annotation, *get_args(annotation))
    if text == "null" and NoneType in types:
        return None
    if any(get_origin(option) is Sequence for option in types):
        return text.split(",")
    if int not in types:
        return text
    try:
        return int(text)
    except ValueError as error:
        raise InputError(f"{name} must be a whole number, got {text!r}.") from error

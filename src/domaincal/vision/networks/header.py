"""Header of a network file. It can be read without torch and without the weights."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from domaincal._files import decoding
from domaincal._tensor_files import NETWORK_FORMAT, parse_header, tensor_checksum
from domaincal._typing import Array
from domaincal._validation import check_class_names
from domaincal.errors import FileFormatError, InputError

#: Largest side in px of the images of a network.
MAX_SIDE = 4096

_VERSION = "2"
#: Version 1 has no checksum.
_EARLIER_VERSIONS = ("1",)
_STEMS = ("standard", "small")
_CURE = "it may be damaged: copy it again, or train the network again with domaincal train"


@dataclass(frozen=True)
class NetworkHeader:
    """Contents of a network file, except the weights.

    Attributes
    ----------
    name : str
        Name that the user gave to ``create_network``.
    class_names : tuple of str, optional
    preprocessing : dict
        Fields of :class:`Preprocessing`, such as the ``side`` of the images in px.
    provenance : dict
        Origin of the network: ``timm`` (its name in timm), ``stem``, and the parameters of the
        training, if it was trained.
    """

    name: str
    class_names: tuple[str, ...] | None
    preprocessing: dict[str, Any]
    provenance: dict[str, Any]

    @property
    def n_classes(self) -> int | None:
        """Number of classes; None if the network has the classes of timm's weights."""
        return None if self.class_names is None else len(self.class_names)

    def texts(self, weights: Mapping[str, Array]) -> dict[str, str]:
        """Header as metadata of a ``.safetensors`` file with these weights."""
        text = json.dumps(asdict(self))
        return {
            "format": NETWORK_FORMAT, "version": _VERSION, "network": text,
            "sha256": tensor_checksum(text, weights),
        }  # fmt: skip

    @classmethod
    def from_texts(cls, texts: Mapping[str, str], path: str | os.PathLike[str]) -> NetworkHeader:
        """Header from the metadata of the file ``path``."""
        if not is_network(texts):
            raise FileFormatError(
                f"{path} is not a network file of domaincal; train one with domaincal train."
            )
        if texts.get("version") not in (_VERSION, *_EARLIER_VERSIONS):
            raise FileFormatError(
                f"{path} has version {texts.get('version')} of the format, but this domaincal "
                f"reads version {_VERSION}; upgrade domaincal."
            )
        with decoding(path, _CURE):
            header = parse_header(_entry(texts, "network", str))
            return cls(
                name=_entry(header, "name", str),
                class_names=_checked_names(_entry(header, "class_names", list | None)),
                preprocessing=_checked_preprocessing(_entry(header, "preprocessing", dict)),
                provenance=_checked_provenance(_entry(header, "provenance", dict)),
            )


def is_network(texts: Mapping[str, str]) -> bool:
    """Whether the metadata of a ``.safetensors`` file belong to a network."""
    return texts.get("format") == NETWORK_FORMAT


def verify_checksum(
    texts: Mapping[str, str], weights: Mapping[str, Array], path: str | os.PathLike[str]
) -> None:
    """Compare the header and the weights with the checksum, which version 1 does not have."""
    if texts.get("version") in _EARLIER_VERSIONS:
        return
    if texts.get("sha256") != tensor_checksum(texts["network"], weights):
        raise FileFormatError(
            f"the checksum of {path} does not match its header and weights; {_CURE}."
        )


def _checked_names(names: list[Any] | None) -> tuple[str, ...] | None:
    try:
        return None if names is None else check_class_names(names, n_classes=len(names))
    except InputError as error:  # the file is wrong, not an argument
        raise ValueError(str(error).rstrip(".")) from error


def _checked_preprocessing(found: dict[str, Any]) -> dict[str, Any]:
    side = _entry(found, "side", int)
    if isinstance(side, bool) or not 1 <= side <= MAX_SIDE:
        raise ValueError(f"the side of its images is {str(side)[:20]} px, not 1 to {MAX_SIDE}")
    return found


def _checked_provenance(found: dict[str, Any]) -> dict[str, Any]:
    """Check the entries that are used; the others are only shown."""
    _entry(found, "timm", str)
    stem = _entry(found, "stem", str)
    if stem not in _STEMS:
        raise ValueError(f"stem must be one of {', '.join(_STEMS)}, got {stem!r}")
    accuracy = found.get("accuracy")
    if accuracy is not None and not (isinstance(accuracy, float | int) and 0 <= accuracy <= 1):
        raise ValueError(f"its accuracy is {str(accuracy)[:20]}, not a number from 0 to 1")
    return found


def _entry(header: Any, key: str, expected: Any) -> Any:
    """Entry of the header; raise a ValueError if it is missing or has another type."""
    if not isinstance(header, Mapping) or key not in header:
        raise ValueError(f"its header has no {key!r}")
    if not isinstance(header[key], expected):
        raise ValueError(f"{key!r} of its header is a {type(header[key]).__name__}")
    return header[key]

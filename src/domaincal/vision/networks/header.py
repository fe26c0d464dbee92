"""Header of a network file. It can be read without torch and without the weights."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from domaincal._files import NETWORK_FORMAT, decoding
from domaincal.errors import FileFormatError

_VERSION = "1"
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

    def texts(self) -> dict[str, str]:
        """Header as metadata of a ``.safetensors`` file."""
        return {"format": NETWORK_FORMAT, "version": _VERSION, "network": json.dumps(asdict(self))}

    @classmethod
    def from_texts(cls, texts: Mapping[str, str], path: str | os.PathLike[str]) -> NetworkHeader:
        """Header from the metadata of the file ``path``."""
        if not is_network(texts):
            raise FileFormatError(
                f"{path} is not a network file of domaincal; train one with domaincal train."
            )
        if texts.get("version") != _VERSION:
            raise FileFormatError(
                f"{path} has version {texts.get('version')} of the format, but this domaincal "
                f"reads version {_VERSION}; upgrade domaincal."
            )
        with decoding(path, _CURE):
            header = json.loads(_entry(texts, "network", str))
            provenance = _entry(header, "provenance", dict)
            preprocessing = _entry(header, "preprocessing", dict)
            _entry(preprocessing, "side", int)
            for key in ("timm", "stem"):
                _entry(provenance, key, str)
            names = _entry(header, "class_names", list | None)
            return cls(
                name=_entry(header, "name", str),
                class_names=None if names is None else tuple(map(str, names)),
                preprocessing=preprocessing,
                provenance=provenance,
            )


def is_network(texts: Mapping[str, str]) -> bool:
    """Whether the metadata of a ``.safetensors`` file belong to a network."""
    return texts.get("format") == NETWORK_FORMAT


def _entry(header: Any, key: str, expected: Any) -> Any:
    """Entry of the header; raise a ValueError if it is missing or has another type."""
    if not isinstance(header, Mapping) or key not in header:
        raise ValueError(f"its header has no {key!r}")
    if not isinstance(header[key], expected):
        raise ValueError(f"{key!r} of its header is a {type(header[key]).__name__}")
    return header[key]

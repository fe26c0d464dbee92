"""What a network file says of its network; needs neither torch nor the weights."""

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
    """All that a network file holds beside weights.

    Attributes
    ----------
    name : str
        As the user named it.
    class_names : tuple of str, optional
    preprocessing : dict
        What it expects of images, such as their ``side`` in px.
    provenance : dict
        Where it comes from: ``timm``, the name with which timm makes it, ``stem``, and how it was
        trained, if it was.
    """

    name: str
    class_names: tuple[str, ...] | None
    preprocessing: dict[str, Any]
    provenance: dict[str, Any]

    @property
    def n_classes(self) -> int | None:
        """None where the classes are those of timm's weights."""
        return None if self.class_names is None else len(self.class_names)

    def texts(self) -> dict[str, str]:
        """Metadata of a ``.safetensors`` file."""
        return {"format": NETWORK_FORMAT, "version": _VERSION, "network": json.dumps(asdict(self))}

    @classmethod
    def from_texts(cls, texts: Mapping[str, str], path: str | os.PathLike[str]) -> "NetworkHeader":
        """What :meth:`texts` gave, from the file ``path``."""
        if not is_network(texts):
            raise FileFormatError(
                f"{path} is no network of domaincal; train one with domaincal train."
            )
        if texts.get("version") != _VERSION:
            raise FileFormatError(
                f"{path} is of version {texts.get('version')} of the format, this domaincal reads "
                f"{_VERSION}; upgrade domaincal."
            )
        with decoding(path, _CURE):
            written = json.loads(_part(texts, "network", str))
            provenance = _part(written, "provenance", dict)
            preprocessing = _part(written, "preprocessing", dict)
            _part(preprocessing, "side", int)
            for key in ("timm", "stem"):
                _part(provenance, key, str)
            names = _part(written, "class_names", list | None)
            return cls(
                name=_part(written, "name", str),
                class_names=None if names is None else tuple(map(str, names)),
                preprocessing=preprocessing,
                provenance=provenance,
            )


def is_network(texts: Mapping[str, str]) -> bool:
    """Whether the metadata of a ``.safetensors`` file are those of a network."""
    return texts.get("format") == NETWORK_FORMAT


def _part(written: Any, key: str, kind: Any) -> Any:
    """An entry of the header; the errors become those of the file."""
    if not isinstance(written, Mapping) or key not in written:
        raise ValueError(f"its header has no {key!r}")
    if not isinstance(written[key], kind):
        raise ValueError(f"{key!r} of its header is a {type(written[key]).__name__}")
    return written[key]

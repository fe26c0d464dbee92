"""Learned values as JSON and tensors, for model files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from domaincal._tensor_files import tensor_checksum
from domaincal._typing import Array
from domaincal.calibrators.base import Calibrator
from domaincal.calibrators.files.learned_state import TABLE, learned_values
from domaincal.errors import InputError

# Dataclasses that a file may contain. The table is fixed: a file cannot import anything else.
_PARTS: dict[str, type] = {cls.__name__: cls for cls in TABLE if not issubclass(cls, Calibrator)}


def encode(value: Any, name: str, tensors: dict[str, Array]) -> Any:
    """Convert a value to JSON; numeric arrays are added to ``tensors`` and replaced by their name.

    Examples
    --------
    >>> import numpy as np
    >>> tensors = {}
    >>> encode((1.5, np.arange(2)), "clip_", tensors)
    {'tuple': [1.5, {'tensor': 'clip_.1'}]}
    >>> list(tensors)
    ['clip_.1']
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return {"float": repr(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value

    def encode_part(part: Any, key: object) -> Any:
        return encode(part, f"{name}.{key}", tensors)

    if isinstance(value, list | tuple):
        parts = [encode_part(part, k) for k, part in enumerate(value)]
        return parts if isinstance(value, list) else {"tuple": parts}
    if isinstance(value, dict):
        return {"dict": {str(key): encode_part(part, key) for key, part in value.items()}}
    if isinstance(value, np.ndarray):
        if value.dtype.kind in "fiub":
            tensors[name] = value
            return {"tensor": name}
        return {"texts": [str(text) for text in value.tolist()]}
    if isinstance(value, pd.Series):
        index = encode_part(np.asarray(value.index), "index")
        return {"series": {"index": index, "values": encode_part(value.to_numpy(), "values"),
                           "name": value.name, "index_name": value.index.name}}  # fmt: skip
    if isinstance(value, pd.DataFrame):
        return {"frame": {str(key): encode_part(value[key].to_numpy(), key) for key in value}}
    if type(value).__name__ in _PARTS:
        names = learned_values(type(value))
        encoded = {name: encode_part(getattr(value, name), name) for name in names}
        return {"part": type(value).__name__, "fields": encoded}
    raise InputError(
        f"{name}={value!r} cannot be saved: model files hold numbers and text only; use a "
        "parameter of these types."
    )


def decode(value: Any, tensors: dict[str, Array]) -> Any:
    """Inverse of :func:`encode`; raises ValueError or KeyError for other contents.

    Tensors are taken out of ``tensors``: a file that names one of them many times would fill the
    memory with its copies.
    """
    if isinstance(value, list):
        return [decode(part, tensors) for part in value]
    if not isinstance(value, dict):
        return value
    if "part" in value:
        return _decode_part(value["part"], value["fields"], tensors)
    ((tag, content),) = value.items()
    if tag == "float":
        return float(content)
    if tag == "tuple":
        return tuple(decode(part, tensors) for part in content)
    if tag == "dict":
        return {key: decode(part, tensors) for key, part in content.items()}
    if tag == "tensor":
        return tensors.pop(content)
    if tag == "texts":
        return _texts(content)
    if tag == "series":
        index, values = (_column(content[key], tensors) for key in ("index", "values"))
        return pd.Series(
            values, index=pd.Index(index, name=content["index_name"]), name=content["name"]
        )
    if tag == "frame":
        return pd.DataFrame({key: _column(part, tensors) for key, part in content.items()})
    raise ValueError(f"unknown content {tag!r}")


def checksum(header: Mapping[str, Any], tensors: Mapping[str, Array]) -> str:
    """SHA-256 of a header, whose entries keep their order in the file, and of all tensors."""
    return tensor_checksum(json.dumps(header, allow_nan=False), tensors)


def _decode_part(name: str, encoded: Mapping[str, Any], tensors: dict[str, Array]) -> Any:
    cls = _PARTS[name]
    if set(encoded) != set(learned_values(cls)):
        raise ValueError(f"incomplete {name}")
    return cls(**{key: decode(part, tensors) for key, part in encoded.items()})


def _texts(content: Any) -> Array:
    """Array of texts; as objects, because a fixed width would be that of the longest text."""
    if not (isinstance(content, list) and all(isinstance(text, str) for text in content)):
        raise ValueError("texts that are not a list of texts")
    texts = np.empty(len(content), object)
    texts[:] = content
    return texts


def _column(encoded: Any, tensors: dict[str, Array]) -> Array:
    """Array of one dimension; pandas would repeat a single number, and fill the memory with it."""
    values = decode(encoded, tensors)
    if not (isinstance(values, np.ndarray) and values.ndim == 1):
        raise ValueError("a column that is not an array")
    return values

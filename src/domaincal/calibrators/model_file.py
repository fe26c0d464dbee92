"""Calibrators in ``.safetensors`` files: arrays as tensors, all else as JSON; nothing is executed.

The format is a contract with files that exist: a change of what is written raises ``VERSION``, and
``tests/archives`` keeps a file of every version.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import fields
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from domaincal._files import decoding, read_tensors, write_tensors
from domaincal._typing import Array
from domaincal.calibrators.base import Calibrator
from domaincal.calibrators.heads.kernel_ridge import KernelMap
from domaincal.calibrators.heads.neighbours import NeighbourMap
from domaincal.calibrators.heads.regressor import RegressorMap
from domaincal.calibrators.registry import METHODS
from domaincal.calibrators.score_maps import AveragedSteps, LineMap, StepMap
from domaincal.calibrators.temperature_target import TemperatureTarget
from domaincal.errors import FileFormatError, InputError
from domaincal.statistics import LinearMap

FORMAT = "domaincal calibrator"
VERSION = 2
#: Learned values that files of earlier versions lack, with the value that keeps their meaning.
_ADDED_LATER: dict[str, Any] = {"feature_columns_": None}

# What a name in a file may stand for: a table, so that no file decides what is imported.
_CLASSES = {cls.__name__: cls for cls in METHODS.values()}
_PARTS: dict[str, type] = {
    cls.__name__: cls
    for cls in (LinearMap, KernelMap, NeighbourMap, StepMap, AveragedSteps, LineMap,
                TemperatureTarget)
}  # fmt: skip


def save_calibrator(calibrator: Calibrator, path: str | os.PathLike[str]) -> None:
    """Write a fitted calibrator; see :meth:`Calibrator.save`."""
    check_is_fitted(calibrator)
    if Path(path).suffix != ".safetensors":
        raise InputError(f"{path} must end in .safetensors; calibrators have no other format.")
    if _CLASSES.get(type(calibrator).__name__) is not type(calibrator):
        raise InputError(f"{type(calibrator).__name__} is not a calibrator of domaincal.")
    if isinstance(getattr(calibrator, "head_", None), RegressorMap):
        raise InputError(
            f"head={getattr(calibrator, 'head', None)!r} cannot be saved: files of domaincal hold "
            "numbers, never Python objects; use a head by name, such as 'ridge'."
        )
    tensors: dict[str, Array] = {}
    header = {
        "format": FORMAT,
        "version": VERSION,
        "written_by": f"domaincal {version('domaincal')}",
        "class": type(calibrator).__name__,
        "parameters": {
            name: _encode(value, name, tensors)
            for name, value in calibrator.get_params(deep=False).items()
        },
        "learned": {
            name: _encode(getattr(calibrator, name), name, tensors) for name in calibrator._learned
        },
    }
    header["sha256"] = _checksum(header, tensors)
    # One entry: the order of several would differ from run to run.
    write_tensors(path, tensors, {"domaincal": json.dumps(header, allow_nan=False)})


def load(path: str | os.PathLike[str]) -> Any:
    """The calibrator that ``calibrator.save(path)`` wrote.

    Nothing in the file is executed: it holds numbers and texts, and names of classes are looked up
    in a fixed table.

    Examples
    --------
    >>> import tempfile, domaincal as dc
    >>> data, _ = dc.make_multi_domain(n_domains=4, random_state=0)
    >>> calibrator = dc.TemperatureScaling().fit(data.logits, data.labels)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     calibrator.save(folder + "/model.safetensors")
    ...     again = dc.load(folder + "/model.safetensors")
    >>> again.temperature_ == calibrator.temperature_
    True
    """
    if Path(path).is_dir():
        raise InputError(f"{path} is a folder; give a file that calibrator.save(path) wrote.")
    tensors, metadata = read_tensors(path)
    text = metadata.get("domaincal")
    if text is None:
        raise FileFormatError(
            f"{path} holds no calibrator of domaincal; give a file that calibrator.save(path) "
            "wrote."
        )
    with decoding(path, "save the calibrator again"):
        header = json.loads(text)
        found = header["format"], header["version"]
        if found[0] != FORMAT or not isinstance(found[1], int) or found[1] < 1:
            raise ValueError(f"format {found[0]!r}, version {found[1]!r}")
        if found[1] > VERSION:
            raise FileFormatError(
                f"{path} is of version {found[1]} of the format ({header.get('written_by')}), this "
                f"domaincal reads up to {VERSION}; upgrade domaincal."
            )
        if header.pop("sha256") != _checksum(header, tensors):
            raise ValueError("its checksum is another")
        calibrator = _restore(header, tensors)
        _try(calibrator)
        return calibrator


def _restore(header: Mapping[str, Any], tensors: Mapping[str, Array]) -> Calibrator:
    if header["class"] not in _CLASSES:
        raise ValueError(f"the class {header['class']!r} is unknown")
    cls = _CLASSES[header["class"]]
    calibrator = cls()
    unknown = set(header["parameters"]) - set(calibrator.get_params(deep=False))
    if unknown:
        raise ValueError(f"{cls.__name__} has no parameter {min(unknown)!r}")
    # Parameters that the file does not know were added later; their defaults keep its meaning.
    calibrator.set_params(**{k: _decode(v, tensors) for k, v in header["parameters"].items()})
    added = {k: v for k, v in _ADDED_LATER.items() if k in cls._learned}
    learned = {**added, **header["learned"]}
    if set(learned) != set(cls._learned):
        raise ValueError(f"it lacks what {cls.__name__} learns")
    for name, expected in cls._learned.items():
        value = _decode(learned[name], tensors)
        if not isinstance(value, expected):
            raise ValueError(f"{name} is a {type(value).__name__}")
        setattr(calibrator, name, value)
    return calibrator


def _try(calibrator: Calibrator) -> None:
    """Raise where the parts of a calibrator do not fit together: it cannot predict a row."""
    n_classes = calibrator.n_classes_
    if calibrator.class_names_ is not None and len(calibrator.class_names_) != n_classes:
        raise ValueError("class names of another number of classes")
    if not getattr(calibrator, "temperature_", 1.0) > 0:
        raise ValueError("a temperature that is not positive")
    domains = getattr(calibrator, "domain_temperatures_", pd.Series([1.0])).index[:1]
    try:
        confidence = calibrator.predict_confidence(
            np.zeros((1, n_classes)),
            features=np.zeros((1, getattr(calibrator, "_n_features", 1))),
            domains=domains.to_numpy(),
        )
    except InputError as error:  # the fault is the file's, not that of these rows
        raise ValueError(str(error)) from error
    if not (confidence.shape == (1,) and 0.0 <= confidence[0] <= 1.0):
        raise ValueError("it predicts no probability")


def _encode(value: Any, name: str, tensors: dict[str, Array]) -> Any:
    """JSON of a value; numeric arrays go to ``tensors`` and leave their name."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return {"float": repr(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value

    def inner(part: Any, key: object) -> Any:
        return _encode(part, f"{name}.{key}", tensors)

    if isinstance(value, list | tuple):
        parts = [inner(part, k) for k, part in enumerate(value)]
        return parts if isinstance(value, list) else {"tuple": parts}
    if isinstance(value, dict):
        return {"dict": {str(key): inner(part, key) for key, part in value.items()}}
    if isinstance(value, np.ndarray):
        if value.dtype.kind in "fiub":
            tensors[name] = value
            return {"tensor": name}
        return {"texts": [str(text) for text in value.tolist()]}
    if isinstance(value, pd.Series):
        index = inner(np.asarray(value.index), "index")
        return {"series": {"index": index, "values": inner(value.to_numpy(), "values"),
                           "name": value.name, "index_name": value.index.name}}  # fmt: skip
    if isinstance(value, pd.DataFrame):
        return {"frame": {str(key): inner(value[key].to_numpy(), key) for key in value}}
    if type(value).__name__ in _PARTS:
        given = {f.name: inner(getattr(value, f.name), f.name) for f in fields(value)}
        return {"part": type(value).__name__, "fields": given}
    raise InputError(
        f"{name}={value!r} cannot be saved: files of domaincal hold numbers and texts."
    )


def _decode(value: Any, tensors: Mapping[str, Array]) -> Any:
    """What :func:`_encode` was given."""
    if isinstance(value, list):
        return [_decode(part, tensors) for part in value]
    if not isinstance(value, dict):
        return value
    if "part" in value:
        cls = _PARTS[value["part"]]
        given = {name: _decode(part, tensors) for name, part in value["fields"].items()}
        if set(given) != {f.name for f in fields(cls)}:
            raise ValueError(f"{value['part']} is incomplete")
        return cls(**given)
    ((kind, content),) = value.items()
    if kind == "float":
        return float(content)
    if kind == "tuple":
        return tuple(_decode(part, tensors) for part in content)
    if kind == "dict":
        return {key: _decode(part, tensors) for key, part in content.items()}
    if kind == "tensor":
        return tensors[content]
    if kind == "texts":
        return np.array(content, dtype=str)
    if kind == "series":
        index = pd.Index(_decode(content["index"], tensors), name=content["index_name"])
        return pd.Series(_decode(content["values"], tensors), index=index, name=content["name"])
    if kind == "frame":
        return pd.DataFrame({key: _decode(part, tensors) for key, part in content.items()})
    raise ValueError(f"it holds a {kind!r}")


def _checksum(header: Mapping[str, Any], tensors: Mapping[str, Array]) -> str:
    """Of the header, whose entries keep their order in a file, and all tensors."""
    digest = hashlib.sha256(json.dumps(header, allow_nan=False).encode())
    for name in sorted(tensors):
        values = np.ascontiguousarray(tensors[name])
        digest.update(f"{name} {values.dtype.str} {values.shape}\n".encode())
        digest.update(values.tobytes())
    return digest.hexdigest()

"""Calibrators in ``.safetensors`` files: arrays as tensors, everything else as JSON.

Loading a file never executes code. A change of the written content requires a new ``VERSION``, and
``tests/archives`` keeps files of every version.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from domaincal._files import decoding, read_tensors, write_tensors
from domaincal._typing import Array
from domaincal.calibrators.base import Calibrator
from domaincal.calibrators.heads import RegressorMap
from domaincal.calibrators.model_encoding import checksum, decode, encode
from domaincal.calibrators.registry import METHODS
from domaincal.errors import FileFormatError, InputError

FORMAT = "domaincal calibrator"
VERSION = 2

# Differences of version 1: attributes with another name, and attributes that did not exist.
_RENAMED_IN_VERSION_2 = {"_guard": "_temperature_target", "_of_logits": "_uses_logits"}
_NEW_IN_VERSION_2: dict[str, Any] = {"feature_columns_": None}

# Classes that a file may contain. The table is fixed: a file cannot import anything else.
_CLASSES = {cls.__name__: cls for cls in METHODS.values()}


def save_calibrator(calibrator: Calibrator, path: str | os.PathLike[str]) -> None:
    """Write a fitted calibrator; see :meth:`Calibrator.save`."""
    check_is_fitted(calibrator)
    if Path(path).suffix != ".safetensors":
        raise InputError(f"{path} must end in .safetensors, the only format of calibrators.")
    if _CLASSES.get(type(calibrator).__name__) is not type(calibrator):
        raise InputError(
            f"{type(calibrator).__name__} is not a calibrator of domaincal and cannot be saved; "
            f"save one of {', '.join(_CLASSES)}."
        )
    if isinstance(getattr(calibrator, "head_", None), RegressorMap):
        raise InputError(
            f"head={getattr(calibrator, 'head', None)!r} cannot be saved: model files hold numbers "
            "and text, not Python objects; use the name of a head, such as 'ridge'."
        )
    tensors: dict[str, Array] = {}
    header = {
        "format": FORMAT,
        "version": VERSION,
        "written_by": f"domaincal {version('domaincal')}",
        "class": type(calibrator).__name__,
        "parameters": {
            name: encode(value, name, tensors)
            for name, value in calibrator.get_params(deep=False).items()
        },
        "learned": {
            name: encode(getattr(calibrator, name), name, tensors) for name in calibrator._learned
        },
    }
    header["sha256"] = checksum(header, tensors)
    # A single metadata entry: safetensors writes several entries in random order.
    write_tensors(path, tensors, {"domaincal": json.dumps(header, allow_nan=False)})


def load(path: str | os.PathLike[str]) -> Any:
    """Load a calibrator that was written by ``calibrator.save(path)``.

    Loading executes no code from the file: it holds numbers and text only, and the names of
    classes are looked up in a fixed table.

    Parameters
    ----------
    path : path of a ``.safetensors`` file

    Returns
    -------
    The fitted calibrator.

    Examples
    --------
    >>> import tempfile, domaincal as dc
    >>> data, _ = dc.make_multi_domain(n_domains=4, random_state=0)
    >>> calibrator = dc.TemperatureScaling().fit(data)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     calibrator.save(folder + "/model.safetensors")
    ...     loaded = dc.load(folder + "/model.safetensors")
    >>> loaded.temperature_ == calibrator.temperature_
    True
    """
    if Path(path).is_dir():
        raise InputError(f"{path} is a folder; pass a file written by calibrator.save(path).")
    if Path(path).suffix != ".safetensors":
        raise InputError(
            f"{path} does not end in .safetensors; pass a file written by calibrator.save(path)."
        )
    tensors, metadata = read_tensors(path)
    text = metadata.get("domaincal")
    if text is None:
        raise FileFormatError(
            f"{path} holds no calibrator of domaincal; pass a file written by "
            "calibrator.save(path)."
        )
    with decoding(path, "save the calibrator again"):
        header = json.loads(text)
        _check_version(header, path)
        if header.pop("sha256") != checksum(header, tensors):
            raise ValueError("wrong checksum")
        calibrator = _restore(header, tensors)
        _check_prediction(calibrator)
        return calibrator


def _check_version(header: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    file_format, file_version = header["format"], header["version"]
    if file_format != FORMAT or not isinstance(file_version, int) or file_version < 1:
        raise ValueError(f"format {file_format!r}, version {file_version!r}")
    if file_version > VERSION:
        raise FileFormatError(
            f"{path} has format version {file_version} (written by {header.get('written_by')}), "
            f"but this domaincal reads versions up to {VERSION}; upgrade domaincal."
        )


def _restore(header: Mapping[str, Any], tensors: Mapping[str, Array]) -> Calibrator:
    """Calibrator with the parameters and learned values of a header."""
    if header["class"] not in _CLASSES:
        raise ValueError(f"unknown class {header['class']!r}")
    cls = _CLASSES[header["class"]]
    calibrator = cls()
    unknown = set(header["parameters"]) - set(calibrator.get_params(deep=False))
    if unknown:
        raise ValueError(f"{cls.__name__} has no parameter {min(unknown)!r}")
    # Parameters added after the file was written have defaults that keep its meaning.
    calibrator.set_params(**{k: decode(v, tensors) for k, v in header["parameters"].items()})
    learned = dict(header["learned"])
    if header["version"] == 1:
        learned = _upgrade_from_version_1(learned, cls)
    if set(learned) != set(cls._learned):
        different = min(set(learned) ^ set(cls._learned))
        raise ValueError(f"{different} is missing, or is not an attribute of {cls.__name__}")
    for name, expected in cls._learned.items():
        value = decode(learned[name], tensors)
        if not isinstance(value, expected):
            raise ValueError(f"{name} is a {type(value).__name__}")
        setattr(calibrator, name, value)
    return calibrator


def _upgrade_from_version_1(learned: Mapping[str, Any], cls: type[Calibrator]) -> dict[str, Any]:
    new = {name: value for name, value in _NEW_IN_VERSION_2.items() if name in cls._learned}
    return {**new, **{_RENAMED_IN_VERSION_2.get(name, name): v for name, v in learned.items()}}


def _check_prediction(calibrator: Calibrator) -> None:
    """Raise ValueError if the learned values do not fit together: predict one row."""
    n_classes = calibrator.n_classes_
    if calibrator.class_names_ is not None and len(calibrator.class_names_) != n_classes:
        raise ValueError(f"{len(calibrator.class_names_)} class names for {n_classes} classes")
    if not getattr(calibrator, "temperature_", 1.0) > 0:
        raise ValueError("the temperature is not positive")
    domains = getattr(calibrator, "domain_temperatures_", pd.Series([1.0])).index[:1]
    try:
        confidence = calibrator.predict_confidence(
            np.zeros((1, n_classes)),
            features=np.zeros((1, getattr(calibrator, "_n_features", 1))),
            domains=domains.to_numpy(),
        )
    except InputError as error:  # the row is valid, so the file is not
        raise ValueError(str(error)) from error
    if not (confidence.shape == (1,) and 0.0 <= confidence[0] <= 1.0):
        raise ValueError("its predictions are not probabilities")

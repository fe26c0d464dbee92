"""Calibrators in ``.safetensors`` files: arrays as tensors, everything else as JSON.

Loading a file never executes code. A change of the written content requires a new ``VERSION``, and
``tests/archives`` keeps files of every version.
"""

from __future__ import annotations

import json
import os
from collections.abc import Container, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sklearn.utils.validation import check_is_fitted

from domaincal._files import decoding
from domaincal._tensor_files import parse_header, read_tensors, write_tensors
from domaincal._typing import Array
from domaincal.calibrators.base import Calibrator
from domaincal.calibrators.files.learned_state import check_state, learned_values
from domaincal.calibrators.files.model_encoding import checksum, decode, encode
from domaincal.calibrators.files.registry import METHODS
from domaincal.calibrators.heads import RegressorMap
from domaincal.errors import FileFormatError, InputError

FORMAT = "domaincal calibrator"
VERSION = 4

_GIVE = "give a file that calibrator.save(path) (domaincal fit) has written"

# Differences of version 1: attributes with another name, and attributes that did not exist.
_RENAMED_IN_VERSION_2 = {"_guard": "_temperature_target", "_of_logits": "_uses_logits"}
_NEW_IN_VERSION_2: dict[str, Any] = {"feature_columns_": None}
_NEW_IN_VERSION_3: dict[str, Any] = {"provenance_": None}

# Classes that a file may contain. The table is fixed: a file cannot import anything else.
# AutoCalibration saves its winner.
_CLASSES = {cls.__name__: cls for name, cls in METHODS.items() if name != "auto"}


def save_calibrator(
    calibrator: Calibrator,
    path: str | os.PathLike[str],
    sections: Mapping[str, Mapping[str, Any]] | None = None,
) -> None:
    """Write a fitted calibrator; see :meth:`Calibrator.save`.

    ``sections`` are values for other parts of domaincal, by the name of the section: numbers,
    texts, and arrays of them. The part that writes a section checks it after reading.
    """
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
    calibrator._check_parameters()
    try:
        check_state(calibrator)
    except ValueError as error:
        raise InputError(
            f"{type(calibrator).__name__} cannot be saved: {error}; fit it again."
        ) from error
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
            name: encode(getattr(calibrator, name), name, tensors)
            for name in learned_values(type(calibrator))
        },
        "sections": {
            section: {key: encode(value, f"{section}.{key}", tensors) for key, value in of.items()}
            for section, of in (sections or {}).items()
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
    return load_with_sections(path)[0]


def load_with_sections(path: str | os.PathLike[str]) -> tuple[Any, dict[str, dict[str, Any]]]:
    """Load a calibrator, and the sections that were saved with it, by name.

    Files of versions before 4 have no sections.
    """
    if Path(path).is_dir():
        raise InputError(f"{path} is a folder; {_GIVE}.")
    if Path(path).suffix != ".safetensors":
        raise InputError(f"{path} does not end in .safetensors; {_GIVE}.")
    tensors, metadata = read_tensors(path)
    text = metadata.get("domaincal")
    if text is None:
        raise FileFormatError(f"{path} holds no calibrator of domaincal; {_GIVE}.")
    with decoding(path, "save the calibrator again"):
        header = parse_header(text)
        _check_version(header, path)
        if header.pop("sha256") != checksum(header, tensors):
            raise ValueError("wrong checksum")
        try:
            calibrator = _restore(header, tensors)
            sections = {
                name: {key: decode(value, tensors) for key, value in encoded.items()}
                for name, encoded in header.get("sections", {}).items()
            }
            return calibrator, sections
        except InputError as error:  # of a parameter or a name: the file is wrong, not the user
            raise ValueError(str(error).removesuffix(".")) from error


def _check_version(header: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    file_format, file_version = header["format"], header["version"]
    if file_format != FORMAT or type(file_version) is not int or file_version < 1:
        raise ValueError(f"format {file_format!r}, version {file_version!r}")
    if file_version > VERSION:
        raise FileFormatError(
            f"{path} has format version {file_version} (written by {header.get('written_by')}), "
            f"but this domaincal reads versions up to {VERSION}; upgrade domaincal."
        )


def _restore(header: Mapping[str, Any], tensors: dict[str, Array]) -> Calibrator:
    """Calibrator with the parameters and learned values of a header, which are checked."""
    if header["class"] not in _CLASSES:
        raise ValueError(f"unknown class {header['class']!r}")
    cls = _CLASSES[header["class"]]
    calibrator = cls()
    unknown = set(header["parameters"]) - set(calibrator.get_params(deep=False))
    if unknown:
        raise ValueError(f"{cls.__name__} has no parameter {min(unknown)!r}")
    # Parameters added after the file was written have defaults that keep its meaning.
    calibrator.set_params(**{k: decode(v, tensors) for k, v in header["parameters"].items()})
    calibrator._check_parameters()
    learned, names = dict(header["learned"]), learned_values(cls)
    if header["version"] == 1:
        learned = _upgrade_from_version_1(learned, names)
    if header["version"] < 3:
        learned = {**_NEW_IN_VERSION_3, **learned}
    if set(learned) != set(names):
        different = min(set(learned) ^ set(names))
        raise ValueError(f"{different} is missing, or is not an attribute of {cls.__name__}")
    for name in names:
        setattr(calibrator, name, decode(learned[name], tensors))
    check_state(calibrator)
    return calibrator


def _upgrade_from_version_1(learned: Mapping[str, Any], names: Container[str]) -> dict[str, Any]:
    new = {name: value for name, value in _NEW_IN_VERSION_2.items() if name in names}
    return {**new, **{_RENAMED_IN_VERSION_2.get(name, name): v for name, v in learned.items()}}

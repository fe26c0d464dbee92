"""Files of CalibratedDomainClassifier: a calibrator, and the model that it belongs to."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from domaincal._files import decoding, open_file
from domaincal._typing import Array
from domaincal._wording import few
from domaincal.calibrators.files.model_file import load_with_sections, save_calibrator
from domaincal.deploy.classifier_features import FeatureMap, NumericColumns, given_features
from domaincal.deploy.classifier_parameters import fitted_estimator, require_classifier
from domaincal.deploy.model_scores import class_labels, unfrozen
from domaincal.errors import FileFormatError, InputError

#: Name of the section of the model file.
SECTION = "classifier"
# Kinds of classes, by the kind of their numpy dtype.
_DTYPES = {"U": str, "O": object, "i": np.int64, "u": np.int64, "f": np.float64, "b": np.bool_}


@dataclass(frozen=True, eq=False)
class ClassifierParts:
    """Content of a file: what a CalibratedDomainClassifier learned besides its estimator.

    Attributes
    ----------
    calibrator : calibrator
    classes : array
    columns : list of str or None
        Names of the columns of X.
    n_columns : int or None
    probability_floor : float or None
    feature_map : FeatureMap or None
    is_numeric : bool
        Whether the features are the numeric columns of X.
    """

    calibrator: Any
    classes: Array
    columns: list[str] | None
    n_columns: int | None
    probability_floor: float | None
    feature_map: FeatureMap | None
    is_numeric: bool


def save_classifier(
    model: Any, path: str | os.PathLike[str], estimator_file: str | os.PathLike[str] | None
) -> None:
    """Write the calibrator of a fitted CalibratedDomainClassifier; see its method ``save``."""
    features = model._feature_map
    kind = None if features is None else "given"
    numbers: dict[str, Array] = {}
    if isinstance(features, NumericColumns):
        kind = "numeric"
        numbers = {"positions": features.positions, "medians": features.medians}
    names = getattr(model, "feature_names_in_", None)
    section = {
        "estimator": type(unfrozen(model.estimator_)).__name__,
        "estimator_sha256": None if estimator_file is None else _file_digest(estimator_file),
        "classes": _plain_classes(model.classes_),
        "class_kind": model.classes_.dtype.kind,
        "columns": None if names is None else [str(name) for name in names],
        "n_columns": getattr(model, "n_features_in_", None),
        "probability_floor": model.probability_floor_,
        "features": kind,
        **numbers,
    }
    save_calibrator(model.calibrator_, path, sections={SECTION: section})


def load_classifier_parts(
    path: str | os.PathLike[str],
    estimator: Any,
    estimator_file: str | os.PathLike[str] | None,
    features: Any,
) -> ClassifierParts:
    """Read a file of :func:`save_classifier` and compare it with an estimator."""
    require_classifier(estimator)
    fitted_estimator(estimator)
    calibrator, sections = load_with_sections(path)
    if SECTION not in sections:
        raise InputError(
            f"{path} holds a calibrator that was not saved by CalibratedDomainClassifier; use "
            "domaincal.load(path), which takes logits."
        )
    with decoding(path, "save the classifier again"):
        section = _checked_section(sections[SECTION], calibrator.n_classes_)
    if estimator_file is not None or section["estimator_sha256"] is not None:
        _check_digest(path, section, estimator_file)
    _check_estimator(path, section, estimator)
    kind = section["features"]
    if kind == "given" and features is None:
        raise InputError(
            f"{path} was saved by a classifier with a function or transformer for its features, "
            "which no file can hold; pass the same one as features=..."
        )
    if kind != "given" and features is not None:
        raise InputError(
            f"{path} needs no features=..., because its features are "
            f"{'the numeric columns of X' if kind == 'numeric' else 'none'}; leave it out."
        )
    feature_map: FeatureMap | None = given_features(features) if kind == "given" else None
    if kind == "numeric":
        feature_map = NumericColumns(section["positions"], section["medians"])
    return ClassifierParts(
        calibrator, section["classes"], section["columns"], section["n_columns"],
        section["probability_floor"], feature_map, kind == "numeric",
    )  # fmt: skip


def _plain_classes(classes: Array) -> Array:
    """Classes as an array that model files hold."""
    is_text = all(isinstance(name, str) for name in classes.tolist())
    if classes.dtype.kind not in _DTYPES or (classes.dtype.kind == "O" and not is_text):
        raise InputError(
            f"classes of dtype {classes.dtype} cannot be saved; fit the model with labels that are "
            "strings or numbers."
        )
    return classes.astype(object) if is_text else classes.astype(_DTYPES[classes.dtype.kind])


def _checked_section(section: Mapping[str, Any], n_classes: int) -> dict[str, Any]:
    """The section, with classes of their former dtype; raises ValueError for wrong contents."""
    found = dict(section)
    kind = found["class_kind"]
    if kind not in _DTYPES:
        raise ValueError(f"classes of kind {kind!r}")
    found["classes"] = np.asarray(found["classes"]).astype(_DTYPES[kind])
    if found["classes"].shape != (n_classes,):
        raise ValueError("the number of classes is not that of the calibrator")
    columns, n_columns = found["columns"], found["n_columns"]
    if n_columns is not None and (type(n_columns) is not int or n_columns < 0):
        raise ValueError(f"n_columns is {n_columns!r}")
    if columns is not None:
        texts = isinstance(columns, list) and all(isinstance(name, str) for name in columns)
        if not texts or len(columns) != n_columns:
            raise ValueError("columns are not one text for each column")
    floor = found["probability_floor"]
    if floor is not None and not (isinstance(floor, float) and 0.0 < floor < 1.0):
        raise ValueError(f"probability_floor is {floor!r}")
    if found["features"] not in ("numeric", "given", None):
        raise ValueError(f"features are {found['features']!r}")
    if found["features"] == "numeric":
        _check_numeric(found)
    for key in ("estimator", "estimator_sha256"):
        if not isinstance(found[key], str | None):
            raise ValueError(f"{key} is not a text")
    return found


def _check_numeric(section: Mapping[str, Any]) -> None:
    positions, medians = section["positions"], section["medians"]
    arrays = isinstance(positions, np.ndarray) and isinstance(medians, np.ndarray)
    if not arrays or positions.ndim != 1 or positions.shape != medians.shape:
        raise ValueError("positions and medians are not of the same length")
    if positions.dtype.kind != "i" or medians.dtype.kind != "f" or not np.isfinite(medians).all():
        raise ValueError("positions or medians are not numbers")
    if not len(positions) or positions.min() < 0 or positions.max() >= (section["n_columns"] or 0):
        raise ValueError("positions outside the columns")


def _check_digest(
    path: str | os.PathLike[str],
    section: Mapping[str, Any],
    estimator_file: str | os.PathLike[str] | None,
) -> None:
    stored = section["estimator_sha256"]
    if stored is None:
        raise InputError(
            f"{path} was saved without estimator_file, so {estimator_file} cannot be compared with "
            "it; leave out estimator_file, or save again with it."
        )
    if estimator_file is None:
        raise InputError(
            f"{path} was saved for one file of {section['estimator']}; pass estimator_file=..., "
            "the file that you read the estimator from, to compare its SHA-256."
        )
    if _file_digest(estimator_file) != stored:
        raise FileFormatError(
            f"{path} was saved for another model than {estimator_file}: the SHA-256 of the file "
            "differs; fit and save the calibrator again for this model."
        )


def _check_estimator(
    path: str | os.PathLike[str], section: Mapping[str, Any], estimator: Any
) -> None:
    """Compare the classes and columns of an estimator, where it knows them."""
    cure = "fit and save the calibrator again for this model"
    classes = class_labels(estimator)
    if classes is not None and list(classes) != list(section["classes"]):
        raise FileFormatError(
            f"{path} was saved for the classes {few(map(repr, section['classes'].tolist()))}, but "
            f"the estimator has {few(map(repr, np.asarray(classes).tolist()))}; {cure}."
        )
    names = getattr(estimator, "feature_names_in_", None)
    columns = section["columns"]
    if names is not None and columns is not None and not _same_columns(names, columns):
        different = sorted(set(columns) ^ set(map(str, names)))
        differences = f": {few(map(repr, different))}" if different else " in their order"
        raise FileFormatError(
            f"{path} was saved for other columns than the estimator has{differences}; {cure}."
        )
    n_columns = getattr(estimator, "n_features_in_", None)
    if None not in (n_columns, section["n_columns"]) and n_columns != section["n_columns"]:
        raise FileFormatError(
            f"{path} was saved for {section['n_columns']} columns, but the estimator has "
            f"{n_columns}; {cure}."
        )


def _same_columns(names: Any, columns: list[str]) -> bool:
    """Whether the names are equal; LightGBM has underscores in place of spaces."""
    return [re.sub(r"\s", "_", str(name)) for name in names] == [
        re.sub(r"\s", "_", name) for name in columns
    ]


def _file_digest(path: str | os.PathLike[str]) -> str:
    """SHA-256 of a file."""
    if Path(path).is_dir():
        raise InputError(f"estimator_file={os.fspath(path)!r} is a folder; pass a file.")
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

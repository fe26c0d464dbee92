"""Labels of the rows, and the classes of a model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from domaincal._typing import Array
from domaincal._wording import few
from domaincal.deploy.model_scores import class_labels, unfrozen
from domaincal.errors import InputError


def check_y(y: Any) -> Array:
    """1-D array of labels without missing values."""
    if y is None:
        raise InputError(
            "CalibratedDomainClassifier requires y to be passed, but the target y is None; pass "
            "the label of each row."
        )
    labels: Array = column_or_1d(y, warn=True)
    missing = np.asarray(pd.isna(labels))
    found = "NaN"
    if labels.dtype.kind == "f" and not missing.any():
        missing = ~np.isfinite(labels)
        found = f"infinity or a value too large for {labels.dtype!r}"
    if missing.any():
        raise InputError(
            f"y has no label in row {int(np.argmax(missing))} (Input y contains {found}.); drop "
            "the row."
        )
    check_classification_targets(labels)
    return labels


def require_aligned(X: Any, values: Any, name: str) -> None:
    """Refuse a series whose index has the labels of X in another order: rows go by position."""
    if not (isinstance(X, pd.DataFrame | pd.Series) and isinstance(values, pd.Series)):
        return
    ours, theirs = X.index, values.index
    if ours.equals(theirs) or len(ours) != len(theirs) or not (ours.is_unique and theirs.is_unique):
        return
    if ours.isin(theirs).all():
        raise InputError(
            f"the index of {name} has the rows of X in another order, but rows are matched by "
            f"their position; pass {name}.loc[X.index], or arrays."
        )


def classes_of(estimator: Any, n_columns: int) -> Array:
    """Classes of a fitted estimator; numbers from 0 if it has no ``classes_``."""
    found = class_labels(estimator)
    classes = np.arange(n_columns) if found is None else np.asarray(found)
    if classes.shape != (n_columns,):
        raise InputError(
            f"{type(unfrozen(estimator)).__name__} has {len(classes)} classes, but scores with "
            f"{n_columns} columns; wrap it in a class with predict_proba and classes_."
        )
    return classes


def class_indices(y: Array, classes: Array) -> Array:
    """Index of each label in the classes of the model."""
    if y.dtype.kind in "biuf" and classes.dtype.kind in "biuf":
        # XGBoost has the classes 0 and 1 for labels that are booleans.
        indices = pd.Index(classes.astype(float)).get_indexer(pd.Index(y.astype(float)))
    else:
        indices = pd.Index(classes).get_indexer(pd.Index(y))
    if (indices < 0).any():
        row = int(np.argmin(indices))
        cure = "Drop these rows, or fit a model that knows the class"
        if (indices < 0).all():
            cure = "Pass labels of the same kind as in the fit of the model"
        raise InputError(
            f"y contains {y[row : row + 1].tolist()[0]!r} (row {row}), which the model has never "
            f"seen; its classes are {few(map(repr, classes.tolist()), 10)}. {cure}."
        )
    return np.asarray(indices, np.int64)

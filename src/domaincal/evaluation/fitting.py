"""From calibrators and data to fitted calibrators."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from sklearn.base import clone

from domaincal._typing import Array
from domaincal.calibrators.base import Calibrator
from domaincal.data import CalibrationData
from domaincal.errors import InputError

# A calibrator, several, or several by name.
Calibrators: TypeAlias = Any


def fitted_to(calibrator: Any, data: CalibrationData) -> Any:
    """A clone of the calibrator, fitted to the data.

    It is given arrays, so that calibrators of users need not know CalibrationData, and the names
    of classes and features afterwards.
    """
    y = labels_of(data, "data")
    fitted = clone(calibrator)
    data = data if isinstance(fitted, Calibrator) else data.numpy()
    fitted.fit(data.logits, y, features=data.features, domains=data.domains)
    fitted.class_names_ = data.class_names
    if getattr(fitted, "feature_columns_", ()) is None:
        fitted.feature_columns_ = data.feature_names
    return fitted


def predicts_at_once(fitted: Any) -> bool:
    """Whether one call gives all predictions: methods of ours that no subclass has replaced."""
    return isinstance(fitted, Calibrator) and all(
        getattr(type(fitted), name) is getattr(Calibrator, name)
        for name in ("predict_confidence", "predict_proba")
    )


def labels_of(data: CalibrationData, argument: str) -> Array:
    """The labels, which an evaluation cannot do without."""
    if not isinstance(data, CalibrationData):
        raise InputError(
            f"{argument} must be CalibrationData, got {type(data).__name__}; make it with "
            "domaincal.CalibrationData(logits, labels=..., features=..., domains=...)."
        )
    if data.labels is None:
        raise InputError(f"{argument} has no labels; pass CalibrationData(..., labels=...).")
    return data.labels


def named(calibrators: Calibrators) -> dict[str, Any]:
    """Calibrators by name: the class, or its full repr where a class occurs twice."""
    if isinstance(calibrators, Mapping):
        listed = list(calibrators.values())
    else:
        listed = list(calibrators) if isinstance(calibrators, Sequence) else [calibrators]
    if not listed:
        raise InputError("calibrators is empty; pass at least one calibrator.")
    for calibrator in listed:
        if isinstance(calibrator, type) or not hasattr(calibrator, "predict_confidence"):
            raise InputError(
                f"calibrators holds {calibrator!r}, which is no calibrator; pass instances, e.g. "
                "domaincal.TemperatureScaling()."
            )
    if isinstance(calibrators, Mapping):
        return dict(calibrators)
    classes = [type(calibrator).__name__ for calibrator in listed]
    names = [
        repr(c) if classes.count(name) > 1 else name
        for c, name in zip(listed, classes, strict=True)
    ]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(
            f"calibrators holds {twice} twice; pass a mapping from names to calibrators."
        )
    return dict(zip(names, listed, strict=True))

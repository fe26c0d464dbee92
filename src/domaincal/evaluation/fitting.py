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
    """A clone of the calibrator, fitted to the data; it remembers the names of the classes."""
    y = labels_of(data, "data")
    fitted = clone(calibrator)
    data = readable_by(fitted, data)
    fitted.fit(data.logits, y, features=data.features, domains=data.domains)
    fitted.class_names_ = data.class_names
    return fitted


def readable_by(calibrator: Any, data: CalibrationData) -> CalibrationData:
    """The data; for a calibrator that may know nothing of tensors, as numpy arrays."""
    return data if isinstance(calibrator, Calibrator) else data.numpy()


def require_same_classes(fitted: Any, data: CalibrationData) -> None:
    """Refuse columns that are known to be other classes than those of the fit."""
    known = getattr(fitted, "class_names_", None)
    if known is None or data.class_names is None or len(known) != len(data.class_names):
        return  # a different number of classes is refused by every prediction
    for fitted_name, name in zip(known, data.class_names, strict=True):
        if fitted_name != name:
            raise InputError(
                "the classes of the data are not those of the fit, or in another order, e.g. "
                f"{name!r} in place of {fitted_name!r}; bring the columns of the logits into the "
                "order of the fit."
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

"""Names and fitted clones of the calibrators that are evaluated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from sklearn.base import clone

from domaincal._typing import Array
from domaincal.calibrators.base import Calibrator
from domaincal.calibrators.inputs import check_same_classes
from domaincal.calibrators.temperature_calibrator import TemperatureCalibrator
from domaincal.data import BlockedRows, CalibrationData
from domaincal.data.blocked_rows import AnyRows, as_rows
from domaincal.errors import InputError

#: A calibrator, a sequence of calibrators, or a mapping from names to calibrators. Calibrators of
#: users need not derive from :class:`Calibrator`.
Calibrators: TypeAlias = Any

_PREDICT_TEMPERATURE = TemperatureCalibrator.predict_temperature


def fit_clone(calibrator: Any, data: AnyRows) -> Any:
    """Fit a clone of the calibrator to the data.

    A calibrator with its own ``fit`` gets arrays, because it need not accept CalibrationData. The
    names of the classes are set afterwards.

    Examples
    --------
    >>> import domaincal as dc
    >>> data, _ = dc.make_multi_domain(n_domains=2, random_state=0)
    >>> fit_clone(dc.TemperatureScaling(), data).n_classes_
    10
    """
    data = labelled_rows(data, "data")
    fitted = clone(calibrator)
    if type(fitted).fit is Calibrator.fit:
        return fitted.fit(data)
    if isinstance(data, BlockedRows):
        raise InputError(
            f"{type(fitted).__name__} has a fit of its own, which needs the rows in memory; pass "
            "store.read() instead of the store."
        )
    y = require_labels(data, "data")
    data = _readable(fitted, data)
    fitted.fit(data.logits, y, features=data.features, domains=data.domains)
    fitted.class_names_ = data.class_names
    return fitted


def prediction_arguments(fitted: Any, data: CalibrationData) -> tuple[Any, dict[str, Any]]:
    """Logits, and features and domains by name, for a calibrator with its own predictions.

    Raises InputError if the classes of the data are known to differ from those of the fit.
    """
    check_same_classes(getattr(fitted, "class_names_", None), data.class_names)
    data = _readable(fitted, data)
    return data.logits, {"features": data.features, "domains": data.domains}


def predict_temperatures(fitted: Any, data: CalibrationData) -> Any:
    """Temperature of each row, also for calibrators with their own ``predict_temperature``."""
    if getattr(type(fitted), "predict_temperature", None) is _PREDICT_TEMPERATURE:
        return fitted.predict_temperature(data)
    logits, arrays = prediction_arguments(fitted, data)
    return fitted.predict_temperature(logits, **arrays)


def _readable(calibrator: Any, data: CalibrationData) -> CalibrationData:
    """The data; as numpy arrays for a calibrator that need not know rows on a device."""
    return data if isinstance(calibrator, Calibrator) else data.numpy()


def has_base_predictions(fitted: Any) -> bool:
    """Whether the predictions are those of :class:`Calibrator`, not overridden by a subclass.

    Then ``predict_all`` and ``score_rows`` return the same values as the single methods.
    """
    return isinstance(fitted, Calibrator) and all(
        getattr(type(fitted), name) is getattr(Calibrator, name)
        for name in ("predict_confidence", "predict_proba")
    )


def block_predictor(fitted: Any, rows: BlockedRows) -> Any:
    """Calibrator that predicts blocks; a user's own predictions may depend on all rows."""
    if not has_base_predictions(fitted):
        raise InputError(
            f"{type(fitted).__name__} has predictions of its own, which need the rows in memory; "
            "pass store.read() instead of the store."
        )
    return fitted.block_predictor(rows)


def require_labels(data: CalibrationData, argument: str) -> Array:
    """Labels of the data; InputError if ``data`` is no CalibrationData or has no labels."""
    if not isinstance(data, CalibrationData):
        raise InputError(
            f"{argument} must be CalibrationData, got {type(data).__name__}; create it with "
            "domaincal.CalibrationData(logits, labels=..., features=..., domains=...)."
        )
    if data.labels is None:
        raise InputError(f"{argument} has no labels; pass CalibrationData(..., labels=...).")
    return data.labels


def labelled_rows(data: Any, argument: str) -> AnyRows:
    """The data, or the rows of a store; InputError if they have no labels."""
    data = as_rows(data)
    if not isinstance(data, BlockedRows):
        require_labels(data, argument)
    elif data.labels is None:
        raise InputError(f"{argument} has no labels; write the store from data with labels.")
    found: AnyRows = data
    return found


def calibrators_by_name(calibrators: Calibrators) -> dict[str, Any]:
    """Calibrators by name: the class name, or the repr if a class occurs several times.

    Examples
    --------
    >>> import domaincal as dc
    >>> list(calibrators_by_name([dc.MaxSoftmax(), dc.TemperatureScaling()]))
    ['MaxSoftmax', 'TemperatureScaling']
    """
    if isinstance(calibrators, Mapping):
        listed = list(calibrators.values())
    else:
        listed = list(calibrators) if isinstance(calibrators, Sequence) else [calibrators]
    if not listed:
        raise InputError("calibrators is empty; pass at least one calibrator.")
    for calibrator in listed:
        if hasattr(calibrator, "calibration_data"):
            raise InputError(
                f"calibrators contains a {type(calibrator).__name__}; pass its calibrator_, and "
                "as data what its calibration_data(X, y, domains=...) returns."
            )
        if isinstance(calibrator, type) or not hasattr(calibrator, "predict_confidence"):
            raise InputError(
                f"calibrators contains {calibrator!r}, which is not a calibrator; pass instances, "
                "such as domaincal.TemperatureScaling()."
            )
    if isinstance(calibrators, Mapping):
        return dict(calibrators)
    classes = [type(calibrator).__name__ for calibrator in listed]
    names = [
        repr(c) if classes.count(name) > 1 else name
        for c, name in zip(listed, classes, strict=True)
    ]
    duplicate = next((name for name in names if names.count(name) > 1), None)
    if duplicate is not None:
        raise InputError(
            f"calibrators contains {duplicate} twice; pass a mapping from names to calibrators."
        )
    return dict(zip(names, listed, strict=True))

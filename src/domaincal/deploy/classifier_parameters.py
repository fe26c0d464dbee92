"""Checks of the parameters of CalibratedDomainClassifier."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from domaincal._specs import Spec
from domaincal.calibrators import AutoCalibration
from domaincal.calibrators.base import Calibrator
from domaincal.calibrators.files.registry import calibrator_from_spec
from domaincal.data.batches import BatchSize
from domaincal.deploy.model_scores import unfrozen
from domaincal.errors import InputError


def new_calibrator(method: Any, batch_size: BatchSize) -> Any:
    """Unfitted calibrator of the parameters ``method`` and ``batch_size``."""
    if isinstance(method, Calibrator):
        calibrator: Any = clone(method)
    elif isinstance(method, str):
        calibrator = calibrator_from_spec(Spec.parse(method))
    else:
        raise InputError(
            f"method must be a calibrator of domaincal or the name of one, such as 'auto' or "
            f"'ts', got {method!r}."
        )
    if batch_size == 1:
        return calibrator
    if method != "auto":
        raise InputError(
            f"batch_size={batch_size!r} is for method='auto'; leave it out for method={method!r}."
        )
    return AutoCalibration(batch_size=batch_size)


def require_classifier(estimator: Any) -> None:
    """Refuse estimators of scikit-learn that are no classifiers."""
    estimator = unfrozen(estimator)
    if isinstance(estimator, BaseEstimator) and not is_classifier(estimator):
        raise InputError(
            f"{type(estimator).__name__} is not a classifier; pass one with predict_proba or "
            "decision_function."
        )
    if type(estimator).__module__.startswith("xgboost") and not hasattr(estimator, "fit"):
        raise InputError(
            "xgboost.Booster does not take the X of a classifier; read its file with "
            "XGBClassifier().load_model(file)."
        )


def fitted_estimator(estimator: Any) -> Any:
    """The estimator, which must be fitted."""
    inner = unfrozen(estimator)
    if isinstance(inner, BaseEstimator):
        try:
            check_is_fitted(inner)
        except NotFittedError as error:
            raise NotFittedError(
                f"{type(inner).__name__} is not fitted; fit it to other rows first, or pass cv=5 "
                "to fit it here."
            ) from error
    return estimator


def require_values(domains: Any) -> None:
    """Refuse the name of a column in place of its values."""
    if isinstance(domains, str):
        raise InputError(
            f"domains={domains!r} is a text; pass the domain of each row, such as "
            f"frame[{domains!r}]."
        )

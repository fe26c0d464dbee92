"""Logits of a fitted classifier: its margins, decision function or log-probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from domaincal._typing import Array, FloatArray
from domaincal.data import logits_from_probabilities, logits_from_scores
from domaincal.errors import InputError

# Keyword of ``predict`` that returns margins, the raw scores before the softmax, by package.
_MARGIN_KEYWORDS = {"lightgbm": "raw_score", "xgboost": "output_margin"}


def model_logits(estimator: Any, X: Any) -> FloatArray:
    """Logits of each row, one column for each class of the estimator.

    They are, in this order: the margins of LightGBM and XGBoost models; ``decision_function(X)``;
    the logarithm of ``predict_proba(X)`` with a floor of 1e-12. Scores of shape (n,) are log-odds
    of the second class.
    """
    estimator = unfrozen(estimator)
    margins = _margins(estimator, X)
    if margins is not None:
        return _two_dimensional(margins)
    n_classes = None if class_labels(estimator) is None else len(class_labels(estimator))
    if hasattr(estimator, "decision_function") and not _compares_pairs(estimator):
        scores = _two_dimensional(estimator.decision_function(X))
        if n_classes is None or scores.shape[1] == n_classes:
            return scores
    if hasattr(estimator, "predict_proba"):
        return _logits_from_predicted(estimator.predict_proba(X), estimator)
    raise InputError(
        f"{type(estimator).__name__} gives no score for each class: it has no predict_proba, and "
        "no decision_function with one column for each class; use another estimator, or set "
        "decision_function_shape='ovr' if it has that parameter."
    )


def class_labels(estimator: Any) -> Any:
    """The ``classes_`` of a fitted estimator, or None if it has none (such as lightgbm.Booster)."""
    return getattr(unfrozen(estimator), "classes_", None)


def unfrozen(estimator: Any) -> Any:
    """The estimator inside FrozenEstimator."""
    while isinstance(estimator, FrozenEstimator):
        estimator = estimator.estimator
    return estimator


def _margins(estimator: Any, X: Any) -> Array | None:
    """Margins of a LightGBM or XGBoost model, alone or as the last step of a pipeline."""
    last = unfrozen(estimator[-1]) if isinstance(estimator, Pipeline) else estimator
    keyword = next((_MARGIN_KEYWORDS[p] for p in _packages(last) if p in _MARGIN_KEYWORDS), None)
    if keyword is None:
        return None
    if last is not estimator and len(estimator) > 1:
        X = estimator[:-1].transform(X)
    return np.asarray(last.predict(X, **{keyword: True}))


def _packages(thing: Any) -> list[str]:
    """Top-level packages of the classes of an object; none of them is imported."""
    return [cls.__module__.split(".")[0] for cls in type(thing).__mro__]


def _compares_pairs(estimator: Any) -> bool:
    """Whether the columns of the decision function are pairs of classes, as in SVC."""
    return getattr(estimator, "decision_function_shape", None) == "ovo"


def _two_dimensional(scores: Any) -> FloatArray:
    scores = np.asarray(scores)
    if scores.ndim == 1 or scores.shape[1] == 1:
        return logits_from_scores(scores)
    return np.asarray(scores, np.float64)


def _logits_from_predicted(probabilities: Any, estimator: Any) -> FloatArray:
    if isinstance(probabilities, list):
        raise InputError(
            f"{type(estimator).__name__} predicts several outputs; calibrate one classifier for "
            "each output."
        )
    try:
        return logits_from_probabilities(probabilities)
    except InputError as error:
        raise InputError(
            f"predict_proba of {type(estimator).__name__} does not return probabilities: {error}"
        ) from error

"""Scores of a fitted classifier: its margins, decision function or probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import _num_samples

from domaincal._typing import Array, FloatArray
from domaincal._validation import check_probabilities
from domaincal.data import logits_from_probabilities, logits_from_scores
from domaincal.data.logits import DEFAULT_FLOOR
from domaincal.errors import InputError

# Keyword of ``predict`` that returns margins, the raw scores before the softmax, by package.
_MARGIN_KEYWORDS = {"lightgbm": "raw_score", "xgboost": "output_margin"}


@dataclass(frozen=True, eq=False)
class ModelScores:
    """Scores of each row, one column for each class.

    Attributes
    ----------
    values : array of shape (n, n_classes)
    are_probabilities : bool
        Whether they are probabilities. Other scores are used as logits.
    """

    values: FloatArray
    are_probabilities: bool

    def floor(self) -> float | None:
        """Probability in place of smaller ones, whose logarithms are far too low; None for logits.

        A forest of 100 trees predicts 0 for what may well be 0.004. If there are zeros, the floor
        is half of the smallest positive probability.

        Examples
        --------
        >>> ModelScores(np.array([[0.0, 1.0], [0.02, 0.98]]), are_probabilities=True).floor()
        0.01
        """
        if not self.are_probabilities:
            return None
        positive = self.values > 0.0
        if positive.all() or not positive.any():
            return DEFAULT_FLOOR
        return max(DEFAULT_FLOOR, float(self.values[positive].min()) / 2.0)

    def logits(self, floor: float | None) -> FloatArray:
        """The scores as logits; probabilities below ``floor`` count as the floor."""
        if not self.are_probabilities:
            return self.values
        return logits_from_probabilities(self.values, floor=floor or DEFAULT_FLOOR)


def model_scores(estimator: Any, X: Any) -> ModelScores:
    """Scores of each row; an error if the model returns another number of rows.

    See :func:`_scores`.
    """
    scores = _scores(estimator, X)
    if len(scores.values) != _num_samples(X):
        raise InputError(
            f"{type(unfrozen(estimator)).__name__} returned {len(scores.values)} rows of scores "
            f"for {_num_samples(X)} rows of X; pass X in the form of the fit, such as a column of "
            "texts in place of a data frame."
        )
    return scores


def _scores(estimator: Any, X: Any) -> ModelScores:
    """Scores of each row, in the first form that the estimator has.

    They are, in this order: the margins of LightGBM and XGBoost models; ``decision_function(X)``;
    ``predict_proba(X)``. Scores of shape (n,) are log-odds of the second class.
    """
    estimator = unfrozen(estimator)
    margins = _margins(estimator, X)
    if margins is not None:
        return ModelScores(_two_dimensional(margins), are_probabilities=False)
    classes = class_labels(estimator)
    if hasattr(estimator, "decision_function") and not _compares_pairs(estimator):
        scores = _two_dimensional(estimator.decision_function(X))
        if classes is None or scores.shape[1] == len(classes):
            return ModelScores(scores, are_probabilities=False)
    if hasattr(estimator, "predict_proba"):
        return ModelScores(_probabilities(estimator, X), are_probabilities=True)
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


def _probabilities(estimator: Any, X: Any) -> FloatArray:
    """Probabilities by ``predict_proba``."""
    found = estimator.predict_proba(X)
    if isinstance(found, list):
        raise InputError(
            f"{type(estimator).__name__} predicts several outputs; calibrate one classifier for "
            "each output."
        )
    try:
        return check_probabilities(found, tolerance=0.02).astype(np.float64)
    except InputError as error:
        raise InputError(
            f"predict_proba of {type(estimator).__name__} does not return probabilities: {error}"
        ) from error

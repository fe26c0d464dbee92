"""Head that is any scikit-learn regressor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from domaincal._typing import Array, FeatureMatrix, FloatArray, IntArray
from domaincal.calibrators.heads.block_predictions import predict_blocks
from domaincal.calibrators.heads.grid_search import search_candidates
from domaincal.calibrators.heads.regression_problem import (
    JUDGED_FROM,
    SEARCH_ROWS,
    HeadFit,
    HeadProblem,
    empty_search,
)
from domaincal.errors import InputError
from domaincal.statistics.feature_products import feature_blocks


@dataclass(frozen=True, eq=False)
class RegressorMap:
    """Predictions of a fitted regressor."""

    regressor: Any

    def __call__(self, features: FeatureMatrix) -> FloatArray:
        """Predicted value of each row."""

        def predict(x: Array) -> Array:
            return np.asarray(self.regressor.predict(x), np.float64).reshape(len(x))

        return predict_blocks(predict, features, feature_blocks(*features.shape))


def fit_regressor(problem: HeadProblem, regressor: Any) -> HeadFit:
    """Fit a clone of the regressor to all rows of the used domains."""
    rows = problem.all_rows()
    head = _fit_rows(problem, regressor, rows)
    return HeadFit(head, {}, empty_search(), len(rows), _score_held_out(problem, regressor))


def _score_held_out(problem: HeadProblem, regressor: Any) -> pd.DataFrame:
    """NLL of the regressor on held-out domains, fitted to at most ``SEARCH_ROWS`` rows."""
    if problem.used.sum() < JUDGED_FROM:
        return empty_search()

    def predict(k: int, train: IntArray, test: IntArray) -> FloatArray:
        values = _fit_rows(problem, regressor, train)(problem.host_features(test))
        if not np.isfinite(values).all():
            raise ValueError("predictions that are not finite have no NLL")
        return values[:, None]

    try:
        rows = problem.subsample(SEARCH_ROWS)
        return search_candidates(problem, rows, [{}], predict, default=0)[1]
    except ValueError:
        # Not every regressor can be fitted to a part of the rows, such as neighbours that are more
        # than these rows. The calibrator is fitted to all rows and needs no score.
        return empty_search()


def _fit_rows(problem: HeadProblem, regressor: Any, rows: IntArray) -> RegressorMap:
    weight = problem.row_weights(rows)
    options = {}
    if weight is not None:
        if not has_fit_parameter(regressor, "sample_weight"):
            raise InputError(
                f"head={type(regressor).__name__} takes no sample_weight in fit; leave out "
                "sample_weight and domain_weight='equal', or choose another regressor."
            )
        options["sample_weight"] = weight
    features = problem.host_features(rows)
    fitted = clone(regressor).fit(features, problem.row_targets(rows), **options)
    return RegressorMap(fitted)

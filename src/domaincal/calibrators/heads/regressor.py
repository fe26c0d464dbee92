"""Head that is any scikit-learn regressor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from domaincal._typing import Array, FeatureMatrix, FloatArray
from domaincal.calibrators.heads.block_predictions import predict_blocks
from domaincal.calibrators.heads.grid_search import empty_search
from domaincal.calibrators.heads.regression_problem import HeadFit, HeadProblem
from domaincal.errors import InputError
from domaincal.statistics.normal_equations import feature_blocks


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
    return HeadFit(RegressorMap(fitted), {}, empty_search(), len(rows))

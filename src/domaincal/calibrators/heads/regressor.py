"""Any regressor of scikit-learn's kind."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from domaincal._typing import Array, FeatureRows, FloatArray
from domaincal.calibrators.heads.grid_search import no_search
from domaincal.calibrators.heads.regression_problem import HeadFit, HeadProblem, values_of
from domaincal.errors import InputError
from domaincal.statistics.normal_equations import feature_blocks


@dataclass(frozen=True, eq=False)
class RegressorMap:
    """What a fitted regressor predicts."""

    regressor: Any

    def __call__(self, features: FeatureRows) -> FloatArray:
        """Value for each row."""

        def predict(x: Array) -> Array:
            return np.asarray(self.regressor.predict(x), np.float64).reshape(len(x))

        return values_of(predict, features, feature_blocks(*features.shape))


def fit_regressor(problem: HeadProblem, regressor: Any) -> HeadFit:
    """A clone of the regressor, fitted on all rows of the domains in use."""
    rows = problem.rows()
    weight = problem.row_weight(rows)
    options = {}
    if weight is not None:
        if not has_fit_parameter(regressor, "sample_weight"):
            raise InputError(
                f"head={type(regressor).__name__} takes no sample_weight in fit; leave out "
                "sample_weight and domain_weight='equal', or choose another regressor."
            )
        options["sample_weight"] = weight
    target = problem.targets[problem.codes[rows]]
    fitted = clone(regressor).fit(problem.read(rows), target, **options)
    return HeadFit(RegressorMap(fitted), {}, no_search(), len(rows))

"""Features of calibrators that need them, at fit and at prediction."""

from __future__ import annotations

from domaincal._typing import Array, ArrayLike
from domaincal._validation import check_features, check_finite_features
from domaincal.calibrators.base import Calibrator
from domaincal.calibrators.inputs import Inputs, TrainingRows, check_feature_names


class FeatureInputs(Calibrator):
    """Base class of calibrators that always use the features that they are given.

    Attributes
    ----------
    feature_columns_ : tuple of str or None
        Names of the features, if the data of the fit had names. At prediction, a data frame may
        have these columns in any order; other columns are an error.
    """

    feature_columns_: tuple[str, ...] | None
    _n_features: int

    def _training_features(self, rows: TrainingRows) -> Array:
        """Checked features of the rows of a fit."""
        x = check_features(rows.features, n_rows=len(rows.logits), needed_by=type(self).__name__)
        check_finite_features(x)
        self._n_features = x.shape[1]
        return x

    def _prediction_features(self, features: ArrayLike | None, n_rows: int) -> Array:
        """Features of the rows of a prediction; that they are finite is checked later."""
        return check_features(
            features, n_rows=n_rows, n_features=self._n_features, needed_by=type(self).__name__
        )

    def _store_feature_names(self, inputs: Inputs) -> None:
        self.feature_columns_ = inputs.feature_names
        if self.feature_columns_ is not None:
            check_feature_names(self.feature_columns_)

"""CalibratedDomainClassifier: a scikit-learn classifier with calibrated probabilities."""

# Short signatures in help(): annotations stay text.
from __future__ import annotations

import os
from typing import Any, ClassVar, Literal, Self

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    MetaEstimatorMixin,
    clone,
)
from sklearn.frozen import FrozenEstimator
from sklearn.utils import get_tags, indexable
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from domaincal._typing import Array, ArrayLike, FloatArray
from domaincal._validation import check_domains, check_sample_weight
from domaincal._warnings import warn_caller
from domaincal.calibrators.base import Calibrator
from domaincal.data import CalibrationData
from domaincal.data.batches import BatchSize
from domaincal.deploy.class_labels import (
    check_y,
    class_indices,
    classes_of,
    require_aligned,
)
from domaincal.deploy.classifier_features import FeatureMap, learn_features
from domaincal.deploy.classifier_file import load_classifier_parts, save_classifier
from domaincal.deploy.classifier_parameters import (
    fitted_estimator,
    new_calibrator,
    require_classifier,
    require_values,
)
from domaincal.deploy.model_scores import ModelScores, class_labels, model_scores, unfrozen
from domaincal.deploy.out_of_fold import fit_model, out_of_fold_scores
from domaincal.errors import DomaincalWarning, InputError


def _calibrator_has(name: str) -> Any:
    return lambda model: hasattr(model.calibrator_, name)


class CalibratedDomainClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """A classifier whose probabilities are calibrated in every domain, and in new domains.

    It wraps any scikit-learn classifier, LightGBM or XGBoost model. The predicted classes are
    those with the highest score of the model. A domain is where a row comes from, such as a
    hospital, a site, a client or a person.

    The scores of the model are the margins of LightGBM and XGBoost; else ``decision_function``;
    else the logarithm of ``predict_proba``, where probabilities below ``probability_floor_`` count
    as that floor.

    Parameters
    ----------
    estimator : classifier
        Fitted, if ``cv`` is None. It then stays as it is, also if this object is cloned.
    method : str or calibrator, default "auto"
        How to calibrate: a calibrator, or the name of a method with its parameters, such as
        ``"ts"`` or ``"md-ts:target=log"``. ``"auto"`` is :class:`AutoCalibration`, which chooses by
        the scores of domains that are left out.
    features : "numeric", function, fitted transformer or None, default "numeric"
        What the calibrator knows about a row besides its scores. ``"numeric"``: the numeric columns
        of X, where missing values are replaced by the median; sparse matrices and texts have none.
        A function of X, or a transformer with ``transform(X)``, returns an array of shape
        (n, n_features).
    cv : int, splitter or None, default None
        None: the estimator is fitted already, and all rows of ``fit`` are used to calibrate it;
        they should not be its training rows. A number of folds or a splitter of scikit-learn: each
        row is scored by a clone of the estimator that was fitted to other folds, and the estimator
        is then fitted to all rows. With a number, a fold holds whole domains.
    batch_size : int or "domain", default 1
        For ``method="auto"``: number of rows from one domain that are predicted together; see
        :class:`AutoCalibration`. 1: every row is predicted on its own. Otherwise ``domains`` groups
        the rows of a prediction.

    Attributes
    ----------
    estimator_ : classifier
        The fitted estimator.
    calibrator_ : calibrator
        The fitted calibrator; the winner for ``method="auto"``, whose ``provenance_`` has the
        scores of all candidates.
    classes_ : array of shape (n_classes,)
        The class of each column of ``predict_proba``.
    probability_floor_ : float or None
        Floor of the probabilities of the estimator: 1e-12; if it predicted zeros in the fit, half
        of its smallest positive probability, if that is more. None for margins and decision
        functions.
    n_features_in_ : int
        Number of columns of X in the fit, if X has columns.
    feature_names_in_ : array of str
        Names of the columns, if X was a data frame with names.

    Examples
    --------
    >>> import domaincal as dc
    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(600, 3))
    >>> site = rng.choice(["north", "south", "east", "west"], 600)
    >>> y = np.where(X[:, 0] + rng.normal(size=600) > 0, "ill", "healthy")
    >>> model = dc.CalibratedDomainClassifier(LogisticRegression(), cv=4)
    >>> model.fit(X, y, domains=site).predict_proba(X[:5]).shape
    (5, 2)
    >>> model.classes_.tolist()
    ['healthy', 'ill']
    """

    # Domains are passed on by pipelines and searches without a further request of the user.
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"domains": True}
    __metadata_request__predict_proba: ClassVar[dict[str, bool]] = {"domains": True}

    estimator_: Any
    calibrator_: Any
    classes_: Array
    probability_floor_: float | None
    _feature_map: FeatureMap | None

    def __init__(
        self,
        estimator: Any,
        method: str | Calibrator = "auto",
        *,
        features: Literal["numeric"] | Any | None = "numeric",
        cv: Any = None,
        batch_size: BatchSize = 1,
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.features = features
        self.cv = cv
        self.batch_size = batch_size

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        *,
        domains: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Fit the calibrator, and the estimator too if ``cv`` is given.

        Parameters
        ----------
        X : data frame, array, sparse matrix or list of texts
            Whatever the estimator takes.
        y : array of shape (n,)
            Labels: numbers or strings.
        domains : array of integers or strings, shape (n,), optional
            Domain of each row. Without domains, ``"auto"`` fits one temperature and warns.
        sample_weight : array of shape (n,), optional
            Weight of each row in the calibration, and in the fit of the estimator if ``cv`` is
            given.

        Returns
        -------
        self
        """
        calibrator = new_calibrator(self.method, self.batch_size)
        require_classifier(self.estimator)
        require_aligned(X, y, "y")
        require_aligned(X, domains, "domains")
        labels = check_y(y)
        X, _ = indexable(X, labels)
        validate_data(self, X, skip_check_array=True)
        weight = check_sample_weight(sample_weight, n_rows=len(labels))
        codes = None
        require_values(domains)
        if domains is not None:
            codes, _ = check_domains(domains, n_rows=len(labels), needed_by=type(self).__name__)
        usable = np.ones(len(labels), bool)
        if self.cv is None:
            self.estimator_ = fitted_estimator(self.estimator)
            scores = model_scores(self.estimator_, X)
            self.classes_ = classes_of(self.estimator_, scores.values.shape[1])
        else:
            self.estimator_ = fit_model(clone(self.estimator), X, labels, weight)
            self.classes_ = np.asarray(class_labels(self.estimator_))
            scores, usable = out_of_fold_scores(
                self.estimator, X, labels, classes=self.classes_, domain_codes=codes, cv=self.cv,
                sample_weight=weight,
            )  # fmt: skip
        self.probability_floor_ = scores.floor()
        self._feature_map = learn_features(self.features, X)
        rows = self._rows(scores, X, labels, domains).select(usable)
        calibrator.fit(rows, sample_weight=None if weight is None else weight[usable])
        self.calibrator_ = getattr(calibrator, "best_", calibrator)
        return self

    def predict(self, X: Any) -> Array:
        """Class with the highest score of each row; calibration does not change it.

        Parameters
        ----------
        X : data frame, array, sparse matrix or list of texts
            Rows with the columns of the fit.

        Returns
        -------
        array of shape (n,)
        """
        self._check_columns(X)
        predicted: Array = self.classes_[model_scores(self.estimator_, X).values.argmax(axis=1)]
        return predicted

    def predict_proba(self, X: Any, *, domains: ArrayLike | None = None) -> Array:
        """Calibrated probabilities, one column for each class of ``classes_``.

        Parameters
        ----------
        X : data frame, array, sparse matrix or list of texts
            Rows with the columns of the fit.
        domains : array of integers or strings, shape (n,), optional
            Domain of each row, for methods that predict batches: the rows of one domain are one
            batch; without domains all rows are one, with a warning. Other methods ignore it.

        Returns
        -------
        array of shape (n, n_classes)
        """
        rows = self._rows_to_predict(X, domains)
        probabilities: Array = self.calibrator_.predict_proba(rows)
        return probabilities

    @available_if(_calibrator_has("predict_temperature"))  # type: ignore[untyped-decorator]
    def predict_temperature(self, X: Any, *, domains: ArrayLike | None = None) -> FloatArray:
        """Temperature of each row, by which its scores are divided.

        The parameters are those of :meth:`predict_proba`.

        Returns
        -------
        array of shape (n,)
        """
        rows = self._rows_to_predict(X, domains)
        temperatures: FloatArray = self.calibrator_.predict_temperature(rows)
        return temperatures

    def calibration_data(
        self, X: Any, y: ArrayLike | None = None, *, domains: ArrayLike | None = None
    ) -> CalibrationData:
        """Scores of the model and features of the rows, for :func:`score_table` and the like.

        Parameters
        ----------
        X : data frame, array, sparse matrix or list of texts
            Rows with the columns of the fit.
        y : array of shape (n,), optional
            Labels.
        domains : array of integers or strings, shape (n,), optional
            Domain of each row.

        Returns
        -------
        CalibrationData
        """
        self._check_columns(X)
        require_values(domains)
        require_aligned(X, y, "y")
        require_aligned(X, domains, "domains")
        scores = model_scores(self.estimator_, X)
        return self._rows(scores, X, None if y is None else check_y(y), domains)

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        estimator_file: str | os.PathLike[str] | None = None,
    ) -> None:
        """Write the calibrator to a ``.safetensors`` file, without the estimator.

        Save the estimator with its own tools, such as ``booster_.save_model`` of LightGBM, and
        name its file here: :meth:`load` then tells whether the two belong together. The
        file of the calibrator holds numbers and text only; :func:`domaincal.load` and the command
        line read it, too.

        Parameters
        ----------
        path : path
            File of the calibrator, ``.safetensors``. An existing file is replaced atomically.
        estimator_file : path, optional
            File of the estimator, whose SHA-256 is stored.
        """
        check_is_fitted(self)
        save_classifier(self, path, estimator_file)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        estimator: Any,
        *,
        estimator_file: str | os.PathLike[str] | None = None,
        features: Any = None,
    ) -> CalibratedDomainClassifier:
        """Read a calibrator and put it on the fitted estimator that it was saved for.

        It is an error if the classes or columns of the estimator, or the SHA-256 of its file, are
        not those of the saved model.

        Parameters
        ----------
        path : path
            File written by :meth:`save`.
        estimator : classifier
            The fitted estimator, read by you. A ``lightgbm.Booster`` will do.
        estimator_file : path, optional
            File that the estimator was read from; needed if ``save`` got one.
        features : function or fitted transformer, optional
            Needed if the saved model had one, because files hold no code.

        Returns
        -------
        CalibratedDomainClassifier
        """
        parts = load_classifier_parts(path, estimator, estimator_file, features)
        parameters = "numeric" if parts.is_numeric else features
        model = cls(estimator, clone(parts.calibrator), features=parameters)
        model.estimator_ = estimator
        model.calibrator_ = parts.calibrator
        model.classes_ = parts.classes
        model.probability_floor_ = parts.probability_floor
        model._feature_map = parts.feature_map
        if parts.n_columns is not None:
            model.n_features_in_ = parts.n_columns
        if parts.columns is not None:
            model.feature_names_in_ = np.array(parts.columns, object)
        return model

    def _check_columns(self, X: Any) -> None:
        """Raise InputError if X has other columns than in the fit."""
        check_is_fitted(self)
        try:
            validate_data(self, X, skip_check_array=True, reset=False)
        except ValueError as error:
            found = " ".join(str(error).split()).rstrip(".")
            cure = "Pass X with the columns of the fit, in the same order"
            if np.ndim(X) == 1:
                cure = "Reshape your data to two dimensions, such as X.reshape(1, -1) for one row"
            raise InputError(f"{found}. {cure}.") from error

    def _rows_to_predict(self, X: Any, domains: Any) -> CalibrationData:
        """Rows of a prediction; warns if all of them are one batch because there are no domains."""
        rows = self.calibration_data(X, domains=domains)
        if domains is None and len(rows) > 1 and self.calibrator_.predicts_batches():
            warn_caller(
                f"{len(rows)} rows without domains are taken as one batch from one place; pass "
                "domains=..., the domain of each row, or fit with batch_size=1.",
                DomaincalWarning,
            )
        return rows

    def _rows(self, scores: ModelScores, X: Any, y: Array | None, domains: Any) -> CalibrationData:
        """Rows for the calibrator."""
        features = None if self._feature_map is None else self._feature_map.transform(X)
        names = None
        if not np.array_equal(self.classes_, np.arange(len(self.classes_))):
            names = tuple(map(str, self.classes_.tolist()))
        return CalibrationData(
            scores.logits(self.probability_floor_),
            labels=None if y is None else class_indices(y, self.classes_),
            features=features,
            domains=domains,
            class_names=names,
        )

    def __sklearn_clone__(self) -> CalibratedDomainClassifier:
        """Clone without the learned values; what was given fitted stays fitted."""
        given = self.get_params(deep=False)
        if self.cv is None:
            # Frozen, so that a search cannot change the parameters of the user's own model.
            frozen = isinstance(self.estimator, FrozenEstimator)
            given["estimator"] = self.estimator if frozen else FrozenEstimator(self.estimator)
        else:
            given["estimator"] = clone(self.estimator)
        given["method"] = clone(self.method, safe=False)
        copy = type(self)(**given)
        if hasattr(self, "_metadata_request"):
            copy._metadata_request = self._metadata_request
        return copy

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "calibrator_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        estimator = unfrozen(self.estimator)
        if hasattr(estimator, "__sklearn_tags__"):  # lightgbm.Booster has none
            tags.input_tags = get_tags(estimator).input_tags
        return tags

"""Base classes of the calibrators, which hold their public methods."""

# Short signatures in help(): annotations stay text.
from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self, TypeAlias, cast

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from domaincal._notebook_view import notebook_view
from domaincal._row_arrays import is_row_array
from domaincal._tensors import convert_like, host_array, is_tensor, on_device
from domaincal._typing import Array, ArrayLike, FloatArray
from domaincal._validation import (
    check_class_names,
    check_labels,
    check_logits,
    check_sample_weight,
    warn_of_probabilities,
)
from domaincal.calibrators.blocked_fits import read_or_sample
from domaincal.calibrators.blocked_predictions import predict_blocks
from domaincal.calibrators.choice.selection import Selection
from domaincal.calibrators.inputs import (
    Inputs,
    TrainingRows,
    check_same_classes,
    order_features,
    unpack_arguments,
)
from domaincal.calibrators.predictions import Predictions, RowScores, proper_scores
from domaincal.calibrators.torch_export import TorchExport
from domaincal.data import BlockedRows, CalibrationData
from domaincal.data.blocked_rows import AnyData, as_rows
from domaincal.data.fingerprint import start_fingerprint
from domaincal.errors import InputError

#: Arrays with one entry for each row, or with a single entry shared by all rows.
RowValues: TypeAlias = tuple[Any, ...]


class Calibrator(TorchExport, BaseEstimator, ABC):
    """Base class of all calibrators, which turn logits into calibrated probabilities.

    Every method takes arrays, or one :class:`CalibrationData` or :class:`Store` in their place. The
    rows of a store are read in blocks. Predictions for logits in a torch tensor are tensors on the
    same device.

    Subclasses implement ``_learn``, which fits checked rows; ``_prepare``, which computes the
    values of each row that all predictions share; and ``_confidences`` and ``_probabilities``,
    which compute predictions from these values.

    Attributes
    ----------
    n_classes_ : int
        Number of classes.
    class_names_ : tuple of str or None
        Names of the classes, if the data of the fit had names. Predictions for data with other
        class names are an error.
    data_fingerprint_ : str
        Hash of the logits and labels of the fit.
    provenance_ : Selection or None
        How the calibrator was chosen, if :class:`AutoCalibration` did.
    """

    # scikit-learn treats every argument except X as metadata: here the first one is the data.
    __metadata_request__fit: ClassVar[dict[str, str]] = {"logits": UNUSED}
    __metadata_request__predict_proba: ClassVar[dict[str, str]] = {"logits": UNUSED}

    # Whether _learn takes rows that are read in blocks. Others get a sample of them in memory.
    _fits_blocks: ClassVar[bool] = False

    # Whether _learn takes labels on a device. Others get them as a numpy array.
    _fits_device_labels: ClassVar[bool] = False

    n_classes_: int
    data_fingerprint_: str
    class_names_: tuple[str, ...] | None
    provenance_: Selection | None

    def fit(
        self,
        logits: ArrayLike | AnyData,
        y: ArrayLike | None = None,
        *,
        features: ArrayLike | None = None,
        domains: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Fit the calibrator to labelled rows.

        Parameters
        ----------
        logits : array of shape (n, n_classes), or CalibrationData
            Unnormalised scores in float16, float32 or float64. The columns of a data frame are
            class names. A CalibrationData replaces logits, y, features and domains.
        y : array of shape (n,)
            Class of each row: the column number of its logit, from 0. Class names are accepted
            if the columns of ``logits`` have names.
        features : array of shape (n, n_features), optional
            Features of each row, such as the penultimate embedding of the network. Ignored by
            methods that use no features.
        domains : array of integers or strings, shape (n,), optional
            Domain of each row. Ignored by methods that pool all rows.
        sample_weight : array of shape (n,), optional
            Weight of each row. An integer weight is the same as repeating the row.

        Returns
        -------
        self
        """
        self._check_parameters()
        inputs = unpack_arguments("fit", logits, y=y, features=features, domains=domains)
        if is_row_array(inputs.logits) and sample_weight is not None:
            raise InputError(
                "sample_weight cannot be used with rows that are read in blocks; read the data "
                "into memory, such as store.read()."
            )
        z = check_logits(inputs.logits)
        names = inputs.class_names
        if names is not None:
            names = check_class_names(names, n_classes=z.shape[1])
        labels = check_labels(
            inputs.y, n_rows=len(z), n_classes=z.shape[1], name="y", names=names,
            keep_device=self._fits_device_labels and on_device(z),
        )  # fmt: skip
        weight = check_sample_weight(sample_weight, n_rows=len(z))
        warn_of_probabilities(z)
        rows = TrainingRows(z, labels, inputs.features, inputs.domains, weight)
        if rows.streamed and not self._fits_blocks:
            rows = read_or_sample(rows, name=type(self).__name__)
        digest = start_fingerprint(z, labels)
        self._learn(rows)
        self.n_classes_ = z.shape[1]
        self.data_fingerprint_ = digest()
        self.class_names_ = names
        self.provenance_ = None
        self._store_feature_names(inputs)
        return self

    def predict_confidence(
        self,
        logits: ArrayLike | AnyData,
        *,
        features: ArrayLike | None = None,
        domains: ArrayLike | None = None,
    ) -> FloatArray:
        """Calibrated probability of the predicted class, the argmax of the logits.

        The parameters are those of :meth:`predict_proba`.

        Returns
        -------
        array of shape (n,)
        """
        rows = as_rows(logits)
        if isinstance(rows, BlockedRows):
            return self._predict_blocks("predict_confidence", rows, features, domains)
        z, values = self._check_and_prepare("predict_confidence", logits, features, domains)
        result: FloatArray = convert_like(self._confidences(z, values), logits_argument(logits))
        return result

    def predict_proba(
        self,
        logits: ArrayLike | AnyData,
        *,
        features: ArrayLike | None = None,
        domains: ArrayLike | None = None,
    ) -> Array:
        """Calibrated probabilities of all classes.

        Parameters
        ----------
        logits : array of shape (n, n_classes), or CalibrationData
            Logits of the same classes as in the fit, in the same order. A CalibrationData
            replaces logits, features and domains.
        features : array of shape (n, n_features), optional
            The same features as in the fit, for methods that use them. The columns of a data
            frame may be in any order.
        domains : array of integers or strings, shape (n,), optional
            Domain of each row, for methods that use it.

        Returns
        -------
        array of shape (n, n_classes)
            float32 for float16 and float32 logits, otherwise float64.
        """
        rows = as_rows(logits)
        if isinstance(rows, BlockedRows):
            return self._predict_blocks("predict_proba", rows, features, domains)
        z, values = self._check_and_prepare("predict_proba", logits, features, domains)
        result: Array = convert_like(self._probabilities(z, values), logits_argument(logits))
        return result

    def predict_all(
        self,
        logits: ArrayLike | AnyData,
        *,
        features: ArrayLike | None = None,
        domains: ArrayLike | None = None,
    ) -> Predictions:
        """Confidence, probabilities and temperature of the same rows, computed together.

        The parameters are those of :meth:`predict_proba`.

        Returns
        -------
        Predictions
            With the attributes ``confidence``, ``probabilities`` and ``temperature`` (None for
            methods without a temperature).

        Examples
        --------
        >>> import domaincal as dc
        >>> data, _ = dc.make_multi_domain(n_domains=4, n_rows=50, random_state=0)
        >>> predictions = dc.TemperatureScaling().fit(data).predict_all(data)
        >>> predictions.confidence.shape, predictions.probabilities.shape
        ((200,), (200, 10))
        """
        z, values = self._check_and_prepare("predict_all", logits, features, domains)
        like, temperature = logits_argument(logits), self._row_temperatures(values, len(z))
        return Predictions(
            confidence=convert_like(self._confidences(z, values), like),
            probabilities=convert_like(self._probabilities(z, values), like),
            temperature=None if temperature is None else convert_like(temperature, like),
        )

    def score_rows(self, data: CalibrationData) -> RowScores:
        """Confidence, NLL, Brier score and temperature of labelled rows, computed together.

        The float64 probabilities are computed block by block, to save memory.

        Parameters
        ----------
        data : CalibrationData
            Rows with labels.

        Returns
        -------
        RowScores
            With the attributes ``confidence``, ``nll``, ``brier`` and ``temperature``.

        Examples
        --------
        >>> import domaincal as dc
        >>> data, _ = dc.make_multi_domain(n_domains=4, n_rows=50, random_state=0)
        >>> dc.TemperatureScaling().fit(data).score_rows(data).nll.shape
        (200,)
        """
        if not isinstance(data, CalibrationData):
            raise InputError(f"data must be CalibrationData, got {type(data).__name__}.")
        z, values = self._check_and_prepare("score_rows", data, None, None)
        labels = check_labels(data.labels, n_rows=len(z), n_classes=z.shape[1])

        def block_probabilities(block: slice) -> Any:
            block_values = tuple(a if len(a) == 1 else a[block] for a in values)
            # float64: single precision would round small probabilities to 0.
            return self._probabilities(z[block].astype(np.float64), block_values)

        confidence = host_array(self._confidences(z, values))  # first: it names a row with NaN
        nll, brier = proper_scores(
            block_probabilities, labels, n_classes=z.shape[1], device=on_device(z)
        )
        temperature = self._row_temperatures(values, len(z))
        return RowScores(
            confidence, nll, brier, None if temperature is None else host_array(temperature)
        )

    def summary(self) -> dict[str, str]:
        """Main learned values as text, by name.

        Examples
        --------
        >>> import domaincal as dc
        >>> dc.MaxSoftmax().fit([[2.0, 0.0], [0.0, 1.0]], [0, 1]).summary()
        {'temperature': '1 (nothing is learned)', 'classes': '2'}
        """
        check_is_fitted(self)
        return {**self._facts(), "classes": str(self.n_classes_)}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted calibrator to a ``.safetensors`` file, for :func:`domaincal.load`.

        An existing file is replaced atomically.
        """
        from domaincal.calibrators.files.model_file import save_calibrator

        save_calibrator(self, path)

    @property
    def n_features_in_(self) -> int:
        """Number of columns of ``logits`` in ``fit``, under scikit-learn's name."""
        return self.n_classes_

    @abstractmethod
    def _learn(self, rows: TrainingRows) -> None:
        """Fit checked rows."""

    @abstractmethod
    def _prepare(
        self, logits: Array, features: ArrayLike | None, domains: ArrayLike | None
    ) -> RowValues:
        """Values of each row from which confidences and probabilities are computed."""

    @abstractmethod
    def _confidences(self, logits: Array, values: RowValues) -> FloatArray:
        """Calibrated probability of the predicted class of each row."""

    @abstractmethod
    def _probabilities(self, logits: Array, values: RowValues) -> Array:
        """Calibrated probabilities of each row."""

    def _row_temperatures(self, values: RowValues, n_rows: int) -> FloatArray | None:
        """Temperature of each row; None for methods without a temperature."""
        return None

    def block_predictor(self, rows: BlockedRows) -> Calibrator:
        """Calibrator that predicts a block of these rows as this one predicts all rows together.

        Methods whose predictions depend on other rows read all rows here.
        """
        if self.predicts_batches():
            raise InputError(
                f"{type(self).__name__} predicts all rows of a domain together, which needs them "
                "in memory; pass store.read() instead of the store."
            )
        return self

    def predicts_batches(self) -> bool:
        """Whether predictions for a row depend on the other rows of its domain."""
        return False

    def _predict_blocks(self, method: str, rows: BlockedRows, features: Any, domains: Any) -> Array:
        """Predictions of a method for rows that are read in blocks."""
        unpack_arguments(method, rows, features=features, domains=domains)
        check_is_fitted(self)
        return predict_blocks(rows, getattr(self.block_predictor(rows), method))

    def _check_parameters(self) -> None:
        """Raise InputError for invalid parameters, before any row is read."""

    def _store_feature_names(self, inputs: Inputs) -> None:
        """Store the names of the features; overridden by methods that use features."""

    def _check_and_prepare(
        self, method: str, logits: Any, features: Any, domains: Any
    ) -> tuple[Array, RowValues]:
        """Checked logits of a prediction, and the values of its rows."""
        check_is_fitted(self)
        inputs = unpack_arguments(method, logits, features=features, domains=domains)
        if is_row_array(inputs.logits):
            raise InputError(
                f"{method} needs rows in memory; read the data first, such as store.read(), or "
                "use predict_proba, predict_confidence or predict_temperature."
            )
        z = check_logits(inputs.logits, n_classes=self.n_classes_)
        check_same_classes(getattr(self, "class_names_", None), inputs.class_names)
        fitted_columns = getattr(self, "feature_columns_", None)
        ordered = order_features(inputs.features, inputs.feature_names, fitted_columns)
        warn_of_probabilities(z)
        return z, self._prepare(z, ordered, inputs.domains)

    def _facts(self) -> dict[str, str]:
        """Learned values of the method, for :meth:`summary`."""
        return {}

    def _drawing(self) -> str:
        """SVG of the learned values, for the notebook view; empty without a drawing."""
        return ""

    def _html_repr(self) -> str:
        """HTML for notebooks: the learned values; before the fit, scikit-learn's HTML."""
        if not hasattr(self, "n_classes_"):
            return str(super()._html_repr())
        return notebook_view(repr(self), self.summary(), self._drawing())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def logits_argument(argument: Any) -> Any:
    """Logits of an argument that is either logits or a CalibrationData."""
    return argument.logits if isinstance(argument, CalibrationData) else argument


def repeated_rows(values: Any, n_rows: int) -> FloatArray:
    """One value for each row, from as many values or from one; tensors stay on their device."""
    if is_tensor(values):
        return cast(FloatArray, values.expand(n_rows))
    return np.array(np.broadcast_to(values, n_rows))

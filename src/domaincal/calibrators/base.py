"""The base classes of calibrators: one signature, checked in one place."""

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from domaincal._tensors import as_given, host_array, on_device
from domaincal._typing import Array, ArrayLike, FloatArray
from domaincal._validation import (
    check_class_names,
    check_labels,
    check_logits,
    check_sample_weight,
)
from domaincal.calibrators.inputs import (
    Inputs,
    TrainingRows,
    in_fitted_order,
    require_same_classes,
    unpack,
)
from domaincal.calibrators.notebook_view import notebook_view
from domaincal.calibrators.predictions import Predictions, RowScores, proper_scores
from domaincal.calibrators.softmax import confidences_at, probabilities_at
from domaincal.data import CalibrationData
from domaincal.data.fingerprint import fingerprint

LearnedTypes: TypeAlias = Mapping[str, type | tuple[type, ...]]
#: Arrays with one entry for each row, or a single one for all rows.
PerRow: TypeAlias = tuple[Any, ...]


class Calibrator(BaseEstimator, ABC):
    """From logits to calibrated confidences and probabilities, under one signature.

    In place of arrays, one :class:`CalibrationData` can be given. Predictions for logits in a torch
    tensor are tensors on its device.

    Subclasses learn in ``_learn``, compute what all predictions of some rows need in ``_prepare``,
    and make confidences and probabilities of it.
    """

    # scikit-learn takes every argument but X for metadata: the first one is the data here.
    __metadata_request__fit: ClassVar[dict[str, str]] = {"logits": UNUSED}
    __metadata_request__predict_proba: ClassVar[dict[str, str]] = {"logits": UNUSED}

    #: What a model file holds, with the types.
    _learned: ClassVar[LearnedTypes] = {
        "n_classes_": int,
        "data_fingerprint_": str,
        "class_names_": (tuple, type(None)),
    }

    n_classes_: int
    data_fingerprint_: str
    class_names_: tuple[str, ...] | None

    def fit(
        self,
        logits: ArrayLike | CalibrationData,
        y: ArrayLike | None = None,
        *,
        features: ArrayLike | None = None,
        domains: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn from labelled rows.

        Parameters
        ----------
        logits : array, shape (n, n_classes), or CalibrationData
            Unnormalised scores; float16, float32 and float64 are read as they are. The columns of a
            data frame are class names. A CalibrationData stands for logits, labels, features and
            domains.
        y : array of class indices, shape (n,)
            Numbers of the logits' columns, counted from 0; or class names, where they are known.
        features : array, shape (n, n_features), optional
            Features of each row, such as the network's penultimate embedding. Ignored by methods
            that use none.
        domains : array of integers or strings, shape (n,), optional
            The domain of each row. Ignored by methods that pool all rows.
        sample_weight : array, shape (n,), optional
            A weight counts as that many repetitions of the row.
        """
        self._check_parameters()
        inputs = unpack("fit", logits, y=y, features=features, domains=domains)
        z = check_logits(inputs.logits)
        names = inputs.class_names
        if names is not None:
            names = check_class_names(names, n_classes=z.shape[1])
        labels = check_labels(inputs.y, n_rows=len(z), n_classes=z.shape[1], name="y", names=names)
        weight = check_sample_weight(sample_weight, n_rows=len(z))
        self._learn(TrainingRows(z, labels, inputs.features, inputs.domains, weight))
        self.n_classes_ = z.shape[1]
        self.data_fingerprint_ = fingerprint(z, labels)
        self.class_names_ = names
        self._remember_features(inputs)
        return self

    def predict_confidence(
        self,
        logits: ArrayLike | CalibrationData,
        *,
        features: ArrayLike | None = None,
        domains: ArrayLike | None = None,
    ) -> FloatArray:
        """Calibrated probability of the predicted class (the argmax of the logits), shape (n,)."""
        z, prepared = self._prepared("predict_confidence", logits, features, domains)
        result: FloatArray = as_given(self._confidences(z, prepared), _logits_of(logits))
        return result

    def predict_proba(
        self,
        logits: ArrayLike | CalibrationData,
        *,
        features: ArrayLike | None = None,
        domains: ArrayLike | None = None,
    ) -> Array:
        """Calibrated probabilities, shape (n, n_classes).

        float32 for float16 and float32 logits, float64 for all else.

        Parameters
        ----------
        logits : array, shape (n, n_classes), or CalibrationData
            Logits of the classes of the fit, in the same order. A CalibrationData stands for
            logits, features and domains.
        features : array, shape (n, n_features), optional
            The features of the fit, where the method needs them. The columns of a data frame may
            stand in another order than in the fit.
        domains : array of integers or strings, shape (n,), optional
            The domain of each row, where the method needs it.
        """
        z, prepared = self._prepared("predict_proba", logits, features, domains)
        result: Array = as_given(self._probabilities(z, prepared), _logits_of(logits))
        return result

    def predict_all(
        self,
        logits: ArrayLike | CalibrationData,
        *,
        features: ArrayLike | None = None,
        domains: ArrayLike | None = None,
    ) -> Predictions:
        """Confidence, probabilities and temperature of the same rows, from one computation.

        Parameters are those of :meth:`predict_proba`.

        Examples
        --------
        >>> import domaincal as dc
        >>> data, _ = dc.make_multi_domain(n_domains=4, n_rows=50, random_state=0)
        >>> found = dc.TemperatureScaling().fit(data).predict_all(data)
        >>> found.confidence.shape, found.probabilities.shape, found.temperature.shape
        ((200,), (200, 10), (200,))
        """
        z, prepared = self._prepared("predict_all", logits, features, domains)
        like, temperature = _logits_of(logits), self._temperature_of(prepared, len(z))
        return Predictions(
            confidence=as_given(self._confidences(z, prepared), like),
            probabilities=as_given(self._probabilities(z, prepared), like),
            temperature=None if temperature is None else as_given(temperature, like),
        )

    def score_rows(self, data: CalibrationData) -> RowScores:
        """Confidence, NLL, Brier score and temperature of labelled rows, from one computation.

        Probabilities exist for a block of rows at a time, in float64.

        Examples
        --------
        >>> import domaincal as dc
        >>> data, _ = dc.make_multi_domain(n_domains=4, n_rows=50, random_state=0)
        >>> dc.TemperatureScaling().fit(data).score_rows(data).nll.shape
        (200,)
        """
        z, prepared = self._prepared("score_rows", data, None, None)
        labels = check_labels(data.labels, n_rows=len(z), n_classes=z.shape[1])

        def probabilities(block: slice) -> Any:
            own = tuple(a if len(a) == 1 else a[block] for a in prepared)
            # In float64: single precision rounds small probabilities to 0.
            return self._probabilities(z[block].astype(np.float64), own)

        nll, brier = proper_scores(probabilities, labels, n_classes=z.shape[1], device=on_device(z))
        return RowScores(
            host_array(self._confidences(z, prepared)), nll, brier,
            self._temperature_of(prepared, len(z)),
        )  # fmt: skip

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write what was learned to a ``.safetensors`` file, for :func:`domaincal.load`.

        An earlier file of that name is replaced at the end, in one step.
        """
        from domaincal.calibrators.model_file import save_calibrator

        save_calibrator(self, path)

    @property
    def n_features_in_(self) -> int:
        """Number of columns of ``logits`` in ``fit``, under scikit-learn's name."""
        return self.n_classes_

    @abstractmethod
    def _learn(self, rows: TrainingRows) -> None:
        """Learn from checked rows."""

    @abstractmethod
    def _prepare(
        self, logits: Array, features: ArrayLike | None, domains: ArrayLike | None
    ) -> PerRow:
        """Values of each row that its confidence and its probabilities are made of."""

    @abstractmethod
    def _confidences(self, logits: Array, prepared: PerRow) -> FloatArray:
        """Calibrated probability of the predicted class of each row."""

    @abstractmethod
    def _probabilities(self, logits: Array, prepared: PerRow) -> Array:
        """Calibrated probabilities of each row."""

    def _temperature_of(self, prepared: PerRow, n_rows: int) -> FloatArray | None:
        """Temperature of each row, where the method has one."""
        return None

    def _check_parameters(self) -> None:
        """Refuse parameters that no fit can use, before any row is read."""

    def _remember_features(self, inputs: Inputs) -> None:
        """Learn the names of the features, for methods that use features."""

    def _prepared(
        self, caller: str, logits: Any, features: Any, domains: Any
    ) -> tuple[Array, PerRow]:
        """Checked logits, and what predictions of these rows are made of."""
        check_is_fitted(self)
        inputs = unpack(caller, logits, features=features, domains=domains)
        z = check_logits(inputs.logits, n_classes=self.n_classes_)
        require_same_classes(self.class_names_, inputs.class_names)
        fitted = getattr(self, "feature_columns_", None)
        ordered = in_fitted_order(inputs.features, inputs.feature_names, fitted)
        return z, self._prepare(z, ordered, inputs.domains)

    def _facts(self) -> dict[str, str]:
        """What was learned, in words, for notebooks."""
        return {"classes": str(self.n_classes_)}

    def _drawing(self) -> str:
        """SVG of what was learned, if it can be drawn."""
        return ""

    def _html_repr(self) -> str:
        """What scikit-learn's ``_repr_html_`` shows: once fitted, what was learned."""
        if not hasattr(self, "n_classes_"):
            return str(super()._html_repr())
        return notebook_view(repr(self), self._facts(), self._drawing())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


class TemperatureCalibrator(Calibrator):
    """A calibrator that divides the logits of each row by a temperature.

    Subclasses learn in ``_learn`` and return one temperature for each row in ``_temperatures``.
    """

    @abstractmethod
    def _temperatures(
        self, logits: Array, features: ArrayLike | None, domains: ArrayLike | None
    ) -> FloatArray:
        """Temperature of each row: shape (n,), or (1,) where all rows share it."""

    def predict_temperature(
        self,
        logits: ArrayLike | CalibrationData,
        *,
        features: ArrayLike | None = None,
        domains: ArrayLike | None = None,
    ) -> FloatArray:
        """Temperature of each row, shape (n,); parameters are those of :meth:`predict_proba`."""
        z, prepared = self._prepared("predict_temperature", logits, features, domains)
        result: FloatArray = as_given(self._temperature_of(prepared, len(z)), _logits_of(logits))
        return result

    def _prepare(
        self, logits: Array, features: ArrayLike | None, domains: ArrayLike | None
    ) -> PerRow:
        return (self._temperatures(logits, features, domains),)

    def _confidences(self, logits: Array, prepared: PerRow) -> FloatArray:
        return confidences_at(logits, 1.0 / prepared[0])

    def _probabilities(self, logits: Array, prepared: PerRow) -> Array:
        return probabilities_at(logits, 1.0 / prepared[0])

    def _temperature_of(self, prepared: PerRow, n_rows: int) -> FloatArray:
        return np.array(np.broadcast_to(prepared[0], n_rows))


def _logits_of(given: Any) -> Any:
    """The logits, as which predictions are returned: a tensor for a tensor."""
    return given.logits if isinstance(given, CalibrationData) else given

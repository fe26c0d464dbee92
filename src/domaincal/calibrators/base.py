"""What every calibrator has in common."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ClassVar, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from domaincal._tensors import as_given
from domaincal._typing import Array, ArrayLike, FloatArray
from domaincal._validation import check_logits
from domaincal.calibrators.notebook_view import card
from domaincal.calibrators.softmax import confidences_at, probabilities_at
from domaincal.data.fingerprint import fingerprint

LearnedTypes: TypeAlias = Mapping[str, type | tuple[type, ...]]


def _as_the_logits(method: Callable[..., Any]) -> Callable[..., Any]:
    """The method, with a tensor as its result where the logits are one."""

    @wraps(method)
    def predict(self: Any, *logits: ArrayLike, **given: Any) -> Any:
        return as_given(
            method(self, *logits, **given), logits[0] if logits else given.get("logits")
        )

    return predict


class Calibrator(BaseEstimator, ABC):
    """From logits to calibrated confidences and probabilities, under one signature.

    Predictions for logits in a torch tensor are tensors on its device.
    """

    # The first argument is the data, not metadata, though scikit-learn would call it X.
    __metadata_request__fit: ClassVar[dict[str, str]] = {"logits": UNUSED}
    __metadata_request__predict_proba: ClassVar[dict[str, str]] = {"logits": UNUSED}

    #: What a file of the calibrator holds, with the types.
    _learned: ClassVar[LearnedTypes] = {
        "n_classes_": int,
        "data_fingerprint_": str,
        "class_names_": (tuple, type(None)),
    }

    n_classes_: int
    data_fingerprint_: str
    class_names_: tuple[str, ...] | None

    def __init_subclass__(cls, **options: Any) -> None:
        """Predictions of every calibrator, also of users' own, come in the form of the logits."""
        for name in ("predict_proba", "predict_confidence", "predict_temperature"):
            if name in vars(cls):
                setattr(cls, name, _as_the_logits(vars(cls)[name]))
        super().__init_subclass__(**options)

    @abstractmethod
    def fit(
        self,
        logits: ArrayLike,
        y: ArrayLike,
        *,
        features: ArrayLike | None = None,
        domains: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> "Calibrator":
        """Learn from labelled rows."""

    @abstractmethod
    def predict_confidence(
        self,
        logits: ArrayLike,
        *,
        features: ArrayLike | None = None,
        domains: ArrayLike | None = None,
    ) -> FloatArray:
        """Calibrated probability of the predicted class (the argmax of the logits), shape (n,)."""

    @abstractmethod
    def predict_proba(
        self,
        logits: ArrayLike,
        *,
        features: ArrayLike | None = None,
        domains: ArrayLike | None = None,
    ) -> Array:
        """Calibrated probabilities, shape (n, n_classes)."""

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
        return card(repr(self), self._facts(), self._drawing())

    def _remember(self, logits: Array, labels: Array) -> None:
        """What every fit learns of its rows; names of classes are told by who knows them."""
        self.n_classes_ = logits.shape[1]
        self.data_fingerprint_ = fingerprint(logits, labels)
        self.class_names_ = None

    def _check(self, logits: ArrayLike) -> Array:
        check_is_fitted(self)
        return check_logits(logits, n_classes=self.n_classes_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


class TemperatureCalibrator(Calibrator):
    """A calibrator that divides the logits of each row by a temperature.

    Subclasses learn in ``fit`` and give one temperature for each row in ``_temperatures``.
    """

    @abstractmethod
    def _temperatures(
        self, logits: Array, features: ArrayLike | None, domains: ArrayLike | None
    ) -> FloatArray:
        """Temperature of each row: shape (n,), or (1,) where all rows share it."""

    def predict_temperature(
        self,
        logits: ArrayLike,
        *,
        features: ArrayLike | None = None,
        domains: ArrayLike | None = None,
    ) -> FloatArray:
        """Temperature of each row, shape (n,); arguments as in :meth:`predict_proba`."""
        z = self._check(logits)
        temperatures = self._temperatures(z, features, domains)
        return np.array(np.broadcast_to(temperatures, len(z)))

    def predict_confidence(
        self,
        logits: ArrayLike,
        *,
        features: ArrayLike | None = None,
        domains: ArrayLike | None = None,
    ) -> FloatArray:
        """Calibrated probability of the predicted class (the argmax of the logits), shape (n,)."""
        z = self._check(logits)
        return confidences_at(z, 1.0 / self._temperatures(z, features, domains))

    def predict_proba(
        self,
        logits: ArrayLike,
        *,
        features: ArrayLike | None = None,
        domains: ArrayLike | None = None,
    ) -> Array:
        """Calibrated probabilities ``softmax(logits / T)``, shape (n, n_classes).

        float32 for float16 and float32 logits, float64 for all else.

        Parameters
        ----------
        logits : array, shape (n, n_classes)
            Of the classes of the fit, in the same order.
        features : array, shape (n, n_features), optional
            Of the layer of the fit, where the method needs them.
        domains : array of integers or strings, shape (n,), optional
            Where the method needs them.
        """
        z = self._check(logits)
        return probabilities_at(z, 1.0 / self._temperatures(z, features, domains))

"""What every calibrator has in common."""

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from domaincal._typing import Array, ArrayLike, FloatArray
from domaincal._validation import check_logits, non_finite_logits
from domaincal.calibrators._card import card
from domaincal.data.fingerprint import fingerprint
from domaincal.kernels import plain, rows as kernels
from domaincal.statistics.blocks import Workers, row_blocks

LearnedTypes: TypeAlias = Mapping[str, type | tuple[type, ...]]


class Calibrator(BaseEstimator, ABC):
    """From logits to calibrated confidences and probabilities, under one signature."""

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
        from domaincal.calibrators._model_file import save_calibrator

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
        beta = 1.0 / self._temperatures(z, features, domains)
        compiled = kernels.use_compiled(z.size)

        def confidences(block: slice) -> FloatArray:
            rows = beta if beta.size == 1 else beta[block]
            return kernels.top_label(z[block], rows, compiled=compiled)[0]

        with Workers() as workers:
            out = np.concatenate([*workers.map(confidences, logit_blocks(z))])
        if not np.isfinite(out).all():
            raise non_finite_logits(z)
        return out

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
        beta = 1.0 / self._temperatures(z, features, domains)
        out = np.empty(z.shape, probability_dtype(z))

        def fill(block: slice) -> bool:
            plain.softmax(z[block], beta if beta.size == 1 else beta[block], out[block])
            # -inf gives the probability 0, but is refused here as everywhere else.
            return bool(np.isfinite(out[block]).all() and np.isfinite(z[block].min()))

        with Workers() as workers:
            finite = all([*workers.map(fill, logit_blocks(z))])
        if not finite:
            raise non_finite_logits(z)
        return out


def logit_blocks(z: Array) -> list[slice]:
    """Blocks of rows for the worker threads."""
    return row_blocks(len(z), z.shape[1] * z.itemsize)


def probability_dtype(z: Array) -> type[np.floating]:
    """float32 for float16 and float32 logits, float64 for all else."""
    single = z.dtype.kind == "f" and z.dtype.itemsize <= 4
    return np.float32 if single else np.float64

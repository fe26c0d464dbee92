"""Accuracy as the mean calibrated confidence: the paper's estimate, with any calibrator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone

from domaincal._tensors import host_array
from domaincal._typing import FloatArray, IntArray
from domaincal.calibrators import BatchTemperatureScaling
from domaincal.calibrators.base import Calibrator
from domaincal.data import BlockedRows, CalibrationData
from domaincal.errors import InputError
from domaincal.shift.accuracy.estimator import AccuracyEstimator, batch_means


class ConfidenceEstimator(AccuracyEstimator):
    """Accuracy of unlabelled rows as the mean of their calibrated confidences.

    If a calibrator is right in a new domain, the mean confidence there is the accuracy. The paper
    uses :class:`MultiDomainTemperatureScaling`; ``MaxSoftmax()`` gives the plain confidence. The
    default, :class:`BatchTemperatureScaling`, had the smallest errors, or nearly so, on the data
    sets of docs/results/accuracy.md.

    Parameters
    ----------
    calibrator : calibrator, optional
        Fitted to all rows of the fit. By default ``BatchTemperatureScaling()``.
    coverage : float, default 0.9
        Share of new domains that the intervals should cover.
    random_state : int, default 0
        Seed of the batches of left-out domains.

    Attributes
    ----------
    calibrator_ : calibrator
        The fitted calibrator.
    residuals_, covered_, temperature_, n_domains_, n_classes_, class_names_, feature_columns_
        See :class:`AccuracyEstimator`.

    Examples
    --------
    >>> import domaincal as dc
    >>> data, _ = dc.make_multi_domain(n_domains=12, n_rows=300, random_state=0)
    >>> known, new = dc.split_domains(data, ["domain-03", "domain-05"])
    >>> table = dc.shift.ConfidenceEstimator().fit(known).predict(new)
    >>> table[["domain", "n"]].values.tolist()
    [['domain-03', 300], ['domain-05', 300]]
    """

    calibrator_: Calibrator

    def __init__(
        self,
        calibrator: Calibrator | None = None,
        *,
        coverage: float = 0.9,
        random_state: int = 0,
    ) -> None:
        self.calibrator = calibrator
        self.coverage = coverage
        self.random_state = random_state

    def _check_parameters(self) -> None:
        if not (self.calibrator is None or isinstance(self.calibrator, Calibrator)):
            raise InputError(
                f"calibrator={self.calibrator!r} is not a calibrator of domaincal; pass one, such "
                "as TemperatureScaling(), or None."
            )

    def _learn(self, data: CalibrationData) -> None:
        made: Any = BatchTemperatureScaling() if self.calibrator is None else self.calibrator
        self.calibrator_ = clone(made).fit(data)

    def _block_confidences(self, rows: BlockedRows) -> Callable[[CalibrationData], FloatArray]:
        predictor = self.calibrator_.block_predictor(rows)
        return lambda block: np.asarray(predictor.predict_confidence(block))

    def _estimates(self, data: CalibrationData, codes: IntArray, n_batches: int) -> FloatArray:
        # The names of known domains matter to calibrators that look temperatures up, and only to
        # them; the others get the batches.
        domains = codes if self.calibrator_.predicts_batches() else data.domains
        confidence = self.calibrator_.predict_confidence(
            data.logits, features=data.features, domains=domains
        )
        return batch_means(np.asarray(host_array(confidence)), codes, n_batches)

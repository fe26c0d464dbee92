"""Average thresholded confidence (Garg et al. 2022)."""

from __future__ import annotations

from typing import Literal

import numpy as np

from domaincal._tensors import host_array
from domaincal._typing import FloatArray, IntArray
from domaincal._validation import check_option
from domaincal.calibrators.softmax import confidences_at
from domaincal.data import CalibrationData
from domaincal.kernels.numpy_kernels import row_statistics
from domaincal.shift.accuracy.estimator import AccuracyEstimator, batch_means
from domaincal.shift.rows_by_domain import hits_of
from domaincal.statistics.blocks import row_blocks

# Memory of a block of rows for which all probabilities are computed.
_BLOCK_BYTES = 1 << 24


class ThresholdedConfidence(AccuracyEstimator):
    """Share of new rows whose score is above a threshold (ATC, Garg et al. 2022).

    The threshold is such that the share of the rows of the fit above it is their accuracy.

    Parameters
    ----------
    score : {"confidence", "entropy"}, default "confidence"
        Score of a row: its largest softmax probability (ATC-MC), or the negative entropy of its
        softmax probabilities (ATC-NE).
    coverage : float, default 0.9
        Share of new domains that the intervals should cover.
    random_state : int, default 0
        Seed of the batches of left-out domains.

    Attributes
    ----------
    threshold_ : float
        Smallest score that counts as a hit.
    residuals_, covered_, temperature_, n_domains_, n_classes_, class_names_, feature_columns_
        See :class:`AccuracyEstimator`.

    Examples
    --------
    >>> import domaincal as dc
    >>> data, _ = dc.make_multi_domain(n_domains=12, n_rows=300, random_state=0)
    >>> estimator = dc.shift.ThresholdedConfidence("entropy").fit(data)
    >>> len(estimator.predict(data))
    12
    """

    threshold_: float

    def __init__(
        self,
        score: Literal["confidence", "entropy"] = "confidence",
        *,
        coverage: float = 0.9,
        random_state: int = 0,
    ) -> None:
        self.score = score
        self.coverage = coverage
        self.random_state = random_state

    def _check_parameters(self) -> None:
        check_option(self.score, "score", ("confidence", "entropy"))

    def _learn(self, data: CalibrationData) -> None:
        hits = hits_of(data.logits, data.labels)
        scores = np.sort(self._scores(data))[::-1]
        n_hits = int(hits.sum())
        # As many scores at or above the threshold as there are hits.
        self.threshold_ = float(scores[n_hits - 1]) if n_hits else np.inf

    def _estimates(self, data: CalibrationData, codes: IntArray, n_batches: int) -> FloatArray:
        above = (self._scores(data) >= self.threshold_).astype(np.float64)
        return batch_means(above, codes, n_batches)

    def _scores(self, data: CalibrationData) -> FloatArray:
        if self.score == "confidence":
            return np.asarray(host_array(confidences_at(data.logits, np.ones(1))))
        z = data.logits
        blocks = row_blocks(len(z), z.shape[1] * 8, _BLOCK_BYTES)
        entropies = [row_statistics(host_array(z[block]), 1.0)[0][:, 1] for block in blocks]
        return -np.concatenate(entropies)

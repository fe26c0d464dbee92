"""Histogram binning: the accuracy of each bin."""

import numpy as np

from domaincal._typing import Array, FloatArray
from domaincal._validation import check_count, check_option
from domaincal.calibrators.score_calibrator import Scheme, ScoreCalibrator
from domaincal.calibrators.score_maps import StepMap, edges_after
from domaincal.kernels import dispatch
from domaincal.statistics.bins import STRATEGIES, Strategy, bin_edges


class HistogramBinning(ScoreCalibrator):
    """Histogram binning (Zadrozny and Elkan 2001): a score becomes the accuracy of its bin.

    Parameters
    ----------
    n_bins : int, default 15
    strategy : {"uniform", "quantile"}, default "uniform"
        Bins of the same width, or with the same number of rows. With many classes,
        ``"quantile"`` suits ``"top-label"`` only: nearly all scores of a single class are close
        to 0, and so would be all of its bins.
    scheme : {"top-label", "one-vs-rest"}, default "top-label"
        One map, of the confidence of the predicted class, the rest keeping its softmax
        proportions; or a map for each class, and rows normalised again.

    Attributes
    ----------
    maps_ : list of maps, one or one for each class
        With ``edges`` and ``values``. A bin without rows has the value of its middle; one without
        hits, 0, and a hit there costs a log-likelihood without end.
    n_classes_ : int

    Examples
    --------
    >>> from domaincal import HistogramBinning, make_multi_domain
    >>> data, _ = make_multi_domain(n_domains=4, random_state=0)
    >>> calibrator = HistogramBinning(n_bins=10).fit(data.logits, data.labels)
    >>> len(calibrator.maps_[0].values)
    10
    """

    def __init__(
        self, n_bins: int = 15, *, strategy: Strategy = "uniform", scheme: Scheme = "top-label"
    ) -> None:
        self.n_bins = n_bins
        self.strategy = strategy
        self.scheme = scheme

    def _fit_map(self, scores: FloatArray, hits: Array, weight: FloatArray | None) -> StepMap:
        edges = bin_edges(scores, self.n_bins, self.strategy, weight)
        if self.strategy == "quantile":
            edges[1:-1] = edges_after(edges[1:-1], np.sort(scores))
        n, _, right = dispatch.bin_sums(scores, hits, edges, weight=weight).T
        middle = 0.5 * (edges[1:] + edges[:-1])
        return StepMap(edges, np.where(n > 0, right / np.where(n > 0, n, 1.0), middle))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_count(self.n_bins, "n_bins")
        check_option(self.strategy, "strategy", STRATEGIES)

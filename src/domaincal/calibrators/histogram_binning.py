"""Histogram binning: the accuracy of each bin."""

from __future__ import annotations

import numpy as np

from domaincal._typing import Array, FloatArray
from domaincal._validation import check_n_bins, check_option
from domaincal.calibrators.score_calibrator import Scheme, ScoreCalibrator
from domaincal.calibrators.score_maps import StepMap, midpoint_edges
from domaincal.kernels import dispatch
from domaincal.statistics.bin_sums import STRATEGIES, Strategy, bin_edges


class HistogramBinning(ScoreCalibrator):
    """Histogram binning (Zadrozny and Elkan 2001): each score becomes the accuracy of its bin.

    A bin without hits has the probability 0, and a hit there has infinite log loss.

    Parameters
    ----------
    n_bins : int, default 15
        Number of bins.
    strategy : {"uniform", "quantile"}, default "uniform"
        Bins of equal width, or bins with equally many rows. With many classes, use ``"quantile"``
        only with ``scheme="top-label"``: nearly all scores of a single class are close to 0, and
        so are its quantiles.
    scheme : {"top-label", "one-vs-rest"}, default "top-label"
        ``"top-label"``: one map, for the confidence of the predicted class; the other classes
        keep the proportions of their softmax. ``"one-vs-rest"``: a map for each class; the
        probabilities of each row are normalised to sum to 1.

    Attributes
    ----------
    maps_ : list of StepMap
        One map, or a map for each class, with the arrays ``edges`` and ``values``. The value of
        a bin without rows is its midpoint.
    n_classes_ : int
        Number of classes.
    class_names_ : tuple of str or None
        Names of the classes, if the data of the fit had names.

    Examples
    --------
    >>> from domaincal import HistogramBinning, make_multi_domain
    >>> data, _ = make_multi_domain(n_domains=4, random_state=0)
    >>> calibrator = HistogramBinning(n_bins=10).fit(data)
    >>> len(calibrator.maps_[0].values)
    10
    >>> calibrator.predict_proba(data).shape == data.logits.shape
    True
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
            edges[1:-1] = midpoint_edges(edges[1:-1], np.sort(scores))
        n, _, n_hits = dispatch.bin_sums(scores, hits, edges, weight=weight).T
        midpoints = 0.5 * (edges[1:] + edges[:-1])
        return StepMap(edges, np.where(n > 0, n_hits / np.where(n > 0, n, 1.0), midpoints))

    def _histogram_edges(self, n_maps: int) -> FloatArray:
        # The sums of equal bins are all that is needed of the scores.
        if self.strategy == "uniform":
            return bin_edges(np.empty(0), self.n_bins, self.strategy)
        return super()._histogram_edges(n_maps)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_n_bins(self.n_bins)
        check_option(self.strategy, "strategy", STRATEGIES)

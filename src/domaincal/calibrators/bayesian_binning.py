"""Bayesian binning into quantiles: binnings averaged by their marginal likelihood."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from domaincal._typing import Array, FloatArray, IntArray
from domaincal.calibrators.score_calibrator import Scheme, ScoreCalibrator
from domaincal.calibrators.score_maps import AveragedSteps, StepMap, midpoint_edges
from domaincal.statistics.bin_sums import check_countable

# Constants of the paper: the number of bins goes from n**(1/3) / 10 to 10 n**(1/3), and the priors
# of all bins together have the weight of two rows.
_BIN_COUNT_FACTOR = 10.0
_PRIOR_ROWS = 2.0
# Binnings with a smaller weight, relative to the best, do not change the mean in float64.
_NEGLIGIBLE_WEIGHT = 1e-17
# Distance of a prior mean from 0 and 1, so that the prior is proper in a bin of scores 0.
_SMALLEST_PRIOR_MEAN = 1e-12


class BayesianBinning(ScoreCalibrator):
    """Bayesian binning into quantiles (BBQ; Naeini, Cooper and Hauskrecht 2015).

    The map is the mean over several binnings, each weighted by its marginal likelihood. The bins
    of a binning have equally many rows. The number of bins goes from ``n**(1/3) / 10`` to
    ``10 n**(1/3)``, but not beyond the number of distinct scores. In a binning of B bins, the
    accuracy of a bin with midpoint m has the prior Beta(2 m / B, 2 (1 - m) / B).

    Parameters
    ----------
    scheme : {"top-label", "one-vs-rest"}, default "top-label"
        ``"top-label"``: one map, for the confidence of the predicted class; the other classes
        keep the proportions of their softmax. ``"one-vs-rest"``: a map for each class; the
        probabilities of each row are normalised to sum to 1.

    Attributes
    ----------
    maps_ : list of AveragedSteps
        One map, or a map for each class. ``edges`` and ``values`` are those of the mean;
        ``n_bins`` and ``posterior`` are the number of bins and the weight of each binning.
        Binnings with a negligible weight are left out.
    n_classes_ : int
        Number of classes.
    class_names_ : tuple of str or None
        Names of the classes, if the data of the fit had names.

    Examples
    --------
    >>> from domaincal import BayesianBinning, make_multi_domain
    >>> data, _ = make_multi_domain(n_domains=4, random_state=0)
    >>> calibrator = BayesianBinning().fit(data)
    >>> round(float(calibrator.maps_[0].posterior.sum()), 6)
    1.0
    >>> calibrator.predict_proba(data).shape == data.logits.shape
    True
    """

    def __init__(self, *, scheme: Scheme = "top-label") -> None:
        self.scheme = scheme

    def _fit_map(self, scores: FloatArray, hits: Array, weight: FloatArray | None) -> AveragedSteps:
        order = np.argsort(scores, kind="stable")
        ordered = scores[order]
        w = np.ones(len(scores)) if weight is None else weight[order]
        cumulated_rows, cumulated_hits = np.cumsum(w), np.cumsum(w * hits[order])
        check_countable(cumulated_rows[-1], "BayesianBinning")
        counts = _bin_counts(ordered, cumulated_rows[-1])
        upper, values, log_scores = _binnings(counts, ordered, cumulated_rows, cumulated_hits)
        posterior = np.exp(log_scores - log_scores.max())
        kept = np.flatnonzero(posterior > _NEGLIGIBLE_WEIGHT)
        posterior = posterior[kept] / posterior[kept].sum()

        parts = [slice(end - n, end) for n, end in zip(counts, np.cumsum(counts), strict=True)]
        # The edge 0 occurs twice if the first bin holds only scores of exactly 0.
        ends = np.unique(np.concatenate([upper[parts[k]] for k in kept]))
        edges = np.concatenate([[0.0], ends])
        mean = np.zeros(len(edges) - 1)
        for k, share in zip(kept, posterior, strict=True):
            binning = StepMap(np.concatenate([[0.0], upper[parts[k]]]), values[parts[k]])
            mean += share * binning(edges[1:])  # a bin includes its right edge
        # Rounding can make the sum of the shares more than 1.
        return AveragedSteps(edges, np.minimum(mean, 1.0), counts[kept], posterior)


def _bin_counts(ordered: FloatArray, total_weight: float) -> IntArray:
    """Numbers of bins of all binnings."""
    root = total_weight ** (1.0 / 3.0)
    n_distinct = 1 + int(np.count_nonzero(np.diff(ordered)))
    low = min(max(1, int(root / _BIN_COUNT_FACTOR)), n_distinct)
    return np.arange(low, min(int(np.ceil(_BIN_COUNT_FACTOR * root)), n_distinct) + 1)


def _binnings(
    counts: IntArray, ordered: FloatArray, cumulated_rows: FloatArray, cumulated_hits: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Upper edges and values of the bins of all binnings, concatenated; log score of each binning.

    The value of bin b, with n_b rows and m_b hits, is the posterior mean of its accuracy,
    ``(m_b + a_b) / (n_b + a_b + b_b)``. The score of a binning M is its marginal likelihood,
    ``log P(D | M) = sum_b log B(m_b + a_b, n_b - m_b + b_b) - log B(a_b, b_b)``.
    """
    first = np.cumsum(counts) - counts
    n_bins = np.repeat(counts, counts)
    number = np.arange(len(n_bins)) - np.repeat(first, counts) + 1  # of each bin in its binning
    # The smallest score with at least the fraction number / n_bins of the weight up to it.
    target = number * cumulated_rows[-1] / n_bins
    cut = np.minimum(np.searchsorted(cumulated_rows, target), len(cumulated_rows) - 1)
    upper = midpoint_edges(ordered[cut], ordered)
    upper[number == n_bins] = 1.0
    last = np.searchsorted(ordered, upper, side="right") - 1  # last score of each bin
    rows, hits = (_bin_sums(sums[last], number) for sums in (cumulated_rows, cumulated_hits))

    lower = np.where(number == 1, 0.0, np.roll(upper, 1))
    midpoint = np.clip(0.5 * (lower + upper), _SMALLEST_PRIOR_MEAN, 1.0 - _SMALLEST_PRIOR_MEAN)
    prior = _PRIOR_ROWS / n_bins
    a, b = prior * midpoint, prior * (1.0 - midpoint)
    log_score = (
        gammaln(prior) - gammaln(rows + prior)
        + gammaln(hits + a) - gammaln(a)
        + gammaln(rows - hits + b) - gammaln(b)
    )  # fmt: skip
    log_score[rows == 0] = 0.0
    return upper, (hits + a) / (rows + prior), np.add.reduceat(log_score, first)


def _bin_sums(cumulated: FloatArray, number: IntArray) -> FloatArray:
    """Sum of each bin from the sums up to its upper edge; ``number`` restarts at each binning."""
    return cumulated - np.where(number == 1, 0.0, np.roll(cumulated, 1))

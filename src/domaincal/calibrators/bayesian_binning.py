"""Bayesian binning into quantiles: many binnings, averaged by how well they explain the hits."""

import numpy as np
from scipy.special import gammaln

from domaincal._typing import Array, FloatArray, IntArray
from domaincal.calibrators.score_calibrator import Scheme, ScoreCalibrator
from domaincal.calibrators.score_maps import AveragedSteps, StepMap, edges_after

# Constants of the paper: binnings have from n**(1/3) / 10 to 10 n**(1/3) bins, and the priors of
# all bins together weigh as much as two rows.
_RANGE = 10.0
_PRIOR_ROWS = 2.0
# A binning that weighs less, relative to the best, is lost in the rounding of the mean.
_NEGLIGIBLE = 1e-17
# Keeps the prior proper in a bin that holds nothing but scores of exactly 0.
_SMALLEST_PRIOR = 1e-12


class BayesianBinning(ScoreCalibrator):
    """Bayesian binning into quantiles (BBQ; Naeini, Cooper and Hauskrecht 2015).

    The mean over binnings with equally many rows in each bin, from ``n**(1/3) / 10`` to
    ``10 n**(1/3)`` bins (never more than distinct scores), each weighted by its marginal
    likelihood. In a binning of B bins, the accuracy of a bin has the prior
    Beta(2 m / B, 2 (1 - m) / B) around the middle m of the bin.

    Parameters
    ----------
    scheme : {"top-label", "one-vs-rest"}, default "top-label"
        One map, of the confidence of the predicted class, the rest keeping its softmax
        proportions; or a map for each class, and rows normalised again.

    Attributes
    ----------
    maps_ : list of maps, one or one for each class
        With ``edges`` and ``values`` of the mean, and the ``posterior`` of each binning with its
        ``n_bins``; binnings too unlikely to change the mean are left out.
    n_classes_ : int

    Examples
    --------
    >>> from domaincal import BayesianBinning, make_multi_domain
    >>> data, _ = make_multi_domain(n_domains=4, random_state=0)
    >>> calibrator = BayesianBinning().fit(data.logits, data.labels)
    >>> round(float(calibrator.maps_[0].posterior.sum()), 6)
    1.0
    """

    def __init__(self, *, scheme: Scheme = "top-label") -> None:
        self.scheme = scheme

    def _fit_map(self, scores: FloatArray, hits: Array, weight: FloatArray | None) -> AveragedSteps:
        order = np.argsort(scores, kind="stable")
        w = np.ones(len(scores)) if weight is None else weight[order]
        # Weight and hits up to each score; an edge has all of a tie on one side.
        total, right = np.cumsum(w), np.cumsum(w * hits[order])
        root = total[-1] ** (1.0 / 3.0)
        ordered = scores[order]
        distinct = 1 + int(np.count_nonzero(np.diff(ordered)))
        low = min(max(1, int(root / _RANGE)), distinct)
        numbers = np.arange(low, min(int(np.ceil(_RANGE * root)), distinct) + 1)
        upper, values, log_scores = _binnings(numbers, ordered, total, right)
        posterior = np.exp(log_scores - log_scores.max())
        kept = np.flatnonzero(posterior > _NEGLIGIBLE)
        posterior = posterior[kept] / posterior[kept].sum()

        parts = [slice(end - n, end) for n, end in zip(numbers, np.cumsum(numbers), strict=True)]
        # A first bin of scores of exactly 0 has no width: its edge is there twice.
        ends = np.unique(np.concatenate([upper[parts[k]] for k in kept]))
        edges = np.concatenate([[0.0], ends])
        mean = np.zeros(len(edges) - 1)
        for k, share in zip(kept, posterior, strict=True):
            binning = StepMap(np.concatenate([[0.0], upper[parts[k]]]), values[parts[k]])
            mean += share * binning(edges[1:])  # a bin holds its right end
        return AveragedSteps(edges, mean, numbers[kept], posterior)


def _binnings(
    numbers: IntArray, ordered: FloatArray, total: FloatArray, right: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """All binnings after one another: upper edges and values of their bins; log score of each.

    The value of a bin is the posterior mean ``(m_b + a_b) / (n_b + a_b + b_b)`` of its accuracy,
    with n_b rows and m_b hits; the score, ``log P(D | M) = sum_b log B(m_b + a_b, n_b - m_b + b_b)
    - log B(a_b, b_b)``.
    """
    first = np.cumsum(numbers) - numbers
    n_bins = np.repeat(numbers, numbers)
    place = np.arange(len(n_bins)) - np.repeat(first, numbers) + 1
    # The smallest score with at least the share place / n_bins of the weight at or below it.
    cut = np.minimum(np.searchsorted(total, place * total[-1] / n_bins), len(total) - 1)
    upper = edges_after(ordered[cut], ordered)
    upper[place == n_bins] = 1.0
    last = np.searchsorted(ordered, upper, side="right") - 1  # score of each bin
    rows, hits = (_in_each_bin(sums[last], place) for sums in (total, right))

    lower = np.where(place == 1, 0.0, np.roll(upper, 1))
    middle = np.clip(0.5 * (lower + upper), _SMALLEST_PRIOR, 1.0 - _SMALLEST_PRIOR)
    prior = _PRIOR_ROWS / n_bins
    a, b = prior * middle, prior * (1.0 - middle)
    log_score = (
        gammaln(prior) - gammaln(rows + prior)
        + gammaln(hits + a) - gammaln(a)
        + gammaln(rows - hits + b) - gammaln(b)
    )  # fmt: skip
    log_score[rows == 0] = 0.0
    return upper, (hits + a) / (rows + prior), np.add.reduceat(log_score, first)


def _in_each_bin(up_to: FloatArray, place: IntArray) -> FloatArray:
    """Differences of sums up to each upper edge, binning by binning."""
    return up_to - np.where(place == 1, 0.0, np.roll(up_to, 1))

"""Bayesian binning into quantiles: many binnings, averaged by how well they explain the hits."""

import numpy as np
from scipy.special import gammaln

from domaincal._typing import Array, FloatArray
from domaincal.calibrators._score_maps import AveragedSteps, StepMap, edges_between
from domaincal.calibrators._scores import Scheme, ScoreCalibrator

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
    ``10 n**(1/3)`` bins, each weighted by its marginal likelihood. In a binning of B bins, the
    accuracy of a bin has the prior Beta(2 m / B, 2 (1 - m) / B) around the middle m of the bin.

    Parameters
    ----------
    scheme : {"top-label", "one-vs-rest"}, default "top-label"
        One map, of the confidence of the predicted class, the rest keeping its softmax
        proportions; or a map for each class, and rows normalised again.

    Attributes
    ----------
    maps_ : list of maps, one or one for each class
        With ``edges`` and ``values``, and the ``posterior`` of each binning with its ``n_bins``.
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
        ordered = scores[order]
        w = np.ones(len(scores)) if weight is None else weight[order]
        # Weight and hits of all scores up to each; ties are cut by the edges, never by the order.
        total, right = np.cumsum(w), np.cumsum(w * hits[order])
        root = total[-1] ** (1.0 / 3.0)
        numbers = np.arange(max(1.0, np.floor(root / _RANGE)), np.ceil(_RANGE * root) + 1.0)
        scored = [_binning(int(b), ordered, total, right) for b in numbers]
        log_scores = np.array([log_score for _, log_score in scored])
        posterior = np.exp(log_scores - log_scores.max())
        kept = posterior > _NEGLIGIBLE
        posterior = posterior[kept] / posterior[kept].sum()
        binnings = [scored[i][0] for i in np.flatnonzero(kept)]

        edges = np.unique(np.concatenate([binning.edges for binning in binnings]))
        values = np.zeros(len(edges) - 1)
        for binning, share in zip(binnings, posterior, strict=True):
            values += share * binning(edges[1:])  # a bin holds its right end
        return AveragedSteps(edges, values, numbers[kept], posterior)


def _binning(
    n_bins: int, ordered: FloatArray, total: FloatArray, right: FloatArray
) -> tuple[StepMap, float]:
    """Posterior mean of the accuracy in each of ``n_bins`` quantiles, and the log marginal.

    ``log P(D | M) = sum_b log B(m_b + a_b, n_b - m_b + b_b) - log B(a_b, b_b)`` with n_b rows and
    m_b hits in bin b.
    """
    levels = np.arange(1, n_bins) * total[-1] / n_bins
    cuts = ordered[np.searchsorted(total, levels, side="left")]
    edges = edges_between(np.concatenate([[0.0], cuts, [1.0]]), ordered)
    last = np.searchsorted(ordered, edges[1:], side="right") - 1
    rows = np.diff(np.where(last >= 0, total[last], 0.0), prepend=0.0)
    hits = np.diff(np.where(last >= 0, right[last], 0.0), prepend=0.0)
    middle = np.clip(0.5 * (edges[1:] + edges[:-1]), _SMALLEST_PRIOR, 1.0 - _SMALLEST_PRIOR)
    prior = _PRIOR_ROWS / n_bins
    a, b = prior * middle, prior * (1.0 - middle)
    log_score = (
        gammaln(prior) - gammaln(rows + prior)
        + gammaln(hits + a) - gammaln(a)
        + gammaln(rows - hits + b) - gammaln(b)
    )  # fmt: skip
    full = rows > 0
    return StepMap(edges, (hits + a) / (rows + prior)), float(log_score[full].sum())

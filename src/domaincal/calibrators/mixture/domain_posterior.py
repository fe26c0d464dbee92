"""Domain classifier Q(k | x): which of the known domains the features of a row look like."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
import scipy.linalg

from domaincal._typing import Array, FeatureMatrix, FloatArray, IntArray
from domaincal.calibrators.features.feature_projection import FeatureProjection
from domaincal.calibrators.row_sample import check_max_rows, draw_rows
from domaincal.statistics import LabelledRows
from domaincal.statistics.domain_folds import similar_domain_folds
from domaincal.statistics.feature_products import feature_blocks, product, reads_on_device

#: Candidates of the search: weight of a multiple of the identity in the covariance, and factor of
#: the log-densities. Sharpness 0 is the same probability for all domains.
SHRINKAGES = (0.001, 0.01, 0.1, 1.0)
SHARPNESSES = (0.01, 0.03, 0.1, 0.3, 1.0)
#: Candidate that is taken with fewer than three domains, where leaving one out shows nothing.
DEFAULT_CANDIDATE = (0.1, 0.1)

#: Takes the mask of the held-out domains and the positions of their rows in the sample. Returns a
#: function from the probabilities of the other domains for these rows, of shape (n_candidates,
#: n_rows, n_others), to the mean NLL of the held-out domains, of shape (n_candidates, n_held_out).
Criterion = Callable[[Array, IntArray], Callable[[FloatArray], FloatArray]]


@dataclass(frozen=True, eq=False)
class DomainPosterior:
    """Probabilities of the domains: ``softmax(features @ coef + intercept)``.

    Attributes
    ----------
    coef : array of shape (n_features, n_domains)
    intercept : array of shape (n_domains,)

    Examples
    --------
    >>> import numpy as np
    >>> posterior = DomainPosterior(np.array([[0.0, 1.0]]), np.zeros(2))
    >>> posterior(np.array([[0.0]])).tolist()
    [[0.5, 0.5]]
    """

    coef: FloatArray
    intercept: FloatArray

    def __call__(self, features: FeatureMatrix) -> FloatArray:
        """Probabilities of each row, shape (n, n_domains); NaN for features that are not finite."""
        out = np.empty((len(features), len(self.intercept)))
        for block in feature_blocks(*features.shape, device=reads_on_device(features)):
            out[block] = softmax_rows(product(features[block], self.coef) + self.intercept)
        return out


@dataclass(frozen=True, eq=False)
class DomainSample:
    """Rows from which the domain classifier is learned.

    Attributes
    ----------
    rows : array of shape (n,)
        Numbers of the rows of the fit.
    n_available : int
        Number of rows from which the sample was drawn.
    codes : array of shape (n,)
        Number of the domain of each row, from 0 to n_domains - 1.
    n_domains : int
    share : array of shape (n,)
        Weight of each row; the weights of a domain sum to 1.
    projection : FeatureProjection
    projected : array of shape (n, n_directions)
        Projected features.
    """

    rows: IntArray
    n_available: int
    codes: IntArray
    n_domains: int
    share: FloatArray
    projection: FeatureProjection
    projected: FloatArray

    @classmethod
    def draw(
        cls,
        features: FeatureMatrix,
        codes: IntArray,
        used: Array,
        weight: FloatArray | None,
        *,
        max_rows: int,
        random_state: int,
    ) -> DomainSample:
        """Rows of the used domains, at most ``max_rows``; ``codes`` counts all domains."""
        check_max_rows(max_rows, int(used.sum()))
        rows, n_available = draw_rows(
            codes, used, weight, max_rows=max_rows, random_state=random_state
        )
        of_used = (np.cumsum(used) - 1)[codes[rows]]
        n_domains = int(used.sum())
        share = np.ones(len(rows)) if weight is None else weight[rows]
        share = share / np.bincount(of_used, share, minlength=n_domains)[of_used]
        x = np.asarray(features[rows])
        projection = FeatureProjection.fit(x, share)
        return cls(rows, n_available, of_used, n_domains, share, projection, projection(x))

    @cached_property
    def means(self) -> FloatArray:
        """Mean of the projected features of each domain."""
        return np.stack(
            [np.bincount(self.codes, self.share * x, self.n_domains) for x in self.projected.T],
            axis=1,
        )

    def covariance(self, domains: Array) -> FloatArray:
        """Mean over the domains of a mask of the covariance within each domain."""
        chosen = domains[self.codes]
        x = self.projected[chosen] - self.means[self.codes[chosen]]
        weighted = x * (self.share[chosen] / domains.sum())[:, None]
        return np.asarray(x.T @ weighted)


@dataclass(frozen=True, eq=False)
class PosteriorFit:
    """A fitted domain classifier, and the table of its search."""

    posterior: DomainPosterior
    search: pd.DataFrame


def fit_domain_posterior(sample: DomainSample, criterion: Criterion) -> PosteriorFit:
    """Fit Gaussians with the same covariance to the domains.

    With equal prior probabilities of the domains, Q(k | x) is a softmax of linear functions, as in
    multinomial logistic regression, but in closed form: no iterations, the same result for rows in
    any order, and a search that needs one eigendecomposition for each fold.

    The shrinkage of the covariance and the sharpness of Q are those with the lowest mean NLL over
    domains that are left out, in folds of similar domains.
    """
    candidates = [(1.0, 0.0), *((a, b) for b in SHARPNESSES for a in SHRINKAGES)]
    table = pd.DataFrame(candidates, columns=["shrinkage", "sharpness"])
    everything = np.ones(sample.n_domains, bool)
    chosen = DEFAULT_CANDIDATE
    nll = np.full((len(candidates), sample.n_domains), np.nan)
    if sample.n_domains >= 3:
        folds = similar_domain_folds(sample.means)
        for k in range(int(folds.max()) + 1):
            held_out = folds == k
            test = np.flatnonzero(held_out[sample.codes])
            gaussians, score = _Gaussians(sample, ~held_out), criterion(held_out, test)
            x = sample.projected[test]
            q = [softmax_rows(gaussians.log_densities(x, *candidate)) for candidate in candidates]
            nll[:, held_out] = score(np.stack(q))
        chosen = candidates[int(np.argmin(nll.mean(axis=1)))]
    coef, intercept = _Gaussians(sample, everything).linear_functions(*chosen)
    coef, intercept = sample.projection.fold(coef, intercept)
    return PosteriorFit(DomainPosterior(coef, intercept), table.assign(nll=nll.mean(axis=1)))


class _Gaussians:
    """Gaussian densities of some domains, with the same covariance."""

    def __init__(self, sample: DomainSample, domains: Array) -> None:
        means = sample.means[domains]
        self._centre = means.mean(axis=0)
        self._variances, self._vectors = scipy.linalg.eigh(sample.covariance(domains))
        self._variances = np.maximum(self._variances, 0.0)
        self._means = (means - self._centre) @ self._vectors

    def linear_functions(self, shrinkage: float, sharpness: float) -> tuple[FloatArray, FloatArray]:
        """Coefficients and intercepts of the log-densities, up to a term that all domains share."""
        unit = self._variances.mean()
        if not unit > 0:  # within each domain, all rows are equal
            unit = 1.0
        variances = (1.0 - shrinkage) * self._variances + shrinkage * unit
        scaled = sharpness * self._means / variances
        coef = self._vectors @ scaled.T
        intercept = -0.5 * (scaled * self._means).sum(axis=1) - self._centre @ coef
        return coef, intercept

    def log_densities(self, x: FloatArray, shrinkage: float, sharpness: float) -> FloatArray:
        """Log-densities of projected rows, up to a term that all domains share."""
        coef, intercept = self.linear_functions(shrinkage, sharpness)
        return np.asarray(x @ coef + intercept)


def softmax_rows(values: FloatArray) -> FloatArray:
    """Softmax of each row; NaN for rows with a value that is not finite."""
    with np.errstate(invalid="ignore"):
        p = np.exp(values - values.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
    return np.asarray(p)


def select_rows(rows: LabelledRows, positions: IntArray) -> LabelledRows:
    """Some of the rows, with the same numbers of the domains."""
    domain, weight = (None if a is None else a[positions] for a in (rows.domain, rows.weight))
    return LabelledRows(
        rows.logits[positions], rows.labels[positions], domain, rows.n_domains, weight
    )


def empty_posterior_search() -> pd.DataFrame:
    """Table of the search if no domain can be used."""
    return pd.DataFrame(columns=["shrinkage", "sharpness", "nll"])

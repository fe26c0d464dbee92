"""Multi-domain temperature scaling: the temperature of a row, predicted from its features."""

from typing import Literal

import numpy as np

from domaincal._errors import InputError
from domaincal._typing import Array, ArrayLike, FloatArray, IntArray
from domaincal._validation import (
    check_domains,
    check_features,
    check_labels,
    check_logits,
    check_option,
    check_sample_weight,
    non_finite_features,
)
from domaincal.calibrators._base import TemperatureCalibrator
from domaincal.calibrators._heads import fit_linear, search_alpha
from domaincal.calibrators._targets import AUTO_CLIP_FACTOR, TARGETS, Target, TemperatureTarget
from domaincal.calibrators.domain_temperature import by_domain, fit_domains
from domaincal.calibrators.temperature import fit_pooled
from domaincal.statistics import LabelledRows, LinearMap
from domaincal.statistics.solver import TEMPERATURE_BOUNDS


class MultiDomainTemperatureScaling(TemperatureCalibrator):
    """Multi-domain temperature scaling (MD-TS; Yu et al. 2022).

    Fit a temperature T_k on each domain, regress it on the features of the domain's rows, predict
    a temperature for each new row: no domain is needed at prediction, and the row may come from a
    domain that nobody has seen. The defaults are the paper's Algorithm 1.

    Parameters
    ----------
    head : {"ols", "ridge"}, default "ols"
        Regression from features to temperatures.
    target : {"temperature", "log", "inverse"}, default "temperature"
        Regress T, log T or 1 / T. Where the T_k lie far apart, least squares on T can predict
        negative temperatures, which are clipped; log T cannot become negative.
    fit_intercept : bool, default False
        The paper's formula has none.
    domain_weight : {"sample", "equal"}, default "sample"
        Each row counts the same, or each domain does.
    clip : "auto", None or (low, high), default "auto"
        Limits of a predicted temperature. "auto": from a quarter of the smallest T_k to four
        times the largest. None: the paper to the letter; only what no fit could return (0.01 and
        100 times the spread of the logits) is cut off, so that T is positive and finite.
    alpha : float, optional
        Ridge's penalty, as in scikit-learn. By default it is chosen among nine by holding out
        whole domains, for the NLL of the domains held out.

    Attributes
    ----------
    temperature_ : float
        Pooled temperature of all rows: the fallback where no domain can be used.
    domain_temperatures_, domain_standard_errors_ : Series indexed by domain
        T_k, and the standard error of log T_k (NaN at a bound).
    used_domains_ : array
        Domains that entered the regression: at least 10 rows, T_k not at a bound.
    coef_ : array, shape (n_features,)
    intercept_ : float
    clip_ : (low, high)
    alpha_ : float
        Only for ridge; 0 means that no domain could be used.
    alpha_search_ : DataFrame
        Only where alpha was chosen: alpha, domains held out, their mean NLL.
    n_iter_ : int
        Passes over all rows for the T_k.
    n_classes_ : int

    Examples
    --------
    >>> from domaincal import MultiDomainTemperatureScaling, make_multi_domain
    >>> data, _ = make_multi_domain(n_domains=8, random_state=0)
    >>> calibrator = MultiDomainTemperatureScaling()
    >>> _ = calibrator.fit(data.logits, data.labels, features=data.features, domains=data.domains)
    >>> calibrator.predict_confidence(data.logits, features=data.features).shape
    (4000,)
    """

    def __init__(
        self,
        head: Literal["ols", "ridge"] = "ols",
        *,
        target: Target = "temperature",
        fit_intercept: bool = False,
        domain_weight: Literal["sample", "equal"] = "sample",
        clip: Literal["auto"] | tuple[float, float] | None = "auto",
        alpha: float | None = None,
    ) -> None:
        self.head = head
        self.target = target
        self.fit_intercept = fit_intercept
        self.domain_weight = domain_weight
        self.clip = clip
        self.alpha = alpha

    def fit(
        self,
        logits: ArrayLike,
        y: ArrayLike,
        *,
        features: ArrayLike | None = None,
        domains: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> "MultiDomainTemperatureScaling":
        """Fit T_k on each domain and the map from features to temperatures on all of them."""
        self._check_parameters()
        name = type(self).__name__
        z = check_logits(logits)
        labels = check_labels(y, n_rows=len(z), n_classes=z.shape[1], name="y")
        x = check_features(features, n_rows=len(z), needed_by=name)
        codes, names = check_domains(domains, n_rows=len(z), needed_by=name)
        weight = check_sample_weight(sample_weight, n_rows=len(z))

        fit, used = fit_domains(z, labels, codes, names, weight)
        pooled = fit_pooled(z, labels, weight)
        self.n_classes_ = z.shape[1]
        self.temperature_ = float(pooled.temperature[0])
        self.domain_temperatures_ = by_domain(fit.temperature, names, "temperature")
        self.domain_standard_errors_ = by_domain(fit.standard_error, names, "standard_error")
        self.used_domains_ = names[used]
        self.n_iter_ = fit.n_iter

        temperatures = np.where(used, fit.temperature, np.nan)
        self.clip_ = self._limits(temperatures, float(pooled.scale[0]))
        regression_weight = self._regression_weight(codes, used, weight)
        solution = self._fit_head(z, labels, x, codes, temperatures, regression_weight)
        self.coef_ = solution.coef
        self.intercept_ = solution.intercept
        return self

    def _fit_head(
        self,
        z: Array,
        labels: Array,
        x: Array,
        codes: IntArray,
        temperatures: FloatArray,
        weight: FloatArray | None,
    ) -> LinearMap:
        known = TemperatureTarget(self.target, *self.clip_)
        if np.isnan(temperatures).all():
            if self.head == "ridge":
                self.alpha_ = 0.0
            pooled = known.from_temperature(np.array([self.temperature_]))
            return LinearMap(np.zeros(x.shape[1]), float(pooled[0]))
        targets = known.from_temperature(temperatures)
        intercept = self.fit_intercept
        if self.head == "ols":
            return fit_linear(x, codes, targets, weight=weight, alpha=0.0, fit_intercept=intercept)
        if self.alpha is not None:
            self.alpha_ = float(self.alpha)
            return fit_linear(
                x, codes, targets, weight=weight, alpha=self.alpha_, fit_intercept=intercept
            )

        def known_without(fold: np.ndarray) -> TemperatureTarget:
            if self.clip != "auto":
                return known
            return TemperatureTarget(self.target, *_auto_limits(temperatures[~fold]))

        def held_out_nll(values: FloatArray, fold: np.ndarray) -> FloatArray:
            beta = 1.0 / known_without(fold).to_temperature(values)
            sums = LabelledRows(z, labels, codes, len(fold), weight).sums(beta, one_each=True)
            return np.asarray(sums.nll[fold] / sums.weight[fold])

        self.alpha_, self.alpha_search_, equations = search_alpha(
            x, codes, targets, weight=weight, fit_intercept=intercept, held_out_nll=held_out_nll
        )
        return fit_linear(
            x, codes, targets, weight=weight, alpha=self.alpha_, fit_intercept=intercept,
            equations=equations,
        )  # fmt: skip

    def _temperatures(
        self, n_rows: int, features: ArrayLike | None, domains: ArrayLike | None
    ) -> FloatArray:
        x = check_features(
            features, n_rows=n_rows, n_features=len(self.coef_), needed_by=type(self).__name__
        )
        values = LinearMap(self.coef_, self.intercept_)(x)
        if not np.isfinite(values).all():
            raise non_finite_features(x)
        return TemperatureTarget(self.target, *self.clip_).to_temperature(values)

    def _limits(self, temperatures: FloatArray, scale: float) -> tuple[float, float]:
        """Smallest and largest temperature that a prediction may have."""
        if self.clip is None and scale > 0:
            return TEMPERATURE_BOUNDS[0] * scale, TEMPERATURE_BOUNDS[1] * scale
        if isinstance(self.clip, tuple | list):
            return float(self.clip[0]), float(self.clip[1])
        none_used = np.isnan(temperatures).all()
        return _auto_limits(np.array([self.temperature_]) if none_used else temperatures)

    def _regression_weight(
        self, codes: IntArray, used: np.ndarray, weight: FloatArray | None
    ) -> FloatArray | None:
        """Weight of each row in the regression; with "equal", all domains weigh the same."""
        if self.domain_weight == "sample":
            return weight
        totals = np.bincount(codes, weight, minlength=len(used)).astype(np.float64)
        mean = totals[used].mean() if used.any() else 1.0
        return np.asarray((mean / totals)[codes] * (1.0 if weight is None else weight))

    def _check_parameters(self) -> None:
        check_option(self.head, "head", ("ols", "ridge"))
        check_option(self.target, "target", TARGETS)
        check_option(self.domain_weight, "domain_weight", ("sample", "equal"))
        if self.alpha is not None and not 0.0 <= self.alpha < np.inf:
            raise InputError(f"alpha must be a finite number >= 0 or None, got {self.alpha!r}.")
        if self.clip is None or self.clip == "auto":
            return
        try:
            low, high = self.clip
            right = 0.0 < low < high < np.inf
        except (TypeError, ValueError):
            right = False
        if not right:
            raise InputError(
                f"clip must be 'auto', None or a pair 0 < low < high, got {self.clip!r}."
            )


def _auto_limits(temperatures: FloatArray) -> tuple[float, float]:
    return (
        float(np.nanmin(temperatures)) / AUTO_CLIP_FACTOR,
        float(np.nanmax(temperatures)) * AUTO_CLIP_FACTOR,
    )

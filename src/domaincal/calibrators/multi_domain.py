"""Multi-domain temperature scaling: the temperature of a row, predicted from its features."""

import warnings
from typing import Literal

import numpy as np
import pandas as pd

from domaincal._errors import InputError, PoorHeadWarning
from domaincal._typing import Array, ArrayLike, FloatArray
from domaincal._validation import (
    check_domains,
    check_features,
    check_labels,
    check_logits,
    check_number,
    check_option,
    check_sample_weight,
    non_finite_features,
)
from domaincal.calibrators._base import TemperatureCalibrator
from domaincal.calibrators._heads import fit_linear, search_alpha
from domaincal.calibrators._targets import AUTO_CLIP_FACTOR, TARGETS, Target, TemperatureTarget
from domaincal.calibrators.domain_temperature import by_domain, fit_domains
from domaincal.calibrators.temperature import fit_pooled
from domaincal.statistics import LabelledRows, LinearMap, TemperatureFit
from domaincal.statistics.solver import TEMPERATURE_BOUNDS

# How much higher the NLL of the calibration rows may be than at the pooled temperature.
_POOR_HEAD = 1.01


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
        The paper's formula has none, which suits features with a mean, such as those after a
        ReLU. Standardised features need an intercept.
    domain_weight : {"sample", "equal"}, default "sample"
        Each row counts the same, or each domain does.
    clip : "auto", None or (low, high), default "auto"
        Limits of a predicted temperature. "auto": from a quarter of the smallest T_k to four
        times the largest. None: the paper to the letter; only what no fit could return (0.01 and
        100 times the spread of the logits) is cut off, so that T is positive and finite.
    alpha : float, optional
        Ridge's penalty, as in scikit-learn. By default it is chosen among nine by holding out
        whole domains, for the NLL of the domains held out; with a single domain there is none to
        hold out, and the smallest of the nine is taken.

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
        Ridge's penalty; 0 for "ols".
    alpha_search_ : DataFrame
        Candidates for alpha, domains held out, their mean NLL; empty where none was chosen.
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
        """Fit T_k on each domain and the map from features to temperatures on all of them.

        Parameters
        ----------
        logits : array, shape (n, n_classes)
            Unnormalised scores; float16, float32 and float64 are read as they are.
        y : array of class indices, shape (n,)
            Numbers of the logits' columns, counted from 0.
        features : array, shape (n, n_features)
            The network's penultimate embedding of each row.
        domains : array of integers or strings, shape (n,)
            The domain of each row.
        sample_weight : array, shape (n,), optional
            A weight counts as that many repetitions of the row.
        """
        self._check_parameters()
        name = type(self).__name__
        z = check_logits(logits)
        labels = check_labels(y, n_rows=len(z), n_classes=z.shape[1], name="y")
        x = check_features(features, n_rows=len(z), needed_by=name)
        codes, names = check_domains(domains, n_rows=len(z), needed_by=name)
        weight = check_sample_weight(sample_weight, n_rows=len(z))

        fit, used = fit_domains(z, labels, codes, names, weight)
        pooled = fit_pooled(z, labels, weight)
        temperatures = np.where(used, fit.temperature, np.nan)
        rows = LabelledRows(z, labels, codes, len(names), weight)
        limits = self._limits(temperatures, pooled)
        guard = TemperatureTarget(self.target, *limits)
        solution, alpha, search = self._fit_head(rows, x, temperatures, pooled, guard)
        values = solution(x)
        if not np.isfinite(values).all():
            raise non_finite_features(x)
        _warn_of_poor_head(rows, guard.to_temperature(values), pooled)

        self.n_classes_ = z.shape[1]
        self.temperature_ = float(pooled.temperature[0])
        self.domain_temperatures_ = by_domain(fit.temperature, names, "temperature")
        self.domain_standard_errors_ = by_domain(fit.standard_error, names, "standard_error")
        self.used_domains_ = names[used]
        self.n_iter_ = fit.n_iter
        self.clip_ = limits
        self.coef_ = solution.coef
        self.intercept_ = solution.intercept
        self.alpha_ = alpha
        self.alpha_search_ = search
        return self

    def _fit_head(
        self,
        rows: LabelledRows,
        x: Array,
        temperatures: FloatArray,
        pooled: TemperatureFit,
        guard: TemperatureTarget,
    ) -> tuple[LinearMap, float, pd.DataFrame]:
        """The map from features to targets, its alpha, and the search that found it."""
        no_search = pd.DataFrame(columns=["alpha", "n_domains", "nll"])
        codes = np.asarray(rows.group)
        if np.isnan(temperatures).all():
            constant = guard.from_temperature(pooled.temperature)[0]
            return LinearMap(np.zeros(x.shape[1]), float(constant)), 0.0, no_search
        targets = guard.from_temperature(temperatures)
        weight = self._regression_weight(rows, ~np.isnan(temperatures))
        intercept = self.fit_intercept
        if self.head == "ols" or self.alpha is not None:
            alpha = 0.0 if self.alpha is None else float(self.alpha)
            solution = fit_linear(
                x, codes, targets, weight=weight, alpha=alpha, fit_intercept=intercept
            )
            return solution, alpha, no_search

        def held_out_nll(values: FloatArray, fold: np.ndarray) -> FloatArray:
            limits = self._limits(np.where(fold, np.nan, temperatures), pooled)
            predicted = TemperatureTarget(self.target, *limits).to_temperature(values)
            sums = rows.sums(1.0 / predicted, one_each=True)
            return np.asarray(sums.nll[fold] / sums.weight[fold])

        alpha, search, equations = search_alpha(
            x, codes, targets, weight=weight, fit_intercept=intercept, held_out_nll=held_out_nll
        )
        solution = fit_linear(
            x, codes, targets, weight=weight, alpha=alpha, fit_intercept=intercept,
            equations=equations,
        )  # fmt: skip
        return solution, alpha, search

    def _temperatures(
        self, logits: Array, features: ArrayLike | None, domains: ArrayLike | None
    ) -> FloatArray:
        x = check_features(
            features, n_rows=len(logits), n_features=len(self.coef_), needed_by=type(self).__name__
        )
        values = LinearMap(self.coef_, self.intercept_)(x)
        if not np.isfinite(values).all():
            raise non_finite_features(x)
        return TemperatureTarget(self.target, *self.clip_).to_temperature(values)

    def _limits(self, temperatures: FloatArray, pooled: TemperatureFit) -> tuple[float, float]:
        """Smallest and largest temperature that a prediction may have."""
        if self.clip is None and pooled.scale[0] > 0:
            low, high = np.array(TEMPERATURE_BOUNDS) * pooled.scale[0]
        elif self.clip is None or self.clip == "auto":
            none_used = np.isnan(temperatures).all()
            known = pooled.temperature if none_used else temperatures
            low, high = np.nanmin(known) / AUTO_CLIP_FACTOR, np.nanmax(known) * AUTO_CLIP_FACTOR
        else:
            low, high = self.clip
        return float(low), float(high)

    def _regression_weight(self, rows: LabelledRows, used: np.ndarray) -> FloatArray | None:
        """Weight of each row in the regression; with "equal", all domains weigh the same."""
        if self.domain_weight == "sample":
            return rows.weight
        codes = np.asarray(rows.group)
        totals = np.bincount(codes, rows.weight, minlength=len(used)).astype(np.float64)
        of_domain = totals[used].mean() / totals
        return np.asarray(of_domain[codes] * (1.0 if rows.weight is None else rows.weight))

    def _check_parameters(self) -> None:
        check_option(self.head, "head", ("ols", "ridge"))
        check_option(self.target, "target", TARGETS)
        check_option(self.domain_weight, "domain_weight", ("sample", "equal"))
        if not isinstance(self.fit_intercept, bool | np.bool_):
            raise InputError(f"fit_intercept must be True or False, got {self.fit_intercept!r}.")
        if self.alpha is not None:
            check_number(self.alpha, "alpha", low=0.0, high=np.inf, closed=True)
            if self.head == "ols":
                raise InputError(
                    f"alpha={self.alpha!r} has no meaning for head='ols'; use head='ridge'."
                )
        if self.clip is None or (isinstance(self.clip, str) and self.clip == "auto"):
            return
        pair = isinstance(self.clip, tuple | list) and len(self.clip) == 2
        if not (pair and 0.0 < self.clip[0] < self.clip[1] < np.inf):
            raise InputError(
                f"clip must be 'auto', None or a pair 0 < low < high, got {self.clip!r}."
            )


def _warn_of_poor_head(rows: LabelledRows, predicted: FloatArray, pooled: TemperatureFit) -> None:
    """Compare the NLL of the calibration rows with that at the pooled temperature."""
    sums = rows.sums(1.0 / predicted, one_each=True)
    ratio = sums.nll.sum() / sums.weight.sum() / pooled.nll[0]
    if ratio > _POOR_HEAD:
        warnings.warn(
            "the predicted temperatures suit the calibration rows worse than one temperature for "
            f"all (NLL {ratio:.2f} times as high). Features without a mean "
            "(standardised ones) need fit_intercept=True; else the features may not tell the "
            "domains apart: use TemperatureScaling.",
            PoorHeadWarning,
            stacklevel=3,
        )

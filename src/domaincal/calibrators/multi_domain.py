"""Multi-domain temperature scaling: the temperature of a row, predicted from its features."""

from collections.abc import Callable
from typing import Any, ClassVar, Literal

import numpy as np
import pandas as pd

from domaincal._typing import Array, ArrayLike, FeatureRows, FloatArray
from domaincal._validation import (
    check_domains,
    check_features,
    non_finite_features,
    non_finite_logits,
    random_generator,
)
from domaincal.calibrators.base import LearnedTypes, TemperatureCalibrator
from domaincal.calibrators.domain_temperature import (
    DomainTemperatureScaling,
    by_domain,
    domain_facts,
    draw_domains,
    fit_domains,
)
from domaincal.calibrators.head_warnings import (
    warn_of_no_domain,
    warn_of_poor_head,
    warn_of_subsample,
)
from domaincal.calibrators.heads import (
    SEARCH_ROWS,
    Head,
    HeadFit,
    HeadProblem,
    fit_head,
)
from domaincal.calibrators.heads.grid_search import no_search
from domaincal.calibrators.heads.kernel_ridge import KernelMap
from domaincal.calibrators.heads.neighbours import NeighbourMap
from domaincal.calibrators.inputs import Inputs, TrainingRows
from domaincal.calibrators.md_ts_parameters import check_parameters
from domaincal.calibrators.sorted_logits import SortedLogits
from domaincal.calibrators.temperature import fit_pooled
from domaincal.calibrators.temperature_target import AUTO_CLIP_FACTOR, Target, TemperatureTarget
from domaincal.errors import InputError
from domaincal.statistics import LabelledRows, LinearMap, TemperatureFit, fit_temperature
from domaincal.statistics.temperature_solver import TEMPERATURE_BOUNDS


class MultiDomainTemperatureScaling(TemperatureCalibrator):
    """Multi-domain temperature scaling (MD-TS; Yu et al. 2022).

    Fit a temperature T_k on each domain, regress it on the features of the domain's rows, predict
    a temperature for each new row: no domain is needed at prediction, and the row may come from a
    domain that nobody has seen. The defaults are the paper's Algorithm 1.

    Parameters
    ----------
    head : {"ols", "ridge", "huber", "krr", "knn"} or a scikit-learn regressor, default "ols"
        Regression from features to temperatures: least squares, ridge, Huber's robust regression,
        kernel ridge with a Gaussian kernel, nearest neighbours. Their hyperparameters are chosen by
        holding out whole domains, in five groups, for the mean NLL of the domains held out. An
        instance of a regressor is cloned and fitted as it is, on all rows.
    features : "logits" or None, default None
        ``"logits"``: each row's logits, largest first, less their mean, are its features, and the
        ``features`` given to fit and predict are ignored. None: the given ones.
    target : {"temperature", "log", "inverse"}, default "temperature"
        Regress T, log T or 1 / T. Where the T_k lie far apart, least squares on T can predict
        negative temperatures, which are clipped; log T cannot become negative.
    fit_intercept : bool, default False
        The paper's formula has none, which suits features with a mean, such as those after a
        ReLU. Standardised features need an intercept. For "krr" it centres the targets: far from
        all rows, T tends to the mean of the T_k, not to the lower limit. "knn" and instances of
        regressors ignore it.
    domain_weight : {"sample", "equal"}, default "sample"
        Each row counts the same, or each domain does.
    clip : "auto", None or (low, high), default "auto"
        Limits of a predicted temperature. "auto": from a quarter of the smallest T_k to four
        times the largest. None: the paper to the letter; only what no fit could return (0.01 and
        100 times the spread of the logits) is cut off, so that T is positive and finite.
    alpha : float, optional
        Ridge's penalty, as in scikit-learn. By default it is chosen; with a single domain there is
        none to hold out, and the smallest of the candidates is taken.
    max_rows : int, default 20000
        "krr" and "knn" learn from at most so many rows, the same number from each domain, taken at
        random; a :class:`SubsampleWarning` says so.
    nystroem : int, optional
        "krr" with so many landmark rows in place of all (Nystroem's approximation).
    random_state : int, default 0
        Seed of the choice of rows and landmarks.

    Attributes
    ----------
    temperature_ : float
        Pooled temperature of all rows: the fallback where no domain can be used.
    domain_temperatures_, domain_standard_errors_ : Series indexed by domain
        T_k, and the standard error of log T_k (NaN at a bound).
    used_domains_ : array
        Domains that entered the regression: at least 10 rows, T_k not at a bound.
    head_ : callable
        The fitted map from features to the target.
    coef_, intercept_ : array of shape (n_features,), float
        Of the linear heads "ols", "ridge" and "huber".
    head_parameters_ : dict
        Chosen hyperparameters of the head, under scikit-learn's names.
    head_search_ : DataFrame
        A row for each candidate: its parameters, domains and rows held out, their mean NLL, and
        that of one temperature for all others (``nll_pooled``); empty where nothing was searched.
        "krr" searches on up to 2000 rows, "huber" on 2000 or five for each feature; krr's alpha is
        that of the final fit and grows with the number of rows.
    head_rows_ : int
        Rows that the head has learned from.
    feature_columns_ : tuple of str or None
        Names of the features, where they are known. A data frame with the same columns in another
        order is put right at prediction; other columns are refused.
    clip_ : (low, high)
    n_iter_ : int
        Passes over all rows for the T_k.
    n_classes_ : int

    Examples
    --------
    >>> from domaincal import MultiDomainTemperatureScaling, make_multi_domain
    >>> data, _ = make_multi_domain(n_domains=8, random_state=0)
    >>> calibrator = MultiDomainTemperatureScaling()
    >>> calibrator.fit(data)
    MultiDomainTemperatureScaling()
    >>> calibrator.predict_confidence(data.logits, features=data.features).shape
    (4000,)
    """

    _learned: ClassVar[LearnedTypes] = {
        **DomainTemperatureScaling._learned,
        "clip_": tuple,
        "head_": (LinearMap, KernelMap, NeighbourMap),
        "head_parameters_": dict,
        "head_search_": pd.DataFrame,
        "head_rows_": int,
        "feature_columns_": (tuple, type(None)),
        "_n_features": int,
        "_of_logits": bool,
        "_guard": TemperatureTarget,
    }

    def __init__(
        self,
        head: Head | Any = "ols",
        *,
        features: Literal["logits"] | None = None,
        target: Target = "temperature",
        fit_intercept: bool = False,
        domain_weight: Literal["sample", "equal"] = "sample",
        clip: Literal["auto"] | tuple[float, float] | None = "auto",
        alpha: float | None = None,
        max_rows: int = 20_000,
        nystroem: int | None = None,
        random_state: int = 0,
    ) -> None:
        self.head = head
        self.features = features
        self.target = target
        self.fit_intercept = fit_intercept
        self.domain_weight = domain_weight
        self.clip = clip
        self.alpha = alpha
        self.max_rows = max_rows
        self.nystroem = nystroem
        self.random_state = random_state

    def _learn(self, rows: TrainingRows) -> None:
        z, needed_by = rows.logits, type(self).__name__
        x: FeatureRows = (
            SortedLogits(z)
            if self.features == "logits"
            else check_features(rows.features, n_rows=len(z), needed_by=needed_by)
        )
        codes, names = check_domains(rows.domains, n_rows=len(z), needed_by=needed_by)

        fit, used = fit_domains(rows, codes, names)
        pooled = fit_pooled(z, rows.labels, rows.weight)
        temperatures = np.where(used, fit.temperature, np.nan)
        labelled = LabelledRows(z, rows.labels, codes, len(names), rows.weight)
        limits = self._limits(temperatures, pooled)
        guard = TemperatureTarget(self.target, *limits)
        problem = self._problem(labelled, x, temperatures, pooled, guard)
        head = self._fit_head(problem, guard.from_temperature(pooled.temperature)[0])
        predicted = guard.to_temperature(self._check_values(problem, head.head))
        if used.any():
            warn_of_poor_head(labelled, predicted, pooled, head, untried=self._untried())
            warn_of_subsample(problem, head, head=self.head, max_rows=self.max_rows)
        else:
            warn_of_no_domain(pooled)

        self.temperature_ = float(pooled.temperature[0])
        self.domain_temperatures_ = by_domain(fit.temperature, names, "temperature")
        self.domain_standard_errors_ = by_domain(fit.standard_error, names, "standard_error")
        self.used_domains_ = names[used]
        self.n_iter_ = fit.n_iter
        self.clip_ = limits
        self.head_ = head.head
        self.head_parameters_ = head.parameters
        self.head_search_ = head.search
        self.head_rows_ = head.n_rows
        # What predictions need is kept apart: parameters may be set anew before the next fit.
        self._n_features = x.shape[1]
        self._of_logits = isinstance(x, SortedLogits)
        self._guard = guard

    def _check_parameters(self) -> None:
        check_parameters(self)

    def _remember_features(self, inputs: Inputs) -> None:
        self.feature_columns_ = None if self._of_logits else inputs.feature_names

    @property
    def coef_(self) -> FloatArray:
        """Coefficients of a linear head."""
        return self._linear("coef_").coef

    @property
    def intercept_(self) -> float:
        """Intercept of a linear head."""
        return self._linear("intercept_").intercept

    def _facts(self) -> dict[str, str]:
        chosen = ", ".join(f"{k} = {v:.4g}" for k, v in self.head_parameters_.items())
        return {
            **domain_facts(self),
            "head": f"{self.head}{f' ({chosen})' if chosen else ''} on {self.target}, "
            f"{self.head_rows_} rows of {self._n_features} features"
            if len(self.used_domains_)
            else "none: every row gets the pooled temperature",
            "limits of T": f"{self.clip_[0]:.4g} to {self.clip_[1]:.4g}",
            **super()._facts(),
        }

    def _drawing(self) -> str:
        return draw_domains(self)

    def _untried(self) -> tuple[str, ...]:
        """What may help a poor head, and is not on."""
        linear = self.head in ("ols", "ridge", "huber")
        cures = {
            "fit_intercept=True (standardised features need it)": linear and not self.fit_intercept,
            "target='log'": self.target != "log",
        }
        return tuple(cure for cure, is_off in cures.items() if is_off)

    def _linear(self, name: str) -> LinearMap:
        if not isinstance(self.head_, LinearMap):
            raise AttributeError(f"head={self.head!r} is not linear: it has no {name}.")
        return self.head_

    def _feature_rows(self, z: Array, features: ArrayLike | None) -> FeatureRows:
        """The features of each row, as in the fit: given, or made of its logits."""
        if self._of_logits:
            return SortedLogits(z)
        return check_features(
            features, n_rows=len(z), n_features=self._n_features, needed_by=type(self).__name__
        )

    def _problem(
        self,
        rows: LabelledRows,
        x: FeatureRows,
        temperatures: FloatArray,
        pooled: TemperatureFit,
        guard: TemperatureTarget,
    ) -> HeadProblem:
        """The regression, with the NLL of domains held out as its criterion."""
        codes = np.asarray(rows.domain)

        def held_out_nll(values: FloatArray, fold: Array) -> FloatArray:
            limits = self._limits(np.where(fold, np.nan, temperatures), pooled)
            predicted = TemperatureTarget(self.target, *limits).to_temperature(values)
            sums = rows.sums(1.0 / predicted, one_each=True)
            return np.asarray(sums.nll[fold] / sums.weight[fold])

        def pooled_target(fold: Array) -> float:
            others = ~np.isnan(temperatures) & ~fold
            weight = np.where(others[codes], 1.0 if rows.weight is None else rows.weight, 0.0)
            one = fit_temperature(LabelledRows(rows.logits, rows.labels, weight=weight))
            return float(guard.from_temperature(one.temperature)[0])

        return HeadProblem(
            features=x,
            codes=codes,
            targets=guard.from_temperature(temperatures),
            weight=rows.weight,
            equal=self.domain_weight == "equal",
            fit_intercept=self.fit_intercept,
            held_out_nll=held_out_nll,
            pooled_target=pooled_target,
            seed=int(random_generator(self.random_state).integers(1 << 31)),
        )

    def _fit_head(self, problem: HeadProblem, pooled_target: float) -> HeadFit:
        """The head on the domains in use; where there is none, the pooled temperature."""
        if not problem.used.any():
            constant = LinearMap(np.zeros(problem.features.shape[1]), pooled_target)
            return HeadFit(constant, {}, no_search(), 0)
        return fit_head(
            problem, self.head, alpha=self.alpha, max_rows=self.max_rows, nystroem=self.nystroem
        )

    def _check_values(self, problem: HeadProblem, head: Callable[..., FloatArray]) -> FloatArray:
        """What the head predicts: for all rows, or, where that is dear, for some (else NaN)."""
        if isinstance(head, LinearMap):
            values = head(problem.features)
            if not np.isfinite(values).all():
                raise non_finite_features(problem.features)
            return values
        asked = problem.rows(SEARCH_ROWS)
        values = np.full(len(problem.codes), np.nan)
        values[asked] = head(problem.features[asked])
        if not np.isfinite(values[asked]).all():
            raise InputError(
                f"head={self.head!r} predicts values that are not finite; choose another head."
            )
        return values

    def _temperatures(
        self, logits: Array, features: ArrayLike | None, domains: ArrayLike | None
    ) -> FloatArray:
        x = self._feature_rows(logits, features)
        values = self.head_(x)
        if not np.isfinite(values).all():
            if isinstance(x, SortedLogits):
                raise non_finite_logits(logits)
            raise non_finite_features(x)
        return self._guard.to_temperature(values)

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

"""Multi-domain temperature scaling: the temperature of each row is predicted from its features."""

# Short signatures in help(): annotations stay text.
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Literal, cast

import numpy as np
import pandas as pd

from domaincal._row_arrays import MappedRows, is_row_array
from domaincal._tensors import on_device
from domaincal._typing import Array, ArrayLike, FeatureMatrix, FloatArray, IntArray
from domaincal._validation import (
    check_features,
    check_random_state,
    non_finite_features_error,
    non_finite_logits_error,
)
from domaincal.calibrators.domain_calibrator import DomainCalibrator, DomainFit
from domaincal.calibrators.head_warnings import (
    warn_of_clipped_targets,
    warn_of_no_domain,
    warn_of_poor_head,
    warn_of_subsample,
)
from domaincal.calibrators.heads import (
    SEARCH_ROWS,
    Head,
    HeadFit,
    HeadProblem,
    empty_search,
    fit_head,
)
from domaincal.calibrators.held_out_domains import HeldOutDomains
from domaincal.calibrators.inputs import Inputs, TrainingRows, check_feature_names
from domaincal.calibrators.md_ts_parameters import check_parameters
from domaincal.calibrators.sorted_logits import SortedLogits
from domaincal.calibrators.temperature_target import (
    Clip,
    Target,
    TemperatureTarget,
    temperature_limits,
)
from domaincal.errors import InputError
from domaincal.statistics import LabelledRows, LinearMap
from domaincal.statistics.feature_products import reads_on_device, row_groups


class MultiDomainTemperatureScaling(DomainCalibrator):
    """Multi-domain temperature scaling (MD-TS; Yu et al. 2022).

    One temperature for all rows is a compromise: a classifier can be overconfident at night and
    underconfident by day. MD-TS learns from several domains (hospitals, cameras, corruptions) how
    the best temperature depends on the features of a row, in two steps:

    1. fit a temperature T_k to the rows of each domain k, as in :class:`TemperatureScaling`;
    2. fit a regression, the head, from the features of each row to the T_k of its domain.

    For a new row, the head predicts a temperature T from its features, and the probabilities are
    ``softmax(logits / T)``. Predictions need no domain, so that they also work for domains that
    were not in the fit. The predicted class does not change.

    The features should show which domain a row comes from. The usual choice is the penultimate
    embedding of the network. If no features are available, use ``features="logits"``. The default
    parameters are those of Algorithm 1 of the paper.

    Parameters
    ----------
    head : {"ols", "ridge", "huber", "krr", "knn"} or a scikit-learn regressor, default "ols"
        Regression from features to temperatures: ordinary least squares, ridge regression,
        Huber's robust regression, kernel ridge regression with a Gaussian kernel, or nearest
        neighbours. The hyperparameters of these heads are chosen by cross-validation, by the mean
        NLL of the held-out domains. Folds are at most five clusters of domains with similar mean
        features, so that held-out domains are unlike the others. A regressor instance is cloned
        and fitted to all rows.
    features : "logits" or None, default None
        None: use the features that are passed to fit and predict. "logits": use the logits of
        each row in descending order, minus their mean, and ignore the features that are passed.
    target : {"temperature", "log", "inverse"}, default "temperature"
        Regress T, log T or 1 / T. If the T_k differ much, a regression of T can predict negative
        temperatures, which are clipped; a regression of log T cannot.
    fit_intercept : bool, default False
        Whether the head has an intercept. The paper has none, which suits features whose mean is
        far from zero, such as embeddings after a ReLU. Standardised features need an intercept.
        For "krr", the intercept is the mean of the targets: far from all rows of the fit, T tends
        to this mean instead of the lower limit. "knn" and regressor instances ignore it.
    domain_weight : {"sample", "equal"}, default "sample"
        Whether each row has the same weight in the regression, or each domain has.
    clip : "auto", None or (low, high), default "auto"
        Limits of the predicted temperatures. "auto": from a quarter of the smallest T_k to four
        times the largest. None: as in the paper, limited only to the range of temperatures that a
        fit can return (0.01 to 100 times the spread of the logits), to keep T positive and finite.
    alpha : float, optional
        Penalty of "ridge", as in scikit-learn. By default it is chosen by cross-validation; with
        a single domain, the smallest candidate is taken.
    max_rows : int, default 20000
        Maximum number of rows for "krr" and "knn". Larger data are sampled, with equally many
        rows of each domain and a :class:`SubsampleWarning`.
    nystroem : int, optional
        Number of landmark rows of Nystroem's approximation for "krr". By default "krr" is exact.
    random_state : int, default 0
        Seed of the samples and landmarks.

    Warns
    -----
    PoorHeadWarning
        In fit: the predicted temperatures have a higher NLL than one temperature for all rows. From
        3 domains on, both are compared on domains that are left out of the fit, in at most ten
        clusters of similar domains ("ols" and "ridge" with ``alpha``) or in those of the
        cross-validation (a regressor instance: on at most 2000 rows).
    ClippedTemperatureWarning
        At prediction: of 20 or more rows, more than a tenth have a temperature at a limit.

    Attributes
    ----------
    temperature_ : float
        Pooled temperature: one temperature for all rows. Used if no domain can be used.
    domain_temperatures_, domain_standard_errors_ : Series indexed by domain
        T_k, and the standard error of log T_k (NaN if T_k is at a bound).
    used_domains_ : array
        Domains in the regression: at least 10 rows, T_k not at a bound.
    head_ : callable
        Fitted head: maps features to the target.
    coef_, intercept_ : array of shape (n_features,), float
        Coefficients and intercept of the linear heads "ols", "ridge" and "huber".
    head_parameters_ : dict
        Chosen hyperparameters of the head, under scikit-learn's names.
    head_search_ : DataFrame
        One row for each candidate of the search: its parameters; n_domains and n_rows, the numbers
        of domains and rows held out in turn; nll, the mean NLL of the held-out domains; nll_pooled,
        the same for one temperature for all rows. Empty without a search. "krr" searches on at
        most 2000 rows, "huber" on 2000 rows or five for each feature. The alpha of "krr" is that
        of the final fit, proportional to the number of rows.
    head_rows_ : int
        Number of rows that the head was fitted to.
    feature_columns_ : tuple of str or None
        Names of the features, if the data of the fit had names. At prediction, a data frame may
        have these columns in any order; other columns are an error.
    clip_ : (low, high)
        Limits of the predicted temperatures.
    n_iter_ : int
        Number of passes over all rows to fit the T_k.
    n_classes_ : int
        Number of classes.
    class_names_ : tuple of str or None
        Names of the classes, if the data of the fit had names.

    Examples
    --------
    >>> from domaincal import MultiDomainTemperatureScaling, make_multi_domain, split_domains
    >>> data, _ = make_multi_domain(n_domains=8, random_state=0)
    >>> known, new = split_domains(data, ["domain-3"])
    >>> calibrator = MultiDomainTemperatureScaling().fit(known)
    >>> len(calibrator.domain_temperatures_)
    7
    >>> calibrator.predict_proba(new).shape == new.logits.shape
    True
    """

    _fits_blocks = True
    _fits_device_labels = True

    clip_: tuple[float, float]
    head_: Callable[[FeatureMatrix], FloatArray]
    head_parameters_: dict[str, float]
    head_search_: pd.DataFrame
    head_rows_: int
    feature_columns_: tuple[str, ...] | None
    _n_features: int
    _uses_logits: bool
    _temperature_target: TemperatureTarget

    def __init__(
        self,
        head: Head | Any = "ols",
        *,
        features: Literal["logits"] | None = None,
        target: Target = "temperature",
        fit_intercept: bool = False,
        domain_weight: Literal["sample", "equal"] = "sample",
        clip: Clip = "auto",
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

    @property
    def coef_(self) -> FloatArray:
        """Coefficients of a linear head."""
        return self._linear_head("coef_").coef

    @property
    def intercept_(self) -> float:
        """Intercept of a linear head."""
        return self._linear_head("intercept_").intercept

    def _check_parameters(self) -> None:
        check_parameters(self)

    def _learn(self, rows: TrainingRows) -> None:
        x = self._feature_matrix(rows.logits, rows.features, uses_logits=self.features == "logits")
        domains = self._fit_domains(rows)
        target = self._make_target(domains)
        head = self._fit_head(x, domains, target)

        self._store_domains(domains)
        self.clip_ = (target.low, target.high)
        self.head_ = head.head
        self.head_parameters_ = head.parameters
        self.head_search_ = head.search
        self.head_rows_ = head.n_rows
        # Copies for predictions: the parameters can be changed before the next fit.
        self._n_features = x.shape[1]
        self._uses_logits = isinstance(x, SortedLogits)
        self._temperature_target = target

    def _store_feature_names(self, inputs: Inputs) -> None:
        self.feature_columns_ = None if self._uses_logits else inputs.feature_names
        if self.feature_columns_ is not None:
            check_feature_names(self.feature_columns_)

    def _temperatures(
        self, logits: Array, features: ArrayLike | None, domains: ArrayLike | None
    ) -> FloatArray:
        x = self._feature_matrix(
            logits, features, uses_logits=self._uses_logits, n_features=self._n_features
        )
        values = self.head_(x)
        if not np.isfinite(values).all():
            if isinstance(x, SortedLogits):
                raise non_finite_logits_error(logits)
            raise non_finite_features_error(x)
        warn_of_clipped_targets(values, self._temperature_target)
        return self._temperature_target.to_temperature(values)

    def _torch_module(self) -> Any:
        from domaincal.calibrators.feature_module import FeatureTemperatures
        from domaincal.calibrators.heads.head_modules import head_module

        return FeatureTemperatures(
            type(self).__name__,
            self.n_classes_,
            head_module(self.head_),
            self._temperature_target,
            n_features=None if self._uses_logits else self._n_features,
        )

    def _feature_matrix(
        self,
        logits: Array,
        features: ArrayLike | None,
        *,
        uses_logits: bool,
        n_features: int | None = None,
    ) -> FeatureMatrix:
        """Checked features of each row, or its sorted logits."""
        if uses_logits:
            return SortedLogits(logits)
        return check_features(
            features, n_rows=len(logits), n_features=n_features, needed_by=type(self).__name__
        )

    def _make_target(self, domains: DomainFit) -> TemperatureTarget:
        limits = temperature_limits(self.clip, _used_temperatures(domains), domains.pooled)
        return TemperatureTarget(self.target, *limits)

    def _fit_head(self, x: FeatureMatrix, domains: DomainFit, target: TemperatureTarget) -> HeadFit:
        """Fit the head to the used domains; without any, the head is the pooled temperature."""
        labelled = domains.rows
        assert labelled is not None
        problem = self._make_problem(labelled, x, domains, target)
        if not domains.used.any():
            pooled_target = target.from_temperature(domains.pooled.temperature)[0]
            constant = LinearMap(np.zeros(x.shape[1]), pooled_target)
            self._training_temperatures(problem, constant, target)
            warn_of_no_domain(domains.pooled)
            return HeadFit(constant, {}, empty_search(), 0)
        fit = fit_head(
            problem, self.head, alpha=self.alpha, max_rows=self.max_rows, nystroem=self.nystroem
        )
        predicted = self._training_temperatures(problem, fit.head, target)
        warn_of_poor_head(
            labelled, predicted, domains.pooled, fit,
            n_domains=int(domains.used.sum()), suggestions=self._suggestions(),
        )  # fmt: skip
        warn_of_subsample(problem, fit, head=self.head, max_rows=self.max_rows)
        return fit

    def _make_problem(
        self, rows: LabelledRows, x: FeatureMatrix, domains: DomainFit, target: TemperatureTarget
    ) -> HeadProblem:
        """Regression problem of the head."""
        temperatures = _used_temperatures(domains)
        criterion = HeldOutDomains(rows, temperatures, domains.pooled, target, self.clip)
        groups = None
        if reads_on_device(x):
            same = on_device(rows.logits) and rows.logits.device == x[:1].device
            groups = rows.groups if same else row_groups(x, domains.codes, len(temperatures))
        return HeadProblem(
            features=x,
            codes=domains.codes,
            targets=target.from_temperature(temperatures),
            weight=rows.weight,
            equal_domains=self.domain_weight == "equal",
            fit_intercept=self.fit_intercept,
            held_out_nll=criterion.nll,
            pooled_targets=criterion.pooled_targets,
            nll_of_maps=partial(criterion.nll_of_maps, x),
            random_state=int(check_random_state(self.random_state).integers(1 << 31)),
            select=self._selection(rows, x, domains, target)
            if is_row_array(rows.logits) or groups is not None
            else None,
            groups=groups,
        )

    def _selection(
        self, rows: LabelledRows, x: FeatureMatrix, domains: DomainFit, target: TemperatureTarget
    ) -> Callable[[IntArray], HeadProblem]:
        """Function that makes the problem of some of the rows, in memory."""

        def select(numbers: IntArray) -> HeadProblem:
            some = rows.select(numbers)
            return self._make_problem(some, x[numbers], replace(domains, rows=some), target)

        return select

    def _training_temperatures(
        self, problem: HeadProblem, head: Any, target: TemperatureTarget
    ) -> Callable[[], FloatArray]:
        """Function that gives the predicted temperatures of all rows.

        For expensive heads, they are NaN but for a subsample.
        """
        if isinstance(head, LinearMap) and on_device(problem.features):
            there = head.on_device(problem.features)
            if not bool(there.isfinite().all()):
                raise non_finite_features_error(problem.features)
            return lambda: target.to_temperature(there.cpu().numpy())
        if not problem.streamed:
            values = self._training_predictions(problem, head)
            return partial(target.to_temperature, values)
        x = problem.features
        mapped = MappedRows(
            (len(x),), np.float64, lambda block: target.to_temperature(head(block)), x
        )
        return lambda: cast(FloatArray, mapped)

    def _training_predictions(self, problem: HeadProblem, head: Any) -> FloatArray:
        """Predicted targets of all rows; for expensive heads, of a subsample (otherwise NaN)."""
        if isinstance(head, LinearMap):
            values = head(problem.features)
            if not np.isfinite(values).all():
                raise non_finite_features_error(problem.features)
            return values
        rows = problem.subsample(SEARCH_ROWS)
        values = np.full(len(problem.codes), np.nan)
        values[rows] = head(problem.features[rows])
        if not np.isfinite(values[rows]).all():
            raise InputError(
                f"head={self.head!r} predicts values that are not finite; choose another head."
            )
        return values

    def _suggestions(self) -> tuple[str, ...]:
        """Options that may improve a poor head and are off."""
        linear = self.head in ("ols", "ridge", "huber")
        options = {
            "fit_intercept=True (standardised features need it)": linear and not self.fit_intercept,
            "target='log'": self.target != "log",
        }
        return tuple(option for option, is_off in options.items() if is_off)

    def _linear_head(self, attribute: str) -> LinearMap:
        if not isinstance(self.head_, LinearMap):
            raise AttributeError(f"head={self.head!r} is not linear: it has no {attribute}.")
        return self.head_

    def _facts(self) -> dict[str, str]:
        chosen = ", ".join(f"{k} = {v:.4g}" for k, v in self.head_parameters_.items())
        head = (
            f"{self.head}{f' ({chosen})' if chosen else ''} on {self.target}, "
            f"{self.head_rows_} rows of {self._n_features} features"
            if len(self.used_domains_)
            else "none: every row gets the pooled temperature"
        )
        low, high = self.clip_
        return {**super()._facts(), "head": head, "limits of T": f"{low:.4g} to {high:.4g}"}


def _used_temperatures(domains: DomainFit) -> FloatArray:
    """T_k of each domain; NaN for domains that are not used."""
    return np.where(domains.used, domains.each.temperature, np.nan)

"""Base class of estimators of the accuracy of unlabelled domains."""

# Short signatures in help(): annotations stay text.
from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from domaincal._typing import ArrayLike, FloatArray, IntArray
from domaincal._validation import check_number, check_random_state
from domaincal._warnings import handle_warnings
from domaincal.calibrators.blocked_fits import read_or_sample_data
from domaincal.calibrators.blocked_predictions import each_block
from domaincal.calibrators.inputs import check_same_classes, order_features, unpack_arguments
from domaincal.data import BlockedRows, CalibrationData
from domaincal.data.blocked_rows import AnyData, as_rows
from domaincal.errors import InputError
from domaincal.shift.accuracy.left_out_residuals import (
    LeftOutResiduals,
    left_out_residuals,
)
from domaincal.shift.conformal import needed_domains
from domaincal.shift.covered_domains import OUTSIDE, CoveredDomains
from domaincal.shift.gap_histograms import BIN_EDGES, PAIRS, GapHistograms
from domaincal.shift.rows_by_domain import ALL_ROWS, hits_of
from domaincal.statistics import LabelledRows, fit_temperature

#: Columns of the table of estimates.
COLUMNS = ("domain", "n", "predicted_accuracy", "low", "high", "verdict", "distance", "reason")
_TOO_FAR = "There is no interval: estimates for domains unlike all known ones can be far off."
# Largest size of the rows of a store to which an estimator is fitted, about ten times.
_SAMPLE_BYTES = 1 << 26
_SIZES = (1, 2, 5, 10, 20, 50, 100, 300, 1000)


class AccuracyEstimator(BaseEstimator, ABC):
    """Base class of estimators of the accuracy that a classifier has on unlabelled rows.

    The fit sees labelled rows of known domains. ``predict`` sees unlabelled rows, which may be a
    few of the rows of new domains, and estimates the accuracy of all rows of each domain. Intervals
    are estimates plus or minus a quantile of the errors on domains of the fit that were left out of
    it, for batches of the same number of rows. They cover ``coverage`` of new domains that are
    exchangeable with those of the fit, such as further hospitals of the same kind; a new domain
    unlike all others can be further off. Its verdict is "outside" and its interval [0, 1], if this
    can be seen without labels. A 90% interval needs at least 9 domains; with fewer it is [0, 1].

    Subclasses implement ``_learn`` and ``_estimates``.

    Attributes
    ----------
    residuals_ : LeftOutResiduals
        Errors on left-out domains; without any, if there were too few domains for an interval.
    covered_ : CoveredDomains
        What the domains of the fit look like without labels, for the verdict.
    temperature_ : float
        Temperature of all rows of the fit together.
    n_domains_ : int
        Number of domains of the fit.
    domain_accuracies_ : array of shape (n_domains_,)
        Accuracy of each domain of the fit.
    n_classes_ : int
        Number of classes.
    class_names_, feature_columns_ : tuple of str or None
        Names of the classes and of the features, if the data of the fit had names.

    Examples
    --------
    >>> import domaincal as dc
    >>> isinstance(dc.shift.DifferenceOfConfidences(), dc.shift.AccuracyEstimator)
    True
    """

    # Batches of each size that are drawn from a left-out domain.
    _draws: ClassVar[Mapping[int, int]] = dict.fromkeys(_SIZES, 8)

    residuals_: LeftOutResiduals
    covered_: CoveredDomains
    temperature_: float
    n_domains_: int
    domain_accuracies_: FloatArray
    n_classes_: int
    class_names_: tuple[str, ...] | None
    feature_columns_: tuple[str, ...] | None

    coverage: float
    random_state: int

    def fit(
        self,
        logits: ArrayLike | AnyData,
        y: ArrayLike | None = None,
        *,
        features: ArrayLike | None = None,
        domains: ArrayLike | None = None,
    ) -> Self:
        """Fit the estimator to labelled rows of known domains.

        Parameters
        ----------
        logits : array of shape (n, n_classes), or CalibrationData
            Unnormalised scores. A CalibrationData replaces logits, y, features and domains. Of a
            store, a random sample of at most 64 MiB is taken.
        y : array of shape (n,)
            Class of each row: the column number of its logit, from 0.
        features : array of shape (n, n_features), optional
            Features of each row, for estimators that use them.
        domains : array of integers or strings, shape (n,)
            Domain of each row. Without domains, all rows are one domain.

        Returns
        -------
        self
        """
        random = check_random_state(self.random_state)
        check_number(self.coverage, "coverage", low=0.0, high=1.0)
        self._check_parameters()
        given = as_rows(logits)
        if isinstance(given, BlockedRows):
            unpack_arguments("fit", given, y=y, features=features, domains=domains)
            given, y, features, domains = (
                read_or_sample_data(given, name=_name(self), sample_bytes=_SAMPLE_BYTES),
                None,
                None,
                None,
            )
        data = _as_data("fit", given, y, features, domains)
        if data.labels is None:
            raise InputError("y is missing: fit needs the class of each row.")
        codes, names = _codes(data)
        hits = hits_of(data.logits, data.labels)
        self.n_domains_ = len(names)
        self.domain_accuracies_ = np.bincount(codes, hits) / np.bincount(codes)
        self.n_classes_ = data.logits.shape[1]
        self.class_names_ = data.class_names
        self.feature_columns_ = data.feature_names
        pooled = fit_temperature(LabelledRows(data.logits, data.labels))
        self.temperature_ = float(pooled.temperature[0])
        self._learn(data)
        self.residuals_ = self._residuals(data, codes, random)
        self.covered_ = CoveredDomains.fit(
            data.logits, codes, len(names), self.temperature_, random
        )
        return self

    def predict(
        self,
        logits: ArrayLike | AnyData,
        *,
        features: ArrayLike | None = None,
        domains: ArrayLike | None = None,
    ) -> pd.DataFrame:
        """Estimate the accuracy of each domain of unlabelled rows.

        Parameters
        ----------
        logits : array of shape (n, n_classes), or CalibrationData
            Logits of the same classes as in the fit. A CalibrationData replaces logits, features
            and domains; its labels are not used.
        features : array of shape (n, n_features), optional
            The same features as in the fit, for estimators that use them.
        domains : array of integers or strings, shape (n,), optional
            Domain of each row. Without domains, all rows are one domain.

        Returns
        -------
        DataFrame
            One row for each domain: domain; n, the number of rows; predicted_accuracy; low and
            high, the limits of its interval; verdict, whether the rows are "inside", at the "edge"
            or "outside" of what the domains of the fit cover; distance, of the scores to those of
            the nearest domain of the fit, from 0 to 1; reason of the verdict, and of an interval
            from 0 to 1.
        """
        check_is_fitted(self)
        rows = as_rows(logits)
        if isinstance(rows, BlockedRows):
            unpack_arguments("predict", rows, features=features, domains=domains)
            return self._predict_blocks(rows)
        data = self._prediction_data("predict", logits, features, domains)
        codes, names = _codes(data)
        n = np.bincount(codes, minlength=len(names)).astype(np.float64)
        predicted = np.clip(self._estimates(data, codes, len(names)), 0.0, 1.0)
        gaps = GapHistograms.from_rows(data.logits, codes, len(names), self.temperature_)
        return self.table(names, n, predicted, gaps)

    def _predict_blocks(self, rows: BlockedRows) -> pd.DataFrame:
        """Table of :meth:`predict` for rows that are read in blocks."""
        names = np.array([ALL_ROWS]) if rows.domains is None else rows.domains.names
        number = {name: k for k, name in enumerate(names.tolist())}
        confidence_of = self._block_confidences(rows)
        counts = np.zeros((len(names), len(PAIRS), len(BIN_EDGES) - 1))
        total = np.zeros(len(names))

        def add(block: CalibrationData) -> None:
            checked = self._prediction_data("predict", block, None, None)
            codes, of_block = _codes(checked)
            present = np.array([number[name] for name in of_block.tolist()])
            gaps = GapHistograms.from_rows(checked.logits, codes, len(of_block), self.temperature_)
            counts[present] += gaps.counts
            total[present] += np.bincount(codes, confidence_of(checked))

        for _ in each_block(rows, add):
            pass
        gaps = GapHistograms(self.temperature_, counts)
        return self.table(names, gaps.n, np.clip(total / gaps.n, 0.0, 1.0), gaps)

    def _block_confidences(self, rows: BlockedRows) -> Callable[[CalibrationData], FloatArray]:
        """Function from a block of these rows to values whose mean estimates the accuracy."""
        raise InputError(
            f"{_name(self)} needs rows in memory; read the data first, such as store.read(), or "
            "use ConfidenceEstimator."
        )

    def table(
        self, names: Any, n: FloatArray, predicted: FloatArray, gaps: GapHistograms
    ) -> pd.DataFrame:
        """Table of :meth:`predict` from the estimates and the histograms of each domain."""
        width = self.residuals_.half_width(n, self.coverage)
        judged = self.covered_.judge(gaps, n)
        reasons = judged["reason"].tolist()
        # Errors on known domains say nothing about a domain that is unlike all of them.
        is_far = (judged["verdict"] == OUTSIDE).to_numpy()
        missing = np.where(is_far, _TOO_FAR, "").astype(object)
        if self.residuals_.n_domains < needed_domains(self.coverage):
            missing[:] = self._too_few_domains()
        width = np.where(missing == "", width, np.inf)
        reasons = [" ".join(filter(None, pair)) for pair in zip(reasons, missing, strict=True)]
        columns = (
            names, n.astype(np.int64), predicted, np.clip(predicted - width, 0.0, 1.0),
            np.clip(predicted + width, 0.0, 1.0), judged["verdict"].to_numpy(),
            judged["distance"].to_numpy(), reasons,
        )  # fmt: skip
        return pd.DataFrame(dict(zip(COLUMNS, columns, strict=True)))

    @abstractmethod
    def _learn(self, data: CalibrationData) -> None:
        """Fit labelled rows; also called on a clone, without the rows of left-out domains."""

    @abstractmethod
    def _estimates(self, data: CalibrationData, codes: IntArray, n_batches: int) -> FloatArray:
        """Estimated accuracy of each batch; ``codes`` is the batch of each row."""

    def _check_parameters(self) -> None:
        """Raise InputError for invalid parameters, before any row is read."""

    def _residuals(
        self,
        data: CalibrationData,
        codes: IntArray,
        random: np.random.Generator,
    ) -> LeftOutResiduals:
        """Errors on left-out domains; empty if they are too few for an interval."""
        sizes = np.array(list(self._draws), np.float64)
        if self.n_domains_ < needed_domains(self.coverage):
            return LeftOutResiduals(sizes, np.empty((len(sizes), 0, 1)))

        def estimates(
            others: IntArray, rows: IntArray, batches: IntArray, n_batches: int
        ) -> FloatArray:
            fitted = clone(self)
            # Warnings about a part of the domains would repeat those of the fit to all.
            with handle_warnings(lambda message, category: None):
                fitted._learn(data.select(others))
                found = fitted._estimates(data.select(rows), batches, n_batches)
            return np.asarray(np.clip(found, 0.0, 1.0))

        return left_out_residuals(
            estimates,
            codes=codes,
            accuracy=self.domain_accuracies_,
            draws=self._draws,
            random=random,
        )

    def _too_few_domains(self) -> str:
        return (
            f"There is no interval: one of {100 * self.coverage:g}% needs "
            f"{needed_domains(self.coverage)} labelled domains, and the fit had {self.n_domains_}."
        )

    def _prediction_data(
        self, method: str, logits: Any, features: Any, domains: Any
    ) -> CalibrationData:
        """Checked rows of a call of ``method``, with the features in the order of the fit."""
        inputs = unpack_arguments(method, logits, features=features, domains=domains)
        data = _as_data(method, logits, None, features, domains)
        if data.logits.shape[1] != self.n_classes_:
            raise InputError(
                f"logits have {data.logits.shape[1]} classes, but the fit had {self.n_classes_}; "
                "pass the same classes, in the same order."
            )
        check_same_classes(self.class_names_, inputs.class_names)
        ordered = order_features(data.features, inputs.feature_names, self.feature_columns_)
        if ordered is data.features:
            return data
        return CalibrationData(
            data.logits, features=ordered, domains=data.domains, class_names=data.class_names
        )


def _name(estimator: AccuracyEstimator) -> str:
    return type(estimator).__name__


def batch_means(values: FloatArray, codes: IntArray, n_batches: int) -> FloatArray:
    """Mean of the values of the rows of each batch.

    Examples
    --------
    >>> import numpy as np
    >>> batch_means(np.array([1.0, 0.0, 1.0]), np.array([0, 0, 1]), 2).tolist()
    [0.5, 1.0]
    """
    n = np.bincount(codes, minlength=n_batches)
    return np.asarray(np.bincount(codes, values, minlength=n_batches) / n)


def _as_data(method: str, logits: Any, y: Any, features: Any, domains: Any) -> CalibrationData:
    if isinstance(logits, CalibrationData):
        unpack_arguments(method, logits, y=y, features=features, domains=domains)
        return logits
    return CalibrationData(logits, labels=y, features=features, domains=domains)


def _codes(data: CalibrationData) -> tuple[IntArray, Any]:
    """Domain of each row, and the names of the domains."""
    if data.domains is None:
        return np.zeros(len(data), np.int64), np.array([ALL_ROWS])
    return data.domain_codes

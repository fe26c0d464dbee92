"""Batch temperature scaling: one temperature for unlabelled rows that come from one place."""

# Short signatures in help(): annotations stay text.
from __future__ import annotations

from functools import partial
from typing import Any, Literal

import numpy as np
import pandas as pd

from domaincal._tensors import convert_like, namespace
from domaincal._typing import Array, ArrayLike, FloatArray, IntArray
from domaincal._validation import (
    check_finite_features,
    check_finite_logits,
    check_logits,
    check_option,
    check_random_state,
    non_finite_logits_error,
)
from domaincal._warnings import warn_caller
from domaincal.calibrators.base import Calibrator, logits_argument, repeated_rows
from domaincal.calibrators.batch.batch_calibrator import BatchCalibrator
from domaincal.calibrators.batch.batch_map import (
    FAR,
    FEW_CLASSES,
    BatchMap,
    BatchPredictions,
    FeatureDirections,
)
from domaincal.calibrators.batch.batch_rows import (
    batch_statistics,
    domain_rows,
    domain_values,
    feature_directions,
)
from domaincal.calibrators.batch.batch_sample import sample_for_batches
from domaincal.calibrators.batch.batch_training import (
    constant_map,
    error_table,
    fit_batch_map,
    resample_batches,
)
from domaincal.calibrators.batch.blocked_batches import (
    BlockStatistics,
    add_statistics,
    lookup,
    lookup_for_all,
    ordered_features,
)
from domaincal.calibrators.blocked_predictions import sum_blocks
from domaincal.calibrators.clipped_temperatures import (
    warn_of_clipped_temperatures,
    warn_of_far_rows,
    warn_of_few_classes,
)
from domaincal.calibrators.domain_calibrator import DomainCalibrator, DomainFit
from domaincal.calibrators.features.feature_inputs import FeatureInputs
from domaincal.calibrators.inputs import TrainingRows, check_same_classes
from domaincal.data import BlockedRows, CalibrationData
from domaincal.data.blocked_rows import domain_names_of
from domaincal.errors import SmallDomainWarning
from domaincal.statistics.consistent_temperature import consistent_log_temperatures
from domaincal.statistics.domain_folds import similar_domain_folds

#: Number of domains from which a map is learned.
MINIMUM_DOMAINS = 3
#: Largest distance of a target from log T_k.
REACH = float(np.log(4.0))
# Rows of a batch from which the number of its classes is judged.
_ENOUGH_ROWS = 10


class BatchTemperatureScaling(BatchCalibrator, DomainCalibrator, FeatureInputs):
    """One temperature for a batch of unlabelled rows from one place, which may be a new domain.

    The fit learns how the temperature of a domain depends on what can be seen without labels:
    the distribution of the confidences, entropies, margins and spreads of the logits in a batch
    and, if features are given, the mean position of the batch among the features of the fit. It
    draws batches of 1 to 1000 rows from each domain and, for each size, fits Bayesian ridge
    regressions from the statistics of the batches to log T. Errors on left-out domains decide how
    much each group of statistics counts, and how far T may move away from the pooled temperature.
    With fewer than three domains, every batch gets the pooled temperature, as in
    :class:`TemperatureScaling`.

    At prediction, ``domains`` groups the rows into batches; without it, all rows are one batch.
    The temperature of a row therefore depends on the other rows of its batch.

    The rows of a batch should be like random rows of the place: the batches of the fit are drawn at
    random. Consecutive rows that are all of one class look like a domain in which the model always
    predicts that class, and can get a temperature that is far too high. A ``FewClassesWarning``
    tells of clear cases only.

    Predicted temperatures stay in the range of the temperatures of the fit, widened on each side by
    0.3 of its length in log T. Those of batches that are very unlike all batches of the fit tend to
    the pooled temperature. There is a :class:`ClippedTemperatureWarning` if more than a tenth of
    the rows are in such batches, or if more than a tenth of 20 or more rows are at a limit.

    Parameters
    ----------
    batch : {"domain", "row"}, default "domain"
        What a batch is at prediction. "domain": all rows of a domain, or all rows if no domains
        are passed. "row": every row is a batch of its own, whose temperature does not depend on
        other rows. The fit is the same.
    random_state : int, default 0
        Seed of the resampled batches.

    Attributes
    ----------
    temperature_ : float
        Pooled temperature: one temperature for all rows.
    domain_temperatures_, domain_standard_errors_ : Series indexed by domain
        T_k, and the standard error of log T_k (NaN if T_k is at a bound).
    used_domains_ : array
        Domains from which the map is learned: at least 10 rows, T_k not at a bound.
    batch_map_ : BatchMap
        Map from the statistics of a batch and its number of rows to log T.
    batch_errors_ : DataFrame
        One row for each size of resampled batches: n_rows; error, the standard error of log T on
        left-out domains; pooled_error, the same for the pooled temperature.
    feature_directions_ : FeatureDirections or None
        Projection of the features whose means are statistics of a batch; None without features.
    feature_columns_ : tuple of str or None
        Names of the features, if the data of the fit had names.
    n_iter_ : int
        Number of passes over all rows to fit the T_k.
    n_classes_ : int
        Number of classes.
    class_names_ : tuple of str or None
        Names of the classes, if the data of the fit had names.

    Examples
    --------
    >>> import domaincal as dc
    >>> data, _ = dc.make_multi_domain(n_domains=10, random_state=0)
    >>> known, new = dc.split_domains(data, ["domain-3", "domain-5"])
    >>> calibrator = dc.BatchTemperatureScaling().fit(known)
    >>> temperatures = calibrator.predict_temperature(new)
    >>> len(set(temperatures.round(6)))
    2
    """

    _fits_blocks = True
    _takes_device_batches = True

    batch_map_: BatchMap
    batch_errors_: pd.DataFrame
    feature_directions_: FeatureDirections | None
    feature_columns_: tuple[str, ...] | None
    _single_rows: bool

    def __init__(
        self, *, batch: Literal["domain", "row"] = "domain", random_state: int = 0
    ) -> None:
        self.batch = batch
        self.random_state = random_state

    def predicts_batches(self) -> bool:
        """Whether predictions for a row depend on the other rows of its domain."""
        return self.batch != "row"

    def _check_parameters(self) -> None:
        check_option(self.batch, "batch", ("domain", "row"))
        check_random_state(self.random_state)

    def predict_temperature_error(
        self,
        logits: ArrayLike | CalibrationData,
        *,
        features: ArrayLike | None = None,
        domains: ArrayLike | None = None,
    ) -> FloatArray:
        """Standard error of log T of each row, the same for all rows of a batch.

        It is learned from left-out domains: for 95% of their batches of this size, log T is within
        1.96 standard errors of the log of the temperature that the labels give. It grows for
        batches that are further away than all batches of the fit. NaN if the fit had fewer than
        three domains: then nothing is known about new ones. The parameters are those of
        :meth:`predict_proba`.

        Returns
        -------
        array of shape (n,)
        """
        z, values = self._check_and_prepare("predict_temperature_error", logits, features, domains)
        result: FloatArray = convert_like(repeated_rows(values[1], len(z)), logits_argument(logits))
        return result

    def _learn(self, rows: TrainingRows) -> None:
        domains = self._fit_domains(rows)
        # A copy for predictions: the parameter can be changed before the next fit.
        self._single_rows = self.batch == "row"
        self._n_features = 0
        features = None if rows.features is None else self._training_features(rows)
        # In the order of T_k, so that the names of the domains do not decide what is resampled.
        order = np.argsort(np.where(domains.used, domains.each.temperature, np.inf), kind="stable")
        used = order[: domains.used.sum()]
        self._store_domains(domains)
        if len(used) < MINIMUM_DOMAINS:
            warn_of_few_domains(len(used), self.temperature_)
            self.feature_directions_ = None
            self.batch_map_ = constant_map(float(np.log(self.temperature_)))
            self.batch_errors_ = error_table(self.batch_map_, np.nan)
            return
        targets = consistent_log_temperatures(
            rows.logits, rows.labels, domains.codes, np.log(domains.each.temperature),
            reach=REACH, weight=rows.weight,
        )  # fmt: skip
        codes = domains.codes
        if rows.streamed:
            numbers = sample_for_batches(rows, codes, domains.used, name=type(self).__name__)
            rows, codes = rows.select(numbers), codes[numbers]
            features = rows.features
        self._learn_map(rows, features, codes, domains, used, targets)

    def _learn_map(
        self,
        rows: TrainingRows,
        features: Array | None,
        codes: IntArray,
        domains: DomainFit,
        used: IntArray,
        targets: FloatArray,
    ) -> None:
        """Fit the map to batches of rows of the used domains; ``codes`` are those of the rows."""
        chosen = domain_rows(rows.logits, codes, used, rows.weight)
        self.feature_directions_ = (
            None if features is None else feature_directions(features, chosen)
        )
        values = domain_values(
            rows.logits, features, chosen,
            beta=1.0 / self.temperature_, directions=self.feature_directions_,
        )  # fmt: skip
        batches = resample_batches(values, check_random_state(self.random_state))
        self.batch_map_, self.batch_errors_ = fit_batch_map(
            batches.of_size,
            targets=targets[used],
            log_temperatures=np.log(domains.each.temperature)[used],
            log_pooled=float(np.log(self.temperature_)),
            folds=similar_domain_folds(batches.profiles),
        )

    def _batches(
        self, domains: ArrayLike | None, n_rows: int, *, keep_device: bool = False
    ) -> tuple[IntArray, int]:
        if self._single_rows:
            return np.arange(n_rows), n_rows
        return super()._batches(domains, n_rows, keep_device=keep_device)

    def _batch_values(
        self, logits: Array, features: ArrayLike | None, codes: IntArray, n_batches: int
    ) -> tuple[FloatArray, ...]:
        directions, x = self.feature_directions_, None
        if directions is not None:
            x = self._prediction_features(features, len(logits))
        statistics, n = batch_statistics(
            logits, x, codes, n_batches, beta=1.0 / self.temperature_, directions=directions
        )
        if not namespace(statistics).isfinite(statistics).all():
            if x is not None:
                check_finite_features(x)
            raise non_finite_logits_error(logits)
        found = self.batch_predictions(statistics, n)
        return np.exp(found.log_temperature), found.log_error

    def batch_predictions(self, statistics: Any, n: FloatArray) -> BatchPredictions:
        """Predictions from the statistics of batches; warns of batches unlike those of the fit.

        Parameters
        ----------
        statistics : array or tensor of shape (n_batches, n_statistics)
            :meth:`domaincal.statistics.batch_sums.BatchSums.statistics`.
        n : array of shape (n_batches,)
            Number of rows of each batch.
        """
        found = self.batch_map_.predict(statistics, n)
        self._warn_of_unlike_rows(found, n, self.batch_map_.diversity(statistics, n))
        return found

    def _warn_of_unlike_rows(
        self, found: BatchPredictions, n: FloatArray, diversity: FloatArray
    ) -> None:
        low, high, log_t = self.batch_map_.low, self.batch_map_.high, found.log_temperature
        if low == high:  # one temperature for all rows
            return
        n_rows = int(n.sum())
        n_clipped = int(n[(log_t <= low) | (log_t >= high)].sum())
        warn_of_clipped_temperatures(
            n_clipped, n_rows, low=float(np.exp(low)), high=float(np.exp(high))
        )
        n_far = int(n[found.distance > FAR].sum())
        warn_of_far_rows(n_far, n_rows, temperature=self.temperature_)
        # Of a few rows, few classes are usual.
        few = (diversity < FEW_CLASSES) & (n >= _ENOUGH_ROWS)
        warn_of_few_classes(int(n[few].sum()), n_rows)

    def block_predictor(self, rows: BlockedRows) -> Calibrator:
        """Table of the temperatures of all batches, from a pass over the rows."""
        if self._single_rows:
            return self
        names = domain_names_of(rows)
        sums = sum_blocks(rows, self._block_statistics, partial(add_statistics, names=names))
        found = self.batch_predictions(sums.statistics(), sums.n)
        temperatures = np.exp(found.log_temperature)
        if rows.domains is None:  # all rows are one batch
            return lookup_for_all(self, float(temperatures[0]))
        return lookup(self, names, temperatures, self.temperature_)

    def _block_statistics(self, block: CalibrationData) -> BlockStatistics:
        """Sums of the statistics of the batches of a block."""
        directions = self.feature_directions_
        check_logits(block.logits, n_classes=self.n_classes_)
        check_same_classes(self.class_names_, block.class_names)
        x = None
        if directions is not None:
            x = self._prediction_features(ordered_features(self, block), len(block))
            check_finite_features(x)
        check_finite_logits(block.logits)
        return BlockStatistics.from_rows(
            block, x, beta=1.0 / self.temperature_, directions=directions
        )

    def _batch_temperatures(
        self, logits: Array, features: ArrayLike | None, codes: IntArray, n_batches: int
    ) -> FloatArray:
        return self._batch_values(logits, features, codes, n_batches)[0]

    def _torch_module(self) -> Any:
        from domaincal.calibrators.batch.batch_module import BatchTemperatures

        return BatchTemperatures(
            type(self).__name__,
            self.n_classes_,
            self.temperature_,
            self.batch_map_,
            self.feature_directions_,
            single_rows=self._single_rows,
        )

    def _facts(self) -> dict[str, str]:
        errors = self.batch_errors_.set_index("n_rows")
        known = [n for n in (1, 20, 1000) if errors["error"].get(n, np.nan) >= 0]
        shown = ", ".join(f"{errors['error'][n]:.2g} ({n} row{'s' * (n > 1)})" for n in known)
        features = "none" if self.feature_directions_ is None else str(self._n_features)
        constant = {}
        if not self.batch_map_.coef.any():  # left-out domains were predicted no better than by TS
            constant["temperature of a batch"] = "always the pooled one: none was predicted better"
        return {
            **super()._facts(),
            **constant,
            "features": features,
            "error of log T on left-out domains": shown or "unknown: fewer than 3 domains",
            "the same for the pooled temperature": f"{errors['pooled_error'].iloc[0]:.2g}",
        }


def warn_of_few_domains(n_domains: int, temperature: float) -> None:
    """Warn that too few domains can be used to learn how they differ."""
    warn_caller(
        f"{n_domains} domain{'s' * (n_domains != 1)} can be used, but at least {MINIMUM_DOMAINS} "
        "are needed to learn how "
        "temperatures differ between domains: every row gets the pooled temperature "
        f"{temperature:.4g}, as in TemperatureScaling.",
        SmallDomainWarning,
    )

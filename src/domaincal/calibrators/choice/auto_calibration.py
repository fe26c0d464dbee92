"""AutoCalibration: the best calibrator on left-out domains; temperature scaling in doubt."""

# Short signatures in help(): annotations stay text.
from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from domaincal._tensors import host_array, on_device
from domaincal._typing import Array, ArrayLike, FloatArray
from domaincal._validation import (
    check_features,
    check_finite_features,
    check_n_bins,
    check_names,
    check_random_state,
)
from domaincal._warnings import handle_warnings, warn_caller
from domaincal.calibrators.base import Calibrator, RowValues
from domaincal.calibrators.batch.batch_temperature import (
    MINIMUM_DOMAINS,
    BatchTemperatureScaling,
)
from domaincal.calibrators.choice.left_out_domains import LeftOutDomains
from domaincal.calibrators.choice.selection import Selection, choose, empty_table
from domaincal.calibrators.features.feature_temperature import FeatureTemperatureScaling
from domaincal.calibrators.inputs import Inputs, TrainingRows
from domaincal.calibrators.mixture.domain_mixture import DomainMixtureScaling
from domaincal.calibrators.row_sample import draw_rows
from domaincal.calibrators.temperature import TemperatureScaling
from domaincal.calibrators.temperature_calibrator import TemperatureCalibrator
from domaincal.data import BlockedRows, CalibrationData
from domaincal.data.batches import BatchSize, check_batch_size
from domaincal.errors import (
    InputError,
    ProbabilitiesWarning,
    SmallDomainWarning,
    SubsampleWarning,
)
from domaincal.statistics.domain_counts import domain_counts
from domaincal.statistics.temperature_solver import MINIMUM_ROWS

#: Name of temperature scaling, with which all candidates are compared.
REFERENCE = "TemperatureScaling"
# Rows on which the candidates are compared.
_MOST_ROWS = 20_000


class AutoCalibration(TemperatureCalibrator):
    """A calibrator that is chosen by its scores on domains that are left out of the fit.

    Domains are left out one by one, or in at most ten folds of similar domains. The candidates are
    fitted to the other domains, and scored on the left-out ones in the way they will be used: row
    by row, or in batches of ``batch_size`` rows of one domain. The choice has two steps:

    1. Temperature scaling (TS) is taken if :class:`BatchTemperatureScaling` is no candidate, or
       clearly worse: if the 80% t-interval of the mean difference over the left-out domains, in
       excess calibration error or in NLL, lies above 0. In doubt it is BatchTemperatureScaling,
       which stays close to TS by itself where it predicts left-out domains badly.
    2. The candidate with the lowest mean excess is taken if the 80% t-interval of its difference
       to the first choice, in excess, lies below 0 and its mean NLL is not higher.

    The winner is fitted to all rows. With fewer than three domains, nothing can be known about new
    domains: TS is taken, with a :class:`SmallDomainWarning`.

    Parameters
    ----------
    candidates : sequence of calibrators, mapping from names to calibrators, or None
        Calibrators to choose from, besides TS. None: :class:`BatchTemperatureScaling`; for single
        rows with features also :class:`FeatureTemperatureScaling` and
        :class:`DomainMixtureScaling`.
    batch_size : int or "domain", default 1
        Number of rows from one place that will be predicted together. 1: every row is predicted
        on its own. A larger number, or "domain" for all rows of a domain: at prediction,
        ``domains`` groups the rows into batches of any size; without it, all rows are one batch.
    n_bins : int, default 15
        Number of bins of the calibration errors.
    random_state : int, default 0
        Seed of the batches, and of the sample: of more than 20,000 rows, equally many of each
        domain are taken to compare the candidates.

    Attributes
    ----------
    best_ : calibrator
        The winner, fitted to all rows.
    selection_ : DataFrame
        One row for TS and for each candidate: method; n_domains, the number of left-out domains;
        ece, excess and nll, means over these domains; difference, the mean excess minus that of
        TS, with its 80% interval from low to high; chosen, True for the winner. Empty with fewer
        than three domains.
    n_classes_ : int
        Number of classes.
    class_names_ : tuple of str or None
        Names of the classes, if the data of the fit had names.

    Examples
    --------
    >>> import domaincal as dc
    >>> data, _ = dc.make_multi_domain(n_domains=8, random_state=0)
    >>> calibrator = dc.AutoCalibration(batch_size=50).fit(data)
    >>> calibrator.best_
    BatchTemperatureScaling()
    """

    _fits_blocks = True

    best_: Any
    selection_: pd.DataFrame

    def __init__(
        self,
        candidates: Sequence[Any] | Mapping[str, Any] | None = None,
        *,
        batch_size: BatchSize = 1,
        n_bins: int = 15,
        random_state: int = 0,
    ) -> None:
        self.candidates = candidates
        self.batch_size = batch_size
        self.n_bins = n_bins
        self.random_state = random_state

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the winner to a ``.safetensors`` file, with the table of the selection.

        :func:`domaincal.load` returns the winner, whose ``provenance_`` has the table.
        """
        check_is_fitted(self)
        self.best_.save(path)

    def predict_temperature_error(
        self,
        logits: ArrayLike | CalibrationData,
        *,
        features: ArrayLike | None = None,
        domains: ArrayLike | None = None,
    ) -> FloatArray:
        """Standard error of log T of each row, if the winner knows it.

        See :meth:`BatchTemperatureScaling.predict_temperature_error`.
        """
        check_is_fitted(self)
        if not isinstance(self.best_, BatchTemperatureScaling):
            raise InputError(
                f"the winner, {type(self.best_).__name__}, has no standard errors of temperatures; "
                "use BatchTemperatureScaling."
            )
        errors: FloatArray = self.best_.predict_temperature_error(
            logits, features=features, domains=domains
        )
        return errors

    def predicts_batches(self) -> bool:
        """Whether predictions for a row depend on the other rows of its domain."""
        return self.batch_size != 1

    def block_predictor(self, rows: BlockedRows) -> Calibrator:
        """Calibrator that predicts a block of these rows as this one predicts all rows together."""
        if self._single_rows:
            return self
        predictor: Calibrator = self.best_.block_predictor(rows)
        return predictor

    def _check_parameters(self) -> None:
        check_batch_size(self.batch_size)
        check_n_bins(self.n_bins)
        check_random_state(self.random_state)
        self._named_candidates(has_features=True)

    def _learn(self, rows: TrainingRows) -> None:
        random = check_random_state(self.random_state)
        candidates = self._named_candidates(has_features=rows.features is not None)
        compared = self._compared_rows(rows, random)
        if compared is None:
            self.selection_ = empty_table()
            chosen = REFERENCE
        else:
            scores = self._scores(compared, candidates, random)
            self.selection_ = choose(scores, REFERENCE, trusted_candidate(candidates))
            chosen = self.selection_["method"][self.selection_["chosen"]].item()
        with handle_warnings(_pass_on):
            self.best_ = _fitted(clone(candidates[chosen]), rows)
        self.best_.provenance_ = Selection(self.selection_, self.batch_size)
        # A copy for predictions: the parameter can be changed before the next fit.
        self._single_rows = self.batch_size == 1

    def _scores(
        self, compared: LeftOutDomains, candidates: dict[str, Any], random: np.random.Generator
    ) -> dict[str, pd.DataFrame]:
        """Scores of the candidates on left-out domains; their warnings are not passed on."""
        with handle_warnings(lambda message, category: None):
            return compared.scores(
                candidates, batch_size=self.batch_size, n_bins=self.n_bins, random=random
            )

    def _named_candidates(self, *, has_features: bool) -> dict[str, Any]:
        """TS and the candidates, by name."""
        given = self.candidates
        if given is None:
            given = default_candidates(self.batch_size, has_features=has_features)
        if not isinstance(given, Mapping):
            given = _by_class_name(given)
        for name, candidate in given.items():
            if not isinstance(name, str):
                raise InputError(f"candidates has the name {name!r}; use text for its names.")
            check_names([name], "candidates")
            if not isinstance(candidate, Calibrator) or isinstance(candidate, AutoCalibration):
                raise InputError(
                    f"candidates contains {candidate!r}; pass calibrators of domaincal, such as "
                    "BatchTemperatureScaling()."
                )
            candidate._check_parameters()
            if self.batch_size == 1 and candidate.predicts_batches():
                raise InputError(
                    f"candidates contains {candidate!r}, which predicts batches, but batch_size is "
                    "1; use a larger batch_size, or BatchTemperatureScaling(batch='row')."
                )
            if name == REFERENCE:
                raise InputError(
                    f"candidates contains {REFERENCE}, with which all are compared anyway; "
                    "leave it out."
                )
        return {REFERENCE: TemperatureScaling(), **given}

    def _compared_rows(
        self, rows: TrainingRows, random: np.random.Generator
    ) -> LeftOutDomains | None:
        """At most 20,000 rows of the domains with enough rows; None if they are too few."""
        codes, names = rows.domain_codes(needed_by=type(self).__name__)
        positive = None if rows.weight is None else (rows.weight > 0).astype(np.float64)
        large = domain_counts(codes, len(names), positive) >= MINIMUM_ROWS
        if large.sum() < MINIMUM_DOMAINS:
            _warn_of_few_domains(int(large.sum()), has_domains=rows.domains is not None)
            return None
        kept, _ = draw_rows(
            codes, large, rows.weight,
            max_rows=_MOST_ROWS, random_state=int(random.integers(1 << 31)),
        )  # fmt: skip
        x = None
        if rows.features is not None:
            checked = check_features(
                rows.features, n_rows=len(rows.logits), needed_by=type(self).__name__
            )
            x = host_array(checked[kept])
            check_finite_features(x)
        return LeftOutDomains(
            host_array(rows.logits[kept]),
            rows.labels[kept],
            x,
            np.unique(codes[kept], return_inverse=True)[1],
            None if rows.weight is None else rows.weight[kept],
        )

    def _store_feature_names(self, inputs: Inputs) -> None:
        # The winner was fitted to arrays: it gets the names of the columns, too.
        self.best_.class_names_ = self.class_names_
        self.best_._store_feature_names(inputs)
        self.feature_columns_ = getattr(self.best_, "feature_columns_", None)

    def _prepare(
        self, logits: Array, features: ArrayLike | None, domains: ArrayLike | None
    ) -> RowValues:
        batches: Any = np.arange(len(logits)) if self._single_rows else domains
        values: RowValues = self.best_._prepare(logits, features, batches)
        return values

    def _temperatures(
        self, logits: Array, features: ArrayLike | None, domains: ArrayLike | None
    ) -> FloatArray:
        temperatures: FloatArray = self._prepare(logits, features, domains)[0]
        return temperatures

    def _confidences(self, logits: Array, values: RowValues) -> FloatArray:
        confidences: FloatArray = self.best_._confidences(logits, values)
        return confidences

    def _probabilities(self, logits: Array, values: RowValues) -> Array:
        probabilities: Array = self.best_._probabilities(logits, values)
        return probabilities

    def _row_temperatures(self, values: RowValues, n_rows: int) -> FloatArray | None:
        temperatures: FloatArray | None = self.best_._row_temperatures(values, n_rows)
        return temperatures

    def _torch_module(self) -> Any:
        return self.best_.to_torch()

    def _method_name(self) -> str:
        return f"the winner, {type(self.best_).__name__},"

    def _facts(self) -> dict[str, str]:
        return {"chosen": type(self.best_).__name__, **self.best_._facts()}

    def _drawing(self) -> str:
        return str(self.best_._drawing())


def _fitted(calibrator: Any, rows: TrainingRows) -> Any:
    """Fit a calibrator to checked rows."""
    if rows.streamed:
        return calibrator.fit(rows.as_source())
    z = rows.logits.tensor if on_device(rows.logits) else rows.logits
    return calibrator.fit(
        z, rows.labels, features=rows.features, domains=rows.domains, sample_weight=rows.weight
    )


def trusted_candidate(candidates: Mapping[str, Any]) -> str | None:
    """Name of the first candidate that shrinks towards TS by itself."""
    for name, candidate in candidates.items():
        if isinstance(candidate, BatchTemperatureScaling):
            return name
    return None


def default_candidates(batch_size: BatchSize, *, has_features: bool) -> list[Any]:
    """Few, good candidates: each further one is another chance to choose badly."""
    if batch_size != 1:
        return [BatchTemperatureScaling()]
    single: list[Any] = [BatchTemperatureScaling(batch="row")]
    return (
        [*single, FeatureTemperatureScaling(), DomainMixtureScaling()] if has_features else single
    )


def _by_class_name(candidates: Any) -> dict[str, Any]:
    """Candidates by the name of their class, or by their repr if a class occurs twice."""
    listed = list(candidates) if isinstance(candidates, Sequence) else [candidates]
    classes = [type(candidate).__name__ for candidate in listed]
    names = [
        repr(candidate) if classes.count(name) > 1 else name
        for candidate, name in zip(listed, classes, strict=True)
    ]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"candidates contains {twice} twice; remove one of them.")
    return dict(zip(names, listed, strict=True))


def _pass_on(message: str, category: type[Warning]) -> None:
    """Issue the warnings of the winner, but not of its sample: the user did not set its size.

    The warning about probabilities was given before.
    """
    if not issubclass(category, SubsampleWarning | ProbabilitiesWarning):
        warn_caller(message, category)


def _warn_of_few_domains(n_domains: int, *, has_domains: bool) -> None:
    found, cure = "the rows have no domains", "the domain of each row (or discover_domains)"
    if has_domains:
        plural = "s" if n_domains != 1 else ""
        found = f"{n_domains} domain{plural} with at least {MINIMUM_ROWS} rows: fewer than "
        found, cure = f"{found}{MINIMUM_DOMAINS}", "domains"
    warn_caller(
        f"{found}, so nothing can be known about new domains. TemperatureScaling is used; add "
        f"{cure} to choose among methods.",
        SmallDomainWarning,
    )

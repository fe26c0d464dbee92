"""Temperature scaling of each domain on its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from domaincal._typing import Array, ArrayLike, FloatArray, IntArray
from domaincal._validation import check_domains
from domaincal._warnings import warn_caller
from domaincal._wording import list_domains
from domaincal.calibrators.domain_calibrator import DomainCalibrator
from domaincal.calibrators.inputs import TrainingRows
from domaincal.errors import UnseenDomainWarning


class DomainTemperatureScaling(DomainCalibrator):
    """Temperature scaling of each domain on its own: T_k is looked up by the name of the domain.

    Predictions need ``domains``. A domain that was not in the fit gets the pooled temperature,
    with an :class:`UnseenDomainWarning`. A domain with fewer than 10 rows in the fit, or with T_k
    at a bound, gets the pooled temperature as well; the fit warns of it.

    Attributes
    ----------
    temperature_ : float
        Pooled temperature: one temperature for all rows.
    domain_temperatures_, domain_standard_errors_ : Series indexed by domain
        T_k, and the standard error of log T_k (NaN if T_k is at a bound).
    used_domains_ : array
        Domains whose T_k is used: at least 10 rows, T_k not at a bound.
    n_iter_ : int
        Number of passes over all rows to fit the T_k.
    n_classes_ : int
        Number of classes.
    class_names_ : tuple of str or None
        Names of the classes, if the data of the fit had names.

    Examples
    --------
    >>> from domaincal import DomainTemperatureScaling, make_multi_domain
    >>> data, true_temperatures = make_multi_domain(n_domains=4, random_state=0)
    >>> calibrator = DomainTemperatureScaling().fit(data)
    >>> bool((abs(calibrator.domain_temperatures_ / true_temperatures - 1) < 0.2).all())
    True
    >>> calibrator.predict_proba(data).shape == data.logits.shape
    True
    """

    _fits_blocks = True
    _fits_device_labels = True

    def _learn(self, rows: TrainingRows) -> None:
        self._store_domains(self._fit_domains(rows))

    def _temperatures(
        self, logits: Array, features: ArrayLike | None, domains: ArrayLike | None
    ) -> FloatArray:
        codes, given = check_domains(domains, n_rows=len(logits), needed_by=type(self).__name__)
        names = pd.Index(given)
        fitted = self.domain_temperatures_.index.tolist()
        unseen = names[~names.isin(fitted)].tolist()
        if unseen:
            self._warn_of_unseen_domains(unseen, fitted)
        used = self.domain_temperatures_.loc[self.used_domains_]
        return np.asarray(used.reindex(names, fill_value=self.temperature_), np.float64)[codes]

    def _torch_module(self) -> Any:
        from domaincal.calibrators.domain_table_module import DomainTable

        codes, temperatures = self._coded_temperatures()
        return DomainTable(
            type(self).__name__,
            self.n_classes_,
            codes,
            temperatures,
            self.temperature_,
            are_names=self.domain_temperatures_.index.dtype.kind in "iu",
        )

    def _coded_temperatures(self) -> tuple[IntArray, FloatArray]:
        """Integer codes of the domains of the fit, ascending, and their temperatures.

        They stand for the names where these cannot be used: the name itself if names are integers,
        or its position in ``domain_temperatures_``.
        """
        names = self.domain_temperatures_.index
        known = self.domain_temperatures_.where(names.isin(self.used_domains_), self.temperature_)
        # A file may hold the names in any order; the codes of strings are their positions.
        integers = names.dtype.kind in "iu"
        codes = names.to_numpy(np.int64) if integers else np.arange(len(names))
        order = np.argsort(codes)
        return codes[order], np.asarray(known, np.float64)[order]

    def _warn_of_unseen_domains(self, unseen: Sequence[object], fitted: Sequence[object]) -> None:
        fitted_type, unseen_type = type(fitted[0]).__name__, type(unseen[0]).__name__
        hint = ""
        if fitted_type != unseen_type:
            hint = f" (its domains are of type {fitted_type}, not {unseen_type})"
        warn_caller(
            f"{list_domains(unseen)} not seen in the fit{hint}: the pooled temperature "
            f"{self.temperature_:.4g} is used. AutoCalibration and "
            "BatchTemperatureScaling predict temperatures for new domains.",
            UnseenDomainWarning,
        )

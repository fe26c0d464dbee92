"""Base class of calibrators that fit a temperature to each domain."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from domaincal._tensors import host_array, on_device
from domaincal._typing import Array, FloatArray, IntArray
from domaincal._validation import check_domain_weights, check_domains
from domaincal._warnings import warn_caller
from domaincal._wording import list_domains
from domaincal.calibrators.drawings import draw_temperatures
from domaincal.calibrators.inputs import TrainingRows
from domaincal.calibrators.temperature import bound_reasons, fit_one_temperature
from domaincal.calibrators.temperature_calibrator import TemperatureCalibrator
from domaincal.errors import BoundaryWarning, SmallDomainWarning
from domaincal.statistics import LabelledRows, TemperatureFit, fit_temperature
from domaincal.statistics.domain_counts import domain_counts
from domaincal.statistics.temperature_solver import MINIMUM_ROWS


@dataclass(frozen=True, eq=False)
class DomainFit:
    """Temperatures of each domain and of all rows together.

    Attributes
    ----------
    rows : LabelledRows or None
        The rows, with the number of the domain of each; None for sums of sites.
    names : array of shape (n_domains,)
        Name of each domain.
    each : TemperatureFit
        Temperature of each domain.
    pooled : TemperatureFit
        Temperature of all rows.
    used : boolean array of shape (n_domains,)
        Domains with enough rows whose temperature is not at a bound.
    """

    rows: LabelledRows | None
    names: Array
    each: TemperatureFit
    pooled: TemperatureFit
    used: Array

    @cached_property
    def codes(self) -> IntArray:
        """Number of the domain of each row, in host memory."""
        assert self.rows is not None
        domain = self.rows.domain
        assert domain is not None
        return host_array(domain) if on_device(domain) else domain


class DomainCalibrator(TemperatureCalibrator):
    """Base class of calibrators that fit a temperature T_k to each domain.

    Subclasses call ``_fit_domains`` and ``_store_domains`` in ``_learn``.

    Attributes
    ----------
    temperature_ : float
        Temperature of all rows together.
    domain_temperatures_, domain_standard_errors_ : Series indexed by domain
        T_k, and the standard error of log T_k (NaN if T_k is at a bound).
    used_domains_ : array
        Domains whose T_k is used: at least 10 rows, T_k not at a bound.
    n_iter_ : int
        Number of passes over all rows to fit the T_k.
    """

    temperature_: float
    domain_temperatures_: pd.Series[float]
    domain_standard_errors_: pd.Series[float]
    used_domains_: Array
    n_iter_: int

    def _fit_domains(self, rows: TrainingRows) -> DomainFit:
        """Fit a temperature to each domain and to all rows; warn of domains that are not used."""
        codes, names = check_domains(
            rows.domains, n_rows=len(rows.logits), needed_by=type(self).__name__,
            keep_device=on_device(rows.logits) and rows.weight is None,
        )  # fmt: skip
        check_domain_weights(rows.weight, codes, names)
        labelled = LabelledRows(rows.logits, rows.labels, codes, len(names), rows.weight)
        each = fit_temperature(labelled)
        weighted = codes if rows.weight is None else codes[rows.weight > 0]
        small = domain_counts(weighted, len(names)) < MINIMUM_ROWS
        warn_of_unused_domains(names, small, each)
        pooled = fit_one_temperature(labelled.without_domains())
        return DomainFit(labelled, names, each, pooled, ~(small | each.at_bound))

    def _store_domains(self, domains: DomainFit) -> None:
        """Set the learned attributes of the domains."""
        self.temperature_ = float(domains.pooled.temperature[0])
        self.domain_temperatures_ = _series(domains.each.temperature, domains, "temperature")
        self.domain_standard_errors_ = _series(
            domains.each.standard_error, domains, "standard_error"
        )
        self.used_domains_ = domains.names[domains.used]
        self.n_iter_ = domains.each.n_iter

    def _facts(self) -> dict[str, str]:
        t, t_all = self.domain_temperatures_, self.temperature_
        n_unused = len(t) - len(self.used_domains_)
        return {
            "pooled temperature": "unknown" if np.isnan(t_all) else f"{t_all:.4g}",
            "domains": f"{len(t)}" + (f", of which {n_unused} not used" if n_unused else ""),
            "T of the domains": f"{t.min():.4g} to {t.max():.4g}",
        }

    def _drawing(self) -> str:
        t = self.domain_temperatures_
        return draw_temperatures(
            t.index.tolist(), t.to_numpy(), self.domain_standard_errors_.to_numpy(),
            t.index.isin(self.used_domains_), self.temperature_,
        )  # fmt: skip


def warn_of_unused_domains(names: Array, small: Array, fit: TemperatureFit) -> None:
    """Warn of domains that are too small, and of domains whose temperature is at a bound."""
    if small.any():
        warn_caller(
            f"fewer than {MINIMUM_ROWS} rows in {list_domains(names[small])}: too few to "
            "determine a temperature; it is stored in domain_temperatures_ but not used. Add rows "
            "or merge domains.",
            SmallDomainWarning,
        )
    reasons = np.array(bound_reasons(fit), object)
    for reason in sorted(set(reasons[fit.at_bound])):
        affected = fit.at_bound & (reasons == reason)
        warn_caller(
            f"the temperature is at its bound in {list_domains(names[affected])}; it is stored in "
            f"domain_temperatures_ but not used. {reason}",
            BoundaryWarning,
        )


def _series(values: FloatArray, domains: DomainFit, name: str) -> pd.Series[float]:
    return pd.Series(values, index=pd.Index(domains.names, name="domain"), name=name)

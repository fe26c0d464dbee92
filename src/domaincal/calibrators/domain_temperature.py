"""One temperature for each known domain."""

import warnings
from collections.abc import Sequence
from typing import ClassVar, Protocol

import numpy as np
import pandas as pd

from domaincal._typing import Array, ArrayLike, FloatArray, IntArray
from domaincal._validation import check_domains
from domaincal._wording import few
from domaincal.calibrators.base import LearnedTypes, TemperatureCalibrator
from domaincal.calibrators.inputs import TrainingRows
from domaincal.calibrators.notebook_view import draw_temperatures
from domaincal.calibrators.temperature import fit_pooled, why_at_bound
from domaincal.errors import BoundaryWarning, InputError, SmallDomainWarning, UnseenDomainWarning
from domaincal.statistics import LabelledRows, TemperatureFit, fit_temperature
from domaincal.statistics.temperature_solver import MINIMUM_ROWS


class DomainTemperatureScaling(TemperatureCalibrator):
    """Temperature scaling on each domain separately; T_k is looked up by the domain's name.

    At prediction ``domains`` is needed. A domain that was not in the fit gets the pooled
    temperature and an :class:`UnseenDomainWarning`; so does, without another warning, a domain
    whose own temperature its rows do not determine (fewer than 10, or T_k at a bound).

    Attributes
    ----------
    temperature_ : float
        Pooled temperature, of all rows.
    domain_temperatures_, domain_standard_errors_ : Series indexed by domain
        T_k, and the standard error of log T_k (NaN at a bound).
    used_domains_ : array
        Domains whose T_k is used: at least 10 rows, T_k not at a bound.
    n_iter_ : int
        Passes over all rows for the T_k.
    n_classes_ : int

    Examples
    --------
    >>> from domaincal import DomainTemperatureScaling, make_multi_domain
    >>> data, truth = make_multi_domain(n_domains=4, random_state=0)
    >>> calibrator = DomainTemperatureScaling()
    >>> calibrator.fit(data)
    DomainTemperatureScaling()
    >>> bool((abs(calibrator.domain_temperatures_ / truth - 1) < 0.2).all())
    True
    """

    _learned: ClassVar[LearnedTypes] = {
        **TemperatureCalibrator._learned,
        "temperature_": float,
        "domain_temperatures_": pd.Series,
        "domain_standard_errors_": pd.Series,
        "used_domains_": np.ndarray,
        "n_iter_": int,
    }

    def _learn(self, rows: TrainingRows) -> None:
        codes, names = check_domains(
            rows.domains, n_rows=len(rows.logits), needed_by=type(self).__name__
        )
        fit, used = fit_domains(rows, codes, names)
        pooled = fit_pooled(rows.logits, rows.labels, rows.weight)
        self.temperature_ = float(pooled.temperature[0])
        self.domain_temperatures_ = by_domain(fit.temperature, names, "temperature")
        self.domain_standard_errors_ = by_domain(fit.standard_error, names, "standard_error")
        self.used_domains_ = names[used]
        self.n_iter_ = fit.n_iter

    def _facts(self) -> dict[str, str]:
        return {**domain_facts(self), **super()._facts()}

    def _drawing(self) -> str:
        return draw_domains(self)

    def _temperatures(
        self, logits: Array, features: ArrayLike | None, domains: ArrayLike | None
    ) -> FloatArray:
        codes, names = check_domains(domains, n_rows=len(logits), needed_by=type(self).__name__)
        asked = pd.Index(names)
        fitted = self.domain_temperatures_.index.tolist()
        unseen = asked[~asked.isin(fitted)].tolist()
        if unseen:
            known, asked_for = (type(name).__name__ for name in (fitted[0], unseen[0]))
            other = "" if known == asked_for else f", whose names are {known}, not {asked_for}"
            warnings.warn(
                f"{_listed(unseen)} not seen in the fit{other}; the pooled temperature "
                f"{self.temperature_:.4g} is used. MultiDomainTemperatureScaling predicts "
                "temperatures for new domains.",
                UnseenDomainWarning,
                stacklevel=5,
            )
        used = self.domain_temperatures_.loc[self.used_domains_]
        return np.asarray(used.reindex(asked, fill_value=self.temperature_), np.float64)[codes]


def fit_domains(
    rows: TrainingRows, codes: IntArray, names: Array
) -> tuple[TemperatureFit, np.ndarray]:
    """Temperature of each domain, and a mask of those to use; warns of the others."""
    n_domains, weight = len(names), rows.weight
    counts = np.bincount(codes if weight is None else codes[weight > 0], minlength=n_domains)
    if weight is not None:
        empty = names[np.bincount(codes, weight, minlength=n_domains) == 0]
        if len(empty):
            raise InputError(
                f"sample_weight sums to zero in {_listed(empty)}; leave those rows out."
            )
    fit = fit_temperature(LabelledRows(rows.logits, rows.labels, codes, n_domains, weight))
    small = counts < MINIMUM_ROWS
    if small.any():
        warnings.warn(
            f"fewer than {MINIMUM_ROWS} rows in {_listed(names[small])}: too few to determine a "
            "temperature, which stays readable but is not used; add rows or merge domains.",
            SmallDomainWarning,
            stacklevel=4,
        )
    if fit.at_bound.any():
        reasons = np.array(why_at_bound(fit), object)
        for reason in sorted(set(reasons[fit.at_bound])):
            bound = fit.at_bound & (reasons == reason)
            warnings.warn(
                f"temperature at its bound in {_listed(names[bound])}; it stays readable but is "
                f"not used. {reason}",
                BoundaryWarning,
                stacklevel=4,
            )
    return fit, ~(small | fit.at_bound)


def by_domain(values: FloatArray, names: Array, label: str) -> "pd.Series[float]":
    """Values as a Series by domain."""
    return pd.Series(values, index=pd.Index(names, name="domain"), name=label)


class _WithDomains(Protocol):
    """What DomainTemperatureScaling and MD-TS learn of each domain."""

    temperature_: float
    domain_temperatures_: "pd.Series[float]"
    domain_standard_errors_: "pd.Series[float]"
    used_domains_: Array


def domain_facts(fitted: _WithDomains) -> dict[str, str]:
    """Pooled temperature, number of domains and range of their temperatures."""
    t = fitted.domain_temperatures_
    unused = len(t) - len(fitted.used_domains_)
    return {
        "pooled temperature": f"{fitted.temperature_:.4g}",
        "domains": f"{len(t)}" + (f", of which {unused} not used" if unused else ""),
        "T of the domains": f"{t.min():.4g} to {t.max():.4g}",
    }


def draw_domains(fitted: _WithDomains) -> str:
    """The temperature of each domain."""
    t = fitted.domain_temperatures_
    return draw_temperatures(
        t.index.tolist(), t.to_numpy(), fitted.domain_standard_errors_.to_numpy(),
        t.index.isin(fitted.used_domains_), fitted.temperature_,
    )  # fmt: skip


def _listed(names: Array | Sequence[object]) -> str:
    shown = few(map(repr, np.asarray(names, object).tolist()), 10)
    return f"domain{'s' if len(names) > 1 else ''} {shown}"

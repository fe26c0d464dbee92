"""Protocols: which rows calibrate and which are scored, on one data set."""

import warnings
from collections.abc import Sequence, Sized
from typing import Any

import numpy as np
import pandas as pd

from domaincal._typing import Array, Track
from domaincal._wording import few
from domaincal.data import CalibrationData
from domaincal.data.splits import (
    SplitBy,
    domains_to_leave_out,
    half_mask,
    matching_domains,
    resolve_split,
    rows_of,
)
from domaincal.errors import InputError, SmallDomainWarning
from domaincal.evaluation.fitting import Calibrators, fitted_to, labels_of, named
from domaincal.evaluation.score_table import score_table


def evaluate_split(
    calibrators: Calibrators,
    data: CalibrationData,
    *,
    ood: str | Sequence[Any] = (),
    by: SplitBy | None = None,
    n_bins: int = 15,
    random_state: int = 0,
    track: Track = iter,
) -> pd.DataFrame:
    """Fit on a random half of every InD domain; score the other half, and the OOD domains.

    Parameters
    ----------
    calibrators : calibrator, sequence of calibrators, or mapping from names to calibrators
    data : CalibrationData
        With labels and domains.
    ood : domain, pattern or list of them, default none
        Domains that are kept from the fit, as in :func:`split_domains`.
    by : {"row", "group"}, optional
        ``"group"``: no group is both fitted and scored, in whatever domains it occurs; of OOD
        domains, too, only groups that were not fitted are scored. By default so where the data
        have groups.
    n_bins : int, default 15
    random_state : int, default 0
        Seed of the halves.
    track : callable, optional
        Wraps the list of methods, to show progress, e.g. ``tqdm.tqdm``.

    Returns
    -------
    DataFrame
        As from :func:`score_table`, with a column ``kind``: "InD" or "OOD".

    Examples
    --------
    >>> import domaincal as dc
    >>> data, _ = dc.make_multi_domain(n_domains=6, random_state=0)
    >>> table = dc.evaluate_split(dc.TemperatureScaling(), data, ood="*-[45]")
    >>> table.groupby("kind")["domain"].nunique().to_dict()
    {'InD': 4, 'OOD': 2}
    """
    train, scored = split_rows(data, ood=ood, by=by, random_state=random_state)
    return _score(calibrators, train, scored, n_bins, track)


def split_rows(
    data: CalibrationData,
    *,
    ood: str | Sequence[Any],
    by: SplitBy | None,
    random_state: int,
) -> tuple[CalibrationData, dict[str, CalibrationData]]:
    """Rows to fit, and rows to score by kind; see :func:`evaluate_split`."""
    labels_of(data, "data")
    by = resolve_split(data, by)
    outside = np.zeros(len(data), bool)
    if _any_named(ood):
        outside = rows_of(data, matching_domains(data, ood))
    first = np.zeros(len(data), bool)
    first[~outside] = half_mask(data.select(~outside), by=by, random_state=random_state)
    parts = {"InD": ~first & ~outside}
    if outside.any():
        parts["OOD"] = outside & ~_in_groups_of(data, first) if by == "group" else outside
    _warn_of_unscored(data, np.logical_or.reduce(list(parts.values())), stacklevel=4)
    scored = {kind: data.select(rows) for kind, rows in parts.items() if rows.any()}
    return data.select(first & ~outside), scored


def evaluate_leave_one_domain_out(
    calibrators: Calibrators,
    data: CalibrationData,
    *,
    by: SplitBy | None = None,
    n_bins: int = 15,
    random_state: int = 0,
    track: Track = iter,
) -> pd.DataFrame:
    """Score each domain with calibrators fitted on all others, as the next domain would be.

    Parameters
    ----------
    calibrators : calibrator, sequence of calibrators, or mapping from names to calibrators
    data : CalibrationData
        With labels and at least two domains.
    by : {"row", "group"}, optional
        ``"group"``: of the groups that occur in the domain and in others, one half is fitted and
        the other scored, so that none is on both sides. By default so where the data have groups.
    n_bins : int, default 15
    random_state : int, default 0
        Seed of the halves of groups.
    track : callable, optional
        Wraps the list of domains, to show progress, e.g. ``tqdm.tqdm``.

    Returns
    -------
    DataFrame
        As from :func:`score_table`, with a column ``kind``, which is "OOD" everywhere.

    Examples
    --------
    >>> import domaincal as dc
    >>> data, _ = dc.make_multi_domain(n_domains=4, random_state=0)
    >>> methods = {"TS": dc.TemperatureScaling(), "MD-TS": dc.MultiDomainTemperatureScaling()}
    >>> table = dc.evaluate_leave_one_domain_out(methods, data)
    >>> dc.compare_methods(table, "MD-TS", "TS").n_domains
    4
    """
    labels_of(data, "data")
    by = resolve_split(data, by)
    first = np.ones(len(data), bool)
    if by == "group":
        first = half_mask(data, by=by, random_state=random_state)
    tables = []
    scored = np.zeros(len(data), bool)
    for domain in track(domains_to_leave_out(data)):
        own = data.domains == domain
        # Of groups on both sides, one half is fitted and the other scored.
        both = np.zeros(len(data), bool)
        if by == "group":
            both = _in_groups_of(data, own) & _in_groups_of(data, ~own)
        fit, test = ~own & (~both | first), own & (~both | ~first)
        if fit.any() and test.any():
            scored |= test
            rows = {"OOD": data.select(test)}
            tables.append(_score(calibrators, data.select(fit), rows, n_bins, iter))
    _warn_of_unscored(data, scored, stacklevel=3)
    if not tables:
        raise InputError("no domain has groups of its own to score; use by='row'.")
    table = pd.concat(tables, ignore_index=True)
    order = {name: k for k, name in enumerate(named(calibrators))}
    return table.sort_values("method", key=lambda m: m.map(order), kind="stable", ignore_index=True)


def evaluate_fitted(
    fitted: Calibrators,
    data: CalibrationData,
    *,
    ood: str | Sequence[Any] = (),
    n_bins: int = 15,
) -> pd.DataFrame:
    """Score fitted calibrators on all rows of some data.

    Parameters
    ----------
    fitted : calibrator, sequence of calibrators, or mapping from names to calibrators
    data : CalibrationData
        With labels.
    ood : domain, pattern or list of them, default none
        Domains that are OOD, as in :func:`split_domains`. So are, without being named, domains
        that calibrators with temperatures of domains have not seen in their fit.
    n_bins : int, default 15

    Returns
    -------
    DataFrame
        As from :func:`score_table`, with a column ``kind``: "InD" or "OOD".
    """
    table = score_table(fitted, data, n_bins=n_bins)
    outside = set(matching_domains(data, ood).tolist()) if _any_named(ood) else set()
    seen = {
        name
        for calibrator in named(fitted).values()
        for name in getattr(calibrator, "domain_temperatures_", pd.Series(dtype=float)).index
    }
    if seen and data.domains is not None:
        outside |= set(table["domain"]) - seen
    return table.assign(kind=np.where(table["domain"].isin(outside), "OOD", "InD"))


def _any_named(ood: str | Sequence[Any]) -> bool:
    return not isinstance(ood, Sized) or len(ood) > 0


def _in_groups_of(data: CalibrationData, rows: Array) -> Array:
    """Which rows are of a group that occurs among ``rows``."""
    codes, names = data.group_codes
    there = np.zeros(len(names), bool)
    there[codes[rows]] = True
    return there[codes]


def _warn_of_unscored(data: CalibrationData, scored: Array, *, stacklevel: int) -> None:
    """Domains of a single row, or of groups that were all fitted, do not appear in the table."""
    if data.domains is None:
        return
    codes, names = data.domain_codes
    missing = np.delete(names, np.unique(codes[scored])).tolist()
    if missing:
        warnings.warn(
            f"no row is left to score in {few(map(repr, missing), 5)}: all of "
            "theirs are in the half that is fitted; add rows, or merge domains.",
            SmallDomainWarning,
            stacklevel=stacklevel,
        )


def _score(
    calibrators: Calibrators,
    train: CalibrationData,
    parts: dict[str, CalibrationData],
    n_bins: int,
    track: Track,
) -> pd.DataFrame:
    tables = []
    for method, calibrator in track(list(named(calibrators).items())):
        fitted = {method: fitted_to(calibrator, train)}
        for kind, rows in parts.items():
            tables.append(score_table(fitted, rows, n_bins=n_bins).assign(kind=kind))
    return pd.concat(tables, ignore_index=True)

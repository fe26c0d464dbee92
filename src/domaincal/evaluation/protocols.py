"""Evaluation protocols: which rows of one data set are fitted and which are scored."""

# Short signatures in help(): annotations stay text.
from __future__ import annotations

from collections.abc import Sequence, Sized
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from domaincal._typing import Array, Track
from domaincal._validation import check_count, check_random_state
from domaincal._warnings import warn_caller
from domaincal._wording import few
from domaincal.data.blocked_rows import AnyData, AnyRows, Rows, rows_where
from domaincal.data.splits import (
    SplitBy,
    domains_to_leave_out,
    half_mask,
    matching_domains,
    resolve_split,
    rows_in_domains,
)
from domaincal.errors import DomaincalWarning, InputError, SmallDomainWarning
from domaincal.evaluation.fitting import (
    Calibrators,
    calibrators_by_name,
    fit_clone,
    labelled_rows,
)
from domaincal.evaluation.method_warnings import MethodWarnings
from domaincal.evaluation.score_table import score_table, scores_of_method

#: Message if no fold can be scored.
NOTHING_SCORED = "every group that could be scored is in the fitted half; split by row instead."


def evaluate_split(
    calibrators: Calibrators,
    data: AnyData,
    *,
    ood: str | Sequence[Any] = (),
    by: SplitBy | None = None,
    n_bins: int = 15,
    random_state: int = 0,
    track: Track = iter,
) -> pd.DataFrame:
    """Fit a random half of each InD domain; score the other half and the OOD domains.

    Parameters
    ----------
    calibrators : calibrator, sequence of calibrators, or mapping from names to calibrators
        Calibrators to compare. They are not changed.
    data : CalibrationData or Store
        Rows with labels; those of a store are read in blocks. Without domains, the rows are split
        into two halves.
    ood : domain, pattern or list of them, default none
        OOD domains, which are not fitted; see :func:`split_domains` for patterns.
    by : {"row", "group"}, optional
        ``"group"``: no group is both fitted and scored, in any domain. OOD domains are then
        scored on groups that were not fitted. The default is ``"group"`` if the data have groups.
    n_bins : int, default 15
        Number of bins of the calibration errors.
    random_state : int, default 0
        Seed of the random halves.
    track : callable, optional
        Wraps the list of methods to show progress, e.g. ``tqdm.tqdm``.

    Returns
    -------
    DataFrame
        Results table as from :func:`score_table`, with a column ``kind``: "InD" or "OOD".

    Examples
    --------
    >>> import domaincal as dc
    >>> data, _ = dc.make_multi_domain(n_domains=6, random_state=0)
    >>> table = dc.evaluate_split(dc.TemperatureScaling(), data, ood="*-[45]")
    >>> table.groupby("kind")["domain"].nunique().to_dict()
    {'InD': 4, 'OOD': 2}
    """
    train, scored = split_rows(
        labelled_rows(data, "data"), ood=ood, by=by, random_state=random_state
    )
    with MethodWarnings() as warnings:
        return _fit_and_score(calibrators, train, scored, n_bins, track, warnings)


def split_rows(
    data: Rows,
    *,
    ood: str | Sequence[Any],
    by: SplitBy | None,
    random_state: int,
) -> tuple[Rows, dict[str, Rows]]:
    """Rows to fit, and rows to score by kind ("InD", "OOD"); see :func:`evaluate_split`."""
    fit, scored = split_masks(data, ood=ood, by=by, random_state=random_state)
    return rows_where(data, fit), {kind: rows_where(data, rows) for kind, rows in scored.items()}


def split_masks(
    data: AnyRows,
    *,
    ood: str | Sequence[Any],
    by: SplitBy | None,
    random_state: int,
) -> tuple[Array, dict[str, Array]]:
    """Masks of the rows of :func:`split_rows`."""
    labelled_rows(data, "data")
    by = resolve_split(data, by)
    outside = np.zeros(len(data), bool)
    if _names_domains(ood):
        outside = rows_in_domains(data, matching_domains(data, ood))
    first = np.zeros(len(data), bool)
    first[~outside] = half_mask(rows_where(data, ~outside), by=by, random_state=random_state)
    parts = {"InD": ~first & ~outside}
    if outside.any():
        parts["OOD"] = outside & ~_same_group(data, first) if by == "group" else outside
    warn_of_unscored_domains(data, np.logical_or.reduce(list(parts.values())))
    return first & ~outside, {kind: rows for kind, rows in parts.items() if rows.any()}


def evaluate_leave_one_domain_out(
    calibrators: Calibrators,
    data: AnyData,
    *,
    n_folds: int | None = None,
    by: SplitBy | None = None,
    n_bins: int = 15,
    random_state: int = 0,
    track: Track = iter,
) -> pd.DataFrame:
    """Score each domain with calibrators fitted to all other domains, as if it were new.

    Every domain takes a fit of each calibrator. With many domains, leave them out in folds.

    Parameters
    ----------
    calibrators : calibrator, sequence of calibrators, or mapping from names to calibrators
        Calibrators to compare. They are not changed.
    data : CalibrationData or Store
        Rows with labels, and at least two domains.
    n_folds : int, optional
        Deal the domains at random into this number of folds, and score the domains of each fold
        with calibrators fitted to all other folds. By default, each domain is a fold of its own.
    by : {"row", "group"}, optional
        ``"group"``: no group is both fitted and scored. Of the groups that occur both in the
        fold and in other folds, one half is fitted and the other half is scored. The default
        is ``"group"`` if the data have groups.
    n_bins : int, default 15
        Number of bins of the calibration errors.
    random_state : int, default 0
        Seed of the folds, and of the halves of the groups.
    track : callable, optional
        Wraps the list of folds, each a list of domains, to show progress, e.g. ``tqdm.tqdm``.

    Returns
    -------
    DataFrame
        Results table as from :func:`score_table`, with a column ``kind`` that is always "OOD".

    Examples
    --------
    >>> import domaincal as dc
    >>> data, _ = dc.make_multi_domain(n_domains=4, random_state=0)
    >>> methods = {"TS": dc.TemperatureScaling(), "MD-TS": dc.MultiDomainTemperatureScaling()}
    >>> table = dc.evaluate_leave_one_domain_out(methods, data)
    >>> dc.compare_methods(table, "MD-TS", "TS").n_domains
    4
    """
    data = labelled_rows(data, "data")
    folds = left_out_folds(data, n_folds, by=by, random_state=random_state)
    tables = []
    scored = np.zeros(len(data), bool)
    with MethodWarnings() as warnings:
        for domains in track(folds.domains):
            fit, test = folds.masks(domains)
            if fit.any() and test.any():
                scored |= test
                train, parts = rows_where(data, fit), {"OOD": rows_where(data, test)}
                tables.append(_fit_and_score(calibrators, train, parts, n_bins, iter, warnings))
    warn_of_unscored_domains(data, scored)
    if not tables:
        raise InputError(NOTHING_SCORED)
    methods = {name: k for k, name in enumerate(calibrators_by_name(calibrators))}
    places = {name: k for k, name in enumerate(data.domain_names.tolist())}
    table = pd.concat(tables, ignore_index=True)
    order = np.lexsort([table["domain"].map(places), table["method"].map(methods)])
    return table.iloc[order].reset_index(drop=True)


@dataclass(frozen=True, eq=False)
class LeftOutFolds:
    """Folds of domains, each of which is scored by methods fitted to all others.

    Attributes
    ----------
    data : CalibrationData or BlockedRows
    domains : list of lists
        Domains of each fold.
    by_group : bool
        Whether no group is both fitted and scored.
    first_half : array of bool, shape (n,)
        Of the groups that occur both in a fold and in others, these rows are fitted.
    """

    data: AnyRows
    domains: list[list[Any]]
    by_group: bool
    first_half: Array

    def masks(self, domains: list[Any]) -> tuple[Array, Array]:
        """Masks of the rows to fit, and of the rows to score, of a fold."""
        own = rows_in_domains(self.data, domains)
        shared = np.zeros(len(self.data), bool)
        if self.by_group:
            shared = _same_group(self.data, own) & _same_group(self.data, ~own)
        # Shared groups: the first half is fitted, the second half is scored.
        return ~own & (~shared | self.first_half), own & (~shared | ~self.first_half)


def left_out_folds(
    data: AnyRows, n_folds: int | None, *, by: SplitBy | None, random_state: int
) -> LeftOutFolds:
    """Folds of :func:`evaluate_leave_one_domain_out`."""
    by_group = resolve_split(data, by) == "group"
    folds = _deal_domains(data, n_folds, random_state)
    first_half = np.ones(len(data), bool)
    if by_group:
        first_half = half_mask(data, by="group", random_state=random_state)
    return LeftOutFolds(data, folds, by_group, first_half)


def _deal_domains(data: AnyRows, n_folds: int | None, random_state: int) -> list[list[Any]]:
    """Domains of each fold; one domain in each fold if ``n_folds`` is None."""
    names = domains_to_leave_out(data)
    if n_folds is None:
        return [[name] for name in names]
    check_count(n_folds, "n_folds", minimum=2)
    if n_folds > len(names):
        raise InputError(
            f"{n_folds} folds need at least {n_folds} domains, but the data have {len(names)}; use "
            "fewer folds."
        )
    folds = check_random_state(random_state).permutation(len(names)) % n_folds
    return [[names[k] for k in np.flatnonzero(folds == fold)] for fold in range(n_folds)]


def evaluate_fitted(
    fitted: Calibrators,
    data: AnyData,
    *,
    ood: str | Sequence[Any] = (),
    n_bins: int = 15,
) -> pd.DataFrame:
    """Score fitted calibrators on all rows of a data set.

    Parameters
    ----------
    fitted : calibrator, sequence of calibrators, or mapping from names to calibrators
        Fitted calibrators.
    data : CalibrationData or Store
        Rows with labels.
    ood : domain, pattern or list of them, default none
        OOD domains; see :func:`split_domains` for patterns. If a calibrator has stored the domains
        of its fit, all other domains are OOD as well.
    n_bins : int, default 15
        Number of bins of the calibration errors.

    Returns
    -------
    DataFrame
        Results table as from :func:`score_table`, with a column ``kind``: "InD" or "OOD".

    Examples
    --------
    >>> import domaincal as dc
    >>> data, _ = dc.make_multi_domain(n_domains=3, random_state=0)
    >>> known, _ = dc.split_domains(data, ["domain-2"])
    >>> fitted = dc.MultiDomainTemperatureScaling().fit(known)
    >>> evaluate_fitted(fitted, data)["kind"].tolist()
    ['InD', 'InD', 'OOD']
    """
    data = labelled_rows(data, "data")
    outside = set(matching_domains(data, ood).tolist()) if _names_domains(ood) else set()
    known = {name: fitted_domains(one) for name, one in calibrators_by_name(fitted).items()}
    for name, domains in known.items():
        warn_of_seen_domains(outside & domains, name)
    table = score_table(fitted, data, n_bins=n_bins)
    seen = set().union(*known.values())
    if seen and data.domains is not None:
        outside |= set(table["domain"]) - seen
    return table.assign(kind=np.where(table["domain"].isin(outside), "OOD", "InD"))


def fitted_domains(calibrator: Any) -> set[Any]:
    """Names of the domains of the fit; empty if the calibrator has not stored them."""
    return set(getattr(calibrator, "domain_temperatures_", pd.Series(dtype=float)).index)


def warn_of_seen_domains(domains: set[Any], fitted: str) -> None:
    """Warn of domains that ``ood`` calls unseen, although the calibrator was fitted to them."""
    if domains:
        names = few(sorted(map(str, domains)), 5)
        warn_caller(
            f"ood=... (--ood) names domains to which {fitted} was fitted: {names}. Their errors "
            "look smaller than those of unseen domains will be: leave out these names, or fit "
            "without these domains.",
            DomaincalWarning,
        )


def _names_domains(ood: str | Sequence[Any]) -> bool:
    """Whether ``ood`` is not empty; invalid types are left to :func:`matching_domains`."""
    return not isinstance(ood, Sized) or len(ood) > 0


def _same_group(data: AnyRows, rows: Array) -> Array:
    """Mask of all rows that share a group with one of ``rows``."""
    codes, names = data.group_codes
    present = np.zeros(len(names), bool)
    present[codes[rows]] = True
    return present[codes]


def warn_of_unscored_domains(data: AnyRows, scored: Array) -> None:
    """Warn of domains without a row to score: with one row, or with all groups in the fit."""
    if data.domains is None:
        return
    codes, names = data.domain_codes
    missing = np.delete(names, np.unique(codes[scored])).tolist()
    if missing:
        warn_caller(
            f"no row is left to score in {few(map(repr, missing), 5)}: all rows are in the fitted "
            "half; add rows or merge domains.",
            SmallDomainWarning,
        )


def _fit_and_score(
    calibrators: Calibrators,
    train: AnyRows,
    parts: dict[str, AnyRows],
    n_bins: int,
    track: Track,
    warnings: MethodWarnings,
) -> pd.DataFrame:
    """Results table of calibrators fitted to ``train`` and scored on the parts, by kind."""
    tables = []
    for method, calibrator in track(list(calibrators_by_name(calibrators).items())):
        with warnings.of(method):
            fitted = fit_clone(calibrator, train)
            for kind, rows in parts.items():
                scores = scores_of_method(method, fitted, rows, n_bins=n_bins)
                tables.append(scores.assign(kind=kind))
    return pd.concat(tables, ignore_index=True)

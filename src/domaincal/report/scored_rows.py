"""Rows of the report with their scores before and after calibration, by one of three protocols."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from domaincal._typing import Array, IntArray, Track
from domaincal._warnings import handle_warnings, warn_caller
from domaincal._wording import few
from domaincal.calibrators import (
    AutoCalibration,
    MaxSoftmax,
    MultiDomainTemperatureScaling,
    TemperatureScaling,
)
from domaincal.calibrators.batch.batch_temperature import MINIMUM_DOMAINS
from domaincal.calibrators.choice.auto_calibration import (
    REFERENCE,
    default_candidates,
    trusted_candidate,
)
from domaincal.calibrators.choice.selection import Selection, choose
from domaincal.calibrators.predictions import RowScores
from domaincal.data import CalibrationData
from domaincal.data.batches import BatchSize
from domaincal.data.splits import matching_domains
from domaincal.errors import ProbabilitiesWarning
from domaincal.evaluation.left_out_scores import (
    LeftOutScores,
    batch_numbers,
    score_in_batches,
    score_left_out_domains,
)
from domaincal.evaluation.protocols import (
    fitted_domains,
    split_masks,
    warn_of_seen_domains,
)
from domaincal.evaluation.score_table import table_of_scores
from domaincal.report.plain_values import text
from domaincal.statistics.temperature_solver import MINIMUM_ROWS

#: Name of the scores before calibration.
BEFORE = "no calibration"
# More domains are left out in so many folds; of very many domains, in fewer: the time of a fit
# grows with their number, and about so many are fitted in all folds together.
_MOST_FOLDS = 10
_FITTED_DOMAINS = 5000
_FEW_DOMAINS = (
    "Nothing can be learned about new domains from fewer than two: add the domain of each row."
)


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """Labelled rows with their scores.

    Attributes
    ----------
    data : CalibrationData
        The rows that are scored.
    unseen : array of bool, shape (n_domains,)
        Whether the fit had no rows of the domain.
    before, after : RowScores
        Without calibration, and calibrated.
    name : str
        Of the calibration.
    protocol : str
        Which rows were fitted and which are scored.
    methods : Selection or None
        Comparison of methods on left-out domains; None if there is none.
    missing : str
        Why there is no comparison.
    """

    data: CalibrationData
    unseen: Array
    before: RowScores
    after: RowScores
    name: str
    protocol: str
    methods: Selection | None
    missing: str = ""


def score_left_out(
    data: CalibrationData,
    *,
    batch_size: BatchSize,
    n_bins: int,
    random_state: int,
    track: Track,
) -> ScoredRows:
    """Score every domain as unseen, by the method that the other domains choose."""
    candidates = named_candidates(batch_size, has_features=data.features is not None)
    methods = dict(candidates)
    if data.features is not None:
        methods["MultiDomainTemperatureScaling"] = MultiDomainTemperatureScaling()
    methods["MaxSoftmax"] = MaxSoftmax()
    n_domains = len(data.domain_names)
    n_folds = None
    if n_domains > _MOST_FOLDS:
        n_folds = min(max(_FITTED_DOMAINS // n_domains, 2), _MOST_FOLDS)
    with _without_warnings_of_fits():
        found = score_left_out_domains(
            methods, data, n_folds=n_folds, batch_size=batch_size, random_state=random_state,
            track=track,
        )  # fmt: skip
    tables = {
        name: table_of_scores(name, scores, found.data, n_bins=n_bins)
        for name, scores in found.scores.items()
    }
    choices = choices_of_folds({name: tables[name] for name in candidates}, found.folds, candidates)
    dealt = "" if n_folds is None else f", dealt at random into {n_folds} folds"
    groups = "" if data.groups is None else " Groups that were fitted were not scored."
    return ScoredRows(
        data=found.data,
        unseen=np.ones(len(found.data.domain_names), bool),
        before=found.scores["MaxSoftmax"],
        after=_scores_of_choices(found, choices),
        name=_name_of_choices(choices[found.folds]),
        protocol=f"Unseen means: every domain was scored by methods that were fitted to the other "
        f"domains{dealt}, and the method was chosen by its errors in domains of the fit; "
        f"{_batches_in_words(batch_size)}.{groups}{_unscored(data, found.data)}",
        methods=Selection(_comparison(tables, candidates), batch_size),
    )  # fmt: skip


def score_split(
    data: CalibrationData,
    *,
    ood: str | Sequence[Any],
    batch_size: BatchSize,
    n_bins: int,
    random_state: int,
) -> ScoredRows:
    """Fit half of the rows of the InD domains; score the other half, and the OOD domains."""
    with _without_warnings_of_fits():
        fit, parts = split_masks(data, ood=ood, by=None, random_state=random_state)
        mask = np.logical_or.reduce(list(parts.values()))
        fitted = AutoCalibration(batch_size=batch_size, n_bins=n_bins, random_state=random_state)
        fitted.fit(data.select(fit))
        scored = data.select(mask)
        batches = batch_numbers(scored, batch_size, random_state)
        before, after = (
            score_in_batches(one, scored, batches)
            for one in (MaxSoftmax().fit(data.select(fit)), fitted)
        )
    codes, names = data.domain_codes
    unseen = ~_are_in(scored.domain_codes[1], set(names[np.unique(codes[fit])].tolist()))
    units = "rows" if data.groups is None else "groups"
    where = "domain" if len(names) > 1 else "data set"
    others = "; the other domains are unseen: none of their rows was fitted" if unseen.any() else ""
    has_choice = len(fitted.selection_) > 0
    name = type(fitted.best_).__name__
    return ScoredRows(
        data=scored,
        unseen=unseen,
        before=before,
        after=after,
        name=f"{name}, chosen by left-out domains" if has_choice else name,
        protocol=f"A random half of the {units} of every known {where} was fitted, and the other "
        f"half is scored{others}; {_batches_in_words(batch_size)}.{_unscored(data, scored)}",
        methods=Selection(fitted.selection_, batch_size) if has_choice else None,
        missing=_FEW_DOMAINS if len(names) < MINIMUM_DOMAINS else "Too few domains were fitted to "
        "leave any out; add labelled rows of more domains.",
    )  # fmt: skip


def score_model(
    data: CalibrationData,
    fitted: Any,
    *,
    ood: str | Sequence[Any],
    batch_size: BatchSize,
    random_state: int,
    own_rows: bool,
) -> ScoredRows:
    """Score a fitted calibrator on all rows; ``own_rows`` says whether it was fitted to them."""
    batches = batch_numbers(data, batch_size, random_state)
    after = score_in_batches(fitted, data, batches)
    with _without_warnings_of_fits():
        before = score_in_batches(MaxSoftmax().fit(data), data, batches)
    names, known = data.domain_codes[1], fitted_domains(fitted)
    name = type(fitted).__name__
    if own_rows:
        known = set(names.tolist())
        fit = "It was fitted to these very rows, so that its errors look smaller than they will be"
    elif known and data.domains is not None:
        fit = "Known are the domains of its fit, unseen are the others"
    else:
        fit = (
            "It does not say to which domains it was fitted: all are called unseen, which is right "
            "if none of them was in the fit"
        )
    unseen = ~_are_in(names, known)
    if len(ood):
        named = set(matching_domains(data, ood).tolist())
        if not own_rows:  # that says more
            warn_of_seen_domains(named & known, name)
        unseen |= _are_in(names, named)
        fit += "; domains that were named as unseen count as such"
    selection = getattr(fitted, "provenance_", None)
    has_table = selection is not None and len(selection.table) > 0
    return ScoredRows(
        data=data,
        unseen=unseen,
        before=before,
        after=after,
        name=f"{name}, the fitted model",
        protocol=f"A fitted model, {name}, was scored on all rows. {fit}; "
        f"{_batches_in_words(batch_size)}.",
        methods=selection if has_table else None,
        missing="The model was fitted by one method, without a comparison; leave out the model to "
        "compare methods on these rows.",
    )  # fmt: skip


def named_candidates(batch_size: BatchSize, *, has_features: bool) -> dict[str, Any]:
    """Temperature scaling, and what AutoCalibration compares with it."""
    found = default_candidates(batch_size, has_features=has_features)
    return {REFERENCE: TemperatureScaling(), **{type(one).__name__: one for one in found}}


def choices_of_folds(
    tables: dict[str, pd.DataFrame], folds: IntArray, candidates: dict[str, Any]
) -> Array:
    """Method of each fold, chosen by the scores in the domains of all other folds.

    Parameters
    ----------
    tables : dict from methods to results tables, with one row for each domain
    folds : array of int, shape (n_domains,)
        Fold of each domain.
    candidates : dict from methods to calibrators
    """
    n = tables[REFERENCE]["n"].to_numpy()
    chosen = np.full(folds.max() + 1, REFERENCE, object)
    for fold in range(len(chosen)):
        others = (folds != fold) & (n >= MINIMUM_ROWS)
        # AutoCalibration, too, knows nothing from fewer domains.
        if others.sum() >= MINIMUM_DOMAINS:
            scores = {name: table[others] for name, table in tables.items()}
            found = choose(scores, REFERENCE, trusted_candidate(candidates))
            chosen[fold] = found["method"][found["chosen"]].item()
    return chosen


def _comparison(tables: dict[str, pd.DataFrame], candidates: dict[str, Any]) -> pd.DataFrame:
    """Table of a selection with all methods; candidates alone can be chosen."""
    large = tables[REFERENCE]["n"].to_numpy() >= MINIMUM_ROWS
    used = large if large.any() else np.ones_like(large)
    scores = {name: table[used] for name, table in tables.items()}
    table = choose(scores, REFERENCE)
    best = REFERENCE
    if large.sum() >= MINIMUM_DOMAINS:
        of_candidates = {name: scores[name] for name in candidates}
        found = choose(of_candidates, REFERENCE, trusted_candidate(candidates))
        best = found["method"][found["chosen"]].item()
    return table.assign(chosen=table["method"] == best)


def _scores_of_choices(found: LeftOutScores, choices: Array) -> RowScores:
    """Scores of each row by the method of its fold; NaN for temperatures that do not exist."""
    names, which = np.unique(choices.astype(str), return_inverse=True)
    method = which[found.folds][found.data.domain_codes[0]]
    n_rows = len(found.data)

    def of_choices(array: str) -> Any:
        values = np.full(n_rows, np.nan)
        for k, name in enumerate(names):
            of_method = getattr(found.scores[name], array)
            if of_method is not None:
                values[method == k] = of_method[method == k]
        return values

    temperature = of_choices("temperature")
    return RowScores(
        of_choices("confidence"), of_choices("nll"), of_choices("brier"),
        None if np.isnan(temperature).all() else temperature,
    )  # fmt: skip


def _name_of_choices(of_domains: Array) -> str:
    """Name of the method of each domain."""
    counts = Counter(of_domains.tolist()).most_common()
    if len(counts) == 1:
        return f"{counts[0][0]}, chosen by left-out domains"
    listed = ", ".join(f"{name} in {n:,} {'domain' if n == 1 else 'domains'}" for name, n in counts)
    return f"the method that the other domains choose ({listed})"


def _are_in(names: Array, wanted: set[Any]) -> Array:
    return np.array([name in wanted for name in names.tolist()], bool)


def _batches_in_words(batch_size: BatchSize) -> str:
    if batch_size == 1:
        return "every row was predicted on its own"
    if batch_size == "domain":
        return "all rows of a domain were predicted together, without their labels"
    return (
        f"rows were predicted in random batches of {batch_size} of one domain, without their labels"
    )


def _unscored(data: CalibrationData, scored: CalibrationData) -> str:
    """Sentence about domains without a row to score."""
    present = set(scored.domain_codes[1].tolist())
    missing = [text(name) for name in data.domain_codes[1].tolist() if name not in present]
    if not missing:
        return ""
    return f" All rows of {few(missing)} were fitted, so that none is left to score."


@contextmanager
def _without_warnings_of_fits() -> Iterator[None]:
    """Pass on what is said about the data only: the page shows how well methods do."""

    def warn(message: str, category: type[Warning]) -> None:
        if issubclass(category, ProbabilitiesWarning):
            warn_caller(message, category)

    with handle_warnings(warn):
        yield

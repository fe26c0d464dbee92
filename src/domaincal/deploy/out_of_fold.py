"""Scores of rows by models that were fitted to other domains."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, StratifiedKFold, check_cv
from sklearn.utils import _safe_indexing as select_rows

from domaincal._typing import Array, FloatArray, IntArray
from domaincal._validation.parameters import is_integer
from domaincal._warnings import warn_caller
from domaincal._wording import few
from domaincal.deploy.model_scores import ModelScores, class_labels, model_scores
from domaincal.errors import DomaincalWarning, InputError

# Share of the rows above which a calibration without them would be far too confident.
_MOST_UNUSABLE = 0.05
_CURE = (
    "use fewer folds, a splitter that spreads these classes, such as StratifiedKFold(5), or fit "
    "the estimator yourself and use cv=None"
)


def out_of_fold_scores(
    estimator: Any,
    X: Any,
    y: Array,
    *,
    classes: Array,
    domain_codes: IntArray | None,
    cv: Any,
    sample_weight: FloatArray | None,
) -> tuple[ModelScores, Array]:
    """Scores of each row by a clone of the estimator that was fitted without its fold.

    Returns
    -------
    scores : ModelScores
        A class that is missing in the training rows of a fold has probability 0, or the lowest
        score of each row.
    usable : array of bool, shape (n,)
        False for rows of such a class: the model of their fold could not have predicted it.
    """
    if len(classes) < 2:
        raise InputError(f"y has one class only, {classes.tolist()[0]!r}; pass rows of others too.")
    values = np.zeros((len(y), len(classes)))
    usable = np.ones(len(y), bool)
    are_probabilities = False
    for train, test in _folds(cv, X, y, domain_codes):
        model = _fit_fold(estimator, X, y, sample_weight, train, classes)
        scores = model_scores(model, select_rows(X, test))
        are_probabilities = scores.are_probabilities
        known = np.isin(classes, class_labels(model))
        missing = 0.0 if are_probabilities else scores.values.min(axis=1, keepdims=True)
        values[np.ix_(test, np.flatnonzero(~known))] = missing
        values[np.ix_(test, np.flatnonzero(known))] = scores.values
        usable[test] = np.isin(y[test], classes[known])
    if not usable.all():
        _report_missing_classes(y, usable)
    return ModelScores(values, are_probabilities), usable


def _fit_fold(
    estimator: Any,
    X: Any,
    y: Array,
    sample_weight: FloatArray | None,
    train: IntArray,
    classes: Array,
) -> Any:
    """Clone of the estimator, fitted to the training rows of a fold."""
    try:
        return fit_model(clone(estimator), X, y, sample_weight, train)
    except Exception as error:
        missing = classes[~np.isin(classes, y[train])].tolist()
        if not missing:
            raise
        raise InputError(
            f"{type(estimator).__name__} cannot be fitted without the classes "
            f"{few(map(repr, missing))}, which occur in one fold only ({error}); {_CURE}."
        ) from error


def _report_missing_classes(y: Array, usable: Array) -> None:
    """Warn of rows whose class their model did not know; refuse more than a few of them.

    The temperature is fitted to the other rows, as if these classes were never the true ones.
    """
    rare = few(map(repr, np.unique(y[~usable]).tolist()))
    found = f"{(~usable).sum()} of {len(y)} rows are of the classes {rare}, which occur in one"
    if (~usable).mean() > _MOST_UNUSABLE:
        raise InputError(f"{found} fold only: too many to calibrate without them; {_CURE}.")
    warn_caller(
        f"{found} fold only, and do not take part in the calibration; {_CURE}.", DomaincalWarning
    )


def fit_model(
    estimator: Any, X: Any, y: Array, sample_weight: FloatArray | None, rows: Array | None = None
) -> Any:
    """Fit an estimator to some of the rows, or to all."""
    weights = {}
    if sample_weight is not None:
        weights["sample_weight"] = sample_weight if rows is None else sample_weight[rows]
    if rows is None:
        return estimator.fit(X, y, **weights)
    return estimator.fit(select_rows(X, rows), y[rows], **weights)


def _folds(
    cv: Any, X: Any, y: Array, domain_codes: IntArray | None
) -> list[tuple[IntArray, IntArray]]:
    """Training and test rows of each fold; every row is tested once."""
    splitter = _splitter(cv, y, domain_codes)
    folds = list(splitter.split(X, y, domain_codes if _uses_groups(splitter) else None))
    times_tested = np.bincount(np.concatenate([test for _, test in folds]), minlength=len(y))
    if (times_tested != 1).any():
        row = int(np.argmax(times_tested != 1))
        raise InputError(
            f"cv={cv!r} must test every row once, but tests row {row} {times_tested[row]} times; "
            "use a splitter such as GroupKFold."
        )
    return folds


def _uses_groups(splitter: Any) -> bool:
    """Whether a splitter asks for groups; others of scikit-learn warn if they get them."""
    if not hasattr(splitter, "get_metadata_routing"):
        return True
    return _needs_groups(splitter)


def _needs_groups(splitter: Any) -> bool:
    """Whether a splitter of scikit-learn splits by group."""
    if not hasattr(splitter, "get_metadata_routing"):
        return False
    return "groups" in splitter.get_metadata_routing().split.requests


def _splitter(cv: Any, y: Array, domain_codes: IntArray | None) -> Any:
    """Splitter of a number of folds: whole domains, or classes in equal shares without domains."""
    if isinstance(cv, str):
        raise InputError(
            f"cv must be a number of folds, a splitter or None, got {cv!r}; use None for an "
            "estimator that is fitted already."
        )
    if not is_integer(cv):
        splitter = check_cv(cv, y, classifier=True)
        if domain_codes is None and _needs_groups(splitter):
            raise InputError(f"cv={cv!r} splits by group; pass domains=..., the groups here.")
        return splitter
    if cv < 2:
        raise InputError(f"cv must be at least 2 folds, got {cv}; use None for a fitted estimator.")
    if domain_codes is None:
        return StratifiedKFold(int(cv))
    n_domains = len(np.unique(domain_codes))
    if n_domains < cv:
        raise InputError(
            f"cv={cv} folds need at least {cv} domains, because a domain is never split, but there "
            f"are {n_domains}; use cv={n_domains}."
            if n_domains > 1
            else f"cv={cv} folds need at least {cv} domains, but there is 1; leave out domains to "
            "split the rows, or fit the estimator yourself and use cv=None."
        )
    return GroupKFold(int(cv))

"""Validation of the parameters of MD-TS."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import is_regressor

from domaincal._validation import check_count, check_number, check_option, check_random_state
from domaincal.calibrators.heads import HEADS
from domaincal.calibrators.temperature_target import TARGETS, TEMPERATURE_RANGE
from domaincal.errors import InputError

if TYPE_CHECKING:
    from domaincal.calibrators.multi_domain import MultiDomainTemperatureScaling


def check_parameters(calibrator: MultiDomainTemperatureScaling) -> None:
    """Raise InputError for parameters that are invalid or cannot be combined."""
    _check_head(calibrator.head)
    _check_features(calibrator.features)
    check_option(calibrator.target, "target", TARGETS)
    check_option(calibrator.domain_weight, "domain_weight", ("sample", "equal"))
    if not isinstance(calibrator.fit_intercept, bool | np.bool_):
        raise InputError(f"fit_intercept must be True or False, got {calibrator.fit_intercept!r}.")
    if calibrator.alpha is not None:
        check_number(calibrator.alpha, "alpha", low=0.0, high=np.inf, closed=True)
        _require_head(calibrator, "ridge", "alpha", "pass a regressor with its own penalty as head")
    if calibrator.nystroem is not None:
        check_count(calibrator.nystroem, "nystroem")
        _require_head(calibrator, "krr", "nystroem", "leave it out")
    if _has_head(calibrator, "knn") and calibrator.domain_weight == "equal":
        raise InputError(
            "domain_weight='equal' has no effect on head='knn', which does not weight its "
            "neighbours; use domain_weight='sample'."
        )
    check_count(calibrator.max_rows, "max_rows")
    check_random_state(calibrator.random_state)
    _check_clip(calibrator.clip)


def _check_head(head: Any) -> None:
    if isinstance(head, str):
        check_option(head, "head", HEADS)
    elif not _is_regressor(head):
        raise InputError(
            f"head must be one of {', '.join(map(repr, HEADS))} or an instance of a scikit-learn "
            f"regressor, got {head!r}."
        )


def _check_features(features: Any) -> None:
    if not (features is None or (isinstance(features, str) and features == "logits")):
        raise InputError(
            f"features must be 'logits' or None, got {type(features).__name__}; pass the features "
            "of the rows to fit and predict."
        )


def _check_clip(clip: Any) -> None:
    if clip is None or (isinstance(clip, str) and clip == "auto"):
        return
    pair = isinstance(clip, tuple | list) and len(clip) == 2
    pair = pair and all(isinstance(end, int | float | np.integer | np.floating) for end in clip)
    smallest, largest = TEMPERATURE_RANGE
    if not (pair and smallest <= clip[0] < clip[1] <= largest):
        raise InputError(
            f"clip must be 'auto', None or a pair 0 < low < high (from {smallest:g} to "
            f"{largest:g}), got {clip!r}."
        )


def _has_head(calibrator: MultiDomainTemperatureScaling, name: str) -> bool:
    return isinstance(calibrator.head, str) and calibrator.head == name


def _require_head(
    calibrator: MultiDomainTemperatureScaling, head: str, parameter: str, cure: str
) -> None:
    """Raise InputError if a parameter is given that only another head uses."""
    if not _has_head(calibrator, head):
        raise InputError(
            f"{parameter}={getattr(calibrator, parameter)!r} is for head={head!r} only, got head="
            f"{calibrator.head!r}; {cure}."
        )


def _is_regressor(head: Any) -> bool:
    return not isinstance(head, type) and hasattr(head, "fit") and bool(is_regressor(head))

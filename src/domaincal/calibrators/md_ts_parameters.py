"""Parameters of MD-TS that go together, and those that do not."""

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import is_regressor

from domaincal._validation import check_count, check_number, check_option, random_generator
from domaincal.calibrators.heads import HEADS
from domaincal.calibrators.temperature_target import TARGETS
from domaincal.errors import InputError

if TYPE_CHECKING:
    from domaincal.calibrators.multi_domain import MultiDomainTemperatureScaling


def check_parameters(calibrator: "MultiDomainTemperatureScaling") -> None:
    """Refuse what no head can use, before any row is read."""
    head = calibrator.head
    if not (head in HEADS if isinstance(head, str) else _is_regressor(head)):
        raise InputError(
            f"head must be one of {', '.join(map(repr, HEADS))} or an instance of a "
            f"scikit-learn regressor, got {head!r}."
        )
    named = isinstance(calibrator.features, str) and calibrator.features == "logits"
    if not (named or calibrator.features is None):
        raise InputError(
            f"features must be 'logits' or None, got {type(calibrator.features).__name__}; the "
            "features of the rows are given to fit and predict."
        )
    check_option(calibrator.target, "target", TARGETS)
    check_option(calibrator.domain_weight, "domain_weight", ("sample", "equal"))
    if not isinstance(calibrator.fit_intercept, bool | np.bool_):
        raise InputError(f"fit_intercept must be True or False, got {calibrator.fit_intercept!r}.")
    if calibrator.alpha is not None:
        check_number(calibrator.alpha, "alpha", low=0.0, high=np.inf, closed=True)
        _require_head(calibrator, "ridge", "alpha", "give a regressor with its own as head")
    if calibrator.nystroem is not None:
        check_count(calibrator.nystroem, "nystroem")
        _require_head(calibrator, "krr", "nystroem", "leave it out")
    if isinstance(head, str) and head == "knn" and calibrator.domain_weight == "equal":
        raise InputError(
            "domain_weight='equal' has no meaning for head='knn', whose neighbours are not "
            "weighted; use domain_weight='sample'."
        )
    check_count(calibrator.max_rows, "max_rows")
    random_generator(calibrator.random_state)
    if calibrator.clip is None or (isinstance(calibrator.clip, str) and calibrator.clip == "auto"):
        return
    pair = isinstance(calibrator.clip, tuple | list) and len(calibrator.clip) == 2
    pair = pair and all(isinstance(end, int | float | np.number) for end in calibrator.clip)
    if not (pair and 0.0 < calibrator.clip[0] < calibrator.clip[1] < np.inf):
        raise InputError(
            f"clip must be 'auto', None or a pair 0 < low < high, got {calibrator.clip!r}."
        )


def _require_head(
    calibrator: "MultiDomainTemperatureScaling", head: str, name: str, otherwise: str
) -> None:
    if not (isinstance(calibrator.head, str) and calibrator.head == head):
        raise InputError(
            f"{name}={getattr(calibrator, name)!r} is for head={head!r} only, got head="
            f"{calibrator.head!r}; {otherwise}."
        )


def _is_regressor(head: Any) -> bool:
    return not isinstance(head, type) and hasattr(head, "fit") and bool(is_regressor(head))

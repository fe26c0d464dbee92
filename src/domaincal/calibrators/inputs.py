"""Arguments of fit and predict: arrays, data frames, or one CalibrationData in the first place."""

from dataclasses import dataclass
from typing import Any

import pandas as pd

from domaincal._tensors import select_columns
from domaincal._typing import Array, FloatArray
from domaincal._validation import column_names
from domaincal._wording import few
from domaincal.data import CalibrationData
from domaincal.errors import InputError


@dataclass(frozen=True, eq=False)
class Inputs:
    """What a user gave for the same rows, not checked yet.

    Attributes
    ----------
    logits, y, features, domains
        As given, or those of a CalibrationData.
    class_names, feature_names : tuple of str or None
        Columns of data frames, or names of a CalibrationData.
    """

    logits: Any
    y: Any
    features: Any
    domains: Any
    class_names: tuple[str, ...] | None
    feature_names: tuple[str, ...] | None


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """Checked rows to learn from; features and domains are checked by those who need them.

    Attributes
    ----------
    logits : array, shape (n, n_classes)
    labels : array, shape (n,)
    features, domains
        As given.
    weight : array, shape (n,), or None
    """

    logits: Array
    labels: Array
    features: Any
    domains: Any
    weight: FloatArray | None


def unpack(caller: str, logits: Any, *, y: Any = None, features: Any, domains: Any) -> Inputs:
    """Arguments of a call; a CalibrationData stands for logits, labels, features and domains."""
    if not isinstance(logits, CalibrationData):
        return Inputs(logits, y, features, domains, _names(logits), _names(features))
    data = logits
    given = {"y": y, "features": features, "domains": domains}
    twice = [name for name, value in given.items() if value is not None]
    if twice:
        raise InputError(
            f"{caller} got a CalibrationData, which stands for all of its arrays, and "
            f"{few(twice)} as well; pass the data alone, or arrays alone."
        )
    return Inputs(
        data.logits, data.labels, data.features, data.domains, data.class_names, data.feature_names
    )


def require_same_classes(fitted: tuple[str, ...] | None, given: tuple[str, ...] | None) -> None:
    """Refuse columns that are known to be other classes than those of the fit."""
    if fitted is None or given is None or len(fitted) != len(given):
        return  # a different number of classes is refused by every prediction
    for fitted_name, name in zip(fitted, given, strict=True):
        if fitted_name != name:
            raise InputError(
                "the classes of the data are not those of the fit, or in another order, e.g. "
                f"{name!r} in place of {fitted_name!r}; bring the columns of the logits into the "
                "order of the fit."
            )


def in_fitted_order(
    features: Any, given: tuple[str, ...] | None, fitted: tuple[str, ...] | None
) -> Any:
    """Features with their columns in the order of the fit, where names are known on both sides."""
    if features is None or given is None or fitted is None or given == fitted:
        return features
    place = {name: k for k, name in enumerate(given)}
    missing = [name for name in fitted if name not in place]
    unknown = [name for name in given if name not in fitted]
    if missing or unknown:
        lack = f"lack {few(map(repr, missing))}" if missing else ""
        more = f"have {few(map(repr, unknown))}, which the fit did not see" if unknown else ""
        raise InputError(
            f"features {' and '.join(part for part in (lack, more) if part)}; pass the "
            f"{len(fitted)} columns of the fit, in any order."
        )
    return select_columns(features, [place[name] for name in fitted])


def _names(values: Any) -> tuple[str, ...] | None:
    return column_names(values) if isinstance(values, pd.DataFrame) else None

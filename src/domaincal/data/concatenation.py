"""Concatenation of the rows of several CalibrationData."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from domaincal._tensors import concatenate_rows, device_name
from domaincal._typing import Array
from domaincal.data.calibration_data import CalibrationData
from domaincal.errors import InputError


def concatenate(parts: Sequence[CalibrationData]) -> CalibrationData:
    """Concatenate the rows of several CalibrationData.

    The parts must have the same classes and features, and the same optional arrays. The result has
    the widest dtype of the parts, and the provenance on which all parts agree.

    Parameters
    ----------
    parts : sequence of CalibrationData

    Examples
    --------
    >>> from domaincal import CalibrationData, concatenate
    >>> a = CalibrationData([[2.0, 0.0]], labels=[0], domains=["a"])
    >>> b = CalibrationData([[0.0, 1.0]], labels=[1], domains=["b"])
    >>> concatenate([a, b])
    CalibrationData(2 rows, 2 classes, 2 domains)
    """
    parts = list(parts)
    for part in parts:
        if not isinstance(part, CalibrationData):
            raise InputError(
                f"parts must be a list of CalibrationData, got {type(part).__name__} in it."
            )
    if not parts:
        raise InputError("parts is empty; pass at least one CalibrationData.")
    first = parts[0]
    for number, part in enumerate(parts[1:], 1):
        _check_compatible(first, part, number)

    def concatenated(name: str) -> Array | None:
        values = [getattr(part, name) for part in parts]
        return None if values[0] is None else concatenate_rows(values)

    return CalibrationData(
        concatenate_rows([part.logits for part in parts]),
        labels=concatenated("labels"),
        features=concatenated("features"),
        domains=concatenated("domains"),
        groups=concatenated("groups"),
        class_names=first.class_names,
        feature_names=first.feature_names,
        provenance={
            key: value
            for key, value in first.provenance.items()
            if all(key in p.provenance and p.provenance[key] == value for p in parts)
        },
    )


def _check_compatible(first: CalibrationData, part: CalibrationData, number: int) -> None:
    """Raise an InputError if ``part`` cannot be concatenated to ``first``."""
    ours, theirs = _properties(first), _properties(part)
    for name, value in ours.items():
        if theirs[name] != value:
            raise InputError(
                f"part 0 and part {number} disagree in their {name}: {value} and {theirs[name]}; "
                "pass parts that agree."
            )


def _properties(data: CalibrationData) -> dict[str, Any]:
    """Properties in which the parts of :func:`concatenate` must agree."""
    return {
        "classes": data.logits.shape[1],
        "class names": data.class_names,
        "device of logits": device_name(data.logits),
        "labels": data.labels is not None,
        "features": None if data.features is None else data.features.shape[1],
        "feature names": data.feature_names,
        "device of features": device_name(data.features),
        "type of domains": _name_type(data.domains),
        "type of groups": _name_type(data.groups),
    }


def _name_type(names: Array | None) -> str | None:
    return None if names is None else "integers" if names.dtype.kind in "iu" else "strings"

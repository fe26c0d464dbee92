"""CalibrationData from the columns of a data frame."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from domaincal._typing import Array
from domaincal.data.column_choice import ColumnChoice, list_columns, said
from domaincal.data.column_layout import PREFIXES, layout_of
from domaincal.data.column_values import label_indices, logits_of
from domaincal.errors import InputError


def arrays_from_frame(frame: pd.DataFrame, choice: ColumnChoice) -> dict[str, Any]:
    """Arguments of CalibrationData for the chosen columns of a data frame."""
    if not isinstance(frame, pd.DataFrame):
        raise InputError(
            f"frame must be a pandas DataFrame, got {type(frame).__name__}; for arrays, use "
            "CalibrationData(logits, labels=..., domains=...)."
        )
    columns = {str(name): place for place, name in enumerate(frame.columns)}
    if len(columns) < frame.shape[1]:
        twice = next(name for name in map(str, frame.columns) if _times(frame, name) > 1)
        raise InputError(f"the frame has the column {twice!r} twice; rename one of them.")
    if frame.empty:
        raise InputError(f"the frame has no rows or no columns (shape {frame.shape}).")
    layout = layout_of(list(columns), choice)
    scores = next((array for array in layout.blocks if array != "features"), None)
    if scores is None:
        raise InputError(
            f"the frame has no columns {PREFIXES['logits']}* or {PREFIXES['probabilities']}*; name "
            f"the scores of the classes with {said('logits')} or {said('probabilities')}; "
            f"{list_columns(columns)}."
        )

    def column(name: str) -> pd.Series[Any]:
        return frame.iloc[:, columns[name]]

    blocks = {
        array: np.column_stack([_numbers(column(name), name) for name in names])
        for array, names in layout.blocks.items()
    }
    source = f"the column {layout.blocks[scores][0]!r}"
    names = layout.blocks[scores]
    logits = logits_of(scores, blocks[scores], source, choice.floor, columns=names)
    given: dict[str, Any] = {"logits": logits}
    given |= {"class_names": layout.class_names, "features": blocks.get("features")}
    if "features" in blocks:
        given["feature_names"] = layout.feature_names
    for array, name in layout.single.items():
        values = column(name)
        if array == "labels" and values.isna().all():
            continue  # the rows are not labelled yet
        found = _values(values, name)
        if array == "labels":
            n_classes = given["logits"].shape[1]
            found = label_indices(
                found, f"the column {name!r}", n_classes, layout.class_names,
                is_binary=len(names) == 1,
            )  # fmt: skip
        given[array] = found
    return given


def _times(frame: pd.DataFrame, name: str) -> int:
    return sum(str(other) == name for other in frame.columns)


def _numbers(values: pd.Series[Any], name: str) -> Array:
    """Column of numbers; texts that are numbers are converted."""
    _require_values(values, name)
    found = values.to_numpy() if isinstance(values.dtype, np.dtype) else values.to_numpy(object)
    if found.dtype.kind in "fiub":
        return found if found.dtype.kind == "f" else found.astype(np.float64)
    try:
        if found.dtype.kind == "O":
            return found.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        pass
    wrong = pd.to_numeric(pd.Series(found.astype(object)), errors="coerce").isna().to_numpy()
    row = int(np.argmax(wrong)) if found.dtype.kind == "O" else 0
    raise InputError(
        f"the column {name!r} contains {str(values.iloc[row])[:40]!r} in row {row}; it must hold "
        "numbers: encode it as numbers, or leave it out."
    )


def _values(values: pd.Series[Any], name: str) -> Array:
    """Column of whole numbers or texts."""
    _require_values(values, name)
    found = values.to_numpy() if isinstance(values.dtype, np.dtype) else values.to_numpy(object)
    kind = pd.api.types.infer_dtype(found, skipna=False)
    if kind == "string":
        return found
    if kind in ("integer", "boolean", "floating", "mixed-integer-float"):
        numbers = found.astype(np.float64)
        if (numbers == np.floor(numbers)).all() and np.abs(numbers).max() < 2.0**53:
            return found.astype(np.int64)
    raise InputError(
        f"the column {name!r} must hold whole numbers or texts, not {kind} values; convert it with "
        ".astype(str)."
    )


def _require_values(values: pd.Series[Any], name: str) -> None:
    """Refuse missing values."""
    missing = values.isna().to_numpy()
    if missing.any():
        row, times = int(np.argmax(missing)), int(missing.sum())
        raise InputError(
            f"the column {name!r} has no value in row {row} (of {times} such rows); fill them, or "
            "drop the rows."
        )

"""Values of columns as arrays of CalibrationData; errors name the column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from domaincal._typing import Array
from domaincal._validation import non_finite_error
from domaincal._wording import few
from domaincal.data.column_choice import said
from domaincal.data.logits import ZeroCount, floored_logits, logits_from_scores
from domaincal.errors import InputError


def logits_of(
    array: str,
    values: Array,
    source: str,
    floor: float | None,
    *,
    columns: Sequence[str] | None = None,
    first_row: int = 0,
    zeros: ZeroCount | None = None,
) -> Array:
    """Logits of the array "logits" or "probabilities".

    An array of one column is the score of a binary classifier: the log-odds, or the probability,
    of class 1. ``source`` names the array or column in errors, and ``columns`` all columns of a
    table; ``floor`` stands in place of smaller probabilities. ``first_row`` and ``zeros`` are for
    a part of the rows, as in :func:`floored_logits`.
    """
    is_binary = values.ndim == 1 or (values.ndim == 2 and values.shape[1] == 1)
    if not is_binary:
        if array == "logits":
            return values
        return _logits_of_classes(values, floor, columns, first_row, zeros)
    if values.dtype.kind not in "fiub":
        raise InputError(f"{source} must hold numbers, not {values.dtype}.")
    scores = values.reshape(-1).astype(np.float64)
    finite = np.isfinite(scores)
    if not finite.all():
        row = first_row + int(np.argmin(finite))
        raise InputError(f"{source} has no finite number in row {row}; fill it, or drop the row.")
    if array == "logits":
        return logits_from_scores(scores)
    wrong = (scores < 0) | (scores > 1)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InputError(
            f"{source} contains {scores[row]:g} in row {first_row + row}, which is not a "
            "probability; if it "
            f"holds log-odds, name it with {said('logits')}."
        )
    both = np.column_stack([1.0 - scores, scores])
    return floored_logits(both, floor, if_wrong="", first_row=first_row, zeros=zeros)


def _logits_of_classes(
    values: Array,
    floor: float | None,
    columns: Sequence[str] | None,
    first_row: int,
    zeros: ZeroCount | None,
) -> Array:
    """Logits of probabilities of each class."""
    cure = f"if they are logits, name them with {said('logits')}"
    if columns is not None:
        error = non_finite_error(
            values, "probabilities", "fill it, or drop the row", columns, first_row=first_row
        )
        if error is not None:
            raise error
        cure += (
            f"; the columns are {few(map(repr, columns), 12)}: there must be one for each class, "
            f"and no other; name them with {said('probabilities')}"
        )
    return floored_logits(values, floor, if_wrong=cure, first_row=first_row, zeros=zeros)


def label_indices(
    values: Array,
    source: str,
    n_classes: int,
    class_names: tuple[str, ...] | None,
    *,
    is_binary: bool = False,
) -> Array:
    """Class index of each label: of its name, if all labels are names of classes.

    ``source`` names the array or column in errors; ``is_binary`` says that the scores are those of
    one class. Values that are neither names nor whole numbers
    are left to the checks of CalibrationData.
    """
    if values.dtype.kind in "iu" and not any(name.isdigit() for name in class_names or ()):
        _require_range(values, source, n_classes, class_names)
        return values
    if values.dtype.kind not in "OUTiu":
        return values
    codes, found = pd.factorize(values.astype(object) if values.dtype.kind in "UT" else values)
    if codes.size and codes.min() < 0:
        raise InputError(
            f"{source} has no value in row {int(np.argmin(codes))}; fill it, or drop the row."
        )
    texts = [str(value) for value in found]
    if class_names is not None and texts and set(texts) <= set(class_names):
        places = {name: place for place, name in enumerate(class_names)}
        return np.array([places[text] for text in texts], np.int64)[codes]
    if any(isinstance(value, str) for value in found):
        known = {*map(str, range(n_classes)), *(class_names or ())}
        unknown = next((k for k, text in enumerate(texts) if text not in known), 0)
        row = int(np.argmax(codes == unknown))
        if is_binary and class_names is None and not known & set(texts):
            raise _no_class_names(texts, source)
        raise _not_a_class(texts[unknown], row, source, n_classes, class_names)
    if values.dtype.kind in "iu":
        _require_range(values, source, n_classes, class_names)
    return values


def _require_range(
    values: Array, source: str, n_classes: int, class_names: tuple[str, ...] | None
) -> None:
    """Refuse numbers that are not those of classes."""
    wrong = (values < 0) | (values >= n_classes)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise _not_a_class(str(values[row]), row, source, n_classes, class_names)


def _not_a_class(
    label: str, row: int, source: str, n_classes: int, class_names: tuple[str, ...] | None
) -> InputError:
    names = f" or {few(class_names, 10)}" if class_names is not None else ""
    return InputError(
        f"{source} contains {label[:40]!r} in row {row}, which is not a class: labels are 0 to "
        f"{n_classes - 1}{names}; correct it, drop the row, or name the classes with "
        f"{said('class_names')}."
    )


def _no_class_names(texts: Sequence[str], source: str) -> InputError:
    """The error for names of classes as labels of a binary score, which do not tell its class."""
    example = ",".join(sorted(texts)) if len(texts) == 2 else "no,yes"
    return InputError(
        f"{source} contains {texts[0][:40]!r} in row 0, but the classes have no names; name "
        f"both with {said('class_names')}, such as {example[:80]}: the second is the class that "
        "the score speaks for."
    )


def require_ids(values: Array, source: str) -> None:
    """Refuse ids that are missing or repeat: rows could not be told apart by them."""
    ids: pd.Series[Any] = pd.Series(values)
    empty = (ids.isna() | (ids == "")).to_numpy()
    if empty.any():
        raise missing_id_error(int(np.argmax(empty)), source)
    again = ids.duplicated().to_numpy()
    if again.any():
        row = int(np.argmax(again))
        first = int(np.argmax((ids == ids.iloc[row]).to_numpy()))
        raise repeated_id_error(ids.iloc[row], first, row, source)


def missing_id_error(row: int, source: str) -> InputError:
    """The error for a row without an id."""
    return InputError(
        f"{source} has no value in row {row}; give every row an id, or leave out {said('id')}."
    )


def repeated_id_error(value: Any, first: int, row: int, source: str) -> InputError:
    """The error for an id of two rows."""
    return InputError(
        f"{source} contains {str(value)[:40]!r} in the rows {first} and {row}; ids must be "
        f"different: correct them, or leave out {said('id')}."
    )

"""Arrays as columns of a table: one column for each class, feature, label, domain and group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from domaincal._typing import Array
from domaincal._wording import few
from domaincal.data import CalibrationData
from domaincal.errors import InputError

#: Column of each one-dimensional array.
SINGLE = {"labels": "label", "domains": "domain", "groups": "group"}
#: Prefix of the columns of each two-dimensional array.
PREFIXES = {"logits": "logit_", "probabilities": "prob_", "features": "feature_"}


@dataclass(frozen=True)
class Layout:
    """Columns of a table that hold the arrays.

    Attributes
    ----------
    blocks : dict from "logits" (or "probabilities") and "features" to column names
        In the order of the classes and features.
    single : dict from "labels", "domains", "groups" to a column name
    class_names, feature_names : tuple of str, optional
        Names after the prefix; None if the columns are numbered.
    ignored : tuple of str
        All other columns.
    """

    blocks: dict[str, tuple[str, ...]]
    single: dict[str, str]
    class_names: tuple[str, ...] | None
    feature_names: tuple[str, ...] | None
    ignored: tuple[str, ...]


def layout_of(
    columns: Sequence[str],
    class_names: tuple[str, ...] | None = None,
    feature_names: tuple[str, ...] | None = None,
) -> Layout:
    """Find the arrays among the columns of a table.

    ``class_names`` and ``feature_names`` are those that the file stores apart from its columns; the
    columns may then be in any order. Without them, numbered columns (``logit_0``, ``logit_1``, ...)
    may be in any order too, and named ones (``logit_cat``) are in the order of the classes.
    """
    name, times = Counter(columns).most_common(1)[0] if columns else ("", 0)
    if times > 1:
        raise InputError(f"the table has the column {name!r} {times} times; keep one of them.")
    blocks: dict[str, tuple[str, ...]] = {}
    for array, prefix in PREFIXES.items():
        found = [name for name in columns if name.startswith(prefix)]
        stored = feature_names if array == "features" else class_names
        if found and stored is not None:
            blocks[array] = _in_stored_order(found, prefix, stored)
        elif found:
            blocks[array] = tuple(_ordered(found, prefix))
    scores = "logits" if "logits" in blocks else "probabilities"
    if "logits" in blocks:  # more exact than probabilities, which round to 0 and 1
        blocks.pop("probabilities", None)
    if class_names is None and scores in blocks:
        class_names = _names(blocks[scores], PREFIXES[scores])
    if feature_names is None:
        feature_names = _names(blocks.get("features", ()), PREFIXES["features"])
    single = {array: name for array, name in SINGLE.items() if name in columns}
    used = {name for names in blocks.values() for name in names} | set(single.values())
    ignored = tuple(name for name in columns if name not in used)
    return Layout(blocks, single, class_names, feature_names, ignored)


def frame_of(data: CalibrationData) -> pd.DataFrame:
    """Table of the rows, with the columns that :func:`layout_of` finds."""
    names = data.class_names
    parts = [single_columns(data, names), block_frame("logits", data.logits, names)]
    if data.features is not None:
        parts.append(block_frame("features", data.features, data.feature_names))
    return pd.concat(parts, axis=1)


def single_columns(data: CalibrationData, names: tuple[str, ...] | None) -> pd.DataFrame:
    """Columns label, domain and group, if the data have them; labels by name if ``names`` are."""
    given = {column: getattr(data, array) for array, column in SINGLE.items()}
    if names is not None and data.labels is not None:
        # Objects: numpy's strings are padded to the longest, and lose zero characters at the end.
        given["label"] = np.array(names, object)[data.labels]
    known = {column: values for column, values in given.items() if values is not None}
    return pd.DataFrame(known, index=pd.RangeIndex(len(data)))


def block_frame(array: str, values: Array, names: tuple[str, ...] | None = None) -> pd.DataFrame:
    """Table with one column for each column of a two-dimensional array."""
    suffixes = names if names is not None else map(str, range(values.shape[1]))
    return pd.DataFrame(values, columns=[PREFIXES[array] + suffix for suffix in suffixes])


def require_names_that_csv_can_hold(names: tuple[str, ...] | None, argument: str) -> None:
    """Refuse names of classes or features that would be different after reading."""
    if names is None or names == tuple(map(str, range(len(names)))):
        return
    if _all_numbers(names) or {"0", "1"} <= set(names):
        raise InputError(
            f"{argument} are numbers ({few(names)}), which a .csv file cannot tell from the "
            "numbers of its columns; write .npz or .parquet instead."
        )
    wrong = [name for name in names if name != name.rstrip() or "\r" in name or "\0" in name]
    if wrong:
        raise InputError(
            f"{argument} contains {wrong[0]!r}, which a .csv file cannot hold; rename it, or write "
            ".npz or .parquet instead."
        )


def _names(columns: Sequence[str], prefix: str) -> tuple[str, ...] | None:
    """Names after the prefix; None if the columns are numbered."""
    names = tuple(name.removeprefix(prefix) for name in columns)
    return None if _all_numbers(names) else names


def _in_stored_order(found: list[str], prefix: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """Columns in the order of the stored names: other programs may have sorted them."""
    expected = tuple(prefix + name for name in names)
    if len(set(expected)) < len(expected):
        raise InputError("the names stored in the file are not different; write the file again.")
    if set(found) != set(expected):
        wrong = min(set(found) ^ set(expected))
        state = "is missing" if wrong in expected else "is not among the names stored in the file"
        raise InputError(f"the column {wrong!r} {state}; write the file again.")
    return expected


def _ordered(found: list[str], prefix: str) -> list[str]:
    """Numbered columns in the order of their numbers; named columns as they are."""
    suffixes = [name.removeprefix(prefix) for name in found]
    if {"0", "1"} <= set(suffixes) and not _all_numbers(suffixes):
        other = next(suffix for suffix in suffixes if not _all_numbers([suffix]))
        raise InputError(
            f"the columns '{prefix}0', '{prefix}1', ... are numbered, but '{prefix}{other}' is "
            f"not; number all of them or none, and rename columns that only look like {prefix}*."
        )
    if not _all_numbers(suffixes):
        return found
    numbers = [int(suffix) for suffix in suffixes]
    order = np.argsort(numbers, kind="stable")
    for expected, place in enumerate(order):
        if numbers[place] != expected:
            raise InputError(
                f"the column '{prefix}{expected}' is missing or occurs twice; number the columns "
                f"from 0 without gaps. Found: {few(found, 8)}."
            )
    return [found[place] for place in order]


def _all_numbers(suffixes: Sequence[str]) -> bool:
    return all(suffix.isascii() and suffix.isdigit() for suffix in suffixes)

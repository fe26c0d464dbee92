"""Tables: one column for each class and feature, one row for each row."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from domaincal._typing import Array
from domaincal._wording import few
from domaincal.data import CalibrationData
from domaincal.errors import InputError

#: Column of each array with one value for a row.
SINGLE = {"labels": "label", "domains": "domain", "groups": "group"}
PREFIXES = {"logits": "logit_", "probabilities": "prob_", "features": "feature_"}


@dataclass(frozen=True)
class Layout:
    """Which columns of a table make up which array.

    Attributes
    ----------
    blocks : dict from "logits" (or "probabilities") and "features" to column names
        In the order of the classes and features.
    single : dict from "labels", "domains", "groups" to a column name
    class_names, feature_names : tuple of str, optional
        What follows the prefix, unless these are numbers.
    ignored : tuple of str
        All other columns.
    """

    blocks: dict[str, tuple[str, ...]]
    single: dict[str, str]
    class_names: tuple[str, ...] | None
    feature_names: tuple[str, ...] | None
    ignored: tuple[str, ...]


def layout_of(columns: Sequence[str], class_names: tuple[str, ...] | None = None) -> Layout:
    """Find the arrays among the column names; ``class_names`` where the file tells them apart.

    Numbered columns (``logit_0``, ``logit_1``, ...) may stand in any order but none may be missing;
    named ones (``logit_cat``) stand in the order of the classes.
    """
    name, times = Counter(columns).most_common(1)[0] if columns else ("", 0)
    if times > 1:
        raise InputError(f"the column {name!r} is there {times} times; keep one of them.")
    blocks: dict[str, tuple[str, ...]] = {}
    for array, prefix in PREFIXES.items():
        found = [name for name in columns if name.startswith(prefix)]
        if found and array != "features" and class_names is not None:
            blocks[array] = _named(found, prefix, class_names)
        elif found:
            blocks[array] = tuple(_ordered(found, prefix))
    scores = "logits" if "logits" in blocks else "probabilities"
    if "logits" in blocks:  # with both, logits say more: probabilities round to 0 and 1
        blocks.pop("probabilities", None)
    if class_names is None and scores in blocks:
        class_names = _names(blocks[scores], PREFIXES[scores])
    feature_names = _names(blocks.get("features", ()), PREFIXES["features"])
    single = {array: name for array, name in SINGLE.items() if name in columns}
    used = {name for names in blocks.values() for name in names} | set(single.values())
    ignored = tuple(name for name in columns if name not in used)
    return Layout(blocks, single, class_names, feature_names, ignored)


def frame_of(data: CalibrationData) -> pd.DataFrame:
    """The rows as a table."""
    names = data.class_names
    parts = [single_columns(data, names), block_frame("logits", data.logits, names)]
    if data.features is not None:
        parts.append(block_frame("features", data.features, data.feature_names))
    return pd.concat(parts, axis=1)


def single_columns(data: CalibrationData, names: tuple[str, ...] | None) -> pd.DataFrame:
    """Columns label (by name, where classes have names), domain and group, as far as known."""
    given = {column: getattr(data, array) for array, column in SINGLE.items()}
    if names is not None and data.labels is not None:
        given["label"] = np.array(names)[data.labels]
    known = {column: values for column, values in given.items() if values is not None}
    return pd.DataFrame(known, index=pd.RangeIndex(len(data)))


def block_frame(array: str, values: Array, names: tuple[str, ...] | None = None) -> pd.DataFrame:
    """One column for each class or feature."""
    suffixes = names if names is not None else map(str, range(values.shape[1]))
    return pd.DataFrame(values, columns=[PREFIXES[array] + suffix for suffix in suffixes])


def require_names_that_csv_can_hold(class_names: tuple[str, ...] | None) -> None:
    """Class names that would be read as column numbers, or beside them."""
    if class_names is None or class_names == tuple(map(str, range(len(class_names)))):
        return
    if _all_numbers(class_names) or {"0", "1"} <= set(class_names):
        raise InputError(
            f"class_names are numbers ({', '.join(class_names[:5])}), which a table without a "
            "description would take for the columns' own; write .npz or .parquet instead."
        )


def _names(columns: Sequence[str], prefix: str) -> tuple[str, ...] | None:
    """What follows the prefix; None where the columns are numbered."""
    names = tuple(name.removeprefix(prefix) for name in columns)
    return None if _all_numbers(names) else names


def _named(found: list[str], prefix: str, class_names: tuple[str, ...]) -> tuple[str, ...]:
    """Columns in the order of the names: other programs may have sorted them."""
    expected = tuple(prefix + name for name in class_names)
    if set(found) != set(expected):
        wrong = min(set(found) ^ set(expected))
        raise InputError(
            f"the column {wrong!r} is missing, or not among the class names that the file gives."
        )
    return expected


def _ordered(found: list[str], prefix: str) -> list[str]:
    suffixes = [name.removeprefix(prefix) for name in found]
    if {"0", "1"} <= set(suffixes) and not _all_numbers(suffixes):
        other = next(suffix for suffix in suffixes if not _all_numbers([suffix]))
        raise InputError(
            f"the columns '{prefix}0', '{prefix}1', ... are numbered, but '{prefix}{other}' is "
            "not; name all or none, and call what is no class otherwise."
        )
    if not _all_numbers(suffixes):
        return found
    numbers = [int(suffix) for suffix in suffixes]
    order = np.argsort(numbers, kind="stable")
    for expected, place in enumerate(order):
        if numbers[place] != expected:
            raise InputError(
                f"the column '{prefix}{expected}' is missing, or there twice; numbered columns "
                f"count from 0 without gaps, there are {few(found, 8)}."
            )
    return [found[place] for place in order]


def _all_numbers(suffixes: Sequence[str]) -> bool:
    return all(suffix.isascii() and suffix.isdigit() for suffix in suffixes)

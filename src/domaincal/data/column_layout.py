"""Find the arrays among the columns of a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from domaincal._wording import few
from domaincal.data.column_choice import (
    KEYWORDS,
    ColumnChoice,
    list_columns,
    not_found_error,
    said,
)
from domaincal.errors import InputError

#: Default column of each one-dimensional array.
SINGLE = {"labels": "label", "domains": "domain", "groups": "group"}
#: Prefix of the default columns of each two-dimensional array.
PREFIXES = {"logits": "logit_", "probabilities": "prob_", "features": "feature_"}
# Default columns of the score of a binary classifier, if there are none for each class.
_BINARY = {"logits": "score", "probabilities": "prob"}
# Longest number of a column.
_DIGITS = 9


@dataclass(frozen=True)
class ColumnLayout:
    """Columns of a table that hold the arrays.

    Attributes
    ----------
    blocks : dict from "logits" (or "probabilities") and "features" to column names
        In the order of the classes and features. A single column of logits or probabilities is the
        score of the second of two classes.
    single : dict from "labels", "domains", "groups", "ids" to a column name
    class_names, feature_names : tuple of str, optional
        Names of the columns in ``blocks``; None if the columns are numbered.
    ignored : tuple of str
        All other columns.
    """

    blocks: dict[str, tuple[str, ...]]
    single: dict[str, str]
    class_names: tuple[str, ...] | None
    feature_names: tuple[str, ...] | None
    ignored: tuple[str, ...]

    @property
    def taken(self) -> dict[str, tuple[str, ...]]:
        """Columns of each array."""
        return {**self.blocks, **{array: (name,) for array, name in self.single.items()}}


@dataclass(frozen=True)
class _Block:
    """Columns of a two-dimensional array, and their names if they are not numbered."""

    columns: tuple[str, ...]
    names: tuple[str, ...] | None


def layout_of(
    columns: Sequence[str],
    choice: ColumnChoice | None = None,
    class_names: tuple[str, ...] | None = None,
    feature_names: tuple[str, ...] | None = None,
) -> ColumnLayout:
    """Find the arrays among the columns of a table.

    ``class_names`` and ``feature_names`` are those that the file stores apart from its columns; the
    columns may then be in any order. They describe the default columns only. Without them, numbered
    columns (``logit_0``, ``logit_1``, ...) may be in any order too, and named ones (``logit_cat``)
    are in the order of the classes.
    """
    choice = ColumnChoice() if choice is None else choice
    name, times = Counter(columns).most_common(1)[0] if columns else ("", 0)
    if times > 1:
        raise InputError(f"the table has the column {name!r} {times} times; keep one of them.")
    found: dict[str, _Block] = {}
    scores = _scores(columns, choice, class_names)
    if scores is not None:
        found[scores[0]] = scores[1]
    if choice.of("features"):
        found["features"] = _chosen("features", choice.of("features"), columns)
    else:
        default = _default_block("features", columns, feature_names)
        if default is not None:
            found["features"] = default
    blocks = {array: block.columns for array, block in found.items()}
    single = _single(columns, choice)
    _require_used_once(blocks, single, choice)
    used = {name for names in blocks.values() for name in names} | set(single.values())
    return ColumnLayout(
        blocks, single,
        class_names=None if scores is None else scores[1].names,
        feature_names=found["features"].names if "features" in found else feature_names,
        ignored=tuple(name for name in columns if name not in used),
    )  # fmt: skip


def _scores(
    columns: Sequence[str], choice: ColumnChoice, stored: tuple[str, ...] | None
) -> tuple[str, _Block] | None:
    """The array of scores, "logits" or "probabilities", and its columns."""
    names = choice.of_classes()
    for array in ("logits", "probabilities"):
        if choice.of(array):
            return array, _named(_chosen(array, choice.of(array), columns), names)
    # Logits first: they are more exact than probabilities, which round to 0 and 1.
    for array in ("logits", "probabilities"):
        block = _default_block(array, columns, stored)
        if block is not None:
            return array, _named(block, names)
    for array, name in _BINARY.items():
        column = _any_case(name, columns, array)
        if column is not None:
            return array, _named(_Block((column,), None), names)
    return None


def _named(block: _Block, names: tuple[str, ...] | None) -> _Block:
    """Block with the names of classes that the user gives.

    Columns that carry the same names are put into that order.
    """
    if names is None:
        return block
    n_classes = max(len(block.columns), 2)
    if len(names) != n_classes:
        raise InputError(
            f"{said('class_names')} has {len(names)} names, but the columns "
            f"{few(map(repr, block.columns))} hold {n_classes} classes; give one name for each."
        )
    if block.names is not None and set(block.names) == set(names):
        places = [block.names.index(name) for name in names]
        return _Block(tuple(block.columns[place] for place in places), names)
    if block.names is not None and block.names != block.columns:
        raise InputError(
            f"{said('class_names')} is {few(names)}, but the columns are named after the classes "
            f"{few(block.names)}; leave it out, or give these names."
        )
    return _Block(block.columns, names)


def _chosen(array: str, patterns: tuple[str, ...], columns: Sequence[str]) -> _Block:
    """Columns that names or patterns of the user select, in that order."""
    if array != "features" and len(patterns) == 1 and patterns[0] in columns:
        return _Block(patterns, None)  # the score of a binary classifier
    blocks = [_matched(array, pattern, columns) for pattern in patterns]
    chosen = tuple(name for block in blocks for name in block.columns)
    repeated = next((name for name, times in Counter(chosen).items() if times > 1), None)
    if repeated is not None:
        raise InputError(
            f"{said(KEYWORDS[array])} selects the column {repeated!r} twice; name it once."
        )
    if len(blocks) == 1:
        return blocks[0]
    names = tuple(name for block in blocks for name in block.names or block.columns)
    if names == tuple(map(str, range(len(names)))):
        return _Block(chosen, None)
    if len(set(names)) < len(names):
        twice = next(name for name, times in Counter(names).items() if times > 1)
        raise InputError(
            f"{said(KEYWORDS[array])} selects two columns for {twice!r}; name the columns one by "
            "one."
        )
    return _Block(chosen, names)


def _matched(array: str, pattern: str, columns: Sequence[str]) -> _Block:
    """Columns of one name or pattern of the user."""
    if pattern in columns:
        return _Block((pattern,), (pattern,))
    if pattern.count("*") > 1:
        raise InputError(
            f"{said(KEYWORDS[array])} is {pattern!r}, which has more than one '*'; use one, or "
            "name the columns."
        )
    found = [name for name in columns if _matches(pattern, name)]
    if not found:
        raise not_found_error(array, pattern, columns)
    start, _, end = pattern.partition("*")
    suffixes = [name[len(start) : len(name) - len(end)] for name in found]
    if array == "features":
        return _feature_block(found, suffixes)
    if len(found) == 1:
        raise InputError(
            f"{said(KEYWORDS[array])} is {pattern!r}, which matches {found[0]!r} only. If that is "
            "the score of a binary classifier, give its name instead of a pattern; otherwise "
            f"{list_columns(columns)}."
        )
    return _numbered_or_named(found, suffixes, pattern)


def _matches(pattern: str, name: str) -> bool:
    """Whether a pattern with one ``*``, which stands for one character or more, fits a name."""
    start, star, end = pattern.partition("*")
    is_longer = bool(star) and len(name) > len(start + end)
    return is_longer and name.startswith(start) and name.endswith(end)


def _feature_block(found: list[str], suffixes: list[str]) -> _Block:
    """Features of a pattern; numbered ones in the order of their numbers, from any number on."""
    if not all_numbers(suffixes):
        return _Block(tuple(found), tuple(suffixes))
    numbers = [int(suffix) for suffix in suffixes]
    order = np.argsort(numbers, kind="stable")
    ordered = tuple(found[place] for place in order)
    return _Block(ordered, None if sorted(numbers) == list(range(len(numbers))) else ordered)


def _default_block(
    array: str, columns: Sequence[str], stored: tuple[str, ...] | None
) -> _Block | None:
    """Columns with the default prefix of an array, in any case; None if there are none."""
    prefix = PREFIXES[array]
    found = [name for name in columns if name[: len(prefix)].casefold() == prefix]
    spelled = {name[: len(prefix)]: name for name in found}
    if len(spelled) > 1:
        one, other = list(spelled.values())[:2]
        raise InputError(
            f"the columns {one!r} and {other!r} begin with {prefix!r} in different case; rename "
            f"one of them, or name the columns with {said(array)}."
        )
    if not found:
        return None
    if stored is not None:
        return _Block(_in_stored_order(found, next(iter(spelled)), stored), stored)
    suffixes = [name[len(prefix) :] for name in found]
    if array != "features" and len(found) == 1:
        raise InputError(
            f"the table has the column {found[0]!r}, but no other '{prefix}*': there must be one "
            "for each class. If it is the score of a binary classifier, name it with "
            f"{said(array)}."
        )
    return _numbered_or_named(found, suffixes, next(iter(spelled)) + "*")


def _single(columns: Sequence[str], choice: ColumnChoice) -> dict[str, str]:
    """Column of the labels, domains, groups and ids, as far as the table has them."""
    single: dict[str, str] = {}
    for array in (*SINGLE, "ids"):
        given = choice.of(array)
        if given and given[0] not in columns:
            raise not_found_error(array, given[0], columns)
        column = given[0] if given else None
        if not given and array in SINGLE:
            column = _any_case(SINGLE[array], columns, array)
        if column is not None:
            single[array] = column
    return single


def _any_case(default: str, columns: Sequence[str], array: str) -> str | None:
    """The column with a default name, in any case."""
    found = [name for name in columns if name.casefold() == default]
    if len(found) > 1:
        raise InputError(
            f"the columns {few(map(repr, found))} differ only in case; say which of them to read "
            f"with {said(KEYWORDS[array])}."
        )
    return found[0] if found else None


def _require_used_once(
    blocks: dict[str, tuple[str, ...]], single: dict[str, str], choice: ColumnChoice
) -> None:
    """Refuse a column that is read as two arrays, such as the label among the features."""
    roles = [(name, array) for array, names in blocks.items() for name in names]
    seen: dict[str, str] = {}
    for name, array in [*((name, array) for array, name in single.items()), *roles]:
        if name not in seen:
            seen[name] = array
            continue
        patterns = choice.of(array) or (f"{PREFIXES.get(array, '')}*",)
        matching = [pattern for pattern in patterns if _matches(pattern, name)]
        if array in blocks and matching:
            raise InputError(
                f"the pattern {matching[0]!r} of the {array} also matches {name!r}, the column of "
                f"the {seen[name]}; use another pattern, or name the columns one by one with "
                f"{said(KEYWORDS[array])}."
            )
        raise InputError(
            f"the column {name!r} is read as {seen[name]} and as {array}; name another one with "
            f"{said(KEYWORDS[seen[name]])} or {said(KEYWORDS[array])}."
        )


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


def _numbered_or_named(found: list[str], suffixes: list[str], pattern: str) -> _Block:
    """Numbered columns in the order of their numbers; named columns as they are."""
    if {"0", "1"} <= set(suffixes) and not all_numbers(suffixes):
        zero, one = (pattern.replace("*", digit) for digit in "01")
        other = next(found[k] for k, text in enumerate(suffixes) if not all_numbers([text]))
        raise InputError(
            f"the columns {zero!r}, {one!r}, ... are numbered, but {other!r} is not; number all of "
            f"them or none, and rename columns that only look like {pattern}."
        )
    if not all_numbers(suffixes):
        return _Block(tuple(found), tuple(suffixes))
    numbers = [int(suffix) for suffix in suffixes]
    order = np.argsort(numbers, kind="stable")
    for expected, place in enumerate(order):
        if numbers[place] != expected:
            raise InputError(
                f"the column {pattern.replace('*', str(expected))!r} is missing or occurs twice; "
                "number the columns from 0 without gaps, or name them one by one. Found: "
                f"{few(found, 8)}."
            )
    return _Block(tuple(found[place] for place in order), None)


def all_numbers(suffixes: Sequence[str]) -> bool:
    """Whether all texts are numbers of columns; longer ones are names."""
    return all(
        suffix.isascii() and suffix.isdigit() and len(suffix) <= _DIGITS for suffix in suffixes
    )

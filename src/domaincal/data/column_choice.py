"""Which columns of a table, or arrays of a file, hold logits, labels, features and domains."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from domaincal._validation import check_number
from domaincal._wording import few
from domaincal.errors import InputError

#: Names or patterns of columns, as the user gives them.
Columns = str | Sequence[str]

#: Keyword of the columns of each array; the option of the command line has the same name.
KEYWORDS = {
    "logits": "logits", "probabilities": "probabilities", "labels": "label",
    "features": "features", "domains": "domain", "groups": "group", "ids": "id",
}  # fmt: skip
_BLOCKS = ("logits", "probabilities", "features")


@dataclass(frozen=True)
class ColumnChoice:
    """The columns that a user names; None stands for the default names.

    Attributes
    ----------
    logits, probabilities, features : str or sequence of str, optional
        Names of columns, or patterns with one ``*``. A single name of logits or probabilities is
        the score of the second of two classes.
    label, domain, group, id : str, optional
        Name of one column.
    class_names : sequence of str, optional
        Names of the classes, in the order of their columns.
    floor : float, optional
        Probability in place of smaller ones.

    Examples
    --------
    >>> ColumnChoice(probabilities="p_*", label="y").probabilities
    ('p_*',)
    """

    logits: Columns | None = None
    probabilities: Columns | None = None
    features: Columns | None = None
    label: str | None = None
    domain: str | None = None
    group: str | None = None
    id: str | None = None
    class_names: Sequence[str] | None = None
    floor: float | None = None

    def __post_init__(self) -> None:
        for name in _BLOCKS:
            if getattr(self, name) is not None:
                object.__setattr__(self, name, _checked_columns(getattr(self, name), name))
        for name in ("label", "domain", "group", "id"):
            value = getattr(self, name)
            if value is not None:
                columns = _checked_columns(value, name)
                if len(columns) > 1:
                    raise InputError(f"{said(name)} must be the name of one column, got {value!r}.")
                object.__setattr__(self, name, columns[0])
        if self.class_names is not None:
            names = _checked_columns(self.class_names, "class_names")
            object.__setattr__(self, "class_names", names)
        if self.floor is not None:
            check_number(self.floor, said("floor"), low=0.0, high=1.0)
        if self.logits is not None and self.probabilities is not None:
            raise InputError(
                f"{said('logits')} and {said('probabilities')} are both given; give one of them."
            )

    def of(self, array: str) -> tuple[str, ...]:
        """Names or patterns that are given for an array of ``KEYWORDS``; empty for none."""
        given = getattr(self, KEYWORDS[array])
        return () if given is None else (given,) if isinstance(given, str) else tuple(given)

    def of_classes(self) -> tuple[str, ...] | None:
        """Names of the classes that are given, or None."""
        return None if self.class_names is None else tuple(self.class_names)

    def is_default(self) -> bool:
        """Whether the user named no column."""
        return replace(self, floor=None) == ColumnChoice()

    def array_names(self, found: Collection[str]) -> dict[str, str]:
        """Name, among the arrays of a file, of each array of ``KEYWORDS`` that it has.

        By default the names are ``logits``, ``labels`` and so on; there is no default for ids.
        """
        names: dict[str, str] = {}
        for array in KEYWORDS:
            given = self.of(array)
            if len(given) > 1 or any("*" in name and name not in found for name in given):
                raise InputError(
                    f"{said(KEYWORDS[array])} is {few(given)}, but the file holds arrays, not "
                    "columns; give the name of one array."
                )
            if given and given[0] not in found:
                raise InputError(_not_found(array, given[0], found, "array"))
            default = array in found and array != "ids" and not self._replaces(array)
            if given or default:
                names[array] = given[0] if given else array
        twice = _repeated(names.values())
        if twice is not None:
            arrays = [array for array, name in names.items() if name == twice]
            raise InputError(
                f"the array {twice!r} is read as {' and as '.join(arrays)}; name another one with "
                f"{said(KEYWORDS[arrays[-1]])}."
            )
        return names

    def _replaces(self, array: str) -> bool:
        """Whether the scores that the user named stand in place of ``array``."""
        named = self.of("logits") or self.of("probabilities")
        return bool(named) and array in ("logits", "probabilities")


def said(keyword: str) -> str:
    """A keyword and its option in messages; the command line prints the option alone.

    Examples
    --------
    >>> said("label"), said("class_names")
    ('label=... (--label)', 'class_names=... (--classes)')
    """
    option = {"class_names": "classes"}.get(keyword, keyword)
    return f"{keyword}=... (--{option})"


def list_columns(columns: Iterable[str], what: str = "column") -> str:
    """End of a message that lists what there is."""
    listed = few(map(repr, columns), 12)
    return f"the {what}s are {listed}" if listed else f"there are no {what}s"


def _not_found(array: str, name: str, columns: Collection[str], what: str = "column") -> str:
    keyword = said(KEYWORDS[array])
    if "*" in name:
        return f"{keyword} is {name!r}, which matches no {what}; {list_columns(columns, what)}."
    return f"{keyword} is {name!r}, but there is no such {what}; {list_columns(columns, what)}."


def not_found_error(array: str, name: str, columns: Collection[str]) -> InputError:
    """The error for a name or pattern of the user that fits no column."""
    return InputError(_not_found(array, name, columns))


def _repeated(names: Iterable[str]) -> str | None:
    """First name that occurs twice, or None."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def _checked_columns(given: Any, keyword: str) -> tuple[str, ...]:
    """Names as a tuple; numbers, which data frames can have, as text."""
    is_sequence = not isinstance(given, str) and hasattr(given, "__iter__")
    names = tuple(map(_name, given)) if is_sequence else (_name(given),)
    if not names or any(not name for name in names):
        raise InputError(
            f"{said(keyword)} must be a name or a list of names, got {given!r}; give at least one."
        )
    twice = _repeated(names)
    if twice is not None:
        raise InputError(f"{said(keyword)} contains {twice!r} twice; remove one of them.")
    return names


def _name(given: Any) -> str:
    return given if isinstance(given, str) else "" if given is None else str(given)

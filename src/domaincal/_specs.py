"""Parsing of specs, ``name:key=value:key=value``, from the command line and TOML files."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from domaincal.errors import InputError

_PYTHON_CONSTANTS = {"True": True, "False": False, "None": None}


@dataclass(frozen=True)
class Spec:
    """A name with the text of its parameters.

    Attributes
    ----------
    name : str
        The text before the parameters. The name of an object in a Python file is
        ``mine.py:Mine``.
    parameter_text : str or None
        The text after the colon that follows the name; None if there is no such colon.

    Examples
    --------
    >>> spec = Spec.parse("md-ts:head=ridge:alpha=0.5")
    >>> spec.name, spec.parameters(["head", "alpha"])
    ('md-ts', {'head': 'ridge', 'alpha': '0.5'})
    """

    name: str
    parameter_text: str | None = None

    @classmethod
    def parse(cls, text: str) -> Spec:
        """Split a text into the name and the parameters."""
        name, colon, rest = text.strip().partition(":")
        if name.endswith(".py") and colon:
            object_name, colon, rest = rest.partition(":")
            name = f"{name}:{object_name}"
        return cls(name, rest if colon else None)

    @property
    def is_code(self) -> bool:
        """Whether the name is that of an object in a Python file."""
        return self.name.split(":")[0].endswith(".py")

    def parameters(self, known: Collection[str]) -> dict[str, str]:
        """Text of each parameter; the last value counts if a parameter is given twice.

        Raises an InputError for a parameter that is not ``known`` or has no value.
        """
        given: dict[str, str] = {}
        for pair in self._pairs(known):
            key, _, value = pair.partition("=")
            if key not in known:
                cure = f"choose from {', '.join(known)}" if known else "it has none"
                raise InputError(f"{self.name} has no parameter {key!r}; {cure}.")
            if not value:
                raise InputError(f"{self.name} needs a value for {key!r}; write {key}=VALUE.")
            given[key] = value
        return given

    def keys(self, known: Collection[str]) -> list[str]:
        """Names of all given parameters, including unknown ones."""
        return [pair.partition("=")[0] for pair in self._pairs(known)]

    def _pairs(self, known: Collection[str]) -> list[str]:
        """Texts of the form ``key=value``."""
        if self.parameter_text is None:
            return []
        # A value may contain colons, e.g. in a path. A colon is a separator only before KEY=, or
        # before a known parameter without a value at the end.
        names = "|".join(map(re.escape, known))
        return re.split(rf":(?=[\w-]+=|(?:{names})?$)", self.parameter_text)


def split_specs(text: str) -> list[str]:
    """Split at commas, except at commas in brackets, which belong to a value.

    Examples
    --------
    >>> split_specs("ts, md-ts:clip=[0.5,4]")
    ['ts', 'md-ts:clip=[0.5,4]']
    """
    return [part.strip() for part in re.split(r",(?![^\[]*\])", text) if part.strip()]


def json_value(text: str) -> Any:
    """Parse JSON, with a list as a tuple; text that is not JSON is returned unchanged.

    ``True``, ``False`` and ``None`` are accepted as Python writes them.

    Examples
    --------
    >>> json_value("0.5"), json_value("[1,2]"), json_value("ridge")
    (0.5, (1, 2), 'ridge')
    """
    if text in _PYTHON_CONSTANTS:
        return _PYTHON_CONSTANTS[text]
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):  # RecursionError: nested too deeply
        return text
    return tuple(value) if isinstance(value, list) else value

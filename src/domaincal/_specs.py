"""Texts of the form ``name:key=value:key=value``, in commands and in TOML files."""

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from domaincal.errors import InputError


@dataclass(frozen=True)
class Spec:
    """A name and the parameters that are written after it.

    Attributes
    ----------
    name : str
        What comes before the parameters. An object in a Python file is ``mine.py:Mine``.
    rest : str or None
        The text of the parameters; None where the name is not followed by a colon.

    Examples
    --------
    >>> spec = Spec.parse("md-ts:head=ridge:alpha=0.5")
    >>> spec.name, spec.parameters(["head", "alpha"])
    ('md-ts', {'head': 'ridge', 'alpha': '0.5'})
    """

    name: str
    rest: str | None = None

    @classmethod
    def parse(cls, text: str) -> "Spec":
        """The name and the parameters of a text."""
        name, colon, rest = text.strip().partition(":")
        if name.endswith(".py") and colon:
            own, colon, rest = rest.partition(":")
            name = f"{name}:{own}"
        return cls(name, rest if colon else None)

    @property
    def is_code(self) -> bool:
        """Whether the name is that of an object in a Python file."""
        return self.name.split(":")[0].endswith(".py")

    def parameters(self, known: Collection[str]) -> dict[str, str]:
        """The text of each parameter; of two values for one parameter the last counts."""
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
        """Parameters that are written, known or not."""
        return [pair.partition("=")[0] for pair in self._pairs(known)]

    def _pairs(self, known: Collection[str]) -> list[str]:
        if self.rest is None:
            return []
        # A value may contain colons, e.g. in a path: a colon separates only where KEY= follows, or
        # a parameter without a value at the end.
        last = "|".join(map(re.escape, known))
        return re.split(rf":(?=[\w-]+=|(?:{last})?$)", self.rest)


def split_specs(text: str) -> list[str]:
    """Specs that are separated by commas; commas in brackets belong to a value.

    Examples
    --------
    >>> split_specs("ts, md-ts:clip=[0.5,4]")
    ['ts', 'md-ts:clip=[0.5,4]']
    """
    return [part.strip() for part in re.split(r",(?![^\[]*\])", text) if part.strip()]


def json_value(text: str) -> Any:
    """A number, true, false, null, a [low,high] pair, or the text itself.

    Examples
    --------
    >>> json_value("0.5"), json_value("[1,2]"), json_value("ridge")
    (0.5, (1, 2), 'ridge')
    """
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return tuple(value) if isinstance(value, list) else value

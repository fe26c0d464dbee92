"""Wording shared by messages."""

from __future__ import annotations

import re
from collections.abc import Iterable

# Where a long name is broken: after these, or after those if a part is still too long.
_BREAKS = (r"(?<=[\s:,/])", r"(?<=[=_.\-])")


def few(names: Iterable[str], shown: int = 4) -> str:
    """Join the first names with commas, followed by the number of names left out.

    Examples
    --------
    >>> few("abc"), few("abcdefg", 3)
    ('a, b, c', 'a, b, c and 4 more')
    """
    listed = list(names)
    more = f" and {len(listed) - shown} more" if len(listed) > shown else ""
    return ", ".join(listed[:shown]) + more


def list_domains(names: Iterable[object]) -> str:
    """The word "domain" and the first ten names.

    Examples
    --------
    >>> list_domains(["day", "night"])
    "domains 'day', 'night'"
    """
    listed = list(map(repr, names))
    return f"domain{'s' if len(listed) > 1 else ''} {few(listed, 10)}"


def named_count(n: int, names: Iterable[str] | None, shown: int = 4) -> str:
    """A number, followed by the first names if there are names; "none" for 0.

    Examples
    --------
    >>> named_count(2, ["cat", "dog"]), named_count(7, None), named_count(0, None)
    ('2: cat, dog', '7', 'none')
    """
    if n == 0:
        return "none"
    return f"{n}" if names is None else f"{n}: {few(names, shown)}"


def fold(text: str, width: int) -> list[str]:
    """Break a text or a long name into lines of at most ``width`` characters; nothing is left out.

    Examples
    --------
    >>> fold("md-ts:head=ridge:target=log:fit_intercept=true", 18)
    ['md-ts:head=ridge:', 'target=log:', 'fit_intercept=true']
    >>> fold("abcdefgh", 5)
    ['abcde', 'fgh']
    """
    lines = [""]
    for part in _parts(text, width):
        if len(lines[-1]) + len(part.rstrip()) <= width:
            lines[-1] += part
        else:
            lines.append(part)
    return [line.rstrip() for line in lines]


def _parts(text: str, width: int) -> Iterable[str]:
    """Pieces of a text between which it may be broken, each of at most ``width`` characters."""
    for piece in re.split(_BREAKS[0], text):
        for part in re.split(_BREAKS[1], piece) if len(piece) > width else [piece]:
            yield from (part[k : k + width] for k in range(0, len(part), width))

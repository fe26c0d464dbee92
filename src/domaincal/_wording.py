"""Wording shared by messages."""

from __future__ import annotations

from collections.abc import Iterable


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

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

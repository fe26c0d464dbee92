"""Text that several messages share."""

from collections.abc import Iterable


def few(names: Iterable[str], shown: int = 4) -> str:
    """The first of the names, and whether there are more."""
    listed = list(names)
    return ", ".join(listed[:shown]) + (", ..." if len(listed) > shown else "")

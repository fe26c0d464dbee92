"""Warnings and errors of methods that are evaluated together name the method."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from domaincal._warnings import handle_warnings, warn_caller
from domaincal._wording import few
from domaincal.errors import InputError, ProbabilitiesWarning


class MethodWarnings:
    """Context that issues the warnings of its methods at the end: each once, with their names.

    A ProbabilitiesWarning is about the data, and names no method.

    Examples
    --------
    >>> with (
    ...     handle_warnings(lambda message, category: print(message)),
    ...     MethodWarnings() as warnings,
    ... ):
    ...     for method in ("ts", "md-ts"):
    ...         with warnings.of(method):
    ...             warn_caller("few rows", UserWarning)
    ts, md-ts: few rows
    """

    # Not a generator: warn_caller points to the first caller outside of domaincal, which would be
    # contextlib.

    def __init__(self) -> None:
        self._methods: dict[tuple[str, type[Warning]], list[str]] = {}

    def __enter__(self) -> MethodWarnings:
        return self

    def __exit__(self, *_: object) -> None:
        for (message, category), names in self._methods.items():
            by_data = issubclass(category, ProbabilitiesWarning)
            warn_caller(message if by_data else f"{few(names)}: {message}", category)

    @contextmanager
    def of(self, method: str) -> Iterator[None]:
        """Take the warnings of the block for those of ``method``; its input errors name it too."""

        def note(message: str, category: type[Warning]) -> None:
            found = self._methods.setdefault((message, category), [])
            if method not in found:
                found.append(method)

        try:
            with handle_warnings(note):
                yield
        except InputError as error:
            raise InputError(f"{method}: {error}") from error

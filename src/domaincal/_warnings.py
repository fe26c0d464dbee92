"""Warnings that point to the user's code.

Inside domaincal a warning is a message and a category. A caller may handle them as values
(:func:`handle_warnings`); the filters of :mod:`warnings`, which all threads share, are not changed.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TypeAlias

#: Takes the message and the category of a warning.
WarningHandler: TypeAlias = Callable[[str, type[Warning]], None]

_handler: ContextVar[WarningHandler | None] = ContextVar("domaincal_warning_handler", default=None)
# Frames of domaincal, and of its context managers.
_OWN_FILES = (str(Path(__file__).parent) + os.sep, contextlib.__file__)


def warn_caller(message: str, category: type[Warning]) -> None:
    """Issue a warning that points to the line outside of domaincal that started the call.

    A fixed ``stacklevel`` would depend on the number of functions in between.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_caller("few rows", UserWarning)
    >>> str(caught[0].message)
    'few rows'
    """
    handler = _handler.get()
    if handler is not None:
        handler(message, category)
        return
    stacklevel, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(_OWN_FILES):
        stacklevel, frame = stacklevel + 1, frame.f_back
    warnings.warn(message, category, stacklevel=stacklevel)


@contextmanager
def handle_warnings(handler: WarningHandler) -> Iterator[None]:
    """Pass the warnings of :func:`warn_caller` in this thread to ``handler`` instead.

    Warnings that the handler itself issues go to the handler outside, or to the user.

    Examples
    --------
    >>> with handle_warnings(lambda message, category: print(category.__name__, message)):
    ...     warn_caller("few rows", UserWarning)
    UserWarning few rows
    """
    outer = _handler.get()

    def handle(message: str, category: type[Warning]) -> None:
        token = _handler.set(outer)
        try:
            handler(message, category)
        finally:
            _handler.reset(token)

    token = _handler.set(handle)
    try:
        yield
    finally:
        _handler.reset(token)

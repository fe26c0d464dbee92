"""Warnings that point to the user's code."""

from __future__ import annotations

import inspect
import os
import warnings
from pathlib import Path

_PACKAGE_FOLDER = str(Path(__file__).parent) + os.sep


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
    stacklevel, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE_FOLDER):
        stacklevel, frame = stacklevel + 1, frame.f_back
    warnings.warn(message, category, stacklevel=stacklevel)

"""Figures in files."""

from __future__ import annotations

from pathlib import Path
from threading import Lock
from typing import Any

from domaincal._files import atomic_file
from domaincal._optional import require
from domaincal.errors import InputError

_FORMATS = (".png", ".svg", ".pdf")
_PNG_DPI = 200
# No date, so that the same figure gives the same file.
_METADATA = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
# The settings of matplotlib belong to all threads.
_settings = Lock()


def write_figure(figure: Any, path: Path) -> None:
    """Write a figure to a .png, .svg or .pdf file, atomically."""
    matplotlib = require("matplotlib", extra="plots", purpose="drawing")
    suffix = path.suffix.lower()
    with (
        _settings,
        matplotlib.rc_context({"svg.hashsalt": path.stem}),
        atomic_file(path) as file,
    ):
        figure.savefig(file, format=suffix[1:], dpi=_PNG_DPI, metadata=_METADATA[suffix])


def require_figure_format(path: Path) -> None:
    """Refuse a path whose suffix is not a format for figures, or if matplotlib is missing."""
    if path.suffix.lower() not in _FORMATS:
        raise InputError(
            f"{path} has the suffix {path.suffix!r}; figures are written to "
            f"{', '.join(_FORMATS)}; choose one of these."
        )
    require("matplotlib.pyplot", extra="plots", purpose=f"{path}, a figure,")

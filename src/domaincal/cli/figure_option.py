"""The option --plot."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def figure_option(text: str) -> Callable[[F], F]:
    """The option --plot, as argument ``figure``."""
    return click.option(
        "--plot", "figure", type=click.Path(path_type=Path), metavar="FILE", help=text
    )


def draw_to_file(path: Path, draw: Callable[[], Any]) -> None:
    """Write the figure of the axes that ``draw`` returns."""
    from domaincal._optional import require
    from domaincal.cli.console import working
    from domaincal.plots.figure_files import write_figure

    pyplot = require("matplotlib.pyplot", extra="plots", purpose="--plot")
    pyplot.switch_backend("agg")  # opens no window
    with working(f"drawing {path}"):
        drawn = draw().figure
        write_figure(drawn, path)
    pyplot.close(drawn)

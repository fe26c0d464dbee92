"""The floor of probabilities that ``fit --floor`` stores in a model file, for its predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from domaincal.data.column_choice import ColumnChoice

# Name of the section of the model file, and of its entry.
_SECTION, _ENTRY = "data", "probability_floor"


def floor_section(columns: ColumnChoice) -> dict[str, dict[str, Any]]:
    """Section of a model file that was fitted to probabilities with this floor; empty for none."""
    return {} if columns.floor is None else {_SECTION: {_ENTRY: float(columns.floor)}}


def with_floor_of_fit(columns: ColumnChoice, models: Sequence[Path]) -> ColumnChoice:
    """The columns, with the floor of the fit of the models unless the user gave another one."""
    if columns.floor is not None or not models:
        return columns
    floors = [_stored_floor(path) for path in models]
    if len(set(floors)) > 1:
        raise click.UsageError(
            "the models were fitted with different values of --floor; pass --floor to use one for "
            "all of them."
        )
    return replace(columns, floor=floors[0])


def _stored_floor(path: Path) -> float | None:
    """Floor in a model file, or None."""
    from domaincal.calibrators.files.model_file import load_with_sections
    from domaincal.errors import FileFormatError

    floor = load_with_sections(path)[1].get(_SECTION, {}).get(_ENTRY)
    if floor is None or (isinstance(floor, float) and 0.0 < floor < 1.0):
        return floor
    raise FileFormatError(f"{path} holds the floor {floor!r}; fit the calibrator again.")

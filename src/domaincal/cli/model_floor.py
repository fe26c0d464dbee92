"""The floor of probabilities that ``fit`` stores in a model file, for its predictions."""

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


def floor_section(floor: float | None) -> dict[str, dict[str, Any]]:
    """Section of a model file that was fitted to probabilities with this floor; empty for None."""
    return {} if floor is None else {_SECTION: {_ENTRY: float(floor)}}


def with_floor_of_fit(columns: ColumnChoice, models: Sequence[Path]) -> ColumnChoice:
    """The columns, with the floor of the fit of the models.

    Models that were fitted to logits, or in Python, store no floor: they take the one that is
    given.
    """
    from domaincal.data.logits import DEFAULT_FLOOR

    floors = {path: floor for path in models if (floor := stored_floor(path)) is not None}
    if len(set(floors.values())) > 1:
        raise click.UsageError(
            "the models were fitted with different values of --floor "
            f"({', '.join(f'{path}: {floor}' for path, floor in floors.items())}); evaluate them "
            "one by one."
        )
    if not floors:
        return columns
    path, floor = next(iter(floors.items()))
    if columns.floor not in (None, floor):
        raise click.UsageError(
            f"{path} was fitted with --floor {floor}; leave out --floor, or fit it again with the "
            "other value."
        )
    # None means the default as well, and keeps the warning of rounded zeros.
    return replace(columns, floor=None if floor == DEFAULT_FLOOR else floor)


def stored_floor(path: Path) -> float | None:
    """Floor in a model file, or None."""
    from domaincal.calibrators.files.model_file import load_with_sections
    from domaincal.errors import FileFormatError

    floor = load_with_sections(path)[1].get(_SECTION, {}).get(_ENTRY)
    if floor is None or (isinstance(floor, float) and 0.0 < floor < 1.0):
        return floor
    raise FileFormatError(f"{path} holds the floor {floor!r}; fit the calibrator again.")

"""Columns of a table that its predictions repeat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

import pandas as pd

from domaincal.data.column_layout import ColumnLayout
from domaincal.io.raw_data import RawData

#: Which columns are kept: none but the ids, if they are named, or all but the scores.
Keep: TypeAlias = Literal["none", "id", "all"]


def kept_names(columns: Sequence[str], layout: ColumnLayout, keep: Keep) -> list[str]:
    """Columns to keep, in their order; calibrated probabilities take the place of the scores."""
    if keep == "none":
        return []
    if keep == "id":
        return [layout.single["ids"]] if "ids" in layout.single else []
    scores = {
        name for array, names in layout.blocks.items() if array != "features" for name in names
    }
    return [name for name in columns if name not in scores]


def kept_ids(raw: RawData, keep: Keep) -> RawData:
    """Arrays of a file that is no table, with the ids as the only column to keep."""
    if keep == "none" or "ids" not in raw.arrays or raw.arrays["ids"].ndim != 1:
        return raw
    return replace(raw, kept=pd.DataFrame({raw.sources["ids"][0]: raw.arrays["ids"]}))

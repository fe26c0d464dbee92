"""Rows that are read in blocks, for methods whose fit needs rows in memory."""

from __future__ import annotations

from typing import cast

import numpy as np

from domaincal._typing import Array
from domaincal._warnings import warn_caller
from domaincal.calibrators.inputs import TrainingRows
from domaincal.calibrators.row_sample import sample_blocks
from domaincal.data import BlockedRows, CalibrationData
from domaincal.errors import SubsampleWarning
from domaincal.statistics.domain_counts import domain_counts
from domaincal.statistics.temperature_solver import MINIMUM_ROWS

#: Largest size of the logits and features that are read for a fit in memory.
SAMPLE_BYTES = 1 << 28


def most_rows_in_memory(rows: TrainingRows, sample_bytes: int | None = None) -> int:
    """Number of rows whose logits and features take 256 MiB, or ``sample_bytes``."""
    row_bytes: int = rows.logits.shape[1] * rows.logits.itemsize
    if rows.features is not None:
        row_bytes += rows.features.shape[1] * rows.features.itemsize
    return max(1, (sample_bytes or SAMPLE_BYTES) // row_bytes)


def read_or_sample_data(
    rows: BlockedRows, *, name: str, sample_bytes: int | None = None
) -> CalibrationData:
    """:func:`read_or_sample` as data; groups are left out."""
    some = read_or_sample(
        TrainingRows(
            cast(Array, rows.logits), cast(Array, rows.labels), rows.features, rows.domains, None
        ),
        name=name, sample_bytes=sample_bytes,
    )  # fmt: skip
    return CalibrationData(
        some.logits, labels=some.labels, features=some.features, domains=some.domains,
        class_names=rows.class_names, feature_names=rows.feature_names,
    )  # fmt: skip


def read_or_sample(
    rows: TrainingRows, *, name: str, sample_bytes: int | None = None
) -> TrainingRows:
    """All rows, or a random sample of at most 256 MiB, with a warning.

    ``sample_bytes`` is another size. A sample has the same share of the rows of each domain, and at
    least ten rows of each.
    """
    n, most = len(rows.logits), most_rows_in_memory(rows, sample_bytes)
    if n <= most:
        return rows.select(np.arange(n))
    codes, names = rows.domain_codes(needed_by=name)
    n_rows = domain_counts(codes, len(names)).astype(np.int64)
    sizes = np.minimum(n_rows, np.maximum(n_rows * most // n, MINIMUM_ROWS))
    chosen = sample_blocks(codes, sizes, n_rows=n_rows, random_state=0)
    warn_caller(
        f"{name} needs rows in memory: it was fitted to a random sample of {len(chosen)} of {n} "
        "rows, with the same share of each domain. To use all rows, read the data into memory.",
        SubsampleWarning,
    )
    return rows.select(chosen)

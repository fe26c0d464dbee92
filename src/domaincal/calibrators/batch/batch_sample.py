"""Rows from which batches are resampled, of data that are read in blocks."""

from __future__ import annotations

import numpy as np

from domaincal._typing import Array, IntArray
from domaincal._warnings import warn_caller
from domaincal.calibrators.batch.batch_rows import MOST_ROWS
from domaincal.calibrators.blocked_fits import most_rows_in_memory
from domaincal.calibrators.inputs import TrainingRows
from domaincal.calibrators.row_sample import sample_blocks
from domaincal.errors import SubsampleWarning
from domaincal.statistics.domain_counts import domain_counts


def sample_for_batches(rows: TrainingRows, codes: Array, used: Array, *, name: str) -> IntArray:
    """Numbers of at most 4,096 random rows of each used domain, or fewer if they need much memory.

    A fit in memory also takes at most 4,096 rows of a domain.
    """
    n_rows = domain_counts(codes, len(used)).astype(np.int64)
    sizes = np.where(used, np.minimum(n_rows, MOST_ROWS), 0)
    most = most_rows_in_memory(rows)
    if sizes.sum() > most:
        largest = max(1, most // int(used.sum()))
        sizes = np.minimum(sizes, largest)
        warn_caller(
            f"{name} resamples batches from at most {largest} rows of each domain, which take 256 "
            f"MiB; with the data in memory, it takes up to {MOST_ROWS}.",
            SubsampleWarning,
        )
    return sample_blocks(codes, sizes, n_rows=n_rows, random_state=0)

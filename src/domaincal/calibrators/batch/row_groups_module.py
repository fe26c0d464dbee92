"""Batches of rows in torch: their numbers and their sums, in shapes that depend on n only."""

from __future__ import annotations

from typing import Any

from domaincal.calibrators.calibrator_module import torch


def number_batches(codes: Any) -> Any:
    """Number of the batch of each row, from 0, in the order of the codes.

    There are at most as many batches as rows. Unlike ``torch.unique``, this has a shape that
    ``torch.compile`` and ``torch.export`` know.
    """
    order = codes.argsort(stable=True)
    ordered = codes[order]
    number = (ordered != ordered.roll(1)).long().cumsum(0)
    # The first row may differ from the last one, with which it is compared.
    return torch.empty_like(order).scatter(0, order, number - number[:1])


def sum_batches(values: Any, batch: Any) -> Any:
    """Sums of the rows of each batch, shape (n, ...); 0 for numbers that no row has.

    ``batch`` None: all rows are one batch, and the shape is (1, ...).
    """
    if batch is None:
        return values.sum(0, keepdim=True)
    return torch.zeros_like(values).index_add(0, batch, values)


def rank_rows(values: Any, batch: Any) -> tuple[Any, Any]:
    """Number of rows in the batch of each row, and the place of the row in its batch, from 0.

    ``batch`` is that of :func:`number_batches`, or None if all rows are one batch.
    """
    places = torch.ones_like(values[:, 0], dtype=torch.int64).cumsum(0)
    if batch is None:
        return places[-1:], places - 1
    counts = sum_batches(torch.ones_like(batch), batch)
    rows_before = counts.cumsum(0) - counts
    place = torch.empty_like(places).scatter(0, batch.argsort(stable=True), places - 1)
    return counts[batch], place - rows_before[batch]

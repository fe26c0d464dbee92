"""The numbers of the paper's tables, with doubts about some of them."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import pandas as pd


@cache
def _cells() -> pd.DataFrame:
    path = files("domaincal.experiments") / "paper_cells.csv"
    with path.open("rb") as file:
        return pd.read_csv(file).fillna({"head": "", "slip": ""})


def paper_cells(table: int | None = None) -> pd.DataFrame:
    """Cells of the paper's tables, as printed.

    Parameters
    ----------
    table : int, optional
        Number of the table, 1 to 6. Default: all tables.

    Returns
    -------
    DataFrame
        table, label (in the paper's source), dataset, architecture, kind, method, head, value and
        standard_error (in %, NaN where the paper has none), slip (why the cell is doubtful, or
        an empty text).

    Examples
    --------
    >>> import domaincal as dc
    >>> cells = dc.experiments.paper_cells(1)
    >>> cells.loc[cells["slip"].str.contains("repeats"), "value"].tolist()
    [26.22]
    """
    cells = _cells()
    chosen = cells if table is None else cells[cells["table"] == table]
    return chosen.reset_index(drop=True)

"""What the paper printed, cell by cell, with its place and the slips that were found in it."""

from functools import cache
from importlib.resources import files

import pandas as pd


@cache
def _cells() -> pd.DataFrame:
    path = files("domaincal.experiments") / "paper_cells.csv"
    with path.open("rb") as file:
        return pd.read_csv(file).fillna({"head": "", "slip": ""})


def paper_cells(table: int | None = None) -> pd.DataFrame:
    """Printed cells of the paper's tables.

    Parameters
    ----------
    table : int, optional
        From 1 to 6; by default all.

    Returns
    -------
    DataFrame
        table, label (in the paper's source), dataset, architecture, kind, method, head, value and
        standard_error (in %, NaN where none is printed), slip (why the cell is doubtful, or "").

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

"""Means of a results table over domains."""

from __future__ import annotations

import pandas as pd

from domaincal.evaluation.score_table import COLUMNS

_SCORES = COLUMNS[3:]


def summary_table(table: pd.DataFrame) -> pd.DataFrame:
    """Mean of each score over domains, for each method and for InD and OOD domains.

    Parameters
    ----------
    table : DataFrame
        Results table of :func:`evaluate`, :func:`evaluate_split`, :func:`score_table` or
        :func:`evaluate_leave_one_domain_out`.

    Returns
    -------
    DataFrame
        One row for each method, and for each kind if the table has the column ``kind``. Columns:
        n_domains and n, the numbers of domains and rows; the mean of each score over domains;
        ece_standard_error, the standard error of the mean ECE; worst_ece, worst_excess and
        worst_gap, the largest value of any domain.

    Examples
    --------
    >>> import domaincal as dc
    >>> data, _ = dc.make_multi_domain(n_domains=6, random_state=0)
    >>> table = dc.evaluate_split(dc.TemperatureScaling(), data, ood="*-[45]")
    >>> dc.summary_table(table)[["kind", "method", "n_domains"]].values.tolist()
    [['InD', 'TemperatureScaling', 4], ['OOD', 'TemperatureScaling', 2]]
    """
    keys = ["kind", "method"] if "kind" in table else ["method"]
    grouped = table.groupby(keys, sort=False)
    out = grouped[list(_SCORES)].mean()
    out.insert(0, "n_domains", grouped["domain"].nunique())
    out.insert(1, "n", grouped["n"].sum())
    out["ece_standard_error"] = grouped["ece"].std(ddof=1) / out["n_domains"] ** 0.5
    for score in ("ece", "excess", "gap"):
        out[f"worst_{score}"] = grouped[score].max()
    out = out.reset_index()
    # InD before OOD; a stable sort keeps the methods in the order of the table.
    return out.sort_values("kind", kind="stable", ignore_index=True) if "kind" in out else out

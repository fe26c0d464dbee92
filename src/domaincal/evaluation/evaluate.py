"""Fit calibrators to one data set and score them on another."""

from __future__ import annotations

import pandas as pd

from domaincal.data.blocked_rows import AnyData
from domaincal.evaluation.fitting import (
    Calibrators,
    calibrators_by_name,
    fit_clone,
    labelled_rows,
)
from domaincal.evaluation.method_warnings import MethodWarnings
from domaincal.evaluation.score_table import scores_of_method


def evaluate(
    calibrators: Calibrators,
    *,
    train: AnyData,
    test: AnyData,
    n_bins: int = 15,
) -> pd.DataFrame:
    """Fit clones of calibrators to ``train`` and score them on each domain of ``test``.

    Parameters
    ----------
    calibrators : calibrator, sequence of calibrators, or mapping from names to calibrators
        Calibrators to compare. They are not changed.
    train, test : CalibrationData or Store
        Rows with labels. Test rows without domains are one domain, ``"all"``. A store is read in
        blocks.
    n_bins : int, default 15
        Number of bins of the calibration errors.

    Returns
    -------
    DataFrame
        One row for each method and domain; see :func:`score_table` for the columns.

    Examples
    --------
    >>> import domaincal as dc
    >>> data, _ = dc.make_multi_domain(n_domains=3, random_state=0)
    >>> train, test = dc.split_halves(data)
    >>> table = dc.evaluate([dc.MaxSoftmax(), dc.TemperatureScaling()], train=train, test=test)
    >>> table["method"].tolist()
    ['MaxSoftmax', 'MaxSoftmax', 'MaxSoftmax',
     'TemperatureScaling', 'TemperatureScaling', 'TemperatureScaling']
    """
    known, new = labelled_rows(train, "train"), labelled_rows(test, "test")
    tables = []
    with MethodWarnings() as warnings:
        for method, calibrator in calibrators_by_name(calibrators).items():
            with warnings.of(method):
                fitted = fit_clone(calibrator, known)
                tables.append(scores_of_method(method, fitted, new, n_bins=n_bins))
    return pd.concat(tables, ignore_index=True)

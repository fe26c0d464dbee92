"""Fit calibrators on one data set and score them on another."""

import pandas as pd

from domaincal.data import CalibrationData
from domaincal.evaluation.fitting import Calibrators, fitted_to, labels_of, named
from domaincal.evaluation.score_table import score_table


def evaluate(
    calibrators: Calibrators,
    *,
    train: CalibrationData,
    test: CalibrationData,
    n_bins: int = 15,
) -> pd.DataFrame:
    """Fit clones of the calibrators on ``train`` and score them on each domain of ``test``.

    Parameters
    ----------
    calibrators : calibrator, sequence of calibrators, or mapping from names to calibrators
    train, test : CalibrationData
        With labels. Test rows without domains count as one domain, ``"all"``.
    n_bins : int, default 15

    Returns
    -------
    DataFrame
        See :func:`score_table`.

    Examples
    --------
    >>> import domaincal as dc
    >>> data, _ = dc.make_multi_domain(random_state=0)
    >>> train, test = dc.split_halves(data)
    >>> table = dc.evaluate([dc.MaxSoftmax(), dc.TemperatureScaling()], train=train, test=test)
    >>> len(table) == 2 * 20
    True
    """
    labels_of(train, "train")
    labels_of(test, "test")
    fitted = {name: fitted_to(c, train) for name, c in named(calibrators).items()}
    return score_table(fitted, test, n_bins=n_bins)

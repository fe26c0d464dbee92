"""Risk of a calibration map: how far its confidences are from those of the best one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from domaincal._tensors import host_array
from domaincal._typing import Array, ArrayLike, FloatArray, IntArray
from domaincal._validation import check_logits
from domaincal.calibrators.softmax import confidences_at
from domaincal.data import CalibrationData
from domaincal.errors import InputError
from domaincal.shift.rows_by_domain import labelled_domains
from domaincal.statistics import LabelledRows, fit_temperature
from domaincal.statistics.consistent_temperature import consistent_log_temperatures

# Largest distance of log T* from the log T of the smallest NLL.
_REACH = float(np.log(4.0))


def calibration_risk(
    logits: ArrayLike, temperature: ArrayLike, best_temperature: ArrayLike
) -> float:
    """Risk ``mean |h_T(x) - h_T*(x)|`` of the temperature T where T* is the best one.

    ``h_T(x) = max softmax(logits / T)`` is the confidence. It falls with T for every row, so that
    the risk of one temperature is the difference of two mean confidences.

    Parameters
    ----------
    logits : array of shape (n, n_classes)
    temperature, best_temperature : float or array of shape (n,)

    Examples
    --------
    >>> logits = [[2.0, 0.0], [0.0, 1.0]]
    >>> calibration_risk(logits, 1.0, 1.0)
    0.0
    >>> round(calibration_risk(logits, 2.0, 1.0), 3)
    0.129
    """
    z = check_logits(logits)
    first, second = (
        host_array(confidences_at(z, 1.0 / _checked_temperatures(t, name, len(z))))
        for t, name in ((temperature, "temperature"), (best_temperature, "best_temperature"))
    )
    return float(np.abs(first - second).mean())


def best_temperatures(data: CalibrationData) -> pd.Series[float]:
    """Temperature T* of each domain at which its mean confidence equals its accuracy.

    The paper takes the temperature with the smallest ECE, which jumps with the bins and has
    several minima. |mean confidence - accuracy| is at most the ECE, whatever the bins. With T* at
    its only zero, the risk of a temperature is exactly |mean confidence - accuracy| at that
    temperature. T* is at most a factor 4 from the temperature with the smallest NLL: if all
    predictions are right, no temperature is the best one.

    Parameters
    ----------
    data : CalibrationData
        With labels and domains.

    Returns
    -------
    Series
        Indexed by domain.

    Examples
    --------
    >>> import domaincal as dc
    >>> data, truth = dc.make_multi_domain(n_domains=3, n_rows=2000, random_state=0)
    >>> bool((abs(best_temperatures(data) / truth - 1) < 0.1).all())
    True
    """
    codes, names, labels = labelled_domains(data, "best_temperatures")
    each = fit_temperature(LabelledRows(data.logits, labels, codes, len(names)))
    pooled = fit_temperature(LabelledRows(data.logits, labels))
    start = np.log(np.where(each.at_bound, pooled.temperature[0], each.temperature))
    log_t = consistent_log_temperatures(data.logits, labels, codes, start, reach=_REACH)
    return pd.Series(np.exp(log_t), index=pd.Index(names, name="domain"), name="temperature")


def risk_table(data: CalibrationData, calibrator: Any) -> pd.DataFrame:
    """Risk of each domain under its own, another domain's and the predicted temperature.

    Parameters
    ----------
    data : CalibrationData
        With labels and domains.
    calibrator : fitted calibrator
        Also one without temperatures: its confidences are compared.

    Returns
    -------
    DataFrame
        One row for each domain: ``n``; ``best_temperature``, T* of :func:`best_temperatures`;
        ``own``, the risk of T*, which is 0; ``others_mean`` and ``others_worst``, over the T* of
        the other domains; ``predicted``, the risk of the calibrator.

    Examples
    --------
    >>> import domaincal as dc
    >>> data, _ = dc.make_multi_domain(n_domains=3, random_state=0)
    >>> table = risk_table(data, dc.TemperatureScaling().fit(data))
    >>> table[["domain", "n", "own", "others_worst", "predicted"]].round(2)
         domain    n  own  others_worst  predicted
    0  domain-0  500  0.0          0.22       0.12
    1  domain-1  500  0.0          0.17       0.05
    2  domain-2  500  0.0          0.22       0.13
    """
    codes, names, _ = labelled_domains(data, "risk_table")
    best = best_temperatures(data).to_numpy()
    n = np.bincount(codes)
    own = _confidences(data.logits, best[codes])
    predicted = host_array(calibrator.predict_confidence(data))
    # One row for each temperature, one column for each domain.
    of_others = np.stack([_domain_means(np.abs(_confidences(data.logits, t) - own), codes)
                          for t in best])  # fmt: skip
    np.fill_diagonal(of_others, np.nan)
    single = len(names) == 1
    return pd.DataFrame(
        {
            "domain": names,
            "n": n,
            "best_temperature": best,
            "own": 0.0,
            "others_mean": np.nan if single else np.nanmean(of_others, axis=0),
            "others_worst": np.nan if single else np.nanmax(of_others, axis=0),
            "predicted": _domain_means(np.abs(predicted - own), codes),
        }
    )


def _confidences(logits: Array, temperature: ArrayLike) -> FloatArray:
    beta = 1.0 / np.atleast_1d(np.asarray(temperature, np.float64))
    return host_array(confidences_at(logits, beta))


def _domain_means(values: FloatArray, codes: IntArray) -> FloatArray:
    return np.bincount(codes, values) / np.bincount(codes)


def _checked_temperatures(value: ArrayLike, name: str, n_rows: int) -> FloatArray:
    t = np.atleast_1d(np.asarray(value, np.float64))
    if t.shape not in ((1,), (n_rows,)) or not ((t > 0) & np.isfinite(t)).all():
        raise InputError(
            f"{name} must be a positive, finite number or one for each of {n_rows} rows, got "
            f"{value!r}."
        )
    return t

"""Table of predicted temperatures beside those fitted to the labels of each domain."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from domaincal._tensors import host_array
from domaincal._typing import FloatArray, IntArray
from domaincal.calibrators import DomainTemperatureScaling
from domaincal.data import CalibrationData
from domaincal.errors import InputError
from domaincal.evaluation.fitting import predict_temperatures, require_labels
from domaincal.evaluation.score_table import temperature_spread


def temperature_table(fitted: Any, data: CalibrationData) -> pd.DataFrame:
    """Predicted temperatures of each domain, and the temperature fitted to its own labels.

    Parameters
    ----------
    fitted : calibrator
        Fitted calibrator that has temperatures.
    data : CalibrationData
        Rows with labels and domains.

    Returns
    -------
    DataFrame
        One row for each domain: domain; n, the number of rows; learned, the temperature that
        minimises the NLL of its rows; standard_error, of the logarithm of learned; predicted, the
        median of the predicted temperatures; low and high, their 5% and 95% quantiles; mean and
        deviation, their mean and standard deviation.

    Examples
    --------
    >>> import domaincal as dc
    >>> data, _ = dc.make_multi_domain(n_domains=3, random_state=0)
    >>> fitted = dc.TemperatureScaling().fit(data)
    >>> table = dc.temperature_table(fitted, data)
    >>> bool((table["predicted"] == fitted.temperature_).all())
    True
    """
    require_labels(data, "data")
    if not hasattr(fitted, "predict_temperature"):
        raise InputError(
            f"{type(fitted).__name__} has no temperatures; pass a calibrator with "
            "predict_temperature, such as TemperatureScaling."
        )
    learned = learned_temperatures(data)
    predicted = host_array(predict_temperatures(fitted, data))
    return pd.concat([learned, temperature_spreads(predicted, data.domain_codes[0])], axis=1)


def learned_temperatures(data: CalibrationData) -> pd.DataFrame:
    """Columns domain, n, learned and standard_error of :func:`temperature_table`."""
    domain_fit = DomainTemperatureScaling().fit(data)
    learned = domain_fit.domain_temperatures_
    return pd.DataFrame({
        "domain": learned.index,
        "n": np.bincount(data.domain_codes[0]),
        "learned": learned.to_numpy(),
        "standard_error": domain_fit.domain_standard_errors_.to_numpy(),
    })  # fmt: skip


def temperature_spreads(temperatures: FloatArray, codes: IntArray) -> pd.DataFrame:
    """:func:`temperature_spread` of each domain, for all domains of equal size together."""
    order, counts = np.argsort(codes, kind="stable"), np.bincount(codes)
    starts = np.cumsum(counts) - counts
    out: dict[str, FloatArray] = {}
    for n in np.unique(counts):
        same = np.flatnonzero(counts == n)
        rows = order[starts[same][:, None] + np.arange(n)]
        for name, values in temperature_spread(temperatures[rows]).items():
            out.setdefault(name, np.empty(len(counts)))[same] = values
    return pd.DataFrame(out)

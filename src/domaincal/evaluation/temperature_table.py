"""Temperatures that a calibrator predicts, beside those that the labels give."""

from typing import Any

import numpy as np
import pandas as pd

from domaincal._tensors import host_array
from domaincal.calibrators import DomainTemperatureScaling
from domaincal.calibrators.base import Calibrator
from domaincal.data import CalibrationData
from domaincal.errors import InputError
from domaincal.evaluation.fitting import labels_of
from domaincal.evaluation.score_table import temperature_spread
from domaincal.metrics.domains import domain_rows


def temperature_table(fitted: Any, data: CalibrationData) -> pd.DataFrame:
    """Predicted temperatures of each domain, and the one fitted on its own labels.

    Returns
    -------
    DataFrame
        One row for each domain: domain, n, learned (the temperature that minimises the NLL of the
        domain's rows), standard_error (of its logarithm), predicted (median over the rows), low
        and high (5% and 95% of the rows).

    Examples
    --------
    >>> import domaincal as dc
    >>> data, _ = dc.make_multi_domain(n_domains=3, random_state=0)
    >>> fitted = dc.TemperatureScaling().fit(data)
    >>> table = dc.temperature_table(fitted, data)
    >>> bool((table["predicted"] == fitted.temperature_).all())
    True
    """
    labels_of(data, "data")
    if not hasattr(fitted, "predict_temperature"):
        raise InputError(f"{type(fitted).__name__} has no temperature.")
    own = DomainTemperatureScaling().fit(data)
    learned = own.domain_temperatures_
    columns = {
        "domain": learned.index, "n": np.bincount(data.domain_codes[0]),
        "learned": learned.to_numpy(), "standard_error": own.domain_standard_errors_.to_numpy(),
    }  # fmt: skip
    rows = data if isinstance(fitted, Calibrator) else data.numpy()
    predicted = host_array(
        fitted.predict_temperature(rows.logits, features=rows.features, domains=rows.domains)
    )
    spread = [temperature_spread(predicted[own]) for _, own in domain_rows(*data.domain_codes)]
    return pd.concat([pd.DataFrame(columns), pd.DataFrame(spread)], axis=1)

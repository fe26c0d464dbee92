"""Temperatures that a calibrator predicts, beside those that the labels give."""

from typing import Any

import numpy as np
import pandas as pd

from domaincal._tensors import host_array
from domaincal.calibrators import DomainTemperatureScaling
from domaincal.data import CalibrationData
from domaincal.errors import InputError
from domaincal.evaluation.fitting import labels_of, readable_by, require_same_classes


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
    >>> fitted = dc.TemperatureScaling().fit(data.logits, data.labels)
    >>> table = dc.temperature_table(fitted, data)
    >>> bool((table["predicted"] == fitted.temperature_).all())
    True
    """
    y = labels_of(data, "data")
    if not hasattr(fitted, "predict_temperature"):
        raise InputError(f"{type(fitted).__name__} has no temperature.")
    require_same_classes(fitted, data)
    own = DomainTemperatureScaling().fit(data.logits, y, domains=data.domains)
    learned = own.domain_temperatures_
    columns = {
        "domain": learned.index, "n": np.bincount(data.domain_codes[0]),
        "learned": learned.to_numpy(), "standard_error": own.domain_standard_errors_.to_numpy(),
    }  # fmt: skip
    return pd.DataFrame(columns).join(predicted_temperatures(fitted, data), on="domain")


def predicted_temperatures(fitted: Any, data: CalibrationData) -> pd.DataFrame:
    """Median, 5% and 95% of the temperatures of each domain's rows."""
    rows = readable_by(fitted, data)
    predicted = fitted.predict_temperature(
        rows.logits, features=rows.features, domains=rows.domains
    )
    codes, names = data.domain_codes
    grouped = pd.Series(host_array(predicted)).groupby(codes)
    table = pd.DataFrame({
        "predicted": grouped.median(), "low": grouped.quantile(0.05),
        "high": grouped.quantile(0.95),
    })  # fmt: skip
    return table.set_axis(pd.Index(names, name="domain"))

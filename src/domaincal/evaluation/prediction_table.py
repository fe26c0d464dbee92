"""Predictions of a fitted calibrator as a table."""

from typing import Any

import numpy as np
import pandas as pd

from domaincal._tensors import host_array
from domaincal.calibrators.predictions import Predictions
from domaincal.data import CalibrationData
from domaincal.errors import InputError
from domaincal.evaluation.fitting import predicts_at_once
from domaincal.io.columns import block_frame, single_columns
from domaincal.kernels.dispatch import predicted_classes


def prediction_table(fitted: Any, data: CalibrationData) -> pd.DataFrame:
    """Prediction, confidence and probabilities of each row.

    Returns
    -------
    DataFrame
        One row for each row of the data: label, domain and group as far as they are known;
        predicted (the argmax of the logits), its calibrated confidence, the temperature (where the
        method has one), and prob_* of each class. Classes by name, where names are known.

    Examples
    --------
    >>> import domaincal as dc
    >>> data, _ = dc.make_multi_domain(n_domains=2, n_classes=3, random_state=0)
    >>> fitted = dc.TemperatureScaling().fit(data)
    >>> dc.prediction_table(fitted, data).columns.tolist()
    ['label', 'domain', 'predicted', 'confidence', 'temperature', 'prob_0', 'prob_1', 'prob_2']
    """
    if not isinstance(data, CalibrationData):
        raise InputError(f"data must be CalibrationData, got {type(data).__name__}.")
    names = data.class_names or getattr(fitted, "class_names_", None)
    found = predictions_of(fitted, data)
    predicted = predicted_classes(data.logits)
    columns = {
        "predicted": predicted if names is None else np.array(names)[predicted],
        "confidence": host_array(found.confidence),
    }
    if found.temperature is not None:
        columns["temperature"] = host_array(found.temperature)
    return pd.concat(
        [
            single_columns(data, names),
            pd.DataFrame(columns),
            block_frame("probabilities", host_array(found.probabilities), names),
        ],
        axis=1,
    )


def predictions_of(fitted: Any, data: CalibrationData) -> Predictions:
    """Predictions of each row, also of a calibrator with prediction methods of its own."""
    if predicts_at_once(fitted):
        found: Predictions = fitted.predict_all(data)
        return found
    data = data.numpy()
    given = {"features": data.features, "domains": data.domains}
    temperature = None
    if hasattr(fitted, "predict_temperature"):
        temperature = fitted.predict_temperature(data.logits, **given)
    return Predictions(
        confidence=fitted.predict_confidence(data.logits, **given),
        probabilities=fitted.predict_proba(data.logits, **given),
        temperature=temperature,
    )

"""Table of the predictions of a fitted calibrator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from domaincal._tensors import host_array
from domaincal.calibrators.predictions import Predictions
from domaincal.data import CalibrationData
from domaincal.errors import InputError
from domaincal.evaluation.fitting import has_base_predictions, prediction_arguments
from domaincal.io.columns import block_frame, single_columns
from domaincal.kernels.dispatch import predicted_classes


def prediction_table(fitted: Any, data: CalibrationData) -> pd.DataFrame:
    """Predicted class, confidence and probabilities of each row.

    Parameters
    ----------
    fitted : calibrator
        Fitted calibrator.
    data : CalibrationData
        Rows to predict; labels are not needed.

    Returns
    -------
    DataFrame
        One row for each row of the data: label, domain and group, if the data have them;
        predicted, the argmax of the logits; confidence, its calibrated probability; temperature,
        for methods that have one; and a column ``prob_*`` for each class. Classes are given by
        name if names are known.

    Examples
    --------
    >>> import domaincal as dc
    >>> data, _ = dc.make_multi_domain(n_domains=2, n_classes=3, random_state=0)
    >>> fitted = dc.TemperatureScaling().fit(data)
    >>> dc.prediction_table(fitted, data).columns.tolist()
    ['label', 'domain', 'predicted', 'confidence', 'temperature', 'prob_0', 'prob_1', 'prob_2']
    """
    if not isinstance(data, CalibrationData):
        raise InputError(
            f"data must be CalibrationData, got {type(data).__name__}; create it with "
            "domaincal.CalibrationData(logits, ...)."
        )
    names = data.class_names or getattr(fitted, "class_names_", None)
    predictions = compute_predictions(fitted, data)
    predicted = predicted_classes(data.logits)
    columns = {
        "predicted": predicted if names is None else np.array(names, object)[predicted],
        "confidence": host_array(predictions.confidence),
    }
    if predictions.temperature is not None:
        columns["temperature"] = host_array(predictions.temperature)
    return pd.concat(
        [
            single_columns(data, names),
            pd.DataFrame(columns),
            block_frame("probabilities", host_array(predictions.probabilities), names),
        ],
        axis=1,
    )


def compute_predictions(fitted: Any, data: CalibrationData) -> Predictions:
    """Predictions of each row, also for calibrators with their own prediction methods."""
    if has_base_predictions(fitted):
        predictions: Predictions = fitted.predict_all(data)
        return predictions
    logits, arrays = prediction_arguments(fitted, data)
    temperature = None
    if hasattr(fitted, "predict_temperature"):
        temperature = fitted.predict_temperature(logits, **arrays)
    return Predictions(
        confidence=fitted.predict_confidence(logits, **arrays),
        probabilities=fitted.predict_proba(logits, **arrays),
        temperature=temperature,
    )

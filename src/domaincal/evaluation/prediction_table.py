"""What a fitted calibrator says of rows, as a table."""

from typing import Any

import numpy as np
import pandas as pd

from domaincal._tensors import host_array
from domaincal.data import CalibrationData
from domaincal.errors import InputError
from domaincal.evaluation.fitting import readable_by, require_same_classes
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
    >>> fitted = dc.TemperatureScaling().fit(data.logits, data.labels)
    >>> dc.prediction_table(fitted, data).columns.tolist()
    ['label', 'domain', 'predicted', 'confidence', 'temperature', 'prob_0', 'prob_1', 'prob_2']
    """
    if not isinstance(data, CalibrationData):
        raise InputError(f"data must be CalibrationData, got {type(data).__name__}.")
    require_same_classes(fitted, data)
    data = readable_by(fitted, data)
    given = {"features": data.features, "domains": data.domains}
    names = data.class_names or getattr(fitted, "class_names_", None)
    predicted = predicted_classes(data.logits)
    said = {
        "predicted": predicted if names is None else np.array(names)[predicted],
        "confidence": host_array(fitted.predict_confidence(data.logits, **given)),
    }
    if hasattr(fitted, "predict_temperature"):
        said["temperature"] = host_array(fitted.predict_temperature(data.logits, **given))
    probabilities = host_array(fitted.predict_proba(data.logits, **given))
    return pd.concat(
        [
            single_columns(data, names),
            pd.DataFrame(said),
            block_frame("probabilities", probabilities, names),
        ],
        axis=1,
    )

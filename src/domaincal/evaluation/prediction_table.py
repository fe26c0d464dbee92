"""Table of the predictions of a fitted calibrator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd

from domaincal._tensors import host_array
from domaincal.calibrators.blocked_predictions import each_block
from domaincal.calibrators.predictions import Predictions
from domaincal.data import BlockedRows, CalibrationData
from domaincal.data.column_layout import PREFIXES
from domaincal.errors import InputError
from domaincal.evaluation.fitting import block_predictor, has_base_predictions, prediction_arguments
from domaincal.io.columns import block_frame, rows_of_part, single_columns
from domaincal.kernels.dispatch import predicted_classes

_PREDICTIONS = ("predicted", "confidence", "temperature")
_SCORES = (PREFIXES["logits"], PREFIXES["probabilities"])


def prediction_table(
    fitted: Any, data: CalibrationData, *, keep: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Predicted class, confidence and probabilities of each row.

    Parameters
    ----------
    fitted : calibrator
        Fitted calibrator.
    data : CalibrationData
        Rows to predict; labels are not needed.
    keep : DataFrame, optional
        Columns of the same rows, such as ids, that the table repeats as they are, in place of
        label, domain and group. A column whose name is one of the predictions', or begins with
        ``prob_`` or ``logit_``, gets ``input_`` before its name.

    Returns
    -------
    DataFrame
        One row for each row of the data: label, domain and group, if the data have them, or the
        columns of ``keep``; predicted, the argmax of the logits; confidence, its calibrated
        probability; temperature, for methods that have one; and a column ``prob_*`` for each class.
        Classes are given by name if names are known.

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
    if keep is not None and not (isinstance(keep, pd.DataFrame) and len(keep) == len(data)):
        found = f"{len(keep)} rows" if isinstance(keep, pd.DataFrame) else type(keep).__name__
        raise InputError(
            f"keep must be a DataFrame with the {len(data)} rows of the data, got {found}."
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
            single_columns(data, names) if keep is None else _kept(keep),
            pd.DataFrame(columns),
            block_frame("probabilities", host_array(predictions.probabilities), names),
        ],
        axis=1,
    )


def prediction_tables(
    fitted: Any,
    rows: BlockedRows,
    *,
    keep: Callable[[int], Iterator[pd.DataFrame]] | None = None,
    keep_names: bool = False,
) -> Iterator[pd.DataFrame]:
    """Parts of the table of :func:`prediction_table`, for rows that are read in blocks.

    Parameters
    ----------
    fitted : calibrator
        Methods that predict batches read all rows before the first part.
    rows : BlockedRows
    keep : callable, optional
        Takes a number of rows; returns an iterator over so many rows of the columns to repeat.
    keep_names : bool, default False
        Put label, domain and group after the columns of ``keep``.
    """
    predictor = block_predictor(fitted, rows)
    names = rows.class_names or getattr(fitted, "class_names_", None)
    size = rows_of_part(rows)
    kept = None if keep is None else keep(size)

    def predict(block: CalibrationData) -> pd.DataFrame:
        part = None if kept is None else next(kept, None)
        if kept is not None and (part is None or len(part) != len(block)):
            raise InputError("the table was changed while it was read; run it again.")
        if part is not None and keep_names:
            part = pd.concat([part, single_columns(block, names)], axis=1)
        return prediction_table(predictor, block, keep=part)

    return each_block(rows, predict, n_rows=size)


def _kept(frame: pd.DataFrame) -> pd.DataFrame:
    """Columns of the user, renamed where a reader would take them for predictions or scores."""
    names = [str(name) for name in frame]
    taken = set(names)
    for place, name in enumerate(names):
        if name.casefold() in _PREDICTIONS or name.casefold().startswith(_SCORES):
            while name in taken:
                name = f"input_{name}"
            taken.add(name)
            names[place] = name
    kept = frame.reset_index(drop=True)
    kept.columns = pd.Index(names)
    return kept


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

"""How well a classifier tells a new domain from the known ones."""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from domaincal._tensors import host_array
from domaincal._typing import FloatArray
from domaincal._validation import check_count, check_finite_features, check_random_state
from domaincal.data import CalibrationData
from domaincal.errors import InputError
from domaincal.shift.rows_by_domain import new_domains

#: Rows of a new domain from which the classifier is fitted and scored.
MINIMUM_ROWS = 10
_N_FOLDS = 5
# Standardised features are limited to this size: a row further out is no easier to tell apart.
_LARGEST = 100.0


def two_sample_distance(
    known: CalibrationData,
    new: CalibrationData,
    *,
    max_rows: int = 2000,
    random_state: int = 0,
) -> pd.DataFrame:
    """Distance of each new domain from the pooled known ones by a classifier on the features.

    A logistic regression learns to tell the rows of the new domain from as many random rows of
    the known domains. Its AUC on left-out folds (five) is rescaled: the distance ``max(0, 2 AUC -
    1)`` is 0 if the domains cannot be told apart, and 1 if every row can. It sees every difference
    of the features, also those that do not matter for the calibration.

    Parameters
    ----------
    known, new : CalibrationData
        With features. Labels are not used. Without domains, all rows of ``new`` are one domain.
    max_rows : int, default 2000
        Most rows of each of the two classes; more are sampled.
    random_state : int, default 0
        Seed of the samples and folds.

    Returns
    -------
    DataFrame
        One row for each new domain: ``domain``, ``n``, ``auc``, ``distance``; NaN for domains of
        fewer than 10 rows.

    Examples
    --------
    >>> import domaincal as dc
    >>> data, truth = dc.make_multi_domain(n_domains=6, random_state=0)
    >>> known, new = dc.split_domains(data, [truth.idxmax()])
    >>> bool(two_sample_distance(known, new)["distance"][0] > 0.5)
    True
    """
    check_count(max_rows, "max_rows", minimum=MINIMUM_ROWS)
    random = check_random_state(random_state)
    if known.features is None or new.features is None:
        raise InputError(
            "two_sample_distance needs features; pass CalibrationData(..., features=...)."
        )
    if known.features.shape[1] != new.features.shape[1]:
        raise InputError(
            f"known has {known.features.shape[1]} features and new {new.features.shape[1]}; pass "
            "the same features."
        )
    records = []
    for name, rows in new_domains(new):
        auc = np.nan
        if min(len(rows), len(known)) >= MINIMUM_ROWS:
            size = min(len(rows), len(known), max_rows)
            samples = [
                host_array(x[np.sort(random.permutation(len(x))[:size])]).astype(np.float64)
                for x in (known.features, rows.features)
                if x is not None
            ]
            for sample in samples:
                check_finite_features(sample)
            auc = _auc(np.concatenate(samples), size, int(random.integers(1 << 31)))
        records.append((name, len(rows), auc, np.fmax(0.0, 2.0 * auc - 1.0) if auc >= 0 else auc))
    return pd.DataFrame(records, columns=["domain", "n", "auc", "distance"])


def _auc(x: FloatArray, size: int, seed: int) -> float:
    """Area under the ROC curve of left-out folds; the first ``size`` rows are known ones."""
    of_new = np.repeat([0, 1], size)
    # Constant features stay 0.
    x = np.clip(StandardScaler().fit_transform(x), -_LARGEST, _LARGEST)
    folds = StratifiedKFold(_N_FOLDS, shuffle=True, random_state=seed)
    # The penalty grows with the number of features: few rows must not be told apart by chance.
    model = make_pipeline(LogisticRegression(C=1.0 / x.shape[1], max_iter=1000))
    scores = cross_val_predict(model, x, of_new, cv=folds, method="decision_function")
    # Fold by fold: the intercepts of the folds differ.
    areas = [roc_auc_score(of_new[test], scores[test]) for _, test in folds.split(x, of_new)]
    return float(np.mean(areas))

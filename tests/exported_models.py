"""Fitted calibrators of all kinds that can be exported, small enough to be fitted quickly."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import numpy as np

import domaincal as dc
from hard_rows import training_rows

_MD_TS = dc.MultiDomainTemperatureScaling
_ROWS = 240  # of heads that store rows

#: Constructors of calibrators whose predictions are functions of rows or batches, by name.
EXPORTED = {
    "msp": dc.MaxSoftmax,
    "ts": dc.TemperatureScaling,
    "domain-ts": dc.DomainTemperatureScaling,
    "md-ts-ols": _MD_TS,
    "md-ts-log": lambda: _MD_TS(target="log"),
    "md-ts-inverse": lambda: _MD_TS(target="inverse", fit_intercept=True),
    "md-ts-letter": lambda: _MD_TS(clip=None),
    "md-ts-logits": lambda: _MD_TS(features="logits"),
    "md-ts-ridge": lambda: _MD_TS("ridge", fit_intercept=True),
    "md-ts-huber": lambda: _MD_TS("huber"),
    "md-ts-krr": lambda: _MD_TS("krr", fit_intercept=True, max_rows=_ROWS),
    "md-ts-nystroem": lambda: _MD_TS("krr", nystroem=40, max_rows=_ROWS),
    "md-ts-knn": lambda: _MD_TS("knn", max_rows=_ROWS),
    "md-ts-knn-logits": lambda: _MD_TS("knn", features="logits", max_rows=_ROWS),
    "mixture": dc.DomainMixtureScaling,
    "feature-ts": dc.FeatureTemperatureScaling,
    "histogram": dc.HistogramBinning,
    "histogram-rest": lambda: dc.HistogramBinning(strategy="quantile", scheme="one-vs-rest"),
    "isotonic": dc.IsotonicCalibration,
    "isotonic-rest": lambda: dc.IsotonicCalibration(scheme="one-vs-rest"),
    "bbq": dc.BayesianBinning,
    "bbq-rest": lambda: dc.BayesianBinning(scheme="one-vs-rest"),
    "vector": dc.VectorScaling,
    "dac": lambda: dc.DAC(max_rows=_ROWS),
    "batch": dc.BatchTemperatureScaling,
    "batch-row": lambda: dc.BatchTemperatureScaling(batch="row"),
    "batch-logits": dc.BatchTemperatureScaling,
    "shift-weighted": dc.ShiftWeightedScaling,
    "auto": lambda: dc.AutoCalibration([dc.DomainMixtureScaling()]),
}
#: Names of the calibrators without a temperature.
WITHOUT_TEMPERATURE = ("histogram", "isotonic", "bbq", "vector")


@cache
def exported_model(name: str) -> Any:
    """Calibrator fitted to the training rows; "batch-logits" without their features."""
    data = training_rows()
    features = None if name == "batch-logits" else data.features
    if name == "dac":
        features = features.astype(np.float64)  # scikit-learn rounds distances of float32 rows
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dc.DomaincalWarning)
        model = EXPORTED[name]().fit(
            data.logits, data.labels, features=features, domains=data.domains
        )
    if name == "dac":
        assert model.coef_ == 0.0
        model.coef_ = 0.5  # otherwise the distances would not count
    return model

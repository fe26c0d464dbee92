"""Test problems, reference solutions and calibrators that several tests share."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from sklearn.linear_model import LinearRegression
from threadpoolctl import threadpool_info

import domaincal as dc
from domaincal.statistics.domain_folds import similar_domain_folds


@dataclass(frozen=True)
class Problem:
    """Logits and labels."""

    logits: np.ndarray
    labels: np.ndarray


def random_problem(
    rng: np.random.Generator, n: int, n_classes: int, dtype: type = np.float64
) -> Problem:
    """Logits with a random scale and offset; labels drawn from their softmax at a random T."""
    logits = rng.normal(size=(n, n_classes)) * rng.uniform(0.5, 4.0)
    temperature = rng.uniform(0.4, 4.0)
    labels = np.argmax(logits / temperature + rng.gumbel(size=logits.shape), axis=1)
    scale = 10.0 ** rng.uniform(-2, 2)
    offset = rng.normal(size=(n, 1)) * scale
    return Problem((logits * scale + offset).astype(dtype), labels)


def slope(logits: np.ndarray, labels: np.ndarray, beta: float) -> float:
    """Mean slope of the NLL in beta, by its definition in float64."""
    z = np.asarray(logits, np.float64)
    z = z - z.max(axis=1, keepdims=True)
    p = np.exp(beta * z)
    p /= p.sum(axis=1, keepdims=True)
    return float(np.mean((p * z).sum(axis=1) - z[np.arange(len(z)), labels]))


def root_temperature(logits: np.ndarray, labels: np.ndarray) -> float:
    """Reference solution: T at the root of the slope, by brentq on log beta."""
    unit = np.asarray(logits, np.float64).std(axis=1).mean()
    u = brentq(
        lambda u: slope(logits, labels, np.exp(u) / unit),
        np.log(0.01), np.log(100.0), xtol=1e-15, rtol=1e-15, maxiter=500,
    )  # fmt: skip
    return float(unit / np.exp(u))


def blas_threads() -> list[int]:
    """Number of threads of the BLAS libraries of numpy and scipy.

    OpenCV brings one of its own, which domaincal does not use; other tests may have loaded it.
    """
    return [
        library["num_threads"]
        for library in threadpool_info()
        if library["user_api"] == "blas" and "opencv" not in library["filepath"]
    ]


def small_domains(seed: int = 0, **options: object) -> dc.CalibrationData:
    """Small multi-domain data set in float64."""
    settings = {"n_domains": 6, "n_rows": 80, "n_classes": 5, "n_features": 4, **options}
    data, _ = dc.make_multi_domain(random_state=seed, **settings)  # type: ignore[arg-type]
    return dc.CalibrationData(
        data.logits.astype(np.float64),
        labels=data.labels,
        features=data.features.astype(np.float64),
        domains=data.domains,
    )


def search_folds(data: dc.CalibrationData, max_folds: int = 5) -> list[list[object]]:
    """Domains of each fold of the searches of heads: clusters by the mean features."""
    means = [data.features[data.domains == name].mean(axis=0) for name in data.domain_names]
    folds = similar_domain_folds(np.array(means), max_folds)
    return [[n for n, f in zip(data.domain_names, folds, strict=True) if f == k]
            for k in range(folds.max() + 1)]  # fmt: skip


_MD_TS = dc.MultiDomainTemperatureScaling
#: Constructors of all calibrators and of their variants, by name.
CALIBRATORS = {
    "msp": dc.MaxSoftmax,
    "ts": dc.TemperatureScaling,
    "domain-ts": dc.DomainTemperatureScaling,
    "md-ts": _MD_TS,
    "md-ts-intercept": lambda: _MD_TS(fit_intercept=True),
    "md-ts-log": lambda: _MD_TS(target="log"),
    "md-ts-inverse": lambda: _MD_TS(target="inverse"),
    "md-ts-equal": lambda: _MD_TS(domain_weight="equal"),
    "md-ts-letter": lambda: _MD_TS(clip=None),
    "md-ts-logits": lambda: _MD_TS(features="logits"),
    "md-ts-ridge": lambda: _MD_TS("ridge"),
    "md-ts-ridge-intercept": lambda: _MD_TS("ridge", fit_intercept=True),
    "md-ts-ridge-fixed": lambda: _MD_TS("ridge", alpha=1.0),
    "md-ts-huber": lambda: _MD_TS("huber"),
    "md-ts-huber-intercept": lambda: _MD_TS("huber", fit_intercept=True),
    "md-ts-krr": lambda: _MD_TS("krr"),
    "md-ts-krr-intercept": lambda: _MD_TS("krr", fit_intercept=True),
    "md-ts-krr-nystroem": lambda: _MD_TS("krr", nystroem=40),
    "md-ts-knn": lambda: _MD_TS("knn"),
    "md-ts-knn-logits": lambda: _MD_TS("knn", features="logits"),
    "md-ts-instance": lambda: _MD_TS(LinearRegression()),
    "histogram": dc.HistogramBinning,
    "histogram-quantile": lambda: dc.HistogramBinning(strategy="quantile"),
    "histogram-rest": lambda: dc.HistogramBinning(scheme="one-vs-rest"),
    "isotonic": dc.IsotonicCalibration,
    "isotonic-rest": lambda: dc.IsotonicCalibration(scheme="one-vs-rest"),
    "bbq": dc.BayesianBinning,
    "bbq-rest": lambda: dc.BayesianBinning(scheme="one-vs-rest"),
    "batch": dc.BatchTemperatureScaling,
    "mixture": dc.DomainMixtureScaling,
    "shift-weighted": dc.ShiftWeightedScaling,
    "feature-ts": dc.FeatureTemperatureScaling,
    "transcal": dc.TransCal,
    "cpcs": dc.CPCS,
    "dac": dc.DAC,
    "vector": dc.VectorScaling,
}
#: Names of the calibrators without a temperature.
SCORE_MAPS = tuple(n for n in CALIBRATORS if n.startswith(("histogram", "isotonic", "bbq")))
#: Names of the calibrators that fit many candidates.
SLOW_TO_FIT = ("md-ts-huber", "md-ts-huber-intercept", "md-ts-krr", "md-ts-krr-intercept",
               "md-ts-krr-nystroem", "md-ts-knn", "md-ts-knn-logits", "shift-weighted",
               "feature-ts", "batch")  # fmt: skip


def given(data: dc.CalibrationData) -> dict[str, object]:
    """Features and domains, as keyword arguments of fit and predict."""
    return {"features": data.features, "domains": data.domains}


def fit(calibrator: object, data: dc.CalibrationData, **options: object) -> object:
    """Fit to all arrays of the data, passed one by one."""
    return calibrator.fit(data.logits, data.labels, **given(data), **options)  # type: ignore[attr-defined]


def fit_without_features(calibrator: object, data: dc.CalibrationData) -> object:
    """Fit to logits, labels and domains."""
    return calibrator.fit(data.logits, data.labels, domains=data.domains)  # type: ignore[attr-defined]


#: Models with other learned values than those of CALIBRATORS, as functions of the data.
FURTHER_MODELS = {
    "batch-row": lambda data: fit(dc.BatchTemperatureScaling(batch="row"), data),
    "batch-logits": lambda data: fit_without_features(dc.BatchTemperatureScaling(), data),
    "chosen": lambda data: fit(dc.AutoCalibration(batch_size=20), data),
}


def fitted_model(name: str, data: dc.CalibrationData) -> object:
    """Fitted calibrator of a name of CALIBRATORS or FURTHER_MODELS."""
    return FURTHER_MODELS[name](data) if name in FURTHER_MODELS else fit(CALIBRATORS[name](), data)


def temperatures(calibrator: object, data: dc.CalibrationData) -> np.ndarray:
    """Predicted temperatures; the arrays are passed one by one."""
    return calibrator.predict_temperature(data.logits, **given(data))  # type: ignore[attr-defined,no-any-return]


def probabilities(calibrator: object, data: dc.CalibrationData) -> np.ndarray:
    """Predicted probabilities; the arrays are passed one by one."""
    return calibrator.predict_proba(data.logits, **given(data))  # type: ignore[attr-defined,no-any-return]

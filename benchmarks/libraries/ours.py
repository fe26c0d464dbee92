"""domaincal."""

import tempfile
from functools import partial

import numpy as np

import domaincal as dc


def temperature(data: dict[str, np.ndarray]) -> float:
    return dc.TemperatureScaling().fit(data["logits"], data["labels"]).temperature_


def multi_domain(data: dict[str, np.ndarray], calibrator: object) -> float:
    """Fit on all rows; mean temperature of the first 1,000."""
    calibrator.fit(
        data["logits"], data["labels"], features=data["features"], domains=data["domains"]
    )
    first = {name: data[name][:1000] for name in ("logits", "features")}
    return float(calibrator.predict_temperature(**first).mean())


def mean_ece(data: dict[str, np.ndarray], calibrator: object) -> float:
    """Fit on all rows, predict all rows, the mean ECE of the domains: a line of an ablation."""
    given = {"features": data["features"], "domains": data["domains"]}
    calibrator.fit(data["logits"], data["labels"], **given)
    confidences = calibrator.predict_confidence(data["logits"], **given)
    hits = np.argmax(data["logits"], axis=1) == data["labels"]
    bins = dc.metrics.bins_by_domain(confidences, hits, data["domains"])
    return float(np.mean([sums.calibration_error() for sums in bins.values()]))


def binning(data: dict[str, np.ndarray]) -> float:
    return dc.metrics.confidence_calibration_error(data["confidences"], data["hits"])


def _estimate() -> tuple:
    """Predict the accuracy of each domain with the estimator of a model file.

    The estimator is fitted to the first 50,000 rows, saved and loaded before the clock starts.
    """
    loaded = []

    def prepare(data: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        first = dc.CalibrationData(**{name: array[:50_000] for name, array in data.items()})
        estimator = dc.shift.ConfidenceEstimator().fit(first)
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/model.safetensors"
            dc.shift.save_estimator(estimator, path, calibrator=dc.TemperatureScaling().fit(first))
            loaded.append(dc.shift.load_estimator(path))
        return data

    def predict(data: dict[str, np.ndarray]) -> float:
        given = {"features": data["features"], "domains": data["domains"]}
        return float(loaded[0].predict(data["logits"], **given)["predicted_accuracy"].mean())

    return prepare, predict


ESTIMATE = {"domaincal": _estimate()}
TEMPERATURE = {"domaincal": temperature}


def _fitted(data: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Fit the calibrators before the clock starts."""
    _CALIBRATORS.append(dc.TemperatureScaling().fit(data["logits"], data["labels"]))
    return data


_CALIBRATORS: list[dc.TemperatureScaling] = []
PREDICTIONS = {
    "predict_proba": (
        _fitted, lambda data: float(_CALIBRATORS[0].predict_proba(data["logits"])[0, 0])
    ),
    "predict_confidence": (
        _fitted, lambda data: float(_CALIBRATORS[0].predict_confidence(data["logits"])[0])
    ),
}  # fmt: skip
MULTI_DOMAIN = {
    name: partial(multi_domain, calibrator=calibrator)
    for name, calibrator in {
        "domaincal": dc.MultiDomainTemperatureScaling(clip=None),
        "BatchTemperatureScaling": dc.BatchTemperatureScaling(),
        "AutoCalibration, batches": dc.AutoCalibration(batch_size=100),
        "AutoCalibration, single rows": dc.AutoCalibration(),
    }.items()
}
ABLATION = {
    name: partial(mean_ece, calibrator=calibrator)
    for name, calibrator in {
        "TS": dc.TemperatureScaling(),
        "ols": dc.MultiDomainTemperatureScaling("ols"),
        "ridge": dc.MultiDomainTemperatureScaling("ridge"),
        "huber": dc.MultiDomainTemperatureScaling("huber"),
        "krr": dc.MultiDomainTemperatureScaling("krr"),
        "krr, 500 landmarks": dc.MultiDomainTemperatureScaling("krr", nystroem=500),
        "knn": dc.MultiDomainTemperatureScaling("knn"),
        "HistogramBinning": dc.HistogramBinning(),
        "IsotonicCalibration": dc.IsotonicCalibration(),
        "BayesianBinning": dc.BayesianBinning(),
        "HistogramBinning, one-vs-rest": dc.HistogramBinning(scheme="one-vs-rest"),
        "IsotonicCalibration, one-vs-rest": dc.IsotonicCalibration(scheme="one-vs-rest"),
        "BayesianBinning, one-vs-rest": dc.BayesianBinning(scheme="one-vs-rest"),
    }.items()
}
BINNING = {"domaincal": binning}


def _files(name: str) -> dict[str, tuple]:
    """Write and read one format; what is read was written before the clock starts."""
    folder = tempfile.TemporaryDirectory()
    path = f"{folder.name}/{name}"

    def rows(data: dict[str, np.ndarray]) -> dc.CalibrationData:
        return dc.CalibrationData(**data)

    def prepare(data: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        dc.write(rows(data), path)
        return data

    def write(data: dict[str, np.ndarray]) -> float:
        dc.write(rows(data), path)
        return float("nan")

    def read(_: dict[str, np.ndarray], *, keep: object = folder) -> float:
        return float(len(dc.read(path)))

    kind = name.removeprefix("scores") or "store"
    return {f"write {kind}": (dict, write), f"read {kind}": (prepare, read)}


FILES = {**_files("scores"), **_files("scores.npz"), **_files("scores.parquet")}


def _appends(n_shards: int) -> tuple:
    """Append to a store that has so many shards before the clock starts."""
    folder = tempfile.TemporaryDirectory()
    store = dc.Store(f"{folder.name}/scores")

    def prepare(data: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        for _ in range(n_shards):
            store.append(dc.CalibrationData(**data))
        return data

    def append(data: dict[str, np.ndarray], *, keep: object = folder) -> float:
        store.append(dc.CalibrationData(**data))
        return float(len(store))

    return prepare, append


APPENDS = {f"after {n} shards": _appends(n) for n in (10, 100, 2000)}


def _monitor(*, every: int = 500, with_domains: bool = False, **memory: float) -> tuple:
    """Watch a stream in blocks; the estimator is fitted before the clock starts."""
    fitted = {}

    def prepare(data: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        known = {name: values[:10_000] for name, values in data.items()}
        fitted["estimator"] = dc.shift.ConfidenceEstimator().fit(dc.CalibrationData(**known))
        return data

    def watch(data: dict[str, np.ndarray]) -> float:
        monitor = dc.TemperatureMonitor(fitted["estimator"], **memory)
        for start in range(0, len(data["logits"]), every):
            block = {name: data[name][start : start + every] for name in ("logits", "features")}
            if with_domains:
                block["domains"] = data["domains"][start : start + every]
            monitor.update(**block)
        return float(monitor.status()["predicted_accuracy"].mean())

    return prepare, watch


MONITOR = {
    "window of 1,000 rows": _monitor(window=1000),
    "the same, 20 domains": _monitor(window=1000, with_domains=True),
    "half-life of 300 rows": _monitor(half_life=300),
}

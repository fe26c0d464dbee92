"""netcal: takes probabilities, and moves only for float64 ones."""

import numpy as np
from netcal.scaling import TemperatureScaling
from scipy.special import softmax


def prepare_single(data: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {"probabilities": softmax(data["logits"], axis=1), "labels": data["labels"]}


def prepare_double(data: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return prepare_single({**data, "logits": data["logits"].astype(np.float64)})


def temperature(data: dict[str, np.ndarray]) -> float:
    calibrator = TemperatureScaling()
    calibrator.fit(data["probabilities"], data["labels"])
    return float(1.0 / np.asarray(calibrator.temperature).item())  # it holds 1 / T


TEMPERATURE = {
    "netcal": (prepare_single, temperature),
    "netcal, float64": (prepare_double, temperature),
}
MULTI_DOMAIN = {}
BINNING = {}

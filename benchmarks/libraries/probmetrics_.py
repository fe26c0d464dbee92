"""probmetrics: bisection on the slope, in torch."""

import numpy as np
import torch
from probmetrics.calibrators import TemperatureScalingCalibrator
from probmetrics.distributions import CategoricalLogits


def temperature(data: dict[str, np.ndarray]) -> float:
    calibrator = TemperatureScalingCalibrator()
    logits = CategoricalLogits(torch.from_numpy(data["logits"]))
    calibrator.fit_torch(logits, torch.from_numpy(data["labels"]))
    return float(1.0 / calibrator.invtemp_)


TEMPERATURE = {"probmetrics": temperature}
MULTI_DOMAIN = {}
BINNING = {}

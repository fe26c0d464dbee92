"""domaincal."""

import numpy as np

import domaincal as dc


def temperature(data: dict[str, np.ndarray]) -> float:
    return dc.TemperatureScaling().fit(data["logits"], data["labels"]).temperature_


def multi_domain(data: dict[str, np.ndarray]) -> float:
    calibrator = dc.MultiDomainTemperatureScaling(clip=None).fit(
        data["logits"], data["labels"], features=data["features"], domains=data["domains"]
    )
    first = {name: data[name][:1000] for name in ("logits", "features")}
    return float(calibrator.predict_temperature(**first).mean())


def binning(data: dict[str, np.ndarray]) -> float:
    return dc.confidence_calibration_error(data["confidences"], data["hits"])


TEMPERATURE = {"domaincal": temperature}
MULTI_DOMAIN = {"domaincal": multi_domain}
BINNING = {"domaincal": binning}

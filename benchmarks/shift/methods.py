"""Methods of the comparison."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import domaincal as dc

#: Sizes of the batches of a new domain; "domain" is all its rows.
BATCHES = (1, 5, 20, 100, "domain")
#: Names of methods that tables and figures treat in a special way.
TS, ORACLE, AUTO, BATCH = "TS", "oracle", "auto", "batch"


@dataclass(frozen=True)
class Method:
    """How a method is made, and for which batches it is scored.

    ``batches`` is empty for methods whose predictions do not depend on the other rows: they have
    one score for all sizes. ``make`` gets the size of the batches. ``on_device``: the fit gains
    from a GPU.
    """

    make: Callable[[Any], Any]
    batches: tuple[Any, ...] = ()
    features: bool = True
    on_device: bool = False


def _md_ts(**options: Any) -> Any:
    return dc.MultiDomainTemperatureScaling(**options)


TABLE_METHODS = {
    "MSP": Method(lambda size: dc.MaxSoftmax()),
    TS: Method(lambda size: dc.TemperatureScaling()),
    "vector scaling": Method(lambda size: dc.VectorScaling()),
    "isotonic": Method(lambda size: dc.IsotonicCalibration()),
    "DAC": Method(lambda size: dc.DAC()),
    "MD-TS": Method(lambda size: _md_ts(), on_device=True),
    "MD-TS log T": Method(
        lambda size: _md_ts(head="ridge", target="log", fit_intercept=True), on_device=True
    ),
    "mixture": Method(lambda size: dc.DomainMixtureScaling()),
    "feature TS": Method(lambda size: dc.FeatureTemperatureScaling()),
    # A classifier for each batch: smaller batches would take hours.
    "CPCS": Method(lambda size: dc.CPCS(), ("domain",)),
    "TransCal": Method(lambda size: dc.TransCal(), ("domain",)),
    "shift-weighted": Method(lambda size: dc.ShiftWeightedScaling(), BATCHES),
    "batch, logits only": Method(lambda size: dc.BatchTemperatureScaling(), BATCHES, False),
    BATCH: Method(lambda size: dc.BatchTemperatureScaling(), BATCHES),
    AUTO: Method(lambda size: dc.AutoCalibration(batch_size=size), BATCHES),
}
#: Without those that compare each row with all kept ones, fit a classifier for each batch, or learn
#: numbers for each of the 200 classes.
NETWORK_METHODS = {
    name: method
    for name, method in TABLE_METHODS.items()
    if name not in ("DAC", "CPCS", "TransCal", "vector scaling")
}
DRAW_METHODS = {
    name: TABLE_METHODS[name] for name in (TS, "MD-TS", "mixture", "feature TS", BATCH, AUTO)
}

"""Coverage of the certificate on random draws of domains, which are exchangeable."""

from pathlib import Path

import numpy as np
import pandas as pd

import domaincal as dc
from benchmarks.distance.cells import excess_and_ece
from benchmarks.shift.problems import N_BINS, Cell, load
from domaincal.shift import calibration_certificate

N_DRAWS = 10
#: Domains that are seen in a draw; the others are new.
N_SEEN = {"Digits-C": 20, "WISDM": 20, "FDU-MTL": 9}


def exchangeable_coverage(data: str, seed: int, folder: Path, cache: Path) -> pd.DataFrame:
    """Share of the new domains below the limit, and the mean limit, for TS."""
    rows = load(Cell(data, seed, "draw"), folder, cache)
    codes, names = rows.domain_codes
    hits = np.asarray(rows.logits).argmax(axis=1) == rows.labels
    records = []
    for draw in range(N_DRAWS):
        order = np.random.default_rng([seed, draw]).permutation(len(names))
        seen = order[: N_SEEN[data]]
        known = rows.select(np.flatnonzero(np.isin(codes, seen)))
        limit = calibration_certificate(dc.TemperatureScaling(), known, n_bins=N_BINS).limit
        confidence = dc.TemperatureScaling().fit(known).predict_confidence(rows)
        for k in order[N_SEEN[data] :]:
            own = codes == k
            ece = excess_and_ece(confidence[own], hits[own], N_BINS)[1]
            records.append((data, seed, draw, limit, ece <= limit))
    return pd.DataFrame(records, columns=["data", "seed", "draw", "limit", "below"])

"""Theorem 5.2 on synthetic domains whose risks are known."""

import numpy as np
import pandas as pd

import domaincal as dc
from domaincal.shift import risk_bound

N_ROWS, FEW_ROWS, N_REPEATS, N_CLASSES = 100_000, 500, 20, 5
#: Spread of the logits and true temperature of the known domains.
KNOWN = ((1.0, 1.0), (2.0, 1.3), (3.0, 1.6), (4.0, 2.0))
#: New domains, as lists of parts.
NEW = {
    "half of domain 1, half of domain 3": ((2.0, 1.3), (4.0, 2.0)),
    "between domains 2 and 3": ((3.5, 1.8),),
    "logits of domain 2, twice its temperature": ((3.0, 3.2),),
    "logits twice as spread, temperature of domain 2": ((6.0, 1.6),),
    "logits four times as spread, four times the temperature": ((12.0, 6.4),),
}
#: A grid that the data did not choose.
TEMPERATURES = 1.6 * 2.0 ** (np.arange(-4, 5) / 2)


def synthetic_bounds() -> pd.DataFrame:
    """Terms of the bound for each new domain, with many rows and with few."""
    many = _tables(N_ROWS, np.random.default_rng(0))
    few = [_tables(FEW_ROWS, np.random.default_rng(seed)) for seed in range(1, N_REPEATS + 1)]
    # The risk of many rows is taken for that of the distribution.
    true_risk = many["true_risk"].to_numpy()
    held = np.mean([true_risk <= table["bound"].to_numpy() for table in few], axis=0)
    return many.assign(
        few_bound=np.mean([table["bound"] for table in few], axis=0),
        few_held=held,
    )


def _tables(n_rows: int, random: np.random.Generator) -> pd.DataFrame:
    known = _rows({f"domain {k}": (part,) for k, part in enumerate(KNOWN)}, n_rows, random)
    new = _rows(NEW, n_rows, random)
    calibrator = dc.TemperatureScaling().fit(known)
    table = risk_bound(known, new, calibrator, temperatures=TEMPERATURES)
    return table.set_index("domain").loc[list(NEW)].reset_index()


def _rows(
    domains: dict[str, tuple[tuple[float, float], ...]], n_rows: int, random: np.random.Generator
) -> dc.CalibrationData:
    """Gaussian logits; labels drawn from softmax(logits / true temperature)."""
    logits, labels, names = [], [], []
    for name, parts in domains.items():
        for spread, temperature in parts:
            n = n_rows // len(parts)
            z = random.normal(0.0, spread, (n, N_CLASSES))
            logits.append(z)
            labels.append(np.argmax(z / temperature + random.gumbel(size=z.shape), axis=1))
            names += [name] * n
    return dc.CalibrationData(
        np.concatenate(logits).astype(np.float32), labels=np.concatenate(labels), domains=names
    )

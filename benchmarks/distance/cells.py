"""Distances, bounds, verdicts and certificates of the OOD domains of a cell."""

from pathlib import Path

import numpy as np
import pandas as pd

import domaincal as dc
from benchmarks.shift.problems import Cell, load, split
from domaincal.calibrators.softmax import confidences_at
from domaincal.shift import (
    CoveredDomains,
    GapHistograms,
    calibration_certificate,
    mixture_distances,
    risk_bound,
    two_sample_distance,
)
from domaincal.statistics import BinSums

#: OOD domains of a cell that are measured, drawn at random.
N_DOMAINS = 8
#: Rows of the batches on which the verdict is given, and how many of each size.
SIZES = {20: 4, 100: 4, "all": 1}
#: A domain is worse if its excess ECE is this much above the mean of the InD domains.
WORSE = 0.03
#: Grid of the distances to mixtures; that of the bound is the default, which is finer.
MULTIPLES = 2.0 ** (np.arange(-4, 5) / 2)
DISTANCES = ("divergence", "unexplained", "two_sample", "histograms")
#: The method with a fit for each left-out domain of the certificate: seeds that are measured.
BATCH_SEEDS = {"Digits-C": (0,), "WISDM": range(5), "FDU-MTL": range(5)}


def measure_cell(
    cell: Cell, folder: Path, cache: Path
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Distances and bounds of OOD domains; verdicts on batches of them; certificates."""
    data = load(cell, folder, cache)
    train, test = split(cell, data)
    random = np.random.default_rng(cell.seed)
    names = sorted(map(str, test.domain_names))
    chosen = random.permutation(names)[:N_DOMAINS]
    test = test.select(np.flatnonzero(np.isin(np.asarray(test.domains).astype(str), chosen)))
    calibrators = {
        "TS": dc.TemperatureScaling().fit(train),
        "batch": dc.BatchTemperatureScaling().fit(train),
    }
    known = np.isin(np.asarray(data.domains), train.domain_names)
    others = dc.split_halves(data.select(np.flatnonzero(known)), by="row", random_state=cell.seed)
    ind = {name: _errors(c, others[1], cell.n_bins) for name, c in calibrators.items()}
    cell_columns = {"data": cell.data, "partition": cell.partition, "seed": cell.seed}

    codes, inside = train.domain_codes
    pooled = calibrators["TS"].temperature_
    covered = CoveredDomains.fit(train.logits, codes, len(inside), pooled, random)
    domains = _domains(cell, train, test, calibrators, covered)
    for name, errors in ind.items():
        domains[f"ind_{name}"] = errors["excess"].mean()
    verdicts = _verdicts(cell, test, calibrators, covered, ind, random)
    certificates = _certificates(cell, train, domains)
    return tuple(  # type: ignore[return-value]
        table.assign(**cell_columns) for table in (domains, verdicts, certificates)
    )


def excess_and_ece(confidence: np.ndarray, hits: np.ndarray, n_bins: int) -> tuple[float, float]:
    """Excess over the floor, and ECE."""
    sums = BinSums.from_confidences(confidence, hits, n_bins=n_bins)
    return sums.excess_error(), sums.calibration_error()


def _errors(calibrator: object, data: dc.CalibrationData, n_bins: int) -> pd.DataFrame:
    """Excess and ECE of each domain, all its rows being one batch."""
    confidence = calibrator.predict_confidence(data)
    hits = np.asarray(data.logits).argmax(axis=1) == data.labels
    codes, names = data.domain_codes
    records = [
        excess_and_ece(confidence[codes == k], hits[codes == k], n_bins) for k in range(len(names))
    ]
    return pd.DataFrame(records, columns=["excess", "ece"], index=pd.Index(names))


def _domains(
    cell: Cell,
    train: dc.CalibrationData,
    test: dc.CalibrationData,
    calibrators: dict[str, object],
    covered: CoveredDomains,
) -> pd.DataFrame:
    table = risk_bound(train, test, calibrators["TS"]).set_index("domain")
    grid = covered.gaps.temperature * MULTIPLES
    mixed = mixture_distances(train, test, temperatures=grid).set_index("domain")
    table["bound_divergence"] = table["divergence"]
    table["divergence"] = mixed["divergence"]
    table["unexplained"] = mixed["unexplained"]
    table["two_sample"] = two_sample_distance(train, test).set_index("domain")["distance"]
    codes, names = test.domain_codes
    gaps = GapHistograms.from_rows(test.logits, codes, len(names), covered.gaps.temperature)
    table["histograms"] = pd.Series(covered.judge(gaps, gaps.n)["distance"].to_numpy(), names)
    for name, calibrator in calibrators.items():
        errors = _errors(calibrator, test, cell.n_bins)
        table[f"excess_{name}"], table[f"ece_{name}"] = errors["excess"], errors["ece"]
    return table.reset_index()


def _verdicts(
    cell: Cell,
    test: dc.CalibrationData,
    calibrators: dict[str, object],
    covered: CoveredDomains,
    ind: dict[str, pd.DataFrame],
    random: np.random.Generator,
) -> pd.DataFrame:
    """Verdict on batches of n rows, beside the error on all rows of the domain."""
    records = []
    for _, rows in test.by_domain():
        hits = np.asarray(rows.logits).argmax(axis=1) == rows.labels
        for size, n_batches in SIZES.items():
            for _ in range(n_batches):
                n = len(rows) if size == "all" else size
                batch = rows.select(random.permutation(len(rows))[:n])
                gaps = GapHistograms.from_rows(
                    batch.logits, np.zeros(n, np.int64), 1, covered.gaps.temperature
                )
                verdict = covered.judge(gaps, gaps.n)["verdict"][0]
                for name, calibrator in calibrators.items():
                    # The temperature of the batch, used for all rows of the domain.
                    t = float(calibrator.predict_temperature(batch)[0])
                    confidence = confidences_at(rows.logits, np.array([1.0 / t]))
                    excess, _ = excess_and_ece(confidence, hits, cell.n_bins)
                    worse = excess > ind[name]["excess"].mean() + WORSE
                    records.append((name, str(size), verdict, worse))
    return pd.DataFrame(records, columns=["method", "n", "verdict", "worse"])


def _certificates(cell: Cell, train: dc.CalibrationData, domains: pd.DataFrame) -> pd.DataFrame:
    """Upper limit of the ECE, and the share of the OOD domains below it."""
    records = []
    methods = {"TS": dc.TemperatureScaling()}
    if cell.seed in BATCH_SEEDS[cell.data]:
        methods["batch"] = dc.BatchTemperatureScaling()
    for name, calibrator in methods.items():
        limit = calibration_certificate(calibrator, train, n_bins=cell.n_bins).limit
        below = (domains[f"ece_{name}"] <= limit).sum()
        records.append((name, len(train.domain_names), limit, below, len(domains)))
    return pd.DataFrame(records, columns=["method", "n_ind", "limit", "below", "n_domains"])

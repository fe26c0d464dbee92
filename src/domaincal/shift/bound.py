"""The bound on the risk of a new domain (Theorem 5.2 of the paper, corrected), term by term.

docs/shift.md has the statement and the proof.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from domaincal._tensors import host_array
from domaincal._typing import Array, ArrayLike, FloatArray, IntArray
from domaincal._validation import check_number
from domaincal.calibrators.temperature_calibrator import TemperatureCalibrator
from domaincal.data import CalibrationData
from domaincal.shift.divergence import check_grid, grid_confidences
from domaincal.shift.gap_samples import GapSamples
from domaincal.shift.mixture_weights import default_grid
from domaincal.shift.rows_by_domain import hits_of, labelled_domains, new_domains

#: Columns of the table of :func:`risk_bound`, after ``domain`` and ``n``.
TERMS = (
    "temperature", "weighted_risk", "divergence", "complexity", "lambda", "bound", "true_risk",
    "largest_risk",
)  # fmt: skip


def risk_bound(
    known: CalibrationData,
    new: CalibrationData,
    calibrator: Any,
    *,
    delta: float = 0.05,
    temperatures: ArrayLike | None = None,
) -> pd.DataFrame:
    """Terms of the bound on the risk of a calibrator in each new domain.

    H is the set of the maps h_T of a grid of temperatures; h is the map of H that is nearest to
    the calibrator; the best map of a domain is the one of H whose mean confidence is nearest to
    the accuracy. With probability 1 - delta, for all h and all shares alpha of the known domains,

        risk of h in the new domain <= weighted_risk + divergence + complexity + lambda

    ==================  ========================================================================
    ``weighted_risk``   ``sum_k alpha_k r_k(h)`` with the risks r_k in the known domains, and the
                        alpha of :func:`mixture_weights`
    ``divergence``      ``b d``: d of :func:`divergence` between mixture and new domain, and the
                        largest possible gap ``b = 1 - 1 / n_classes``
    ``complexity``      ``b (2 sum_k alpha_k e_k + e)`` with ``e_k = sqrt(log(2 M (K + 1) / delta)
                        / (2 n_k))`` for M pairs of temperatures and K known domains, and e the
                        same for the new domain: finitely many rows
    ``lambda``          risk of the one map that is best for mixture and new domain together,
                        ``min_h sum_k alpha_k r_k(h) + r(h)``. It cannot be computed without the
                        labels of the new domain, and is then NaN
    ==================  ========================================================================

    The bound is for calibrators with one temperature for all rows of a domain. For others, the
    terms are NaN and the note says so.

    Parameters
    ----------
    known : CalibrationData
        Rows of the InD domains, with labels.
    new : CalibrationData
        Rows of the new domains. With labels, lambda and the true risk are computed. Without
        domains, all rows are one domain.
    calibrator : fitted calibrator
    delta : float, default 0.05
        Probability that the bound does not hold.
    temperatures : array, optional
        The grid. Default: 17 temperatures from a quarter of the pooled temperature of ``known`` to
        4 times it, in steps of 2^(1/4). It counts as chosen before the rows were seen.

    Returns
    -------
    DataFrame
        One row for each new domain: ``n``; ``temperature`` of h; the four terms; ``bound``, their
        sum (NaN without labels, where the first three are a lower limit of it); ``true_risk``
        (NaN without labels); ``largest_risk``, the risk if the worst temperature of the grid were
        the best one for the domain, which needs no theorem; ``note``, which says in words whether
        the bound says anything: only below ``largest_risk``.

    Examples
    --------
    >>> import domaincal as dc
    >>> data, _ = dc.make_multi_domain(n_domains=6, random_state=0)
    >>> known, new = dc.split_domains(data, ["domain-5"])
    >>> table = risk_bound(known, new, dc.TemperatureScaling().fit(known))
    >>> row = table.iloc[0]
    >>> bool(row["true_risk"] <= row["bound"])
    True
    >>> row["note"]
    'says nothing: the bound is 0.61, but no temperature of the grid has a risk above 0.41.'
    """
    delta = check_number(delta, "delta", low=0.0, high=1.0)
    codes, _, labels = labelled_domains(known, "risk_bound")
    grid = default_grid(known) if temperatures is None else check_grid(temperatures)
    risks = GridRisks.from_rows(known.logits, labels, codes, grid)
    records = []
    for name, rows in new_domains(new):
        of_h = _one_temperature(calibrator, rows)
        if of_h is None:
            terms, note = dict.fromkeys(TERMS, np.nan), _not_one_temperature(calibrator)
        else:
            h = int(np.argmin(np.abs(np.log(grid / of_h))))
            samples = GapSamples.from_rows(known.logits, codes, rows.logits, grid)
            terms = _terms(risks, samples, rows, h, grid, delta)
            note = _note(terms)
        records.append({"domain": name, "n": len(rows), **terms, "note": note})
    return pd.DataFrame(records)


@dataclass(frozen=True, eq=False)
class GridRisks:
    """Risks of the maps of a grid in each domain.

    Attributes
    ----------
    confidence : array of shape (n_domains, n_temperatures)
        Mean confidence of each domain at each temperature.
    best : array of int, shape (n_domains,)
        Number of the temperature whose mean confidence is nearest to the accuracy.
    """

    confidence: FloatArray
    best: IntArray

    @classmethod
    def from_rows(
        cls, logits: Array, labels: Array, codes: IntArray, grid: FloatArray
    ) -> GridRisks:
        """Risks in each domain; ``codes`` is the number of the domain of each row."""
        n = np.bincount(codes)
        hits = hits_of(logits, labels)
        accuracy = np.bincount(codes, hits) / n
        confidence = np.stack(
            [np.bincount(codes, c) / n for c in grid_confidences(logits, grid)], axis=1
        )
        best = np.argmin(np.abs(confidence - accuracy[:, None]), axis=1)
        return cls(confidence, best)

    @property
    def risks(self) -> FloatArray:
        """Risk of each map in each domain, shape (n_domains, n_temperatures).

        The confidence of every row falls with the temperature: the mean absolute gap of two maps
        is the absolute difference of their mean confidences.
        """
        own = np.take_along_axis(self.confidence, self.best[:, None], axis=1)
        return np.abs(self.confidence - own)


def _terms(
    known: GridRisks,
    samples: GapSamples,
    rows: CalibrationData,
    h: int,
    grid: FloatArray,
    delta: float,
) -> dict[str, float]:
    """Terms of the bound for one new domain and the map number ``h``."""
    alpha, smallest = samples.best_mixture()
    n_known, n_pairs = len(alpha), len(samples.order)
    widest_gap = 1.0 - 1.0 / rows.logits.shape[1]
    # One of M (K + 1) inequalities of Dvoretzky, Kiefer, Wolfowitz and Massart fails with
    # probability delta at most.
    error = np.sqrt(np.log(2.0 * n_pairs * (n_known + 1) / delta) / (2.0 * samples.n))
    mixed = alpha @ known.risks
    complexity = widest_gap * float(2.0 * alpha @ error[:-1] + error[-1])
    one_domain = np.zeros(len(rows), np.int64)
    joint, true_risk = np.nan, np.nan
    if rows.labels is not None:
        own = GridRisks.from_rows(rows.logits, rows.labels, one_domain, grid)
        confidence, own_risks = own.confidence[0], own.risks[0]
        joint, true_risk = float((mixed + own_risks).min()), float(own_risks[h])
    else:
        confidence = grid_confidences(rows.logits, grid).mean(axis=1)
    weighted, far = float(mixed[h]), widest_gap * smallest
    values = (
        float(grid[h]), weighted, far, complexity, joint, weighted + far + complexity + joint,
        true_risk, float(np.abs(confidence - confidence[h]).max()),
    )  # fmt: skip
    return dict(zip(TERMS, values, strict=True))


def _note(terms: dict[str, float]) -> str:
    """Whether the bound says anything."""
    without = terms["weighted_risk"] + terms["divergence"] + terms["complexity"]
    limit = f"no temperature of the grid has a risk above {terms['largest_risk']:.2f}."
    if np.isnan(terms["lambda"]):
        if without >= terms["largest_risk"]:
            return f"says nothing: the bound is {without:.2f} or more, but {limit}"
        return (
            f"the bound is {without:.2f} or more: lambda cannot be computed without labels. It "
            f"says something if lambda is below {terms['largest_risk'] - without:.2f}."
        )
    if terms["bound"] >= terms["largest_risk"]:
        return f"says nothing: the bound is {terms['bound']:.2f}, but {limit}"
    return (
        f"says something: the risk is at most {terms['bound']:.2f}, where temperatures of the grid "
        f"have risks up to {terms['largest_risk']:.2f}."
    )


def _one_temperature(calibrator: Any, rows: CalibrationData) -> float | None:
    """The temperature of all rows, or None if they have different ones or none."""
    if not isinstance(calibrator, TemperatureCalibrator):
        return None
    t = host_array(calibrator.predict_temperature(rows))
    same = np.ptp(t) <= 1e-9 * t[0]
    return float(t[0]) if same else None


def _not_one_temperature(calibrator: Any) -> str:
    kind = "temperatures that differ between the rows of a domain"
    if not isinstance(calibrator, TemperatureCalibrator):
        kind = "a map that is not a temperature"
    return f"does not apply: {type(calibrator).__name__} has {kind}."

"""Warnings of MD-TS about its head and its predictions."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np

from domaincal._row_arrays import MappedRows, RowArray, is_row_array
from domaincal._typing import FloatArray
from domaincal._warnings import warn_caller
from domaincal.calibrators.clipped_temperatures import warn_of_clipped_temperatures
from domaincal.calibrators.heads import JUDGED_FROM, HeadFit, HeadProblem
from domaincal.calibrators.temperature_target import TemperatureTarget
from domaincal.errors import (
    PoorHeadWarning,
    SmallDomainWarning,
    SubsampleWarning,
)
from domaincal.statistics import LabelledRows, TemperatureFit

# A head is poor if its NLL exceeds that of one temperature by more than this factor.
_POOR_HEAD_RATIO = 1.01


def warn_of_no_domain(pooled: TemperatureFit) -> None:
    """Warn that no domain has a temperature that can be used."""
    warn_caller(
        "no domain is left for the regression: every row gets the pooled temperature "
        f"{pooled.temperature[0]:.4g}, as in TemperatureScaling.",
        SmallDomainWarning,
    )


def warn_of_subsample(problem: HeadProblem, fit: HeadFit, *, head: object, max_rows: int) -> None:
    """Warn if the head was fitted to some of the rows only."""
    n_rows = problem.n_rows()
    if fit.n_rows == n_rows:
        return
    per_domain = max_rows // int(problem.used.sum())
    warn_caller(
        f"head={head!r} was fitted to {fit.n_rows} of {n_rows} rows, at most {per_domain} of each "
        f"domain; raise max_rows={max_rows} to use more.",
        SubsampleWarning,
    )


def warn_of_clipped_targets(values: FloatArray, target: TemperatureTarget) -> None:
    """Warn if many predicted targets are at, or beyond, the limits of the temperature."""
    low, high = np.sort(target.from_temperature(np.array([target.low, target.high])))
    warn_of_clipped_temperatures(
        int(np.sum((values <= low) | (values >= high))), len(values),
        low=target.low, high=target.high,
        reasons="other features than in the fit, features on another scale, rows from a domain "
        "unlike all domains of the fit, or a poor head (PoorHeadWarning in fit)",
    )  # fmt: skip


def warn_of_poor_head(
    rows: LabelledRows,
    predicted: Callable[[], FloatArray],
    pooled: TemperatureFit,
    fit: HeadFit,
    *,
    n_domains: int,
    suggestions: tuple[str, ...],
) -> None:
    """Warn if predicted temperatures have a higher NLL than one temperature for all rows.

    From 3 domains on, both are compared on domains that are left out of the fit. On the
    calibration rows, features that tell the domains apart fit any temperatures of few domains.
    With fewer domains, both are compared on the calibration rows, and on the domains held out by
    the search. ``predicted()`` is NaN for rows without a prediction.
    """
    data, ratio = "domains left out of the fit", _held_out_ratio(fit)
    if n_domains < JUDGED_FROM or np.isnan(ratio):
        in_sample = _nll_ratio(rows, predicted(), pooled)
        if in_sample > _POOR_HEAD_RATIO or np.isnan(ratio):
            data, ratio = "the calibration rows", in_sample
    if ratio > _POOR_HEAD_RATIO:
        advice = f"{', '.join(suggestions)} or another head" if suggestions else "another head"
        warn_caller(
            f"on {data}, the predicted temperatures are worse than one temperature for all rows "
            f"(NLL {ratio:.2f} times as high): try {advice}. If the features cannot distinguish "
            "the domains, use TemperatureScaling.",
            PoorHeadWarning,
        )


def _held_out_ratio(fit: HeadFit) -> float:
    """NLL of the head divided by that of one temperature, on held-out domains; NaN if unknown."""
    table = fit.search if len(fit.search) else fit.held_out
    nll, pooled = table["nll"].min(), table["nll_pooled"].min()
    return float(nll / pooled) if pooled > 0 else float("nan")


def _nll_ratio(rows: LabelledRows, predicted: FloatArray, pooled: TemperatureFit) -> float:
    """NLL of the predicted temperatures divided by that of the pooled one, on the same rows."""
    if is_row_array(predicted):
        return _nll_ratio_of_blocks(rows, predicted, pooled)
    sums = rows.sums(1.0 / predicted, per_row=True)
    pooled_nll = pooled.nll[0]
    if np.isnan(predicted).any():
        beta = np.where(np.isnan(predicted), np.nan, 1.0 / pooled.temperature)
        pooled_sums = rows.sums(beta, per_row=True)
        pooled_nll = pooled_sums.nll.sum() / pooled_sums.weight.sum()
    # If all rows are certain and right, both NLL are 0 and there is nothing to compare.
    return float(sums.nll.sum() / sums.weight.sum() / pooled_nll) if pooled_nll > 0 else 1.0


def _nll_ratio_of_blocks(rows: LabelledRows, predicted: RowArray, pooled: TemperatureFit) -> float:
    """The same for temperatures that are computed block by block."""
    beta = MappedRows(predicted.shape, np.float64, np.reciprocal, predicted)
    sums = rows.sums(cast(FloatArray, beta), per_row=True)
    nll = sums.nll.sum() / sums.weight.sum()
    return float(nll / pooled.nll[0]) if pooled.nll[0] > 0 else 1.0

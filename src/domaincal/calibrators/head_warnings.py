"""What a fitted head should tell its user."""

import warnings

import numpy as np

from domaincal._typing import FloatArray
from domaincal.calibrators.heads import HeadFit, HeadProblem
from domaincal.errors import PoorHeadWarning, SmallDomainWarning, SubsampleWarning
from domaincal.statistics import LabelledRows, TemperatureFit

# How much higher an NLL may be than that of one temperature for all.
_POOR_HEAD = 1.01


def warn_of_no_domain(pooled: TemperatureFit) -> None:
    """No domain has a temperature that can be used."""
    warnings.warn(
        "no domain is left for the regression: every row gets the pooled temperature "
        f"{pooled.temperature[0]:.4g}, as with TemperatureScaling.",
        SmallDomainWarning,
        stacklevel=4,
    )


def warn_of_subsample(problem: HeadProblem, fit: HeadFit, *, head: object, max_rows: int) -> None:
    """The head has not seen all rows."""
    available = len(problem.rows())
    if fit.n_rows == available:
        return
    each = max_rows // int(problem.used.sum())
    warnings.warn(
        f"head={head!r} has learned from {fit.n_rows} of {available} rows, {each} of each domain "
        f"that has so many; raise max_rows={max_rows} to use more.",
        SubsampleWarning,
        stacklevel=4,
    )


def warn_of_poor_head(
    rows: LabelledRows,
    predicted: FloatArray,
    pooled: TemperatureFit,
    fit: HeadFit,
    *,
    untried: tuple[str, ...],
) -> None:
    """Compare with one temperature for all: on the rows predicted, and on domains held out.

    ``predicted`` holds NaN for rows that were left out; ``untried`` is what may help.
    """
    sums = rows.sums(1.0 / predicted, one_each=True)
    nll = pooled.nll[0]
    if np.isnan(predicted).any():
        same = np.where(np.isnan(predicted), np.nan, 1.0 / pooled.temperature)
        at_pooled = rows.sums(same, one_each=True)
        nll = at_pooled.nll.sum() / at_pooled.weight.sum()
    # Rows that are all right beyond rounding have no NLL to compare.
    ratio = sums.nll.sum() / sums.weight.sum() / nll if nll > 0 else 1.0
    where = "the calibration rows"
    if not ratio > _POOR_HEAD and len(fit.search):
        ratio = fit.search["nll"].min() / fit.search["nll_pooled"].min()
        where = "domains held out in the search"
    if ratio > _POOR_HEAD:
        warnings.warn(
            f"the predicted temperatures suit {where} worse than one temperature for all (NLL "
            f"{ratio:.2f} times as high): try {', '.join(untried)}{' or ' if untried else ''}"
            "another head; if the features do not tell the domains apart, use TemperatureScaling.",
            PoorHeadWarning,
            stacklevel=4,
        )

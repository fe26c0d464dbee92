"""Warnings about rows that are so unlike those of the fit that their temperature is held back."""

from __future__ import annotations

from domaincal._warnings import warn_caller
from domaincal.errors import ClippedTemperatureWarning, FewClassesWarning

# Share of the rows that is reported, and the least number of rows for temperatures at a limit. Of
# fewer rows, a few unusual ones are a large share. Far rows are never usual.
_SHARE = 0.1
_N_ROWS = 20
_REASONS = (
    "other features than in the fit, features or logits on another scale, or rows from a domain "
    "unlike all domains of the fit"
)


def warn_of_clipped_temperatures(
    n_clipped: int, n_rows: int, *, low: float, high: float, reasons: str = _REASONS
) -> None:
    """Warn if more than a tenth of the predicted temperatures are at a limit."""
    # With equal limits, one temperature was learned for all rows.
    if low < high and n_rows >= _N_ROWS and n_clipped > _SHARE * n_rows:
        warn_caller(
            f"{_percent(n_clipped, n_rows)} of the {n_rows} predicted temperatures are at a limit "
            f"({low:.4g} or {high:.4g}). Likely reasons: {reasons}. Check the features; "
            "TemperatureScaling does not depend on them.",
            ClippedTemperatureWarning,
        )


def warn_of_far_rows(n_far: int, n_rows: int, *, temperature: float) -> None:
    """Warn if more than a tenth of the rows are in batches far from those of the fit."""
    if n_far > _SHARE * n_rows:
        warn_caller(
            f"{_percent(n_far, n_rows)} of the {n_rows} rows are in batches that are more than "
            "ten times as far from the middle of the calibration rows as any batch of the fit: "
            f"their temperatures tend to the pooled temperature {temperature:.4g}. Likely "
            f"reasons: {_REASONS}.",
            ClippedTemperatureWarning,
        )


def warn_of_few_classes(n_few: int, n_rows: int) -> None:
    """Warn if more than a tenth of the rows are in batches of far fewer classes than in the fit."""
    if n_few > _SHARE * n_rows:
        warn_caller(
            f"{_percent(n_few, n_rows)} of the {n_rows} rows are in batches that are predicted to "
            "be of far fewer classes than the batches of the fit, which are random rows of a "
            "domain. If these rows are consecutive, such as rows of one class, their temperatures "
            "are wrong: collect more rows, shuffle them, or use a method for single rows.",
            FewClassesWarning,
        )


def _percent(n: int, n_rows: int) -> str:
    return f"{100 * n / n_rows:.0f}%"

"""Options of the gates of ``domaincal evaluate``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    import pandas as pd

    from domaincal.cli.baseline import Baseline
    from domaincal.evaluation import Change, Gate


def fraction(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """Fraction, or percentage with its sign; without the sign, 5 would be a limit of 500%."""
    if value is None:
        return None
    text = value.strip()
    try:
        limit = float(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)
    except ValueError as error:
        raise click.BadParameter(f"{value!r} is not a number; write 0.05 or 5%.") from error
    if not -1.0 <= limit <= 1.0:
        # 80 is meant as 80%; what 120% or nan is meant to be, nobody knows.
        percent = limit if abs(limit) <= 100.0 and not text.endswith("%") else 5.0
        raise click.BadParameter(
            f"{value!r} is not a fraction; write {percent / 100.0:g} or {percent:g}%."
        )
    return limit


@dataclass(frozen=True)
class GateOptions:
    """Limits of the gates, and the score that they compare."""

    fail_above: float | None
    baseline: Path | None
    fail_worse: float | None
    fail_on: str | None
    worst: bool

    def __post_init__(self) -> None:
        if self.fail_worse is not None and self.baseline is None:
            raise click.UsageError("--fail-worse needs an earlier result; add --baseline FILE.")
        if (self.worst or self.fail_on) and self.fail_above is None and self.baseline is None:
            raise click.UsageError(
                "--worst and --fail-on say what to compare; add --fail-above or --baseline."
            )

    @property
    def _score(self) -> dict[str, Any]:
        return {"score": self.fail_on or "excess", "worst": self.worst}

    def read_baseline(self) -> Baseline | None:
        """Earlier result that --baseline names."""
        from domaincal.cli.baseline import read_baseline

        return None if self.baseline is None else read_baseline(self.baseline)

    def check(self, table: pd.DataFrame) -> Gate | None:
        """Compare the score of the last method with --fail-above."""
        from domaincal.evaluation import check_gate

        if self.fail_above is None:
            return None
        return check_gate(table, self.fail_above, **self._score)

    def check_change(self, table: pd.DataFrame, earlier: Baseline | None) -> Change | None:
        """Compare the score of the last method with --baseline; name domains that do not count."""
        from domaincal.cli.console import say
        from domaincal.errors import InputError
        from domaincal.evaluation import check_change

        if earlier is None:
            return None
        try:
            change = check_change(table, earlier.table, self.fail_worse, **self._score)
        except InputError as error:
            raise InputError(f"{earlier.path}: {error}") from error
        others = change.sentence_of_other_domains()
        if others:
            say(f"warning: {others}", err=True)
        return change

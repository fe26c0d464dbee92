"""What ``domaincal evaluate`` runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from domaincal.calibrators import load
from domaincal.cli.console import progress, say
from domaincal.cli.methods import default_methods, parse_methods
from domaincal.data import CalibrationData
from domaincal.data.splits import matching_domains
from domaincal.metrics import compare_methods
from domaincal.selection import (
    evaluate_leave_one_domain_out,
    evaluate_split,
    score_table,
    summary_table,
)


@dataclass(frozen=True)
class Evaluation:
    """The results table, its means, and how they came about."""

    table: pd.DataFrame
    means: pd.DataFrame
    protocol: dict[str, Any]
    sentence: str


def run(
    data: CalibrationData,
    *,
    methods: str | None,
    models: Sequence[Path],
    ood: Sequence[str],
    leave_one_out: bool,
    split: str | None,
    bins: int,
    seed: int,
) -> Evaluation:
    """Fit and score, or score what is fitted."""
    protocol: dict[str, Any] = {"n_bins": bins, "ood": list(ood)}
    if models:
        table = _score_models(data, models, ood, bins)
        protocol.update(protocol="models", models=[str(path) for path in models])
        return Evaluation(table, summary_table(table), protocol, "Scored on all rows.")
    written = methods or default_methods(data)
    calibrators = parse_methods(written)
    by: Any = split or ("row" if data.groups is None else "group")
    protocol.update(methods=list(calibrators), split=by, seed=seed)
    with progress("fitting and scoring") as track:
        if leave_one_out:
            protocol["protocol"] = "leave one domain out"
            table = evaluate_leave_one_domain_out(
                calibrators, data, by=by, n_bins=bins, random_state=seed, track=track
            )
            sentence = "Each domain was scored by methods fitted on all others"
            if by == "group":
                sentence += ", on the groups that they had not seen"
        else:
            protocol["protocol"] = "halves"
            table = evaluate_split(
                calibrators, data, ood=ood, by=by, n_bins=bins, random_state=seed, track=track
            )
            half = "domain" if by == "row" else "domain, by groups"
            sentence = f"Fitted on a random half of every {'InD ' if ood else ''}{half}; scored on "
            sentence += "the other half" + (" and on the OOD domains" if ood else "")
    return Evaluation(table, summary_table(table), protocol, sentence + ".")


def compare_last(table: pd.DataFrame) -> list[dict[str, Any]]:
    """The last method against each other one, by ECE, for each kind of domains."""
    methods = table["method"].unique().tolist()
    found = []
    for kind in table["kind"].unique().tolist():
        rows = table[table["kind"] == kind]
        for other in methods[:-1]:
            result = compare_methods(rows, methods[-1], other, score="ece")
            found.append(
                {"kind": kind, "method": methods[-1], "against": other, **result._asdict()}
            )
    return found


def _score_models(
    data: CalibrationData, models: Sequence[Path], ood: Sequence[str], bins: int
) -> pd.DataFrame:
    fitted = {}
    for path in models:
        name = path.stem if path.stem not in fitted else str(path)
        fitted[name] = load(path)
        if fitted[name].data_fingerprint_ == data.fingerprint():
            say(
                f"warning: {path} was fitted on these very rows; its scores are too good.",
                err=True,
            )
    table = score_table(fitted, data, n_bins=bins)
    outside = matching_domains(data, ood) if ood else np.array([])
    kind = np.where(table["domain"].isin(outside.tolist()), "OOD", "InD")
    return table.assign(kind=kind)

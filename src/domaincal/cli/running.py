"""What ``domaincal evaluate`` runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from domaincal.calibrators import load
from domaincal.cli.console import progress, say
from domaincal.cli.methods import default_methods, parse_methods, require_needs
from domaincal.cli.options import Rows
from domaincal.data import CalibrationData
from domaincal.data.splits import matching_domains, split_by
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
    rows: Rows,
    *,
    methods: str | None,
    models: Sequence[Path],
    ood: Sequence[str],
    leave_one_out: bool,
    split: Any,
    bins: int,
    seed: int,
) -> Evaluation:
    """Fit and score, or score what is fitted."""
    data = rows.data
    rows.require("labels", why="without which nothing can be scored")
    if ood or leave_one_out:
        rows.require("domains", why="of which some are to be left out")
    if split == "group":
        rows.require("groups", why="by which to split")
    if data.domains is None:
        left_out = "" if methods or models else ", and MD-TS is left out"
        say(f"warning: {rows.lacks('domains')}: all rows count as one{left_out}.", err=True)
    protocol: dict[str, Any] = {"n_bins": bins, "ood": list(ood)}
    if models:
        table = _score_models(data, models, ood, bins)
        protocol.update(protocol="models", models=[str(path) for path in models])
        return Evaluation(table, summary_table(table), protocol, "Scored on all rows.")
    calibrators = parse_methods(methods or default_methods(data))
    for written, calibrator in calibrators.items():
        require_needs(calibrator, written, rows)
    by = split_by(data, split)
    protocol.update(methods=list(calibrators), split=by, seed=seed)
    with progress("fitting and scoring") as track:
        if leave_one_out:
            protocol["protocol"] = "leave one domain out"
            table = evaluate_leave_one_domain_out(
                calibrators, data, by=by, n_bins=bins, random_state=seed, track=track
            )
        else:
            protocol["protocol"] = "halves"
            table = evaluate_split(
                calibrators, data, ood=ood, by=by, n_bins=bins, random_state=seed, track=track
            )
    return Evaluation(table, summary_table(table), protocol, _sentence(protocol, data))


def _sentence(protocol: dict[str, Any], data: CalibrationData) -> str:
    """What was fitted and what was scored."""
    by_group, ood = protocol["split"] == "group", protocol["ood"]
    if protocol["protocol"] == "leave one domain out":
        groups = ", on groups that they had not seen" if by_group else ""
        return f"Each domain was scored by methods fitted on all others{groups}."
    if by_group:
        where = "InD domains" if ood else "all domains"
        others = ", in InD and OOD ones" if ood else ""
        return (
            f"Fitted on a random half of the groups, in {where}; scored on the other half{others}."
        )
    if data.domains is None:
        return "Fitted on a random half of the rows; scored on the other half."
    where = "InD domain" if ood else "domain"
    others = " and on the OOD domains" if ood else ""
    return f"Fitted on a random half of every {where}; scored on the other half{others}."


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
    outside = set(matching_domains(data, ood).tolist()) if ood else set()
    seen = {
        name
        for model in fitted.values()
        for name in getattr(model, "domain_temperatures_", pd.Series(dtype=float)).index
    }
    if (
        seen and data.domains is not None
    ):  # a model that knows its domains tells those that are new to it
        outside |= set(table["domain"]) - seen
    return table.assign(kind=np.where(table["domain"].isin(outside), "OOD", "InD"))

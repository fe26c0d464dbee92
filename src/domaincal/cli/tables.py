"""Results as text and tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from rich.markup import escape
from rich.table import Table

from domaincal._wording import few
from domaincal.cli.console import print_table, printable, records, say

if TYPE_CHECKING:
    from domaincal.evaluation.gate import Gate
    from domaincal.io import Inspection
    from domaincal.metrics import MethodComparison
    from domaincal.vision.networks.header import NetworkHeader

_KINDS = ("InD", "OOD")
_LEGEND = (
    "Floor: expected ECE of a calibrated model; excess: ECE - floor; gap: |mean confidence - "
    "accuracy|. All but NLL in %."
)
# Of more domains, only the worst are printed; --json has all.
_SHOWN_DOMAINS = 60
_WORST_DOMAINS = 20
_SHOWN_NAMES = 12


def print_evaluation(
    sentence: str,
    table: pd.DataFrame,
    means: pd.DataFrame,
    comparisons: list[tuple[str, list[MethodComparison]]],
    gate: Gate | None,
    *,
    n_bins: int,
) -> None:
    """Print ECE of each domain and method, means over domains, comparisons and the gate.

    A comparison is a list of the same two methods compared by ECE and by other scores.
    """
    say(sentence)
    accuracy = table.drop_duplicates("domain").set_index("domain")["accuracy"]
    worst = _worst_domains(table)
    title = f"ECE of each domain in %, {n_bins} bins"
    if len(worst) < table["domain"].nunique():
        say(
            f"Shown: the worst {len(worst)} of {table['domain'].nunique()} domains; --json prints "
            "all."
        )
    shown = table[table["domain"].isin(worst)]
    print_table(_ece_table(shown, title, {"accuracy %": accuracy.map(_percent)}))
    print_table(_means_table(means))
    say(_LEGEND)
    for kind, (found, *others) in comparisons:
        say(f"{kind}: {found.sentence(*others)}.")
    if gate is not None:
        say(gate.sentence())


def print_inspection(found: Inspection) -> None:
    """Print the contents of a data file."""
    features = "no features" if found.n_features is None else f"{found.n_features} features"
    say(
        f"{found.path} ({found.format}): {found.n_rows} rows, {found.n_classes} classes, "
        f"{features}, {len(found.domains)} domain{'s' if len(found.domains) > 1 else ''}"
    )
    say("arrays: " + ", ".join(f"{name} ({dtype})" for name, dtype in found.arrays.items()))
    for text, names in (("classes", found.class_names), ("features", found.feature_names)):
        if names is not None:
            say(f"{text}: {few(names, _SHOWN_NAMES)}")
    for key, value in found.provenance.items():
        say(f"{key}: {value}")
    say(f"fingerprint: {found.fingerprint}")
    if found.ignored:
        say("ignored: " + few(found.ignored, _SHOWN_NAMES))
    table = _table("Domains, before calibration", "domain", "n", "accuracy %", "confidence %",
                   "classes")  # fmt: skip
    for row in records(found.domains.head(_SHOWN_DOMAINS)):
        table.add_row(
            _name(row["domain"]), str(row["n"]), _percent(row["accuracy"]),
            _percent(row["mean_confidence"]), str(row["classes"]),
        )  # fmt: skip
    print_table(table)
    if len(found.domains) > _SHOWN_DOMAINS:
        say(f"and {len(found.domains) - _SHOWN_DOMAINS} more domains; --json prints all.")
    for finding in found.findings:
        say(f"finding: {finding}")
    if not found.findings:
        say("No problems found.")


def print_model(calibrator: Any) -> None:
    """Print what a calibrator has learned."""
    say(repr(calibrator))
    _print_facts({**calibrator.summary(), "fitted on": calibrator.data_fingerprint_})
    if calibrator.provenance_ is not None:
        for line in calibrator.provenance_.lines():
            say(line)


def print_network(path: Path, network: NetworkHeader) -> None:
    """Print the architecture, classes, image size and training of a network."""
    say(f"{path} (network): {network.name}")
    names = network.class_names
    classes = (
        "those of timm's weights" if names is None else f"{len(names)}: {few(names, _SHOWN_NAMES)}"
    )
    origin = {key.replace("_", " "): _fact(key, value) for key, value in network.provenance.items()}
    trained = {} if "epochs" in network.provenance else {"trained": "no"}
    side = f"{network.preprocessing['side']} px"
    _print_facts({"classes": classes, "side": side, **origin, **trained})


def _fact(key: str, value: Any) -> str:
    """Text of one entry of a network's provenance."""
    if key == "accuracy":
        return "not measured" if value is None else f"{_percent(value)}%"
    if isinstance(value, dict):
        return ", ".join(f"{name} {part}" for name, part in value.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value)


def _print_facts(facts: dict[str, str]) -> None:
    width = max(map(len, facts))
    for name, value in facts.items():
        say(f"  {name:{width}}  {value}")


def _ece_table(table: pd.DataFrame, title: str, extra: dict[str, pd.Series[str]]) -> Table:
    methods = table["method"].unique().tolist()
    out = _table(title, "domain", "n", *extra, *methods)
    for kind in _KINDS:
        rows = table[table["kind"] == kind]
        if rows.empty:
            continue
        out.add_row(f"[bold]{kind} domains[/]")
        for domain, part in rows.groupby("domain"):
            ece = part.set_index("method")["ece"]
            out.add_row(
                _name(domain),
                str(part["n"].iloc[0]),
                *(column[domain] for column in extra.values()),
                *(_percent(ece[method]) for method in methods),
            )
        out.add_section()
    return out


def _means_table(means: pd.DataFrame) -> Table:
    table = _table("Mean over domains ± standard error", "", "domains", "ECE %", "worst", "floor",
                   "excess", "gap", "NLL")  # fmt: skip
    for _, rows in means.groupby("kind", sort=False):
        for row in records(rows):
            table.add_row(
                _name(f"{row['kind']} {row['method']}"),
                str(row["n_domains"]),
                _with_error(row["ece"], row["ece_standard_error"]),
                *(_percent(row[score]) for score in ("worst_ece", "floor", "excess", "gap")),
                f"{row['nll']:.3f}",
            )
        table.add_section()
    return table


def _worst_domains(table: pd.DataFrame) -> list[Any]:
    """All domains or, if there are many, those where the last method has the largest ECE."""
    if table["domain"].nunique() <= _SHOWN_DOMAINS:
        return list(table["domain"].unique())
    last = table[table["method"] == table["method"].iloc[-1]]
    return list(last.nlargest(_WORST_DOMAINS, "ece")["domain"])


def _table(title: str, first: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column(first, overflow="fold", max_width=60)
    for column in columns:
        table.add_column(_name(column), justify="right", no_wrap=True)
    return table


def _name(name: object) -> str:
    """Name with the markup of rich escaped."""
    return escape(printable(name))


def _with_error(value: float, error: float) -> str:
    return _percent(value) if error != error else f"{_percent(value)} ± {_percent(error)}"


def _percent(value: float) -> str:
    return "" if value != value else f"{100 * value:.2f}"

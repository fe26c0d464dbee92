"""Files, calibrators and networks as text and tables."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domaincal._wording import few
from domaincal.cli.console import records, say
from domaincal.cli.method_options import short_names
from domaincal.cli.table_layout import Section, print_numbers

if TYPE_CHECKING:
    from domaincal.io import Inspection
    from domaincal.vision.networks.header import NetworkHeader

# Of more domains, only the first are printed; --json has all.
_SHOWN_DOMAINS = 60
_SHOWN_NAMES = 12


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
    rows = [
        [
            row["domain"], str(row["n"]), percent(row["accuracy"]),
            percent(row["mean_confidence"]), str(row["classes"]),
        ]
        for row in records(found.domains.head(_SHOWN_DOMAINS))
    ]  # fmt: skip
    columns = ["domain", "n", "accuracy %", "confidence %", "classes"]
    print_numbers("Domains, before calibration", columns, [Section("", rows)])
    if len(found.domains) > _SHOWN_DOMAINS:
        say(f"and {len(found.domains) - _SHOWN_DOMAINS} more domains; --json prints all.")
    for finding in found.findings:
        say(f"finding: {finding}")
    if not found.findings:
        say("No problems found.")


def print_model(calibrator: Any, floor: float | None, estimator: Any) -> None:
    """Print what a calibrator has learned, and what else its file holds."""
    from domaincal.cli.model_estimator import estimator_sentence

    names, text = short_names(), " ".join(repr(calibrator).split())  # repr breaks long lines
    say(f"{names[type(calibrator).__name__]}: {text}")
    facts = {**calibrator.summary(), "fitted on": calibrator.data_fingerprint_}
    if floor is not None:
        facts["floor"] = f"{floor} of probabilities"
    if estimator is not None:
        facts["accuracy of new domains"] = estimator_sentence(estimator)
    print_facts(facts)
    selection = calibrator.provenance_
    if selection is not None:
        for line in replace(selection, table=selection.table.replace({"method": names})).lines():
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
    print_facts({"classes": classes, "side": side, **origin, **trained})


def _fact(key: str, value: Any) -> str:
    """Text of one entry of a network's provenance."""
    if key == "accuracy":
        return "not measured" if value is None else f"{percent(value)}%"
    if isinstance(value, dict):
        return ", ".join(f"{name} {part}" for name, part in value.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value)


def print_facts(facts: dict[str, str]) -> None:
    """Print named facts, one on a line."""
    width = max(map(len, facts))
    for name, value in facts.items():
        say(f"  {name:{width}}  {value}", indent=" " * (width + 4))


def percent(value: float) -> str:
    """Fraction in %, without the sign; empty for NaN."""
    return "" if value != value else f"{100 * value:.2f}"

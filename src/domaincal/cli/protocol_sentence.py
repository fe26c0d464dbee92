"""Sentences about the rows that ``domaincal evaluate`` has fitted and scored."""

from __future__ import annotations

from typing import Any

from domaincal._wording import few


def protocol_sentence(protocol: dict[str, Any], *, has_domains: bool) -> str:
    """Sentences that say which rows were fitted and scored, and in which batches."""
    sentence = _rows_sentence(protocol, has_domains=has_domains)
    methods = protocol["batch_methods"]
    if methods:
        rows = "of a domain " if has_domains else ""
        sentence += f" All scored rows {rows}are one batch for {few(methods, 4)}."
    for name, size in protocol.get("chosen_for", {}).items():
        sentence += (
            f" {name} was chosen for batches of {size} rows; domaincal report --model scores "
            "batches of that size."
        )
    return sentence


def _rows_sentence(protocol: dict[str, Any], *, has_domains: bool) -> str:
    """Sentence that says which rows were fitted and which were scored."""
    if protocol["protocol"] == "models":
        return "Scored on all rows."
    by_group, ood = protocol["split"] == "group", protocol["ood"]
    if protocol["protocol"] == "leave one domain out":
        return _left_out_sentence(protocol["folds"], by_group=by_group)
    if by_group:
        where = "InD domains" if ood else "all domains"
        others = ", in InD and OOD domains" if ood else ""
        return (
            f"Fitted on a random half of the groups, in {where}; scored on the other half{others}."
        )
    if not has_domains:
        return "Fitted on a random half of the rows; scored on the other half."
    where = "InD domain" if ood else "domain"
    others = " and on the OOD domains" if ood else ""
    return f"Fitted on a random half of every {where}; scored on the other half{others}."


def _left_out_sentence(folds: int | None, *, by_group: bool) -> str:
    groups = ", on groups that were not fitted" if by_group else ""
    if folds is None:
        return f"Each domain was scored with methods fitted on all other domains{groups}."
    return (
        f"The domains were dealt at random into {folds} folds; each fold was scored with methods "
        f"fitted on the domains of all other folds{groups}."
    )

"""Earlier result of ``domaincal evaluate --json``, for ``--baseline``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from domaincal._files import open_file
from domaincal._wording import few
from domaincal.errors import FileFormatError, InputError

_DOCUMENT, _VERSION = "domaincal evaluation", 1
_SCORES = ("ece", "excess", "gap")
# Entries of the protocol that must be the same, with their options.
_OPTIONS = {
    "n_bins": "--bins", "ood": "--ood", "split": "--split", "folds": "--folds", "seed": "--seed",
}  # fmt: skip
_MAKE = "make it with domaincal evaluate ... --json > FILE"


@dataclass(frozen=True, eq=False)
class Baseline:
    """Data, protocol and results table of an earlier evaluation."""

    path: Path
    data: dict[str, Any]
    protocol: dict[str, Any]
    table: pd.DataFrame

    def require(self, data: dict[str, Any], protocol: dict[str, Any], method: str) -> None:
        """Raise an error if the earlier evaluation cannot be compared with one like this."""
        self._require_data(data)
        if self.protocol.get("protocol") != protocol["protocol"]:
            raise InputError(
                f"{self.path} has the protocol {self.protocol.get('protocol')!r}, this evaluation "
                f"{protocol['protocol']!r}; evaluate both in the same way."
            )
        for key, option in _OPTIONS.items():
            before, now = self.protocol.get(key), protocol.get(key)
            if before != now:
                raise InputError(
                    f"{self.path} was made {_with(option, before)}, this evaluation "
                    f"{_with(option, now)}; use the same, or make a new baseline."
                )
        methods = self.table["method"].unique().tolist()
        if method not in methods:
            raise InputError(
                f"{self.path} has no method {method!r}, only {few(map(repr, methods), 8)}; make a "
                "new baseline, or name one of these last."
            )

    def _require_data(self, data: dict[str, Any]) -> None:
        """Refuse another number of classes, and another floor of probabilities."""
        before, now = self.data.get("n_classes"), data["n_classes"]
        if before != now:
            raise InputError(
                f"{self.path} was made from scores of {before} classes, this evaluation from "
                f"scores of {now}; make a new baseline."
            )
        before, now = self.data.get("floor"), data["floor"]
        if before is not None and now is not None and before != now:
            raise InputError(
                f"{self.path} was made {_with('--floor', before)}, this evaluation "
                f"{_with('--floor', now)}; use the same, or make a new baseline."
            )


def read_baseline(path: Path) -> Baseline:
    """Read what ``domaincal evaluate --json`` printed."""
    with open_file(path) as file:
        try:
            document = json.load(file)
        except (ValueError, RecursionError) as error:
            raise FileFormatError(
                f"{path} is not JSON; --baseline must be what evaluate --json printed: {_MAKE}."
            ) from error
    if isinstance(document, list):
        raise FileFormatError(f"{path} is a table (from -o); --baseline needs a document: {_MAKE}.")
    if not isinstance(document, dict) or document.get("document") != _DOCUMENT:
        raise FileFormatError(f"{path} is not a document of evaluate; {_MAKE}.")
    version = document.get("version")
    if not isinstance(version, int) or version > _VERSION:
        raise FileFormatError(
            f"{path} has version {version!r} of the document, newer than {_VERSION}, which this "
            "version of domaincal reads; install a newer domaincal."
        )
    data, protocol, rows = document.get("data"), document.get("protocol"), document.get("table")
    if not (isinstance(data, dict) and isinstance(protocol, dict) and isinstance(rows, list)):
        data, protocol, rows = {}, {}, []
    if not rows:
        raise FileFormatError(f"{path} has no data, no protocol or no table; {_MAKE}.")
    return Baseline(path, data, protocol, _results_table(rows, path))


def _results_table(rows: list[Any], path: Path) -> pd.DataFrame:
    """Table of the rows of a document; null becomes NaN."""
    for k, row in enumerate(rows):
        is_row = isinstance(row, dict) and (
            isinstance(row.get("method"), str)
            and isinstance(row.get("domain"), str | int)
            and row.get("kind") in ("InD", "OOD")
            and all(_is_score(row.get(score, "")) for score in _SCORES)
        )
        if not is_row:
            raise FileFormatError(f"row {k} of the table of {path} is damaged; {_MAKE}.")
    columns = ["method", "domain", "kind", *_SCORES]
    table = pd.DataFrame([[row[name] for name in columns] for row in rows], columns=columns)
    return table.astype(dict.fromkeys(_SCORES, "float64"))


def _is_score(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and -1.0 <= value <= 1.0)


def _with(option: str, value: Any) -> str:
    """Text of an option and its value, such as "with --bins 15"."""
    if value is None or value == []:
        return f"without {option}"
    values = value if isinstance(value, list) else [value]
    return "with " + " ".join(f"{option} {one}" for one in values)

"""Contents of a data file, domain by domain, and problems of its rows."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd

from domaincal._notebook_view import notebook_view
from domaincal._row_arrays import CodedRows
from domaincal._typing import Array
from domaincal._validation import look_like_probabilities
from domaincal._warnings import handle_warnings, warn_caller
from domaincal._wording import few, named_count
from domaincal.data import BlockedRows
from domaincal.data.column_choice import ColumnChoice, Columns, said
from domaincal.errors import RoundedProbabilitiesWarning
from domaincal.io.addresses import shown
from domaincal.io.domain_drawing import draw_domains
from domaincal.io.formats import read_rows
from domaincal.io.memory_rows import rows_in_memory
from domaincal.io.opened_rows import OpenedRows, is_streamed, open_rows
from domaincal.io.row_facts import MASK_SPAN, OUTLIER_RATIO, FeatureFacts, RowFacts
from domaincal.io.standard_input import STDIN, STDIN_NAME
from domaincal.statistics.temperature_solver import MINIMUM_ROWS

# Features are nearly centred if their squared mean is below this share of their mean square.
_CENTRED_SHARE = 0.02
_SHOWN = 5
# Memory that the facts about one row take, in bytes.
_WORK_FOR_ROW = 250


@dataclass(frozen=True, eq=False)
class Inspection:
    """Result of :func:`inspect`.

    Attributes
    ----------
    path, format : str
    n_rows, n_classes : int
    n_features : int or None
    arrays : dict from names of arrays to their dtypes
    class_names, feature_names : tuple of str or None
    provenance : dict
    fingerprint : str
        Text that tells these rows from others; calibrators store that of their training rows.
    domains : DataFrame
        One row for each domain: domain, n, accuracy and mean_confidence of the uncalibrated softmax
        (accuracy is NaN without labels), classes (number of different labels), not_finite (number
        of rows with NaN or infinity).
    findings : tuple of str
        Possible problems, each with its cure.
    ignored : tuple of str
        Names of the other arrays or columns of the file.
    columns : dict from names of arrays to lists of str
        Columns of a table, or the array of a file, that hold each array, in their order.
    """

    path: str
    format: str
    n_rows: int
    n_classes: int
    n_features: int | None
    arrays: dict[str, str]
    class_names: tuple[str, ...] | None
    feature_names: tuple[str, ...] | None
    provenance: dict[str, Any]
    fingerprint: str
    domains: pd.DataFrame
    findings: tuple[str, ...]
    ignored: tuple[str, ...]
    columns: dict[str, list[str]]

    def _repr_html_(self) -> str:
        """HTML for notebooks: facts, findings, and the accuracy of each domain."""
        title = f"Inspection({self.path}: {self.n_rows} rows, {self.n_classes} classes)"
        facts = {
            "format": self.format,
            "arrays": ", ".join(f"{name} ({dtype})" for name, dtype in self.arrays.items()),
            "classes": named_count(self.n_classes, self.class_names),
            "features": named_count(self.n_features or 0, self.feature_names),
            "domains": str(len(self.domains)),
        }
        if self.ignored:
            facts["ignored"] = few(self.ignored, _SHOWN)
        for number, finding in enumerate(self.findings, 1):
            facts[f"finding {number}"] = finding
        if not self.findings:
            facts["findings"] = "none"
        return notebook_view(title, facts, draw_domains(self.domains))


def inspect(
    path: str | os.PathLike[str],
    *,
    logits: Columns | None = None,
    probabilities: Columns | None = None,
    features: Columns | None = None,
    label: str | None = None,
    domain: str | None = None,
    group: str | None = None,
    id: str | None = None,
    class_names: Sequence[str] | None = None,
    floor: float | None = None,
    verify: bool = False,
    max_memory: float | str | None = None,
) -> Inspection:
    """Describe a data file and list possible problems; parameters are those of :func:`read`.

    Values that are not finite are counted. (:func:`read` refuses such a file.) As for
    :func:`read`, the memory is limited to 256 MiB, or 100 times the size of the file if that is
    more, unless ``max_memory`` says otherwise.

    Examples
    --------
    >>> import tempfile, domaincal as dc
    >>> data, _ = dc.make_multi_domain(n_domains=3, n_rows=100, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     dc.write(data, folder + "/scores.npz")
    ...     found = dc.inspect(folder + "/scores.npz")
    >>> found.n_rows, found.domains["n"].tolist(), found.findings
    (300, [100, 100, 100], ())
    """
    choice = ColumnChoice(
        logits=logits, probabilities=probabilities, features=features, label=label, domain=domain,
        group=group, id=id, class_names=class_names, floor=floor,
    )  # fmt: skip
    return inspect_chosen(path, choice, verify=verify, max_memory=max_memory)


def inspect_chosen(
    path: str | os.PathLike[str],
    choice: ColumnChoice,
    *,
    verify: bool = False,
    max_memory: float | str | None = None,
) -> Inspection:
    """:func:`inspect` for columns that are chosen already."""
    of_zeros: list[str] = []

    def handle(message: str, category: type[Warning]) -> None:
        if category is RoundedProbabilitiesWarning:
            of_zeros.append(message)  # a finding
        else:
            warn_caller(message, category)

    with ExitStack() as stack:
        with handle_warnings(handle):
            opened, arrays = _opened(stack, path, choice, verify=verify, max_memory=max_memory)
        rows = opened.rows
        with np.errstate(over="ignore", invalid="ignore"):  # of huge values
            facts = RowFacts(rows)
            table = facts.table()
            findings = (*of_zeros, *_findings(rows, arrays, facts, table))
        return Inspection(
            path=str(STDIN_NAME) if Path(path) == STDIN else shown(path),
            format=opened.format,
            n_rows=len(rows),
            n_classes=rows.logits.shape[1],
            n_features=None if rows.features is None else rows.features.shape[1],
            arrays=arrays,
            class_names=rows.class_names,
            feature_names=rows.feature_names,
            provenance=dict(rows.provenance),
            fingerprint=rows.fingerprint(),
            domains=table,
            findings=findings,
            ignored=opened.ignored,
            columns={array: list(names) for array, names in opened.sources.items()},
        )


def _opened(
    stack: ExitStack,
    path: str | os.PathLike[str],
    choice: ColumnChoice,
    *,
    verify: bool,
    max_memory: float | str | None,
) -> tuple[OpenedRows, dict[str, str]]:
    """Rows of a file, and the dtype of each of its arrays."""
    if is_streamed(path):
        opened = stack.enter_context(
            open_rows(path, choice, verify=verify, max_memory=max_memory, check_finite=False)
        )
        found = {"probabilities": opened.rows.logits, **vars(opened.rows)}
        return opened, {name: _dtype(found[name]) for name in opened.sources if name in found}
    raw, data = read_rows(
        path, choice, verify=verify, check_finite=False, max_memory=max_memory,
        work_for_row=_WORK_FOR_ROW,
    )  # fmt: skip
    opened = OpenedRows(rows_in_memory(data), raw.format, raw.sources, raw.ignored)
    return opened, {name: _dtype(values) for name, values in raw.arrays.items()}


def _dtype(values: Any) -> str:
    """Dtype of an array, or "strings"."""
    if isinstance(values, CodedRows):
        values = values.names
    return str(values.dtype) if values.dtype.kind in "fiub" else "strings"


def _findings(
    rows: BlockedRows, arrays: Mapping[str, str], facts: RowFacts, table: pd.DataFrame
) -> list[str]:
    found = []
    not_finite = int(table["not_finite"].sum())
    if not_finite:
        found.append(f"{not_finite} rows hold NaN or infinity: drop them.")
    if "logits" in arrays and look_like_probabilities(cast(Array, rows.logits)):
        found.append(
            "the logits are >= 0 and sum to 1 in each row: if they are probabilities, name them "
            f"with {said('probabilities')}."
        )
    found += _span_findings(facts)
    found += _label_findings(rows, facts, table)
    if rows.domains is None:
        found.append(
            "there are no domains: all rows count as one, and nothing can be learned about new "
            "domains."
        )
    small = table[table["n"] < MINIMUM_ROWS]
    if len(small):
        found.append(
            f"fewer than {MINIMUM_ROWS} rows in {_first(small['domain'])}: too few to fit a "
            "temperature."
        )
    return found + _feature_findings(facts.features)


def _span_findings(facts: RowFacts) -> list[str]:
    """Rows whose logits are all equal, masked, or far apart."""
    found = []
    if facts.n_flat:
        found.append(
            f"{facts.n_flat} rows have equal logits for all classes: no temperature changes "
            "their confidence."
        )
    if facts.n_masked:
        found.append(
            f"{facts.n_masked} rows have logits more than {MASK_SPAN:g} below the largest, "
            "such as masks: raise them to about the smallest logit that is not masked."
        )
    outliers = facts.outliers()
    if outliers is not None:
        found.append(
            f"{outliers.n} rows have logits more than {OUTLIER_RATIO:g} times as far apart as the "
            f"median of their domain (row {outliers.row}: {outliers.ratio:.0f} times): a single "
            "wrong one can dominate the fit; check the network on these rows, or fit without them."
        )
    return found


def _label_findings(rows: BlockedRows, facts: RowFacts, table: pd.DataFrame) -> list[str]:
    """Missing labels, missing classes, and domains with implausible labels."""
    if rows.labels is None:
        return ["there are no labels: a calibrator can be applied, but not fitted."]
    found = []
    n_classes = rows.logits.shape[1]
    absent = np.flatnonzero(facts.label_counts == 0)
    if len(absent):
        names = absent if rows.class_names is None else [rows.class_names[k] for k in absent]
        found.append(
            f"{len(absent)} of {n_classes} classes never occur among the labels: {_first(names)}."
        )
    large = table[table["n"] >= MINIMUM_ROWS]
    below_chance = large[large["accuracy"] < 1.0 / n_classes]
    if len(below_chance):
        found.append(
            f"accuracy is below chance in {_first(below_chance['domain'])}: check the order of "
            "rows and classes."
        )
    single = large[large["classes"] == 1]
    if len(single):
        found.append(f"all rows have the same label in {_first(single['domain'])}.")
    return found


def _feature_findings(features: FeatureFacts | None) -> list[str]:
    """Constant features, and features that are nearly centred."""
    if features is None or not features.n:
        return []
    n, mean = features.n, features.total / features.n
    found = []
    constant = int((features.low == features.high).sum())
    if constant:
        found.append(f"{constant} of {len(mean)} features are the same in all rows.")
    # Without an intercept, the temperature of an average row comes from the mean of the features.
    centred = mean @ mean < _CENTRED_SHARE * features.square.sum() / n
    if constant < len(mean) and n >= MINIMUM_ROWS and centred:
        found.append(
            "the features are nearly centred, as after standardisation: MD-TS needs "
            "fit_intercept=true."
        )
    return found


def _first(names: Any) -> str:
    return few(map(str, names), _SHOWN)

"""Contents of a data file, domain by domain, and problems of its rows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from domaincal._notebook_view import notebook_view
from domaincal._typing import Array
from domaincal._validation import look_like_probabilities
from domaincal._warnings import handle_warnings, warn_caller
from domaincal._wording import few, named_count
from domaincal.data import CalibrationData
from domaincal.data.column_choice import ColumnChoice, Columns, said
from domaincal.errors import RoundedProbabilitiesWarning
from domaincal.io.domain_drawing import draw_domains
from domaincal.io.formats import read_rows
from domaincal.io.raw_data import RawData
from domaincal.io.standard_input import STDIN, STDIN_NAME
from domaincal.kernels import numpy_kernels
from domaincal.statistics.temperature_solver import MINIMUM_ROWS

# A row whose logits span more than this has masked classes.
_MASK_SPAN = 1e4
# A row whose logits span so many times the median of its domain is an outlier.
_OUTLIER_RATIO = 20.0
# Features are nearly centred if their squared mean is below this share of their mean square.
_CENTRED_SHARE = 0.02
_BLOCK = 1 << 14
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

    with handle_warnings(handle):
        raw, data = read_rows(
            path, choice, verify=verify, check_finite=False, max_memory=max_memory,
            work_for_row=_WORK_FOR_ROW,
        )  # fmt: skip
    with np.errstate(over="ignore", invalid="ignore"):  # of huge values
        rows = _RowFacts.of(data)
        table = _by_domain(data, rows)
        findings = (*of_zeros, *_findings(data, raw, rows, table))
    return Inspection(
        path=str(STDIN_NAME if Path(path) == STDIN else Path(path)),
        format=raw.format,
        n_rows=len(data),
        n_classes=data.logits.shape[1],
        n_features=None if data.features is None else data.features.shape[1],
        arrays={
            name: str(values.dtype) if values.dtype.kind in "fiub" else "strings"
            for name, values in raw.arrays.items()
        },
        class_names=data.class_names,
        feature_names=data.feature_names,
        provenance=dict(data.provenance),
        fingerprint=data.fingerprint(),
        domains=table,
        findings=findings,
        ignored=raw.ignored,
        columns={array: list(names) for array, names in raw.sources.items()},
    )


@dataclass(frozen=True, eq=False)
class _RowFacts:
    """One value for each row; ``span`` is the largest logit minus the smallest."""

    finite: Array
    confidence: Array
    predicted: Array
    span: Array

    @classmethod
    def of(cls, data: CalibrationData) -> _RowFacts:
        parts = []
        for start in range(0, len(data), _BLOCK):
            block = slice(start, start + _BLOCK)
            z = data.logits[block].astype(np.float64)
            finite = np.isfinite(z).all(axis=1)
            if data.features is not None:
                finite &= np.isfinite(data.features[block]).all(axis=1)
            z[~finite] = 0.0
            confidence, predicted = numpy_kernels.top_label(z, np.ones(1))
            span = np.where(finite, np.ptp(z, axis=1), np.nan)
            parts.append((finite, np.where(finite, confidence, np.nan), predicted, span))
        return cls(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _by_domain(data: CalibrationData, rows: _RowFacts) -> pd.DataFrame:
    """The table ``Inspection.domains``."""
    domains = np.full(len(data), "all") if data.domains is None else data.domains
    labels = data.labels
    hits = np.full(len(data), np.nan) if labels is None else (rows.predicted == labels) * 1.0
    hits[~rows.finite] = np.nan
    frame = pd.DataFrame({
        "domain": domains, "accuracy": hits, "mean_confidence": rows.confidence,
        "not_finite": ~rows.finite, "label": -1 if labels is None else labels,
    })  # fmt: skip
    grouped = frame.groupby("domain", sort=True)
    table = grouped[["accuracy", "mean_confidence"]].mean()
    table.insert(0, "n", grouped.size())
    table["classes"] = 0 if labels is None else grouped["label"].nunique()
    table["not_finite"] = grouped["not_finite"].sum()
    return table.reset_index()


def _findings(
    data: CalibrationData, raw: RawData, rows: _RowFacts, table: pd.DataFrame
) -> list[str]:
    found = []
    not_finite = int((~rows.finite).sum())
    if not_finite:
        found.append(f"{not_finite} rows hold NaN or infinity: drop them.")
    stored = raw.arrays.get("logits")
    if stored is not None and stored.ndim == 2 and look_like_probabilities(data.logits):
        found.append(
            "the logits are >= 0 and sum to 1 in each row: if they are probabilities, name them "
            f"with {said('probabilities')}."
        )
    found += _span_findings(data, rows.span)
    found += _label_findings(data, table)
    if data.domains is None:
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
    return found + _feature_findings(data, rows.finite)


def _span_findings(data: CalibrationData, span: Array) -> list[str]:
    """Rows whose logits are all equal, masked, or far apart."""
    found = []
    flat, masked = span == 0, span > _MASK_SPAN
    if flat.any():
        found.append(
            f"{int(flat.sum())} rows have equal logits for all classes: no temperature changes "
            "their confidence."
        )
    if masked.any():
        found.append(
            f"{int(masked.sum())} rows have logits more than {_MASK_SPAN:g} below the largest, "
            "such as masks: raise them to about the smallest logit that is not masked."
        )
    domains = np.zeros(len(data), int) if data.domains is None else data.domains
    usual = pd.Series(np.where(flat | masked, np.nan, span))
    ratio = usual / usual.groupby(domains).transform("median")
    outliers = int((ratio > _OUTLIER_RATIO).sum())
    if outliers:
        largest = int(ratio.argmax())
        found.append(
            f"{outliers} rows have logits more than {_OUTLIER_RATIO:g} times as far apart as the "
            f"median of their domain (row {largest}: {ratio[largest]:.0f} times): a single wrong "
            "one can dominate the fit; check the network on these rows, or fit without them."
        )
    return found


def _label_findings(data: CalibrationData, table: pd.DataFrame) -> list[str]:
    """Missing labels, missing classes, and domains with implausible labels."""
    if data.labels is None:
        return ["there are no labels: a calibrator can be applied, but not fitted."]
    found = []
    n_classes = data.logits.shape[1]
    absent = np.flatnonzero(np.bincount(data.labels, minlength=n_classes) == 0)
    if len(absent):
        names = absent if data.class_names is None else [data.class_names[k] for k in absent]
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


def _feature_findings(data: CalibrationData, finite: Array) -> list[str]:
    """Constant features, and features that are nearly centred."""
    if data.features is None or not finite.any():
        return []
    total, square, low, high = (np.zeros(data.features.shape[1]) for _ in range(4))
    low += np.inf
    high -= np.inf
    for start in range(0, len(data), _BLOCK):
        block = slice(start, start + _BLOCK)
        x = data.features[block][finite[block]].astype(np.float64)
        if len(x):
            total, square = total + x.sum(axis=0), square + (x * x).sum(axis=0)
            low, high = np.minimum(low, x.min(axis=0)), np.maximum(high, x.max(axis=0))
    n = int(finite.sum())
    mean = total / n
    found = []
    constant = int((low == high).sum())
    if constant:
        found.append(f"{constant} of {len(mean)} features are the same in all rows.")
    # Without an intercept, the temperature of an average row comes from the mean of the features.
    centred = mean @ mean < _CENTRED_SHARE * square.sum() / n
    if constant < len(mean) and n >= MINIMUM_ROWS and centred:
        found.append(
            "the features are nearly centred, as after standardisation: MD-TS needs "
            "fit_intercept=true."
        )
    return found


def _first(names: Any) -> str:
    return few(map(str, names), _SHOWN)

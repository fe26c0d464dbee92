"""What is in a file, domain by domain, and what is odd about it."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from domaincal._typing import Array
from domaincal.data import CalibrationData
from domaincal.io.formats import read_raw
from domaincal.io.raw_data import RawData, checked
from domaincal.kernels import numpy_kernels
from domaincal.statistics.temperature_solver import MINIMUM_ROWS

# Logits so far below the largest of their row are masks, not scores.
_MASK = 1e4
# Rows whose logits span so many times what is usual in their domain come from a network gone wrong.
_WILD = 20.0
# Features whose mean has a smaller share of their square are as good as centred.
_NO_MEAN = 0.02
_BLOCK = 1 << 14
_SHOWN = 5


@dataclass(frozen=True, eq=False)
class Inspection:
    """What :func:`inspect` found.

    Attributes
    ----------
    path, format : str
    n_rows, n_classes : int
    n_features : int or None
    arrays : dict from the arrays that are there to their types
    class_names : tuple of str or None
    provenance : dict
    fingerprint : str
        Fitted calibrators remember that of their rows.
    domains : DataFrame
        A row for each domain: domain, n, accuracy and mean_confidence of the softmax as it is
        (NaN without labels), classes (how many occur among the labels), not_finite (rows).
    odd : tuple of str
        What deserves a look, with what to do about it.
    ignored : tuple of str
        What else is in the file.
    """

    path: str
    format: str
    n_rows: int
    n_classes: int
    n_features: int | None
    arrays: dict[str, str]
    class_names: tuple[str, ...] | None
    provenance: dict[str, Any]
    fingerprint: str
    domains: pd.DataFrame
    odd: tuple[str, ...]
    ignored: tuple[str, ...]


def inspect(
    path: str | os.PathLike[str], *, probabilities: bool = False, verify: bool = False
) -> Inspection:
    """What is in a file, and what is odd about it; parameters as in :func:`read`.

    Values that are not finite, for which :func:`read` refuses a file, are counted here.

    Examples
    --------
    >>> import tempfile, domaincal as dc
    >>> data, _ = dc.make_multi_domain(n_domains=3, n_rows=100, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     dc.write(data, folder + "/scores.npz")
    ...     found = dc.inspect(folder + "/scores.npz")
    >>> found.n_rows, found.domains["n"].tolist(), found.odd
    (300, [100, 100, 100], ())
    """
    raw = read_raw(path, verify=verify)
    data = checked(path, raw, probabilities=probabilities, check_finite=False)
    with np.errstate(over="ignore", invalid="ignore"):  # huge values are odd, not an error
        rows = _RowFacts.of(data)
        table = _by_domain(data, rows)
        odd = tuple(_oddities(data, raw, rows, table))
    return Inspection(
        path=str(Path(path)),
        format=raw.format,
        n_rows=len(data),
        n_classes=data.logits.shape[1],
        n_features=None if data.features is None else data.features.shape[1],
        arrays={
            name: str(values.dtype) if values.dtype.kind in "fiub" else "strings"
            for name, values in raw.arrays.items()
        },
        class_names=data.class_names,
        provenance=dict(data.provenance),
        fingerprint=data.fingerprint(),
        domains=table,
        odd=odd,
        ignored=raw.ignored,
    )


def look_like_probabilities(logits: Array) -> bool:
    """Whether all rows are non-negative and sum to 1, as no network's logits do."""
    for start in range(0, len(logits), _BLOCK):
        z = logits[start : start + _BLOCK]
        # Not finite counts as no: comparisons with NaN are false.
        if not 0 <= z.min() <= z.max() <= 1.001:
            return False
        if not np.abs(z.sum(axis=1, dtype=np.float64) - 1.0).max() < 1e-3:
            return False
    return True


@dataclass(frozen=True, eq=False)
class _RowFacts:
    """One number for each row."""

    finite: Array
    confidence: Array
    predicted: Array
    span: Array

    @classmethod
    def of(cls, data: CalibrationData) -> "_RowFacts":
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


def _oddities(
    data: CalibrationData, raw: RawData, rows: _RowFacts, table: pd.DataFrame
) -> list[str]:
    found = []

    def say(text: str, *, when: object = True) -> None:
        if when:
            found.append(text)

    n_classes = data.logits.shape[1]
    bad = int((~rows.finite).sum())
    say(f"{bad} rows hold values that are not finite: drop them.", when=bad)
    stored = raw.arrays.get("logits")
    say(
        "the logits are >= 0 and sum to 1 in each row: if they are probabilities, say so "
        "(--probabilities, or probabilities=True).",
        when=stored is not None and stored.ndim == 2 and look_like_probabilities(data.logits),
    )
    found += _odd_spans(data, rows.span)
    if data.labels is None:
        say("there are no labels: a calibrator can be applied, not fitted.")
    else:
        absent = np.flatnonzero(np.bincount(data.labels, minlength=n_classes) == 0)
        say(
            f"{len(absent)} of {n_classes} classes never occur among the labels: "
            f"{_some([_class(data, int(k)) for k in absent])}.",
            when=len(absent),
        )
        poor = table[(table["accuracy"] < 1.0 / n_classes) & (table["n"] >= MINIMUM_ROWS)]
        say(
            f"accuracy is below chance in {_some(poor['domain'])}: check the order of rows and "
            "classes.",
            when=len(poor),
        )
        single = table[(table["classes"] == 1) & (table["n"] >= MINIMUM_ROWS)]
        say(f"all rows have the same label in {_some(single['domain'])}.", when=len(single))
    if data.domains is None:
        say("there are no domains: all rows count as one, and MD-TS cannot be fitted.")
    small = table[table["n"] < MINIMUM_ROWS]
    say(
        f"fewer than {MINIMUM_ROWS} rows in {_some(small['domain'])}: too few for a temperature.",
        when=len(small),
    )
    found += _odd_features(data, rows)
    return found


def _odd_spans(data: CalibrationData, span: Array) -> list[str]:
    found = []
    flat, masked = span == 0, span > _MASK
    if flat.any():
        found.append(
            f"{int(flat.sum())} rows have equal logits for all classes: there is nothing to "
            "calibrate in them."
        )
    if masked.any():
        found.append(
            f"{int(masked.sum())} rows have logits more than {_MASK:g} below the largest, as "
            "masks do: lift them to about the smallest real one."
        )
    domains = np.zeros(len(data), int) if data.domains is None else data.domains
    real = pd.Series(np.where(flat | masked, np.nan, span))
    times = real / real.groupby(domains).transform("median")
    wild = int((times > _WILD).sum())
    if wild:
        worst = int(times.argmax())
        found.append(
            f"{wild} rows have logits more than {_WILD:g} times as far apart as is usual in their "
            f"domain (row {worst}: {times[worst]:.0f} times): one of them that is wrong counts as "
            "much as thousands of others, and so they decide what is fitted; find out why the "
            "network does that, or fit without them."
        )
    return found


def _odd_features(data: CalibrationData, rows: _RowFacts) -> list[str]:
    if data.features is None or not rows.finite.any():
        return []
    total, square, low, high = (np.zeros(data.features.shape[1]) for _ in range(4))
    low += np.inf
    high -= np.inf
    for start in range(0, len(data), _BLOCK):
        block = slice(start, start + _BLOCK)
        x = data.features[block][rows.finite[block]].astype(np.float64)
        if len(x):
            total, square = total + x.sum(axis=0), square + (x * x).sum(axis=0)
            low, high = np.minimum(low, x.min(axis=0)), np.maximum(high, x.max(axis=0))
    n = int(rows.finite.sum())
    mean = total / n
    found = []
    constant = int((low == high).sum())
    if constant:
        found.append(f"{constant} of {len(mean)} features are the same in all rows.")
    # Without an intercept, the temperature of a row comes from its features' mean.
    if constant < len(mean) and n >= MINIMUM_ROWS and mean @ mean < _NO_MEAN * square.sum() / n:
        found.append(
            "the features have hardly a mean, as after standardisation: MD-TS needs "
            "fit_intercept=true."
        )
    return found


def _class(data: CalibrationData, k: int) -> str:
    return str(k) if data.class_names is None else data.class_names[k]


def _some(names: Any) -> str:
    names = [str(name) for name in names]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more

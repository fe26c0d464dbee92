"""Cache of trial results: one file for each trial, named by a digest of its key."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from domaincal._files import DAMAGED, decoding
from domaincal._tensor_files import read_tensors, tensor_checksum, write_tensors
from domaincal._typing import Array
from domaincal._warnings import warn_caller
from domaincal.errors import DomaincalWarning, FileFormatError
from domaincal.experiments.experiment import Experiment
from domaincal.experiments.trial_results import TrialResult
from domaincal.experiments.trials import Trial

_FORMAT, _VERSION = "domaincal cell", "4"
# Ranges of the columns of a result, and of those that can be NaN.
_SCORES = {
    "accuracy": (0.0, 1.0), "mean_confidence": (0.0, 1.0), "ece": (0.0, 1.0), "floor": (0.0, 1.0),
    "excess": (-1.0, 1.0), "gap": (0.0, 1.0),
}  # fmt: skip
_LOSSES = {"nll": (0.0, np.inf), "brier": (0.0, 2.0)}
_TEMPERATURES = dict.fromkeys(
    ("learned", "calibrated", "predicted", "low", "high", "mean", "deviation"), (0.0, np.inf)
)
_ROUNDING = 1e-6


def trial_key(experiment: Experiment, trial: Trial, identity: Mapping[str, Any]) -> dict[str, Any]:
    """Everything that decides the numbers of a trial.

    The names of the entries belong to the file format. With other names, the results of earlier
    runs would not be found.

    Parameters
    ----------
    experiment : Experiment
    trial : Trial
    identity : mapping
        Identity of the data, from :meth:`DataSource.identity`.
    """
    return {
        "data": _with_seed(identity),
        "partition": _with_seed(trial.partition.definition()),
        "split": trial.split,
        "method": trial.method.definition(),
        "seed": experiment.random_state + trial.repeat,
        "bins": experiment.n_bins,
        "domaincal": version("domaincal"),
    }


def cache_path(folder: Path, key: Mapping[str, Any]) -> Path:
    """Path of the result with the given key."""
    digest = hashlib.sha256(_text(key).encode()).hexdigest()
    return folder / f"{digest[:32]}.safetensors"


def write_result(path: Path, result: TrialResult, key: Mapping[str, Any]) -> None:
    """Write a result atomically, with a checksum of everything in the file."""
    tensors = {"bins": result.bins, "edges": result.edges}
    texts = {
        "format": _FORMAT,
        "version": _VERSION,
        "key": _text(key),
        "table": json.dumps(result.table.to_dict("list")),
        "provenance": json.dumps(result.provenance),
    }
    write_tensors(path, tensors, {**texts, "sha256": _checksum(texts, tensors)})


def read_result(path: Path, key: Mapping[str, Any]) -> TrialResult | None:
    """The result with the given key; None if there is no file.

    A damaged file gives None and a warning, so that its trial is run again.
    """
    try:
        with decoding(path, DAMAGED):
            tensors, texts = read_tensors(path)
            if texts.pop("sha256", "") != _checksum(texts, tensors):
                raise ValueError("wrong checksum")
            if texts["format"] != _FORMAT or texts["key"] != _text(key):
                raise ValueError("it belongs to another trial")
            table = pd.DataFrame(json.loads(texts["table"]))
            provenance = json.loads(texts["provenance"])
            result = TrialResult(table, tensors["bins"], tensors["edges"], provenance)
            _check(result, key)
            return result
    except FileNotFoundError:
        return None
    except FileFormatError as error:
        warn_caller(f"{error} Its trial is run again.", DomaincalWarning)
        return None


def _checksum(texts: Mapping[str, str], tensors: Mapping[str, Array]) -> str:
    return tensor_checksum(json.dumps(dict(sorted(texts.items()))), tensors)


def _check(result: TrialResult, key: Mapping[str, Any]) -> None:
    """Raise ValueError for results that no trial with this key has."""
    table, bins, edges, n_bins = result.table, result.bins, result.edges, key["bins"]
    if bins.shape != (len(table), 3, n_bins) or edges.shape != (n_bins + 1,) or not len(table):
        raise ValueError("its bins have another shape")
    if not (bins.dtype == edges.dtype == np.float64) or not np.isfinite(bins).all():
        raise ValueError("its bins are not finite numbers")
    if edges[0] != 0 or edges[-1] != 1 or not (np.diff(edges) > 0).all():
        raise ValueError("the edges of its bins do not increase from 0 to 1")
    weight, confidence, hits = bins.transpose(1, 0, 2)
    if (bins < 0).any() or (np.maximum(confidence, hits) > weight * (1 + _ROUNDING)).any():
        raise ValueError("its bins are not sums of confidences and hits")
    if not isinstance(result.provenance, dict):
        raise ValueError("its provenance is not a table")
    _check_table(table, is_code=key["method"]["code"] is not None)
    if not np.allclose(table["n"], weight.sum(axis=1)):
        raise ValueError("its numbers of rows are not those of its bins")


def _check_table(table: pd.DataFrame, *, is_code: bool) -> None:
    """Raise ValueError for values out of range; losses of a user's method may have any value."""
    if not {"kind", "domain", "n", *_SCORES, *_LOSSES} <= set(table):
        raise ValueError("a column is missing")
    if not set(table["kind"]) <= {"InD", "OOD"}:
        raise ValueError("a domain is neither InD nor OOD")
    if not all(isinstance(name, str | int) for name in table["domain"]):
        raise ValueError("a domain is neither a string nor an integer")
    optional = {**_LOSSES, **_TEMPERATURES}
    for column in table.columns.drop(["kind", "domain", "n"]):
        low, high = {**_SCORES, **optional}[column]
        values = table[column].to_numpy(np.float64)
        valid = (values >= low - _ROUNDING) & (values <= high + _ROUNDING)
        if column in optional:
            valid |= np.isnan(values) | is_code
        if not valid.all():
            raise ValueError(f"{column} is not between {low:g} and {high:g}")


def _with_seed(definition: Mapping[str, Any]) -> dict[str, Any]:
    """The definition with the entry random_state under its name in the file format."""
    return {"seed" if key == "random_state" else key: value for key, value in definition.items()}


def _text(key: Mapping[str, Any]) -> str:
    return json.dumps({"version": _VERSION, **key}, sort_keys=True)

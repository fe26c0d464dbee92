"""Cache of trial results: one file for each trial, named by a digest of its key."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd

from domaincal._files import read_tensors, write_tensors
from domaincal.errors import FileFormatError
from domaincal.experiments.experiment import Experiment
from domaincal.experiments.trial_results import TrialResult
from domaincal.experiments.trials import Trial

_FORMAT, _VERSION = "domaincal cell", "2"


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
    """Write a result atomically."""
    write_tensors(
        path,
        {"bins": result.bins, "edges": result.edges},
        {
            "format": _FORMAT,
            "version": _VERSION,
            "key": _text(key),
            "table": json.dumps(result.table.to_dict("list")),
            "provenance": json.dumps(result.provenance),
        },
    )


def read_result(path: Path, key: Mapping[str, Any]) -> TrialResult | None:
    """The result with the given key, or None where no file with this key can be read."""
    try:
        tensors, texts = read_tensors(path)
        if texts.get("format") != _FORMAT or texts.get("key") != _text(key):
            return None
        table = pd.DataFrame(json.loads(texts["table"]))
        provenance = json.loads(texts["provenance"])
        return TrialResult(table, tensors["bins"], tensors["edges"], provenance)
    except (FileNotFoundError, FileFormatError, KeyError, ValueError):
        return None  # a damaged file, e.g. after a full disk: the trial is run again


def _with_seed(definition: Mapping[str, Any]) -> dict[str, Any]:
    """The definition with the entry random_state under its name in the file format."""
    return {"seed" if key == "random_state" else key: value for key, value in definition.items()}


def _text(key: Mapping[str, Any]) -> str:
    return json.dumps({"version": _VERSION, **key}, sort_keys=True)

"""What a target of the fuzzer is, and the rules for the numbers that come back."""

import os
import random
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from click.testing import CliRunner

import domaincal as dc
from domaincal.cli import main
from domaincal.errors import InputError

_ROUNDING = 1e-5  # of sums in float32


@dataclass(frozen=True)
class Target:
    """Something to attack.

    Attributes
    ----------
    name : str
    make : callable
        ``make(rng, folder)`` puts a hostile input into an empty folder and returns the case.
    check : callable
        ``check(case)`` gives the input to domaincal and looks at the results. It may raise a
        DomaincalError; every other exception is a failure.
    share : float
        Share of the time, relative to the other targets.
    """

    name: str
    make: Callable[[random.Random, Path], Any]
    check: Callable[[Any], None]
    share: float = 1.0


def require(condition: object, message: str) -> None:
    """Raise an AssertionError: the fuzzer counts it as a failure."""
    if not condition:
        raise AssertionError(message)


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files by their relative paths."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def files_of(folder: Path) -> dict[str, bytes]:
    """Contents of all files of a folder, by their relative paths."""
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def replace_by_other_kind(rng: random.Random, path: Path) -> None:
    """Put a pipe, a folder, an empty file or a link to a device there."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    kind = rng.choice(("pipe", "pipe", "folder", "empty", "device"))
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "empty":
        path.touch()
    else:
        path.symlink_to("/dev/zero")


def run_verb(*arguments: object) -> str:
    """Output of a verb of the command line; a DomaincalError if it says what is wrong."""
    done = CliRunner().invoke(main, [str(argument) for argument in arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    require("\x1b" not in done.output, "a file controls the terminal")
    require("not enough memory" not in done.output, f"MemoryError: {done.output[:200]}")
    if done.exit_code in (1, 2):
        raise InputError(done.output)
    return done.output


def check_data(data: dc.CalibrationData) -> None:
    """Raise if rows that were read break a promise of CalibrationData."""
    n, n_classes = data.logits.shape
    require(np.isfinite(np.asarray(data.logits)).all(), "logits are not finite")
    for name in ("labels", "domains", "groups", "features"):
        values = getattr(data, name)
        require(values is None or len(values) == n, f"{name} has {values} rows, not {n}")
    if data.labels is not None:
        require(data.labels.min() >= 0 and data.labels.max() < n_classes, "labels out of range")
    if data.features is not None:
        require(np.isfinite(np.asarray(data.features)).all(), "features are not finite")
    for array, listed in (
        ("class_names", data.class_names),
        ("feature_names", data.feature_names),
        ("domains", None if data.domains is None else data.domains.tolist()),
        ("groups", None if data.groups is None else data.groups.tolist()),
    ):
        if listed is not None:
            check_names(listed, array)
    require(data.class_names is None or len(data.class_names) == n_classes, "number of classes")


def check_names(listed: Any, array: str) -> None:
    """Raise if names are neither all integers nor all texts, or break the rules for texts."""
    kinds = {type(name) for name in listed}
    require(kinds in ({int}, {str}), f"{array} has names of the types {kinds}")
    for name in set(listed) if kinds == {str} else ():
        require(len(name) <= 1000 and "\0" not in name, f"{array} has the name {name[:50]!r}")
        name.encode()  # no lone surrogates


def check_same(found: dc.CalibrationData, expected: dc.CalibrationData) -> None:
    """Raise if rows that a checksum protects are not the undamaged ones."""
    for name in ("logits", "labels", "features", "domains", "groups"):
        one, other = getattr(found, name), getattr(expected, name)
        require((one is None) == (other is None), f"{name} is lost by silent damage")
        require(one is None or np.array_equal(one, other), f"{name} differs after silent damage")
    for name in ("class_names", "feature_names", "provenance"):
        same = getattr(found, name) == getattr(expected, name)
        require(same, f"{name} differs after silent damage")


def check_probabilities(values: Any, shape: tuple[int, ...] | None = None) -> None:
    """Raise unless the rows are probabilities."""
    p = np.asarray(values)
    require(shape is None or p.shape == shape, f"probabilities of shape {p.shape}, not {shape}")
    require(np.isfinite(p).all() and (p >= 0).all() and (p <= 1 + _ROUNDING).all(), "not in [0, 1]")
    require(np.allclose(p.sum(axis=1), 1, atol=1e-3), f"sums to {p.sum(axis=1).tolist()[:5]}")


def check_between(values: Any, low: float, high: float, name: str) -> None:
    """Raise unless all values are numbers from ``low`` to ``high``."""
    found = np.asarray(values, float)
    good = (found >= low - _ROUNDING) & (found <= high + _ROUNDING)
    wrong = found[~good].ravel()[:5].tolist()
    require(good.all(), f"{name} has {wrong}, not in [{low}, {high}]")


def check_predictions(calibrator: Any, logits: Any, **arrays: Any) -> None:
    """Raise unless all predictions of a fitted calibrator are in their ranges."""
    n, n_classes = np.shape(logits)
    found = calibrator.predict_all(logits, **arrays)
    check_probabilities(found.probabilities, (n, n_classes))
    require(np.shape(found.confidence) == (n,), "confidences of another shape")
    check_between(found.confidence, 0, 1, "confidence")
    if found.temperature is not None:
        t = np.asarray(found.temperature)
        require(t.shape == (n,) and np.isfinite(t).all() and (t > 0).all(), f"T = {t.tolist()[:5]}")
    require(calibrator.summary(), "no summary")

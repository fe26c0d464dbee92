"""Files of TemperatureMonitor: a model file with the estimator, and the sums of each domain."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from domaincal._files import decoding
from domaincal._typing import Array, FloatArray
from domaincal._validation import check_names
from domaincal.calibrators.batch.batch_map import LARGEST_VALUE
from domaincal.calibrators.files.model_encoding import checksum, encode
from domaincal.calibrators.files.model_file import load_with_sections, save_calibrator
from domaincal.deploy.monitor_memory import Forgetting, Parts, SlidingWindow, make_memory
from domaincal.deploy.monitored_sums import SQUARES, MonitoredSums, N
from domaincal.errors import InputError
from domaincal.shift import ConfidenceEstimator, load_estimator
from domaincal.shift.accuracy.estimator_file import SECTION as ESTIMATOR_SECTION, estimator_section

#: Name of the section of the model file.
SECTION = "monitor"
_CURE = "save the monitor again"
# Sums that must agree, such as those of a histogram and the number of rows, differ by rounding.
_ROUNDING = 1e-6
_MOST_ROWS = 2.0**53


def save_monitor(
    layout: MonitoredSums,
    memory: SlidingWindow | Forgetting,
    parts: Mapping[Any, Parts],
    path: str | os.PathLike[str],
) -> None:
    """Write a monitor; see :meth:`TemperatureMonitor.save`."""
    sums = [part for of_domain in parts.values() for part in of_domain]
    section = {
        **memory.parameters(),
        "domains": list(parts),
        "n_parts": np.array([len(of_domain) for of_domain in parts.values()], np.int64),
        "sums": np.array(sums, np.float64).reshape(len(sums), layout.width),
    }
    sections = {ESTIMATOR_SECTION: estimator_section(layout.estimator), SECTION: section}
    save_calibrator(layout.calibrator, path, sections)


def load_monitor_parts(
    path: str | os.PathLike[str],
) -> tuple[ConfidenceEstimator, SlidingWindow | Forgetting, dict[Any, Parts]]:
    """Estimator, memory and sums of a file of :func:`save_monitor`, whose content is checked."""
    section = load_with_sections(path)[1].get(SECTION)
    if section is None:
        raise InputError(
            f"{path} holds no monitor; give a file that monitor.save(path) has written, or make a "
            "new one: TemperatureMonitor(domaincal.shift.load_estimator(path))."
        )
    estimator = load_estimator(path)
    with decoding(path, _CURE):
        try:
            memory = make_memory(section["window"], section["half_life"])
            parts = _checked_parts(section, MonitoredSums(estimator), memory)
        except InputError as error:  # of a value of the file, not of the user
            raise ValueError(str(error).removesuffix(".")) from error
    return estimator, memory, parts


def same_estimators(one: ConfidenceEstimator, other: ConfidenceEstimator) -> bool:
    """Whether two estimators have learned the same, for example because one was loaded twice."""
    return one is other or _digest(one) == _digest(other)


def _digest(estimator: ConfidenceEstimator) -> str:
    tensors: dict[str, Array] = {}
    section = estimator_section(estimator)
    return checksum({key: encode(value, key, tensors) for key, value in section.items()}, tensors)


def _checked_parts(
    section: Mapping[str, Any], layout: MonitoredSums, memory: SlidingWindow | Forgetting
) -> dict[Any, Parts]:
    """Parts of each domain; raises ValueError for contents that no monitor can have."""
    names, n_parts, sums = section["domains"], section["n_parts"], section["sums"]
    if not (isinstance(names, list) and all(type(name) in (int, str) for name in names)):
        raise ValueError("domains that are not integers or texts")
    check_names([name for name in names if isinstance(name, str)], "domains")
    if len(set(names)) < len(names):
        raise ValueError("a domain that occurs twice")
    if not (
        isinstance(n_parts, np.ndarray)
        and n_parts.dtype == np.int64
        and n_parts.shape == (len(names),)
        and ((n_parts >= 1) & (n_parts <= memory.most_parts)).all()
        and isinstance(sums, np.ndarray)
        and sums.dtype == np.float64
        and sums.shape == (n_parts.sum(), layout.width)
    ):
        raise ValueError("parts or sums of a wrong shape")
    _check_sums(sums, layout)
    ends = np.cumsum(n_parts)
    return {
        name: tuple(sums[end - n : end])
        for name, n, end in zip(names, n_parts, ends, strict=True)
    }  # fmt: skip


def _check_sums(sums: FloatArray, layout: MonitoredSums) -> None:
    """Raise ValueError unless rows with weights of at most 1 can have these sums."""
    batch, gaps, confidences = layout.split(sums)
    n, squares = sums[:, N], sums[:, SQUARES]
    low, high = 1.0 - _ROUNDING, 1.0 + _ROUNDING
    counts = (batch.probabilities, batch.histogram, *gaps.counts.swapaxes(0, 1))
    if not (
        np.isfinite(sums).all()
        and ((squares >= low) & (squares <= n * high) & (n <= _MOST_ROWS)).all()
        and (np.abs(batch.values) <= LARGEST_VALUE * n[:, None] * high).all()
        and ((confidences >= 0.0) & (confidences <= n[:, None] * high)).all()
        and all((of >= 0.0).all() for of in counts)
        and all((np.abs(of.sum(axis=1) - n) <= n * _ROUNDING).all() for of in counts)
    ):
        raise ValueError("sums that no rows can have")

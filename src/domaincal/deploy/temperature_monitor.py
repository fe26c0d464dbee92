"""Temperature, accuracy and verdict of streams of unlabelled rows, in constant memory."""

# Short signatures in help(): annotations stay text.
from __future__ import annotations

import os
from typing import Any

import numpy as np
import pandas as pd

from domaincal._typing import Array, ArrayLike, IntArray
from domaincal._warnings import warn_caller
from domaincal.data import CalibrationData
from domaincal.deploy.monitor_file import load_monitor_parts, same_estimators, save_monitor
from domaincal.deploy.monitor_memory import Parts, make_memory, merged
from domaincal.deploy.monitored_sums import MonitoredSums
from domaincal.errors import InputError
from domaincal.shift import ConfidenceEstimator
from domaincal.shift.rows_by_domain import ALL_ROWS
from domaincal.statistics.blocks import row_blocks

# Memory of the values of a block of rows.
_BLOCK_BYTES = 1 << 25


class TemperatureMonitor:
    """Watch the unlabelled rows of one or several domains as they come.

    For each domain, the monitor keeps sums over its last rows, or over all of its rows with weights
    that fall with their age; it keeps no rows. From these sums follow the temperature that
    :class:`BatchTemperatureScaling` gives to the rows together, the accuracy that
    :class:`domaincal.shift.ConfidenceEstimator` expects of them, and the verdict whether they are
    inside of what the domains of the fit cover. They are what the two would say about the same
    rows; the accuracy is interpolated, with an error of less than 0.0001.

    Rows of one class in a row, such as those of a machine that does one thing for an hour, are not
    like random rows of a domain. Take a window that is long enough for all classes to occur.

    Parameters
    ----------
    estimator : ConfidenceEstimator
        Fitted with its default calibrator, or loaded with :func:`domaincal.shift.load_estimator`.
    window : int, optional
        Number of rows of each domain that count, 1000 without ``half_life``. Rows are forgotten in
        groups of a twentieth of the window: between ``window`` and ``1.05 * window`` of the last
        rows count.
    half_life : float, optional
        In place of a window: the weight of a row halves with each ``half_life`` rows of its domain
        that come after it. About ``2.9 * half_life`` rows count.

    Attributes
    ----------
    estimator : ConfidenceEstimator
        As given.

    Notes
    -----
    A domain takes about ``8 * (n_classes + 440)`` bytes for each of at most 21 parts of its window,
    or once with ``half_life``: 75 kB or 3.6 kB for 10 classes. The number of domains is not
    limited: each name that occurs is kept.

    ``one + other`` counts the rows of two monitors with the same estimator and the same window or
    half-life. A domain that both have watched, such as one with two servers, counts the rows that
    count in either, up to twice the window, until it gets new rows. The two are not changed.

    Examples
    --------
    >>> import domaincal as dc
    >>> data, _ = dc.make_multi_domain(n_domains=12, n_rows=300, random_state=0)
    >>> known, new = dc.split_domains(data, ["domain-03", "domain-05"])
    >>> monitor = dc.TemperatureMonitor(dc.shift.ConfidenceEstimator().fit(known), window=200)
    >>> for start in range(0, len(new), 100):
    ...     monitor.update(new[start : start + 100])
    >>> monitor.status()[["domain", "n"]].values.tolist()
    [['domain-03', 200], ['domain-05', 200]]
    """

    def __init__(
        self,
        estimator: ConfidenceEstimator,
        *,
        window: int | None = None,
        half_life: float | None = None,
    ) -> None:
        self._memory = make_memory(window, half_life)
        self._sums = MonitoredSums(estimator)
        self.estimator = estimator
        self._parts: dict[Any, Parts] = {}
        self._warned: set[tuple[Any, type[Warning]]] = set()

    def update(
        self,
        logits: ArrayLike | CalibrationData,
        *,
        features: ArrayLike | None = None,
        domains: ArrayLike | None = None,
    ) -> None:
        """Add unlabelled rows, in the order in which they came.

        After an error, for example because of a NaN, none of the rows are added.

        Parameters
        ----------
        logits : array of shape (n, n_classes), or CalibrationData
            Logits of the same classes as in the fit. A CalibrationData replaces logits, features
            and domains; its labels are not used.
        features : array of shape (n, n_features), optional
            The same features as in the fit, if that had features.
        domains : array of integers or strings, shape (n,), optional
            Where each row comes from. Without domains, all rows are one domain, ``"all rows"``.
        """
        data = self.estimator._prediction_data("update", logits, features, domains)
        x = self._sums.features(data)
        codes, names = np.zeros(len(data), np.int64), [ALL_ROWS]
        if data.domains is not None:
            codes, names = data.domain_codes[0], data.domain_codes[1].tolist()
        parts = dict(self._parts)
        row_bytes = 8 * (4 * data.logits.shape[1] + self._sums.width)
        for block in row_blocks(len(data), row_bytes, _BLOCK_BYTES):
            features_of_block = None if x is None else x[block]
            found, local = np.unique(codes[block], return_inverse=True)
            found_names = [names[k] for k in found]
            self._add(parts, found_names, data.logits[block], features_of_block, local)
        self._parts = parts

    def status(self) -> pd.DataFrame:
        """What the rows that count say now.

        Warnings of :class:`BatchTemperatureScaling`, for example that the rows of a domain are of
        too few classes, are given once for each domain.

        Returns
        -------
        DataFrame
            One row for each domain: domain; n, the number of rows that count (with ``half_life``,
            the number of rows of equal weight that would tell as much); temperature;
            temperature_error, the standard error of log T; predicted_accuracy, its interval from
            low to high, verdict, distance and reason, as in the table of
            :meth:`domaincal.shift.ConfidenceEstimator.predict`.
        """
        names = sorted(self._parts, key=lambda name: (isinstance(name, str), name))
        sums = np.zeros((len(names), self._sums.width))
        for row, name in zip(sums, names, strict=True):
            row += np.sum(self._parts[name], axis=0)
        return self._sums.table(names, sums, self._warn_once)

    def parameters(self) -> dict[str, Any]:
        """``window`` and ``half_life``, one of which is None."""
        return self._memory.parameters()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the monitor, with its estimator, to a ``.safetensors`` file.

        The file holds sums and names of domains, and no rows. :func:`domaincal.load` reads the
        calibrator of the estimator from it, :func:`domaincal.shift.load_estimator` the estimator.
        """
        save_monitor(self._sums, self._memory, self._parts, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> TemperatureMonitor:
        """Load a monitor that was written by :meth:`save`."""
        estimator, memory, parts = load_monitor_parts(path)
        monitor = cls(estimator, **memory.parameters())
        monitor._parts = parts
        return monitor

    def __add__(self, other: TemperatureMonitor) -> TemperatureMonitor:
        if not isinstance(other, TemperatureMonitor):
            return NotImplemented
        if self._memory != other._memory:
            raise InputError(
                f"monitors with {self._memory.shown()} and {other._memory.shown()} cannot be "
                "added; use the same for both."
            )
        if not same_estimators(self.estimator, other.estimator):
            raise InputError(
                "monitors of different estimators cannot be added; make both with one estimator, "
                "or with copies of one file."
            )
        both = TemperatureMonitor(self.estimator, **self.parameters())
        names = self._parts | other._parts
        both._parts = {
            name: merged(self._parts.get(name, ()), other._parts.get(name, ())) for name in names
        }
        return both

    def __repr__(self) -> str:
        n = len(self._parts)
        return f"<TemperatureMonitor of {n} domain{'s' * (n != 1)}, {self._memory.shown()}>"

    def _add(
        self,
        parts: dict[Any, Parts],
        names: list[Any],
        logits: Array,
        features: Array | None,
        codes: IntArray,
    ) -> None:
        """Add the rows of a block to ``parts``; ``codes`` are the numbers of their names."""
        n_new = np.bincount(codes, minlength=len(names))
        order = np.argsort(codes, kind="stable")
        position = np.empty(len(codes), np.int64)
        position[order] = np.arange(len(codes)) - np.repeat(np.cumsum(n_new) - n_new, n_new)
        n_open = np.array([self._memory.n_open(parts.get(name, ())) for name in names])
        part, weight = self._memory.place(position, n_new[codes], n_open[codes])
        n_parts = np.zeros(len(names), np.int64)
        np.maximum.at(n_parts, codes, part + 1)
        first = np.cumsum(n_parts) - n_parts
        sums = self._sums.of_rows(
            logits, features, first[codes] + part, int(n_parts.sum()), weight
        )  # fmt: skip
        for k, name in enumerate(names):
            # Copies: a view of one row would keep the sums of all.
            new = [one.copy() for one in sums[first[k] : first[k] + n_parts[k]]]
            parts[name] = self._memory.extend(parts.get(name, ()), new, int(n_new[k]))

    def _warn_once(self, name: Any, message: str, category: type[Warning]) -> None:
        if (name, category) not in self._warned:
            self._warned.add((name, category))
            warn_caller(f"domain {name!r}: {message}", category)

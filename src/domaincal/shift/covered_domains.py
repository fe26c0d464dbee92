"""Whether a new, unlabelled batch lies inside of what the InD domains cover."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from domaincal._tensors import host_array
from domaincal._typing import Array, ArrayLike, FloatArray, IntArray
from domaincal._validation import check_random_state
from domaincal.calibrators.batch.batch_training import BATCHES
from domaincal.calibrators.temperature import TemperatureScaling
from domaincal.data import CalibrationData
from domaincal.errors import InputError
from domaincal.kernels import dispatch
from domaincal.shift.conformal import needed_domains
from domaincal.shift.gap_histograms import (
    BIN_EDGES,
    PAIRS,
    GapHistograms,
    count_bins,
    cumulated_shares,
    gap_bins,
)
from domaincal.shift.rows_by_domain import labelled_domains, new_domains

INSIDE, EDGE, OUTSIDE, UNKNOWN = "inside", "edge", "outside", "unknown"

#: Number of domains from which distances of left-out domains are computed.
MINIMUM_DOMAINS = 3
#: A batch is inside if it is not further away than this share of the left-out domains.
INSIDE_LEVEL = 0.9
#: It is outside if it is more than this many times as far away as all left-out domains.
OUTSIDE_FACTOR = 1.1
#: Fewer domains than this cannot have a 90% limit below the largest distance.
ENOUGH_DOMAINS = needed_domains(INSIDE_LEVEL)
# Batches of each size that are drawn from a left-out domain, left-out domains, and their rows.
_N_BATCHES = 8
_MOST_LEFT_OUT = 100
_MOST_ROWS = 4096
# Distances that are computed at a time.
_BLOCK_DISTANCES = 1 << 16
# Fewer rows show only differences that are this many times as large as those of many rows.
_COARSE = 2.0


@dataclass(frozen=True, eq=False)
class CoveredDomains:
    """Histograms of the InD domains, and how far left-out InD domains are from the others.

    The distance of a batch is its largest Kolmogorov-Smirnov distance, over the pairs of
    temperatures of :class:`GapHistograms`, to the nearest InD domain. It is between 0 and 1. Few
    rows are far from everything by chance. A batch of n rows is therefore compared with batches
    of n rows of InD domains that were left out: of each, batches of several sizes are drawn and
    compared with the *other* domains. Between these sizes, distances are interpolated in log n.

    The verdict is

    - ``inside``: not further away than 90% of the left-out InD domains,
    - ``edge``: between that and 1.1 times the distance of the furthest one,
    - ``outside``: further away than that,
    - ``unknown``: the batch has no rows, or there are fewer than 3 InD domains.

    If the new domain is exchangeable with the InD ones, about 90% of the batches are inside. With
    fewer than 9 InD domains, no limit below the largest distance has this property: everything up
    to the largest distance is inside.

    No labels are used. The distance sees that confidences are distributed unlike those of every
    InD domain, not that the labels behave in another way.

    Attributes
    ----------
    gaps : GapHistograms
        Histograms of the InD domains.
    sizes : array of shape (n_sizes,)
        Numbers of rows of the batches of left-out domains.
    left_out : array of shape (n_sizes, n_left_out, 8)
        Distances of the batches of each left-out domain. Domains with less than half the rows of
        the largest size are not left out, nor are more than 100 domains.

    Examples
    --------
    >>> import numpy as np
    >>> import domaincal as dc
    >>> data, _ = dc.make_multi_domain(n_domains=12, random_state=0)
    >>> codes, names = data.domain_codes
    >>> random = np.random.default_rng(0)
    >>> covered = CoveredDomains.fit(data.logits, codes, len(names), 1.5, random)
    >>> def verdicts(logits):
    ...     one_batch = np.zeros(len(logits), np.int64)
    ...     gaps = GapHistograms.from_rows(logits, one_batch, 1, 1.5)
    ...     return covered.judge(gaps, gaps.n)["verdict"].tolist()
    >>> verdicts(data.logits[codes == 3]), verdicts(data.logits[codes == 3] * 20)
    (['inside'], ['outside'])
    """

    gaps: GapHistograms
    sizes: IntArray
    left_out: FloatArray

    @classmethod
    def fit(
        cls,
        logits: Array,
        codes: IntArray,
        n_domains: int,
        temperature: float,
        random: np.random.Generator,
    ) -> CoveredDomains:
        """Store the domains, and the distances of batches of left-out domains.

        Parameters
        ----------
        logits : array of shape (n, n_classes)
            Rows of the InD domains.
        codes : array of int, shape (n,)
            Number of the domain of each row, from 0 to ``n_domains - 1``.
        n_domains : int
        temperature : float
            Unit of the temperatures, usually the pooled temperature of a calibrator.
        random : Generator
            Source of the batches.
        """
        gaps = GapHistograms.from_rows(logits, codes, n_domains, temperature)
        n_rows = gaps.n
        if not n_rows.all():
            raise InputError(
                f"domain {int(np.argmin(n_rows))} of {n_domains} has no rows; pass codes that "
                "number the domains that occur."
            )
        largest = int(min(np.quantile(n_rows, 0.25, method="lower"), max(BATCHES)))
        sizes = np.array([*(size for size in BATCHES if size < largest), largest])
        chosen = np.empty(0, np.int64)
        if n_domains >= MINIMUM_DOMAINS:
            # A domain with fewer rows than a batch gives all its rows.
            chosen = np.flatnonzero(n_rows >= largest / 2)
            n_chosen = min(len(chosen), _MOST_LEFT_OUT)
            chosen = np.sort(random.choice(chosen, n_chosen, replace=False))
        known = gaps.distributions()
        compiled = dispatch.use_compiled(logits.size)
        left_out = np.empty((len(sizes), len(chosen), _N_BATCHES))
        for k, domain in enumerate(chosen):
            rows = np.flatnonzero(codes == domain)
            if len(rows) > _MOST_ROWS:
                rows = np.sort(random.choice(rows, _MOST_ROWS, replace=False))
            bins = gap_bins(host_array(logits[rows]), temperature, compiled=compiled)
            batches = _drawn_distributions(bins, sizes, random)
            others = np.delete(known, domain, axis=0)
            left_out[:, k] = nearest_distances(batches, others).reshape(len(sizes), _N_BATCHES)
        return cls(gaps, sizes, left_out)

    def judge(self, gaps: GapHistograms, n: ArrayLike) -> pd.DataFrame:
        """Verdict on each batch.

        Parameters
        ----------
        gaps : GapHistograms
            Histograms of the batches, at the temperature of the fit.
        n : array of shape (n_batches,)
            Number of rows of each batch; the effective number if rows have weights.

        Returns
        -------
        DataFrame
            One row for each batch: ``verdict``; ``distance`` to the nearest InD domain;
            ``inside_limit`` and ``outside_limit``, the distances up to which batches of n rows are
            inside, and beyond which they are outside; ``reason``, a sentence.
        """
        if gaps.temperature != self.gaps.temperature:
            raise InputError(
                f"the histograms are at T = {gaps.temperature:g}, but those of the InD domains at "
                f"T = {self.gaps.temperature:g}; compute them with the temperature of the fit."
            )
        n = np.asarray(n, np.float64)
        if n.shape != (len(gaps.counts),) or not (n >= 0).all():
            raise InputError(
                f"n must be {len(gaps.counts)} numbers of rows, one for each batch, got {n!r}."
            )
        distance = nearest_distances(gaps.distributions(), self.gaps.distributions())
        inside, farthest = self._limits(n)
        outside = OUTSIDE_FACTOR * farthest
        verdict = np.select(
            [np.isnan(distance) | np.isnan(inside), distance <= inside, distance <= outside],
            [UNKNOWN, INSIDE, EDGE],
            OUTSIDE,
        )
        reasons = [
            self._reason(*values)
            for values in zip(
                *(a.tolist() for a in (verdict, distance, inside, farthest, n, self.is_coarse(n))),
                strict=True,
            )
        ]
        return pd.DataFrame(
            {
                "verdict": verdict,
                "distance": distance,
                "inside_limit": inside,
                "outside_limit": outside,
                "reason": reasons,
            }
        )

    def is_coarse(self, n: ArrayLike) -> Array:
        """Whether batches of n rows are so small that only large differences would show."""
        n = np.asarray(n, np.float64)
        return self._limits(n)[0] > _COARSE * self._limits(self.sizes[-1:].astype(np.float64))[0]

    def arrays(self) -> dict[str, Array]:
        """Everything as plain arrays, for a file."""
        return {
            "temperature": np.array([self.gaps.temperature]),
            "counts": self.gaps.counts,
            "sizes": self.sizes,
            "left_out": self.left_out,
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> CoveredDomains:
        """The object whose :meth:`arrays` are given; ValueError if they cannot be."""
        missing = [name for name in ("temperature", "counts", "sizes", "left_out")
                   if name not in arrays]  # fmt: skip
        if missing:
            raise InputError(f"the covered domains have no array {missing[0]!r}.")
        temperature = _checked(arrays, "temperature", (1,), low=np.finfo(np.float64).tiny)
        counts = _checked(
            arrays, "counts", (None, len(PAIRS), len(BIN_EDGES) - 1), low=0.0, high=2.0**53
        )
        sizes = _checked(arrays, "sizes", (None,), low=1.0, high=max(BATCHES))
        left_out = _checked(
            arrays, "left_out", (len(sizes), None, _N_BATCHES), low=0.0, high=1.0 + 1e-9
        )
        n = counts.sum(axis=2)
        wrong = [
            not len(n) or not (n > 0).all() or not np.allclose(n, n[:, :1], rtol=1e-9),
            not len(sizes) or (sizes % 1 != 0).any() or not (np.diff(sizes) > 0).all(),
            left_out.shape[1] > len(n) or 0 < left_out.shape[1] < MINIMUM_DOMAINS,
        ]
        if any(wrong):
            raise InputError(
                "the arrays of the covered domains contradict each other: counts of shape "
                f"{counts.shape}, sizes of shape {sizes.shape}, left_out of shape "
                f"{left_out.shape}."
            )
        gaps = GapHistograms(float(temperature[0]), counts)
        return cls(gaps, sizes.astype(np.int64), left_out)

    def _limits(self, n: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Limit of "inside" and largest distance of a left-out domain, for batches of n rows."""
        n_domains = self.left_out.shape[1]
        if not n_domains:
            unknown = np.full(len(n), np.nan)
            return unknown, unknown
        of_sizes = np.sort(self.left_out.reshape(len(self.sizes), -1), axis=1)
        n_values = of_sizes.shape[1]
        # The conformal level: the new domain is one more domain of unknown rank.
        level = min(INSIDE_LEVEL * (n_domains + 1) / n_domains, 1.0)
        inside = of_sizes[:, int(np.ceil(level * n_values - 1e-9)) - 1]
        log_n, log_sizes = np.log(np.maximum(n, 1.0)), np.log(self.sizes)
        return np.interp(log_n, log_sizes, inside), np.interp(log_n, log_sizes, of_sizes[:, -1])

    def _reason(
        self, verdict: str, distance: float, inside: float, farthest: float, n: float, coarse: bool
    ) -> str:
        n_domains = len(self.gaps.counts)
        if np.isnan(distance):
            return "There are no rows."
        if verdict == UNKNOWN:
            return (
                f"{n_domains} known domain{'s' * (n_domains > 1)}, but at least {MINIMUM_DOMAINS} "
                "are needed to know how far domains are from each other."
            )
        n_left_out = self.left_out.shape[1]
        enough = n_left_out >= ENOUGH_DOMAINS
        most = f"90% of {n_left_out}" if enough else f"all {n_left_out}"
        nearest = f"Its distance to the nearest known domain is {distance:.2f}"
        reason = {
            INSIDE: f"{nearest}; {most} known domains are within {inside:.2f} of another one.",
            EDGE: f"{nearest}; {most} known domains are within {inside:.2f} of another one, and "
            f"the furthest is {farthest:.2f} away.",
            OUTSIDE: f"{nearest}; all {n_left_out} known domains are within {farthest:.2f} of "
            "another one.",
        }[verdict]
        if verdict == INSIDE and coarse:
            reason += f" With {n:.0f} row{'s' * (n != 1)}, only large differences would show."
        if not enough:
            reason += f" {n_left_out} known domains are few to compare with."
        return reason


def domain_verdicts(
    known: CalibrationData, new: CalibrationData, *, random_state: int = 0
) -> pd.DataFrame:
    """Verdict on each new domain: whether it is inside of what the known domains cover.

    :class:`CoveredDomains` describes the rule. It is fitted to ``known`` at its pooled temperature.

    Parameters
    ----------
    known : CalibrationData
        Rows of the InD domains, with labels.
    new : CalibrationData
        Rows of the new domains; labels are not used. Without domains, all rows are one domain.
    random_state : int, default 0
        Seed of the batches of left-out domains.

    Returns
    -------
    DataFrame
        One row for each new domain: ``domain``, ``n`` and the columns of
        :meth:`CoveredDomains.judge`.

    Examples
    --------
    >>> import domaincal as dc
    >>> data, _ = dc.make_multi_domain(n_domains=20, random_state=0)
    >>> known, new = dc.split_domains(data, ["domain-03", "domain-12"])
    >>> domain_verdicts(known, new)[["domain", "n", "verdict"]]
          domain    n verdict
    0  domain-03  500  inside
    1  domain-12  500  inside
    """
    codes, names, _ = labelled_domains(known, "domain_verdicts")
    temperature = TemperatureScaling().fit(known).temperature_
    random = check_random_state(random_state)
    covered = CoveredDomains.fit(known.logits, codes, len(names), temperature, random)
    tables = []
    for name, rows in new_domains(new):
        one_batch = np.zeros(len(rows), np.int64)
        gaps = GapHistograms.from_rows(rows.logits, one_batch, 1, temperature)
        table = covered.judge(gaps, gaps.n)
        table.insert(0, "domain", [name])
        table.insert(1, "n", len(rows))
        tables.append(table)
    return pd.concat(tables, ignore_index=True)


def nearest_distances(batches: FloatArray, known: FloatArray) -> FloatArray:
    """Largest difference of the distribution functions to the nearest known domain, by batch."""
    out = np.empty(len(batches))
    step = max(1, _BLOCK_DISTANCES // len(known))
    for start in range(0, len(batches), step):
        block = batches[start : start + step]
        # One known domain at a time: arrays of three dimensions would leave the cache.
        distances = [np.abs(block - one).max(axis=1) for one in known]
        out[start : start + step] = np.min(distances, axis=0)
    return out


def _drawn_distributions(bins: Array, sizes: IntArray, random: np.random.Generator) -> FloatArray:
    """Distributions of batches of each size, drawn without replacement."""
    n_rows = bins.shape[1]
    drawn = [random.permutation(n_rows)[:size] for size in sizes for _ in range(_N_BATCHES)]
    batch = np.repeat(np.arange(len(drawn)), [len(rows) for rows in drawn])
    return cumulated_shares(count_bins(bins[:, np.concatenate(drawn)], batch, len(drawn)))


def _checked(
    arrays: Mapping[str, Array],
    name: str,
    shape: tuple[int | None, ...],
    *,
    low: float,
    high: float = np.inf,
) -> FloatArray:
    """One array of a file as float64; None in ``shape`` is any length."""
    value = np.asarray(arrays[name])
    fits = value.ndim == len(shape) and all(
        wanted is None or wanted == found for wanted, found in zip(shape, value.shape, strict=True)
    )
    if value.dtype.kind not in "fiu" or not fits:
        raise InputError(
            f"the array {name!r} of the covered domains has the shape {value.shape} and dtype "
            f"{value.dtype}; numbers of shape {shape} are needed."
        )
    value = value.astype(np.float64)
    if not (np.isfinite(value) & (value >= low) & (value <= high)).all():
        raise InputError(
            f"the array {name!r} of the covered domains has a value that is not finite or not in "
            f"[{low:g}, {high:g}]."
        )
    return value

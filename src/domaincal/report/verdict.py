"""The verdict of the page in words, for a reader who has two minutes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import binomtest

from domaincal._typing import Array, FloatArray
from domaincal._wording import few
from domaincal.calibrators.batch.batch_temperature import MINIMUM_DOMAINS
from domaincal.metrics import MethodComparison, compare_methods
from domaincal.report.plain_values import array, signed
from domaincal.statistics.bin_sums import binomial_deviation
from domaincal.statistics.temperature_solver import MINIMUM_ROWS

# Confidence that is off by so much less than chance explains, or more, is good, or poor.
_GOOD, _POOR = 0.02, 0.05
# There is hardly anything to gain where confidence is off by so little, beyond chance.
_HARDLY = 0.01
# The worst domain is not by chance where rows this unlikely are not, of all domains together.
_UNLIKELY = 0.05
# Distances by chance that are smaller are not told.
_NO_CHANCE = 0.001
# New domains that sentences name, and the length of their names there, of which the end.
_NAMED = 3
_NAME, _END = 60, 20


def verdict(contents: Mapping[str, Any], *, own_rows: bool = False) -> dict[str, Any]:
    """Section ``verdict`` of a page, from its other contents.

    "Off by" is the distance of mean confidence and accuracy of a domain, averaged over the domains.
    ``own_rows`` says that the calibration was fitted to the rows that are scored.

    Examples
    --------
    >>> scores = {"confidence": [0.9, 0.8, 0.95, 0.9], "low": [0.1] * 4}
    >>> calibrated = {"confidence": [0.71, 0.7, 0.69, 0.7], "low": [0.0] * 4}
    >>> domains = {"name": list("abcd"), "kind": ["unseen"] * 4, "n": [9000] * 4,
    ...            "accuracy": [0.7] * 4, "before": scores, "after": calibrated}
    >>> verdict({"domains": domains, "unlabelled": None})["headline"]
    'Confidence is off by 18.8 points on the average unseen domain; calibration brings it to 0.5.'
    """
    new = contents.get("unlabelled")
    known_names = set((contents.get("domains") or {}).get("name", ()))
    expected = [] if new is None else _expected_in_new_domains(new, known_names)
    warned = [] if new is None else _warned_of_new_domains(new)
    domains = contents.get("domains")
    if domains is None:
        nothing = "There are no labels, so nothing can be scored."
        headline, *others = [*expected[:1], *warned, *expected[1:]] or [nothing]
        return {"state": "unknown", "headline": headline, "sentences": others}
    kind = np.array(domains["kind"])
    unseen = _Compared.from_domains(domains, kind == "unseen")
    known = _Compared.from_domains(domains, kind == "known")
    main = unseen or known
    if main is None:
        return {"state": "unknown", "headline": "No domain could be scored.", "sentences": []}
    noun = "unseen domain" if unseen is not None else "known domain"
    first, found = main.first_sentences(), main.further_sentences()
    if own_rows:
        first.insert(0, "The calibration was fitted to these rows, so that its errors look too "
                     "small: give rows that it has not seen.")  # fmt: skip
    elif unseen is None:
        first.append("All these domains are known: nothing here tells about unseen ones.")
    elif known is not None:
        found.append(
            f"In the {known.counted('known domain')}, confidence is off by "
            f"{_points(known.before)} points, and by {_points(known.after)} after calibration."
        )
    return {
        "state": main.state() if unseen is not None else "unknown",
        "headline": main.headline(noun),
        "sentences": [*first, *warned, *expected, *found, main.definition(noun)],
    }


@dataclass(frozen=True, eq=False)
class _Compared:
    """Domains of one kind, before and after calibration.

    Attributes
    ----------
    names : array of str
    n, accuracy : arrays
        Number of rows and accuracy of each domain.
    confidence : dict from "before" and "after" to arrays
    low : dict from "before" and "after" to arrays
        Lower limits of the ECE, which hold for all domains together.
    """

    names: Array
    n: FloatArray
    accuracy: FloatArray
    confidence: dict[str, FloatArray]
    low: dict[str, FloatArray]

    @classmethod
    def from_domains(cls, domains: Mapping[str, Any], chosen: Array) -> _Compared | None:
        """Chosen domains of the section ``domains``; None if there are none."""
        if not chosen.any():
            return None
        stages = ("before", "after")
        return cls(
            np.array(domains["name"], object)[chosen],
            array(domains["n"])[chosen],
            array(domains["accuracy"])[chosen],
            {stage: array(domains[stage]["confidence"])[chosen] for stage in stages},
            {stage: array(domains[stage]["low"])[chosen] for stage in stages},
        )

    def gaps(self, stage: str) -> FloatArray:
        """How far confidence is off in each domain."""
        return np.abs(self.confidence[stage] - self.accuracy)

    def chance(self, stage: str) -> FloatArray:
        """How far it would be off on average if every confidence were right."""
        return binomial_deviation(self.n, self.n * self.confidence[stage]) / self.n

    @property
    def before(self) -> float:
        return float(self.gaps("before").mean())

    @property
    def after(self) -> float:
        return float(self.gaps("after").mean())

    @property
    def comparison(self) -> MethodComparison:
        """Paired comparison over the domains."""
        stages = ("before", "after")
        parts = [
            pd.DataFrame({
                "method": stage, "domain": np.arange(len(self.n)), "gap": self.gaps(stage),
            })
            for stage in stages
        ]  # fmt: skip
        return compare_methods(pd.concat(parts), "after", "before", score="gap")

    def beyond_chance(self, stage: str) -> float:
        """Mean distance minus what chance explains."""
        return float((self.gaps(stage) - self.chance(stage)).mean())

    def counted(self, noun: str) -> str:
        """Number of these domains with the noun."""
        return noun if len(self.n) == 1 else f"{len(self.n):,} {noun}s"

    def state(self) -> str:
        """Whether calibrated confidence can be used in new domains."""
        if len(self.n) < MINIMUM_DOMAINS:
            return "unknown"
        left = self.beyond_chance("after")
        if self._is_worse() and left > _HARDLY:
            return "poor"
        if left <= _GOOD:
            return "good"
        return "partly" if left <= _POOR or self._is_better() else "poor"

    def _is_better(self) -> bool:
        return self.comparison.is_clear and self.comparison.difference < 0

    def _is_worse(self) -> bool:
        return self.comparison.is_clear and self.comparison.difference > 0

    def headline(self, noun: str) -> str:
        """The result in one sentence."""
        before, after = _points(self.before), _points(self.after)
        which = f"the average {noun}" if len(self.n) > 1 else f"the only {noun}"
        start = f"Confidence is off by {before} points on {which}"
        if len(self.n) < MINIMUM_DOMAINS:
            few_domains = f"{len(self.n)} domain{'s are' if len(self.n) > 1 else ' is'} too few"
            return f"{start}, and by {after} after calibration; {few_domains} to say more."
        if self.beyond_chance("before") <= _HARDLY:
            changed = f"calibration changes it to {after}"
            if before == after:
                changed = "calibration does not change that"
            elif self._is_worse():
                changed = f"calibration makes it worse, {after}"
            return (
                f"Confidence is off by only {before} points on {which}, so that there is hardly "
                f"anything to gain; {changed}."
            )
        if before == after:
            return f"{start}; calibration does not change that."
        if self._is_better():
            return f"{start}; calibration brings it to {after}."
        if self._is_worse():
            return f"{start}; calibration makes it worse: {after}."
        return f"{start}; calibration changes it to {after}, which may be chance."

    def first_sentences(self) -> list[str]:
        """The direction of the error, and the worst domain."""
        return [*self._direction(), self._worst()]

    def further_sentences(self) -> list[str]:
        """How sure the headline is, and in how many domains."""
        n = len(self.n)
        if n < 2:
            return []
        found = []
        if n >= MINIMUM_DOMAINS:
            found.append(_change(self.comparison, n))
        found.append(
            f"The calibration error (ECE) is more than chance in {self._clear('before')} of {n:,} "
            f"domains before calibration, and in {self._clear('after')} after it."
        )
        return found

    def _clear(self, stage: str) -> str:
        """Number of domains whose error is more than chance."""
        low = self.low[stage]
        number = int((low > 0).sum())
        # Of very many domains, the worst ones have limits.
        if not np.isnan(low).any():
            return f"{number:,}"
        if number == 0:
            return f"none of the worst {int((~np.isnan(low)).sum()):,}"
        return f"at least {number:,}"

    def definition(self, noun: str) -> str:
        """What "off by" means, and how much of it is chance."""
        what = "Off by: the distance between the mean confidence and the accuracy of a domain"
        if len(self.n) > 1:
            what += f", averaged over {self.counted(noun)}"
        chance = float(self.chance("after").mean())
        if chance < _NO_CHANCE:
            return f"{what}."
        return (
            f"{what}. If every confidence were right, it would be {_points(chance)} points by "
            "chance, with these numbers of rows."
        )

    def _direction(self) -> list[str]:
        """Whether confidence is too high, or too low, in most domains before calibration."""
        above = int((self.confidence["before"] > self.accuracy).sum())
        n = len(self.n)
        if n < MINIMUM_DOMAINS or self.beyond_chance("before") <= _HARDLY:
            return []
        start = "Before calibration, confidence is too"
        for number, word in ((above, "high"), (n - above, "low")):
            if number > 0.8 * n:
                return [f"{start} {word} in {number:,} of {n:,} domains."]
        return [f"{start} high in {above:,} and too low in {n - above:,} of {n:,} domains."]

    def _worst(self) -> str:
        """The domain that calibrated confidence is farthest from."""
        large = self.n >= MINIMUM_ROWS
        compared = large if large.any() else np.ones_like(large)
        k = int(np.argmax(np.where(compared, self.gaps("after"), -1.0)))
        n, hits = int(self.n[k]), round(self.accuracy[k] * self.n[k])
        before, after = self.confidence["before"][k], self.confidence["after"][k]
        only = "Worst domain" if len(self.n) > 1 else "Domain"
        if not compared.all():
            only += f" of at least {MINIMUM_ROWS} rows"
        rows = "its only row is" if n == 1 else f"{_percent(self.accuracy[k])} of {n:,} rows are"
        right = "wrong" if n == 1 and hits == 0 else "right"
        # The spread of so many rows of one confidence is the largest there can be.
        unlikely = binomtest(hits, n, min(after, 1.0)).pvalue * len(self.n) < _UNLIKELY
        by_chance = ", an error that chance alone can explain"
        return (
            f"{only} after calibration: {_short(self.names[k])}, where {rows} {right}, and mean "
            f"confidence is {_percent(after)} ({_percent(before)} before)"
            f"{'' if unlikely or self.low['after'][k] > 0 else by_chance}."
        )


def _warned_of_new_domains(new: Mapping[str, Any]) -> list[str]:
    """Domains without labels that are unlike all known ones."""
    names = [
        _short(name)
        for name, found in zip(new["name"], new["verdict"], strict=True)
        if found == "outside"
    ]
    if not names:
        return []
    whose = "its" if len(names) == 1 else "their"
    return [
        f"Do not rely on the model in {few(names, _NAMED)}: {whose} scores are unlike those of "
        "every known domain, so that the accuracy cannot be predicted."
    ]


def _expected_in_new_domains(new: Mapping[str, Any], known: set[str]) -> list[str]:
    """What to expect in the other domains without labels, the lowest limits first.

    ``known`` holds the names of the domains with labels.
    """
    low, high, predicted = (array(new[key]) for key in ("low", "high", "predicted"))
    where = [
        f"{'In new rows of' if name in known else 'On the new'} domain {_short(name)}"
        for name in new["name"]
    ]
    others = [k for k in range(len(where)) if new["verdict"][k] != "outside"]
    found = []
    for k in [k for k in others if high[k] - low[k] < 1.0][:_NAMED]:
        edge = ""
        if new["verdict"][k] == "edge":
            edge = ", with care: its scores are unlike those of most known domains"
        found.append(
            f"{where[k]}, expect {_percent(low[k], 0)} to {_percent(high[k], 0)} "
            f"accuracy ({100 * new['coverage']:g}% interval){edge}."
        )
    without = [k for k in others if not high[k] - low[k] < 1.0]
    found += [
        f"{where[k]}, about {_percent(predicted[k], 0)} accuracy is predicted, "
        "but there are too few known domains for an interval."
        for k in without[:_NAMED]
    ]
    more = len(others) - len(found)
    if more > 0:
        found.append(f"{more:,} more new domains are in the table below.")
    return found


def _change(found: MethodComparison, n_domains: int) -> str:
    """How calibration changes the distance, with a 95% interval."""
    if found.wins == found.losses == 0:
        return "Calibration changes the confidence of no domain."
    limits = [100 * found.low, 100 * found.high]
    if found.is_clear:
        verb = "lowers" if found.difference < 0 else "raises"
        low, high = sorted(abs(limit) for limit in limits)
        by = f"{100 * abs(found.difference):.1f} points (95% interval {low:.1f} to {high:.1f})"
    else:
        verb = "changes"
        by = (
            f"{signed(100 * found.difference)} points (95% interval {signed(limits[0])} to "
            f"{signed(limits[1])}, which holds 0)"
        )
    return (
        f"Calibration {verb} the average distance between confidence and accuracy by {by}; "
        f"confidence is closer to the accuracy in {found.wins:,} of {n_domains:,} domains, and "
        f"farther from it in {found.losses:,}."
    )


def _points(value: float) -> str:
    return f"{100 * value:.1f}"


def _percent(value: float, decimals: int = 1) -> str:
    return f"{100 * value:.{decimals}f}%"


def _short(name: str) -> str:
    return name if len(name) <= _NAME else f"{name[: _NAME - _END - 1]}…{name[-_END:]}"

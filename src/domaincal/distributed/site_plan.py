"""The second round: a plan that all sites get, and their answers to it."""

# Short signatures in help(): annotations stay text.
from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from domaincal._typing import Array, FloatArray, IntArray
from domaincal.calibrators.temperature_target import TemperatureTarget
from domaincal.distributed.site_batches import BatchMoments, BatchPlan
from domaincal.distributed.site_curves import SlopeCurve
from domaincal.distributed.site_file import ANSWERS, PLAN, encode_rows, write_site_file
from domaincal.distributed.site_sums import SiteRows, contents_of
from domaincal.statistics import LinearMap


@dataclass(frozen=True, eq=False)
class SearchPlan:
    """Candidates of a search, each fitted without the domains of one fold.

    Attributes
    ----------
    folds : array, shape (n_domains,)
        Fold of each domain of all sites; -1 for domains that are not used.
    coef : array, shape (n_folds, n_candidates, n_features)
    intercept : array, shape (n_folds, n_candidates)
    limits : array, shape (n_folds, 2)
        Smallest and largest temperature.
    pooled : array, shape (n_folds,)
        One temperature for the rows of all other folds.
    target : {"temperature", "log", "inverse"}
    """

    folds: IntArray
    coef: FloatArray
    intercept: FloatArray
    limits: FloatArray
    pooled: FloatArray
    target: str

    def maps(self) -> list[list[LinearMap]]:
        """Linear maps of each fold."""
        return [
            [LinearMap(coef, float(b)) for coef, b in zip(of_fold, intercepts, strict=True)]
            for of_fold, intercepts in zip(self.coef, self.intercept, strict=True)
        ]

    def targets(self) -> list[TemperatureTarget]:
        """Target of each fold, with its limits."""
        return [
            TemperatureTarget(self.target, float(low), float(high))  # type: ignore[arg-type]
            for low, high in self.limits
        ]


@dataclass(frozen=True, eq=False)
class SitePlan:
    """What a second round asks of every site; :func:`answer_plan` answers it.

    Attributes
    ----------
    rows : SiteRows
        Names of classes, features and domains of all sites.
    identity : str
        Digest of the sums of the first round and of the method.
    log_beta : array, or None
        Temperatures at which slopes are wanted.
    search : SearchPlan or None
        Candidates whose log loss is wanted.
    batches : BatchPlan or None
        What is needed to draw batches whose statistics are wanted.

    Examples
    --------
    >>> import domaincal as dc
    >>> from domaincal.distributed import answer_plan, combine_sites, plan_second_round
    >>> from domaincal.distributed import summarize_site
    >>> data, _ = dc.make_multi_domain(n_domains=4, n_rows=200, random_state=0)
    >>> first = summarize_site(data)
    >>> plan = plan_second_round([first], dc.TemperatureScaling())
    >>> fitted = combine_sites([first, answer_plan(data, plan)], dc.TemperatureScaling())
    >>> abs(fitted.temperature_ - dc.TemperatureScaling().fit(data).temperature_) < 1e-8
    True
    """

    rows: SiteRows
    identity: str
    log_beta: FloatArray | None = None
    search: SearchPlan | None = None
    batches: BatchPlan | None = None
    source: str = "the plan"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the plan to a ``.safetensors`` file, atomically."""
        write_site_file(path, PLAN, *self.content())

    def content(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Header and arrays of the file."""
        header = {**encode_rows(self.rows), "identity": self.identity}
        arrays: dict[str, Array] = {}
        if self.log_beta is not None:
            arrays["log_beta"] = self.log_beta
        if self.search is not None:
            header["target"] = self.search.target
            names = ("folds", "coef", "intercept", "limits", "pooled")
            arrays |= {name: getattr(self.search, name) for name in names}
        if self.batches is not None:
            arrays["log_pooled"] = np.array([self.batches.log_pooled])
            directions = self.batches.directions
            if directions is not None:
                arrays["centre"] = directions.mean
                arrays["scale"] = np.array([directions.scale])
                arrays["directions"] = directions.directions
        return header, arrays


@dataclass(frozen=True, eq=False)
class SiteAnswers:
    """Sums of a site that a plan asked for, none of them over few rows.

    Attributes
    ----------
    rows : SiteRows
    identity : str
        That of the plan.
    n_rows : array, shape (n_domains,)
    curve : SlopeCurve or None
        Derivatives of the NLL of all rows at the temperatures of the plan.
    nll_sums : array, shape (n_candidates + 1, n_domains), or None
        NLL of each domain under each candidate, and under one temperature; 0 for domains that are
        not used.
    moments : BatchMoments or None
        Means and covariances of the statistics of random batches.
    """

    rows: SiteRows
    identity: str
    n_rows: Array
    curve: SlopeCurve | None = None
    nll_sums: FloatArray | None = None
    moments: BatchMoments | None = None
    source: str = "the site"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the answers to a ``.safetensors`` file, atomically."""
        header = {**encode_rows(self.rows), "identity": self.identity}
        write_site_file(path, ANSWERS, header, self.arrays())

    def arrays(self) -> dict[str, Array]:
        """All arrays, under their names in files."""
        found: dict[str, Array] = {"n_rows": np.asarray(self.n_rows, np.int64)}
        if self.curve is not None:
            found |= {"log_beta": self.curve.log_beta, "curve": self.curve.sums}
        if self.nll_sums is not None:
            found["nll_sums"] = self.nll_sums
        if self.moments is not None:
            found |= vars(self.moments)
        return found

    def contents(self) -> pd.DataFrame:
        """What leaves the site: array, its size and what it means, one row for each array."""
        return contents_of(self.arrays())

    def remarks(self) -> list[str]:
        """Sentences about what is in the sums."""
        said = [
            f"Besides these sums over {int(self.n_rows.sum())} rows, the file holds the names of "
            f"the {len(self.n_rows)} domains, of the classes and of the features, and a digest of "
            "the data.",
            f"The sums are over at least {int(self.n_rows.min())} rows each. But every answered "
            "plan tells more: from the answers to many plans, or to one that was made for it, "
            "single rows can be computed. Answer few plans, of people whom you trust.",
        ]
        if self.moments is not None:
            said.append(
                "The batches are random, and only this site knows which rows are in them: the same "
                "plan answered again gives other numbers."
            )
        return said

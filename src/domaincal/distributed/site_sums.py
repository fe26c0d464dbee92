"""What a site sends in the first round: sums over its rows, domain by domain or of all."""

# Short signatures in help(): annotations stay text.
from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
import pandas as pd

from domaincal._typing import Array, FloatArray
from domaincal.distributed.site_curves import SlopeCurve
from domaincal.distributed.site_features import FeatureSums
from domaincal.statistics import TemperatureFit
from domaincal.statistics.domain_bins import DomainBins
from domaincal.statistics.temperature_solver import MINIMUM_ROWS

#: What the features of a site are: those of the data, the sorted logits, or none.
FEATURES = ("given", "logits", "none")

#: Meaning of each array of a file, for people who must decide whether it may leave.
MEANINGS = {
    "n_rows": "number of rows of each domain",
    "temperature": "temperature of each domain",
    "standard_error": "standard error of each log temperature",
    "at_bound": "whether the rows of a domain determine no temperature",
    "nll": "mean log loss of each domain at its temperature",
    "scale": "mean spread of the logits of each domain",
    "bins": "rows, sum of confidences and right predictions in 15 bins of each domain; bins with "
    "fewer than 10 rows are counted with the next",
    "log_beta": "temperatures at which the next sums were taken",
    "curve": "log loss of all rows, its derivatives and their squares, at each of them",
    "domain_curves": "the same for each domain",
    "shift": "the shift that was given, which all sites know",
    "moments": "sum of the features of each domain",
    "gram": "sums of the products of two features, over all rows",
    "gram_equal": "the same, with equal weight for each domain",
    "domain_grams": "sums of the products of two features, for each domain",
    "profiles": "mean statistics of the logits and features of each domain",
    "targets": "log temperature at which confidence and accuracy of a domain agree",
    "batch_means": "mean statistics of random batches of 1 to 1000 rows of each domain",
    "batch_covariances": "covariances of these statistics over the batches",
    "nll_sums": "log loss of each domain under each candidate of the search",
}


@dataclass(frozen=True, eq=False)
class SiteRows:
    """What is known about the rows of a site besides sums; the same fields are in all files.

    Attributes
    ----------
    n_classes : int
    class_names, feature_names : tuple of str or None
    features : {"given", "logits", "none"}
    domains : array
        Names of the domains, sorted: integers or texts.
    fingerprint : str
        Digest of the data.
    floor : float or None
        Floor of the probabilities; None if the scores are logits.
    """

    n_classes: int
    class_names: tuple[str, ...] | None
    feature_names: tuple[str, ...] | None
    features: str
    domains: Array
    fingerprint: str
    floor: float | None = None


@dataclass(frozen=True, eq=False)
class SiteSums:
    """Sums over the rows of a site, none of them over few rows.

    :func:`summarize_site` returns it, and :func:`combine_sites` takes it or its file.

    Attributes
    ----------
    rows : SiteRows
        Names of classes, features and domains.
    n_rows : array, shape (n_domains,)
    fit : TemperatureFit
        Temperature of each domain.
    bins : DomainBins
        Rows, confidences and hits in bins of the confidence, before calibration.
    curve : SlopeCurve
        Derivatives of the NLL of all rows at several temperatures.
    domain_curves : SlopeCurve or None
        The same for each domain, for the search of a penalty.
    features : FeatureSums or None
    source : str
        Name for messages: the file, or the number of the site.

    Examples
    --------
    >>> import domaincal as dc
    >>> from domaincal.distributed import summarize_site
    >>> data, _ = dc.make_multi_domain(n_domains=3, n_rows=200, random_state=0)
    >>> sums = summarize_site(data)
    >>> sums.n_rows.tolist(), sums.features.moments.shape
    ([200, 200, 200], (3, 16))
    """

    rows: SiteRows
    n_rows: Array
    fit: TemperatureFit
    bins: DomainBins
    curve: SlopeCurve
    domain_curves: SlopeCurve | None
    features: FeatureSums | None
    source: str = "the site"

    @property
    def used(self) -> Array:
        """Domains with at least 10 rows whose temperature is not at a bound."""
        return np.asarray((self.n_rows >= MINIMUM_ROWS) & ~self.fit.at_bound)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the sums to a ``.safetensors`` file, atomically."""
        from domaincal.distributed.site_file import write_sums

        write_sums(self, path)

    def arrays(self) -> dict[str, Array]:
        """All arrays, under their names in files."""
        fit, bins, features = self.fit, self.bins, self.features
        found = {
            "n_rows": np.asarray(self.n_rows, np.int64),
            "temperature": fit.temperature,
            "standard_error": fit.standard_error,
            "at_bound": fit.at_bound,
            "nll": fit.nll,
            "scale": fit.scale,
            "bins": np.stack([bins.weight, bins.confidence, bins.hits], axis=2),
            "log_beta": self.curve.log_beta,
            "curve": self.curve.sums,
        }
        if self.domain_curves is not None:
            found["domain_curves"] = self.domain_curves.sums
        if features is not None:
            found |= {
                name: getattr(features, name)
                for name in ("shift", "moments", "gram", "gram_equal", "domain_grams")
                if getattr(features, name) is not None
            }
        return found

    def contents(self) -> pd.DataFrame:
        """What leaves the site: array, its size and what it means, one row for each array."""
        return contents_of(self.arrays())

    def table(self) -> pd.DataFrame:
        """Accuracy, mean confidence and ECE of each domain before calibration, and its temperature.

        Bins with fewer than 10 rows are counted with the next.
        """
        return pd.DataFrame(
            {
                "domain": self.rows.domains,
                "n": self.n_rows,
                "accuracy": self.bins.accuracy,
                "mean_confidence": self.bins.mean_confidence,
                "ece": self.bins.calibration_error(),
                "floor": self.bins.floor(),
                "temperature": self.fit.temperature,
                "standard_error": self.fit.standard_error,
                "used": self.used,
            }
        )

    def remarks(self) -> list[str]:
        """Sentences about what is in the sums, and what they may tell."""
        n, n_domains = int(self.n_rows.sum()), len(self.n_rows)
        said = [
            f"Besides these sums over {n} rows, the file holds the "
            f"{'names' if n_domains > 1 else 'name'} of the "
            f"{f'{n_domains} domains' if n_domains > 1 else 'domain'}, of the classes and of the "
            "features, and a digest of the data.",
            "Temperatures, slopes and sums of features are over at least "
            f"{int(self.n_rows.min())} rows each, and bins count at least "
            f"{self._fewest_in_bins()}. Sums are not anonymous by themselves: differences of two "
            "summaries tell about the rows in which they differ, and combinations of sums can be "
            "those of fewer rows.",
        ]
        if self.features is not None:
            width = len(self.features.shift)
            fewest, of = self._fewest_in_products()
            if 0 < fewest <= width:
                said.append(
                    f"The {fewest} rows {of} are not more than the {width} features: the sums of "
                    "products then determine the features of the rows up to a rotation."
                )
        return said

    def _fewest_in_bins(self) -> int:
        weight = self.bins.weight
        return int(weight[weight > 0].min())

    def _fewest_in_products(self) -> tuple[int, str]:
        """Smallest number of rows whose sums of products follow from those of the site.

        ``gram_equal`` weights a domain by one over its number of rows. The difference of its
        multiple by n and of ``gram`` is without the domains of n rows.
        """
        assert self.features is not None
        n = self.n_rows[self.used]
        if not len(n):
            return 0, ""
        if self.features.domain_grams is not None:
            return int(n.min()), "of a domain"
        sizes, domains = np.unique(n, return_counts=True)
        if len(sizes) == 1:
            return int(n.sum()), "of the site"
        without = n.sum() - sizes * domains
        k = int(without.argmin())
        others = len(n) - int(domains[k])
        return int(without[k]), "of a domain" if others == 1 else f"of {others} domains"


def contents_of(arrays: dict[str, Array]) -> pd.DataFrame:
    """Name, size and meaning of arrays."""
    return pd.DataFrame(
        {
            "array": list(arrays),
            "size": [" x ".join(map(str, values.shape)) for values in arrays.values()],
            "meaning": [MEANINGS[name] for name in arrays],
        }
    )


def pooled_scale(n_rows: FloatArray, scale: FloatArray) -> float:
    """Mean spread of the logits of all rows."""
    return float(n_rows @ np.nan_to_num(scale) / n_rows.sum())

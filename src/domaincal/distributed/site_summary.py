"""Sums over the rows of a site, from data in memory or in blocks."""

# Short signatures in help(): annotations stay text.
from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from domaincal._row_arrays import row_range, sum_over_parts
from domaincal._typing import Array, ArrayLike, FeatureMatrix, FloatArray, IntArray
from domaincal._validation import (
    check_features,
    check_labels,
    check_logits,
    check_option,
    warn_of_probabilities,
)
from domaincal._wording import list_domains
from domaincal.calibrators.inputs import check_feature_names
from domaincal.calibrators.sorted_logits import SortedLogits
from domaincal.data import BlockedRows, CalibrationData
from domaincal.data.blocked_rows import as_rows
from domaincal.data.fingerprint import fingerprint
from domaincal.distributed.site_curves import SlopeCurve, site_points
from domaincal.distributed.site_disclosure import check_kinds, check_rare_features
from domaincal.distributed.site_features import FeatureSums
from domaincal.distributed.site_file import N_BINS, SUMS, decode_sums, read_site_file
from domaincal.distributed.site_sums import FEATURES, SiteRows, SiteSums
from domaincal.errors import InputError
from domaincal.io.npy import read_npy_file
from domaincal.kernels import dispatch
from domaincal.statistics import LabelledRows, TemperatureFit, fit_temperature
from domaincal.statistics.bin_sums import bin_edges
from domaincal.statistics.blocks import Workers, row_blocks
from domaincal.statistics.domain_bins import DomainBins
from domaincal.statistics.domain_counts import domain_counts
from domaincal.statistics.temperature_solver import MINIMUM_ROWS

#: Domains with fewer rows are refused by default.
MIN_ROWS = 50
# Bins of the confidence with fewer rows are counted with the next: the sums over one row would be
# its confidence, and whether it is right.
_COUNTED_FROM = 10


@dataclass(frozen=True, eq=False)
class CheckedSite:
    """Checked rows of a site: what is known about them, and arrays in memory or in blocks."""

    about: SiteRows
    labelled: LabelledRows
    features: FeatureMatrix | None
    n_rows: FloatArray

    @property
    def codes(self) -> IntArray:
        """Number of the domain of each row."""
        assert self.labelled.domain is not None
        return self.labelled.domain


def summarize_site(
    data: CalibrationData | BlockedRows | Any,
    *,
    shift: float | ArrayLike = 0.0,
    features: Literal["given", "logits", "none"] = "given",
    min_rows: int = MIN_ROWS,
    search: bool = False,
) -> SiteSums:
    """Sums over the rows of a site, from which :func:`combine_sites` fits a calibrator.

    Parameters
    ----------
    data : CalibrationData, Store or BlockedRows
        Labelled rows with domains. Those of a store are read in blocks.
    shift : 0 or array of shape (n_features,), default 0
        Subtracted from the features before they are summed, the same for all sites. With a shift
        near the mean of the features, fits with an intercept stay accurate if the mean is much
        larger than the variation.
    features : {"given", "logits", "none"}, default "given"
        "given": sum the features of the data, if it has any. "logits": sum the sorted logits of
        each row, for MD-TS with ``features="logits"``. "none": sum neither, for methods without
        features.
    min_rows : int, default 50
        Domains with fewer rows are refused: sums over few rows tell much about each of them. So are
        features that differ from their most common value in fewer rows of a domain (or in fewer
        than half of its rows), but not in none, and domains in which fewer than 5 rows, or fewer
        than ``min_rows``, are wrong or right, but not none.
    search : bool, default False
        Also sum what the search for the penalty of ridge needs: products of features and slopes of
        each domain.

    Returns
    -------
    SiteSums
        With ``save(path)``; ``contents()`` lists what leaves the site.

    Examples
    --------
    >>> import domaincal as dc
    >>> from domaincal.distributed import combine_sites, summarize_site
    >>> data, _ = dc.make_multi_domain(n_domains=6, n_rows=200, random_state=0)
    >>> one, other = dc.split_domains(data, ["domain-1", "domain-4"])
    >>> sums = [summarize_site(one), summarize_site(other)]
    >>> fitted = combine_sites(sums, dc.MultiDomainTemperatureScaling())
    >>> pooled = dc.MultiDomainTemperatureScaling().fit(data)
    >>> bool(abs(fitted.predict_temperature(data) - pooled.predict_temperature(data)).max() < 1e-8)
    True
    """
    site = check_site(data, features=features)
    check_min_rows(site, min_rows)
    rows, n = site.labelled, site.n_rows
    bins = _confidence_bins(rows)
    check_kinds(site.about.domains, n, bins.hits.sum(axis=1), min_rows)
    fit, used = fit_domains(site)
    curves = SlopeCurve.from_rows(rows, site_points(fit, used))
    sums = None
    if site.features is not None:
        given = _check_shift(shift, site.features.shape[1])
        sums = FeatureSums.from_rows(site.features, site.codes, n, used, shift=given, search=search)
        check_features_vary(site, used, min_rows)
    return SiteSums(
        site.about, n.astype(np.int64), fit, bins, curves.total(), curves if search else None, sums
    )


def load_shift(text: str) -> float | FloatArray:
    """Shift of the command line: 0, a .npy file, or the mean features in a file of sums."""
    if text == "0":
        return 0.0
    path = Path(text)
    if path.suffix == ".npy":
        return np.asarray(read_npy_file(path), np.float64)
    header, tensors = read_site_file(path)
    if header["content"] != SUMS:
        raise InputError(f"{path} holds no sums of features; give a .npy file, or sums of a site.")
    sums = decode_sums(header, tensors, path)
    if sums.features is None or not sums.used.any():
        raise InputError(f"{path} holds no sums of features; give a .npy file, or sums of a site.")
    n = sums.n_rows[sums.used].sum()
    return np.asarray(sums.features.shift + sums.features.moments.sum(axis=0) / n)


def check_site(data: Any, *, features: str) -> CheckedSite:
    """Checked rows of a site; the features are those of the data, or the sorted logits."""
    check_option(features, "features", FEATURES)
    source = as_rows(data)
    if not isinstance(source, CalibrationData | BlockedRows):
        raise InputError(
            f"data must be CalibrationData or a Store, got {type(data).__name__}; wrap arrays in "
            "CalibrationData(logits, labels=..., features=..., domains=...)."
        )
    for name in ("labels", "domains"):
        if getattr(source, name) is None:
            raise InputError(f"the data have no {name}, which the sums of a site need; add them.")
    codes: Any
    if isinstance(source, CalibrationData):
        source = source.numpy()
        codes, names = source.domain_codes
    else:
        assert source.domains is not None
        codes, names = source.domains.codes, source.domains.names
    logits: Any = check_logits(source.logits)
    n, n_classes = logits.shape
    labels = check_labels(source.labels, n_rows=n, n_classes=n_classes)
    warn_of_probabilities(logits)
    x: Any = None
    kind, feature_names = "none", None
    if features == "logits":
        kind, x = "logits", SortedLogits(logits)
    elif features == "given" and source.features is not None:
        kind, feature_names = "given", source.feature_names
        x = check_features(source.features, n_rows=n, needed_by="summarize_site")
        if feature_names is not None:
            check_feature_names(feature_names)
    about = SiteRows(
        n_classes, source.class_names, feature_names, kind, _plain_names(names),
        fingerprint(logits, labels),
    )  # fmt: skip
    rows = LabelledRows(logits, labels, codes, len(names))
    return CheckedSite(about, rows, x, domain_counts(codes, len(names)))


def _plain_names(names: Array) -> Array:
    """Names as integers of 64 bits, or as texts."""
    if names.dtype.kind not in "iu":
        return names.astype(object)
    if names.dtype.kind == "u" and names.max() > np.iinfo(np.int64).max:
        raise InputError(f"domains contain {names.max()}; use numbers below 2**63, or texts.")
    return names.astype(np.int64)


def check_min_rows(site: CheckedSite, min_rows: int) -> None:
    """Raise InputError for domains with fewer rows."""
    if isinstance(min_rows, bool) or not isinstance(min_rows, int) or min_rows < 1:
        raise InputError(f"min_rows={min_rows!r} must be a whole number of at least 1.")
    small = site.n_rows < min_rows
    if small.any():
        raise InputError(
            f"fewer than {min_rows} rows in {list_domains(site.about.domains[small])}: sums over "
            "few rows tell much about each of them. Remove or merge these domains, or allow them "
            "with min_rows=... (--min-rows)."
        )


def fit_domains(site: CheckedSite) -> tuple[TemperatureFit, Array]:
    """Temperature of each domain, and which domains are used.

    The log loss at a bound is not kept: it would be that of the rows that are nearly wrong.
    """
    fit = fit_temperature(site.labelled)
    fit = replace(fit, nll=np.where(fit.at_bound, 0.0, fit.nll))
    return fit, (site.n_rows >= MINIMUM_ROWS) & ~fit.at_bound


def check_few_wrong(site: CheckedSite, min_rows: int) -> None:
    """Raise InputError for domains in which few rows, but not none, are wrong or right."""
    n_right = _confidence_bins(site.labelled).hits.sum(axis=1)
    check_kinds(site.about.domains, site.n_rows, n_right, min_rows)


def check_features_vary(site: CheckedSite, used: Array, min_rows: int) -> None:
    """Raise InputError for features whose sums over the used domains would show single rows."""
    assert site.features is not None
    check_rare_features(
        site.features, site.codes, site.n_rows, used, names=site.about.domains,
        feature_names=site.about.feature_names, min_rows=min_rows,
    )  # fmt: skip


def _check_shift(shift: Any, n_features: int) -> FloatArray:
    """Checked shift with one value for each feature."""
    try:
        values = np.asarray(shift, np.float64)
    except (TypeError, ValueError) as error:
        raise InputError("shift must be 0 or one number for each feature.") from error
    if values.ndim == 0:
        values = np.full(n_features, float(values))
    if values.shape != (n_features,):
        raise InputError(
            f"shift has the shape {values.shape}, but there are {n_features} features; pass one "
            "number for each, the same for all sites."
        )
    if not np.isfinite(values).all():
        raise InputError("shift holds a number that is not finite; pass finite numbers.")
    return values


def _confidence_bins(rows: LabelledRows) -> DomainBins:
    """Rows, confidences and hits of each domain in bins of the confidence before calibration.

    Bins with few rows are counted with the next, and the last with the one before. In a domain with
    few rows, the middle of the bin stands for the confidences.
    """
    edges = bin_edges(np.zeros(1), N_BINS, "uniform")
    sums = sum_over_parts(_bin_sums, rows)
    weight = sums[0]
    for j in range(N_BINS - 1):
        _move(sums, j, np.full(len(weight), j + 1), weight[:, j] < _COUNTED_FROM)
    filled = weight[:, :-1] > 0
    last = N_BINS - 2 - filled[:, ::-1].argmax(axis=1)
    _move(sums, N_BINS - 1, last, (weight[:, -1] < _COUNTED_FROM) & filled.any(axis=1))
    middle = (edges[:-1] + edges[1:]) / 2
    sums[1] = np.where(weight < _COUNTED_FROM, weight * middle, sums[1])
    return DomainBins(edges, *sums)


def _move(sums: FloatArray, column: int, target: IntArray, domains: Array) -> None:
    """Add a column of sums to another column in some domains, and set it to 0 there."""
    which = np.flatnonzero(domains)
    sums[:, which, target[which]] += sums[:, which, column]
    sums[:, which, column] = 0.0


def _bin_sums(rows: LabelledRows) -> FloatArray:
    """Sums of rows, confidence and hits over the rows that this process reads."""
    out = np.zeros((3, rows.n_domains, N_BINS))
    domain = rows.domain
    assert domain is not None

    def block_bins(block: slice) -> tuple[IntArray, DomainBins]:
        z, y = rows.logits[block], rows.labels[block]
        present, codes = np.unique(domain[block], return_inverse=True)
        confidence, predicted = dispatch.top_label(z, np.ones(1), compiled=rows.compiled)
        return present, DomainBins.from_confidences(
            confidence, predicted == y, codes, len(present), n_bins=N_BINS
        )

    row_bytes = max(rows.logits.shape[1] * rows.logits.itemsize, 16)
    with Workers() as workers:
        for present, found in workers.map(
            block_bins, row_blocks(row_range(rows.logits), row_bytes)
        ):
            out[:, present] += np.stack([found.weight, found.confidence, found.hits])
    return out

"""Sums of several sites as those of one, and the checks that they belong together."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from domaincal._tensor_files import tensor_checksum
from domaincal._typing import Array
from domaincal._wording import few
from domaincal.distributed.site_curves import SlopeCurve, add_curves
from domaincal.distributed.site_features import add_features
from domaincal.distributed.site_file import encode_rows
from domaincal.distributed.site_sums import SiteRows, SiteSums
from domaincal.errors import InputError
from domaincal.statistics import TemperatureFit
from domaincal.statistics.domain_bins import DomainBins


def in_order(sites: Sequence[SiteSums]) -> list[SiteSums]:
    """Sites in the order of their first domains, so that the order of the files decides nothing."""
    kinds = {site.rows.domains.dtype.kind for site in sites}
    if len(kinds) > 1:
        numbered = next(site.source for site in sites if site.rows.domains.dtype.kind == "i")
        named = next(site.source for site in sites if site.rows.domains.dtype.kind == "O")
        raise InputError(
            f"the domains of {numbered} are numbers, those of {named} are texts; use one kind."
        )
    return sorted(sites, key=lambda site: (site.rows.domains[0], site.source))


def merge_sites(sites: Sequence[SiteSums]) -> SiteSums:
    """Sums over the rows of all sites; an error names the files that do not belong together."""
    sites = in_order(sites)
    first = sites[0]
    for site in sites[1:]:
        require_same_columns(first.rows, site.rows, first.source, site.source)
        _require_same_shift(first, site)
    _require_different_domains(sites)
    names = np.concatenate([site.rows.domains for site in sites])
    order = np.argsort(names, kind="stable")

    def joined(arrays: Sequence[Array]) -> Array:
        return np.concatenate(arrays)[order]

    fit = TemperatureFit(
        **{
            name: joined([getattr(site.fit, name) for site in sites])
            for name in ("temperature", "standard_error", "at_bound", "nll", "scale")
        },
        n_iter=max(site.fit.n_iter for site in sites),
    )
    bins = [
        joined([getattr(site.bins, name) for site in sites])
        for name in ("weight", "confidence", "hits")
    ]
    features = None
    if first.features is not None:
        known = [site.features for site in sites if site.features is not None]
        features = add_features(known).select(order)
    rows = SiteRows(
        first.rows.n_classes, first.rows.class_names, first.rows.feature_names,
        first.rows.features, names[order], combined_fingerprint(sites), first.rows.floor,
    )  # fmt: skip
    return SiteSums(
        rows, joined([site.n_rows for site in sites]), fit, DomainBins(first.bins.edges, *bins),
        add_curves([site.curve for site in sites]), _joined_curves(sites, order), features,
        source=few([site.source for site in sites]),
    )  # fmt: skip


def combined_fingerprint(sites: Sequence[SiteSums]) -> str:
    """Digest of the digests of the data of all sites, in the order of :func:`in_order`."""
    n = sum(int(site.n_rows.sum()) for site in sites)
    digest = hashlib.sha256("\n".join(site.rows.fingerprint for site in sites).encode())
    many = f"{len(sites)} sites" if len(sites) > 1 else "1 site"
    return f"{n} rows of {many}, sha256 {digest.hexdigest()[:16]}"


def digest_of(site: SiteSums) -> str:
    """Digest of the content of the sums of one site."""
    return tensor_checksum(json.dumps(encode_rows(site.rows)), site.arrays())


def require_same_columns(one: SiteRows, other: SiteRows, name: str, other_name: str) -> None:
    """Raise InputError if classes or features differ."""
    wrong = ""
    if one.n_classes != other.n_classes:
        wrong = f"{other.n_classes} classes, but {name} has {one.n_classes}"
    elif one.class_names != other.class_names:
        wrong = f"other names of the classes than {name}, or in another order"
    elif one.floor != other.floor:
        wrong = f"the floor {other.floor} of probabilities, but {name} has {one.floor}"
    elif one.features != other.features:
        kinds = {"given": "features of the data", "logits": "sorted logits", "none": "no features"}
        wrong = f"sums of {kinds[other.features]}, but {name} of {kinds[one.features]}"
    elif one.feature_names != other.feature_names:
        wrong = f"other names of the features than {name}, or in another order"
    if wrong:
        raise InputError(f"{other_name} has {wrong}; all sites must use the same columns.")


def _require_same_shift(one: SiteSums, other: SiteSums) -> None:
    if one.features is None or other.features is None:
        return
    mine, theirs = one.features.shift, other.features.shift
    if len(mine) != len(theirs):
        raise InputError(
            f"{other.source} has {len(theirs)} features, but {one.source} has {len(mine)}; all "
            "sites must use the same columns."
        )
    if not np.array_equal(mine, theirs):
        raise InputError(
            f"{other.source} has another shift than {one.source}; all sites must use the same "
            "shift=... (--shift)."
        )


def _require_different_domains(sites: Sequence[SiteSums]) -> None:
    owner: dict[Any, SiteSums] = {}
    for site in sites:
        for name in site.rows.domains.tolist():
            before = owner.setdefault(name, site)
            if before is site:
                continue
            same = digest_of(before) == digest_of(site)
            raise InputError(
                f"{before.source} and {site.source} hold the same sums; leave one of them out."
                if same
                else f"the domain {name!r} is in {before.source} and in {site.source}, but a "
                "domain lies in one site; rename it in one of them, or bring its rows together."
            )


def _joined_curves(sites: Sequence[SiteSums], order: Array) -> SlopeCurve | None:
    """Curves of all domains at the points that all sites have; None if a site has none."""
    curves = [site.domain_curves for site in sites]
    if any(curve is None for curve in curves):
        return None
    known = [curve for curve in curves if curve is not None]
    common = known[0].log_beta
    for curve in known[1:]:
        common = np.intersect1d(common, curve.log_beta)
    sums = [curve.sums[:, np.isin(curve.log_beta, common)] for curve in known]
    return SlopeCurve(common, np.concatenate(sums)[order])

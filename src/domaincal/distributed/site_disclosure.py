"""Refusal of sums that would show single rows: rare features, and domains with few wrong rows.

If a feature is 0 in all rows of a domain but one, its products with the other features are those of
this row alone. If one row of a domain is wrong, slopes of the log loss and the standard error of
the temperature are mostly those of this row.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse

from domaincal._row_arrays import row_range, sum_over_parts
from domaincal._typing import Array, FeatureMatrix, FloatArray, IntArray
from domaincal._wording import few, list_domains
from domaincal.calibrators.row_sample import sample_blocks
from domaincal.errors import InputError
from domaincal.statistics import feature_products
from domaincal.statistics.blocks import read_ahead
from domaincal.statistics.feature_products import feature_blocks

#: Domains need at least this number of wrong rows, and of right ones, or none of them.
FEWEST_OF_A_KIND = 5
_SHOWN_FEATURES = 5


def check_kinds(names: Array, n_rows: FloatArray, n_right: FloatArray, min_rows: int) -> None:
    """Raise InputError for domains in which few rows, but not none, are wrong or right."""
    fewest = min(min_rows, FEWEST_OF_A_KIND)
    for kind, n in (("wrong", n_rows - n_right), ("right", n_right)):
        affected = (n > 0) & (n < fewest)
        if affected.any():
            raise InputError(
                f"fewer than {fewest} rows are predicted {kind} in "
                f"{list_domains(names[affected])}: the temperature and its error would tell how "
                "confident the model is in these rows. Merge these domains with others, remove "
                "them, or allow them with min_rows=... (--min-rows)."
            )


def check_rare_features(
    features: FeatureMatrix,
    codes: IntArray,
    n_rows: FloatArray,
    used: Array,
    *,
    names: Array,
    feature_names: tuple[str, ...] | None,
    min_rows: int,
) -> None:
    """Raise InputError for features with one value in all but a few rows of a used domain.

    They are allowed to differ from their most common value in no row, or in at least ``min_rows``,
    or in half of the rows of a domain with fewer than ``2 * min_rows``. What holds in each domain
    also holds for all rows of the site.
    """
    if min_rows == 1:
        return
    fewest = np.minimum(min_rows, (n_rows.astype(np.int64) + 1) // 2)
    differing = rows_that_differ(features, codes, n_rows, used, fewest)
    rare = (differing > 0) & (differing < fewest[:, None])
    if not rare.any():
        return
    columns = np.flatnonzero(rare.any(axis=0))
    worst = np.where(rare, differing, np.inf)[:, columns].min(axis=0).astype(int)
    shown = [
        f"{repr(feature_names[j]) if feature_names else j} ({n} row{'s' if n > 1 else ''})"
        for j, n in zip(columns.tolist(), worst.tolist(), strict=True)
    ]
    many = "s" if len(columns) > 1 else ""
    raise InputError(
        f"the feature{many} {few(shown, _SHOWN_FEATURES)} differ{'' if many else 's'} from the "
        f"most common value in few rows of {list_domains(names[rare.any(axis=1)])}: the sums would "
        "be those of these rows alone. Drop or merge such features, merge the domains, or allow "
        "them with min_rows=... (--min-rows)."
    )


def rows_that_differ(
    features: FeatureMatrix,
    codes: IntArray,
    n_rows: FloatArray,
    used: Array,
    fewest: IntArray,
) -> FloatArray:
    """Number of rows of each domain in which a feature differs from its most common value.

    Exact where the number is below ``fewest``, which is at most half of the rows (rounded up);
    otherwise any number that is not below. Shape (n_domains, n_features).

    A value that all but ``fewest - 1`` rows have is the median of any ``2 * fewest - 1`` rows. So
    many random rows of each domain give a candidate, and rule out features that vary. All rows are
    read only for the features that remain.
    """
    common = _common_values(features, codes, n_rows, used, fewest)
    enough = np.maximum(n_rows, fewest)[:, None]
    differing: FloatArray = np.tile(enough, (1, common.shape[1]))
    columns = np.flatnonzero(~np.isnan(common).all(axis=0))
    if len(columns):
        counts = sum_over_parts(_count_differing, features, codes, common[:, columns], columns)
        known = ~np.isnan(common[:, columns])
        differing[:, columns] = np.where(known, counts, differing[:, columns])
    return differing


def _common_values(
    features: FeatureMatrix, codes: IntArray, n_rows: FloatArray, used: Array, fewest: IntArray
) -> FloatArray:
    """Values that all but a few rows of a domain may have; NaN where there is none."""
    n_features = features.shape[1]
    found = np.full((len(used), n_features), np.nan)
    sizes = np.where(used, 2 * fewest - 1, 0)
    rows = sample_blocks(codes, sizes, n_rows=n_rows.astype(np.int64), random_state=0)
    of_rows = codes[rows]
    rows = rows[np.argsort(of_rows, kind="stable")]
    ends = np.cumsum(sizes)
    at_once = max(1, feature_products.BLAS_BLOCK_BYTES // (8 * n_features))
    domains = np.flatnonzero(used)
    while len(domains):
        start = ends[domains[0]] - sizes[domains[0]]
        n_read = max(1, int(np.searchsorted(ends[domains], start + at_once, side="right")))
        read, domains = domains[:n_read], domains[n_read:]
        chosen = rows[start : ends[read[-1]]]
        order = np.argsort(chosen, kind="stable")
        x = np.empty((len(chosen), n_features))
        x[order] = features[chosen[order]]
        for k in read:
            own = x[ends[k] - sizes[k] - start : ends[k] - start]
            t = int(fewest[k])
            value = np.partition(own, t - 1, axis=0)[t - 1]
            found[k] = np.where((own != value).sum(axis=0) < t, value, np.nan)
    return found


def _count_differing(
    features: FeatureMatrix, codes: IntArray, common: FloatArray, columns: IntArray
) -> FloatArray:
    """Rows that this process reads in which features differ from the values of their domain."""
    counts = np.zeros(common.shape)

    def read(block: slice) -> tuple[Array, IntArray]:
        return features[block][:, columns], codes[block]

    blocks = feature_blocks(row_range(features), features.shape[1])
    for x, domain in read_ahead(read, blocks) if blocks else ():
        present, own = np.unique(domain, return_inverse=True)
        differs = (x != common[domain]).astype(np.float64)
        indicator = scipy.sparse.csr_array(
            (np.ones(len(own)), (own, np.arange(len(own)))), shape=(len(present), len(own))
        )
        counts[present] += np.asarray(indicator @ differs)
    return counts

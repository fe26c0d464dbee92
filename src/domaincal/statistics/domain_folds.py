"""Folds of similar domains, for cross-validation that leaves out what is unlike the rest."""

from __future__ import annotations

import numpy as np
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import pdist

from domaincal._typing import FloatArray, IntArray

#: With fewer domains, every domain is a fold.
CLUSTERED_FROM = 6
#: No cluster holds a larger share of the domains.
LARGEST_SHARE = 0.5
# A column that varies by less than this fraction of its largest value is constant.
_CONSTANT = 1e-12
# Decimals of the standardised profiles that count: the order in which rows were summed changes
# later ones, and would otherwise decide between equal distances.
_DECIMALS = 9


def similar_domain_folds(profiles: FloatArray, max_folds: int = 10) -> IntArray:
    """Fold of each domain, such that similar domains are in the same fold.

    If similar domains were in different folds, such as severities of one corruption, a held-out
    domain would always have a relative among the others, and its score would say nothing about
    domains unlike all others.

    The columns are standardised, and the domains are clustered by average linkage. The tree is cut
    into ``max_folds`` clusters. Average linkage often finds one large cluster and many single
    domains; if the large one is left out, little is left to learn from. The tree is therefore cut
    further until no cluster holds more than half of the domains. If there are more clusters than
    ``max_folds`` then, the largest ones are assigned first, each to the fold with the fewest
    domains.

    With fewer than 6 domains, every domain is a fold, if ``max_folds`` allows.

    Parameters
    ----------
    profiles : array of shape (n_domains, p)
        Description of each domain, such as the mean of its features. Finite.
    max_folds : int, default 10
        Largest number of folds, at least 2.

    Returns
    -------
    array of int, shape (n_domains,)
        Numbers of the folds, in the order of their first domains. From 2 domains on there are at
        least 2 folds. With ``max_folds`` of at least 3, no fold holds more than half of the
        domains.

    Examples
    --------
    >>> import numpy as np
    >>> noise, blur, fog = [0.0, 5.0], [4.0, 0.0], [9.0, 9.0]
    >>> similar_domain_folds(np.array([noise, blur, noise, fog, blur, fog]), max_folds=3).tolist()
    [0, 1, 0, 2, 1, 2]
    """
    n_domains = len(profiles)
    if n_domains < CLUSTERED_FROM and n_domains <= max_folds:
        return np.arange(n_domains)
    x = _standardised(np.asarray(profiles, np.float64))
    # In the order of their profiles, so that equal distances do not depend on the numbering.
    order = np.lexsort(x.T[::-1])
    clusters = _cut(linkage(pdist(x[order]), "average"), n_domains, max_folds)
    folds = np.empty(n_domains, np.int64)
    sizes = np.zeros(max_folds, np.int64)
    for cluster in sorted(clusters, key=len, reverse=True):  # stable: ties in the order of the tree
        smallest = int(np.argmin(sizes))
        folds[order[cluster]] = smallest
        sizes[smallest] += len(cluster)
    _, first, codes = np.unique(folds, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[codes], np.int64)


def _standardised(profiles: FloatArray) -> FloatArray:
    """Columns with mean 0 and standard deviation 1; constant columns are 0."""
    size = np.abs(profiles).max(axis=0)
    x = profiles / np.where(size > 0, size, 1.0)  # squares of huge numbers would overflow
    x = x - x.mean(axis=0)
    spread = x.std(axis=0)
    varies = spread > _CONSTANT
    x = np.where(varies, x / np.where(varies, spread, 1.0), 0.0)
    return np.asarray(np.round(x, _DECIMALS) + 0.0)  # no negative zeros, which sort before 0


def _cut(tree: FloatArray, n_domains: int, max_folds: int) -> list[list[int]]:
    """Clusters from undoing merges, the latest first; see :func:`similar_domain_folds`."""
    members = [[k] for k in range(n_domains)]
    for left, right in tree[:, :2].astype(int):
        members.append(members[left] + members[right])
    clusters = {len(members) - 1}
    for merge in reversed(range(len(tree))):
        largest = max(len(members[k]) for k in clusters)
        if len(clusters) >= max_folds and largest <= LARGEST_SHARE * n_domains:
            break
        # Merges are in the order of their heights, so that the latest one belongs to a cluster.
        clusters.remove(n_domains + merge)
        clusters.update(tree[merge, :2].astype(int).tolist())
    return [members[k] for k in sorted(clusters)]

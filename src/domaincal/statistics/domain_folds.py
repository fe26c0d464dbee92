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
#: More domains are first joined into this many groups of neighbours: the memory of the distances,
#: and the time of the clustering, grow with the square of their number.
MOST_CLUSTERED = 1 << 12
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

    With fewer than 6 domains, every domain is a fold, if ``max_folds`` allows. More than 4,096
    domains are first joined into 4,096 groups of neighbours, whose means are clustered.

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
    order = lexicographic_order(x)
    x = x[order]
    group = neighbour_groups(x, MOST_CLUSTERED)
    n_rows = np.bincount(group)
    means = x
    if len(n_rows) < n_domains:
        means = np.stack([np.bincount(group, column) for column in x.T], axis=1) / n_rows[:, None]
    clusters = _cut(linkage(pdist(means), "average"), n_rows, max_folds)
    folds = np.empty(n_domains, np.int64)
    fold_of_group = np.empty(len(means), np.int64)
    sizes = np.zeros(max_folds, np.int64)
    # The sort is stable: ties are in the order of the tree.
    for cluster in sorted(clusters, key=lambda c: int(n_rows[c].sum()), reverse=True):
        smallest = int(np.argmin(sizes))
        fold_of_group[cluster] = smallest
        sizes[smallest] += n_rows[cluster].sum()
    folds[order] = fold_of_group[group]
    _, first, codes = np.unique(folds, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[codes], np.int64)


def lexicographic_order(x: FloatArray) -> IntArray:
    """Order of the rows by their first column, equal ones by the second column, and so on.

    Examples
    --------
    >>> import numpy as np
    >>> lexicographic_order(np.array([[1.0, 3.0], [0.0, 5.0], [1.0, 2.0]])).tolist()
    [1, 2, 0]
    """
    n_columns = 1
    while True:
        # A sort by all columns takes a hundred times as long, and the first ones usually decide.
        order = np.lexsort(x.T[:n_columns][::-1])
        different = (np.diff(x[order, :n_columns], axis=0) != 0).any(axis=1)
        if different.all() or n_columns >= x.shape[1]:
            return np.asarray(order)
        n_columns *= 8


def _standardised(profiles: FloatArray) -> FloatArray:
    """Columns with mean 0 and standard deviation 1; constant columns are 0."""
    size = np.abs(profiles).max(axis=0)
    x = profiles / np.where(size > 0, size, 1.0)  # squares of huge numbers would overflow
    x = x - x.mean(axis=0)
    spread = x.std(axis=0)
    varies = spread > _CONSTANT
    x = np.where(varies, x / np.where(varies, spread, 1.0), 0.0)
    return np.asarray(np.round(x, _DECIMALS) + 0.0)  # no negative zeros, which sort before 0


def neighbour_groups(x: FloatArray, n_groups: int) -> IntArray:
    """Group of each row, from halving the rows at the median of their widest column.

    Groups differ by at most one row in size; with at most ``n_groups`` rows, each is a group.

    Examples
    --------
    >>> import numpy as np
    >>> neighbour_groups(np.array([[0.0, 1.0], [9.0, 1.0], [1.0, 2.0], [8.0, 2.0]]), 2).tolist()
    [0, 1, 0, 1]
    """
    group = np.arange(len(x))
    if len(x) <= n_groups:
        return group
    waiting = [(np.arange(len(x)), 0, n_groups)]
    while waiting:
        rows, first, n = waiting.pop()
        if n == 1:
            group[rows] = first
            continue
        own = x[rows]
        widest = int(np.argmax(np.ptp(own, axis=0)))
        rows = rows[np.argsort(own[:, widest], kind="stable")]
        half = n // 2
        cut = len(rows) * half // n
        waiting += [(rows[:cut], first, half), (rows[cut:], first + half, n - half)]
    return group


def _cut(tree: FloatArray, n_rows: IntArray, max_folds: int) -> list[list[int]]:
    """Clusters of groups of ``n_rows`` domains, from undoing merges, the latest first.

    See :func:`similar_domain_folds`.
    """
    n_groups, n_domains = len(n_rows), int(n_rows.sum())
    members = [[k] for k in range(n_groups)]
    sizes: list[int] = n_rows.tolist()
    for left, right in tree[:, :2].astype(int):
        members.append(members[left] + members[right])
        sizes.append(sizes[left] + sizes[right])
    clusters = {len(members) - 1}
    for merge in reversed(range(len(tree))):
        largest = max(sizes[k] for k in clusters)
        if len(clusters) >= max_folds and largest <= LARGEST_SHARE * n_domains:
            break
        # Merges are in the order of their heights, so that the latest one belongs to a cluster.
        clusters.remove(n_groups + merge)
        clusters.update(tree[merge, :2].astype(int).tolist())
    return [members[k] for k in sorted(clusters)]

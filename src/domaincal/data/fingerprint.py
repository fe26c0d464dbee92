"""A short text that tells one set of rows from another."""

import hashlib

import numpy as np
import pandas as pd

from domaincal._typing import Array, ArrayLike, FeatureRows

# So many rows are read in full: a fit of gigabytes must not wait for a checksum of them.
_ROWS = 1024


def fingerprint(
    logits: Array,
    labels: Array | None,
    *,
    features: FeatureRows | None = None,
    domains: ArrayLike | None = None,
) -> str:
    """Shape of the rows, number of rows of each label and domain, and 1024 rows spread evenly.

    Examples
    --------
    >>> import numpy as np
    >>> fingerprint(np.eye(2), np.array([0, 1])) == fingerprint(np.eye(2), np.array([1, 0]))
    False
    """
    n = len(logits)
    rows = np.unique(np.linspace(0, n - 1, min(n, _ROWS)).round().astype(np.int64))
    digest = hashlib.sha256()

    def add(name: str, values: Array) -> None:
        values = np.ascontiguousarray(values)
        digest.update(f"{name} {values.dtype.str} {values.shape}\n".encode())
        digest.update(values.tobytes())

    add("logits", logits[rows])
    if labels is not None:
        add("label counts", np.bincount(labels))
        add("labels", labels[rows].astype(np.int64))
    if features is not None:
        add("features", features[rows])
    if domains is not None:
        counts = pd.Series(np.asarray(domains)).value_counts()
        # As text: integers and numpy's strings of any width count as what they say.
        for name in sorted(counts.index, key=str):
            digest.update(f"domain {name!s}: {counts[name]}\n".encode(errors="surrogatepass"))
        add("domains", np.array([str(d) for d in np.asarray(domains)[rows]]))
    return f"{n} rows, sha256 {digest.hexdigest()[:16]}"

"""Leading principal directions of rows."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from domaincal._typing import FloatArray

# Directions whose variance is below this fraction of the largest are rounding errors.
_SMALLEST_VARIANCE = 1e-10


def principal_directions(x: FloatArray, n_directions: int) -> tuple[FloatArray, FloatArray]:
    """At most n directions of unit length along which the rows vary, the most important last.

    Returns the eigenvalues of ``x.T @ x`` in ascending order, and the eigenvectors as columns.

    Examples
    --------
    >>> import numpy as np
    >>> values, directions = principal_directions(np.array([[3.0, 0.0], [0.0, 1.0]]), 1)
    >>> float(values[0]), np.abs(directions).tolist()
    (9.0, [[1.0], [0.0]])
    """
    # The smaller of x'x and xx' has the same eigenvalues, but for zeros.
    wide = x.shape[1] > x.shape[0]
    gram = x @ x.T if wide else x.T @ x
    first = max(0, len(gram) - n_directions)
    values, vectors = scipy.linalg.eigh(gram, subset_by_index=(first, len(gram) - 1))
    kept = values > _SMALLEST_VARIANCE * max(values[-1], np.finfo(np.float64).tiny)
    values, vectors = values[kept], vectors[:, kept]
    return values, np.asarray(x.T @ vectors / np.sqrt(values) if wide else vectors)

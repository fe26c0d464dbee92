"""Student's interval of the mean of paired differences."""

from __future__ import annotations

import numpy as np
from scipy.stats import t as student

from domaincal._typing import FloatArray


def paired_interval(differences: FloatArray, *, confidence: float = 0.95) -> tuple[float, float]:
    """t-interval of the mean of paired differences; infinite with one difference.

    Examples
    --------
    >>> import numpy as np
    >>> [round(end, 3) for end in paired_interval(np.array([1.0, 2.0, 3.0]))]
    [-0.484, 4.484]
    """
    n = len(differences)
    if n < 2:
        return -np.inf, np.inf
    mean = float(np.mean(differences))
    quantile = float(student.ppf(0.5 + confidence / 2, n - 1))
    half = quantile * float(np.std(differences, ddof=1)) / n**0.5
    return mean - half, mean + half

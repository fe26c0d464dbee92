"""Synthetic data with several domains of known temperature."""

from __future__ import annotations

import numpy as np
import pandas as pd

from domaincal._validation import check_count, check_number, check_random_state
from domaincal.data import CalibrationData
from domaincal.errors import InputError


def make_multi_domain(
    n_domains: int = 20,
    n_rows: int = 500,
    n_classes: int = 10,
    n_features: int = 16,
    *,
    temperatures: tuple[float, float] = (0.7, 3.0),
    noise: float = 0.5,
    random_state: int | np.random.Generator = 0,
) -> tuple[CalibrationData, pd.Series[float]]:
    """Generate domains of known temperature, which can be predicted from the features.

    Domain k has a shift ``s_k``, uniform on [0, 1], and the temperature
    ``T_k = low * (high / low) ** s_k``. Its logits are ``T_k`` times Gaussian scores. Its labels
    are drawn from ``softmax(logits / T_k)``: no calibrator can do better than ``T_k``. Features are
    ``4 * s_k`` in one random direction, 4 in another, plus Gaussian noise in all directions.

    Parameters
    ----------
    n_domains : int, default 20
    n_rows : int, default 500
        Number of rows of each domain.
    n_classes : int, default 10
    n_features : int, default 16
    temperatures : (low, high), default (0.7, 3.0)
        Range of the true temperatures.
    noise : float, default 0.5
        Standard deviation of the noise of each feature.
    random_state : int or Generator, default 0

    Returns
    -------
    data : CalibrationData
        With float32 logits and features, and domains ``"domain-00"``, ``"domain-01"``, ... (with
        as many digits as needed).
    temperatures : Series
        True temperatures, indexed by domain.

    Examples
    --------
    >>> data, truth = make_multi_domain(n_domains=3, n_rows=100, random_state=0)
    >>> data
    CalibrationData(300 rows, 10 classes, 16 features, 3 domains)
    >>> truth.between(0.7, 3.0).all().item()
    True
    """
    for name, value, minimum in (
        ("n_domains", n_domains, 1), ("n_rows", n_rows, 1),
        ("n_classes", n_classes, 2), ("n_features", n_features, 2),
    ):  # fmt: skip
        check_count(value, name, minimum=minimum)
    check_number(noise, "noise", low=0.0, high=np.inf, closed=True)
    pair = isinstance(temperatures, tuple | list) and len(temperatures) == 2
    if not (pair and 0 < temperatures[0] <= temperatures[1] < np.inf):
        raise InputError(
            f"temperatures must be a pair (low, high), 0 < low <= high, got {temperatures!r}."
        )
    low, high = temperatures
    rng = check_random_state(random_state)
    shift = rng.uniform(size=n_domains)
    truth = low * (high / low) ** shift
    basis, _ = np.linalg.qr(rng.normal(size=(n_features, 2)))

    code = np.repeat(np.arange(n_domains), n_rows)
    scores = rng.normal(0.0, 2.0, size=(len(code), n_classes))
    # The argmax of scores plus Gumbel noise is a draw from the softmax of the scores.
    labels = np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)
    centre = np.column_stack([np.full(n_domains, 4.0), 4.0 * shift]) @ basis.T
    features = centre[code] + rng.normal(0.0, noise, size=(len(code), n_features))

    width = len(str(n_domains - 1))
    names = np.array([f"domain-{k:0{width}d}" for k in range(n_domains)])
    data = CalibrationData(
        logits=(truth[code, None] * scores).astype(np.float32),
        labels=labels,
        features=features.astype(np.float32),
        domains=names[code],
    )
    return data, pd.Series(truth, index=pd.Index(names, name="domain"), name="temperature")

"""Synthetic domains whose true temperatures are known."""

import numpy as np
import pandas as pd

from domaincal._validation import check_count, check_number, random_generator
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
) -> tuple[CalibrationData, "pd.Series[float]"]:
    """Domains with a known temperature each, which the features tell with noise.

    Domain k has a shift ``s_k``, uniform on [0, 1], and the temperature
    ``T_k = low * (high / low) ** s_k``. Its logits are ``T_k`` times Gaussian scores, its labels
    are drawn from ``softmax(logits / T_k)``: no calibrator can do better than ``T_k``. Features
    are ``s_k`` in one random direction, a constant in another, and Gaussian noise in all.

    Parameters
    ----------
    n_domains, n_rows, n_classes, n_features : int
        ``n_rows`` is the number of rows of each domain.
    temperatures : pair of floats
        Range of the true temperatures.
    noise : float
        Standard deviation of the noise of each feature; the shift moves the features by 4.
    random_state : int or Generator

    Returns
    -------
    data : CalibrationData
        float32 logits and features; domains ``"domain-00"``, ... (as many digits as they need)
    temperatures : Series
        True temperature by domain.

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
        raise InputError(f"temperatures must be a pair 0 < low <= high, got {temperatures!r}.")
    low, high = temperatures
    rng = random_generator(random_state)
    shift = rng.uniform(size=n_domains)
    truth = low * (high / low) ** shift
    basis, _ = np.linalg.qr(rng.normal(size=(n_features, 2)))

    code = np.repeat(np.arange(n_domains), n_rows)
    scores = rng.normal(0.0, 2.0, size=(len(code), n_classes))
    # Gumbel's trick: the argmax of scores plus Gumbel noise is a draw from their softmax.
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

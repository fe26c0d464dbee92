"""An upper limit for the ECE of a new domain, from domains that are left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from domaincal._tensors import host_array
from domaincal._typing import ArrayLike
from domaincal._validation import check_n_bins, check_number
from domaincal.data import CalibrationData
from domaincal.errors import InputError
from domaincal.shift.conformal import conformal_rank, needed_domains
from domaincal.shift.rows_by_domain import hits_of, labelled_domains
from domaincal.statistics import BinSums


@dataclass(frozen=True, eq=False)
class CalibrationCertificate:
    """Upper limit for the ECE of a new domain.

    Attributes
    ----------
    limit : float
        With probability ``level`` or more, the ECE of a new domain is at most this; 1 if there are
        too few domains for a smaller limit.
    level : float
    errors : Series indexed by domain
        ECE of each domain with a calibrator that was fitted to the others.
    sentence : str
        What the limit says, and on which assumption.

    Examples
    --------
    >>> certificate_from_errors([0.02, 0.05, 0.03, 0.04], level=0.8).limit
    0.05
    """

    limit: float
    level: float
    errors: pd.Series[float]
    sentence: str


def calibration_certificate(
    calibrator: Any, data: CalibrationData, *, level: float = 0.9, n_bins: int = 15
) -> CalibrationCertificate:
    """Upper limit for the ECE of a new domain that is exchangeable with the given ones.

    Each of the K domains is left out in turn, a clone of the calibrator is fitted to the others,
    and the ECE of the domain is measured, with all its rows as one batch. The limit is the
    ``ceil((K + 1) level)``-th smallest of these errors. If the new domain is exchangeable with the
    K domains, its ECE is below the limit with probability ``level`` or more, for any calibrator
    and any distribution. (The calibrator that is used is fitted to all K domains, the left-out
    ones to K - 1: for few domains the limit is a little too high.) A new domain with fewer rows
    than the K domains has a larger ECE by chance.

    With fewer than ``level / (1 - level)`` domains, 9 for 90%, the limit is 1.

    Parameters
    ----------
    calibrator : calibrator, fitted or not
    data : CalibrationData
        With labels and domains, and with features if the calibrator needs them.
    level : float, default 0.9
    n_bins : int, default 15

    Returns
    -------
    CalibrationCertificate

    Examples
    --------
    >>> import domaincal as dc
    >>> data, _ = dc.make_multi_domain(n_domains=10, random_state=0)
    >>> found = calibration_certificate(dc.TemperatureScaling(), data)
    >>> print(found.sentence)
    The ECE of a new domain is at most 28.0% with probability 90%, if the new domain is
    exchangeable with the 10 domains.
    """
    codes, names, labels = labelled_domains(data, "calibration_certificate")
    check_number(level, "level", low=0.0, high=1.0)
    n_bins = check_n_bins(n_bins)
    if len(names) < 2:
        raise InputError("calibration_certificate needs at least 2 domains, got 1.")
    hits = hits_of(data.logits, labels)
    errors = []
    for k in range(len(names)):
        own = np.flatnonzero(codes == k)
        others = data.select(np.flatnonzero(codes != k))
        confidence = host_array(clone(calibrator).fit(others).predict_confidence(data.select(own)))
        sums = BinSums.from_confidences(confidence, hits[own], n_bins=n_bins)
        errors.append(sums.calibration_error())
    series = pd.Series(errors, index=pd.Index(names, name="domain"), name="ece")
    return certificate_from_errors(series, level=level)


def certificate_from_errors(errors: ArrayLike, *, level: float = 0.9) -> CalibrationCertificate:
    """Certificate from the ECE of left-out domains, if they are known already.

    Examples
    --------
    >>> found = certificate_from_errors([0.02, 0.05, 0.03])
    >>> found.limit
    1.0
    >>> print(found.sentence)
    Nothing can be said about the ECE of a new domain with probability 90%: 9 or more domains are
    needed, and there are 3.
    """
    index = errors.index if isinstance(errors, pd.Series) else None
    series = pd.Series(np.asarray(errors, np.float64), index=index, name="ece")
    values = np.sort(series.to_numpy())
    if not len(values) or not ((values >= 0) & (values <= 1)).all():
        raise InputError(f"errors must be numbers between 0 and 1, at least one; got {errors!r}.")
    rank = conformal_rank(len(values), level)
    chance = f"with probability {100 * level:.4g}%"
    if rank is None:
        sentence = (
            f"Nothing can be said about the ECE of a new domain {chance}: {needed_domains(level)} "
            f"or more domains are needed, and there are {len(values)}."
        )
        return CalibrationCertificate(1.0, level, series, sentence)
    limit = float(values[rank - 1])
    sentence = (
        f"The ECE of a new domain is at most {100 * limit:.1f}% {chance}, if the new domain is "
        f"exchangeable with the {len(values)} domains."
    )
    return CalibrationCertificate(limit, level, series, sentence)

"""The mixture of known domains that is most like a new, unlabelled domain."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pandas as pd
import scipy.optimize

from domaincal._tensors import host_array
from domaincal._typing import ArrayLike, FloatArray, IntArray
from domaincal._validation import check_option
from domaincal.calibrators.mixture.shift_weighted import ShiftWeightedScaling
from domaincal.calibrators.temperature import TemperatureScaling
from domaincal.data import CalibrationData
from domaincal.errors import InputError
from domaincal.shift.divergence import GRID, check_grid
from domaincal.shift.gap_samples import GapSamples
from domaincal.shift.rows_by_domain import domain_codes, new_domains

Method = Literal["divergence", "posterior", "means"]
METHODS = ("divergence", "posterior", "means")

# In the means method, the weight of the condition that the shares sum to 1.
_SUM_WEIGHT = 1e4


def mixture_weights(
    known: CalibrationData,
    new: CalibrationData,
    *,
    method: Method = "divergence",
    temperatures: ArrayLike | None = None,
) -> pd.DataFrame:
    """Shares alpha of the known domains in the mixture that is most like each new domain.

    Parameters
    ----------
    known : CalibrationData
        Rows of the InD domains, with labels.
    new : CalibrationData
        Rows of the new domains; labels are not used. Without domains, all rows are one domain.
    method : {"divergence", "posterior", "means"}, default "divergence"
        "divergence" minimises the divergence d of :func:`divergence` between mixture and new
        domain, a convex problem, to within 1e-6. "posterior": the EM algorithm of
        :class:`ShiftWeightedScaling`, on features. "means": least squares of the means of the
        features, in units of their standard deviations.
    temperatures : array, optional
        The grid of "divergence". Default: 17 temperatures from a quarter of the pooled
        temperature of ``known`` to 4 times it, in steps of 2^(1/4).

    Returns
    -------
    DataFrame
        One row for each new domain, one column for each known one. The shares of a row sum to 1.

    Examples
    --------
    >>> import domaincal as dc
    >>> data, _ = dc.make_multi_domain(n_domains=4, random_state=1)
    >>> known, new = dc.split_halves(data)
    >>> alpha = mixture_weights(known, new)
    >>> alpha.shape, alpha.sum(axis=1).round(6).tolist()
    ((4, 4), [1.0, 1.0, 1.0, 1.0])
    >>> mixture_weights(known, new, method="posterior").shape
    (4, 4)
    """
    check_option(method, "method", METHODS)
    codes, names = domain_codes(known, "mixture_weights")
    if method == "divergence":
        grid = default_grid(known) if temperatures is None else check_grid(temperatures)
        shares = [
            GapSamples.from_rows(known.logits, codes, rows.logits, grid).best_mixture()[0]
            for _, rows in new_domains(new)
        ]
    elif temperatures is not None:
        raise InputError(f"temperatures is the grid of 'divergence'; {method!r} has none.")
    elif method == "posterior":
        found = ShiftWeightedScaling().fit(known).mixture_weights(new)
        shares = list(found.reindex(columns=names, fill_value=0.0).to_numpy())
    else:
        shares = _mean_shares(known, codes, new)
    index = pd.Index([name for name, _ in new_domains(new)], name="new_domain")
    return pd.DataFrame(np.stack(shares), index, pd.Index(names, name="domain"))


def mixture_distances(
    known: CalibrationData, new: CalibrationData, *, temperatures: ArrayLike | None = None
) -> pd.DataFrame:
    """How far each new domain is from the mixture of known domains that is most like it.

    The parameters are those of :func:`mixture_weights`.

    Returns
    -------
    DataFrame
        One row for each new domain: ``n``; ``divergence``, d to the best mixture;
        ``unexplained``, the smallest share of its rows that would have to be replaced to make a
        mixture of known domains of it: the total variation of gaps in ten bins, the largest over
        the pairs of temperatures; ``nearest``, the known domain with the largest share, and
        ``share``, this share. Few rows are far from every mixture by chance.

    Examples
    --------
    >>> import domaincal as dc
    >>> data, _ = dc.make_multi_domain(n_domains=4, random_state=1)
    >>> known, new = dc.split_halves(data)
    >>> table = mixture_distances(known, new)
    >>> bool((table["divergence"] <= table["unexplained"] + 0.1).all())
    True
    """
    codes, names = domain_codes(known, "mixture_distances")
    grid = default_grid(known) if temperatures is None else check_grid(temperatures)
    records = []
    for name, rows in new_domains(new):
        samples = GapSamples.from_rows(known.logits, codes, rows.logits, grid)
        alpha, smallest = samples.best_mixture()
        nearest = int(np.argmax(alpha))
        records.append(
            (name, len(rows), smallest, samples.unexplained_part(), names[nearest], alpha[nearest])
        )
    columns = ["domain", "n", "divergence", "unexplained", "nearest", "share"]
    return pd.DataFrame(records, columns=columns)


def default_grid(known: CalibrationData) -> FloatArray:
    """The default temperatures: multiples of the pooled temperature of the known domains."""
    if known.labels is None:
        raise InputError(
            "the default temperatures are multiples of the pooled one, which needs the labels of "
            "the known domains; pass CalibrationData(..., labels=...), or temperatures=..."
        )
    return np.asarray(GRID * TemperatureScaling().fit(known).temperature_)


def _mean_shares(known: CalibrationData, codes: IntArray, new: CalibrationData) -> list[FloatArray]:
    """Shares by least squares of the standardised means of the features."""
    if known.features is None or new.features is None:
        raise InputError("method='means' needs features; pass CalibrationData(..., features=...).")
    x = host_array(known.features).astype(np.float64)
    scale = x.std(axis=0)
    scale[scale == 0] = np.inf
    n = np.bincount(codes)
    means = np.stack([np.bincount(codes, column) / n for column in (x / scale).T])
    design = np.vstack([means, np.full(len(n), _SUM_WEIGHT)])
    shares = []
    for _, rows in new_domains(new):
        target = (host_array(rows.features).astype(np.float64) / scale).mean(axis=0)
        found = scipy.optimize.nnls(design, np.append(target, _SUM_WEIGHT))[0]
        shares.append(found / found.sum())
    return shares

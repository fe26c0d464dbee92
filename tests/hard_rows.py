"""Rows on which exported models must agree with Python."""

from __future__ import annotations

from functools import cache

import numpy as np

import domaincal as dc


@cache
def training_rows() -> dc.CalibrationData:
    """Rows of eight domains, which are integers, with features."""
    return _rows(n_domains=8, n_rows=150, random_state=0)


@cache
def hard_rows() -> dc.CalibrationData:
    """Rows of known and of new domains; the last 60 rows are hard to calibrate.

    Among them are equal logits, ties of the largest logit, a constant added to all logits of a row,
    logits and features that are far larger and smaller than those of the fit, a batch of ten rows
    and one of a single row.
    """
    data = _rows(n_domains=6, n_rows=60, random_state=1)
    logits, features, domains = (
        np.array(a) for a in (data.logits, data.features, data.domains + 4)
    )
    hard = logits[-60:]
    hard[:5] = 0.0
    hard[5:10, :2] = 3.0
    hard[10:20] += 1000.0
    hard[20:30] *= 1e3
    hard[30:40] *= 1e-6
    features[-60:-50] *= 1e3
    features[-50:-40] = 0.0
    domains[-11:-1] = 1001
    domains[-1] = 1002
    return dc.CalibrationData(logits, features=features, domains=domains)


def _rows(*, n_domains: int, n_rows: int, random_state: int) -> dc.CalibrationData:
    data, _ = dc.make_multi_domain(n_domains, n_rows, 5, random_state=random_state)
    codes = np.unique(data.domains, return_inverse=True)[1]
    return dc.CalibrationData(data.logits, data.labels, features=data.features, domains=codes)

"""Smooth calibration error: residuals are smoothed over the confidences instead of binned."""

from __future__ import annotations

import numpy as np
from scipy.fft import dct, idct
from scipy.optimize import brentq

from domaincal._typing import FloatArray


def smooth_error(residuals: FloatArray) -> float:
    """Smooth ECE (Blasiok and Nakkiran 2023) of residuals on a fine uniform grid over [0, 1].

    ``r(t)`` are the residuals ``(hit - confidence) / n`` smoothed by a Gaussian of width s that is
    reflected at 0 and 1. ``E(s) = integral of |r(t)|`` decreases in s; the smooth error is the
    solution of ``E(s) = s``. The cosines are eigenfunctions of the reflected Gaussian: it
    multiplies the k-th by ``exp(-(pi k s)**2 / 2)``.
    """
    waves = dct(residuals)
    damping = -0.5 * np.square(np.pi * np.arange(len(residuals)))

    def excess(width: float) -> float:
        return float(np.abs(idct(waves * np.exp(damping * width**2))).sum()) - width

    return float(brentq(excess, 0.0, 1.0, xtol=1e-9)) if excess(0.0) > 0.0 else 0.0

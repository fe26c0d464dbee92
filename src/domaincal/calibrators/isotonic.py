"""Isotonic calibration: the best non-decreasing map."""

from __future__ import annotations

import numpy as np
from sklearn.isotonic import IsotonicRegression

from domaincal._typing import Array, FloatArray
from domaincal.calibrators.score_calibrator import Scheme, ScoreCalibrator
from domaincal.calibrators.score_maps import LineMap


class IsotonicCalibration(ScoreCalibrator):
    """Isotonic regression of hits on scores (Zadrozny and Elkan 2002), by scikit-learn.

    The map can reach 0 and 1: an error at confidence 1 has infinite log loss.

    Parameters
    ----------
    scheme : {"top-label", "one-vs-rest"}, default "top-label"
        ``"top-label"``: one map, for the confidence of the predicted class; the other classes
        keep the proportions of their softmax. ``"one-vs-rest"``: a map for each class; the
        probabilities of each row are normalised to sum to 1.

    Attributes
    ----------
    maps_ : list of LineMap
        One map, or a map for each class, with the arrays ``points`` and ``values``, between
        which it interpolates.
    n_classes_ : int
        Number of classes.
    class_names_ : tuple of str or None
        Names of the classes, if the data of the fit had names.

    Examples
    --------
    >>> from domaincal import IsotonicCalibration, make_multi_domain
    >>> data, _ = make_multi_domain(n_domains=4, random_state=0)
    >>> calibrator = IsotonicCalibration().fit(data)
    >>> values = calibrator.maps_[0].values
    >>> bool((values[1:] >= values[:-1]).all())
    True
    >>> calibrator.predict_proba(data).shape == data.logits.shape
    True
    """

    def __init__(self, *, scheme: Scheme = "top-label") -> None:
        self.scheme = scheme

    def _fit_map(self, scores: FloatArray, hits: Array, weight: FloatArray | None) -> LineMap:
        isotonic = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
        isotonic.fit(scores, hits.astype(np.float64), sample_weight=weight)
        return LineMap(isotonic.X_thresholds_, isotonic.y_thresholds_)

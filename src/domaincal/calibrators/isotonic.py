"""Isotonic calibration: the best map that never falls."""

import numpy as np
from sklearn.isotonic import IsotonicRegression

from domaincal._typing import Array, FloatArray
from domaincal.calibrators.score_calibrator import Scheme, ScoreCalibrator
from domaincal.calibrators.score_maps import LineMap


class IsotonicCalibration(ScoreCalibrator):
    """Isotonic regression of hits on scores (Zadrozny and Elkan 2002), by scikit-learn.

    The map may reach 0 and 1: one error at confidence 1 costs a log-likelihood without end.

    Parameters
    ----------
    scheme : {"top-label", "one-vs-rest"}, default "top-label"
        One map, of the confidence of the predicted class, the rest keeping its softmax
        proportions; or a map for each class, and rows normalised again.

    Attributes
    ----------
    maps_ : list of maps, one or one for each class
        With ``points`` and ``values``, joined by straight lines.
    n_classes_ : int

    Examples
    --------
    >>> from domaincal import IsotonicCalibration, make_multi_domain
    >>> data, _ = make_multi_domain(n_domains=4, random_state=0)
    >>> calibrator = IsotonicCalibration().fit(data.logits, data.labels)
    >>> bool((calibrator.maps_[0].values[1:] >= calibrator.maps_[0].values[:-1]).all())
    True
    """

    def __init__(self, *, scheme: Scheme = "top-label") -> None:
        self.scheme = scheme

    def _fit_map(self, scores: FloatArray, hits: Array, weight: FloatArray | None) -> LineMap:
        isotonic = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
        isotonic.fit(scores, hits.astype(np.float64), sample_weight=weight)
        return LineMap(isotonic.X_thresholds_, isotonic.y_thresholds_)

"""The estimator of the accuracy of new domains that ``fit`` stores in a model file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from domaincal.data.blocked_rows import AnyRows
    from domaincal.shift import ConfidenceEstimator

# Number of rows for which the width of the intervals is shown.
_SHOWN_ROWS = 100


def fit_estimator(calibrator: Any, data: AnyRows) -> ConfidenceEstimator | None:
    """Estimator from the rows of the fit; None if they are of too few domains.

    It uses features only if predictions of the calibrator do, so that ``estimate`` needs the same
    columns as ``apply``.
    """
    from domaincal._warnings import handle_warnings
    from domaincal.calibrators.batch.batch_temperature import MINIMUM_DOMAINS
    from domaincal.cli.console import say
    from domaincal.cli.method_options import needed_features
    from domaincal.errors import InputError
    from domaincal.shift import ConfidenceEstimator

    if data.domains is None or len(data.domain_names) < MINIMUM_DOMAINS:
        return None
    if not needed_features(calibrator):
        data = replace(data, features=None, feature_names=None)
    try:
        # The fit of the calibrator has warned of the data already.
        with handle_warnings(lambda message, category: None):
            return ConfidenceEstimator().fit(data)
    except InputError as error:
        say(f"warning: domaincal estimate cannot use the model: {error}", err=True)
        return None


def estimator_sections(estimator: ConfidenceEstimator | None) -> dict[str, dict[str, Any]]:
    """Section of a model file with this estimator; empty for None."""
    from domaincal.shift.accuracy.estimator_file import SECTION, estimator_section

    return {} if estimator is None else {SECTION: estimator_section(estimator)}


def stored_estimator(path: Path) -> ConfidenceEstimator | None:
    """Estimator in a model file, or None."""
    from domaincal.calibrators.files.model_file import load_with_sections
    from domaincal.shift import load_estimator
    from domaincal.shift.accuracy.estimator_file import SECTION

    return load_estimator(path) if SECTION in load_with_sections(path)[1] else None


def estimator_facts(estimator: ConfidenceEstimator | None) -> dict[str, Any] | None:
    """Number of domains and width of the intervals, for JSON documents."""
    if estimator is None:
        return None
    return {
        "n_domains": estimator.n_domains_,
        "coverage": estimator.coverage,
        "n_rows": _SHOWN_ROWS,
        "half_width": _half_width(estimator),
    }


def estimator_sentence(estimator: ConfidenceEstimator) -> str:
    """How well the accuracy of new domains can be estimated."""
    import math

    width, domains = _half_width(estimator), f"{estimator.n_domains_} left-out domains"
    if math.isinf(width):
        return f"estimated without an interval: {estimator.n_domains_} domains are too few for one"
    return (
        f"± {100 * width:.0f} points with {_SHOWN_ROWS} rows ({100 * estimator.coverage:g}% of "
        f"{domains})"
    )


def _half_width(estimator: ConfidenceEstimator) -> float:
    import numpy as np

    n = np.array([float(_SHOWN_ROWS)])
    return float(estimator.residuals_.half_width(n, estimator.coverage)[0])

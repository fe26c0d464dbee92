"""What ``fit`` stores in a model file for ``estimate``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from domaincal.cli.options import InputData


def accuracy_section(calibrator: Any, source: InputData) -> dict[str, dict[str, Any]]:
    """Section with an estimator of the accuracy; empty if there are too few domains for one.

    It uses features only if predictions of the calibrator do, so that ``estimate`` needs the same
    columns as ``apply``.
    """
    from domaincal._warnings import handle_warnings
    from domaincal.calibrators.batch.batch_temperature import MINIMUM_DOMAINS
    from domaincal.cli.console import say
    from domaincal.cli.method_options import needed_features
    from domaincal.data import CalibrationData
    from domaincal.errors import InputError
    from domaincal.shift import ConfidenceEstimator
    from domaincal.shift.accuracy.estimator_file import SECTION, estimator_section

    data = source.data
    if data.domains is None or len(data.domain_names) < MINIMUM_DOMAINS:
        return {}
    if not needed_features(calibrator):
        data = CalibrationData(
            data.logits, labels=data.labels, domains=data.domains, class_names=data.class_names
        )
    try:
        # The fit of the calibrator has warned of the data already.
        with handle_warnings(lambda message, category: None):
            return {SECTION: estimator_section(ConfidenceEstimator().fit(data))}
    except InputError as error:
        say(f"warning: domaincal estimate cannot use the model: {error}", err=True)
        return {}

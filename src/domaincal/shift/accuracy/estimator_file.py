"""The section of a model file that tells the accuracy of new domains: arrays, and no rows."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from domaincal._files import decoding
from domaincal._typing import FloatArray
from domaincal._validation import check_number
from domaincal.calibrators import BatchTemperatureScaling
from domaincal.calibrators.base import Calibrator
from domaincal.calibrators.files.learned_state import check_state, learned_values
from domaincal.calibrators.files.model_file import load_with_sections, save_calibrator
from domaincal.errors import InputError
from domaincal.shift.accuracy.confidence import ConfidenceEstimator
from domaincal.shift.accuracy.left_out_residuals import LeftOutResiduals
from domaincal.shift.covered_domains import CoveredDomains

#: Name of the section of the model file.
SECTION = "accuracy"
# Prefixes of the entries that belong to the calibrator, and to the covered domains.
_CALIBRATOR, _COVERED = "calibrator.", "covered."
_LARGEST_COUNT = 1 << 31


def save_estimator(
    estimator: ConfidenceEstimator, path: str | os.PathLike[str], *, calibrator: Calibrator
) -> None:
    """Write a calibrator, and with it an estimator of the accuracy of new domains.

    The file is what ``domaincal fit`` writes: :func:`domaincal.load` reads the calibrator from it,
    :func:`load_estimator` the estimator, and ``domaincal estimate`` uses it. It holds histograms of
    the domains and errors on left-out domains, but no rows.

    Parameters
    ----------
    estimator : ConfidenceEstimator
        Fitted with its default calibrator, :class:`BatchTemperatureScaling`.
    path : path of a ``.safetensors`` file
    calibrator : calibrator
        Fitted calibrator of the same classes.

    Examples
    --------
    >>> import tempfile, domaincal as dc
    >>> data, _ = dc.make_multi_domain(n_domains=12, n_rows=100, random_state=0)
    >>> estimator = dc.shift.ConfidenceEstimator().fit(data)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = folder + "/model.safetensors"
    ...     dc.shift.save_estimator(estimator, path, calibrator=dc.TemperatureScaling().fit(data))
    ...     loaded = dc.shift.load_estimator(path)
    >>> loaded.predict(data).equals(estimator.predict(data))
    True
    """
    save_calibrator(calibrator, path, {SECTION: estimator_section(estimator)})


def estimator_section(estimator: ConfidenceEstimator) -> dict[str, Any]:
    """Content of the section of a fitted estimator."""
    batch = estimator.calibrator_
    if type(batch) is not BatchTemperatureScaling:
        raise InputError(
            f"an estimator with {type(batch).__name__} cannot be saved; fit "
            "ConfidenceEstimator() with its default calibrator, BatchTemperatureScaling()."
        )
    values = {name: getattr(batch, name) for name in learned_values(type(batch))}
    return {
        "coverage": estimator.coverage,
        "n_domains": estimator.n_domains_,
        "domain_accuracies": estimator.domain_accuracies_,
        "sizes": estimator.residuals_.sizes,
        "residuals": estimator.residuals_.values,
        **{_CALIBRATOR + name: value for name, value in values.items()},
        **{_COVERED + name: value for name, value in estimator.covered_.arrays().items()},
    }


def load_estimator(path: str | os.PathLike[str]) -> ConfidenceEstimator:
    """Load the estimator of a model file that ``domaincal fit`` or ``save_estimator`` has written.

    Parameters
    ----------
    path : path of a ``.safetensors`` file

    Returns
    -------
    ConfidenceEstimator

    Examples
    --------
    >>> import domaincal as dc
    >>> table = dc.shift.load_estimator("model.safetensors").predict(data)  # doctest: +SKIP
    """
    calibrator, sections = load_with_sections(path)
    if SECTION not in sections:
        raise InputError(
            f"{path} tells nothing about the accuracy in new domains: it was fitted to fewer than "
            "3 domains, by an older domaincal, combined from sites, or saved by calibrator.save; "
            "write it with domaincal fit, or domaincal.shift.save_estimator, from labelled rows of "
            "at least 3 domains."
        )
    with decoding(path, "write the model again with domaincal fit"):
        estimator = _restored(sections[SECTION])
        if estimator.n_classes_ != calibrator.n_classes_:
            raise ValueError("the calibrator and its estimator have other numbers of classes")
        return estimator


def _restored(section: Mapping[str, Any]) -> ConfidenceEstimator:
    """Fitted estimator from a section, whose values are checked: files can be forged."""
    try:
        coverage = check_number(section["coverage"], "coverage", low=0.0, high=1.0)
        estimator = ConfidenceEstimator(coverage=coverage)
        batch = BatchTemperatureScaling()
        for name in learned_values(type(batch)):
            setattr(batch, name, section[_CALIBRATOR + name])
        check_state(batch)
        start = len(_COVERED)
        covered = {key[start:]: value for key, value in section.items() if key.startswith(_COVERED)}
        estimator.covered_ = CoveredDomains.from_arrays(covered)
        n_domains = section["n_domains"]
        estimator.n_domains_ = int(check_number(n_domains, "n_domains", low=0, high=_LARGEST_COUNT))
    except InputError as error:  # of a value of the file, not of the user
        raise ValueError(str(error).removesuffix(".")) from error
    estimator.calibrator_ = batch
    estimator.temperature_ = estimator.covered_.gaps.temperature
    estimator.residuals_ = _checked_residuals(section, estimator.n_domains_)
    accuracies = _numbers(section["domain_accuracies"])
    is_fraction = (accuracies >= 0.0) & (accuracies <= 1.0)
    if accuracies.shape != (estimator.n_domains_,) or not is_fraction.all():
        raise ValueError("accuracies of the domains that are not fractions, or too few or many")
    estimator.domain_accuracies_ = accuracies
    estimator.n_classes_ = batch.n_classes_
    estimator.class_names_ = batch.class_names_
    estimator.feature_columns_ = batch.feature_columns_
    return estimator


def _checked_residuals(section: Mapping[str, Any], n_domains: int) -> LeftOutResiduals:
    sizes, values = _numbers(section["sizes"]), _numbers(section["residuals"])
    if not (
        sizes.ndim == 1
        and len(sizes)
        and (sizes >= 1.0).all()
        and (np.diff(sizes) > 0.0).all()
        and values.ndim == 3
        and values.shape[0] == len(sizes)
        and values.shape[1] in (0, n_domains)
        and values.shape[2] >= 1
        and (np.abs(values) <= 1.0).all()
    ):
        raise ValueError("residuals of a wrong shape or size")
    return LeftOutResiduals(sizes, values)


def _numbers(value: Any) -> FloatArray:
    if not (isinstance(value, np.ndarray) and value.dtype == np.float64):
        raise ValueError("numbers of another type than float64")
    return value

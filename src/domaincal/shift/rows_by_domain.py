"""Rows of domains, as the functions of this package take them."""

from __future__ import annotations

import numpy as np

from domaincal._tensors import host_array
from domaincal._typing import Array, IntArray
from domaincal._validation import check_labels
from domaincal.data import CalibrationData
from domaincal.errors import InputError
from domaincal.kernels.dispatch import predicted_classes

#: Name of the only domain of rows that are passed without domains.
ALL_ROWS = "all rows"


def hits_of(logits: Array, labels: Array | None) -> Array:
    """Whether the class with the largest logit is the label, for each row."""
    return np.asarray(predicted_classes(logits) == host_array(labels))


def labelled_domains(data: CalibrationData, needed_by: str) -> tuple[IntArray, Array, Array]:
    """Code of the domain of each row, names of the domains, and labels; all are required."""
    codes, names = domain_codes(data, needed_by)
    if data.labels is None:
        raise InputError(f"{needed_by} needs labels; pass CalibrationData(..., labels=...).")
    labels = check_labels(data.labels, n_rows=len(codes), n_classes=data.logits.shape[1])
    return codes, names, labels


def domain_codes(data: CalibrationData, needed_by: str) -> tuple[IntArray, Array]:
    """Code of the domain of each row, and names of the domains, which are required."""
    if not isinstance(data, CalibrationData):
        raise InputError(f"{needed_by} needs a CalibrationData, got {type(data).__name__}.")
    if data.domains is None:
        raise InputError(f"{needed_by} needs domains; pass CalibrationData(..., domains=...).")
    return data.domain_codes


def new_domains(new: CalibrationData) -> list[tuple[object, CalibrationData]]:
    """Name and rows of each new domain."""
    if not isinstance(new, CalibrationData):
        raise InputError(f"new must be a CalibrationData, got {type(new).__name__}.")
    return [(ALL_ROWS, new)] if new.domains is None else list(new.by_domain())

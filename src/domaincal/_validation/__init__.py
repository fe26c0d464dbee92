"""Checks of the arguments of public functions; code below them relies on these checks."""

from __future__ import annotations

from domaincal._validation.arrays import check_not_empty, check_real_array, non_finite_error
from domaincal._validation.parameters import (
    check_count,
    check_n_bins,
    check_number,
    check_option,
    check_random_state,
)
from domaincal._validation.predictions import (
    check_confidences,
    check_hits,
    check_probabilities,
)
from domaincal._validation.probabilities import look_like_probabilities, warn_of_probabilities
from domaincal._validation.rows import (
    check_class_columns,
    check_class_names,
    check_column_names,
    check_domains,
    check_features,
    check_finite_features,
    check_finite_logits,
    check_labels,
    check_logits,
    check_names,
    column_names,
    non_finite_features_error,
    non_finite_logits_error,
)
from domaincal._validation.weights import check_domain_weights, check_sample_weight

__all__ = [
    "check_class_columns",
    "check_class_names",
    "check_column_names",
    "check_confidences",
    "check_count",
    "check_domain_weights",
    "check_domains",
    "check_features",
    "check_finite_features",
    "check_finite_logits",
    "check_hits",
    "check_labels",
    "check_logits",
    "check_n_bins",
    "check_names",
    "check_not_empty",
    "check_number",
    "check_option",
    "check_probabilities",
    "check_random_state",
    "check_real_array",
    "check_sample_weight",
    "column_names",
    "look_like_probabilities",
    "non_finite_error",
    "non_finite_features_error",
    "non_finite_logits_error",
    "warn_of_probabilities",
]

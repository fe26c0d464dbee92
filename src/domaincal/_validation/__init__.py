"""The border: arguments of public functions are checked here, once, and nowhere below."""

from domaincal._validation.arrays import (
    real_array,
)
from domaincal._validation.parameters import (
    check_count,
    check_number,
    check_option,
    random_generator,
)
from domaincal._validation.predictions import (
    check_confidences,
    check_hits,
    check_probabilities,
)
from domaincal._validation.rows import (
    check_class_names,
    check_column_names,
    check_domains,
    check_features,
    check_labels,
    check_logits,
    check_sample_weight,
    column_names,
    non_finite_features,
    non_finite_logits,
    require_finite_features,
    require_finite_logits,
)

__all__ = [
    "check_class_names",
    "check_column_names",
    "check_confidences",
    "check_count",
    "check_domains",
    "check_features",
    "check_hits",
    "check_labels",
    "check_logits",
    "check_number",
    "check_option",
    "check_probabilities",
    "check_sample_weight",
    "column_names",
    "non_finite_features",
    "non_finite_logits",
    "random_generator",
    "real_array",
    "require_finite_features",
    "require_finite_logits",
]

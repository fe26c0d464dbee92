"""The aligned arrays of one data set."""

from dataclasses import dataclass

import numpy as np

from domaincal._errors import InputError
from domaincal._typing import Array, ArrayLike
from domaincal._validation import check_domains, check_features, check_labels, check_logits


@dataclass(frozen=True, eq=False, repr=False)
class CalibrationData:
    """Logits, labels, features and domains of the same rows.

    Parameters
    ----------
    logits : array, shape (n, n_classes)
    labels : array of class indices, shape (n,), optional
    features : array, shape (n, n_features), optional
    domains : array of integers or strings, shape (n,), optional

    Examples
    --------
    >>> data = CalibrationData([[2.0, 0.0], [0.0, 1.0]], labels=[0, 1], domains=["day", "night"])
    >>> data
    CalibrationData(2 rows, 2 classes, 2 domains)
    >>> len(data.select([0]))
    1
    """

    logits: Array
    labels: Array | None = None
    features: Array | None = None
    domains: Array | None = None

    def __post_init__(self) -> None:
        # Frozen for users; here the arguments become arrays.
        def put(name: str, value: Array) -> None:
            object.__setattr__(self, name, value)

        put("logits", check_logits(self.logits))
        n, n_classes = self.logits.shape
        if self.labels is not None:
            put("labels", check_labels(self.labels, n_rows=n, n_classes=n_classes))
        if self.features is not None:
            put("features", check_features(self.features, n_rows=n, needed_by="CalibrationData"))
        if self.domains is not None:
            codes, names = check_domains(self.domains, n_rows=n, needed_by="CalibrationData")
            put("domains", names[codes])

    def __len__(self) -> int:
        return len(self.logits)

    def __repr__(self) -> str:
        parts = [f"{len(self)} rows", f"{self.logits.shape[1]} classes"]
        if self.features is not None:
            parts.append(f"{self.features.shape[1]} features")
        if self.domains is not None:
            parts.append(f"{len(self.domain_names)} domains")
        if self.labels is None:
            parts.append("no labels")
        return f"{type(self).__name__}({', '.join(parts)})"

    @property
    def domain_names(self) -> Array:
        """Sorted names of the domains."""
        if self.domains is None:
            raise InputError("this CalibrationData has no domains; pass domains=... to make it.")
        return np.unique(self.domains)

    def select(self, rows: ArrayLike | slice) -> "CalibrationData":
        """The given rows: indices, a boolean mask or a slice."""
        index = rows if isinstance(rows, slice) else np.asarray(rows)
        if isinstance(index, np.ndarray) and index.dtype.kind not in "biu":
            if index.size:
                raise InputError(
                    f"rows must be row numbers, a mask or a slice, got {index.dtype}; for domains "
                    "use data.select(data.domains == name)."
                )
            index = index.astype(int)
        try:
            logits = self.logits[index]
        except IndexError as error:
            raise InputError(
                f"rows do not fit the {len(self)} rows of the data: {error}."
            ) from error

        def chosen(values: Array | None) -> Array | None:
            return None if values is None else values[index]

        return CalibrationData(
            logits,
            labels=chosen(self.labels),
            features=chosen(self.features),
            domains=chosen(self.domains),
        )

"""Arrays of a file before validation."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from domaincal._typing import Array
from domaincal._validation import check_finite_features, check_finite_logits
from domaincal._wording import few
from domaincal.data import CalibrationData, logits_from_probabilities
from domaincal.errors import FileFormatError, InputError

#: Names of the arrays of a file; ``probabilities`` may replace ``logits``.
ARRAYS = ("logits", "probabilities", "labels", "features", "domains", "groups")

# Limits against decompression bombs: a file may unpack to so many bytes, or to so many times its
# size. Outputs of networks compress by a small factor only.
_UNPACKED_FREELY = 1 << 28
_UNPACKED_TIMES = 100


@dataclass(frozen=True, eq=False)
class RawData:
    """Arrays of a file by name, with names of classes and features and provenance.

    Attributes
    ----------
    format : str
        Format of the file, such as ``".npz"`` or ``"store"``.
    arrays : mapping from some of ``ARRAYS``
    class_names, feature_names, provenance
        As in :class:`CalibrationData`.
    ignored : tuple of str
        Names of the other arrays or columns of the file.
    """

    format: str
    arrays: Mapping[str, Array]
    class_names: tuple[str, ...] | None = None
    feature_names: tuple[str, ...] | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()

    def to_data(self, *, probabilities: bool = False, check_finite: bool = True) -> CalibrationData:
        """Validated rows.

        With ``probabilities``, the logits of the file are treated as probabilities.
        """
        given = {name: _native(values) for name, values in self.arrays.items()}
        stored = given.pop("probabilities", None)
        if "logits" in given:
            if probabilities:
                given["logits"] = logits_from_probabilities(given["logits"])
        elif stored is not None:
            given["logits"] = logits_from_probabilities(stored)
        else:
            found = few(map(repr, [*given, *self.ignored]), 12)
            raise InputError(
                f"it has no logits (found: {found or 'nothing'}); name the scores of the classes "
                "'logits' (columns 'logit_*') or 'probabilities' (columns 'prob_*')."
            )
        data = CalibrationData(
            **given, class_names=self.class_names, provenance=self.provenance,
            feature_names=self.feature_names if "features" in given else None,
        )  # fmt: skip
        if check_finite:
            check_finite_logits(data.logits)
            if data.features is not None:
                check_finite_features(data.features)
        return data


def checked(
    path: str | os.PathLike[str],
    raw: RawData,
    *,
    probabilities: bool = False,
    check_finite: bool = True,
) -> CalibrationData:
    """Validated rows of a file; errors name the file."""
    try:
        return raw.to_data(probabilities=probabilities, check_finite=check_finite)
    except InputError as error:
        raise FileFormatError(f"{path}: {error}") from error


def arrays_of(data: CalibrationData) -> dict[str, Array]:
    """Arrays of the data by name, without those that are None."""
    if not isinstance(data, CalibrationData):
        raise InputError(f"data must be CalibrationData, got {type(data).__name__}.")
    given = {name: getattr(data, name, None) for name in ARRAYS}
    return {name: values for name, values in given.items() if values is not None}


def require_plausible_size(path: Path, unpacked: int, on_disk: int) -> None:
    """Refuse a file that may be a decompression bomb."""
    if unpacked > max(_UNPACKED_FREELY, _UNPACKED_TIMES * on_disk):
        raise FileFormatError(
            f"{path} has {on_disk} bytes and would unpack to {unpacked}: it may be a decompression "
            "bomb; if you trust it, write it again without compression."
        )


def _native(values: Array) -> Array:
    """Array in the byte order of this machine."""
    return values if values.dtype.isnative else values.astype(values.dtype.newbyteorder("="))

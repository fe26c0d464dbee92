"""Checks that all array arguments share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import pandas as pd

from domaincal._row_arrays import is_row_array, parts_of, row_range
from domaincal._tensors import as_array, host_array, on_device
from domaincal._typing import Array, ArrayLike, FeatureMatrix
from domaincal.errors import InputError


def check_real_array(
    values: ArrayLike | None, name: str, *, allow_bool: bool = False, keep_device: bool = False
) -> Array:
    """Convert to an array of real numbers, of any shape.

    With ``keep_device``, a tensor that numpy cannot read stays on its device, and rows that are
    read in blocks stay where they are.
    """
    if values is None:
        raise InputError(f"{name} is None; pass an array of real numbers.")
    check_not_masked(values, name)
    try:
        if keep_device and is_row_array(values):
            array = cast(Array, values)  # it has the part of the interface that callers use
        else:
            array = as_array(values) if keep_device else host_array(values)
        if array.dtype.kind == "O":
            array = array.astype(np.float64)
    # torch raises RuntimeError, and integers above 1e308 OverflowError.
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        if isinstance(values, pd.DataFrame):
            raise InputError(
                f"{name} must be an array of real numbers, got a DataFrame with other columns "
                f"({error}); choose the columns with CalibrationData.from_frame(...)."
            ) from error
        raise InputError(
            f"{name} must be an array of real numbers, got {type(values).__name__} ({error}); "
            "convert it with numpy.asarray(..., dtype=float), a sparse matrix with .toarray(), a "
            "sparse tensor with .to_dense()."
        ) from error
    if array.dtype.kind == "c":
        raise InputError(f"Complex data not supported: {name} must be real; take the real part.")
    if array.dtype.kind not in ("fiub" if allow_bool else "fiu"):
        raise InputError(
            f"{name} must be an array of real numbers, got dtype {array.dtype}; convert it with "
            "numpy.asarray(..., dtype=float)."
        )
    # Kernels and file formats have no wider type than float64.
    return array.astype(np.float64) if array.dtype.itemsize > 8 else array


def check_not_masked(values: object, name: str) -> None:
    """Raise an InputError for a masked array with masked entries, which numpy would unmask."""
    if np.ma.is_masked(values):
        raise InputError(f"{name} is a masked array; fill or drop the masked entries first.")


def check_not_empty(array: Array, name: str) -> None:
    """Raise an InputError if the array has no rows."""
    if len(array) == 0:
        raise InputError(
            f"{name} is empty: found array with 0 sample(s) (shape={array.shape}) while a minimum "
            "of 1 is required; pass at least one row."
        )


def check_n_rows(array: Array, name: str, n_rows: int) -> None:
    """Raise an InputError if the array does not have ``n_rows`` rows."""
    if len(array) != n_rows:
        raise InputError(
            f"{name} has {len(array)} rows, but the logits or predictions have {n_rows}; pass one "
            "entry for each row."
        )


def non_finite_error(
    array: FeatureMatrix,
    name: str,
    cure: str,
    columns: Sequence[str] | None = None,
    *,
    first_row: int = 0,
) -> InputError | None:
    """The error that names the first NaN or infinite entry, or None if all are finite.

    The array is read in blocks of rows. ``columns`` are the names of its columns in a table, and
    ``first_row`` is the number of its first row there.
    """
    parts = parts_of(array)
    if parts is not None:
        errors = parts.map(non_finite_error, array, name, cure, columns)
        return next((error for error in errors if error is not None), None)
    size = max(1, (1 << 20) // max(1, array.shape[1] if len(array.shape) > 1 else 1))
    rows = row_range(array)
    for start in rows[::size]:
        block = array[start : min(start + size, rows.stop)]
        if on_device(block) and block.all_finite():
            continue
        block = np.asarray(block)
        bad = ~np.isfinite(block)
        if bad.any():
            where = tuple(int(k[0]) for k in np.nonzero(bad))
            value = str(block[where]).replace("nan", "NaN")
            row = first_row + start + where[0]
            if columns is not None:
                return InputError(
                    f"the column {columns[where[1]]!r} ({name}) contains {value} in row "
                    f"{row}; {cure}."
                )
            place = ", column ".join(map(str, (row, *where[1:])))
            return InputError(f"{name} contains {value} (row {place}); {cure}.")
    return None


def first_non_integer(values: Array) -> int | None:
    """Row of the first value that is not an integer below 2**53 in magnitude, or None."""
    if values.dtype.kind not in "fO":  # numpy converts times, texts and complex numbers, too
        return 0
    try:
        numbers = values.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        return 0
    whole = np.isfinite(numbers) & (np.abs(numbers) < 2.0**53)
    whole[whole] = numbers[whole] == np.floor(numbers[whole])
    return None if whole.all() else int(np.argmin(whole))

"""Support for torch tensors in code written for numpy.

torch is not imported for numpy input: a caller that has a tensor has imported torch. A tensor on
the CPU is viewed as a numpy array, without a copy. A tensor on another device stays there, wrapped
in a :class:`DeviceArray`.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from typing import Any, TypeGuard, cast

import numpy as np

from domaincal._optional import require
from domaincal._typing import Array, IntArray
from domaincal.errors import InputError

# Range of integers whose codes are looked up in a table.
_LOOKED_UP = 1 << 20
# Numbers per finite check. Each check allocates temporaries of this size on the device.
_FINITE_CHECK_SIZE = 1 << 26


def loaded_torch() -> Any:
    """The torch module; a caller that has a tensor has imported it."""
    return sys.modules["torch"]


def is_tensor(values: object) -> bool:
    """Whether ``values`` is a torch tensor."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(values, torch.Tensor)


def namespace(values: object) -> Any:
    """The torch module for tensors, numpy for arrays; for formulas that are the same in both."""
    return loaded_torch() if is_tensor(values) else np


def is_host(device: Any) -> bool:
    """Whether numpy can read tensors on a torch device."""
    return bool(device.type == "cpu")


class DeviceArray:
    """Array interface for a tensor on a device that numpy cannot read.

    Slices and selections of rows stay on the device. ``numpy.asarray`` copies the numbers to the
    host; so does any other index.

    Parameters
    ----------
    tensor : torch.Tensor
        It is detached from its gradient.
    """

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor.detach()

    @property
    def device(self) -> Any:
        """Device of the tensor."""
        return self.tensor.device

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape, as of a numpy array."""
        return tuple(self.tensor.shape)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return int(self.tensor.ndim)

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(self.tensor.numel())

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the copy on the host; float32 for bfloat16, which numpy does not have."""
        return _numpy_dtype(self.tensor.dtype)

    @property
    def itemsize(self) -> int:
        """Bytes of one element on the device."""
        return int(self.tensor.element_size())

    def __len__(self) -> int:
        return len(self.tensor)

    def __repr__(self) -> str:
        return f"DeviceArray(shape={self.shape}, dtype={self.tensor.dtype}, device={self.device})"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError(f"an array on {self.device} cannot be read without a copy.")
        array = host_array(self)
        return array if dtype is None else array.astype(dtype, copy=False)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice) and (index.step is None or index.step > 0):
            return DeviceArray(self.tensor[index])
        if isinstance(index, slice):
            index = np.arange(len(self))[index]
        if isinstance(index, np.ndarray) and index.ndim == 1 and index.dtype.kind in "biu":
            return DeviceArray(self.tensor[self.send(_row_numbers(index, len(self)))])
        return np.asarray(self)[index]

    def astype(self, dtype: Any) -> DeviceArray:
        """Copy with another dtype, on the same device."""
        return DeviceArray(self.tensor.to(getattr(loaded_torch(), np.dtype(dtype).name)))

    def send(self, values: Any) -> Any:
        """Copy a numpy array, or a tensor that is not there yet, to this device."""
        if is_tensor(values):
            return values.to(self.device)
        return loaded_torch().tensor(values, device=self.device)

    def limits(self) -> tuple[int, int]:
        """Smallest and largest of integers."""
        low, high = loaded_torch().stack(loaded_torch().aminmax(self.tensor)).tolist()
        return low, high

    def all_finite(self) -> bool:
        """Whether no element is NaN or infinite."""
        size = max(1, _FINITE_CHECK_SIZE * len(self) // max(1, self.size))
        return all(bool(part.isfinite().all()) for part in self.tensor.split(size))


def on_device(rows: object) -> TypeGuard[DeviceArray]:
    """Whether ``rows`` is a :class:`DeviceArray`."""
    return isinstance(rows, DeviceArray)


def as_array(values: Any) -> Array:
    """A :class:`DeviceArray` of a tensor that numpy cannot read; else a numpy array."""
    if is_tensor(values) and not is_host(_check_dense(values).device):
        values = DeviceArray(values)
    if on_device(values):
        _numpy_dtype(values.tensor.dtype)  # raises TypeError for a dtype that is not numeric
        return cast(Array, values)  # it has the part of the interface that callers use
    return host_array(values)


def host_array(values: Any) -> Array:
    """Convert to a numpy array; without a copy if the values are in host memory."""
    tensor = values.tensor if on_device(values) else values
    if not is_tensor(tensor):
        return np.asarray(values)
    dtype = _numpy_dtype(_check_dense(tensor).dtype)
    torch_dtype = getattr(loaded_torch(), dtype.name)
    return np.asarray(tensor.to(torch_dtype).numpy(force=True))


def holds_integers_on_device(values: object) -> TypeGuard[Any]:
    """Whether ``values`` is a 1-D tensor of integers that numpy cannot read, or its array."""
    tensor: Any = values.tensor if on_device(values) else values
    return (
        is_tensor(tensor)
        and tensor.ndim == 1
        and not is_host(_check_dense(tensor).device)
        and _numpy_dtype(tensor.dtype).kind in "iu"
    )


def integer_codes(values: DeviceArray) -> tuple[DeviceArray, Array]:
    """Place of each integer among the sorted distinct values, on the device, and these values."""
    torch = loaded_torch()
    low, high = values.limits()
    if high - low >= _LOOKED_UP:
        names, codes = torch.unique(values.tensor, return_inverse=True)
        return DeviceArray(codes), host_array(names)
    # A table of all integers between takes a fraction of the time of sorting.
    above = values.tensor.long() - low
    present = torch.bincount(above, minlength=high - low + 1) > 0
    names = (present.nonzero()[:, 0] + low).to(values.tensor.dtype)
    return DeviceArray((present.cumsum(0) - 1)[above]), host_array(names)


def as_codes(values: Any, device: Any) -> Any:
    """Integers of an array or :class:`DeviceArray` as an int64 tensor on a device."""
    torch = loaded_torch()
    if on_device(values):
        return values.tensor.to(device, torch.int64)
    return torch.tensor(values.astype(np.int64, copy=False), device=device)


def select_columns(rows: Any, columns: Sequence[int]) -> Any:
    """Columns of a data frame, array, tensor or :class:`DeviceArray`, in the given order."""
    if on_device(rows):
        return DeviceArray(rows.tensor[:, list(columns)])
    if hasattr(rows, "iloc"):
        return rows.iloc[:, list(columns)]
    return rows[:, list(columns)]


def read_only(rows: Array) -> Array:
    """Read-only view of an array; a :class:`DeviceArray` is returned unchanged."""
    if on_device(rows):
        return cast(Array, rows)
    view = rows.view()
    view.flags.writeable = False
    return view


def convert_like(values: Any, like: Any) -> Any:
    """Results as a tensor on the device of the input ``like``; unchanged for any other input."""
    if not (is_tensor(like) or on_device(like)):
        return values
    torch = loaded_torch()
    return values if is_tensor(values) else torch.as_tensor(values, device=like.device)


def to_device(rows: Any, device: Any) -> Array:
    """Copy an array or :class:`DeviceArray` to a device that numpy cannot read."""
    if on_device(rows):
        return as_array(rows.tensor.to(device))
    native = rows.astype(rows.dtype.newbyteorder("="), copy=False)
    return as_array(loaded_torch().tensor(native, device=device))


def concatenate_rows(parts: Sequence[Any]) -> Array:
    """Concatenate arrays on the same device, in their widest dtype."""
    if not on_device(parts[0]):
        return np.concatenate(parts)
    dtypes = {part.tensor.dtype for part in parts}
    widest = np.result_type(*(part.dtype for part in parts))
    same = [(part if len(dtypes) == 1 else part.astype(widest)).tensor for part in parts]
    return cast(Array, DeviceArray(loaded_torch().cat(same)))


def device_name(rows: object) -> str:
    """Name of the device of an array, for messages."""
    return str(rows.device) if on_device(rows) else "the host"


def check_device(device: Any, *, double_precision: bool = True) -> Any:
    """Check that a device can be used.

    Parameters
    ----------
    device : str or torch.device
        ``"auto"`` is the GPU if there is one, else the CPU.
    double_precision : bool, default True
        Whether the device has to support float64.

    Returns
    -------
    torch.device or None
        None for the CPU, whose memory numpy can read. This needs no torch; ``"auto"`` imports torch
        if it is installed.
    """
    if isinstance(device, str) and device == "auto":
        installed = importlib.util.find_spec("torch") is not None
        torch = require("torch", extra="torch", purpose="device='auto'") if installed else None
        device = "cuda" if torch is not None and torch.cuda.is_available() else "cpu"
    if isinstance(device, str) and device == "cpu" and "torch" not in sys.modules:
        return None
    torch = require("torch", extra="torch", purpose=f"device={str(device)!r}")
    try:
        if device is None:  # torch.device(None) would be the default device
            raise TypeError("None is not a device")
        found = torch.device(device)
        dtype = torch.float64 if double_precision else torch.float32
        torch.zeros(1, dtype=dtype, device=found).cpu()
    # Of all these classes are torch's errors for devices that are unknown or not there.
    except (AssertionError, NotImplementedError, RuntimeError, TypeError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        available = ["auto", "cpu", *(f"cuda:{k}" for k in range(torch.cuda.device_count()))]
        raise InputError(
            f"device={str(device)!r} cannot be used here ({reason}); choose from "
            f"{', '.join(available)}. For a GPU, install a build of torch that supports it."
        ) from error
    return None if is_host(found) else found


def _check_dense(tensor: Any) -> Any:
    if tensor.layout is not loaded_torch().strided or tensor.is_meta:
        raise TypeError(f"a tensor of layout {tensor.layout} on {tensor.device}")
    return tensor


def _numpy_dtype(dtype: Any) -> np.dtype[Any]:
    try:
        found = np.dtype(str(dtype).removeprefix("torch."))
    except TypeError:
        found = None
    # The package ml_dtypes adds bfloat16 to the names that numpy knows, but torch does not use it.
    if found is not None and found.isbuiltin == 1:
        return found
    if dtype.is_floating_point:
        return np.dtype(np.float32)  # bfloat16 and the 8-bit formats
    raise TypeError(f"a tensor of {dtype}")


def _row_numbers(index: Array, n_rows: int) -> IntArray:
    """Row numbers of a mask or an index.

    Out-of-bounds rows raise here: on a GPU they would abort the process.
    """
    if index.dtype.kind == "b":
        if len(index) != n_rows:
            raise IndexError(f"a mask of length {len(index)} for {n_rows} rows")
        return np.flatnonzero(index)
    numbers = index.astype(np.int64)
    outside = (numbers < -n_rows) | (numbers >= n_rows)
    if outside.any():
        raise IndexError(f"index {numbers[outside][0]} is out of bounds for {n_rows} rows")
    return numbers

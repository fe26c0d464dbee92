"""torch tensors, as far as code written for numpy has to know of them.

torch is not imported for those who have no tensors: whoever holds one has imported it. A tensor on
the CPU is viewed as a numpy array, without a copy; one on another device stays there, behind
:class:`TensorRows`.
"""

import sys
from collections.abc import Sequence
from typing import Any, TypeGuard, cast

import numpy as np

from domaincal._optional import require
from domaincal._typing import Array, IntArray
from domaincal.errors import InputError

# Numbers, for whose check a device makes temporaries.
_CHECKED_AT_A_TIME = 1 << 26


def loaded_torch() -> Any:
    """The module, for those who hold a tensor."""
    return sys.modules["torch"]


def is_tensor(values: object) -> bool:
    """Whether it is a torch tensor."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(values, torch.Tensor)


def on_host(tensor: Any) -> bool:
    """Whether numpy can read the tensor where it is."""
    return bool(tensor.device.type == "cpu")


class TensorRows:
    """Rows of a tensor that stay on its device, with the face of a numpy array.

    ``numpy.asarray`` brings them to the host; so does every index that is no choice of rows.

    Attributes
    ----------
    tensor : torch.Tensor
        Without gradient.
    """

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor.detach()

    @property
    def device(self) -> Any:
        """Where the rows are."""
        return self.tensor.device

    @property
    def shape(self) -> tuple[int, ...]:
        """As of an array."""
        return tuple(self.tensor.shape)

    @property
    def ndim(self) -> int:
        """As of an array."""
        return int(self.tensor.ndim)

    @property
    def size(self) -> int:
        """As of an array."""
        return int(self.tensor.numel())

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the numbers on the host; float32 for bfloat16, which numpy does not have."""
        return _numpy_type(self.tensor.dtype)

    @property
    def itemsize(self) -> int:
        """Bytes of a number on the device."""
        return int(self.tensor.element_size())

    def __len__(self) -> int:
        return len(self.tensor)

    def __repr__(self) -> str:
        return f"TensorRows(shape={self.shape}, {self.tensor.dtype}, {self.device})"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError(f"rows on {self.device} cannot be read without a copy.")
        array = host_array(self)
        return array if dtype is None else array.astype(dtype, copy=False)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice) and (index.step is None or index.step > 0):
            return TensorRows(self.tensor[index])
        if isinstance(index, slice):
            index = np.arange(len(self))[index]
        if isinstance(index, np.ndarray) and index.ndim == 1 and index.dtype.kind in "biu":
            return TensorRows(self.tensor[self.send(_row_numbers(index, len(self)))])
        return np.asarray(self)[index]

    def astype(self, dtype: Any) -> "TensorRows":
        """The same rows in another type, on the device."""
        return TensorRows(self.tensor.to(getattr(loaded_torch(), np.dtype(dtype).name)))

    def send(self, values: Array) -> Any:
        """An array as a tensor on the device of the rows."""
        return loaded_torch().tensor(values, device=self.device)

    def all_finite(self) -> bool:
        """Whether no number is NaN or infinite."""
        size = max(1, _CHECKED_AT_A_TIME * len(self) // max(1, self.size))
        return all(bool(part.isfinite().all()) for part in self.tensor.split(size))


def on_device(rows: object) -> TypeGuard[TensorRows]:
    """Whether rows are on a device that numpy cannot read."""
    return isinstance(rows, TensorRows)


def array_or_rows(values: Any) -> Array:
    """What numpy reads in place as an array, a tensor elsewhere as :class:`TensorRows`."""
    if is_tensor(values) and not on_host(_dense(values)):
        values = TensorRows(values)
    if on_device(values):
        _numpy_type(values.tensor.dtype)  # refuses what is no number
        return cast(Array, values)  # with the part of its face that rows need
    return host_array(values)


def host_array(values: Any) -> Array:
    """Any values as a numpy array on the host; no copy where they are there."""
    tensor = values.tensor if on_device(values) else values
    if not is_tensor(tensor):
        return np.asarray(values)
    kind = _numpy_type(_dense(tensor).dtype)
    wanted = getattr(loaded_torch(), kind.name)
    return np.asarray(tensor.to(wanted).numpy(force=True))


def select_columns(rows: Any, columns: Sequence[int]) -> Any:
    """Some columns of a data frame, an array, a tensor or rows on a device, in the given order."""
    if on_device(rows):
        return TensorRows(rows.tensor[:, list(columns)])
    if hasattr(rows, "iloc"):
        return rows.iloc[:, list(columns)]
    return rows[:, list(columns)]


def read_only(rows: Array) -> Array:
    """The same values, without a copy, as an array that cannot be written to; not on a device."""
    if on_device(rows):
        return cast(Array, rows)
    view = rows.view()
    view.flags.writeable = False
    return view


def as_given(values: Any, like: Any) -> Any:
    """Results in the form of the input: a tensor on its device for a tensor, else as they are."""
    if not (is_tensor(like) or on_device(like)):
        return values
    torch = loaded_torch()
    return values if is_tensor(values) else torch.as_tensor(values, device=like.device)


def move(rows: Any, device: Any) -> Array:
    """Rows on a device: as an array on the CPU, else as :class:`TensorRows`."""
    torch = loaded_torch()
    if on_device(rows):
        return array_or_rows(rows.tensor.to(device))
    if on_host(torch.empty(0, device=device)):
        return cast(Array, rows)
    native = rows.astype(rows.dtype.newbyteorder("="), copy=False)
    return array_or_rows(torch.tensor(native, device=device))


def join(parts: Sequence[Any]) -> Array:
    """Rows one after the other, in the widest of their types; all are on the same device."""
    if not on_device(parts[0]):
        return np.concatenate(parts)
    kinds = {part.tensor.dtype for part in parts}
    widest = np.result_type(*(part.dtype for part in parts))
    joined = [(part if len(kinds) == 1 else part.astype(widest)).tensor for part in parts]
    return cast(Array, TensorRows(loaded_torch().cat(joined)))


def place_of(rows: object) -> str:
    """The device of rows in words."""
    return str(rows.device) if on_device(rows) else "the host"


def check_device(device: Any, *, double_precision: bool = True) -> Any:
    """A device that can be used here, as torch names it; None is the CPU, without torch.

    ``"auto"`` is the GPU if there is one, else the CPU.
    """
    if device == "auto":
        torch = sys.modules.get("torch")
        device = "cuda" if torch is not None and torch.cuda.is_available() else "cpu"
    if device == "cpu" and "torch" not in sys.modules:
        return None
    torch = require("torch", extra="torch", purpose=f"device={str(device)!r}")
    try:
        if device is None:
            raise TypeError("it is None")
        found = torch.device(device)
        wanted = torch.float64 if double_precision else torch.float32
        torch.zeros(1, dtype=wanted, device=found).cpu()
    except (AssertionError, NotImplementedError, RuntimeError, TypeError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        there = ["cpu", *(f"cuda:{k}" for k in range(torch.cuda.device_count()))]
        raise InputError(
            f"device={str(device)!r} cannot be used here ({reason}); there is "
            f"{', '.join(there)}. For a GPU, install a build of torch for it."
        ) from error
    return found


def _dense(tensor: Any) -> Any:
    if tensor.layout is not loaded_torch().strided or tensor.is_meta:
        raise TypeError(f"a tensor of layout {tensor.layout} on {tensor.device}")
    return tensor


def _numpy_type(dtype: Any) -> np.dtype[Any]:
    name = str(dtype).removeprefix("torch.")
    try:
        return np.dtype(name)
    except TypeError:
        if dtype.is_floating_point:
            return np.dtype(np.float32)  # bfloat16 and less
        raise TypeError(f"a tensor of {dtype}") from None


def _row_numbers(index: Array, n_rows: int) -> IntArray:
    """Chosen rows as numbers; what is out of bounds is refused here: a GPU would not survive it."""
    if index.dtype.kind == "b":
        if len(index) != n_rows:
            raise IndexError(f"a mask of {len(index)} for {n_rows} rows")
        return np.flatnonzero(index)
    numbers = index.astype(np.int64)
    outside = (numbers < -n_rows) | (numbers >= n_rows)
    if outside.any():
        raise IndexError(f"index {numbers[outside][0]} is out of bounds for {n_rows} rows")
    return numbers

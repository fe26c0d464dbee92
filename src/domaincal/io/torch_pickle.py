"""The pickle in a ``.pt`` file: which tensors it names, found without running anything.

``torch.load(weights_only=True)`` runs no code of the file, but it hashes, allocates and compares
what the file asks for: a few hundred bytes can keep it busy for ever. Here the instructions of the
pickle are only followed: tensors are descriptions, dictionaries are lists of pairs, and everything
else is a name for error messages. The time is proportional to the length of the pickle.
"""

from __future__ import annotations

import pickletools
from dataclasses import dataclass
from typing import Any

_PUT = ("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE")
_GET = ("GET", "BINGET", "LONG_BINGET")
_TUPLES = ("EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3")
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
# Their argument is a name, not a value.
_NAMING = ("GLOBAL", "INST", "PERSID", "EXT1", "EXT2", "EXT4")
# They change the object below their arguments.
_SETTERS = ("SETITEM", "SETITEMS", "APPEND", "APPENDS", "ADDITEMS", "BUILD")
_REBUILD = ("torch._utils._rebuild_tensor_v2", "torch._utils._rebuild_tensor_v3")
_PARAMETERS = ("torch._utils._rebuild_parameter", "torch._utils._rebuild_parameter_with_state")
# Tensors with attributes of their own: function, type, its arguments and the attributes.
_WITH_ATTRIBUTES = "torch._tensor._rebuild_from_type_v2"
_TYPES = ("torch.Tensor", "torch.nn.parameter.Parameter", "torch.nn.parameter.Buffer")
# Longer names, tuples of arguments and shapes are not torch's. They can be used again and again at
# the cost of two bytes, so that the time to copy or check them must not depend on the file.
_LONGEST_NAME = 100
_MOST_ARGUMENTS = 10
_MOST_DIMENSIONS = 64


@dataclass(frozen=True, slots=True)
class Other:
    """A value that is not needed; ``name`` says what it is."""

    name: str


# One object for each instruction: a pickle may have one in every byte.
_OTHERS = {opcode.name: Other(opcode.name.lower()) for opcode in pickletools.opcodes}
_OTHERS["EMPTY_LIST"] = _OTHERS["LIST"] = Other("list")
_OTHERS["EMPTY_SET"] = Other("set")


@dataclass(frozen=True, slots=True)
class Storage:
    """Bytes of tensors: the file ``data/KEY`` of the archive."""

    key: str
    dtype: str


@dataclass(frozen=True, slots=True)
class Tensor:
    """Part of a storage; ``offset`` and ``strides`` count values."""

    storage: Storage
    dtype: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def entries(content: bytes) -> dict[str, Tensor | Other] | Other:
    """Entries of the dictionary in a pickle, by name; Other if it holds something else.

    Raises
    ------
    Exception
        Of any class, for content that is not a pickle.
    """
    found = _Machine().result(content)
    if not isinstance(found, list):
        return found if isinstance(found, Other) else Other(type(found).__name__)
    return {
        key if isinstance(key, str) else f"<{type(key).__name__}>": (
            value if isinstance(value, Tensor | Other) else Other(_type_name(value))
        )
        for key, value in found
    }


class _Machine:
    """Stack and memo of a pickle. A dictionary is a list of pairs: its keys are never hashed."""

    def __init__(self) -> None:
        self._stack: list[Any] = []
        self._marks: list[int] = []
        # torch numbers the entries 0, 1, 2, ...; a dictionary would take more memory.
        self._memo: list[Any] = []

    def result(self, content: bytes) -> Any:
        """The object that the pickle describes."""
        opcode: pickletools.OpcodeInfo
        argument: Any
        for opcode, argument, _ in pickletools.genops(content):
            name = opcode.name
            if name == "STOP":
                return self._stack[-1]
            if name == "MARK":
                self._marks.append(len(self._stack))
            elif name in _PUT:
                self._put(len(self._memo) if name == "MEMOIZE" else int(argument))
            elif name in _GET:
                self._stack.append(self._memo[int(argument)])
            else:
                self._step(opcode, argument)
        raise ValueError("the pickle has no end")

    def _put(self, number: int) -> None:
        if number == len(self._memo):
            self._memo.append(self._stack[-1])
        else:
            self._memo[number] = self._stack[-1]

    def _step(self, opcode: pickletools.OpcodeInfo, argument: Any) -> None:
        """Replace the arguments of an instruction on the stack by what it gives."""
        before = opcode.stack_before
        start = len(self._stack) - len(before)
        if pickletools.markobject in before:
            start = self._marks.pop() - before.index(pickletools.markobject)
        if start < 0 or len(opcode.stack_after) > 1:
            raise ValueError(f"unexpected {opcode.name} in the pickle")
        taken = self._stack[start:]
        del self._stack[start:]
        if opcode.stack_after:
            self._stack.append(_value(opcode.name, argument, taken))


def _value(name: str, argument: Any, taken: list[Any]) -> Any:
    """What an instruction puts on the stack."""
    if name in _TUPLES:
        return tuple(taken)
    if name in _CONSTANTS:
        return _CONSTANTS[name]
    if name == "EMPTY_DICT":
        return []
    if name in _SETTERS:
        target, *values = taken
        if isinstance(target, list) and name.startswith("SETITEM"):
            target += zip(values[::2], values[1::2], strict=True)
        return target
    if name == "GLOBAL":
        return Other(argument.replace(" ", ".")[:_LONGEST_NAME])
    if name == "STACK_GLOBAL" and all(_is_name(part) for part in taken):
        return Other(".".join(taken))
    if name == "BINPERSID":
        return _storage(taken[0])
    if name in ("REDUCE", "NEWOBJ"):
        return _called(*taken)
    return _OTHERS[name] if argument is None or name in _NAMING else argument


def _storage(key: Any) -> Storage | Other:
    """Storage of the key ``("storage", type, key, device, number of values)``."""
    if isinstance(key, tuple) and len(key) == 5:
        kind, name = key[1:3]
        if isinstance(kind, Other) and _is_name(name):
            return Storage(name, _last(kind.name).removesuffix("Storage").lower())
    return Other("an unknown storage")


def _called(function: Any, arguments: Any) -> Any:
    """What a function of torch would return; nothing is called."""
    name = function.name if isinstance(function, Other) else _type_name(function)
    if name == "collections.OrderedDict":
        return []
    if not isinstance(arguments, tuple) or len(arguments) > _MOST_ARGUMENTS:
        return Other(name)
    if name in _PARAMETERS and arguments:
        return arguments[0]
    if name == _WITH_ATTRIBUTES and len(arguments) == 4:
        function, kind, arguments, _ = arguments
        if isinstance(kind, Other) and kind.name in _TYPES and isinstance(function, Other):
            # Once only: a chain of such calls could be as long as the file.
            return (
                Other(name) if function.name == _WITH_ATTRIBUTES else _called(function, arguments)
            )
    if name in _REBUILD and len(arguments) >= 6:
        storage, offset, shape, strides = arguments[:4]
        dtype, flags = None, arguments[6:]
        if name.endswith("v3"):
            dtype, flags = arguments[6:7], arguments[7:]
        # Flags such as "negative" change the values.
        is_plain = not any(flags) and _are_sizes((offset,)) and _are_sizes(shape, strides)
        if isinstance(storage, Storage) and is_plain:
            kind = _last(dtype[0].name) if dtype and isinstance(dtype[0], Other) else storage.dtype
            return Tensor(storage, kind, offset, shape, strides)
    return Other(name)


def _are_sizes(*groups: Any) -> bool:
    return all(
        isinstance(group, tuple)
        and len(group) <= _MOST_DIMENSIONS
        and all(type(n) is int and 0 <= n < 2**63 for n in group)
        for group in groups
    )


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= _LONGEST_NAME


def _last(name: str) -> str:
    """Name without its module."""
    return name.rpartition(".")[2]


def _type_name(value: Any) -> str:
    return "dict" if isinstance(value, list) else type(value).__name__

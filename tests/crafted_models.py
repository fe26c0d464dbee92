"""Model files with altered contents and a correct checksum, for tests and the fuzzer."""

import copy
import json
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from domaincal._tensor_files import read_tensors
from domaincal.calibrators.files.model_encoding import checksum

Tensors = dict[str, np.ndarray]

#: Numbers that are out of range nearly everywhere, or nearly in range.
NUMBERS = (-1.0, 0.0, 7.0, 1e300, -1e300, 1e-320, 0.5, np.nan, np.inf, -np.inf)
#: Entries of a header that are of another type nearly everywhere.
ENTRIES: tuple[Any, ...] = (
    *({"float": repr(x)} if not np.isfinite(x) else x for x in NUMBERS),
    -1, 0, 1, 7, 10**9, 10**40, None, True, "", "x", "zero \0", "half \ud800", "long" * 300,
    [], {}, [0.5], {"tuple": []}, {"tuple": [1.0, 1.0]}, {"texts": ["a", "a"]}, {"texts": [1]},
    {"dict": {"alpha": 10**400}}, {"frame": {"a": 1.0}}, {"tensor": "nowhere"},
    {"series": {"index": {"texts": []}, "values": 1.0, "name": None, "index_name": None}},
    {"part": "TemperatureTarget", "fields": {"target": "log", "low": 2.0, "high": 1.0}},
    {"part": "LinearMap", "fields": {"coef": [1.0], "intercept": 0.0}},
)  # fmt: skip


def read_model(path: Path) -> tuple[dict[str, Any], Tensors]:
    """Header, without its checksum, and tensors of a model file."""
    tensors, metadata = read_tensors(path)
    header = json.loads(metadata["domaincal"])
    header.pop("sha256")
    return header, tensors


def write_model(path: Path, header: dict[str, Any], tensors: Tensors) -> None:
    """Write a model file with a correct checksum."""
    header = {**header, "sha256": checksum(header, tensors)}
    arrays = {name: np.ascontiguousarray(values) for name, values in tensors.items()}
    save_file(arrays, path, {"domaincal": json.dumps(header)})


def altered_models(
    header: dict[str, Any], tensors: Tensors, learned: Collection[str] | None = None
) -> Iterator[tuple[str, dict[str, Any], Tensors]]:
    """A text that says what is altered, the header and the tensors.

    Every entry of the header and every tensor is altered in turn; with ``learned``, only these
    learned values.
    """
    for place in _places(header):
        if learned is not None and (place[0] != "learned" or not {*place[1:2]} & {*learned}):
            continue
        for k, entry in enumerate(_other_entries(_find(header, place))):
            changed = copy.deepcopy(header)
            _find(changed, place[:-1])[place[-1]] = entry
            yield f"{place} entry {k}", changed, tensors
        if isinstance(place[-1], str):
            changed = copy.deepcopy(header)
            del _find(changed, place[:-1])[place[-1]]
            yield f"{place} removed", changed, tensors
    for name, values in tensors.items():
        if learned is not None and name.split(".")[0] not in learned:
            continue
        for k, other in enumerate(_other_arrays(values)):
            yield f"{name} array {k}", header, {**tensors, name: other}


def _places(content: Any, start: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Keys that lead to every entry of a header, containers included."""
    if not isinstance(content, dict | list):
        return
    for key, value in list(content.items() if isinstance(content, dict) else enumerate(content)):
        if start or key not in ("format", "written_by"):
            yield (*start, key)
            yield from _places(value, (*start, key))


def _find(content: Any, place: tuple[Any, ...]) -> Any:
    for key in place:
        content = content[key]
    return content


def _other_entries(entry: Any) -> Iterator[Any]:
    yield from ENTRIES
    if isinstance(entry, list):
        yield entry[:-1]
        yield [*entry, *entry[-1:]]
        yield entry[::-1]


def _other_arrays(values: np.ndarray) -> Iterator[np.ndarray]:
    for number in NUMBERS:
        whole = values.dtype.kind in "iu"
        if not whole or np.isfinite(number):
            filled = np.full_like(values, np.clip(number, -(2**62), 2**62) if whole else number)
            yield filled
            some = values.copy()
            some.flat[-1] = filled.flat[-1]
            yield some
    yield values[::-1]
    yield values.T
    yield values[:-1]
    yield values[:0]
    yield np.concatenate([values, values[-1:]])
    yield values[None]
    yield values.ravel()
    yield np.array(0.5)
    for dtype in ("f2", "f4", "i8", "u1", "?"):
        with np.errstate(over="ignore", invalid="ignore"):
            converted = values.astype(dtype)
        yield converted

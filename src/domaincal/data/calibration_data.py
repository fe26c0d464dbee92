"""The aligned arrays of one data set."""

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from domaincal._tensors import check_device, host_array, join, move, on_device, place_of, read_only
from domaincal._typing import Array, ArrayLike, IntArray
from domaincal._validation import (
    check_class_names,
    check_column_names,
    check_domains,
    check_features,
    check_labels,
    check_logits,
    column_names,
)
from domaincal._validation.arrays import require_rows
from domaincal.data.fingerprint import fingerprint
from domaincal.errors import InputError

_LONGEST_NAME = 1000
_ARRAYS = ("logits", "labels", "features", "domains", "groups")


@dataclass(frozen=True, eq=False, repr=False)
class CalibrationData:
    """Logits, labels, features, domains and groups of the same rows.

    Logits and features in torch tensors on a GPU stay there (as ``data.logits.tensor``), and so
    does what is fitted and evaluated on them; all else becomes numpy arrays. Those are read-only
    views: numbers are not copied, and your own arrays stay writable. ``torch.tensor(data.logits)``
    is a tensor to write to; ``torch.as_tensor`` warns of what is read-only.

    Parameters
    ----------
    logits : array, shape (n, n_classes)
    labels : array of class indices or class names, shape (n,), optional
        Names are looked up in ``class_names`` and stored as indices.
    features : array, shape (n, n_features), optional
    domains : array of integers or strings, shape (n,), optional
    groups : array of integers or strings, shape (n,), optional
        Rows of one group belong together across domains, such as one image under several
        corruptions; ``split_halves(data, by="group")`` keeps them on one side.
    class_names : sequence of strings, optional
        Name of each column of the logits. By default the columns of a data frame of logits.
    feature_names : sequence of strings, optional
        Name of each column of the features. By default the columns of a data frame of features.
    provenance : mapping, optional
        Where the rows come from, in words and numbers that JSON can hold; written to files.

    Examples
    --------
    >>> data = CalibrationData([[2.0, 0.0], [0.0, 1.0]], labels=[0, 1], domains=["day", "night"])
    >>> data
    CalibrationData(2 rows, 2 classes, 2 domains)
    >>> len(data[:1])
    1
    >>> [(name, len(rows)) for name, rows in data.by_domain()]
    [('day', 1), ('night', 1)]
    """

    logits: Array
    labels: Array | None = None
    features: Array | None = None
    domains: Array | None = None
    groups: Array | None = None
    class_names: tuple[str, ...] | None = None
    feature_names: tuple[str, ...] | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)
    _coded: dict[str, tuple[IntArray, Array]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # Frozen for users; here the arguments become arrays.
        def put(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        for array, key in (("logits", "class_names"), ("features", "feature_names")):
            if getattr(self, key) is None and isinstance(getattr(self, array), pd.DataFrame):
                put(key, column_names(getattr(self, array)))
        put("logits", check_logits(self.logits))
        n, n_classes = self.logits.shape
        if self.class_names is not None:
            put("class_names", check_class_names(self.class_names, n_classes=n_classes))
        if self.labels is not None:
            names = self.class_names
            put("labels", check_labels(self.labels, n_rows=n, n_classes=n_classes, names=names))
        if self.features is not None:
            put("features", check_features(self.features, n_rows=n, needed_by="CalibrationData"))
        if self.feature_names is not None:
            put("feature_names", _checked_feature_names(self.feature_names, self.features))
        coded = {}
        for name in ("domains", "groups"):
            if getattr(self, name) is not None:
                codes, ids = _ids(getattr(self, name), n_rows=n, name=name)
                coded[name] = (codes, ids)
                put(name, ids[codes])
        put("_coded", coded)
        put("provenance", _checked_provenance(self.provenance))
        self._hold_read_only()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)  # of a copy or another process: numpy forgets what is read-only
        self._hold_read_only()

    def _hold_read_only(self) -> None:
        """Views that cannot be written to: the codes of domains and groups were made from them."""
        for name in _ARRAYS:
            if getattr(self, name) is not None:
                object.__setattr__(self, name, read_only(getattr(self, name)))
        coded = {name: (read_only(a), read_only(b)) for name, (a, b) in self._coded.items()}
        object.__setattr__(self, "_coded", coded)

    def __len__(self) -> int:
        return len(self.logits)

    def __repr__(self) -> str:
        parts = [_count(len(self), "row"), f"{self.logits.shape[1]} classes"]
        if self.features is not None:
            parts.append(_count(self.features.shape[1], "feature"))
        if self.domains is not None:
            parts.append(_count(len(self.domain_names), "domain"))
        if self.groups is not None:
            parts.append(_count(len(self.group_codes[1]), "group"))
        if self.labels is None:
            parts.append("no labels")
        return f"{type(self).__name__}({', '.join(parts)})"

    @property
    def domain_names(self) -> Array:
        """Sorted names of the domains."""
        if self.domains is None:
            raise InputError("this CalibrationData has no domains; pass domains=... to make it.")
        return self.domain_codes[1].copy()

    @property
    def domain_codes(self) -> tuple[IntArray, Array]:
        """Number of each row's domain among the sorted names, and those; one where none is known.

        Names are compared once: with many rows that takes longer than all sums over them.
        """
        return self._coded.get("domains", (np.zeros(len(self), np.int64), np.array(["all"])))

    @property
    def group_codes(self) -> tuple[IntArray, Array]:
        """Number of each row's group among the sorted names, and those; if none, each row's own."""
        rows = np.arange(len(self))
        return self._coded.get("groups", (rows, rows))

    def fingerprint(self) -> str:
        """Short text that tells these rows from others; fitted calibrators remember it."""
        return fingerprint(self.logits, self.labels)

    def __getitem__(self, rows: ArrayLike | slice) -> "CalibrationData":
        """``data[rows]`` is ``data.select(rows)``, for slices above all."""
        return self.select(rows)

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
        if isinstance(index, np.ndarray) and index.ndim != 1:
            raise InputError(
                f"rows must be a slice or one-dimensional, got {rows!r}; for a single row use a "
                "slice, such as data[3:4]."
            )
        try:
            logits = self.logits[index]
        except IndexError as error:
            raise InputError(
                f"rows do not fit the {len(self)} rows of the data: {error}."
            ) from error
        require_rows(logits, "logits")
        # What was checked needs no check again: that would take longer than the choice.
        part = copy.copy(self)
        chosen: dict[str, Any] = {"logits": logits, "provenance": dict(self.provenance)}
        for name in _ARRAYS[1:]:
            if getattr(self, name) is not None:
                chosen[name] = getattr(self, name)[index]
        coded = {name: _recoded(codes[index], ids) for name, (codes, ids) in self._coded.items()}
        for name, value in {**chosen, "_coded": coded}.items():
            object.__setattr__(part, name, value)
        part._hold_read_only()
        return part

    def to(self, device: Any) -> "CalibrationData":
        """The same rows with logits and features on a device, such as ``"cuda"``.

        Fitting and evaluating then runs there. ``"cpu"`` gives numpy arrays again, as does
        :meth:`numpy`. Labels, domains and groups are numpy arrays everywhere.
        """
        where = check_device(device)
        if where is None or where.type == "cpu":
            return self.numpy()
        features = None if self.features is None else move(self.features, where)
        return replace(self, logits=move(self.logits, where), features=features)

    def numpy(self) -> "CalibrationData":
        """The same rows as numpy arrays, wherever they are."""
        if not (on_device(self.logits) or on_device(self.features)):
            return self
        features = None if self.features is None else host_array(self.features)
        return replace(self, logits=host_array(self.logits), features=features)

    def by_domain(self) -> Iterator[tuple[Any, "CalibrationData"]]:
        """Name and rows of each domain, in the order of the names."""
        names = self.domain_names.tolist()
        for number, name in enumerate(names):
            yield name, self.select(self.domain_codes[0] == number)


def concatenate(parts: Sequence[CalibrationData]) -> CalibrationData:
    """The rows of all parts, one after the other.

    The parts have the same classes and features, and the same things are known of their rows;
    numbers get the widest of their types. Of their provenance, what they agree on is kept.

    Examples
    --------
    >>> from domaincal import CalibrationData, concatenate
    >>> a = CalibrationData([[2.0, 0.0]], labels=[0], domains=["a"])
    >>> b = CalibrationData([[0.0, 1.0]], labels=[1], domains=["b"])
    >>> concatenate([a, b])
    CalibrationData(2 rows, 2 classes, 2 domains)
    """
    parts = list(parts)
    for part in parts:
        if not isinstance(part, CalibrationData):
            raise InputError(f"parts must be CalibrationData, got {type(part).__name__}.")
    if not parts:
        raise InputError("parts is empty; pass at least one CalibrationData.")
    first = parts[0]
    for number, part in enumerate(parts[1:], 1):
        _require_alike(first, part, "part 0", f"part {number}")

    def joined(name: str) -> Array | None:
        values = [getattr(part, name) for part in parts]
        return None if values[0] is None else join(values)

    return CalibrationData(
        join([part.logits for part in parts]),
        labels=joined("labels"),
        features=joined("features"),
        domains=joined("domains"),
        groups=joined("groups"),
        class_names=first.class_names,
        feature_names=first.feature_names,
        provenance={
            key: value
            for key, value in first.provenance.items()
            if all(key in p.provenance and p.provenance[key] == value for p in parts)
        },
    )


def _require_alike(a: CalibrationData, b: CalibrationData, name_a: str, name_b: str) -> None:
    """Raise where rows of ``b`` cannot follow those of ``a``."""

    def facts(data: CalibrationData) -> dict[str, Any]:
        return {
            "classes": data.logits.shape[1],
            "class names": data.class_names,
            "device of logits": place_of(data.logits),
            "labels": data.labels is not None,
            "features": None if data.features is None else data.features.shape[1],
            "feature names": data.feature_names,
            "device of features": place_of(data.features),
            "type of domains": _kind(data.domains),
            "type of groups": _kind(data.groups),
        }

    for (fact, of_a), of_b in zip(facts(a).items(), facts(b).values(), strict=True):
        if of_a != of_b:
            raise InputError(
                f"{name_a} and {name_b} disagree in their {fact}: {of_a} and {of_b}; make them "
                "alike before they are joined."
            )


def _count(n: int, word: str) -> str:
    return f"{n} {word}{'' if n == 1 else 's'}"


def _kind(ids: Array | None) -> str | None:
    return None if ids is None else "integers" if ids.dtype.kind in "iu" else "strings"


def _recoded(codes: IntArray, names: Array) -> tuple[IntArray, Array]:
    """Codes among those of the names that occur."""
    there = np.bincount(codes, minlength=len(names)) > 0
    return (np.cumsum(there) - 1)[codes], names[there]


def _ids(values: ArrayLike, *, n_rows: int, name: str) -> tuple[IntArray, Array]:
    """Code of each row, and the integers or strings; strings as numpy's own, as files hold them."""
    codes, names = check_domains(values, n_rows=n_rows, needed_by="CalibrationData", name=name)
    if names.dtype.kind in "iu":
        return codes, names
    for text in names:
        # Numpy's strings are all as long as the longest, and end before a zero character.
        if len(text) > _LONGEST_NAME or "\0" in text:
            raise InputError(
                f"{name} contains {text[:40]!r}..., which is too long or holds a zero character; "
                f"use names of at most {_LONGEST_NAME} characters."
            )
    return codes, names.astype(str)


def _checked_feature_names(names: Any, features: Array | None) -> tuple[str, ...]:
    if features is None:
        raise InputError("feature_names are given, but no features; pass features=... as well.")
    n_columns = features.shape[1]
    return check_column_names(
        names, "feature_names", n_columns=n_columns, columns=f"the features have {n_columns} "
        "columns", each="feature",
    )  # fmt: skip


def _checked_provenance(provenance: Any) -> dict[str, Any]:
    try:
        # There and back: what is kept is what a file would give again.
        return dict(json.loads(json.dumps(dict(provenance), allow_nan=False)))
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"provenance must be a mapping of words and numbers that JSON can hold ({error})."
        ) from error

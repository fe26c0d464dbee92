"""CalibrationData: aligned logits, labels, features, domains and groups."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from domaincal._notebook_view import notebook_view
from domaincal._tensors import (
    check_device,
    host_array,
    on_device,
    read_only,
    to_device,
)
from domaincal._typing import Array, ArrayLike, IntArray
from domaincal._validation import (
    check_class_columns,
    check_class_names,
    check_column_names,
    check_domains,
    check_features,
    check_labels,
    check_logits,
    check_names,
    check_not_empty,
    column_names,
)
from domaincal.data.column_choice import ColumnChoice, Columns
from domaincal.data.data_frames import arrays_from_frame
from domaincal.data.data_view import draw_row_counts, facts_of_data
from domaincal.data.fingerprint import fingerprint
from domaincal.errors import InputError
from domaincal.kernels.row_groups import rows_of_codes

_ARRAYS = ("logits", "labels", "features", "domains", "groups")


@dataclass(frozen=True, eq=False, repr=False)
class CalibrationData:
    """Logits, labels, features, domains and groups of the same rows.

    Arrays become read-only views, without a copy; your own arrays stay writable. Logits and
    features in torch tensors on a GPU stay there (as ``data.logits.tensor``), and calibrators are
    then fitted and evaluated on the GPU. ``torch.tensor(data.logits)`` makes a writable tensor;
    ``torch.as_tensor`` warns that the array is read-only.

    Parameters
    ----------
    logits : array, shape (n, n_classes)
    labels : array of class indices or class names, shape (n,), optional
        Names are looked up in ``class_names``; the attribute holds indices.
    features : array, shape (n, n_features), optional
    domains : array of integers or strings, shape (n,), optional
    groups : array of integers or strings, shape (n,), optional
        Rows of one group belong together across domains, such as one image under several
        corruptions; ``split_halves(data, by="group")`` keeps them in one half.
    class_names : sequence of strings, optional
        Name of each column of the logits; by default the column names of a data frame of logits.
    feature_names : sequence of strings, optional
        Name of each column of the features; by default the column names of a data frame.
    provenance : mapping, optional
        Where the rows come from, in values that JSON supports; files keep it.

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
        # The class is frozen for users; only this method replaces arguments by checked arrays.
        def put(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        for array, key in (("logits", "class_names"), ("features", "feature_names")):
            if getattr(self, key) is None and isinstance(getattr(self, array), pd.DataFrame):
                if array == "logits":
                    check_class_columns(getattr(self, array))
                put(key, column_names(getattr(self, array)))
        put("logits", check_logits(self.logits))
        n, n_classes = self.logits.shape
        if self.class_names is not None:
            put("class_names", check_class_names(self.class_names, n_classes=n_classes))
        if self.labels is not None:
            put("labels", check_labels(
                self.labels, n_rows=n, n_classes=n_classes, names=self.class_names
            ))  # fmt: skip
        if self.features is not None:
            put("features", check_features(self.features, n_rows=n, needed_by="CalibrationData"))
        if self.feature_names is not None:
            put("feature_names", _check_feature_names(self.feature_names, self.features))
        coded = {}
        for name in ("domains", "groups"):
            if getattr(self, name) is not None:
                codes, names = _encode(getattr(self, name), n_rows=n, name=name)
                coded[name] = (codes, names)
                put(name, names[codes])
        put("_coded", coded)
        put("provenance", _check_provenance(self.provenance))
        self._make_read_only()

    @classmethod
    def from_frame(
        cls,
        frame: pd.DataFrame,
        *,
        probabilities: Columns | None = None,
        logits: Columns | None = None,
        label: str | None = None,
        domain: str | None = None,
        features: Columns | None = None,
        group: str | None = None,
        class_names: Sequence[str] | None = None,
        floor: float | None = None,
    ) -> CalibrationData:
        """Rows of a data frame, whose columns have any names.

        Parameters
        ----------
        frame : DataFrame
        probabilities, logits : str or list of str, optional
            Columns of the scores, one for each class; give one of the two. A name, a list of names,
            or a pattern such as ``"p_*"``: the text in place of ``*`` is then the name of the
            class. A single name is a binary score: the probability, or the log-odds, of class 1. By
            default ``logit_*`` or ``prob_*``, or one column ``score`` (log-odds) or ``prob``.
        label, domain, group : str, optional
            Columns; by default ``label``, ``domain`` and ``group``, in any case, if there are any.
            Labels are names of classes, or numbers of their columns from 0.
        features : str or list of str, optional
            Columns of numbers: names or patterns; by default ``feature_*``.
        class_names : list of str, optional
            Names of the classes in the order of their columns; for a binary score, the second is
            the class that it speaks for.
        floor : float, optional
            Probability in place of smaller ones; see :func:`logits_from_probabilities`.

        Examples
        --------
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"site": ["a", "a", "b"], "y": ["no", "yes", "yes"],
        ...                       "risk": [0.2, 0.7, 0.9], "age": [41, 65, 70]})
        >>> CalibrationData.from_frame(frame, probabilities="risk", label="y", domain="site",
        ...                            features=["age"], class_names=["no", "yes"])
        CalibrationData(3 rows, 2 classes, 1 feature, 2 domains)
        """
        choice = ColumnChoice(
            logits=logits, probabilities=probabilities, features=features, label=label,
            domain=domain, group=group, class_names=class_names, floor=floor,
        )  # fmt: skip
        return cls(**arrays_from_frame(frame, choice))

    @classmethod
    def from_codes(
        cls,
        logits: Array,
        *,
        labels: Array | None,
        features: Array | None,
        domains: tuple[IntArray, Array] | None,
        groups: tuple[IntArray, Array] | None,
        **names: Any,
    ) -> CalibrationData:
        """Rows whose domains and groups are codes and sorted names, which are not compared again.

        ``names`` are the class names, the feature names and the provenance.
        """
        data = cls(logits, labels=labels, features=features, **names)
        for name, given in (("domains", domains), ("groups", groups)):
            if given is not None:
                codes, kept = _drop_unused_names(*given)
                data._coded[name] = (codes, kept)
                object.__setattr__(data, name, kept[codes])
        data._make_read_only()
        return data

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)  # arrays that were copied or pickled are writable again
        self._make_read_only()

    def _make_read_only(self) -> None:
        """Replace the arrays by read-only views: the codes must stay those of the names."""
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

    def _repr_html_(self) -> str:
        """HTML for notebooks: what there is, and the number of rows of each domain."""
        return notebook_view(repr(self), facts_of_data(self), draw_row_counts(self))

    @property
    def domain_names(self) -> Array:
        """Sorted names of the domains."""
        if self.domains is None:
            raise InputError("this CalibrationData has no domains; pass domains=... to it.")
        return self.domain_codes[1].copy()

    @property
    def domain_codes(self) -> tuple[IntArray, Array]:
        """Index of each row's domain in the sorted names, and the names.

        Without domains, all rows are in a domain ``"all"``. Names are compared once, by the
        constructor: with many rows, that takes longer than all sums over the rows.
        """
        return self._coded.get("domains", (np.zeros(len(self), np.int64), np.array(["all"])))

    @property
    def group_codes(self) -> tuple[IntArray, Array]:
        """Index of each row's group in the sorted names, and the names.

        Without groups, each row is a group.
        """
        rows = np.arange(len(self))
        return self._coded.get("groups", (rows, rows))

    def fingerprint(self) -> str:
        """Short digest of the logits and labels, which fitted calibrators store."""
        return fingerprint(self.logits, self.labels)

    def __getitem__(self, rows: ArrayLike | slice) -> CalibrationData:
        """``data[rows]`` is ``data.select(rows)``."""
        return self.select(rows)

    def select(self, rows: ArrayLike | slice) -> CalibrationData:
        """Select rows by indices, a boolean mask or a slice."""
        index = rows if isinstance(rows, slice) else np.asarray(rows)
        if isinstance(index, np.ndarray) and index.dtype.kind not in "biu":
            if index.size:
                raise InputError(
                    f"rows must be row numbers, a mask or a slice, got {index.dtype}; to select a "
                    "domain use data.select(data.domains == name)."
                )
            index = index.astype(int)
        if isinstance(index, np.ndarray) and index.ndim != 1:
            raise InputError(
                f"rows must be a slice or a 1-D array, got {rows!r}; to select a single row use a "
                "slice, such as data[3:4]."
            )
        try:
            logits = self.logits[index]
        except IndexError as error:
            raise InputError(
                f"rows do not match the {len(self)} rows of the data ({error}); pass row numbers "
                f"0..{len(self) - 1}, or a mask with one entry for each row."
            ) from error
        check_not_empty(logits, "logits")
        # A copy skips the checks of the constructor, which take longer than the selection.
        part = copy.copy(self)
        selected: dict[str, Any] = {"logits": logits, "provenance": dict(self.provenance)}
        for name in _ARRAYS[1:]:
            if getattr(self, name) is not None:
                selected[name] = getattr(self, name)[index]
        coded = {
            name: _drop_unused_names(codes[index], names)
            for name, (codes, names) in self._coded.items()
        }
        for name, value in {**selected, "_coded": coded}.items():
            object.__setattr__(part, name, value)
        part._make_read_only()
        return part

    def to(self, device: Any) -> CalibrationData:
        """Move the logits and features to a device, where calibrators are then fitted.

        Labels, domains and groups stay numpy arrays.

        Parameters
        ----------
        device : str or torch.device
            ``"cuda"``, ...; ``"cpu"`` gives numpy arrays, as :meth:`numpy` does; ``"auto"`` is the
            GPU if there is one, else the CPU.
        """
        found = check_device(device)
        if found is None:
            return self.numpy()
        features = None if self.features is None else to_device(self.features, found)
        return replace(self, logits=to_device(self.logits, found), features=features)

    def numpy(self) -> CalibrationData:
        """Copy logits and features that are on a device to numpy arrays."""
        if not (on_device(self.logits) or on_device(self.features)):
            return self
        features = None if self.features is None else host_array(self.features)
        return replace(self, logits=host_array(self.logits), features=features)

    def by_domain(self) -> Iterator[tuple[Any, CalibrationData]]:
        """Iterate over the name and the rows of each domain, in the order of the names."""
        names = self.domain_names.tolist()
        of_domain = rows_of_codes(self.domain_codes[0], len(names))
        for name, rows in zip(names, of_domain, strict=True):
            yield name, self.select(rows)


def _count(n: int, word: str) -> str:
    return f"{n} {word}{'' if n == 1 else 's'}"


def _drop_unused_names(codes: IntArray, names: Array) -> tuple[IntArray, Array]:
    """Codes and names without the names that do not occur."""
    if len(codes) < len(names):
        # Few rows of many domains: do not go through the names of all.
        present, place = np.unique(codes, return_inverse=True)
        return place, names[present]
    used = np.bincount(codes, minlength=len(names)) > 0
    return (np.cumsum(used) - 1)[codes], names[used]


def _encode(values: ArrayLike, *, n_rows: int, name: str) -> tuple[IntArray, Array]:
    """Codes and names of domains or groups; names that are strings are Python objects.

    An array of numpy's string dtype would pad the name of every row to the longest.
    """
    codes, names = check_domains(values, n_rows=n_rows, needed_by="CalibrationData", name=name)
    if names.dtype.kind in "iu":
        return codes, names
    texts = [str(text) for text in names]
    check_names(texts, name)
    return codes, np.array(texts, dtype=object)


def _check_feature_names(names: Any, features: Array | None) -> tuple[str, ...]:
    if features is None:
        raise InputError("feature_names are given, but no features; pass features=... as well.")
    n_columns = features.shape[1]
    return check_column_names(
        names, "feature_names", n_columns=n_columns, owner=f"the features have {n_columns} columns"
    )


def _check_provenance(provenance: Any) -> dict[str, Any]:
    try:
        # After the round trip, the values are those that a file would return.
        return dict(json.loads(json.dumps(dict(provenance), allow_nan=False)))
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"provenance must be a mapping of values that JSON supports ({error}); pass strings, "
            "numbers, lists and mappings."
        ) from error

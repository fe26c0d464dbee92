"""Rows of Dask arrays and data frames, which stay on the workers of the cluster."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from domaincal._optional import require
from domaincal._row_arrays import CodedRows
from domaincal._typing import Array, IntArray
from domaincal._wording import few
from domaincal.data import BlockedRows, CalibrationData
from domaincal.data.column_choice import Columns
from domaincal.distributed.cluster_parts import ClusterParts, ClusterRows, Part, part_of
from domaincal.distributed.cluster_rows import check_client, check_versions, token
from domaincal.distributed.cluster_waiting import gather
from domaincal.errors import InputError

_CODED = ("domains", "groups")


def from_dask(
    data: Any,
    labels: Any = None,
    features: Any = None,
    domains: Any = None,
    groups: Any = None,
    *,
    client: Any = None,
    logits: Columns | None = None,
    probabilities: Columns | None = None,
    label: str | None = None,
    domain: str | None = None,
    group: str | None = None,
    class_names: Sequence[str] | None = None,
    floor: float | None = None,
) -> BlockedRows:
    """Rows of Dask arrays, or of a Dask data frame, that stay on the workers.

    The partitions are computed and kept in the memory of the workers. Calibrators are fitted to the
    rows, and predict and score them, as those of a store: sums come back from the workers.

    Parameters
    ----------
    data : dask array of shape (n, n_classes), or dask data frame
        Logits, or a table whose columns the parameters from ``logits`` on choose.
    labels, domains, groups : dask array of shape (n,), optional
        With an array of logits, see :class:`CalibrationData`.
    features : dask array of shape (n, n_features), optional
        With a data frame: names or patterns of columns.
    client : distributed.Client, optional
        By default the client that was created last.
    logits, probabilities, label, domain, group, floor
        Columns of a data frame, see :meth:`CalibrationData.from_frame`.
    class_names : sequence of str, optional
        Names of the classes in the order of the columns of the logits.

    Returns
    -------
    BlockedRows

    Examples
    --------
    >>> import dask.array as da, domaincal as dc
    >>> from domaincal import distributed
    >>> data, _ = dc.make_multi_domain(n_domains=3, n_rows=100, random_state=0)
    >>> with distributed.cluster_client(workers=2) as client:  # doctest: +SKIP
    ...     logits, labels = (da.from_array(a, chunks=100) for a in (data.logits, data.labels))
    ...     rows = distributed.from_dask(logits, labels, client=client)
    ...     calibrator = dc.TemperatureScaling().fit(rows)
    """
    arrays = {"labels": labels, "features": features, "domains": domains, "groups": groups}
    columns = {
        "logits": logits, "probabilities": probabilities, "label": label, "domain": domain,
        "group": group, "floor": floor,
    }  # fmt: skip
    client = check_client(client)
    dask_array = require("dask.array", extra="dask", purpose="from_dask")
    if isinstance(data, dask_array.Array):
        _refuse(columns, "names columns of a data frame, but data is an array of logits")
        given = {"logits": data, **{k: v for k, v in arrays.items() if v is not None}}
        blocks = _blocks_of_arrays(given, dask_array)
        options: dict[str, Any] = {"class_names": class_names}
        names = list(given)
    elif _is_data_frame(data):
        columns["features"] = arrays.pop("features")
        _refuse(arrays, "is an array, but data is a data frame; name the column instead")
        blocks, names = [[part] for part in data.to_delayed()], ["frame"]
        options = {k: v for k, v in columns.items() if v is not None}
        options["class_names"] = class_names
    else:
        raise InputError(
            f"data must be a dask array of logits or a dask data frame, got {type(data).__name__}; "
            "for rows in a file, use distributed.on_cluster."
        )
    return _placed(client, names, blocks, options)


def _is_data_frame(data: Any) -> bool:
    """Whether the data are a Dask data frame; whoever has one has imported the module."""
    module = sys.modules.get("dask.dataframe")
    return module is not None and isinstance(data, module.DataFrame)


def _refuse(arguments: dict[str, Any], reason: str) -> None:
    for name, value in arguments.items():
        if value is not None:
            raise InputError(f"{name}=... {reason}; leave it out.")


def _blocks_of_arrays(arrays: dict[str, Any], dask_array: Any) -> list[list[Any]]:
    """For each block of rows, the delayed blocks of all arrays."""
    rows = None
    found = []
    for name, array in arrays.items():
        if not isinstance(array, dask_array.Array):
            raise InputError(
                f"{name} must be a dask array like the logits, got {type(array).__name__}; "
                "convert it with dask.array.from_array(values, chunks=logits.chunks[0])."
            )
        expected = 2 if name in ("logits", "features") else 1
        if array.ndim != expected:
            raise InputError(f"{name} must have {expected} dimensions, got shape {array.shape}.")
        if expected == 2:
            array = array.rechunk({1: -1})
        if rows is None:
            rows = array.chunks[0]
        elif _known(rows) and _known(array.chunks[0]):
            if sum(array.chunks[0]) != sum(rows):
                raise InputError(
                    f"{name} has {sum(array.chunks[0])} rows, but the logits have {sum(rows)}; "
                    "pass one entry for each row."
                )
            array = array.rechunk({0: rows})
        elif len(array.chunks[0]) != len(rows):
            raise InputError(
                f"{name} has {len(array.chunks[0])} blocks of rows, but the logits have "
                f"{len(rows)}, of unknown lengths; call compute_chunk_sizes() on both."
            )
        found.append(array.to_delayed().ravel().tolist())
    return [list(block) for block in zip(*found, strict=True)]


def _known(chunks: Sequence[float]) -> bool:
    return not np.isnan(chunks).any()


@dataclass(frozen=True, eq=False)
class _Facts:
    """What the client must know of a partition."""

    version: str
    n_rows: int
    arrays: dict[str, tuple[tuple[int, ...], np.dtype[Any]]]
    names: dict[str, Array]
    class_names: tuple[str, ...] | None
    feature_names: tuple[str, ...] | None


def _placed(
    client: Any, names: list[str], blocks: list[list[Any]], options: dict[str, Any]
) -> BlockedRows:
    """Rows of checked partitions, each of which stays on its worker."""
    checked = [
        client.submit(
            _check_partition, k, names, options, *of_block, key=f"partition-{token()}"
        )
        for k, of_block in enumerate(_computed(client, blocks))
    ]  # fmt: skip
    described = client.map(_describe, checked, key="describe", pure=False)
    kept = [
        (block, facts)
        for block, facts in zip(checked, gather(client, described), strict=True)
        if facts is not None
    ]
    if not kept:
        raise InputError("data has no rows; pass a Dask collection with at least one row.")
    check_versions({facts.version for _, facts in kept})
    arrays = _same_arrays([facts for _, facts in kept])
    coded = {
        name: _merged_names([facts.names[name] for _, facts in kept], name)
        for name in _CODED
        if name in arrays
    }
    starts = [0, *accumulate(facts.n_rows for _, facts in kept)]
    parts = [
        client.submit(
            _place, block, range(start, stop), starts[-1],
            {name: dtype for name, (_, dtype) in arrays.items()},
            {name: np.searchsorted(all_names, facts.names[name])
             for name, all_names in coded.items()},
            key=f"part-{token()}",
        )
        for (block, facts), (start, stop) in zip(kept, pairwise(starts), strict=True)
    ]  # fmt: skip
    places = ClusterParts(client, parts, starts)
    found: dict[str, Any] = {
        name: ClusterRows(name, (starts[-1], *shape), dtype, places)
        for name, (shape, dtype) in arrays.items()
    }
    found |= {name: CodedRows(found[name], all_names) for name, all_names in coded.items()}
    first = kept[0][1]
    return BlockedRows(**found, class_names=first.class_names, feature_names=first.feature_names)


def _computed(client: Any, blocks: list[list[Any]]) -> list[list[Any]]:
    """Futures of the delayed blocks, in one graph: what they share is computed once."""
    futures = client.compute([one for block in blocks for one in block])
    width = len(blocks[0])
    return [futures[k : k + width] for k in range(0, len(futures), width)]


def _check_partition(
    number: int, names: list[str], options: dict[str, Any], *values: Any
) -> CalibrationData | None:
    """Task: the rows of a partition; None without rows."""
    if not len(values[0]):
        return None
    try:
        if names == ["frame"]:
            return CalibrationData.from_frame(values[0], **options)
        return CalibrationData(**dict(zip(names, values, strict=True)), **options)
    except InputError as error:
        raise InputError(f"partition {number} of the Dask collection: {error}") from error


def _describe(rows: CalibrationData | None) -> _Facts | None:
    """Task: facts of the rows."""
    from domaincal._version import __version__

    if rows is None:
        return None
    given = {"logits": rows.logits, "labels": rows.labels, "features": rows.features}
    arrays = {k: (v.shape[1:], v.dtype) for k, v in given.items() if v is not None}
    names = {}
    for name, codes in (("domains", rows.domain_codes), ("groups", rows.group_codes)):
        if getattr(rows, name) is not None:
            names[name] = codes[1]
            arrays[name] = ((), np.dtype(np.int64))
    return _Facts(__version__, len(rows), arrays, names, rows.class_names, rows.feature_names)


def _same_arrays(
    facts: list[_Facts],
) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
    """Shape of a row and dtype of each array, which all partitions must have."""
    found = facts[0].arrays
    for number, one in enumerate(facts):
        if one.arrays.keys() != found.keys():
            name = sorted(one.arrays.keys() ^ found.keys())[0]
            raise InputError(
                f"some partitions have {name} and others have none (the first that differs is "
                f"number {number}, without empty ones); fill the missing values, or drop the rows."
            )
        for name, (shape, _) in one.arrays.items():
            if shape != found[name][0]:
                raise InputError(
                    f"{name} has rows of the shapes {found[name][0]} and {shape}; pass the same "
                    "columns in all partitions."
                )
        for names, others, columns in (
            (one.class_names, facts[0].class_names, "classes"),
            (one.feature_names, facts[0].feature_names, "features"),
        ):
            if names != others:
                raise InputError(
                    f"the {columns} of the first partition are {_shown(others)}, and those of "
                    f"number {number} (without empty ones) {_shown(names)}; pass the same "
                    "columns in the same order in all partitions, such as frame[columns]."
                )
    return {
        name: (shape, np.result_type(*(one.arrays[name][1] for one in facts)))
        for name, (shape, _) in found.items()
    }


def _shown(names: tuple[str, ...] | None) -> str:
    return "without names" if names is None else few(names)


def _merged_names(listed: list[Array], name: str) -> Array:
    """Sorted names of all partitions."""
    if len({names.dtype.kind == "O" for names in listed}) > 1:
        raise InputError(
            f"{name} are integers in some partitions and strings in others; convert them to one."
        )
    return np.unique(np.concatenate(listed))


def _place(
    rows: CalibrationData,
    numbers: range,
    n_rows: int,
    dtypes: dict[str, np.dtype[Any]],
    codes: dict[str, IntArray],
) -> Part:
    """Task: the part with the rows of a partition."""
    found: dict[str, Array] = {}
    for name, dtype in dtypes.items():
        if name in codes:
            own = rows.domain_codes if name == "domains" else rows.group_codes
            found[name] = codes[name][own[0]]
        else:
            found[name] = getattr(rows, name).astype(dtype, copy=False)
    return part_of(found, numbers.start, numbers, n_rows)

"""Attacks on tables: csv, csv.gz and parquet files."""

import functools
import gzip
import io
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import domaincal as dc
from fuzzing.damage import altered, damaged, deflate_bomb, json_text, name, number
from fuzzing.rows import file_target, written
from fuzzing.target import Target, check_names, replace_by_other_kind, require


def _craft_csv(rng: random.Random) -> bytes:
    """Cells, columns and rows that a table should not have."""
    if rng.random() < 0.004:
        return _wide_table(*rng.choice(((100_000, 100_000), (3, 3_000_000), (20_000, 20_000))))
    lines = [line.split(",") for line in written(".csv")["rows.csv"].decode().splitlines()]
    for _ in range(rng.choice((1, 1, 2, 4))):
        line = rng.choice((lines[0], rng.choice(lines), rng.choice(lines)))
        action = rng.randrange(7)
        at = rng.randrange(len(line)) if line else 0
        if action == 0:
            line.insert(at, name(rng))
        elif action == 1 and line:
            del line[at]
        elif action == 2:
            lines = [[*cells, name(rng)] for cells in lines]
        elif action == 3:
            lines.insert(rng.randrange(len(lines)), [name(rng)] * rng.choice((0, 1, 5, 50)))
        elif action == 4 and line:
            line[at] = f'"{line[at]}' + rng.choice(("", '"', '"x', '""'))
        elif line:
            line[at] = rng.choice((name(rng), str(number(rng)), "9" * 5000, "1_0", " 1", "0x1"))
    text = rng.choice(("\n", "\n", "\r\n", "\r")).join(",".join(cells) for cells in lines)
    code = rng.choice(("utf-8", "utf-8", "utf-8", "utf-8-sig", "utf-16", "latin1"))
    return text.encode(code, "surrogatepass" if code == "utf-8" else "replace")


@functools.cache
def _wide_table(n_columns: int, n_rows: int) -> bytes:
    """A header of many columns over many rows of one cell: pandas would fill in the others."""
    columns = ["label", "domain", *(f"logit_{k}" for k in range(n_columns))]
    return (",".join(columns) + "\n" + "0\n" * n_rows).encode()


def _make_table(rng: random.Random, folder: Path) -> Path:
    """A table for read_domain_table."""
    suffix = rng.choice((".csv", ".csv.gz", ".csv.gz", ".parquet"))
    path = folder / f"table{suffix}"
    content = _craft_csv(rng) if rng.random() < 0.5 else damaged(rng, written(".csv")["rows.csv"])
    if rng.random() < 0.01:
        replace_by_other_kind(rng, path)
    elif suffix == ".parquet":
        path.write_bytes(_craft_parquet(rng))
    elif suffix == ".csv":
        path.write_bytes(content)
    elif rng.random() < 0.02:
        path.write_bytes(_gzip_bomb(rng.choice((300, 3000))))
    else:
        packed = gzip.compress(content, 1, mtime=0)
        path.write_bytes(damaged(rng, packed) if rng.random() < 0.5 else packed)
    return path


def _gzip_bomb(megabytes: int) -> bytes:
    return b"\x1f\x8b\x08\0\0\0\0\0\0\3" + deflate_bomb(megabytes) + bytes(8)


def _check_table(path: Path) -> None:
    table = dc.datasets.read_domain_table(path, label="label", domain="domain", exclude=["group"])
    n, n_classes = len(table), len(table.class_names)
    require(table.features.shape == (n, len(table.feature_names)), "features of another shape")
    require(np.isfinite(table.features).all(), "features are not finite")
    require(np.array_equal(np.unique(table.labels), np.arange(n_classes)), "labels out of range")
    require(len(table.domains) == n, "domains of another length")
    for array in ("class_names", "feature_names", "domains"):
        check_names(np.asarray(getattr(table, array), object).tolist() or [""], array)


# parquet


def _craft_parquet(rng: random.Random) -> bytes:
    """Columns of other types, hostile metadata, many rows in few bytes."""
    if rng.random() < 0.01:
        return _many_rows(rng.choice((10**6, 10**7)), rng.choice((1, 150, 2000)))
    table = pq.read_table(io.BytesIO(written(".parquet")["rows.parquet"]))
    if rng.random() < 0.6:
        at = rng.randrange(table.num_columns)
        column = _hostile_column(rng, table.column(at), table.num_rows)
        if rng.random() < 0.8:
            table = table.set_column(at, rng.choice((table.column_names[at], _text(rng))), column)
        else:
            table = table.append_column(_text(rng), column)
    if rng.random() < 0.5:
        stored = json.loads(table.schema.metadata[b"domaincal"])
        content = json_text(altered(rng, stored)).encode("utf-8", "replace")
        table = table.replace_schema_metadata({b"domaincal": content})
    if rng.random() < 0.1:
        table = table.slice(0, rng.choice((0, 1)))
    file = io.BytesIO()
    codec = rng.choice(("none", "snappy", "gzip", "zstd"))
    try:
        pq.write_table(table, file, compression=codec, use_dictionary=rng.random() < 0.5)
    except (pa.ArrowException, NotImplementedError):  # the type of a column cannot be written
        return damaged(rng, written(".parquet")["rows.parquet"])
    return damaged(rng, file.getvalue()) if rng.random() < 0.3 else file.getvalue()


def _text(rng: random.Random) -> str:
    return name(rng).encode("utf-8", "replace").decode()


def _hostile_column(rng: random.Random, column: Any, n: int) -> Any:
    kind = rng.randrange(9)
    if kind == 0:
        return pa.nulls(n)
    if kind == 1:
        return pa.array(
            [_text(rng) for _ in range(n)], rng.choice((pa.string(), pa.large_string()))
        )
    if kind == 2:
        return pa.array([[1.0]] * n)
    if kind == 3:
        return pa.array([{"a": 1}] * n)
    if kind == 4:
        return pa.array(np.zeros(n), rng.choice((pa.float16(), pa.float32(), pa.float64())))
    if kind == 5:
        types = (pa.timestamp("s"), pa.duration("s"), pa.date64(), pa.time64("us"), pa.uint64())
        return pa.array([rng.choice((None, 1, 2**40)) for _ in range(n)], pa.int64()).cast(
            rng.choice(types)
        )
    if kind == 6:
        return pa.array([_text(rng) for _ in range(n)]).dictionary_encode()
    if kind == 7:
        return pa.array([rng.choice((b"\xff", b"day", b"")) for _ in range(n)])
    values = [float(number(rng)) for _ in range(n)]
    return pa.array([rng.choice((None, v)) for v in values], pa.float64())


@functools.cache
def _many_rows(n: int, length: int) -> bytes:
    """One name and one number in so many rows, a few kB."""
    table = pa.table({
        "domain": pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, np.int32)), ["x" * length]),
        "logit_0": np.zeros(n, np.float32), "logit_1": np.zeros(n, np.float32),
    })  # fmt: skip
    file = io.BytesIO()
    pq.write_table(table, file, compression="zstd")
    return file.getvalue()


TARGETS = (
    file_target(".csv", lambda: written(".csv")["rows.csv"], _craft_csv),
    file_target(
        ".csv.gz",
        lambda: written(".csv.gz")["rows.csv.gz"],
        lambda rng: gzip.compress(_craft_csv(rng), 1, mtime=0),
        share=0.5,
    ),
    Target("domain-table", _make_table, _check_table),
    file_target(
        ".parquet", lambda: written(".parquet")["rows.parquet"], _craft_parquet, has_checksum=True
    ),
)

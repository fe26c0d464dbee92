"""A small table does not name its cost: .csv, .csv.gz and .parquet files made to take memory."""

import gzip
import json
import os
import struct
import subprocess
import sys

import numpy as np
import pytest

import domaincal as dc
from crafted_parquet import (
    BYTE_ARRAY,
    DOUBLE,
    RLE_DICTIONARY,
    ZSTD,
    data_page,
    dictionary_page,
    parquet_file,
    varint,
    zeros_by_zstd,
)
from domaincal._memory import MemoryLimit
from domaincal.io import parquet_pages
from domaincal.io.formats import read_rows

# Reads files, and prints for each the message, the largest estimate and the MB that it took.
_READ = """
import json, sys
import numpy as np, pandas as pd
import domaincal as dc
from domaincal._memory import MemoryLimit
from domaincal.datasets import read_domain_table
from domaincal.io.formats import read_rows

def peak(kind):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) / 1e3 for line in file if line.startswith(kind))

limited, good, *paths = sys.argv[1:]
estimates = []
require = MemoryLimit.require
def note(self, needed, *others):
    estimates.append(needed / 1e6)
    if limited == "limited":
        require(self, needed, *others)
MemoryLimit.require = note
def read(path):
    if ".csv.gz" in path or "domain_table" in path:
        return read_domain_table(path, label="label", domain="domain", features=["logit_0"])
    if "kept" in path:
        return read_rows(path, keep="all")
    return dc.read(path)
read(good)
before, found = peak("VmRSS"), {}
for path in paths:
    estimates.clear()
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    try:
        text = repr(read(path))
    except dc.DomaincalError as error:
        text = str(error)
    found[path] = text, max(estimates, default=0), peak("VmHWM") - before
print(json.dumps(found))
"""

needs_proc = pytest.mark.skipif(
    not os.access("/proc/self/clear_refs", os.W_OK), reason="needs Linux to measure memory"
)


def _read_in_a_process(folder, files, *, limited=True):
    """Message, estimate and memory (in MB) of reading each file."""
    paths = {name: folder / f"{k}-{name}" for k, name in enumerate(files)}
    for name, content in files.items():
        os.mkfifo(paths[name]) if content is None else paths[name].write_bytes(content)
    is_parquet = next(iter(files)).endswith(".parquet")
    good = folder / ("good.parquet" if is_parquet else "good.csv")
    dc.write(dc.CalibrationData(np.eye(2), domains=["a", "b"]), good)
    done = subprocess.run(
        [sys.executable, "-c", _READ, "limited" if limited else "free", good, *paths.values()],
        capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    return {name: (path, *found[str(path)]) for name, path in paths.items()}


def _columns(n, prefix="logit_"):
    return ",".join(f"{prefix}{k}" for k in range(n))


def _zipped(text, times):
    """A gzip file that repeats a text, of which every member has 32 MB."""
    member = gzip.compress(text * (2**25 // len(text)), 9, mtime=0)
    return member * times


CSV_BOMBS = {
    "short rows.csv": _columns(3000).encode() + b"\n" + b"1\n" * 100_000,
    "short rows of ignored cells.csv": (
        f"logit_0,logit_1,{_columns(9000, 'x')}\n".encode() + b"1\n" * 50_000
    ),
    "a wide first row.csv": b"logit_0,logit_1\n" + b"1" + b"," * 200_000 + b"\n" + b"1\n" * 50_000,
    "many columns.csv": b"logit_0,logit_1" + b",a" * 2_000_000 + b"\n1,2\n",
    "many empty names.csv": b"," * 3_000_000 + b"\n",
    "old Macintosh lines.csv": _columns(3000).encode() + b"\r" + b"1\r" * 100_000,
    "rows.csv.gz": gzip.compress(b"label,domain,logit_0\n") + _zipped(b"1,a,2\n", 64),
    "one line.csv.gz": gzip.compress(b"label,domain,logit_0\n1,a,") + _zipped(b"2", 64),
    "a header.csv.gz": gzip.compress(b"label,domain,logit_0") + _zipped(b",", 64),
    "short rows of a domain_table.csv": (
        b"label,domain," + _columns(3000).encode() + b"\n" + b"1\n" * 100_000
    ),
    "a pipe in place of a domain_table.csv": None,
}  # fmt: skip


@needs_proc
def test_small_csv_files_do_not_name_their_cost(tmp_path):
    """Each would take more than 1 GB, up to 26 GB."""
    for name, (path, text, _, taken) in _read_in_a_process(tmp_path, CSV_BOMBS).items():
        other = {"a wide": "more cells than its header", "a pipe": "is not a regular file"}
        assert str(path) in text
        assert other.get(name[:6], "max_memory") in text, (name, text)
        assert taken < 120, name


def _numbers(name, n_rows=2, **changes):
    pages = [data_page(struct.pack("<d", 1.5) * n_rows, n_rows)]
    return {"name": name, "type": DOUBLE, "pages": pages, **changes}


def _names(repeats=2, n_names=1, **changes):
    pages = [
        dictionary_page(struct.pack("<I", 1) + b"a", n_names),
        data_page(b"\1" + varint(repeats << 1) + b"\0", repeats, encoding=RLE_DICTIONARY),
    ]
    return {"name": "domain", "type": BYTE_ARRAY, "pages": pages, **changes}


def _crafted(*columns, n_rows=2, **changes):
    return parquet_file([_numbers("logit_0"), _numbers("logit_1"), *columns], n_rows, **changes)


_LARGE = 1 << 31
_UNPACKED = data_page(zeros_by_zstd(_LARGE - (1 << 17)), 2, n_bytes=_LARGE - (1 << 17))
PARQUET_BOMBS = {
    # The footer says one thing, the pages another.
    "values.parquet": (_crafted(_names(10**9, n_values=10**9)), "values in 2 rows"),
    "a page.parquet": (
        _crafted(_numbers("logit_2", codec=ZSTD, pages=[_UNPACKED])), "more than 268.4 MB",
    ),
    "a page of names.parquet": (_crafted(_names(codec=ZSTD, pages=[_UNPACKED])), "more than 268.4"),
    "a dictionary.parquet": (_crafted(_names(n_names=2**31 - 1)), "more than 268.4 MB"),
    "groups.parquet": (_crafted(_names(), group_rows=[10**9, 2 - 10**9]), "row groups do not"),
    "a codec.parquet": (_crafted(_names(codec=99)), "cannot be read"),
    "many columns.parquet": (_crafted(n_hollow=200_000), "more than 268.4 MB"),
    # One value in each of 1e9 rows, in some bytes.
    "rows.parquet": (_crafted(_names(10**9), n_rows=10**9), "more than 268.4 MB"),
}  # fmt: skip


@needs_proc
def test_small_parquet_files_do_not_name_their_cost(tmp_path):
    pytest.importorskip("pyarrow")
    files = {name: content for name, (content, _) in PARQUET_BOMBS.items()}
    files["good rows.parquet"] = _crafted(_names())
    found = _read_in_a_process(tmp_path, files)
    assert found.pop("good rows.parquet")[1].startswith("CalibrationData(2 rows, 2 classes")
    for name, (path, text, _, taken) in found.items():
        assert str(path) in text
        assert PARQUET_BOMBS[name][1] in text, (name, text)
        assert path.stat().st_size < 10**6
        assert taken < 120, name


def test_one_name_in_many_rows_takes_memory_once(tmp_path):
    """Of the issue: 258 kB took 11.7 GB, as 1e7 rows with a domain of 150 characters."""
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    codes = pa.array(np.zeros(10**7, "i4"))
    zeros = pa.array(np.zeros(10**7, "f4"))
    names = pa.DictionaryArray.from_arrays(codes, ["x" * 150])
    table = pa.table({"logit_0": zeros, "logit_1": zeros, "domain": names})
    parquet.write_table(table, tmp_path / "scores.parquet")
    with pytest.raises(dc.errors.FileFormatError, match=r"more than 268\.4 MB.*max_memory"):
        dc.read(tmp_path / "scores.parquet")
    parquet.write_table(table.slice(0, 10**6), tmp_path / "scores.parquet")
    domains = dc.read(tmp_path / "scores.parquet").domains
    assert domains.dtype == object
    assert len({id(name) for name in domains.tolist()}) == 1


def _csv(header, rows):
    return (header + "\n" + "\n".join(rows) + "\n").encode()


def _parquet(folder, columns, **options):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pa.table(columns), folder / "made.parquet", **options)
    return (folder / "made.parquet").read_bytes()


@needs_proc
def test_the_estimate_for_a_table_is_not_below_the_memory_that_it_takes(tmp_path):
    """Measured by the system: neither pandas nor pyarrow tells Python what they allocate."""
    n = 60_000
    names = [f"patient-{k}" for k in range(n)]
    smiles = [f"1,2,\U0001f600{'x' * 400}{k}" for k in range(n // 5)]
    z = np.random.default_rng(0).normal(size=(n, 4))
    csv = {
        "commas.csv": _csv("logit_0,logit_1", ["1,2", "," * 10**7]),
        "numbers.csv": _csv(_columns(4), [",".join(map(str, row)) for row in z[: n // 4].round(4)]),
        "names.csv": _csv("logit_0,logit_1,group", [f"1,2,{name}" for name in names]),
        "emojis.csv": _csv("logit_0,logit_1,x", smiles),
        "short rows.csv": _csv(_columns(300), ["1"] * (n // 20)),
        "columns.csv": _csv(_columns(5000), [",".join("1" * 5000)]),
        "a long cell.csv": _csv("logit_0,logit_1,x", ["1,2,", "1,2," + "x" * 10**7]),
        # Features are read as numbers and as texts.
        "kept.csv": _csv(
            f"logit_0,logit_1,{_columns(4, 'feature_')},note",
            [f"1,2,{a:.3f},{b:.4f},{c:.5f},{d:.6f},note {a}" for a, b, c, d in z[: n // 2]],
        ),
    }  # fmt: skip
    columns = {"logit_0": z[:, 0], "logit_1": z[:, 1]}
    features = {f"feature_{k}": z[:, k] for k in range(4)}
    parquet = {
        "packed.parquet": _parquet(
            tmp_path, {f"logit_{k}": np.zeros(10 * n) for k in range(8)}, compression="zstd"
        ),
        "names.parquet": _parquet(tmp_path, {**columns, "group": names}, use_dictionary=False),
        "kept.parquet": _parquet(
            tmp_path, {**columns, **features, "a": names, "b": names}, use_dictionary=False
        ),
        "columns.parquet": _parquet(tmp_path, {f"logit_{k}": [1.0] for k in range(5000)}),
    }
    found = {
        **_read_in_a_process(tmp_path, csv, limited=False),
        **_read_in_a_process(tmp_path, parquet, limited=False),
    }
    for name, (_, _, estimate, taken) in found.items():
        # What an earlier file took and the process keeps counts too.
        assert taken < estimate + 50, name
        assert estimate < 8 * taken + 50, name


@pytest.mark.parametrize("name", ["scores.csv", "scores.parquet"])
def test_kept_columns_count_in_the_estimate(tmp_path, monkeypatch, name):
    if name.endswith(".parquet"):
        pytest.importorskip("pyarrow")
    x = np.random.default_rng(0).normal(size=(1000, 8))
    dc.write(dc.CalibrationData(x[:, :2], features=x), tmp_path / name)
    needed = []
    monkeypatch.setattr(MemoryLimit, "require", lambda self, n, *_: needed.append(n))
    largest = {}
    for keep in ("none", "all"):
        needed.clear()
        raw, _ = read_rows(tmp_path / name, keep=keep)
        largest[keep] = needed.copy()
    kept = raw.kept.memory_usage(index=False, deep=True).sum()
    assert max(largest["all"]) >= max(largest["none"]) + kept
    # Also after reading, for the checks of the rows.
    assert largest["all"][-1] == largest["none"][-1] + kept


def test_max_memory_of_a_domain_table(tmp_path):
    path = tmp_path / "walks.csv.gz"
    rows = b"who,what,x\n" + b"a,walk,1\n" * 10_000
    path.write_bytes(gzip.compress(rows))
    arguments = {"label": "what", "domain": "who"}
    assert len(dc.datasets.read_domain_table(path, **arguments)) == 10_000
    with pytest.raises(dc.errors.FileFormatError, match=r"more than 100\.0 kB.*max_memory"):
        dc.datasets.read_domain_table(path, **arguments, max_memory="100 kB")


def test_pages_are_those_that_pyarrow_wrote(tmp_path):
    pytest.importorskip("pyarrow")
    n = 50_000
    names = [f"{'long' * 400} {k % 1000}" for k in range(n)]
    _parquet(tmp_path, {"x": np.arange(n), "name": names}, row_group_size=20_000)
    import pyarrow.parquet as parquet

    footer = parquet.ParquetFile(tmp_path / "made.parquet").metadata
    with open(tmp_path / "made.parquet", "rb") as file:
        groups = parquet_pages.read_footer(file, MemoryLimit.of(tmp_path / "made.parquet"))
        assert [group.n_rows for group in groups] == [20_000, 20_000, 10_000]
        for k, group in enumerate(groups):
            for j, chunk in enumerate(group.chunks):
                expected = footer.row_group(k).column(j)
                assert chunk.length == expected.total_compressed_size
                assert chunk.n_values == group.n_rows
                pages = list(parquet_pages.read_pages(file, chunk))
                assert sum(page.n_values for page in pages if page.type == 0) == group.n_rows
                unpacked = sum(page.n_bytes for page in pages)
                # The footer counts the headers of the pages too.
                assert unpacked < expected.total_uncompressed_size < unpacked + 20_000 * len(pages)

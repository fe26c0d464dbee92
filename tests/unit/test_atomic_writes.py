"""Atomic writes: after an error, a kill or a full disk there is the old file or the new one."""

import errno
import hashlib
import os
import random
import resource
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock

import domaincal as dc
import kill_writers
from domaincal import _files
from domaincal._files import atomic_file, atomic_folder, replacing_folder
from domaincal._tensor_files import read_tensors, write_tensors
from domaincal.io import store as store_module

DATA, _ = dc.make_multi_domain(3, 200, 10, 4, random_state=0)
LARGER, _ = dc.make_multi_domain(3, 300, 10, 4, random_state=1)


def _names(folder):
    return sorted(p.name for p in folder.iterdir())


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def interrupted():
        with atomic_file(path) as file:
            file.write(b"half of the new")
            raise KeyboardInterrupt

    def failed():
        with atomic_folder(tmp_path / "new") as folder:
            (folder / "part").write_bytes(b"half")
            raise RuntimeError

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    with pytest.raises(RuntimeError):
        failed()
    assert path.read_bytes() == b"old"
    assert _names(tmp_path) == ["file"]


def test_the_new_file_appears_only_at_the_end(tmp_path):
    path = tmp_path / "file"
    with atomic_file(path) as file:
        file.write(b"new")
        file.flush()
        assert not path.exists()
    assert path.read_bytes() == b"new"
    with atomic_folder(tmp_path / "folder") as folder:
        (folder / "part").write_bytes(b"new")
        assert not (tmp_path / "folder").exists()
    assert _names(tmp_path) == ["file", "folder"]


def test_bytes_reach_the_disk_before_the_name_changes(tmp_path, monkeypatch):
    events = []
    sync, move = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (events.append("fsync"), sync(handle)))
    monkeypatch.setattr(os, "replace", lambda *names: (events.append("replace"), move(*names)))
    with atomic_file(tmp_path / "file") as file:
        file.write(b"new")
    assert events == ["fsync", "replace", "fsync"]


def test_leftovers_of_killed_writers_are_removed_and_those_of_living_ones_stay(tmp_path):
    path = tmp_path / "file"
    with atomic_file(path) as file:
        file.write(b"1")
        living = _names(tmp_path)
        lock, temporary = living
        (tmp_path / lock.replace(".lock", "dead.lock")).touch()
        (tmp_path / temporary.replace(".tmp", "dead.tmp")).write_bytes(b"of a killed writer")
        (tmp_path / lock.replace(".lock", "folder.lock")).touch()
        (tmp_path / temporary.replace(".tmp", "folder.tmp")).mkdir()
        with atomic_file(path) as other:
            other.write(b"2")
        assert _names(tmp_path) == [*living, "file"]
    assert path.read_bytes() == b"1"
    assert _names(tmp_path) == ["file"]


_WRITE = """
import sys
from domaincal._files import atomic_folder
with atomic_folder(sys.argv[1]) as folder:
    (folder / "part").write_bytes(b"1")
    print("ready", flush=True)
    sys.stdin.read()
"""


def test_another_process_keeps_its_temporary_folder_until_it_is_killed(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", _WRITE, str(tmp_path / "new")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as writer:  # fmt: skip
        assert writer.stdout.readline() == b"ready\n"
        living = _names(tmp_path)
        assert len(living) == 2
        with atomic_folder(tmp_path / "new"):
            pass
        assert _names(tmp_path) == [*living, "new"]
        writer.kill()
    (tmp_path / "new").rmdir()
    with atomic_folder(tmp_path / "new"):
        pass
    assert _names(tmp_path) == ["new"]


@pytest.mark.parametrize("method", ["append", "write"])
def test_the_lock_of_a_process_that_was_killed_after_it_created_a_store_is_removed(
    tmp_path, monkeypatch, method
):
    data, _ = dc.make_multi_domain(2, 20)
    with monkeypatch.context() as patched:
        patched.setattr(_files, "remove", lambda path: None)
        dc.write(data, tmp_path / "scores")
    assert len(_names(tmp_path)) == 2
    getattr(dc.Store(tmp_path / "scores"), method)(data)
    assert _names(tmp_path) == ["scores"]


def test_permissions_are_those_of_a_new_file_or_of_the_replaced_one(tmp_path):
    path = tmp_path / "file"
    with atomic_file(path) as file:
        file.write(b"1")
    (tmp_path / "plain").write_bytes(b"")
    assert path.stat().st_mode == (tmp_path / "plain").stat().st_mode
    path.chmod(0o640)
    with atomic_file(path) as file:
        file.write(b"2")
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_folder_that_another_writer_creates_in_the_last_moment_is_replaced(tmp_path, monkeypatch):
    path, rename = tmp_path / "scores.zarr", os.rename

    def late(source, target):
        path.mkdir(exist_ok=True)
        (path / "zarr.json").write_text("other")
        rename(source, target)

    monkeypatch.setattr(os, "rename", late)
    with replacing_folder(path) as folder:
        (folder / "zarr.json").write_text("own")
    assert (path / "zarr.json").read_text() == "own"
    assert _names(tmp_path) == [path.name]


def test_links_are_followed_and_devices_refused(tmp_path):
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with atomic_file(tmp_path / "link") as file:
        file.write(b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"
    for path, what in ((os.devnull, "not a regular file"), (tmp_path, "a folder")):
        with pytest.raises(dc.errors.InputError, match=f"is {what}"), atomic_file(path):
            pass


_WITH_PIPES = """
import hashlib, os, sys
from pathlib import Path
import domaincal as dc
rows = dc.read(sys.argv[1])
folder = Path(sys.argv[1]).parent

def says(use, *arguments):
    try:
        print(use(*arguments))
    except dc.errors.DomaincalError as error:
        print(type(error).__name__, str(error).replace(str(folder), ""))

def pipe(path):
    path.unlink(missing_ok=True)
    os.mkfifo(path)

stem = ".domaincal-" + hashlib.sha256(b"new.npz").hexdigest()[:12]
for suffix in (".lock", ".tmp"):
    pipe(folder / (stem + "-000000000000" + suffix))
says(dc.write, rows, folder / "new.npz")
pipe(folder / "pipe.npz")
says(dc.write, rows, folder / "pipe.npz")
pipe(folder / "pipe")
says(dc.Store(folder / "pipe").append, rows)
for name in (".lock", "meta.json", "part-00000/shard.json", "part-00000/logits.npy"):
    store = dc.Store(folder / name.replace("/", "-").strip("."))
    store.append(rows)
    store.append(rows)
    pipe(store.path / name)
    for use in (store.read, store.check, store.verify, store.labels, store.__len__):
        says(use)
    says(store.append, rows)
    says(store.write, rows)
"""


def test_pipes_in_place_of_files_never_wait(tmp_path):
    dc.write(dc.CalibrationData([[1.0, 2.0]], labels=[1]), tmp_path / "rows.npz")
    printed = subprocess.run(
        [sys.executable, "-c", _WITH_PIPES, tmp_path / "rows.npz"],
        check=True, capture_output=True, text=True, timeout=60,
    ).stdout.splitlines()  # fmt: skip
    assert printed[0] == "None"
    assert printed[1].startswith("InputError /pipe.npz is not a regular file")
    assert printed[2].startswith("FileFormatError /pipe/meta.json is missing")
    lock, meta, shard, logits = (printed[k : k + 7] for k in range(3, 31, 7))
    assert lock[2:5] == ["None", "[1 1]", "2"]
    assert (
        lock[5:]
        == ["InputError /lock/.lock is not a regular file and cannot be locked; remove it."] * 2
    )
    assert all(line.startswith("FileFormatError /meta.json/meta.json is not a") for line in meta)
    assert all("/part-00000/shard.json is not a regular file" in line for line in shard[:4])
    assert all("/part-00000/logits.npy is not a regular file" in line for line in logits[:3])
    assert shard[4:] == ["2", "None", "None"]
    assert logits[3:] == ["[1 1]", "2", "None", "None"]


def test_links_in_place_of_locks_and_temporary_files_are_not_followed(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("dear")
    stem = f".domaincal-{hashlib.sha256(b'new.npz').hexdigest()[:12]}"
    (tmp_path / f"{stem}-a.lock").symlink_to(tmp_path / "mine" / "thesis.txt")
    (tmp_path / f"{stem}-b.lock").touch()
    (tmp_path / f"{stem}-b.tmp").symlink_to(tmp_path / "mine")
    dc.write(DATA, tmp_path / "new.npz")
    assert _names(tmp_path) == [f"{stem}-a.lock", "mine", "new.npz"]
    store = dc.Store(tmp_path / "s")
    store.write(DATA)
    (store.path / ".lock").symlink_to(tmp_path / "mine" / "thesis.txt")
    with pytest.raises(dc.errors.InputError, match=r"/\.lock is not a regular file"):
        store.append(DATA)
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "dear"


def test_a_file_name_of_maximal_length_can_be_written(tmp_path):
    path = tmp_path / ("x" * 251 + ".npz")
    dc.write(DATA, path)
    assert len(dc.read(path)) == len(DATA)


_WRITE_ALL = """
import os, sys, numpy as np, domaincal as dc
from domaincal._tensor_files import write_tensors
rows = dc.read(sys.argv[1])

def write(name):
    if name == "model.safetensors":
        write_tensors(name, {"a": np.zeros(9000)}, {})
    elif name == "appended":
        dc.Store(name).append(rows)
    else:
        dc.write(rows, name)

for name in sys.argv[3:]:
    dc.read(name) if name != "model.safetensors" else None  # imports what it needs
if sys.argv[2] == "read-only" and os.geteuid() == 0:
    os.setuid(65534)  # root may write everything
for name in sys.argv[3:]:
    try:
        write(name)
        print(name, "was written")
    except OSError as error:
        print(error.strerror, error.filename)
"""
_ALL_WRITERS = [
    "appended",
    "model.safetensors",
    "scores",
    "scores.csv",
    "scores.npz",
    "scores.parquet",
    "scores.zarr",
]
_EXTRAS = {".parquet": "pyarrow", ".zarr": "zarr"}


def _written_again(folder, mode, names, limit=resource.RLIM_INFINITY):
    """Errors of writers in another process; the files stay as they were."""
    done = subprocess.run(
        [sys.executable, "-c", _WRITE_ALL, "larger.npz", mode, *names],
        cwd=folder, capture_output=True, text=True, check=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )  # fmt: skip
    for name in names:
        if name == "model.safetensors":
            assert read_tensors(folder / name)[0]["a"].shape == (3,)
        else:
            found = dc.read(folder / name, verify=True)
            np.testing.assert_allclose(found.logits, DATA.logits, rtol=1e-6)
    return done.stdout.splitlines()


def _write_each(folder):
    """Names of files, one of each writer."""
    names = [name for name in _ALL_WRITERS if find_spec(_EXTRAS.get(Path(name).suffix, "numpy"))]
    for name in names:
        if name == "model.safetensors":
            write_tensors(folder / name, {"a": np.zeros(3)}, {})
        else:
            dc.write(DATA, folder / name)
    dc.write(LARGER, folder / "larger.npz")
    return names


def test_a_full_disk_leaves_the_old_state_and_its_error_names_the_path(tmp_path):
    names = _write_each(tmp_path)
    # The process may not write files of more than 20 kB, as on a full disk.
    printed = _written_again(tmp_path, "full", names, limit=20_000)
    assert printed == [f"File too large {name}" for name in names]
    assert _names(tmp_path) == sorted(["larger.npz", *names])
    for store in ("scores", "appended"):
        assert _names(tmp_path / store) == [".lock", "meta.json", "part-00000"]


def test_errors_of_a_read_only_folder_name_the_path():
    with tempfile.TemporaryDirectory() as folder:  # tmp_path is below a folder of one user
        root = Path(folder)
        names = _write_each(root)
        folders = (root, root / "scores", root / "appended")
        for path in folders:
            path.chmod(0o555)
        try:
            printed = _written_again(root, "read-only", names)
        finally:
            for path in folders:
                path.chmod(0o755)
    expected = [f"{name}/.lock" if name in ("scores", "appended") else name for name in names]
    assert [line.replace(f"{folder}/", "") for line in printed] == [
        f"Permission denied {name}" for name in expected
    ]


def test_a_write_that_fails_with_an_error_number_keeps_it(tmp_path, monkeypatch):
    def no_space(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    dc.write(DATA, tmp_path / "scores.npz")
    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(OSError, match="No space left"):
        dc.write(LARGER, tmp_path / "scores.npz")
    assert len(dc.read(tmp_path / "scores.npz")) == len(DATA)
    assert _names(tmp_path) == ["scores.npz"]


_APPEND = """
import os, sys, numpy as np, domaincal as dc
store = dc.Store(sys.argv[1])
for k in range(3):
    rows = dc.CalibrationData(np.full((10, 2), k, "f4"), domains=[f"worker-{k}"] * 10)
    if os.fork() == 0:
        for _ in range(8):
            store.append(rows)
        sys.exit()
sys.exit(any(os.wait()[1] for _ in range(3)))
"""


def test_appends_of_several_processes_are_all_there(tmp_path):
    subprocess.run([sys.executable, "-c", _APPEND, str(tmp_path / "s")], check=True)
    data = dc.Store(tmp_path / "s").read(verify=True)
    assert len(data) == 3 * 80
    for k in range(3):
        own = data.select(data.domains == f"worker-{k}")
        assert len(own) == 80
        assert (own.logits == k).all()


@pytest.mark.parametrize("verb", ["append", "write"])
def test_writers_of_a_store_wait_for_each_other(tmp_path, verb):
    store = dc.Store(tmp_path / "s")
    store.write(DATA)
    code = (
        "import sys, domaincal as dc\nrows = dc.read(sys.argv[1])\nprint('ready', flush=True)\n"
        f"dc.Store(sys.argv[1]).{verb}(rows)"
    )
    with FileLock(store.path / ".lock"):
        other = subprocess.Popen(
            [sys.executable, "-c", code, str(store.path)], stdout=subprocess.PIPE
        )
        assert other.stdout.readline() == b"ready\n"
        with pytest.raises(subprocess.TimeoutExpired):
            other.wait(0.7)
        assert _names(store.path) == [".lock", "meta.json", "part-00000"]
    assert other.wait() == 0
    other.stdout.close()
    assert len(store) == len(DATA) * (2 if verb == "append" else 1)


def test_the_lock_of_a_store_ends_with_a_killed_process(tmp_path):
    store = dc.Store(tmp_path / "s")
    store.write(DATA)
    code = (
        "import sys\nfrom filelock import FileLock\nFileLock(sys.argv[1]).acquire()\n"
        "print('ready', flush=True)\nsys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(store.path / ".lock")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as other:  # fmt: skip
        assert other.stdout.readline() == b"ready\n"
        other.kill()
    store.append(DATA)
    assert len(store) == 2 * len(DATA)


def test_an_append_at_a_row_of_a_missing_store_creates_nothing(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no store"):
        dc.Store(tmp_path / "s").append(DATA, at=5)
    assert _names(tmp_path) == []


def test_a_store_that_is_replaced_while_it_is_read_is_read_again(tmp_path, monkeypatch):
    store = dc.Store(tmp_path / "s")
    store.write(DATA)
    decoding = store_module.decoding

    def late(*arguments):
        """Called between meta.json and the shards, which are gone then."""
        monkeypatch.setattr(store_module, "decoding", decoding)
        dc.Store(tmp_path / "s").write(LARGER)
        return decoding(*arguments)

    monkeypatch.setattr(store_module, "decoding", late)
    assert len(store.read()) == len(LARGER)


@pytest.mark.parametrize("verb", ["append", "write"])
def test_rows_are_added_to_a_store_that_another_process_creates_first(tmp_path, verb, monkeypatch):
    store = dc.Store(tmp_path / "s")
    rename = os.rename

    def late(old, new):
        monkeypatch.setattr(os, "rename", rename)
        dc.Store(tmp_path / "s").write(LARGER)
        rename(old, new)

    monkeypatch.setattr(os, "rename", late)
    getattr(store, verb)(DATA)
    assert len(store) == len(DATA) + (len(LARGER) if verb == "append" else 0)
    assert _names(tmp_path) == ["s"]


def test_the_files_of_a_shard_are_synced_before_meta_json_counts_it(tmp_path, monkeypatch):
    store = dc.Store(tmp_path / "s")
    store.append(DATA)
    events = []
    sync, move = os.fsync, os.replace

    def remember(handle):
        events.append(os.readlink(f"/proc/self/fd/{handle}").rsplit("/", 1)[-1])
        return sync(handle)

    monkeypatch.setattr(os, "fsync", remember)
    monkeypatch.setattr(os, "replace", lambda *names: (events.append("replace"), move(*names)))
    store.append(DATA)
    arrays = ["logits.npy", "labels.npy", "features.npy", "domains.npy"]
    shard = [*arrays, "shard.json", "part-00001"]
    assert events == [*shard, "s", "meta.json", "replace", "s"]


def test_a_writer_waits_for_another_that_tests_its_lock(tmp_path, monkeypatch):
    """Between the creation of a lock file and its locking, another writer can lock it."""
    monkeypatch.setattr(secrets, "token_hex", lambda _: "0")
    with atomic_file(tmp_path / "file"):
        lock = tmp_path / _names(tmp_path)[0]
    held = threading.Event()

    def clean():
        with FileLock(lock):
            held.set()
            time.sleep(0.1)
        lock.unlink()

    cleaner = threading.Thread(target=clean)
    cleaner.start()
    held.wait()
    with atomic_file(tmp_path / "file") as file:
        cleaner.join()
        file.write(b"new")
        assert lock.exists()
    assert (tmp_path / "file").read_bytes() == b"new"
    assert _names(tmp_path) == ["file"]


_WITHOUT_POSIX = """
import sys
for name in ("fcntl", "grp", "pwd", "resource", "termios"):
    sys.modules[name] = None
import domaincal as dc
rows = dc.read(sys.argv[1])
for _ in range(2):
    dc.Store(sys.argv[2]).append(rows)
print(len(dc.Store(sys.argv[2])))
"""


def test_files_are_written_without_the_modules_that_windows_lacks(tmp_path):
    dc.write(DATA, tmp_path / "rows.npz")
    printed = subprocess.run(
        [sys.executable, "-c", _WITHOUT_POSIX, tmp_path / "rows.npz", tmp_path / "s"],
        check=True, capture_output=True,
    ).stdout  # fmt: skip
    assert int(printed) == 2 * len(DATA)
    assert _names(tmp_path) == ["rows.npz", "s"]


@pytest.mark.parametrize("name", ["scores.npz", "scores"])
def test_killed_writers(name):
    """A few kills; ``python tests/kill_writers.py`` kills every writer many times."""
    assert kill_writers.kill_write(name, 4, random.Random(0)).kills == 4


def test_killed_appends():
    assert kill_writers.kill_append(4, random.Random(0)).kills == 4


def test_a_store_is_written_where_the_file_system_has_no_locks(tmp_path, monkeypatch):
    fcntl = pytest.importorskip("fcntl")

    def no_locks(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    data, _ = dc.make_multi_domain(2, 20)
    store = dc.Store(tmp_path / "rows")
    store.append(data)
    store.append(data)
    assert len(store) == 80
    store.write(data)
    assert len(store) == 40

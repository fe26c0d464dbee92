"""Stores in use by several processes and threads: readers get the old rows or the new ones."""

import multiprocessing
import os
import subprocess
import sys
import threading
from itertools import count

import numpy as np
import pytest

import domaincal as dc
from domaincal.io import store as store_module, store_snapshot
from domaincal.io.store_snapshot import StoreSnapshot


def _rows(n, value):
    return dc.CalibrationData(
        np.full((n, 3), value, "f4"), labels=np.full(n, value), domains=[f"domain-{value}"] * n,
        provenance={"value": value},
    )  # fmt: skip


OLD, NEW = _rows(5, 0), _rows(7, 1)


def _whole(found):
    """All values are those of OLD, or all those of NEW."""
    value = {len(OLD): 0, len(NEW): 1}[len(found)]
    assert set(found.logits.ravel()) == set(found.labels) == {value}
    assert set(found.domains) == {f"domain-{value}"}
    assert found.provenance == {"value": value}


def _one_value(values, of=str):
    assert (len(values), {of(v) for v in values}) in [
        (len(OLD), {of(values[0])}), (len(NEW), {of(values[0])}),
    ]  # fmt: skip


USES = {
    "read": lambda store: _whole(store.read()),
    "read, verify": lambda store: _whole(store.read(verify=True)),
    "dc.read": lambda store: _whole(dc.read(store.path)),
    "labels": lambda store: _one_value(store.labels()),
    "domains": lambda store: _one_value(store.domains()),
    "check": lambda store: store.check(),
    "verify": lambda store: store.verify(),
    "len": lambda store: _one_value(range(len(store)), of=type),
    "provenance": lambda store: store.provenance["value"],
}


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("use", USES)
def test_a_write_at_any_moment_of_a_read(tmp_path, monkeypatch, use, when):
    """The rows are replaced before or after each file is opened, one file in each round."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    open_file = store_snapshot.open_file
    store = dc.Store(tmp_path / "s")
    for moment in count():
        store.write(OLD)
        opened = count()

        def open_and_replace(path, at=moment, opened=opened):
            now = next(opened) == at
            if now and when == "before":
                dc.Store(tmp_path / "s").write(NEW)
            file = open_file(path)
            if now and when == "after":
                dc.Store(tmp_path / "s").write(NEW)
            return file

        monkeypatch.setattr(store_snapshot, "open_file", open_and_replace)
        USES[use](store)
        monkeypatch.setattr(store_snapshot, "open_file", open_file)
        if next(opened) <= moment:
            break
    assert moment >= (1 if use in ("len", "provenance") else 3)


_REWRITE = """
import itertools, sys, domaincal as dc
rows = [dc.read(path) for path in sys.argv[2:]]
for k in itertools.count():
    dc.Store(sys.argv[1]).write(rows[k % 2])
    if k == 0:
        print("ready", flush=True)
"""


def test_reads_during_writes_of_another_process(tmp_path):
    store = dc.Store(tmp_path / "s")
    dc.write(OLD, tmp_path / "old.npz")
    dc.write(NEW, tmp_path / "new.npz")
    command = [sys.executable, "-c", _REWRITE, "s", "old.npz", "new.npz"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE) as writer:
        assert writer.stdout.readline() == b"ready\n"
        for _ in range(8):
            for use in USES.values():
                use(store)
        assert writer.poll() is None
        writer.kill()


def test_a_reader_that_is_slower_than_a_writer_makes_it_wait(tmp_path, monkeypatch):
    store = dc.Store(tmp_path / "s")
    store.write(OLD)
    check = StoreSnapshot.check
    writers = []

    def slow(snapshot, names=None):
        """Another thread replaces the rows before the files are opened, if it is not locked out."""
        writers.append(threading.Thread(target=dc.Store(store.path).write, args=(NEW,)))
        writers[-1].start()
        writers[-1].join(0.5)
        return check(snapshot, names)

    monkeypatch.setattr(StoreSnapshot, "check", slow)
    _whole(store.read())
    assert len(writers) == store_module._READS_WITHOUT_LOCK + 1
    assert writers[-1].is_alive()
    for writer in writers:
        writer.join()


def test_a_reader_that_cannot_lock_gives_up_with_one_error(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _: None)
    store = dc.Store(tmp_path / "s")
    store.write(OLD)
    check, lock = StoreSnapshot.check, store_module.file_lock

    def read_only(*_):
        raise OSError(30, "Read-only file system")

    def slow(snapshot, names=None):
        monkeypatch.setattr(store_module, "file_lock", lock)
        dc.Store(store.path).write(NEW)
        monkeypatch.setattr(store_module, "file_lock", read_only)
        return check(snapshot, names)

    monkeypatch.setattr(StoreSnapshot, "check", slow)
    with pytest.raises(dc.errors.InputError, match="is replaced by other processes all the time"):
        store.read()


def test_appends_of_several_threads_are_all_there(tmp_path):
    store = dc.Store(tmp_path / "s")
    errors = []

    def append(value):
        try:
            for _ in range(6):
                store.append(_rows(3, value))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=append, args=(value,)) for value in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    data = store.read(verify=True)
    assert np.bincount(data.labels).tolist() == [18, 18, 18]


def _append_in_child(path):
    dc.Store(path).append(NEW)
    dc.Store(path).read()


def test_a_child_that_is_forked_while_a_thread_holds_the_lock_waits_for_it(tmp_path):
    store = dc.Store(tmp_path / "s")
    store.write(OLD)
    held, go_on = threading.Event(), threading.Event()

    def hold():
        with store._lock():
            held.set()
            go_on.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    child = multiprocessing.get_context("fork").Process(target=_append_in_child, args=(store.path,))
    child.start()
    child.join(0.3)
    assert child.is_alive()  # it waits
    go_on.set()
    holder.join()
    child.join(60)
    assert child.exitcode == 0
    assert len(store) == len(OLD) + len(NEW)


def test_two_writers_without_locks_do_not_remove_each_other(tmp_path, monkeypatch):
    """The folder of a shard is created by one of them only."""
    fcntl = pytest.importorskip("fcntl")

    def no_locks(*_):
        raise OSError(37, "No locks available")

    store = dc.Store(tmp_path / "s")
    store.write(OLD)
    monkeypatch.setattr(fcntl, "flock", no_locks)
    write_shard = store_module._write_shard

    def meanwhile(folder, data):
        monkeypatch.setattr(store_module, "_write_shard", write_shard)
        with pytest.raises(dc.errors.InputError, match=r"another process writes .*part-00001"):
            dc.Store(store.path).append(OLD)
        return write_shard(folder, data)

    monkeypatch.setattr(store_module, "_write_shard", meanwhile)
    store.append(OLD)
    store.append(OLD)
    assert len(store.read(verify=True)) == 3 * len(OLD)

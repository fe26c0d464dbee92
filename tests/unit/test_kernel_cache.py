"""The disk cache of compiled kernels is optional: whatever is in it, the numbers are right."""

import errno
import hashlib
import importlib.util
import os
import pickle
import tempfile
from pathlib import Path

import numba
import pytest

import domaincal as dc
from domaincal.kernels import dispatch, numba_cache, numba_softmax
from support import small_domains

SOURCE = """
from domaincal.kernels.numba_jit import jit

@jit()
def double(x):
    return 2.0 * x
"""


@pytest.fixture
def cache_hits(tmp_path, monkeypatch):
    """Function that runs a tiny kernel as a new process would; returns the number of cache hits."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "given"))
    path = tmp_path / "tiny_kernel.py"
    path.write_text(SOURCE)

    def run():
        spec = importlib.util.spec_from_file_location("tiny_kernel", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        assert module.double(6.0) == 12.0
        return sum(module.double.stats.cache_hits.values())

    return run


def _entries(tmp_path):
    return list((tmp_path / "given/domaincal-kernels").glob("*.kernel"))


def test_the_second_process_loads_what_the_first_compiled(cache_hits, tmp_path):
    assert cache_hits() == 0
    (entry,) = _entries(tmp_path)
    assert cache_hits() == 1
    assert entry.parent.stat().st_mode & 0o777 == 0o700
    assert sorted(p.name for p in tmp_path.iterdir()) in (
        ["given", "tiny_kernel.py"], ["__pycache__", "given", "tiny_kernel.py"]
    )  # fmt: skip
    assert not [*tmp_path.rglob("*.nbi"), *tmp_path.rglob("*.nbc")]


def test_a_changed_source_is_compiled_again(cache_hits, tmp_path):
    cache_hits()
    path = tmp_path / "tiny_kernel.py"
    path.write_text(SOURCE.replace("2.0 * x", "x + x"))
    assert cache_hits() == 0


def _damages(content):
    for length in (0, 20, 32, len(content) // 2, len(content) - 1):
        yield f"cut at {length}", content[:length]
    for place in (0, 32, len(content) // 2, len(content) - 1):
        flipped = bytearray(content)
        flipped[place] ^= 0x10
        yield f"bit at {place}", bytes(flipped)
    # A digest that is right, with a content that numba does not know.
    for wrong in (b"", pickle.dumps((1, 2))):
        yield "other content", hashlib.sha256(wrong).digest() + wrong


def test_a_damaged_entry_is_compiled_again(cache_hits, tmp_path):
    cache_hits()
    (entry,) = _entries(tmp_path)
    content = entry.read_bytes()
    for name, damaged in _damages(content):
        entry.write_bytes(damaged)
        assert cache_hits() == 0, name
        assert entry.read_bytes()[:32] == hashlib.sha256(entry.read_bytes()[32:]).digest(), name
    assert cache_hits() == 1


class _Bomb:
    def __reduce__(self):
        return os.mkdir, ("exploded",)


def test_an_entry_without_its_digest_is_not_unpickled(cache_hits, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cache_hits()
    (entry,) = _entries(tmp_path)
    entry.write_bytes(entry.read_bytes()[:32] + pickle.dumps(_Bomb()))
    cache_hits()
    assert not Path("exploded").exists()


@pytest.mark.parametrize("obstacle", ["file", "folder at the entry", "fifo", "full", "no home"])
def test_a_cache_that_cannot_be_used_costs_no_more_than_time(
    cache_hits, tmp_path, monkeypatch, obstacle
):
    if obstacle == "file":
        (tmp_path / "given").write_text("")
    elif obstacle in ("folder at the entry", "fifo"):
        cache_hits()
        (entry,) = _entries(tmp_path)
        entry.unlink()
        entry.mkdir() if "folder" in obstacle else os.mkfifo(entry)
    elif obstacle == "full":

        def fail(path):
            raise OSError(errno.ENOSPC, "No space left on device", str(path))

        monkeypatch.setattr(numba_cache, "atomic_file", fail)
    else:

        def unknown():
            raise RuntimeError("Could not determine home directory.")

        monkeypatch.setattr(numba.config, "CACHE_DIR", "")
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
        monkeypatch.setattr(Path, "home", unknown)
    assert cache_hits() == 0
    assert cache_hits() == 0


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs the permissions of POSIX")
def test_the_folder_is_one_that_only_the_user_can_write(cache_hits, monkeypatch):
    with tempfile.TemporaryDirectory() as name:  # pytest's own folder is closed to others
        base = Path(name).resolve()
        if any(not p.stat().st_mode & 0o077 for p in base.parents):
            pytest.skip("nobody else can reach the temporary folder")
        base.chmod(0o755)
        folder = base / "domaincal-kernels"
        monkeypatch.setattr(numba.config, "CACHE_DIR", str(base))
        assert cache_hits() == 0
        assert cache_hits() == 1
        folder.chmod(0o755)  # others may read
        assert cache_hits() == 1
        for place, mode in [(folder, 0o777), (folder, 0o775), (folder, 0o1777), (base, 0o777)]:
            place.chmod(mode)
            assert not numba_cache.is_private(folder), (place, oct(mode))
            assert cache_hits() == 0
            place.chmod(0o755)
        base.chmod(0o1777)  # like /tmp: others cannot rename the folder
        assert cache_hits() == 1
        folder.chmod(0o700)
        base.chmod(0o777)  # others could put another folder in its place
        assert cache_hits() == 0
        base.chmod(0o755)
        user = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: user + 1)  # the folder of somebody else
        assert cache_hits() == 0


def test_the_kernels_of_the_package_are_not_cached_in_its_folder():
    stats = numba_softmax.wide_top_label.stats
    assert stats.cache_path is None or "domaincal-kernels" in stats.cache_path


def test_numpy_serves_if_the_compiler_is_switched_off(monkeypatch):
    """By ``NUMBA_DISABLE_JIT=1``: the kernels cannot run as Python code."""
    data = small_domains()

    def numbers():
        fitted = dc.MultiDomainTemperatureScaling().fit(data)
        p = fitted.predict_proba(data)
        error = dc.expected_calibration_error(p, data.labels)
        return [*fitted.predict_confidence(data), error]

    monkeypatch.setattr(dispatch, "COMPILED_FROM", 1 << 62)
    expected = numbers()
    monkeypatch.setattr(dispatch, "COMPILED_FROM", 0)
    monkeypatch.setattr(numba.config, "DISABLE_JIT", True)
    for name in ("_compiled_sums", "_compiled_softmax", "_compiled_bins"):
        monkeypatch.delattr(dispatch, name)
    assert numbers() == expected

"""Kill writers with SIGKILL at random moments, and check what they leave.

``python tests/kill_writers.py --times 50`` kills ``write`` (.npz, .parquet, .csv, .zarr, store),
``Store.append``, ``fit -o`` and ``apply -o`` 50 times each. After every kill the output must be
readable and be the old or the new one. The next writer removes the temporary files.
"""

import argparse
import importlib.util
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import domaincal as dc

# Each line of stdin starts a fork that writes until it is killed. Its import is done already.
_WRITERS = """
import itertools, os, sys, time, domaincal as dc
path, mode = sys.argv[1:]
old, new = dc.read(path + ".old.npz"), dc.read(path + ".new.npz")
for _ in range(2):  # the first imports what it needs
    start = time.perf_counter()
    dc.write(old, path + "-first" + os.path.splitext(path)[1])
print(time.perf_counter() - start, flush=True)
for _ in sys.stdin:
    writer = os.fork()
    if writer == 0:
        for k in itertools.count():
            dc.Store(path).append(old) if mode == "append" else dc.write((new, old)[k % 2], path)
    print(writer, flush=True)
    os.waitpid(writer, 0)
    print("ended", flush=True)
"""


@dataclass
class Tally:
    """Counts of the kills of one writer."""

    name: str
    kills: int = 0
    unfinished: int = 0
    changed: int = 0

    def __str__(self) -> str:
        return (
            f"{self.name:15} {self.kills:4} kills, {self.unfinished:3} in the middle of a write, "
            f"{self.changed:3} after the output had changed; every output readable, none lost"
        )


def _sets() -> tuple[dc.CalibrationData, dc.CalibrationData]:
    old, _ = dc.make_multi_domain(4, 2000, 20, 128, random_state=0)
    new, _ = dc.make_multi_domain(4, 1500, 20, 128, random_state=1)
    return old, new


def _leftovers(folder: Path) -> set[Path]:
    """Temporary files, and shards that ``meta.json`` does not count."""
    found = set(folder.rglob(".domaincal-*"))
    for path in folder.glob("*/meta.json"):
        meta = json.loads(path.read_text())
        counted = range(meta["first_part"], meta["first_part"] + meta["n_parts"])
        parts = path.parent.glob("part-*")
        found |= {part for part in parts if int(part.name.removeprefix("part-")) not in counted}
    return found


def _is(found: dc.CalibrationData, expected: dc.CalibrationData) -> bool:
    return found.logits.shape == expected.logits.shape and np.array_equal(
        found.logits.astype("f4"), expected.logits
    )


def kill_write(name: str, times: int, rng: random.Random) -> Tally:
    """Kill a process that writes two sets in turn to the same path."""
    old, new = _sets()
    tally = Tally(f"write {name}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        dc.write(old, f"{path}.old.npz")
        dc.write(new, f"{path}.new.npz")
        dc.write(old, path)
        left = _leftovers(Path(folder))
        for _ in _killed_writers(path, "write", times, 0.4, rng):
            tally.kills += 1
            tally.unfinished += bool(_leftovers(Path(folder)) - left)
            left = _leftovers(Path(folder))
            found = dc.read(path, verify=True)
            tally.changed += _is(found, new)
            assert _is(found, old) or _is(found, new), "neither the old nor the new rows"
        dc.write(old, path)
        assert not _leftovers(Path(folder)), "a later writer did not clean up"
    return tally


def kill_append(times: int, rng: random.Random) -> Tally:
    """Kill a process that appends to a store; shards must be complete."""
    old, new = _sets()
    tally = Tally("append")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "scores")
        dc.write(old, f"{path}.old.npz")
        dc.write(new, f"{path}.new.npz")
        before = 0
        left = _leftovers(Path(folder))
        for _ in _killed_writers(path, "append", times, 0.2, rng):
            tally.kills += 1
            tally.unfinished += bool(_leftovers(Path(folder)) - left)
            left = _leftovers(Path(folder))
            rows = len(dc.Store(path))
            assert rows >= before, "rows were lost"
            tally.changed += rows > before
            before = rows
            if rows:
                found = dc.read(path, verify=True)
                assert np.array_equal(found.logits, np.tile(old.logits, (rows // len(old), 1))), (
                    "half a shard"
                )
        dc.Store(path).append(old)
        assert not _leftovers(Path(folder)), "a later writer did not clean up"
    return tally


def kill_command(
    name: str,
    arguments: Callable[[Path, str], list[str]],
    content: Callable[[Path], object],
    output: str,
    times: int,
    rng: random.Random,
) -> Tally:
    """Kill ``domaincal`` at any moment of its run, writing over an earlier output."""
    old, new = _sets()
    tally = Tally(name)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        dc.write(old, root / "old.npz")
        dc.write(new, root / "new.npz")
        head = dc.MultiDomainTemperatureScaling("knn")
        head.fit(old.logits, old.labels, features=old.features, domains=old.domains)
        head.save(root / "base.safetensors")
        _run(arguments(root, "new"))
        expected_new = content(root / output)
        start = time.perf_counter()
        _run(arguments(root, "old"))
        duration = time.perf_counter() - start
        expected_old = content(root / output)
        assert expected_old != expected_new
        # Every other kill at any time of the run, the others soon after writing starts.
        for k in range(times):
            left = _leftovers(root)
            command = [sys.executable, "-m", "domaincal", *arguments(root, "new")]
            if k % 2:
                _kill(command, rng.uniform(0.0, 1.1) * duration)
            else:
                _kill_when_writing(command, root, rng.uniform(0.0, 0.02))
            tally.kills += 1
            tally.unfinished += bool(_leftovers(root) - left)
            found = content(root / output)
            assert found in (expected_old, expected_new), "neither the old nor the new output"
            if found == expected_new:
                tally.changed += 1
                _run(arguments(root, "old"))
        _run(arguments(root, "old"))
        assert not _leftovers(root), "a later writer did not clean up"
    return tally


def kill_fit(times: int, rng: random.Random) -> Tally:
    """Kill ``fit -o`` of a head that stores all its rows."""
    return kill_command(
        "fit -o",
        lambda root, which: [
            "fit", str(root / f"{which}.npz"), "-o", str(root / "model.safetensors"), "--method",
            "md-ts:head=knn", "--force",
        ],
        lambda path: dc.load(path).data_fingerprint_,
        "model.safetensors", times, rng,
    )  # fmt: skip


def kill_apply(times: int, rng: random.Random) -> Tally:
    """Kill ``apply -o`` to a csv file, which takes long to write."""
    return kill_command(
        "apply -o",
        lambda root, which: [
            "apply", str(root / "base.safetensors"), str(root / f"{which}.npz"), "-o",
            str(root / "p.csv"), "--force",
        ],
        lambda path: dc.read(path).fingerprint(),
        "p.csv", times, rng,
    )  # fmt: skip


def _run(arguments: list[str]) -> None:
    subprocess.run([sys.executable, "-m", "domaincal", *arguments], check=True, capture_output=True)


def _killed_writers(
    path: Path, mode: str, times: int, longest: float, rng: random.Random
) -> Iterator[None]:
    """Start writers one after the other; yields after each was killed at a random moment."""
    with subprocess.Popen(
        [sys.executable, "-c", _WRITERS, str(path), mode],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
    ) as server:  # fmt: skip
        assert server.stdin is not None
        assert server.stdout is not None
        longest = max(longest, 3 * float(server.stdout.readline()))  # on a busy machine
        for _ in range(times):
            server.stdin.write("start\n")
            writer = int(server.stdout.readline())
            time.sleep(rng.uniform(0.0, longest))
            os.kill(writer, signal.SIGKILL)
            assert server.stdout.readline() == "ended\n"
            yield


def _kill(command: list[str], delay: float) -> None:
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        time.sleep(delay)
        process.kill()


def _kill_when_writing(command: list[str], folder: Path, delay: float) -> None:
    before = _leftovers(folder)
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None and _leftovers(folder) <= before:
            time.sleep(0.0002)
        time.sleep(delay)
        process.kill()


def main() -> None:
    """Kill every writer and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    names = ["scores.npz", "scores.csv", "scores"]
    if importlib.util.find_spec("pyarrow"):
        names.append("scores.parquet")
    if importlib.util.find_spec("zarr"):
        names.append("scores.zarr")
    for name in names:
        print(kill_write(name, options.times, rng), flush=True)
    print(kill_append(options.times, rng), flush=True)
    print(kill_fit(options.times, rng), flush=True)
    print(kill_apply(options.times, rng), flush=True)


if __name__ == "__main__":
    main()

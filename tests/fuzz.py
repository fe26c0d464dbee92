"""Attack every reader, loader, fit and metric of domaincal with hostile inputs.

``python tests/fuzz.py --seconds 1200`` makes inputs from a seed and checks, for each: no exception
but a DomaincalError, at most 2 GB and 10 s, every number in its range, and no damage that is read
in silence where the format has checksums. Workers that hang or die are replaced. A failure is
printed with the command that repeats it, and its input is kept. The exit status is then 1.
"""

import argparse
import importlib
import multiprocessing
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from fuzzing.attempts import (
    KEPT_OF_A_KIND,
    Limits,
    Outcome,
    hang,
    input_name,
    save,
    work,
)
from fuzzing.target import Target
from torchvision_shim import declare_operators

_BATCH_SECONDS = 0.5


@dataclass
class Tally:
    """Counts of one target."""

    target: Target
    next_number: int
    refused: int = 0
    accepted: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    slowest: float = 0.0
    peak: int = 0

    @property
    def inputs(self) -> int:
        """Number of inputs so far."""
        return self.refused + self.accepted + self.failures.total()

    def add(self, outcome: Outcome) -> None:
        """Count an outcome."""
        if outcome.failure is not None:
            self.failures[outcome.failure.what] += 1
        elif outcome.refused:
            self.refused += 1
        else:
            self.accepted += 1
        self.slowest = max(self.slowest, outcome.seconds)
        self.peak = max(self.peak, outcome.peak)


class _Worker:
    """A process that serves batches of inputs."""

    def __init__(
        self, targets: Sequence[Target], seed: int, limits: Limits, folder: Path, kept: Path
    ) -> None:
        context = multiprocessing.get_context("fork")
        self.folder = folder
        self.tally: Tally | None = None  # of the present batch
        self.numbers = range(0)  # inputs of the batch that are not done
        self.clock = context.RawValue("d", time.monotonic())
        self.connection, theirs = context.Pipe()
        self.process = context.Process(
            target=work, args=(theirs, self.clock, targets, seed, limits, folder, kept), daemon=True
        )
        self.process.start()
        theirs.close()

    def give(self, which: int, tally: Tally, numbers: range) -> None:
        """Start a batch."""
        self.tally, self.numbers = tally, numbers
        self.clock.value = self.heard = time.monotonic()
        self.connection.send((which, numbers.start, len(numbers)))

    def hear(self) -> Any:
        """An outcome, or None at the end of a batch; EOFError if the process has ended."""
        try:
            return self.connection.recv()
        except OSError as error:
            raise EOFError from error

    def kill(self) -> None:
        """End the process; it writes a trace of what it does to its log."""
        if self.process.is_alive():
            os.kill(self.process.pid or 0, signal.SIGABRT)
            self.process.join(3.0)
            self.process.kill()
        self.process.join()
        self.connection.close()


class Fuzzer:
    """Workers that attack targets, and the tallies of what they found."""

    def __init__(
        self, targets: Sequence[Target], folder: Path, kept: Path, *, seed: int = 0, jobs: int = 1,
        first: int = 0, count: int | None = None, limits: Limits | None = None,
    ) -> None:  # fmt: skip
        self.tallies = [Tally(target, first) for target in targets]
        self._targets, self._seed, self._jobs = targets, seed, jobs
        self._folder, self._kept, self._limits = folder, kept, limits or Limits()
        self._last = None if count is None else first + count
        self._shown: Counter[str] = Counter()
        self._n_workers = 0
        folder.mkdir(parents=True, exist_ok=True)

    def run(self, seconds: float) -> None:
        """Attack for so long, or until every target had its count of inputs."""
        end = time.monotonic() + seconds
        workers = [self._worker() for _ in range(self._jobs)]
        try:
            while workers:
                for worker in list(workers):
                    if worker.tally is None and not self._give(worker, end):
                        worker.connection.send(None)
                        worker.process.join()
                        workers.remove(worker)
                ready = wait([worker.connection for worker in workers], 0.2)
                for k, worker in enumerate(workers):
                    late = time.monotonic() - worker.clock.value > self._limits.seconds + 1.0
                    if worker.connection in ready:
                        workers[k] = self._listen(worker)
                    elif late:
                        workers[k] = self._replace(worker)
        finally:
            for worker in workers:
                worker.kill()

    def _worker(self) -> _Worker:
        self._n_workers += 1
        folder = self._folder / f"worker-{self._n_workers}"
        return _Worker(self._targets, self._seed, self._limits, folder, self._kept)

    def _give(self, worker: _Worker, end: float) -> bool:
        """Start a batch of the target that had the smallest share of the time so far."""
        unfinished = [t for t in self.tallies if self._last is None or t.next_number < self._last]
        if not unfinished or time.monotonic() > end:
            return False
        tally = min(unfinished, key=lambda t: t.seconds / t.target.share)
        mean = tally.seconds / tally.inputs if tally.inputs else _BATCH_SECONDS
        stop = tally.next_number + min(max(int(_BATCH_SECONDS / max(mean, 1e-6)), 1), 500)
        numbers = range(tally.next_number, stop if self._last is None else min(stop, self._last))
        tally.next_number = numbers.stop
        worker.give(self.tallies.index(tally), tally, numbers)
        return True

    def _listen(self, worker: _Worker) -> _Worker:
        """Take a message of a worker; returns the worker, or the one in its place."""
        try:
            outcome = worker.hear()
        except EOFError:
            return self._replace(worker)
        assert worker.tally is not None
        now = time.monotonic()
        worker.tally.seconds += now - worker.heard
        worker.heard = now
        if outcome is None:
            worker.tally = None
        else:
            worker.numbers = worker.numbers[1:]
            self._count(worker.tally, outcome)
        return worker

    def _replace(self, worker: _Worker) -> _Worker:
        """Start another worker for one that hangs or has ended, and give it the other inputs."""
        worker.kill()
        fresh, tally, numbers = self._worker(), worker.tally, worker.numbers
        if tally is None:
            return fresh
        if worker.process.exitcode != 0 and numbers:
            failure = hang(worker.folder.with_suffix(".log"))
            number, numbers = numbers[0], numbers[1:]
            save(worker.folder, self._kept_at(tally, number), failure)
            self._count(tally, Outcome(number, False, self._limits.seconds, 0, failure))
        if numbers:
            fresh.give(self.tallies.index(tally), tally, numbers)
        return fresh

    def _kept_at(self, tally: Tally, number: int) -> Path:
        return self._kept / input_name(tally.target, self._seed, number)

    def _count(self, tally: Tally, outcome: Outcome) -> None:
        tally.add(outcome)
        if outcome.failure is None:
            return
        key = f"{tally.target.name}: {outcome.failure.what}"
        self._shown[key] += 1
        if self._shown[key] <= KEPT_OF_A_KIND:
            command = f"--seed {self._seed} --only {tally.target.name} --first {outcome.number}"
            print(
                f"FAILURE {key}\n  repeat: python tests/fuzz.py {command} --count 1\n"
                f"  input: {self._kept_at(tally, outcome.number)}",
                flush=True,
            )

    def summary(self) -> str:
        """A table of the targets, and the failures by kind."""
        lines = [
            f"{'target':14} {'inputs':>8} {'refused':>8} {'accepted':>8} {'failures':>8} "
            f"{'slowest':>8} {'memory':>8}"
        ]
        lines += [
            f"{tally.target.name:14} {tally.inputs:8} {tally.refused:8} {tally.accepted:8} "
            f"{tally.failures.total():8} {tally.slowest:6.2f} s {tally.peak / 1e6:5.0f} MB"
            for tally in self.tallies
        ]
        lines.append(f"{'all':14} {sum(tally.inputs for tally in self.tallies):8}")
        lines += [
            f"{times:6} x {tally.target.name}: {what}"
            for tally in self.tallies
            for what, times in tally.failures.most_common()
        ]
        return "\n".join(lines)

    @property
    def failed(self) -> bool:
        """Whether any input failed."""
        return any(tally.failures for tally in self.tallies)


def all_targets() -> dict[str, Target]:
    """Targets by name."""
    from fuzzing import array_files, arrays, images, models, table_files, texts

    modules = (array_files, table_files, models, texts, images, arrays)
    return {target.name: target for module in modules for target in module.TARGETS}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the fuzzer; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="targets, by default all")
    parser.add_argument("--skip", nargs="+", metavar="NAME", default=(), help="not these")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--count", type=int, help="inputs of each target, whatever time they take")
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir(), "domaincal-fuzz"))
    options = parser.parse_args(arguments)
    targets = all_targets()
    unknown = {*(options.only or ()), *options.skip} - set(targets)
    if unknown:
        parser.error(f"there is no {min(unknown)}; choose from {', '.join(targets)}")
    chosen = [targets[name] for name in options.only or targets if name not in options.skip]
    if targets["network"] in chosen:  # it takes seconds: not in every worker
        declare_operators()
        importlib.import_module("timm")
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        fuzzer = Fuzzer(
            chosen, Path(folder), options.keep, seed=options.seed, jobs=options.jobs,
            first=options.first, count=options.count,
        )  # fmt: skip
        try:
            fuzzer.run(options.seconds if options.count is None else float("inf"))
        finally:
            print(fuzzer.summary())
    return int(fuzzer.failed)


if __name__ == "__main__":
    sys.exit(main())

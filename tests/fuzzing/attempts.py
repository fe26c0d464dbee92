"""One attempt: make an input, give it to domaincal, look at what comes back."""

import faulthandler
import os
import random
import re
import resource
import shutil
import stat
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from threadpoolctl import threadpool_limits

from domaincal.errors import DomaincalError
from fuzzing.target import Target

#: Memory that a worker can reserve beyond its own; it protects the machine.
_GUARD = 4 * 10**9
#: Making an input may take so long; the first one of a target makes its undamaged files too.
_MAKING_SECONDS = 60.0
#: So many inputs that fail for the same reason are kept.
KEPT_OF_A_KIND = 3


class Limits(NamedTuple):
    """Longest time and largest memory of one input."""

    seconds: float = 10.0
    n_bytes: int = 2 * 10**9


class Failure(NamedTuple):
    """What went wrong; ``what`` is the same for failures of the same cause."""

    what: str
    text: str


class Outcome(NamedTuple):
    """Result of one input."""

    number: int
    refused: bool
    seconds: float
    peak: int
    failure: Failure | None = None


def attempt(
    target: Target,
    seed: int,
    number: int,
    folder: Path,
    limits: Limits,
    started: Callable[[], None] = lambda: None,
) -> Outcome:
    """Attack with input ``number``, the same one for the same seed.

    ``folder`` must be empty. ``started`` is called between making the input and reading it.
    """
    rng = random.Random(f"{seed} {target.name} {number}")
    refused, failure = False, None
    try:
        case = target.make(rng, folder)
    except Exception as error:
        return Outcome(number, False, 0.0, 0, _failure(error, "the fuzzer itself: "))
    started()
    filters = list(warnings.filters)
    _reset_peak()
    start = time.monotonic()
    try:
        target.check(case)
    except DomaincalError as error:
        refused = True
        if _is_out_of_memory(error):
            failure = _failure(error, f"more than {_GUARD} bytes: ")
    except OSError as error:
        refused = error.filename is not None  # of the system; decoders name no file
        failure = None if refused else _failure(error)
    except BaseException as error:  # panics of Rust are no Exceptions
        failure = _failure(error)
    seconds, peak = time.monotonic() - start, _peak()
    if failure is None and peak > limits.n_bytes:
        failure = Failure(f"takes more than {limits.n_bytes} bytes", f"peak {peak} bytes")
    if failure is None and seconds > limits.seconds:
        failure = Failure(f"takes more than {limits.seconds} s", f"{seconds} s")
    if failure is None and list(warnings.filters) != filters:
        failure = Failure("changes warnings.filters", "")
        warnings.filters[:] = filters  # type: ignore[index]
    return Outcome(number, refused, seconds, peak, failure)


def work(
    connection: Connection,
    clock: Any,
    targets: Sequence[Target],
    seed: int,
    limits: Limits,
    folder: Path,
    kept: Path,
) -> None:
    """Serve batches (number of the target, first input, count) until there is none.

    ``clock`` shows the parent when the present input began.
    """
    log = open(folder.with_suffix(".log"), "wb")  # noqa: SIM115 - faulthandler needs it to the end
    os.dup2(log.fileno(), 1)
    os.dup2(log.fileno(), 2)
    faulthandler.enable(log)
    reserved = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (reserved + _GUARD, reserved + _GUARD))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # writing it would take long
    threadpool_limits(1)  # each worker has one core
    warnings.simplefilter("ignore")
    failures: Counter[str] = Counter()

    def started() -> None:
        clock.value = time.monotonic()

    while (batch := connection.recv()) is not None:
        which, first, count = batch
        for number in range(first, first + count):
            clock.value = time.monotonic() + _MAKING_SECONDS
            empty(folder)
            outcome = attempt(targets[which], seed, number, folder, limits, started)
            if outcome.failure is not None:
                key = f"{which} {outcome.failure.what}"
                failures[key] += 1
                if failures[key] <= KEPT_OF_A_KIND:
                    save(folder, kept / input_name(targets[which], seed, number), outcome.failure)
            connection.send(outcome)
            if outcome.peak > limits.n_bytes:
                return  # memory may stay reserved: the parent starts another process
        connection.send(None)


def input_name(target: Target, seed: int, number: int) -> str:
    """Name of the folder that keeps an input."""
    return f"{target.name}-{seed}-{number}"


def empty(folder: Path) -> None:
    """Make an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


def save(folder: Path, kept: Path, failure: Failure) -> None:
    """Copy an input to where it is kept; pipes and links are listed only."""
    empty(kept)
    others = []
    for path in sorted(folder.rglob("*")):
        place, mode = kept / path.relative_to(folder), path.lstat().st_mode
        if stat.S_ISDIR(mode):
            place.mkdir(exist_ok=True)
        elif stat.S_ISREG(mode):
            shutil.copyfile(path, place)
        else:
            others.append(f"{path.relative_to(folder)} is {stat.filemode(mode)}\n")
    (kept / "failure.txt").write_text("".join(others) + failure.text, errors="replace")


def hang(log: Path) -> Failure:
    """Failure of a worker that did not end, from the trace that it left."""
    text = log.read_text(errors="replace").rpartition("Fatal Python error")[2][:5000]
    return Failure(f"hangs or dies in {_place_in_log(text)}", text)


def _place_in_log(text: str) -> str:
    found = re.findall(r'File ".*/domaincal/(\S+)", line \d+ in (\w+)', text)
    return f"{found[0][0]} {found[0][1]}" if found else "an unknown place"


def _failure(error: BaseException, prefix: str = "") -> Failure:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "/domaincal/" in f.filename]
    place = (
        f"{frames[-1].filename.rpartition('/domaincal/')[2]} {frames[-1].name}" if frames else ""
    )
    message = re.sub(r"[-+.\de]*\d[-+.\de]*", "#", (str(error).strip() or " ").splitlines()[0])
    kind = (
        f"{prefix}{type(error).__name__} in {place}" if place else f"{prefix}{type(error).__name__}"
    )
    is_rule = isinstance(error, AssertionError) or not place
    text = "".join(traceback.format_exception(error))
    return Failure(f"{kind}: {message[:100]}" if is_rule else kind, text[-20_000:])


def _is_out_of_memory(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, MemoryError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _reset_peak() -> None:
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def _peak() -> int:
    """Largest resident memory since the last reset."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

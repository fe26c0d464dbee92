"""The fuzzer: a short run, and that it notices what it is there to notice."""

import os
import random
import resource
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fuzz
from domaincal.errors import InputError
from fuzzing.attempts import Limits
from fuzzing.target import Target, check_between, check_probabilities, files_of
from fuzzing.texts import TARGETS as TEXTS

_FUZZ = Path(__file__).parents[1] / "fuzz.py"

# What an input of these tests may take; forked processes read it.
_n_bytes: dict[str, int] = {}


def test_hostile_inputs_are_refused_or_give_numbers_in_their_ranges(tmp_path: Path) -> None:
    # Networks need an import of timm, which takes longer than all of this.
    command = [_FUZZ, "--count", "15", "--jobs", "1", "--skip", "network", "--keep", tmp_path]
    done = subprocess.run(
        [sys.executable, *map(str, command)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _write_input(rng: random.Random, folder: Path) -> int:
    folder.joinpath("input.bin").write_bytes(b"hostile")
    return rng.randrange(100)


def _refuse(case: Any) -> None:
    raise InputError("no")


def _raise(case: Any) -> None:
    raise KeyError("foreign")


def _hang(case: Any) -> None:
    time.sleep(100)


def _die(case: Any) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def _take_memory(case: Any) -> None:
    np.ones(_n_bytes["limit"] // 8)  # a forked process does not count the pages of its parent


def _take_too_much_memory(case: Any) -> None:
    try:
        np.empty(10**12)
    except MemoryError as error:
        raise InputError("not enough memory") from error


def _change_filters(case: Any) -> None:
    warnings.simplefilter("always")


def _leave_the_range(case: Any) -> None:
    check_between([0.5, 7.0], 0, 1, "confidence")


@pytest.mark.parametrize(
    ("check", "what"),
    [
        (_raise, "KeyError"),
        (_hang, "hangs or dies"),
        (_die, "hangs or dies"),
        (_take_memory, "takes more than"),
        (_take_too_much_memory, "more than 4000000000 bytes: InputError"),
        (_change_filters, "changes warnings.filters"),
        (_leave_the_range, "confidence has"),
    ],
)
def test_a_failure_is_counted_kept_and_can_be_repeated(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], check: Any, what: str
) -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[1])  # of this process, now
    own = pages * resource.getpagesize()
    _n_bytes["limit"] = own + 100_000_000
    limits = Limits(0.3 if check is _hang else 60.0, _n_bytes["limit"])
    fuzzer = fuzz.Fuzzer(
        [Target("bad", _write_input, check), Target("good", _write_input, _refuse)],
        tmp_path / "work", tmp_path / "kept", first=3, count=2, limits=limits,
    )  # fmt: skip
    fuzzer.run(60.0)
    bad, good = fuzzer.tallies
    assert bad.failures.total() == 2, bad
    assert good.refused == 2, good
    assert fuzzer.failed
    assert what in fuzzer.summary()
    assert files_of(tmp_path / "kept")["bad-0-4/input.bin"] == b"hostile"
    assert "--seed 0 --only bad --first 4 --count 1" in capfd.readouterr().out


def test_an_input_depends_on_its_seed_and_number_only(tmp_path: Path) -> None:
    toml = next(target for target in TEXTS if target.name == "toml")
    contents = []
    for k, seed in enumerate(("0 toml 5", "0 toml 5", "0 toml 6")):
        folder = tmp_path / str(k)
        folder.mkdir()
        contents.append(toml.make(random.Random(seed), folder).read_bytes())
    assert contents[0] == contents[1] != contents[2]


def test_rows_that_do_not_sum_to_one_are_no_probabilities() -> None:
    check_probabilities([[0.25, 0.75]])
    for wrong in ([[0.5, 0.4]], [[1.5, -0.5]], [[np.nan, 1.0]]):
        with pytest.raises(AssertionError):
            check_probabilities(wrong)

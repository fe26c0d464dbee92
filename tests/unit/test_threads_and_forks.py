"""Calls in several threads and in forked children: the numbers are the same, and nothing stays."""

import ast
import os
import signal
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import domaincal as dc
from domaincal.statistics.blas_threads import one_blas_thread
from support import (
    CALIBRATORS,
    blas_threads,
    fit,
    given,
    probabilities,
    small_domains,
    temperatures,
)

PACKAGE = Path(dc.__file__).parent
#: What changes the filters of all threads.
FILTER_FUNCTIONS = {"catch_warnings", "simplefilter", "filterwarnings", "resetwarnings"}


@pytest.fixture
def two_blas_threads():
    """BLAS with two threads, also on a machine of one core."""
    with threadpool_limits(2, "blas"):
        assert set(blas_threads()) == {2}
        yield


def test_blas_gets_its_threads_back_when_the_last_thread_leaves(two_blas_threads):
    """The thread that entered first leaves first."""
    entered, left = threading.Event(), threading.Event()

    def second():
        with one_blas_thread():
            entered.set()
            assert left.wait(60)
            return blas_threads()

    with ThreadPoolExecutor(1) as pool:
        with one_blas_thread():
            inside = pool.submit(second)
            assert entered.wait(60)
            assert set(blas_threads()) == {1}
        left.set()
        assert set(inside.result()) == {1}
        assert set(blas_threads()) == {2}


def test_blas_gets_its_threads_back_after_an_error(two_blas_threads):
    def fail():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), one_blas_thread(), one_blas_thread():
        fail()
    assert set(blas_threads()) == {2}


def test_heads_in_several_threads_give_the_same_numbers_and_leave_blas_alone(two_blas_threads):
    data = small_domains(n_rows=40)
    heads = [fit(CALIBRATORS[name](), data) for name in ("md-ts-knn", "md-ts-krr")] * 2
    expected = [temperatures(head, data) for head in heads]
    start = threading.Barrier(len(heads))

    def predict(head):
        start.wait(60)
        return [temperatures(head, data) for _ in range(15)]

    with ThreadPoolExecutor(len(heads)) as pool:
        for alone, together in zip(expected, pool.map(predict, heads), strict=True):
            for found in together:
                np.testing.assert_array_equal(found, alone)
    assert set(blas_threads()) == {2}


# Uses every library with threads of its own in the parent, then in children.
FORKS = """
import multiprocessing, os, sys, threading
import numpy as np
import threadpoolctl
from domaincal.statistics import blocks
from domaincal.statistics.blas_threads import one_blas_thread
from support import CALIBRATORS, fit, small_domains, temperatures
from support import blas_threads

blocks.thread_count = lambda: 2
blocks.BLOCK_BYTES = 1 << 10
threadpoolctl.threadpool_limits(2, "blas")
data = small_domains(n_rows=20)
knn, ols = fit(CALIBRATORS["md-ts-knn"](), data), fit(CALIBRATORS["md-ts"](), data)
square = np.random.default_rng(0).normal(size=(200, 200))

def numbers():
    again = fit(CALIBRATORS["md-ts-knn"](), data)
    found = [temperatures(each, data) for each in (knn, ols, again)]
    return [*found, square @ square]

def check():
    same = all(np.array_equal(a, b) for a, b in zip(numbers(), expected, strict=True))
    return same and set(blas_threads()) == {2}

def child(name):
    pid = os.fork()
    if pid == 0:
        os._exit(0 if check() else 1)
    print(name, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)

expected = numbers()
child("plain")
inside, done = threading.Event(), threading.Event()
def hold():
    with one_blas_thread():
        inside.set()
        done.wait()
other = threading.Thread(target=hold)
other.start()
inside.wait()
child("while another thread limits BLAS")
done.set()
other.join()
with one_blas_thread():
    child("inside")
with multiprocessing.get_context("fork").Pool(1) as pool:
    print("pool", pool.apply(check), flush=True)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_forked_child_gives_the_same_numbers_as_its_parent():
    """It would hang in the OpenMP of scikit-learn, whose threads are not there any more."""
    folders = [*map(str, Path(__file__).resolve().parents[:2]), str(PACKAGE.parent)]
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKS],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(folders), "OMP_NUM_THREADS": "2"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        output, _ = process.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # with the children
        output = f"{process.communicate()[0]}... and a child that hangs"
    assert output.splitlines() == [
        "plain 0",
        "while another thread limits BLAS 0",
        "inside 0",
        "pool True",
    ]


def _filter_calls(path):
    """Lines of a source file that name a function which changes filters, outside of docstrings."""
    for node in ast.walk(ast.parse(path.read_text())):
        name = getattr(node, "attr", getattr(node, "id", getattr(node, "name", None)))
        if name in FILTER_FUNCTIONS:
            yield f"{path.relative_to(PACKAGE)}:{getattr(node, 'lineno', '')}"


def test_no_module_changes_the_filters_of_warnings():
    found = [line for path in PACKAGE.rglob("*.py") for line in _filter_calls(path)]
    assert found == []


def test_no_call_changes_the_filters_of_warnings(tmp_path, monkeypatch):
    """pandas and scikit-learn do in theirs, for DeprecationWarning and ComplexWarning only."""
    callers = []

    def recorded(function):
        def call(*arguments, **options):
            callers.append(sys._getframe(1).f_code.co_filename)
            return function(*arguments, **options)

        return call

    for name in FILTER_FUNCTIONS:
        monkeypatch.setattr(warnings, name, recorded(getattr(warnings, name)))
    data = small_domains(n_rows=40)
    dc.write(data, tmp_path / "data.csv")
    read = dc.read(tmp_path / "data.csv")
    methods = {name: CALIBRATORS[name]() for name in ("ts", "md-ts-ridge", "md-ts-knn", "isotonic")}
    dc.evaluate(methods, train=read, test=data)
    p = probabilities(fit(methods["md-ts-ridge"], data), data)
    dc.reliability_curve(p, data.labels)
    dc.metrics.calibration_error_interval(p, data.labels)
    assert callers, "nothing was recorded"
    assert not [name for name in callers if Path(name).is_relative_to(PACKAGE)]


def test_a_warning_is_shown_after_threads_that_read_and_fit(tmp_path):
    data = small_domains(n_rows=40)
    dc.write(data, tmp_path / "data.csv")
    certain = dc.CalibrationData(data.logits, labels=data.logits.argmax(axis=1), **given(data))
    start = threading.Barrier(4)

    def work(_):
        start.wait(60)
        for _ in range(4):
            read = dc.read(tmp_path / "data.csv")
            fit(CALIBRATORS["md-ts-ridge"](), read)
            dc.TemperatureScaling().fit(certain)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", dc.errors.DomaincalWarning)
        before = list(warnings.filters)
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(4)))
        bounds = [w for w in caught if issubclass(w.category, dc.errors.BoundaryWarning)]
        assert len(bounds) == 16
        # pandas may leave a filter for its own category, never one that hides ours.
        left = [each for each in warnings.filters if each not in before]
        assert {category.__name__ for _, _, category, _, _ in left} <= {
            "DeprecationWarning", "ComplexWarning"
        }  # fmt: skip
        dc.TemperatureScaling().fit(certain)
        bounds = [w for w in caught if issubclass(w.category, dc.errors.BoundaryWarning)]
        assert len(bounds) == 17

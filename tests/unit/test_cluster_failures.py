"""Clusters, workers, files and rows that fail: the result is right, or there is one clear error."""

import gc
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from contextlib import contextmanager

import numpy as np
import pytest
from click.testing import CliRunner

import domaincal as dc
from domaincal.cli import main
from domaincal.errors import (
    ClusterError,
    FileFormatError,
    InputError,
)

pytest.importorskip("distributed", reason="the extra dask is not installed")
from distributed import Client, LocalCluster

from clusters import (
    blocked_rows,
    dask_arrays,
    shuffled_rows,  # noqa: F401  (a fixture)
    three_shards,  # noqa: F401  (a fixture)
    two_workers,  # noqa: F401  (a fixture)
)
from domaincal import distributed
from domaincal.distributed import cluster_rows, cluster_waiting
from domaincal.distributed.cluster_connection import quiet_logs

# Processes that end give warnings of Dask in its own threads, where an error would stop its loop.
pytestmark = pytest.mark.filterwarnings("default")


@pytest.mark.parametrize("array", ["logits", "features"])
def test_a_value_that_is_not_finite_has_its_row_number(client, data, array):
    values = {"logits": np.array(data.logits), "features": np.array(data.features)}
    values[array][[4321, 6001], 2] = np.nan
    bad = dc.CalibrationData(**values, labels=data.labels, domains=data.domains)
    rows = distributed.on_cluster(blocked_rows(bad), client)
    with pytest.raises(InputError, match=rf"{array} contains NaN \(row 4321, column 2\)"):
        dc.MultiDomainTemperatureScaling().fit(rows)


def _store(path, **arrays):
    given = {"logits": np.random.default_rng(0).normal(size=(40, 3)), **arrays}
    dc.write(dc.CalibrationData(**given), path)
    return dc.Store(path)


def test_errors_of_the_workers_come_as_they_are(client, tmp_path):
    store = _store(tmp_path / "a", labels=np.arange(40) % 3)
    path = store.path / "part-00000" / "labels.npy"
    labels = np.load(path)
    labels[7] = 3
    np.save(path, labels)
    rows = distributed.on_cluster(store, client)
    with pytest.raises(InputError, match="contains 3, outside the classes"):
        dc.TemperatureScaling().fit(rows)
    np.save(path, labels % 3)
    with pytest.raises(FileFormatError, match=r"labels\.npy was changed while it was read"):
        dc.TemperatureScaling().fit(rows)


def test_files_that_workers_see_otherwise_are_an_error(client, tmp_path):
    store = _store(tmp_path / "a", labels=np.arange(40) % 3)
    rows = store.rows()
    (store.path / "part-00000" / "labels.npy").unlink()
    with pytest.raises(ClusterError, match=r"does not see the rows .*labels\.npy.* shared file"):
        distributed.on_cluster(rows, client)


def test_another_version_on_the_workers_is_an_error():
    with pytest.raises(ClusterError, match=r"workers have domaincal 0\.0\.1, and this process"):
        cluster_rows.check_versions({dc.__version__, "0.0.1"})


@pytest.fixture
def no_patience(monkeypatch):
    monkeypatch.setattr("domaincal.distributed.cluster_connection.CONNECT_TIMEOUT", 0.3)


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("tcp://127.0.0.1:9", "imed out trying to connect"),
        ("nowhere", "missing port number"),
        ("http://127.0.0.1:80", "unknown address scheme 'http'"),
        ("''", "missing port number"),
    ],
)
def test_a_scheduler_that_is_not_there_is_an_error(address, reason, no_patience, capfd):
    clients = len(Client._instances)
    with (
        pytest.raises(ClusterError, match=rf"no Dask scheduler answers at {address} \(.*{reason}"),
        distributed.cluster_client(address.strip("'")),
    ):
        pass
    # One that did not start could block another, or print its own errors.
    assert len(Client._instances) == clients
    assert "Traceback" not in capfd.readouterr().err


def test_a_server_that_is_no_scheduler_is_an_error(client, no_patience):
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        pytest.raises(ClusterError, match=r"no Dask scheduler answers at .*no answer of a sched"),
        distributed.cluster_client(f"tcp://127.0.0.1:{silent.getsockname()[1]}"),
    ):
        pass
    worker = next(iter(client.nthreads()))
    with (
        pytest.raises(ClusterError, match=r"\(it is the address of a worker\)"),
        distributed.cluster_client(worker),
    ):
        pass


def test_dask_prints_no_traceback_besides_the_error_of_a_verb():
    loggers = [logging.getLogger(name) for name in ("distributed.client", "distributed.core")]
    levels = [logger.level for logger in loggers]
    with quiet_logs():
        assert not any(logger.isEnabledFor(logging.ERROR) for logger in loggers)
    assert [logger.level for logger in loggers] == levels


def test_a_cluster_needs_a_scheduler_or_workers():
    with (
        pytest.raises(InputError, match="pass the address of a scheduler, or workers"),
        distributed.cluster_client(),
    ):
        pass


@contextmanager
def _small_cluster(**options):
    """A cluster of one worker in this process, which starts at once."""
    # Dask leaves sockets open.
    with warnings.catch_warnings(action="ignore", category=ResourceWarning):
        cluster = LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL, **options,
        )  # fmt: skip
        try:
            yield cluster
        finally:
            cluster.close(timeout=2)
            del cluster
            gc.collect()


# A scheduler and its worker in one process, which dies at once when it is killed.
_SCHEDULER = """
import sys
from distributed import Client, LocalCluster
cluster = LocalCluster(n_workers=1, threads_per_worker=1, processes=False, protocol="tcp",
                       dashboard_address="127.0.0.1:0")
print(cluster.scheduler_address, flush=True)
sys.stdin.read()
"""


def test_a_scheduler_that_goes_away_is_an_error(data, tmp_path):
    def read(start, stop):
        if (folder / "armed").exists():
            (folder / "reached").touch()
            time.sleep(60)
        return logits[start:stop]

    def kill():
        _until((folder / "reached").exists)
        process.kill()

    folder, logits = tmp_path, data.logits
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", _SCHEDULER],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as process:  # fmt: skip
        address = process.stdout.readline().strip()
        with distributed.cluster_client(address) as client:
            rows = distributed.on_cluster(blocked_rows(data, read), client)
            (folder / "armed").touch()
            threading.Thread(target=kill).start()
            lost = rf"scheduler at {re.escape(address)} was lost before all"
            with pytest.raises(ClusterError, match=lost):
                dc.TemperatureScaling().fit(rows)
            with pytest.raises(ClusterError, match=lost):
                dc.TemperatureScaling().fit(rows)


def test_a_cluster_without_workers_is_an_error(data, monkeypatch):
    monkeypatch.setattr(cluster_waiting, "_LOOK_EVERY", 0.1)
    with (
        _small_cluster() as small_cluster,
        distributed.cluster_client(small_cluster.scheduler_address) as client,
    ):
        rows = distributed.on_cluster(blocked_rows(data), client)
        monkeypatch.setattr(cluster_waiting, "PATIENCE", 0.5)
        monkeypatch.setattr(cluster_rows, "PATIENCE", 0.5)
        small_cluster.scale(0)
        _until(lambda: not client.scheduler_info()["workers"])
        with pytest.raises(ClusterError, match="has had no worker for"):
            dc.TemperatureScaling().fit(rows)
        with pytest.raises(ClusterError, match="has no worker after"):
            distributed.on_cluster(blocked_rows(data), client)


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(cluster_waiting, "_LOOK_EVERY", 0.1)
    monkeypatch.setattr(cluster_waiting, "PATIENCE", 0.5)


def test_results_of_a_worker_that_is_gone_are_not_awaited_without_end(impatient):
    with (
        _small_cluster() as small_cluster,
        distributed.cluster_client(small_cluster.scheduler_address) as client,
    ):
        future = client.submit(int, 1)
        _until(future.done)
        small_cluster.scale(0)
        _until(lambda: not client.scheduler_info()["workers"])
        with pytest.raises(ClusterError, match="has had no worker for"):
            cluster_waiting.gather(client, [future])


def test_paused_workers_are_not_awaited_without_end(impatient):
    with (
        _small_cluster(memory_limit="20 MB") as small_cluster,
        distributed.cluster_client(small_cluster.scheduler_address) as client,
    ):
        _until(lambda: "paused" in str(client.scheduler_info()["workers"]))
        with pytest.raises(ClusterError, match=r"no worker but paused ones.*--memory-limit"):
            cluster_waiting.gather(client, [client.submit(int, 1)])


def test_workers_that_do_not_start_are_an_error(monkeypatch):
    def fail(**options):
        raise RuntimeError("Nanny failed to start.")

    monkeypatch.setattr("distributed.LocalCluster", fail)
    with (
        pytest.raises(ClusterError, match=r"the 2 worker processes did not start \(Nanny"),
        distributed.cluster_client(workers=2),
    ):
        pass


def _until(holds):
    end = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_verb_starts_and_stops_workers(store, tmp_path):
    model = tmp_path / "model.safetensors"
    arguments = ["fit", store.path, "-o", model, "--method", "ts", "--workers", 1]
    environment = dict(os.environ)
    done = CliRunner().invoke(main, [*map(str, arguments)])
    assert dict(os.environ) == environment  # Dask sets OMP_NUM_THREADS for its workers
    assert done.exit_code == 0, done.output
    assert done.stderr == ""
    assert dc.load(model).temperature_ == pytest.approx(
        dc.TemperatureScaling().fit(store).temperature_, rel=1e-10
    )


@pytest.mark.parametrize(
    ("path", "options", "status", "said"),
    [
        (
            "store",
            ["--scheduler", "tcp://127.0.0.1:9"],
            1,
            "no Dask scheduler answers at tcp://127",
        ),
        ("rows.npz", ["--workers", "2"], 1, "domaincal convert"),
        ("rows.csv", ["--scheduler", "tcp://127.0.0.1:9"], 1, "domaincal convert"),
        ("store", ["--scheduler", "tcp://127.0.0.1:9", "--workers", "2"], 2, "choose one of them"),
    ],
)
def test_what_a_verb_cannot_do_is_said(store, tmp_path, monkeypatch, path, options, status, said):
    monkeypatch.setattr("domaincal.distributed.cluster_connection.CONNECT_TIMEOUT", 0.3)
    data = store.path
    if path != "store":
        data = tmp_path / path
        dc.write(store.read().select(slice(0, 50)), data)
    model = tmp_path / "model.safetensors"
    done = CliRunner().invoke(main, ["fit", str(data), "-o", str(model), *options])
    assert done.exit_code == status
    assert said in " ".join(done.stderr.split())
    assert not model.exists()


# Last, because workers that are started again import everything again.


def _dies(data, folder, times=1):
    """Rows whose worker is killed at the third reading of row 4000, as often as ``times``."""

    def read(start, stop):
        if start <= 4000 < stop:
            with open(folder / "readings", "ab") as file:
                file.write(b".")
            if 3 <= os.path.getsize(folder / "readings") < 3 + times:
                os.kill(os.getpid(), signal.SIGKILL)
        return logits[start:stop]

    logits = data.logits
    return blocked_rows(data, read)


def test_a_killed_worker_changes_nothing(client, data, tmp_path):
    expected = dc.MultiDomainTemperatureScaling().fit(data).predict_temperature(data)
    rows = distributed.on_cluster(_dies(data, tmp_path), client)
    fitted = dc.MultiDomainTemperatureScaling().fit(rows)
    assert (tmp_path / "readings").stat().st_size > 4
    np.testing.assert_allclose(fitted.predict_temperature(data), expected, rtol=1e-10)


def test_partitions_of_a_killed_worker_are_computed_again(client, data):
    arrays = dask_arrays(data, 1000)
    client.wait_for_workers(2, timeout=30)
    rows = distributed.from_dask(arrays["logits"], arrays["labels"], client=client)
    pids = client.run(os.getpid)
    os.kill(next(iter(pids.values())), signal.SIGKILL)
    found = dc.TemperatureScaling().fit(rows).temperature_
    assert found == pytest.approx(dc.TemperatureScaling().fit(data).temperature_, rel=1e-10)


def test_a_task_that_kills_each_worker_is_an_error(client, data, tmp_path):
    def allow(n, dask_scheduler=None):
        dask_scheduler.allowed_failures = n

    rows = distributed.on_cluster(_dies(data, tmp_path, times=99), client)
    client.run_on_scheduler(allow, 0)
    try:
        with pytest.raises(ClusterError, match="died again and again in the same task"):
            dc.TemperatureScaling().fit(rows)
    finally:
        client.run_on_scheduler(allow, 3)


def _require_same_arrays(found, expected):
    for name, values in expected.items():
        size = np.abs(np.nan_to_num(values.astype(float))).max()
        np.testing.assert_allclose(found[name], values, rtol=1e-7, atol=1e-9 * size)

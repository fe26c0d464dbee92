"""Closed pipes, full disks, Ctrl-C, encodings and terminals."""

import os
import pty
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import domaincal as dc
from domaincal.cli import main as cli

COMMAND = [sys.executable, "-m", "domaincal"]
DATA, _ = dc.make_multi_domain(6, 100, 5, 4, random_state=0)


@pytest.fixture
def scores(tmp_path):
    dc.write(DATA, tmp_path / "scores.npz")
    return str(tmp_path / "scores.npz")


def _one_line(stderr):
    assert stderr.startswith("Error: ")
    assert stderr.count("\n") == 1
    assert "Traceback" not in stderr
    return stderr


@pytest.mark.parametrize("verb", [["evaluate", "--methods", "ts"], ["inspect", "--json"]])
def test_a_closed_pipe_gives_no_error(scores, verb):
    with subprocess.Popen(
        [*COMMAND, *verb, scores], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0


def test_a_failed_gate_keeps_its_exit_status_if_the_pipe_is_closed(scores):
    with subprocess.Popen(
        [*COMMAND, "evaluate", scores, "--fail-above", "-1", "--methods", "ts"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 3


def test_a_closed_stdout_gives_no_error(scores):
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m domaincal inspect {scores} >&-"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    assert done.stderr == ""


def test_tables_are_ascii_if_stdout_cannot_encode_unicode(scores):
    done = subprocess.run(
        [*COMMAND, "evaluate", scores, "--methods", "ts"], capture_output=True, check=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )  # fmt: skip
    assert b"| domain-0" in done.stdout
    assert done.stdout.isascii()


def test_file_names_that_are_not_utf_8_are_escaped(tmp_path):
    path = os.fsencode(tmp_path) + b"/bad\xff.npz"
    with open(path, "wb") as file:
        np.savez(file, logits=DATA.logits)
    for more in ([], ["--json"]):
        done = subprocess.run(
            [*COMMAND, "inspect", path, *more], capture_output=True, check=True,
            env={**os.environ, "PYTHONIOENCODING": "utf-8:strict"},
        )  # fmt: skip
        assert rb"bad\udcff.npz" in done.stdout


def test_a_closed_stderr_keeps_the_exit_status(scores):
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m domaincal evaluate {scores} --ood x 2>&-"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "Traceback" not in done.stdout


def test_output_can_be_piped_into_head(scores):
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m domaincal inspect {scores} --json | head -n 1"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "{\n"
    assert done.stderr == ""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
@pytest.mark.parametrize("verb", [["inspect"], ["evaluate", "--methods", "ts", "--json"]])
def test_a_full_disk_behind_stdout_is_one_error(scores, verb):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*COMMAND, *verb, scores], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 1
    assert "No space left on device" in _one_line(done.stderr)


@pytest.mark.parametrize(
    "arguments",
    [
        ["convert", "scores.npz", "out.csv", "--force"],
        ["apply", "model.safetensors", "scores.npz", "-o", "out.csv", "--force"],
        ["fit", "scores.npz", "-o", "model.safetensors", "--force", "--method", "md-ts:head=knn"],
    ],
)
def test_a_full_disk_leaves_the_old_output_and_no_other_files(scores, arguments):
    folder = Path(scores).parent
    calibrator = dc.TemperatureScaling().fit(DATA.logits, DATA.labels)
    calibrator.save(folder / "model.safetensors")
    (folder / "out.csv").write_text("old")
    done = subprocess.run(
        [*COMMAND, *arguments], cwd=folder, capture_output=True, text=True, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000)),
    )  # fmt: skip
    assert done.returncode == 1
    output = "out.csv" if "out.csv" in arguments else "model.safetensors"
    assert f"{output}: File too large; free some space" in _one_line(done.stderr)
    assert done.stdout == ""
    assert (folder / "out.csv").read_text() == "old"
    assert dc.load(folder / "model.safetensors").temperature_ == calibrator.temperature_
    names = sorted(p.name for p in folder.iterdir())
    assert names == ["model.safetensors", "out.csv", "scores.npz"]


@pytest.mark.skipif(not os.path.isdir("/sys/kernel"), reason="there is no /sys here")
def test_a_read_only_folder_is_named(scores):
    done = subprocess.run(
        [*COMMAND, "fit", scores, "-o", "/sys/kernel/model.safetensors"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "/sys/kernel" in _one_line(done.stderr)


def test_a_folder_without_write_permission_is_named(scores):
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    folder = Path(scores).parent / "locked"
    folder.mkdir(mode=0o500)
    done = subprocess.run(
        [*COMMAND, "convert", scores, str(folder / "x.npz")], capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert "cannot be written to" in _one_line(done.stderr)


@pytest.mark.parametrize("delay", [0.5, 1.5])
def test_ctrl_c_prints_one_line_and_leaves_no_files(tmp_path, delay):
    data, _ = dc.make_multi_domain(40, 2000, 10, 64, random_state=0)
    dc.write(data, tmp_path / "scores.npz")
    arguments = ["fit", "scores.npz", "-o", "model.safetensors", "--method", "md-ts:head=krr"]
    for _ in range(5):
        with subprocess.Popen(
            [*COMMAND, *arguments], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True,
            # A shell makes background jobs ignore Ctrl-C; the tests may be one.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        ) as process:  # fmt: skip
            time.sleep(delay)
            process.send_signal(signal.SIGINT)
            out, error = process.communicate()
        # During the import of a compiled module, that module handles the signal: try again.
        if "ImportError: initialization failed" not in error:
            break
        delay += 0.07
    # The signal itself ends Python if it comes during an exec, as in some imports.
    assert process.returncode in (130, -signal.SIGINT)
    assert out == ""
    assert "Traceback" not in error
    assert error.strip().endswith("Interrupted.")
    assert [p.name for p in tmp_path.iterdir()] == ["scores.npz"]


def _on_a_terminal(arguments, cwd):
    """Run with stderr on a terminal and stdout in a pipe; returns the text of each."""
    main, side = pty.openpty()
    with subprocess.Popen(
        [*COMMAND, *arguments], cwd=cwd, stdout=subprocess.PIPE, stderr=side,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "80"},
    ) as process:  # fmt: skip
        os.close(side)
        shown = b""
        try:
            while part := os.read(main, 4096):
                shown += part
        except OSError:  # the terminal was closed
            pass
        out = process.stdout.read()
    os.close(main)
    assert process.returncode == 0
    return out.decode(), shown.decode()


def test_progress_is_shown_on_a_terminal_only(scores, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    arguments = ["evaluate", scores, "--leave-one-domain-out", "--methods", "ts,md-ts"]
    out, shown = _on_a_terminal(arguments, Path(scores).parent)
    assert "fitting and scoring" in shown
    assert "100%" in shown
    done = CliRunner().invoke(cli, arguments)  # its streams are no terminals
    assert done.stdout == out
    assert done.stderr == ""


def test_making_the_data_has_its_own_progress_bar(tmp_path):
    (tmp_path / "own.py").write_text(
        "import time\nimport domaincal as dc\n"
        "def load(track):\n"
        "    for _ in track(range(4)):\n"
        "        time.sleep(0.2)\n"
        "    return dc.make_multi_domain(3, 50)[0]\n"
    )
    (tmp_path / "own.toml").write_text('name = "own"\ndata = {net = {source = "own.py:load"}}')
    arguments = ["reproduce", "summary", "--experiment", "own.toml", "--allow-code", "-o", "out"]
    out, shown = _on_a_terminal(arguments, tmp_path)
    assert "making the data" in shown
    assert "fitting and scoring" in shown
    assert out.startswith("Per-domain ECE")


def test_two_processes_print_the_same(scores):
    arguments = ["evaluate", scores, "--json"]
    other = subprocess.run([*COMMAND, *arguments], capture_output=True, check=True)
    assert other.stdout == CliRunner().invoke(cli, arguments).stdout_bytes


def test_too_little_memory_is_one_error(tmp_path):
    np.savez(tmp_path / "scores.npz", logits=np.zeros((200_000, 100)))
    done = subprocess.run(
        [*COMMAND, "convert", "scores.npz", "x.npz"], cwd=tmp_path, capture_output=True, text=True,
        check=False, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (250 << 20, 250 << 20)),
    )  # fmt: skip
    assert done.returncode == 1
    assert "scores.npz takes more memory than there is" in _one_line(done.stderr)

"""The command ``domaincal`` without a verb: help, version, exit status, imports."""

import subprocess
import sys
import threading
import warnings

import numpy as np
import pytest
from click.testing import CliRunner

import domaincal as dc
from domaincal.cli import main
from domaincal.cli.console import warnings_in_one_line
from domaincal.errors import BoundaryWarning


def _run(*arguments):
    return CliRunner().invoke(main, list(arguments))


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["demo", "--help"], ["--version"]])
def test_help_and_version_exit_with_0(arguments):
    result = _run(*arguments)
    assert result.exit_code == 0
    assert result.output


def test_usage_errors_exit_with_2():
    assert _run("nonsense").exit_code == 2
    assert _run("demo", "--seed", "x").exit_code == 2
    assert _run("demo", "--seed", "-1").exit_code == 2


def test_help_imports_nothing_heavy():
    script = (
        "import sys\nfrom domaincal.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "print([m for m in ('numpy', 'pandas', 'sklearn', 'numba') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_python_m_domaincal_runs_the_command_line():
    done = subprocess.run(
        [sys.executable, "-m", "domaincal", "--version"], capture_output=True, text=True, check=True
    )
    assert "domaincal" in done.stdout


def test_an_interrupt_is_one_line_and_exit_status_130(tmp_path, monkeypatch):
    """click alone prints "Aborted!" and exits with 1, as for any error."""
    np.savez(tmp_path / "s.npz", logits=np.eye(3))

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("domaincal.io.formats.read_rows", interrupted)
    monkeypatch.setattr("domaincal.io.inspection.read_rows", interrupted)
    out = str(tmp_path / "model.safetensors")
    for arguments in (["inspect"], ["evaluate"], ["fit", "-o", out], ["convert", str(tmp_path)]):
        order = [arguments[0], str(tmp_path / "s.npz"), *arguments[1:]]
        if arguments[0] == "convert":
            order[-1] = str(tmp_path / "t.npz")
        result = _run(*order)
        assert result.exit_code == 130, (order, result.output)
        assert result.stderr == "Interrupted.\n"
        assert result.stdout == ""
    assert [p.name for p in tmp_path.iterdir()] == ["s.npz"]


def test_no_filter_of_warnings_is_changed(capsys):
    """Filters are global: one that a thread puts back late stays for ever."""
    before, shown = list(warnings.filters), warnings.showwarning
    inside = []

    def run(number):
        from domaincal._warnings import warn_caller

        with warnings_in_one_line():
            for k in range(3):
                warn_caller(f"thread {number}: row {k} is at the boundary", BoundaryWarning)
            inside.append((list(warnings.filters) == before, warnings.showwarning is shown))

    threads = [threading.Thread(target=run, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert inside == [(True, True)] * 8
    lines = capsys.readouterr().err.splitlines()
    assert sum("is at the boundary" in line for line in lines) == 8
    assert sum("2 more like this" in line for line in lines) == 8


def test_warnings_of_other_libraries_go_their_own_way(tmp_path, monkeypatch):
    np.savez(tmp_path / "s.npz", logits=np.eye(3))
    read_rows = dc.io.formats.read_rows

    def warning(*arguments, **options):
        warnings.warn("of another library", UserWarning, stacklevel=1)
        return read_rows(*arguments, **options)

    monkeypatch.setattr("domaincal.io.inspection.read_rows", warning)
    with pytest.warns(UserWarning, match="of another library"):
        result = _run("inspect", str(tmp_path / "s.npz"))
    assert "of another library" not in result.stderr

"""The command ``domaincal`` without a verb: help, version, exit status, imports."""

import subprocess
import sys

import pytest
from click.testing import CliRunner

from domaincal.cli import main


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

"""The command line as a user meets it."""

import json
import re
import subprocess
import sys

import pytest
from click.testing import CliRunner

from domaincal.cli import main
from domaincal.experiments.demo import run_demo


def _run(*arguments):
    return CliRunner().invoke(main, list(arguments))


def test_demo_prints_the_table_of_every_domain():
    result = _run("demo")
    assert result.exit_code == 0
    seen, unseen = result.output.split("OOD domains")
    assert len(re.findall(r"domain-\d\d", seen)) == 20
    assert len(re.findall(r"domain-\d\d", unseen)) == 10
    tables = [line for line in result.output.splitlines() if line[0] in "┏┃┡│├└"]
    assert max(map(len, tables)) <= 80
    assert "On 10 unseen domains MD-TS has a lower mean ECE than TS" in result.output


def test_demo_as_json_is_the_results_table():
    result = _run("demo", "--seed", "3", "--json")
    document = json.loads(result.output)
    assert (document["document"], document["version"]) == ("domaincal demo", 1)
    records = document["table"]
    table = run_demo(3).table
    assert len(records) == len(table) == 90
    assert records[7]["ece"] == pytest.approx(table.loc[7, "ece"])
    assert {"method", "domain", "n", "kind", "true_temperature"} <= set(records[0])


def test_the_sentence_says_so_when_md_ts_loses():
    result = run_demo(0)
    lost = result.table.assign(
        method=result.table["method"].map({"TS": "MD-TS", "MD-TS": "TS", "MSP": "MSP"})
    )
    assert "MD-TS has a higher mean ECE" in type(result)(lost).sentence()


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["demo", "--help"], ["--version"]])
def test_help(arguments):
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


def test_python_dash_m():
    done = subprocess.run(
        [sys.executable, "-m", "domaincal", "--version"], capture_output=True, text=True, check=True
    )
    assert "domaincal" in done.stdout

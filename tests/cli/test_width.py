"""Output in files and pipes: at most 80 columns, and ASCII in the locale C."""

import os

import numpy as np
import pytest
from click.testing import CliRunner
from rich.cells import cell_len

import domaincal as dc
from domaincal.cli import main
from domaincal.cli.console import warnings_in_one_line
from domaincal.cli.table_layout import Section, print_numbers
from domaincal.errors import BoundaryWarning
from domaincal.experiments.text_table import Block, Line, TextTable
from support import small_domains

DATA = small_domains(n_rows=60)
LONG = "hospital-of-the-university-of-a-place-with-a-long-name-and-a-long-street"
METHODS = [f"md-ts:head=ridge:target={t}:fit_intercept=true" for t in ("log", "inverse")]


@pytest.fixture(autouse=True)
def _width_of_pipes(monkeypatch):
    monkeypatch.delenv("COLUMNS")


@pytest.fixture
def scores(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    domains = np.char.add(f"{LONG}-", DATA.domains.astype(str))
    data = dc.CalibrationData(
        DATA.logits, labels=DATA.labels, features=DATA.features, domains=domains
    )
    dc.write(data, "scores.npz")
    return "scores.npz"


def lines_of(*arguments, code=0):
    result = CliRunner().invoke(main, list(arguments))
    assert result.exit_code == code, (result.output, result.exception)
    return result.output.splitlines()


def assert_narrow(lines):
    wide = [line for line in lines if len(line) > 80]
    assert not wide, wide


@pytest.mark.parametrize("locale", ["C.UTF-8", "C"])
def test_evaluate_is_at_most_80_columns_wide(scores, monkeypatch, locale):
    monkeypatch.setenv("LC_ALL", locale)
    methods = ["msp", "ts", *METHODS, "vector", "isotonic"]
    arguments = ["evaluate", scores, "--methods", ",".join(methods), "--fail-above", "100%"]
    lines = lines_of(*arguments)
    assert_narrow(lines)
    text = "\n".join(lines)
    assert text.isascii() == (locale == "C")
    assert (" +- " in text) == (locale == "C")
    table = dc.evaluate_split({"ts": dc.TemperatureScaling()}, dc.read(scores))
    for ece in table["ece"]:
        assert f" {100 * ece:.2f} " in text
    # Nothing of a name is lost: it is folded inside its column.
    joined = "".join(line.strip("│┃| ") for line in lines)
    for target in ("log", "inverse"):
        assert f"target={target}:" in joined
    cells = "".join(line.split("│" if locale != "C" else "|")[1].strip()
                    for line in lines if line.startswith(("│", "|")))  # fmt: skip
    for domain in np.unique(dc.read(scores).domains):
        assert domain in cells


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["inspect", "scores.npz"], 0),
        (["fit", "scores.npz", "-o", "m.safetensors", "--method", METHODS[0]], 0),
        (["convert", "scores.npz", "scores.csv"], 0),
        (["evaluate", "scores.npz", "--ood", "night-*"], 1),
        (["evaluate", "scores.npz", "--fail-above", "5"], 2),
        (["evaluate", "scores.npz", "--model", "m.safetensors", "--methods", "ts"], 2),
        (["reproduce", "--list"], 0),
    ],
)
def test_other_output_is_at_most_80_columns_wide(scores, arguments, code):
    # The names of the domains, of 81 characters, are words that cannot be broken.
    lines = lines_of(*arguments, code=code)
    assert_narrow(line for line in lines if LONG not in line)


@pytest.mark.parametrize(
    "verb",
    ["", "demo", "inspect", "convert", "fit", "apply", "evaluate", "report", "export", "train",
     "extract", "corrupt", "reproduce"],
)  # fmt: skip
def test_help_is_at_most_80_columns_wide(verb):
    lines = lines_of(*([verb] if verb else []), "--help")
    assert_narrow(lines)
    assert "\n".join(lines).isascii()


def test_columns_sets_the_width_of_files(scores, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    lines = lines_of("evaluate", scores, "--methods", "ts")
    assert 50 < max(map(len, lines)) <= 60


def test_columns_that_do_not_fit_follow_in_another_table(monkeypatch, capsys):
    names = [f"method-{k}" for k in range(14)]
    rows = [["night", *(f"{k}.25" for k in range(14))]]
    print_numbers("Title", ["domain", *names], [Section("", rows)])
    lines = capsys.readouterr().out.splitlines()
    assert_narrow(lines)
    text = "\n".join(lines)
    assert all(text.count(name + " ") == 1 for name in names)
    assert all(text.count(f" {k}.25 ") == 1 for k in range(14))
    tables = text.count("Title")
    assert tables > 1
    assert text.count("night") == tables


def test_a_table_of_the_paper_is_printed_in_parts_that_fit():
    numbers = tuple(f"{k}.25 ± 0.10" for k in range(9))
    line = Line("OOD (45)", numbers, best=8)
    names = tuple(f"method {k}" for k in range(9))
    table = TextTable("Title", "domains", names, (Block("mine: one unseen", (line,)),))
    assert max(map(len, table.text_lines())) > 80
    lines = table.text_lines(80, lambda text: text.replace("±", "+-"))
    assert_narrow(lines)
    text = "\n".join(lines)
    for k in range(9):
        assert text.count(f"{k}.25 +- 0.10") == text.count(f"method {k}") == 1
    assert "8.25 +- 0.10*" in text


def test_signs_of_two_columns_are_counted_as_two(capsys):
    columns = ["domain", *(f"{k}{'漢字' * 8}" for k in range(3))]
    print_numbers("Title", columns, [Section("", [["漢字" * 20, "1.25", "2.25", "3.25"]])])
    out = capsys.readouterr().out
    assert max(map(cell_len, out.splitlines())) <= 80
    assert all(f" {k}.25 " in out for k in (1, 2, 3))
    assert "…" not in out


def test_numbers_are_never_cut(capsys):
    number = "1234567890.12 ± 1234567890.12"
    print_numbers("Title", ["name", "a", "b", "c"], [Section("", [[LONG, *[number] * 3]])])
    out = capsys.readouterr().out
    assert out.count(number) == 3
    assert_narrow(out.splitlines())


@pytest.mark.parametrize(
    ("variables", "is_ascii"),
    [
        ({"LANG": "C"}, True),
        ({"LANG": "POSIX"}, True),
        ({"LANG": "en_GB.UTF-8", "LC_ALL": "C"}, True),
        ({"LANG": "C", "LC_CTYPE": "C.UTF-8"}, True),  # Python sets LC_CTYPE in the locale C
        ({"LANG": "C", "LC_CTYPE": "de_DE.UTF-8"}, False),
        ({"LANG": "C", "PYTHONIOENCODING": "utf-8"}, False),
        ({"LANG": "C.UTF-8"}, False),
        ({}, False),
    ],
)
def test_the_locale_c_gets_ascii(scores, monkeypatch, variables, is_ascii):
    for name in ("LANG", "LC_ALL", "LC_CTYPE", "PYTHONIOENCODING", "PYTHONUTF8"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    text = "\n".join(lines_of("inspect", scores))
    assert text.isascii() == is_ascii
    assert ("┃" in text) != is_ascii
    assert os.environ.get("LANG") == variables.get("LANG")


def test_a_warning_is_printed_once_with_all_its_methods(tmp_path):
    few = DATA.select(np.r_[0:120, 120:124, 180:360])
    dc.write(few, tmp_path / "scores.npz")
    path = str(tmp_path / "scores.npz")
    result = CliRunner().invoke(main, ["evaluate", path, "--methods", "domain-ts,mixture"])
    said = " ".join(result.stderr.split())
    assert said.count("fewer than 10 rows in domain 'domain-2'") == 1
    assert "warning: domain-ts, mixture: fewer than 10 rows" in said


def test_of_warnings_that_differ_in_names_and_numbers_one_is_printed(capsys):
    from domaincal._warnings import warn_caller

    with warnings_in_one_line():
        for names in ("domain 'a'", "domains 'a', \"b's\"", "domains 1, 2 and 3 more", "domain 4"):
            warn_caller(f"few rows in {names}: merge them.", BoundaryWarning)
    said = capsys.readouterr().err
    assert said == "warning: few rows in domain 'a': merge them.\nwarning: 3 more like this\n"

"""The Python blocks of the docs run, and so do the scripts of examples/ that need no data set."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = {"sklearn_classifier": "joblib", "lightgbm_classifier": "lightgbm",
           "xgboost_classifier": "xgboost"}  # fmt: skip


def _blocks():
    text = (ROOT / "docs/scikit-learn.md").read_text()
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", text, re.DOTALL)):
        yield pytest.param(block, id=str(number))


@pytest.mark.parametrize("block", list(_blocks()))
@pytest.mark.filterwarnings("ignore::domaincal.DomaincalWarning")  # small random data
def test_the_blocks_of_the_page_on_scikit_learn_run(block):
    exec(compile(block, "docs/scikit-learn.md", "exec"), {})


@pytest.fixture(scope="module")
def patients(tmp_path_factory):
    """Folder with patients.csv."""
    folder = tmp_path_factory.mktemp("patients")
    make = runpy.run_path(str(ROOT / "examples/make_patients.py"))["main"]
    make(str(folder / "patients.csv"))
    return folder


@pytest.mark.parametrize(("script", "package"), SCRIPTS.items(), ids=SCRIPTS)
def test_the_scripts_of_classifiers_run(script, package, patients, monkeypatch, capsys):
    pytest.importorskip(package)
    monkeypatch.chdir(patients)
    runpy.run_path(str(ROOT / f"examples/{script}.py"), run_name="__main__")
    assert (patients / "calibrator.safetensors").exists()
    assert capsys.readouterr().out

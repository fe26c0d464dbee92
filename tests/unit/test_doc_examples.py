"""The Python blocks of the docs run, and so do the scripts of examples/ that need no data set."""

import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = {"sklearn_classifier": "joblib", "lightgbm_classifier": "lightgbm",
           "xgboost_classifier": "xgboost"}  # fmt: skip


def _blocks(page):
    """Each Python block of a page, and the block of text after it, if it follows at once."""
    text = (ROOT / page).read_text()
    found = re.findall(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```)?", text, re.DOTALL)
    return [pytest.param(*block, id=str(number)) for number, block in enumerate(found)]


@pytest.mark.parametrize(("block", "printed"), _blocks("docs/scikit-learn.md"))
@pytest.mark.filterwarnings("ignore::domaincal.DomaincalWarning")  # small random data
def test_the_blocks_of_the_page_on_scikit_learn_run(block, printed):
    exec(compile(block, "docs/scikit-learn.md", "exec"), {})


@pytest.mark.parametrize(("block", "printed"), _blocks("docs/monitor.md"))
def test_the_page_on_streams_prints_what_it_shows(block, printed, capsys):
    exec(compile(block, "docs/monitor.md", "exec"), {})
    assert capsys.readouterr().out == printed


@pytest.mark.parametrize(("block", "printed"), _blocks("docs/deploy.md"))
@pytest.mark.filterwarnings("ignore::domaincal.DomaincalWarning")  # small random data
def test_the_page_on_torch_prints_what_it_shows(block, printed, capsys, tmp_path, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)  # a block writes files
    exec(compile(block, "docs/deploy.md", "exec"), {})
    assert capsys.readouterr().out == printed


def test_the_script_of_a_torch_model_runs(tmp_path, monkeypatch, capsys):
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(ROOT / "examples/torch_model.py"), run_name="__main__")
    printed = capsys.readouterr().out
    before, after = zip(
        *re.findall(r"([\d.]+)% -> *([\d.]+)%$", printed, re.MULTILINE), strict=True
    )
    assert sum(map(float, after)) < 0.7 * sum(map(float, before))
    assert set(torch.load("calibrated.pt")) >= {"model.0.weight", "calibrator.map.coef"}


@pytest.mark.parametrize(("block", "printed"), _blocks("docs/onnx.md"))
@pytest.mark.filterwarnings("ignore::domaincal.DomaincalWarning")  # small random data
def test_the_page_on_onnx_prints_what_it_shows(block, printed, monkeypatch, tmp_path, capsys):
    pytest.importorskip("onnxruntime")
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "docs/onnx.md", "exec"), {})
    assert capsys.readouterr().out == printed


def test_the_script_of_an_onnx_classifier_runs(tmp_path, monkeypatch, capsys):
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(ROOT / "examples/onnx_digits.py"), run_name="__main__")
    before, after = zip(
        *re.findall(r"([\d.]+)% -> *([\d.]+)%$", capsys.readouterr().out, re.MULTILINE), strict=True
    )
    assert sum(map(float, after)) < 0.7 * sum(map(float, before))
    outputs = [one.name for one in onnx.load("calibrated.onnx").graph.output]
    assert outputs == ["logits", "features", "probabilities", "confidence", "temperature"]


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


@pytest.mark.skipif(shutil.which("awk") is None, reason="needs awk")
def test_the_script_of_csv_files_runs(patients):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", ROOT / "examples/csv_files.sh"], cwd=patients, capture_output=True, text=True,
        check=False, env={**os.environ, "PATH": path},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    kept = (patients / "calibrated.csv").read_text().splitlines()
    assert kept[0].startswith("case,site,outcome,x_fever")
    assert len(kept) == 1001


@pytest.mark.parametrize(("block", "printed"), _blocks("README.md"))
def test_the_readme_prints_what_it_shows(block, printed, patients, monkeypatch, capsys):
    if "plots" in block:
        pytest.importorskip("matplotlib")
    monkeypatch.chdir(patients)
    exec(compile(block, "README.md", "exec"), {})
    assert capsys.readouterr().out == printed


def test_the_readme_takes_two_minutes():
    assert len((ROOT / "README.md").read_text().splitlines()) < 150

"""Names, imports, the README, and what a bare install promises."""

import importlib
import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import domaincal as dc
from domaincal._optional import require
from domaincal.statistics.blocks import thread_count

ROOT = Path(__file__).parents[2]


#: Packages one level down whose names are public, too.
ROOMS = ("datasets", "experiments", "metrics", "plots", "vision")
#: Results that a function returns: the example is there.
RETURNED = (
    "CorruptedFolder", "DomainTable", "Experiment", "Extraction", "ReliabilityCurve", "Results",
    "Training", "load_network", "save_network", "train",
)  # fmt: skip


def _public_names():
    yield from (("domaincal", n) for n in dc.__all__ if n not in (*ROOMS, "errors", "__version__"))
    for room in ROOMS:
        yield from ((f"domaincal.{room}", n) for n in getattr(dc, room).__all__)


@pytest.mark.parametrize(("module", "name"), list(_public_names()))
def test_every_public_name_is_documented_with_an_example(module, name):
    try:
        thing = getattr(importlib.import_module(module), name)
    except dc.errors.MissingDependencyError as missing:
        pytest.skip(str(missing))
    assert thing.__doc__
    if name in RETURNED or isinstance(thing, dict):
        return
    if isinstance(thing, type) and issubclass(thing, Exception | tuple):
        return
    assert ">>>" in thing.__doc__


def test_the_front_door_is_small():
    assert len(dc.__all__) <= 60
    assert not {"plot_reliability", "ImageSet", "Experiment", "InputError"} & set(dc.__all__)


def test_unknown_names_and_version():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        dc.nonsense  # noqa: B018
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert dc.__version__ == project["version"]
    assert set(dc.__all__) <= set(dir(dc))


def _loaded_after(code):
    script = f"import sys\n{code}\nprint('\\n'.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_import_is_light():
    assert not _loaded_after("import domaincal") & {"numpy", "pandas", "sklearn", "numba", "scipy"}


def test_small_fits_do_not_load_numba():
    code = (
        "import domaincal as dc\n"
        "data, _ = dc.make_multi_domain(4, 100)\n"
        "dc.MultiDomainTemperatureScaling().fit(data.logits, data.labels,"
        " features=data.features, domains=data.domains)"
    )
    assert "numba" not in _loaded_after(code)


def test_nothing_optional_is_loaded():
    code = "import domaincal as dc\n[getattr(dc, name) for name in dc.__all__]"
    extras = {"torch", "dask", "zarr", "pyarrow", "matplotlib", "plotly", "jinja2", "onnx"}
    # pandas itself loads pyarrow where it finds it.
    loaded = _loaded_after(code) - _loaded_after("import pandas, sklearn.base")
    assert not {name for name in loaded if name.split(".")[0] in extras}


def test_a_missing_package_names_its_extra():
    with pytest.raises(dc.errors.MissingDependencyError, match=r"pip install 'domaincal\[zarr\]'"):
        require("no_such_package", extra="zarr", purpose="reading a .zarr store")


def test_a_package_that_fails_when_it_is_imported(tmp_path, monkeypatch):
    (tmp_path / "built_for_another.py").write_text("raise RuntimeError('no such operator')")
    monkeypatch.syspath_prepend(tmp_path)
    message = (
        r"drawing needs .* 'built_for_another', .* \(RuntimeError: no such operator\); .*again"
    )
    with pytest.raises(dc.errors.MissingDependencyError, match=message):
        require("built_for_another", extra="plots", purpose="drawing")


@pytest.mark.parametrize("name", ["NUMBA_NUM_THREADS", "OMP_NUM_THREADS"])
def test_threads_are_limited_by_the_environment(name, monkeypatch):
    for other in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(other, raising=False)
    cores = thread_count()
    for value, expected in [("1", 1), ("", cores), ("0", cores), ("x", cores), ("999", cores)]:
        monkeypatch.setenv(name, value)
        assert thread_count() == expected


def test_the_error_tree():
    assert issubclass(dc.errors.InputError, ValueError)
    assert issubclass(dc.errors.MissingDependencyError, ImportError)
    for name in ("BoundaryWarning", "SmallDomainWarning", "UnseenDomainWarning"):
        assert issubclass(getattr(dc, name), dc.DomaincalWarning)


def test_the_example_of_the_readme_runs(capsys):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert blocks
    has_torch = importlib.util.find_spec("torch") is not None
    for block in blocks:
        if has_torch or "import torch" not in block:
            exec(compile(block, "README.md", "exec"), {})
    assert "MD-TS" in capsys.readouterr().out


def test_tracked_files_name_no_machine():
    """No index address, no machine path, no shared folder in what users get."""
    # Joined, so that this file passes too.
    parts = [("index-", "url"), ("find-", "links"), ("file:/", "//"), ("/simp", "le/"),
             ("../sha", "red"), ("/ro", "ot/"), ("/wo", "rk/")]  # fmt: skip
    forbidden = re.compile("|".join(re.escape("".join(pair)) for pair in parts))
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("not a git checkout")
    for name in listed.stdout.split():
        if (ROOT / name).is_file():
            found = forbidden.search((ROOT / name).read_text(errors="replace"))
            assert not found, (name, found)


def test_the_house_of_contributing_is_that_of_pyproject():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = project["tool"]["importlinter"]["contracts"]
    layers = next(c["layers"] for c in contracts if c["type"] == "layers")
    text = (ROOT / "CONTRIBUTING.md").read_text()
    drawn = re.search(r"```\n(cli .*?)```", text, re.DOTALL).group(1).splitlines()
    assert [re.split(r"  +", line)[0] for line in drawn] == layers


def test_the_modules_of_the_walk_are_there():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    walk = text[text.index("### The walk of one row") : text.index("### Words")]
    named = re.findall(r"`([a-z_]+/[a-z_]+\.py)`", walk)
    assert len(named) > 30
    assert [name for name in named if not (ROOT / "src/domaincal" / name).is_file()] == []

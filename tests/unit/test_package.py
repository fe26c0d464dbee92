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

#: Packages one level down whose names are public.
PACKAGES = (
    "datasets", "deploy", "distributed", "experiments", "metrics", "plots", "report", "shift",
    "vision",
)  # fmt: skip
#: Results of functions whose examples show them, and functions that need a trained network.
RETURNED = (
    "CorruptedFolder", "Experiment", "Extraction", "Results", "Training", "load_network",
    "SiteAnswers", "save_network", "train",
)  # fmt: skip


def _public_names():
    yield from (
        ("domaincal", n) for n in dc.__all__ if n not in (*PACKAGES, "errors", "__version__")
    )
    for package in PACKAGES:
        module = f"domaincal.{package}"
        yield from ((module, n) for n in importlib.import_module(module).__all__)


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


def test_the_top_level_has_at_most_64_names():
    assert len(dc.__all__) <= 64
    assert not {"plot_reliability", "ImageSet", "Experiment", "InputError"} & set(dc.__all__)


def test_an_unknown_name_raises_an_attribute_error():
    with pytest.raises(AttributeError, match="nonsense"):
        dc.nonsense  # noqa: B018
    assert not hasattr(dc, "nonsense")


def test_dir_lists_the_public_names():
    assert set(dc.__all__) <= set(dir(dc))


def test_the_version_is_that_of_pyproject():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert dc.__version__ == project["version"]


def _loaded_after(code):
    script = f"import sys\n{code}\nprint('\\n'.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_the_import_loads_no_heavy_package():
    assert not _loaded_after("import domaincal") & {"numpy", "pandas", "sklearn", "numba", "scipy"}


def test_small_fits_do_not_load_numba():
    code = (
        "import domaincal as dc\n"
        "data, _ = dc.make_multi_domain(4, 100)\n"
        "dc.MultiDomainTemperatureScaling().fit(data.logits, data.labels,"
        " features=data.features, domains=data.domains)"
    )
    assert "numba" not in _loaded_after(code)


def test_public_names_load_no_optional_package():
    code = "import domaincal as dc\n[getattr(dc, name) for name in dc.__all__]"
    extras = {"torch", "dask", "zarr", "pyarrow", "matplotlib", "plotly", "jinja2", "onnx"}
    # pandas loads pyarrow if it is installed.
    loaded = _loaded_after(code) - _loaded_after("import pandas, sklearn.base")
    assert not {name for name in loaded if name.split(".")[0] in extras}


def test_the_error_of_a_missing_package_names_its_extra():
    with pytest.raises(dc.errors.MissingDependencyError, match=r"pip install 'domaincal\[zarr\]'"):
        require("no_such_package", extra="zarr", purpose="reading a .zarr store")


def test_the_error_of_a_package_that_fails_on_import_gives_the_reason(tmp_path, monkeypatch):
    (tmp_path / "built_for_another.py").write_text("raise RuntimeError('no such operator')")
    monkeypatch.syspath_prepend(tmp_path)
    message = (
        r"drawing needs .* 'built_for_another', .* \(RuntimeError: no such operator\); .*again"
    )
    with pytest.raises(dc.errors.MissingDependencyError, match=message):
        require("built_for_another", extra="plots", purpose="drawing")


@pytest.mark.parametrize("name", ["NUMBA_NUM_THREADS", "OMP_NUM_THREADS"])
def test_the_environment_limits_the_number_of_threads(name, monkeypatch):
    for other in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(other, raising=False)
    cores = thread_count()
    for value, expected in [("1", 1), ("", cores), ("0", cores), ("x", cores), ("999", cores)]:
        monkeypatch.setenv(name, value)
        assert thread_count() == expected


def test_errors_and_warnings_have_one_base_class_each():
    classes = [c for c in vars(dc.errors).values() if isinstance(c, type)]
    for found in classes:
        base = dc.DomaincalWarning if issubclass(found, Warning) else dc.DomaincalError
        assert issubclass(found, base)
    assert len(classes) >= 10
    assert issubclass(dc.errors.InputError, ValueError)
    assert issubclass(dc.errors.FileFormatError, ValueError)
    assert issubclass(dc.errors.MissingDependencyError, ImportError)
    assert issubclass(dc.DomaincalWarning, UserWarning)


def test_tracked_files_contain_no_machine_paths():
    """No address of a package index, no path of a machine, no shared folder."""
    # The patterns are joined here, so that this file does not match.
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

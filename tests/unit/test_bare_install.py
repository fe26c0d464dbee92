"""The library without extras: modules import, main functions run, errors name the extra.

``make bare`` runs this file in an environment without extras, where an unguarded import of an
optional package fails.
"""

import importlib
import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import domaincal as dc
import domaincal.deploy
from domaincal import metrics
from domaincal.cli import main
from domaincal.report import page
from support import CALIBRATORS, fit, given, small_domains

pytestmark = pytest.mark.filterwarnings("ignore::domaincal.DomaincalWarning")

#: Modules that need torch: all that work with networks or tensors of images, and torch modules.
NEED_TORCH = (
    "domaincal.deploy.calibrated_model",
    "domaincal.kernels.triton_",
    "domaincal.vision.corruptions.torch_corruptions",
    "domaincal.vision.extraction",
    "domaincal.vision.image_batches",
    "domaincal.vision.networks",
    "domaincal.vision.training",
)


def _modules():
    root = Path(dc.__file__).parent
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root.parent).with_suffix("").parts
        if parts[-1] != "__main__":
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_every_module_imports_without_extras_or_needs_torch():
    missing = {}
    for name in _modules():
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            missing[name] = error.name
        except dc.errors.MissingDependencyError as error:
            missing[name] = error.__cause__.name
    assert set(missing.values()) <= {"torch", "triton"}, missing
    for name in missing:
        assert name.startswith(NEED_TORCH) or name.endswith(("_module", "_modules")), missing


@pytest.mark.parametrize("name", CALIBRATORS)
def test_every_calibrator_fits_predicts_and_is_saved(name, tmp_path):
    data = small_domains(n_domains=4, n_rows=40)
    calibrator = fit(CALIBRATORS[name](), data)
    expected = calibrator.predict_proba(data.logits, **given(data))
    if name == "md-ts-instance":  # a head of the user is not saved
        return
    calibrator.save(tmp_path / "model.safetensors")
    loaded = dc.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(loaded.predict_proba(data), expected)
    assert loaded._repr_html_()


def test_large_fits_use_the_compiled_kernels():
    data, _ = dc.make_multi_domain(4, 20_000, 10, random_state=0)
    calibrator = fit(dc.DomainTemperatureScaling(), data)
    confidence = calibrator.predict_confidence(data.logits, domains=data.domains)
    metrics.confidence_calibration_error(confidence, data.labels == data.logits.argmax(axis=1))
    assert "numba" in sys.modules


def test_data_are_read_written_inspected_and_converted(tmp_path):
    data = small_domains()
    for name in ("scores.npz", "scores.csv", "scores"):
        dc.write(data, tmp_path / name)
        assert len(dc.read(tmp_path / name)) == len(data)
        assert dc.inspect(tmp_path / name).n_rows == len(data)
    dc.convert(tmp_path / "scores.csv", tmp_path / "again.npz")
    dc.Store(tmp_path / "scores").append(data)
    assert len(dc.Store(tmp_path / "scores")) == 2 * len(data)


def test_evaluations_comparisons_and_tables_run():
    data = small_domains()
    methods = {"TS": dc.TemperatureScaling(), "MD-TS": dc.MultiDomainTemperatureScaling()}
    table = dc.evaluate_split(methods, data, ood="*-5")
    assert len(dc.evaluate_leave_one_domain_out(methods, data)) == 2 * 6
    assert dc.compare_methods(table, "MD-TS", "TS").n_domains >= 1
    assert len(dc.summary_table(table))
    model = fit(dc.TemperatureScaling(), data)
    p = model.predict_proba(data.logits)
    hits = p.argmax(axis=1) == data.labels
    assert len(dc.compare_domains(metrics.bins_by_domain(p.max(axis=1), hits, data.domains))) == 6
    for name in ("calibration_error_interval", "smooth_calibration_error", "brier_decomposition",
                 "classwise_calibration_error", "debiased_squared_calibration_error"):  # fmt: skip
        getattr(metrics, name)(p, data.labels)
    dc.reliability_curve(p, data.labels)


def test_the_package_holds_the_files_of_the_page():
    for folder, names in (("js", page.SCRIPTS), ("css", page.STYLES)):
        assert all(page.asset(f"{folder}/{name}") for name in names)
    for name, _, _ in page.SECTIONS:
        if name not in ("verdict", "missing"):
            assert page.asset(f"sections/{name}.html")


@pytest.mark.parametrize("verb", main.commands)
def test_every_verb_has_help(verb):
    assert CliRunner().invoke(main, [verb, "--help"]).exit_code == 0


def test_an_experiment_is_reproduced_without_figures(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    dc.write(small_domains(), tmp_path / "mine.npz")
    (tmp_path / "mine.toml").write_text(
        'name = "mine"\ndata = {net = "mine.npz"}\npartitions = [{name = "p", ood = ["*-5"]}]'
    )
    arguments = ["reproduce", "all", "--experiment", str(tmp_path / "mine.toml"), "--repeats", "1",
                 "-o", str(tmp_path / "out")]  # fmt: skip
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    assert (tmp_path / "out/summary.csv").exists()


MISSING = {
    "write parquet": ("pyarrow", "parquet", lambda f: dc.write(small_domains(), f / "x.parquet")),
    "write zarr": ("zarr", "zarr", lambda f: dc.write(small_domains(), f / "x.zarr")),
    "read zarr": ("zarr", "zarr", lambda f: dc.read((f / "x.zarr").mkdir() or f / "x.zarr")),
    "plot": ("matplotlib", "plots", lambda _: dc.plots.plot_reliability(
        dc.reliability_curve([[0.7, 0.3]], [0]))),
    "corrupt": ("imagecorruptions", "corruptions", lambda _: dc.vision.corrupt(
        np.zeros((1, 32, 32, 3), np.uint8), "fog", 1)),
    "digits": ("imagecorruptions", "corruptions", lambda _: dc.vision.load_digits_c()),
    "network": ("torch", "torch", lambda _: dc.vision.create_network),
    "train": ("torch", "torch", lambda _: dc.vision.train),
    "extract": ("torch", "torch", lambda _: dc.vision.extract),
    "to_torch": ("torch", "torch", lambda _: dc.MaxSoftmax().fit(small_domains()).to_torch()),
    "calibrated": ("torch", "torch", lambda _: domaincal.deploy.CalibratedModel),
    "onnx": ("onnx", "onnx", lambda f: domaincal.deploy.export_onnx(
        dc.MaxSoftmax().fit(small_domains()), f / "x.onnx")),
    "page": ("plotly", "report", lambda _: page.render({})),
}  # fmt: skip


@pytest.mark.parametrize(("package", "extra", "call"), MISSING.values(), ids=MISSING)
def test_the_error_of_a_missing_package_names_the_extra(package, extra, call, tmp_path):
    if importlib.util.find_spec(package):
        pytest.skip(f"{package} is installed")
    with pytest.raises(dc.errors.MissingDependencyError, match=rf"domaincal\[{extra}\]"):
        call(tmp_path)


VERBS = {
    "demo": ("imagecorruptions", "corruptions", []),
    "report": ("plotly", "report", ["missing.npz", "-o", "report.html"]),
    "export": ("onnx", "onnx", ["missing.safetensors", "-o", "x.onnx"]),
    "train": ("torch", "torch", ["tiny-imagenet", ".", "x", "--network", "resnet10t"]),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_names_the_missing_extra(verb, tmp_path, monkeypatch):
    package, extra, arguments = VERBS[verb]
    if importlib.util.find_spec(package):
        pytest.skip(f"{package} is installed")
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, [verb, *arguments])
    assert done.exit_code == 1, done.output
    assert f"domaincal[{extra}]" in done.stderr

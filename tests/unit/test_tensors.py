"""torch tensors as arguments, and data whose logits and features are on a device."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import domaincal as dc
from domaincal import _tensors
from domaincal._tensors import as_array
from domaincal.calibrators.sorted_logits import SortedLogits
from domaincal.cli.main import main
from domaincal.data.fingerprint import fingerprint, start_fingerprint
from domaincal.evaluation.protocols import split_rows
from domaincal.experiments.methods import Method
from domaincal.experiments.trial_results import SplitData, run_trial
from domaincal.statistics.feature_products import LinearMap
from domaincal.statistics.normal_equations import sum_normal_equations
from domaincal.statistics.residual_sums import sum_residuals
from support import small_domains

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore::domaincal.DomaincalWarning")


@pytest.fixture
def tensors_and_arrays(device):
    """Data with logits and features in tensors, and the same data in arrays."""
    data = small_domains()
    tensors = {
        name: torch.tensor(getattr(data, name), device=device) for name in ("logits", "features")
    }
    return dc.CalibrationData(**tensors, labels=data.labels, domains=data.domains), data


def same_rows(found, expected):
    for name in ("logits", "labels", "features", "domains"):
        np.testing.assert_array_equal(
            np.asarray(getattr(found, name)), np.asarray(getattr(expected, name))
        )


def test_a_tensor_on_the_cpu_is_viewed_without_a_copy():
    tensor = torch.zeros((4, 3))
    data = dc.CalibrationData(tensor, features=tensor[:, :2])
    assert isinstance(data.logits, np.ndarray)
    tensor[1, 1] = 5.0
    assert data.logits[1, 1] == 5.0
    assert data.features[1, 1] == 5.0
    transposed = torch.arange(6.0).reshape(2, 3).T
    np.testing.assert_array_equal(dc.CalibrationData(transposed).logits, transposed.numpy())


def test_a_tensor_on_another_device_stays_there(tensors_and_arrays, device):
    data, _ = tensors_and_arrays
    if _tensors.is_host(torch.device(device)):
        assert isinstance(data.logits, np.ndarray)
        return
    for rows in (data.logits, data.features):
        assert isinstance(rows, _tensors.DeviceArray)
        assert rows.tensor.device.type == device
        assert isinstance(rows[3:5], _tensors.DeviceArray)


def test_bfloat16_becomes_float32_beside_ml_dtypes():
    """ml_dtypes, which onnx and JAX use, registers a dtype of this name."""
    pytest.importorskip("ml_dtypes")
    assert np.dtype("bfloat16").isbuiltin == 2
    tensor = torch.randn((6, 3)).to(torch.bfloat16)
    data = dc.CalibrationData(tensor)
    assert data.logits.dtype == np.float32
    np.testing.assert_array_equal(data.logits, tensor.float().numpy())


def test_bfloat16_becomes_float32(device):
    tensor = torch.randn((6, 3), device=device).to(torch.bfloat16)
    data = dc.CalibrationData(tensor)
    assert data.logits.dtype == np.float32
    np.testing.assert_array_equal(np.asarray(data.logits), tensor.float().cpu().numpy())
    fitted = dc.TemperatureScaling().fit(tensor, [0, 1, 2, 0, 1, 1])
    assert fitted.predict_proba(tensor).dtype == torch.float32


_BAD = {
    "nan": lambda z: _with(z, 2, np.nan),
    "inf": lambda z: _with(z, 5, np.inf),
    "-inf": lambda z: _with(z, 5, -np.inf),
    "one dimension": lambda z: z[:, 0],
    "three dimensions": lambda z: z[None],
    "one class": lambda z: z[:, :1],
    "no rows": lambda z: z[:0],
    "complex": lambda z: z * 1j,
    "bool": lambda z: z > 0,
    "too far": lambda z: _with(z, 5, -3e38, 3e38),
}


def _with(z, row, *values):
    z = z.copy()
    z[row, : len(values)] = values
    return z


@pytest.mark.parametrize("what", _BAD)
@pytest.mark.parametrize("step", ["fit", "predict_proba", "predict_confidence"])
@pytest.mark.parametrize("method", ["ts", "isotonic", "msp"])
def test_an_invalid_tensor_has_the_error_of_an_array(what, step, method, device, kernel):
    data = small_domains()
    bad = _BAD[what](data.logits.astype(np.float32))
    make = {"ts": dc.TemperatureScaling, "isotonic": dc.IsotonicCalibration, "msp": dc.MaxSoftmax}
    fitted = make[method]().fit(data.logits, data.labels)

    def error(values):
        calibrator = make[method]() if step == "fit" else fitted
        more = [data.labels] if step == "fit" else []
        try:
            with np.errstate(all="ignore"):
                getattr(calibrator, step)(values, *more)
        except dc.errors.InputError as error:
            return str(error)
        return None

    expected = error(bad)
    if what == "too far" and expected is None:
        return  # small arrays are summed in float64, which is wide enough
    found = error(torch.tensor(bad, device=device))
    assert found == expected
    assert found is not None


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("head", ["ols", "ridge", "huber", "krr", "knn"])
def test_non_finite_features_in_a_tensor_are_refused(bad, head, device):
    data = small_domains()
    features = data.features.copy()
    features[300, 2] = bad
    tensor = torch.tensor(features, device=device)
    calibrator = dc.MultiDomainTemperatureScaling(head)
    message = rf"features contains {str(bad).replace('nan', 'NaN')} \(row 300, column 2\)"
    with pytest.raises(dc.errors.InputError, match=message):
        calibrator.fit(data.logits, data.labels, features=tensor, domains=data.domains)
    calibrator.fit(data.logits, data.labels, features=data.features, domains=data.domains)
    with pytest.raises(dc.errors.InputError, match=message):
        calibrator.predict_temperature(data.logits, features=tensor)


@pytest.mark.parametrize("what", ["sparse", "meta"])
def test_sparse_and_meta_tensors_are_refused(what, device):
    tensor = torch.eye(3).to(device)
    tensor = tensor.to_sparse() if what == "sparse" else tensor.to("meta")
    with pytest.raises(
        dc.errors.InputError, match=r"logits must be an array of real numbers.*to_dense"
    ):
        dc.TemperatureScaling().fit(tensor, [0, 1, 2])


def test_invalid_labels_and_weights_in_tensors_are_refused(device):
    data = small_domains()
    logits = torch.tensor(data.logits, device=device)
    send = torch.tensor
    with pytest.raises(dc.errors.InputError, match="y contains 7, outside the classes"):
        dc.TemperatureScaling().fit(logits, send(data.labels, device=device).clamp(min=7))
    with pytest.raises(dc.errors.InputError, match="y has 3 rows"):
        dc.TemperatureScaling().fit(logits, send([0, 1, 2], device=device))
    with pytest.raises(dc.errors.InputError, match="sample_weight contains -1"):
        dc.TemperatureScaling().fit(
            logits, data.labels, sample_weight=-torch.ones(len(data), device=device)
        )


def test_metrics_take_tensors(device):
    p = torch.tensor([[0.75, 0.25], [0.25, 0.75]], device=device)
    labels = torch.tensor([0, 1], device=device)
    assert dc.negative_log_likelihood(p, labels) == pytest.approx(-np.log(0.75))
    assert dc.expected_calibration_error(p, labels) == pytest.approx(0.25)


@pytest.mark.parametrize(
    "rows",
    [slice(3, 40), slice(None, None, 7), slice(None, None, -1), np.arange(5, 90, 3), [4, -1, 4],
     np.arange(480) % 3 == 0, np.array([7], np.uint8)],
    ids=["slice", "step", "reversed", "numbers", "list", "mask", "bytes"],
)  # fmt: skip
def test_selected_rows_are_those_of_arrays(rows, tensors_and_arrays):
    data, arrays = tensors_and_arrays
    same_rows(data.select(rows), arrays.select(rows))


@pytest.mark.parametrize("rows", [[480], [-481], np.ones(3, bool), slice(0, 0)])
def test_rows_out_of_bounds_are_refused(rows, tensors_and_arrays):
    for data in tensors_and_arrays:  # on a GPU, an index out of bounds would abort the process
        with pytest.raises(dc.errors.InputError, match=r"rows|empty"):
            data.select(rows)


def test_concatenated_rows_are_those_of_arrays(tensors_and_arrays, device):
    data, arrays = tensors_and_arrays
    same_rows(dc.concatenate([data[:100], data[100:]]), arrays)
    half = torch.tensor(arrays.logits[:100], device=device, dtype=torch.float16)
    first = dc.CalibrationData(
        half, labels=arrays.labels[:100], features=data.features[:100], domains=arrays.domains[:100]
    )
    both = dc.concatenate([first, data[100:]])
    assert both.logits.dtype == np.float64
    np.testing.assert_array_equal(np.asarray(both.logits[:100]), half.double().cpu().numpy())
    if not _tensors.is_host(half.device):
        with pytest.raises(dc.errors.InputError, match="disagree in their device of logits"):
            dc.concatenate([data, arrays])


def test_splits_are_those_of_arrays(tensors_and_arrays):
    data, arrays = tensors_and_arrays
    for found, expected in zip(dc.split_halves(data), dc.split_halves(arrays), strict=True):
        same_rows(found, expected)
    ood = ["domain-1", "domain-4"]
    for found, expected in zip(
        dc.split_domains(data, ood), dc.split_domains(arrays, ood), strict=True
    ):
        same_rows(found, expected)
    for (name, rows), (_, expected) in zip(data.by_domain(), arrays.by_domain(), strict=True):
        assert (rows.domains == name).all()
        same_rows(rows, expected)


def test_moving_to_a_device_and_back_keeps_the_rows(tensors_and_arrays, device):
    data, arrays = tensors_and_arrays
    moved = arrays.to(device)
    same_rows(moved, arrays)
    assert type(moved.logits) is type(data.logits)
    assert moved.fingerprint() == arrays.fingerprint()
    for back in (moved.numpy(), data.numpy()):
        assert isinstance(back.logits, np.ndarray)
        assert isinstance(back.features, np.ndarray)
        same_rows(back, arrays)
    assert arrays.numpy() is arrays
    assert arrays[:2].to(torch.device(device)).logits.shape == (2, 5)


def test_a_digest_that_another_thread_computes_is_that_of_arrays(device):
    z = np.random.default_rng(0).normal(size=(1024, 4096)).astype(np.float32)  # takes some time
    labels = np.zeros(1024, np.int64)
    on_device = as_array(torch.tensor(z, device=device))
    assert start_fingerprint(on_device, labels)() == fingerprint(z, labels)


def test_auto_is_the_gpu_if_there_is_one():
    data = small_domains().to("auto")
    assert isinstance(data.logits, np.ndarray) == (not torch.cuda.is_available())


def test_read_only_arrays_of_another_byte_order_are_moved(device):
    logits = np.arange(6.0).reshape(2, 3).astype(">f4")
    logits.flags.writeable = False
    moved = dc.CalibrationData(logits).to(device)
    np.testing.assert_array_equal(np.asarray(moved.logits), logits)


@pytest.mark.parametrize("name", ["rows.npz", "rows.csv", "store"])
def test_data_on_a_device_can_be_written(name, tensors_and_arrays, tmp_path):
    data, arrays = tensors_and_arrays
    dc.write(data, tmp_path / name)
    same_rows(dc.read(tmp_path / name), arrays)
    if name == "store":
        dc.Store(tmp_path / name).append(data)
        assert len(dc.Store(tmp_path / name)) == 2 * len(arrays)


METHODS = {
    "MSP": dc.MaxSoftmax(), "TS": dc.TemperatureScaling(), "T_k": dc.DomainTemperatureScaling(),
    "ridge": dc.MultiDomainTemperatureScaling("ridge"),
    "knn": dc.MultiDomainTemperatureScaling("knn", target="log"),
    "logits": dc.MultiDomainTemperatureScaling(features="logits"),
    "isotonic": dc.IsotonicCalibration(), "rest": dc.HistogramBinning(scheme="one-vs-rest"),
}  # fmt: skip


def test_evaluations_are_those_of_arrays(tensors_and_arrays):
    (train, test), (train_array, test_array) = (
        dc.split_halves(data) for data in tensors_and_arrays
    )
    found = dc.evaluate(METHODS, train=train, test=test)
    expected = dc.evaluate(METHODS, train=train_array, test=test_array)
    pd.testing.assert_frame_equal(found, expected, rtol=1e-8, atol=1e-8)
    fitted = dc.MultiDomainTemperatureScaling().fit(
        train.logits, train.labels, features=train.features, domains=train.domains
    )
    for table in (dc.temperature_table, dc.prediction_table):
        pd.testing.assert_frame_equal(table(fitted, test), table(fitted, test_array), rtol=1e-8)


def test_a_calibrator_of_another_library_gets_numpy_arrays(tensors_and_arrays):
    class Mine:
        def get_params(self, deep=True):
            return {}

        def fit(self, logits, y, *, features=None, domains=None):
            assert isinstance(logits, np.ndarray)
            assert isinstance(features, np.ndarray)
            return self

        def predict_confidence(self, logits, *, features=None, domains=None):
            return self.predict_proba(logits).max(axis=1)

        def predict_proba(self, logits, *, features=None, domains=None):
            assert isinstance(logits, np.ndarray)
            return np.full(logits.shape, 1.0 / logits.shape[1])

    data, arrays = tensors_and_arrays
    found = dc.evaluate(Mine(), train=data, test=data)
    pd.testing.assert_frame_equal(found, dc.evaluate(Mine(), train=arrays, test=arrays))


@pytest.mark.parametrize("method", ["ts", "domain-ts", "md-ts:head=ridge", "isotonic", "oracle"])
def test_trials_are_those_of_arrays(method, tensors_and_arrays):
    def cell(data):
        train, scored = split_rows(data, ood=["domain-1"], by="row", random_state=0)
        return run_trial(Method("m", method), SplitData.with_oracles(train, scored), n_bins=15)

    found, expected = (cell(data) for data in tensors_and_arrays)
    pd.testing.assert_frame_equal(found.table, expected.table, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(found.bins, expected.bins, rtol=1e-8)


@pytest.fixture
def experiment(tmp_path):
    dc.write(small_domains(), tmp_path / "mine.npz")
    path = tmp_path / "mine.toml"
    path.write_text(
        'name = "mine"\ndata = {mlp = "mine.npz"}\npartitions = [{name = "new", '
        'ood = ["*-[45]"]}]\nmethods = {TS = "ts", MD-TS = "md-ts", oracle = "oracle"}\n'
    )
    return dc.experiments.read_experiment(path)


def test_experiments_on_a_device_give_the_same_table(experiment, device, tmp_path):
    found = dc.experiments.run_experiment(experiment, tmp_path / "there", device=device)
    expected = dc.experiments.run_experiment(experiment, tmp_path / "here")
    pd.testing.assert_frame_equal(found.table, expected.table, rtol=1e-8, atol=1e-8)
    # The names of cached results do not depend on the device.
    cells = [sorted(p.name for p in (tmp_path / k / "cells").iterdir()) for k in ("here", "there")]
    assert cells[0] == cells[1]


@pytest.mark.parametrize("wrong", ["cuda:99", "abacus", "meta", 3.5, None])
def test_an_unknown_device_is_refused(wrong, experiment, tmp_path):
    with pytest.raises(
        dc.errors.InputError, match=rf"device='{wrong}' cannot be used here.*choose from auto, cpu"
    ):
        dc.experiments.run_experiment(experiment, tmp_path / "out", device=wrong)
    assert not (tmp_path / "out").exists()
    with pytest.raises(dc.errors.InputError, match="cannot be used here"):
        small_domains().to(wrong)


def test_the_reproduce_command_takes_a_device(experiment, device, tmp_path):
    def run(*options):
        command = ["reproduce", "summary", "--experiment", str(tmp_path / "mine.toml"), *options]
        return CliRunner().invoke(main, command)

    done = run("-o", str(tmp_path / "out"), "--device", device)
    assert done.exit_code == 0, done.output
    assert (tmp_path / "out/summary.csv").exists()
    failed = run("-o", str(tmp_path / "other"), "--device", "cuda:99")
    assert failed.exit_code == 1
    assert "device='cuda:99' cannot be used here" in failed.output
    assert not (tmp_path / "other").exists()


def test_arrays_on_the_cpu_do_not_import_torch():
    code = (
        "import sys, numpy as np, domaincal as dc; data, _ = dc.make_multi_domain(4, 50);"
        "dc.MultiDomainTemperatureScaling('ridge').fit(data.logits, data.labels,"
        "features=data.features, domains=data.domains).predict_proba(data.logits,"
        "features=data.features); data.to('cpu');"
        "dc.concatenate([data, data]); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)


def test_sorted_logits_are_those_of_arrays(tensors_and_arrays):
    data, arrays = tensors_and_arrays
    for rows in (slice(3, 50), np.arange(5, 20)):
        np.testing.assert_allclose(
            np.asarray(SortedLogits(data.logits)[rows]), SortedLogits(arrays.logits)[rows],
            rtol=1e-12, atol=1e-12,
        )  # fmt: skip


def test_integers_and_single_precision_are_concatenated_in_double(device):
    parts = [
        dc.CalibrationData(torch.ones((2, 3), dtype=dtype, device=device))
        for dtype in (torch.int64, torch.float32)
    ]
    assert dc.concatenate(parts).logits.dtype == np.float64


def test_the_error_names_the_row_if_a_subsample_has_the_nan(device):
    data = small_domains(n_rows=500)
    logits = torch.tensor(data.logits, device=device)
    logits[1600, 2] = torch.nan
    with pytest.raises(dc.errors.InputError, match=r"logits contains NaN \(row 1600, column 2\)"):
        dc.TemperatureScaling().fit(logits, data.labels)


@pytest.mark.parametrize("head", ["ridge", "huber", "krr", "knn"])
def test_the_error_names_the_row_if_other_rows_have_no_weight(head, device):
    data = small_domains()
    features = torch.tensor(data.features, device=device)
    features[60::80, 2] = torch.nan  # a row of every domain
    weight = np.ones(len(data))
    weight[10:50] = 0.0
    with pytest.raises(dc.errors.InputError, match=r"features contains NaN \(row 60, column 2\)"):
        dc.MultiDomainTemperatureScaling(head).fit(
            data.logits, data.labels, features=features, domains=data.domains, sample_weight=weight
        )


@pytest.mark.parametrize("weighted", [False, True])
def test_least_squares_sums_are_those_of_arrays(weighted, tensors_and_arrays):
    rng = np.random.default_rng(0)
    group = rng.integers(0, 4, 480)
    weight = rng.uniform(0.5, 2.0, 480) if weighted else None
    solution = LinearMap(rng.normal(size=4), 0.3)
    targets = np.array([1.0, np.nan, 2.0, 0.5])
    residuals = [
        sum_residuals(
            data.features, group, solution, targets, centre=np.full(4, 0.2), weight=weight
        )
        for data in tensors_and_arrays
    ]
    np.testing.assert_allclose(*residuals, rtol=1e-10)
    assert np.abs(residuals[0]).min() > 1.0
    part = np.array([0, 1, -1, 0])
    sums = [
        sum_normal_equations(
            data.features, group, part=part, n_parts=2, weight=weight, fit_intercept=True
        )
        for data in tensors_and_arrays
    ]
    for found, expected in zip(*sums, strict=True):
        for name in ("gram", "moments", "weight", "shift"):
            np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-10)

"""ONNX graphs of calibrators in onnxruntime: the same numbers as Python, any rows, bad input."""

import json
import sys

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression

import domaincal as dc
from domaincal.deploy import export_onnx
from exported_models import EXPORTED, WITHOUT_TEMPERATURE, exported_model
from hard_rows import hard_rows, training_rows

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx_sessions import predict, session  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::domaincal.DomaincalWarning")

BATCHES = ("batch", "batch-logits", "shift-weighted")
STEPS = ("histogram", "histogram-rest", "bbq", "bbq-rest")
TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """Function from the name of a calibrator, and a dtype, to its session."""
    folder, found = tmp_path_factory.mktemp("onnx"), {}

    def open_exported(name, dtype="float32"):
        if (name, dtype) not in found:
            path = folder / f"{name}-{dtype}.onnx"
            export_onnx(exported_model(name), path, dtype=dtype)
            found[name, dtype] = session(path)
        return found[name, dtype]

    return open_exported


def random_rows():
    """Rows of domains that the fit has not seen, and of logits of all sizes."""
    data, _ = dc.make_multi_domain(12, 250, 5, random_state=2)
    logits = np.array(data.logits)
    logits[::7] *= np.logspace(-5, 4, len(logits[::7]))[:, None]
    codes = np.unique(data.domains, return_inverse=True)[1]
    return dc.CalibrationData(logits, features=data.features, domains=codes)


def extreme_rows():
    """Rows at the limits of float32, of an own domain each."""
    rng = np.random.default_rng(3)
    logits = rng.standard_normal((60, 5)).astype(np.float32)
    logits[:10] = np.where(logits[:10] > 0, 1e30, -1e30)
    logits[10:20] *= 1e-30
    logits[20:30] -= 1e6
    logits[30:35] = 0.0
    logits[35:40, 1:3] = logits[35:40].max(axis=1, keepdims=True)
    features = rng.standard_normal((60, 16)).astype(np.float32)
    features[40:45] *= 1e8
    features[45:50] *= 1e-8
    return dc.CalibrationData(logits, features=features, domains=np.arange(60))


def rows_of(data, dtype="float32", which=slice(None)):
    logits, features = (a[which].astype(dtype) for a in (data.logits, data.features))
    return {"logits": logits, "features": features, "domains": data.domains[which]}


def wanted_of(name, inputs):
    return exported_model(name).predict_all(
        inputs["logits"], features=inputs["features"], domains=inputs.get("domains")
    )


def at_an_edge(name, inputs, found, wanted):
    """Rows that differ because rounding moved a score, within 1e-6 of an edge, to another bin."""
    if name not in STEPS:
        return np.zeros(len(inputs["logits"]), bool)
    d = inputs["logits"].astype(np.float64)
    p = np.exp(d - d.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    maps = exported_model(name).maps_
    columns = p.T if len(maps) > 1 else [p.max(axis=1)]
    near = [
        (np.abs(column[:, None] - m.edges[1:-1]) < 1e-6).any(axis=1)
        for m, column in zip(maps, columns, strict=True)
    ]
    differs = np.abs(found.probabilities - wanted.probabilities).max(axis=1) > TOLERANCE
    return np.any(near, axis=0) & differs


def assert_agrees(found, wanted, left_out=None, tolerance=TOLERANCE):
    kept = slice(None) if left_out is None else ~left_out
    for values in vars(found).values():
        assert values is None or values.dtype == np.float32
    np.testing.assert_allclose(
        found.probabilities[kept], wanted.probabilities[kept], rtol=0, atol=tolerance
    )
    np.testing.assert_allclose(
        found.confidence[kept], wanted.confidence[kept], rtol=0, atol=tolerance
    )
    if wanted.temperature is None:
        assert found.temperature is None
    else:
        np.testing.assert_allclose(found.temperature, wanted.temperature, rtol=tolerance)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", EXPORTED)
def test_a_graph_predicts_what_its_calibrator_does(name, dtype, opened):
    one = opened(name, dtype)
    for data in (training_rows(), hard_rows(), random_rows()):
        inputs = rows_of(data, dtype)
        found, wanted = predict(one, **inputs), wanted_of(name, inputs)
        moved = at_an_edge(name, inputs, found, wanted)
        assert moved.mean() < 1e-3
        assert_agrees(found, wanted, moved)
    found = predict(one, **rows_of(hard_rows(), dtype, slice(7, 8)))
    assert_agrees(found, wanted_of(name, rows_of(hard_rows(), dtype, slice(7, 8))))
    assert (found.temperature is None) == name.startswith(WITHOUT_TEMPERATURE)


@pytest.mark.parametrize("name", EXPORTED)
def test_extreme_rows_agree(name, opened):
    # In float64, logits of 1e30 are equally far from all rows of the fit.
    inputs = rows_of(extreme_rows(), which=slice(10 * (name == "md-ts-knn-logits"), None))
    assert_agrees(predict(opened(name), **inputs), wanted_of(name, inputs))


def test_the_inputs_are_those_that_the_method_uses(tmp_path):
    expected = {
        "ts": ["logits"], "md-ts-logits": ["logits"], "histogram": ["logits"],
        "md-ts-knn": ["logits", "features"], "domain-ts": ["logits", "domains"],
        "batch-logits": ["logits", "domains"], "batch": ["logits", "features", "domains"],
        "batch-row": ["logits", "features"],
    }  # fmt: skip
    for name, inputs in expected.items():
        written = export_onnx(exported_model(name), tmp_path / "c.onnx")
        graph = onnx.load(tmp_path / "c.onnx").graph
        assert [one.name for one in graph.input] == list(written.inputs) == inputs
        assert [one.name for one in graph.output] == list(written.outputs)
        assert len(graph.node) == written.n_nodes


def test_codes_that_are_not_known_get_the_pooled_temperature(tmp_path):
    data = training_rows()
    names = np.array([-7, 3, 10, 4, 100, 5000, 2**40, 11])[data.domains]
    model = dc.DomainTemperatureScaling().fit(
        dc.CalibrationData(data.logits, data.labels, domains=names)
    )
    export_onnx(model, tmp_path / "c.onnx")
    codes = np.r_[names[::50], -(2**63), -8, -6, 0, 5, 99, 2**40 - 1, 2**40 + 1, 2**63 - 1]
    logits = data.logits[: len(codes)]
    found = predict(session(tmp_path / "c.onnx"), logits=logits, domains=codes).temperature
    wanted = model.predict_temperature(logits, domains=codes)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert (found[-9:] == np.float32(model.temperature_)).all()


@pytest.mark.parametrize("name", BATCHES)
def test_without_domains_all_rows_are_one_batch(name, opened):
    inputs = rows_of(hard_rows(), which=slice(100))
    wanted = wanted_of(name, {**inputs, "domains": None})
    del inputs["domains"]
    assert_agrees(predict(opened(name), **inputs), wanted)
    assert_agrees(predict(opened(name), **inputs, domains=np.array([3])), wanted)


def test_batches_are_thinned_as_in_python(tmp_path):
    model = dc.ShiftWeightedScaling(max_rows=50).fit(training_rows())
    inputs = rows_of(hard_rows())
    inputs["domains"] = inputs["domains"] % 2  # batches of about 180 rows
    wanted = model.predict_all(**inputs)
    export_onnx(model, tmp_path / "c.onnx")
    assert_agrees(predict(session(tmp_path / "c.onnx"), **inputs), wanted, tolerance=1e-6)
    model.max_rows = 20_000
    assert abs(model.predict_temperature(**inputs) / wanted.temperature - 1).max() > 1e-5


@pytest.mark.parametrize("name", EXPORTED)
@pytest.mark.parametrize("bad", [np.nan, -np.inf, np.inf])
def test_rows_that_are_not_finite_are_nan(name, bad, opened):
    inputs = rows_of(hard_rows(), which=slice(20))
    inputs["domains"] = np.arange(20)
    one = opened(name)
    good = predict(one, **inputs)
    broken = [3]
    inputs["logits"][3, 1] = bad
    if "features" in {given.name for given in one.get_inputs()}:
        inputs["features"][5, 0] = bad
        broken = [3, 5]
    found = predict(one, **inputs)
    others = np.setdiff1d(np.arange(20), broken)
    for values, same in zip(vars(found).values(), vars(good).values(), strict=True):
        if values is not None:
            assert np.isnan(values[broken]).all()
            np.testing.assert_allclose(values[others], same[others], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", BATCHES)
def test_a_batch_with_a_row_that_is_not_finite_is_nan(name, opened):
    inputs = rows_of(hard_rows(), which=slice(20))
    inputs["domains"] = np.arange(20) % 2
    inputs["features"][3] = inputs["logits"][3, 1] = np.nan
    found = predict(opened(name), **inputs)
    assert np.isnan(found.temperature[1::2]).all()
    assert np.isfinite(found.probabilities[::2]).all()
    # Of shift-weighted, logits that are not finite make only their own row NaN, as in torch.
    inputs["features"][3] = 0.0
    assert np.isnan(predict(opened(name), **inputs).probabilities[3]).all()


@pytest.mark.parametrize("name", ["ts", "md-ts-krr", "md-ts-knn", "isotonic-rest", "vector",
                                  "dac", "domain-ts", "batch", "shift-weighted"])  # fmt: skip
def test_no_rows_give_no_predictions(name, opened):
    found = predict(opened(name), **rows_of(hard_rows(), which=slice(0)))
    assert found.probabilities.shape == (0, 5)
    assert found.confidence.shape == (0,)


def test_a_tiny_temperature_gives_all_to_the_largest_logit(tmp_path):
    model = dc.TemperatureScaling().fit(training_rows())
    model.temperature_ = 1e-60
    inputs = rows_of(hard_rows())
    export_onnx(model, tmp_path / "c.onnx")
    found = predict(session(tmp_path / "c.onnx"), **inputs).probabilities
    np.testing.assert_allclose(found, model.predict_proba(inputs["logits"]), atol=1e-6)


def test_of_a_tie_the_first_class_is_predicted(opened):
    logits = np.array([[1.0, 2.0, 2.0, 0.0, 2.0]], np.float32)
    found = predict(opened("histogram"), logits=logits)
    wanted = exported_model("histogram").predict_proba(logits)
    assert len(set(wanted[0, [1, 2, 4]])) == 2
    np.testing.assert_allclose(found.probabilities, wanted, atol=1e-6)


@pytest.mark.parametrize("opset", [13, 16, 18, 21])
def test_graphs_of_other_opsets_predict_the_same(opset, opened, tmp_path):
    inputs = rows_of(hard_rows())
    names = ["md-ts-knn", "md-ts-krr", "isotonic-rest", "dac", "domain-ts"]
    for name in [*names, *(BATCHES if opset >= 16 else ())]:
        export_onnx(exported_model(name), tmp_path / "c.onnx", opset=opset)
        assert onnx.load(tmp_path / "c.onnx").opset_import[0].version == opset
        found = predict(session(tmp_path / "c.onnx"), **inputs)
        wanted = predict(opened(name), **inputs)
        np.testing.assert_allclose(found.probabilities, wanted.probabilities, atol=1e-6)


def test_names_of_domains_have_codes_in_the_metadata(tmp_path):
    data = training_rows()
    names = np.array([f"site-{k}" for k in range(8)])[data.domains]
    model = dc.DomainTemperatureScaling().fit(
        dc.CalibrationData(data.logits, data.labels, domains=names)
    )
    export_onnx(model, tmp_path / "c.onnx")
    metadata = {one.key: one.value for one in onnx.load(tmp_path / "c.onnx").metadata_props}
    codes = json.loads(metadata["domaincal.domains"])
    found = predict(
        session(tmp_path / "c.onnx"),
        logits=data.logits,
        domains=np.array([codes[n] for n in names]),
    )
    np.testing.assert_allclose(
        found.temperature, model.predict_temperature(data.logits, domains=names), rtol=1e-6
    )
    assert metadata["domaincal.method"] == "DomainTemperatureScaling"
    assert metadata["domaincal.fitted_on"] == model.data_fingerprint_


def test_the_metadata_name_classes_and_features(tmp_path):
    pd = pytest.importorskip("pandas")
    data = training_rows()
    logits = pd.DataFrame(data.logits, columns=list("abcde"))
    features = pd.DataFrame(data.features).add_prefix("f")
    model = dc.MultiDomainTemperatureScaling().fit(
        logits, data.labels, features=features, domains=data.domains
    )
    export_onnx(model, tmp_path / "c.onnx")
    metadata = {one.key: one.value for one in onnx.load(tmp_path / "c.onnx").metadata_props}
    assert json.loads(metadata["domaincal.class_names"]) == list("abcde")
    assert json.loads(metadata["domaincal.feature_names"]) == [f"f{k}" for k in range(16)]
    assert metadata["domaincal.version"] == dc.__version__


def test_the_same_calibrator_gives_the_same_bytes(tmp_path):
    for name in ("a", "b"):
        export_onnx(exported_model("batch"), tmp_path / f"{name}.onnx")
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()


def test_only_scores_and_temperatures_are_float64(tmp_path):
    export_onnx(exported_model("ts"), tmp_path / "c.onnx")
    model = onnx.load(tmp_path / "c.onnx")
    double = onnx.TensorProto.DOUBLE
    assert double not in {one.data_type for one in model.graph.initializer}
    inferred = onnx.shape_inference.infer_shapes(model).graph.value_info
    assert double not in {one.type.tensor_type.elem_type for one in inferred}


class Mine(dc.TemperatureScaling):
    pass


WITHOUT_A_GRAPH = {
    "cpcs": (dc.CPCS, "CPCS fits a logistic regression to each batch .*; use BatchTemperature"),
    "transcal": (dc.TransCal, "TransCal fits a logistic regression to each batch"),
    "regressor": (lambda: dc.MultiDomainTemperatureScaling(LinearRegression()),
                  "head is a LinearRegression, .* no ONNX graph here; fit with head='ridge'"),
    "subclass": (Mine, "Mine is not a calibrator of domaincal .*; export one of those"),
}  # fmt: skip


@pytest.mark.parametrize(("make", "message"), WITHOUT_A_GRAPH.values(), ids=WITHOUT_A_GRAPH)
def test_what_has_no_graph_says_why(make, message, tmp_path):
    model = make().fit(training_rows())
    with pytest.raises(dc.errors.InputError, match=message):
        export_onnx(model, tmp_path / "c.onnx")
    assert not list(tmp_path.iterdir())


BAD = {
    "suffix": ({"path": "c.bin"}, "c.bin must end in .onnx; choose such a name"),
    "dtype": ({"dtype": "int8"}, "dtype must be 'float32' or 'float16'|dtype .*int8"),
    "opset": ({"opset": 11}, "opset is 11, which is too old: .* needs opset 16 or later; leave"),
    "new opset": ({"opset": 99}, "opset is 99, .* up to"),
    "folder": ({"path": "no/c.onnx"}, "there is no folder .*; create it"),
}  # fmt: skip


@pytest.mark.parametrize(("options", "message"), BAD.values(), ids=BAD)
def test_bad_options_are_named(options, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(dc.errors.InputError, match=message):
        export_onnx(exported_model("batch"), **{"path": "c.onnx", **options})
    assert not list(tmp_path.iterdir())


def test_other_objects_are_refused(tmp_path):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        export_onnx(dc.TemperatureScaling(), tmp_path / "c.onnx")
    for other in (LinearRegression().fit([[0.0], [1.0]], [0, 1]), "model.safetensors"):
        with pytest.raises(dc.errors.InputError, match="pass a fitted calibrator"):
            export_onnx(other, tmp_path / "c.onnx")


def test_without_onnx_the_error_names_the_extra(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(dc.errors.MissingDependencyError, match=r"domaincal\[onnx\]"):
        export_onnx(exported_model("ts"), tmp_path / "c.onnx")

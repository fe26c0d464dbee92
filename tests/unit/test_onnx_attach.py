"""Calibrators attached to ONNX graphs of classifiers, and bad classifiers."""

import numpy as np
import pytest

import domaincal as dc
from domaincal.cli.method_options import needed_features
from domaincal.deploy import attach_onnx

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx import TensorProto, helper  # noqa: E402

from onnx_classifiers import rows_of_classifier, write_classifier  # noqa: E402
from onnx_sessions import predict, session  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::domaincal.DomaincalWarning")

METHODS = {
    "ts": dc.TemperatureScaling,
    "domain-ts": dc.DomainTemperatureScaling,
    "md-ts": dc.MultiDomainTemperatureScaling,
    "isotonic": dc.IsotonicCalibration,
    "batch": dc.BatchTemperatureScaling,
    "krr": lambda: dc.MultiDomainTemperatureScaling("krr", fit_intercept=True, max_rows=240),
    "shift-weighted": dc.ShiftWeightedScaling,
}


@pytest.fixture(scope="module")
def fitted():
    """Function from a name to a calibrator that is fitted to outputs of the classifier."""
    rows = rows_of_classifier(n=600)
    domains = np.arange(600) // 100
    rng = np.random.default_rng(0)
    noisy = rows["logits"] / (1.0 + domains[:, None]) + rng.gumbel(size=rows["logits"].shape)
    found = {}

    def fit(name):
        if name not in found:
            found[name] = METHODS[name]().fit(
                rows["logits"], noisy.argmax(axis=1), features=rows["features"], domains=domains
            )
        return found[name]

    return fit


@pytest.mark.parametrize("name", METHODS)
def test_a_classifier_with_a_calibrator_predicts_both(name, fitted, tmp_path):
    model = write_classifier(tmp_path / "classifier.onnx")
    calibrator = fitted(name)
    written = attach_onnx(
        calibrator, tmp_path / "classifier.onnx", tmp_path / "both.onnx", logits="logits",
        features="features" if needed_features(calibrator) else None,
    )  # fmt: skip
    both, given = session(tmp_path / "both.onnx"), {"x": rows_of_classifier()["x"]}
    if "domains" in written.inputs:
        given["domains"] = np.arange(300) % 3
    z, x = both.run(["logits", "features"], given)
    np.testing.assert_allclose(z, rows_of_classifier()["logits"], rtol=1e-4, atol=1e-4)
    found = predict(both, **given)
    wanted = calibrator.predict_all(z, features=x, domains=given.get("domains"))
    np.testing.assert_allclose(found.probabilities, wanted.probabilities, atol=1e-5)
    np.testing.assert_allclose(found.confidence, wanted.confidence, atol=1e-5)
    if wanted.temperature is not None:
        np.testing.assert_allclose(found.temperature, wanted.temperature, rtol=1e-5)
    assert list(written.outputs)[:2] == ["logits", "features"]
    assert written.outputs["probabilities"] == "float32 (batch, 5)"
    merged = onnx.load(tmp_path / "both.onnx")
    assert merged.graph.node[: len(model.graph.node)] == model.graph.node
    assert merged.opset_import == model.opset_import
    if calibrator.predicts_batches():
        assert written.inputs["domains"] == "int64 (batch_or_1,), optional"
        one_batch = calibrator.predict_proba(z, features=x)
        found = predict(both, x=given["x"]).probabilities
        np.testing.assert_allclose(found, one_batch, atol=1e-5)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float16", 2e-3), ("float64", 1e-6)])
def test_outputs_of_other_types_are_converted(dtype, tolerance, fitted, tmp_path):
    write_classifier(tmp_path / "classifier.onnx", dtype=dtype)
    calibrator = fitted("md-ts")
    attach_onnx(
        calibrator, tmp_path / "classifier.onnx", tmp_path / "both.onnx", logits="logits",
        features="features",
    )  # fmt: skip
    both, rows = session(tmp_path / "both.onnx"), rows_of_classifier(dtype)
    z, x = both.run(["logits", "features"], {"x": rows["x"]})
    assert z.dtype == dtype
    found = predict(both, x=rows["x"]).probabilities
    assert found.dtype == np.float32
    # onnxruntime computes float16 in float32, and rounds the outputs only.
    np.testing.assert_allclose(found, calibrator.predict_proba(z, features=x), atol=tolerance)


def test_a_constant_added_to_float64_logits_changes_nothing(fitted, tmp_path):
    add = helper.make_node("Add", ["logits", "constant"], ["shifted"])
    constant = helper.make_node(
        "Constant", [], ["constant"],
        value=onnx.numpy_helper.from_array(np.array(1e6)),
    )  # fmt: skip
    write_classifier(
        tmp_path / "classifier.onnx", dtype="float64", outputs=("shifted",), extra=(constant, add)
    )
    attach_onnx(fitted("ts"), tmp_path / "classifier.onnx", tmp_path / "both.onnx")
    rows = rows_of_classifier("float64")
    found = predict(session(tmp_path / "both.onnx"), x=rows["x"]).probabilities
    np.testing.assert_allclose(found, fitted("ts").predict_proba(rows["logits"]), atol=1e-6)


def test_features_that_cannot_be_squared_are_far_from_all_rows(fitted, tmp_path):
    write_classifier(tmp_path / "classifier.onnx", dtype="float64")
    calibrator = fitted("krr")
    attach_onnx(
        calibrator, tmp_path / "classifier.onnx", tmp_path / "both.onnx", logits="logits",
        features="features",
    )  # fmt: skip
    x = rows_of_classifier("float64", n=20)["x"] * np.logspace(0, 305, 20)[:, None]
    both = session(tmp_path / "both.onnx")
    z, features = both.run(["logits", "features"], {"x": x})
    wanted = calibrator.predict_temperature(z, features=features)
    np.testing.assert_allclose(predict(both, x=x).temperature, wanted, rtol=1e-5)


@pytest.mark.parametrize("opset", [13, 15, 18, 20, 22])
def test_graphs_of_other_opsets_keep_theirs(opset, fitted, tmp_path):
    write_classifier(tmp_path / "classifier.onnx", opset=opset)
    attach_onnx(
        fitted("md-ts"), tmp_path / "classifier.onnx", tmp_path / "both.onnx", logits="logits",
        features="features",
    )  # fmt: skip
    assert onnx.load(tmp_path / "both.onnx").opset_import[0].version == opset
    rows = rows_of_classifier()
    found = predict(session(tmp_path / "both.onnx"), x=rows["x"]).probabilities
    wanted = fitted("md-ts").predict_proba(rows["logits"], features=rows["features"])
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_weights_in_external_files_are_taken_along(fitted, tmp_path):
    model = write_classifier(tmp_path / "inside.onnx", outputs=("logits",))
    (tmp_path / "folder").mkdir()
    path = tmp_path / "folder/classifier.onnx"
    onnx.save(model, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    attach_onnx(fitted("ts"), path, tmp_path / "both.onnx")
    (tmp_path / "folder/w.bin").unlink()
    rows = rows_of_classifier()
    found = predict(session(tmp_path / "both.onnx"), x=rows["x"]).probabilities
    np.testing.assert_allclose(found, fitted("ts").predict_proba(rows["logits"]), atol=1e-5)
    with pytest.raises((dc.DomaincalError, FileNotFoundError), match=r"w\.bin"):
        attach_onnx(fitted("ts"), path, tmp_path / "again.onnx")


def test_two_calibrators_are_attached_one_after_the_other(fitted, tmp_path):
    write_classifier(tmp_path / "classifier.onnx", outputs=("logits",))
    attach_onnx(fitted("ts"), tmp_path / "classifier.onnx", tmp_path / "a.onnx")
    with pytest.raises(dc.errors.InputError, match=r"already 'probabilities', .*calibrated_"):
        attach_onnx(fitted("isotonic"), tmp_path / "a.onnx", tmp_path / "b.onnx", logits="logits")
    written = attach_onnx(
        fitted("isotonic"), tmp_path / "a.onnx", tmp_path / "b.onnx", logits="logits",
        prefix="isotonic_",
    )  # fmt: skip
    assert list(written.outputs) == [
        "logits", "probabilities", "confidence", "temperature", "isotonic_probabilities",
        "isotonic_confidence",
    ]  # fmt: skip
    both, rows = session(tmp_path / "b.onnx"), rows_of_classifier()
    (z,) = both.run(["logits"], {"x": rows["x"]})
    for name, prefix in (("ts", ""), ("isotonic", "isotonic_")):
        found = predict(both, prefix, x=rows["x"]).probabilities
        np.testing.assert_allclose(found, fitted(name).predict_proba(z), atol=1e-5)


def custom(name, output, *inputs):
    return helper.make_node(name, inputs, [output], domain="mine")


def test_columns_that_are_not_known_are_checked_when_the_graph_runs(fitted, tmp_path):
    info = helper.make_tensor_value_info("cut", TensorProto.FLOAT, ["batch", None])
    ends = [
        helper.make_node("Constant", [], [name], value=onnx.numpy_helper.from_array(value))
        for name, value in (("zero", np.array([0])), ("one", np.array([1])))
    ]
    stop = helper.make_tensor_value_info("stop", TensorProto.INT64, [1])
    model = write_classifier(
        tmp_path / "classifier.onnx", outputs=(),
        extra=(*ends, helper.make_node("Slice", ["logits", "zero", "stop", "one"], ["cut"]), info),
    )  # fmt: skip
    model.graph.input.append(stop)
    onnx.save(model, tmp_path / "classifier.onnx")
    attach_onnx(fitted("ts"), tmp_path / "classifier.onnx", tmp_path / "both.onnx")
    both, rows = session(tmp_path / "both.onnx"), rows_of_classifier()
    found = predict(both, x=rows["x"], stop=np.array([5])).probabilities
    np.testing.assert_allclose(found, fitted("ts").predict_proba(rows["logits"]), atol=1e-5)
    with pytest.raises(Exception, match=r"(?s)Reshape.*\{300,4\}"):
        predict(both, x=rows["x"], stop=np.array([4]))


SOFTMAX = (helper.make_node("Softmax", ["logits"], ["p"]),
           helper.make_node("Identity", ["p"], ["probs"]))  # fmt: skip
ARGMAX = (helper.make_node("ArgMax", ["logits"], ["label"], axis=1, keepdims=0),
          helper.make_tensor_value_info("label", TensorProto.INT64, ["batch"]))  # fmt: skip

BAD = {
    "no such logits": ({}, {"logits": "scores"},
        r"no tensor 'scores'; name another one with logits=... \(--logits\): 'logits' of 5 colu"),
    "several outputs": ({}, {}, r"has 2 outputs \(logits, features\); name that of the logits"),
    "no such features": ({}, {"logits": "logits", "features": "embedding", "name": "md-ts"},
        "no tensor 'embedding'; name another one with features=.* 'features', 'hidden', 'x' of 16"),
    "features not named": ({}, {"logits": "logits", "name": "md-ts"},
        r"needs features; name their tensor with features=.*: 'features', 'hidden', 'x' of 16 col"),
    "features not used": ({}, {"logits": "logits", "features": "features"},
        "TemperatureScaling uses no features; leave out features='features'"),
    "fixed batch": ({"rows": 1}, {"logits": "logits"},
        r"has a fixed batch: the tensor 'logits' has the shape \(1, 5\); export .*dynamic"),
    "fixed inputs": ({"rows": 1, "domains": ("mine",), "outputs": (), "extra": (
        custom("Head", "z", "features"),
        helper.make_tensor_value_info("z", TensorProto.FLOAT, [None, 5]))}, {},
        r"has a fixed batch: the input 'x' has the shape \(1, 16\); export .*dynamic"),
    "other classes": ({}, {"logits": "features"},
        r"the shape \(batch, 16\), but the calibrator was fitted with 5 classes; name .*or fit"),
    "labels": ({"extra": ARGMAX}, {"logits": "label"},
        "the tensor 'label' .* has the type int64; name another one .*'logits' of 5 columns"),
    "probabilities": ({"outputs": ("probs",), "extra": SOFTMAX}, {},
        "'probs' .* holds probabilities, those of a node Softmax; name the logits, .* 'logits'"),
    "old opset": ({"opset": 11, "ir_version": 6}, {"logits": "logits"},
        "has opset 11, which is too old: .* needs opset 13 or later; export .*convert_version"),
    "old for batches": ({"opset": 15}, {"logits": "logits", "name": "batch",
                                        "features": "features"},
        "has opset 15, which is too old: BatchTemperatureScaling needs opset 16 or later"),
    "name is taken": ({"outputs": ("logits", "confidence"), "extra": (
        helper.make_node("Identity", ["logits"], ["confidence"]),)}, {"logits": "logits"},
        r"has already 'confidence'; pass another prefix=... \(--prefix\), such as 'calibrated_'"),
    "unknown type": ({"outputs": ("z2",), "domains": ("mine",), "extra": (
        custom("Head", "secret", "features"), custom("Head", "z2", "secret"))},
        {"logits": "secret"}, "the type of the tensor 'secret' .* is unknown, because of oper"),
}  # fmt: skip


@pytest.mark.parametrize(("graph", "arguments", "message"), BAD.values(), ids=BAD)
def test_a_bad_classifier_is_one_error(graph, arguments, message, fitted, tmp_path):
    write_classifier(tmp_path / "classifier.onnx", **graph)
    arguments = dict(arguments)
    calibrator = fitted(arguments.pop("name", "ts"))
    with pytest.raises(dc.errors.InputError, match=message):
        attach_onnx(calibrator, tmp_path / "classifier.onnx", tmp_path / "both.onnx", **arguments)
    assert not (tmp_path / "both.onnx").exists()


FILES = {
    "empty": b"", "text": b"not a graph\n" * 20, "csv": b"a,b\n1,2\n",
    "truncated": None, "no nodes": b"\x08\x08",
}  # fmt: skip


@pytest.mark.parametrize("kind", FILES)
def test_a_file_that_is_no_graph_is_one_error(kind, fitted, tmp_path):
    path = tmp_path / "classifier.onnx"
    write_classifier(path)
    content = FILES[kind]
    path.write_bytes(path.read_bytes()[:-150] if content is None else content)
    with pytest.raises(dc.errors.FileFormatError, match=r"cannot be read .*export the classifier"):
        attach_onnx(fitted("ts"), path, tmp_path / "both.onnx", logits="logits")


def test_a_missing_classifier_is_one_error(fitted, tmp_path):
    with pytest.raises(FileNotFoundError):
        attach_onnx(fitted("ts"), tmp_path / "no.onnx", tmp_path / "both.onnx")
    with pytest.raises(dc.errors.InputError, match="is a folder"):
        attach_onnx(fitted("ts"), tmp_path, tmp_path / "both.onnx")


def test_a_model_above_the_largest_size_names_the_cure(fitted, tmp_path, monkeypatch):
    monkeypatch.setattr("domaincal.deploy.onnx.protobuf.LARGEST_FILE", 1000)
    write_classifier(tmp_path / "classifier.onnx", outputs=("logits",))
    with pytest.raises(dc.errors.InputError, match=r"at most 2 GiB; export .* file of its own"):
        attach_onnx(fitted("ts"), tmp_path / "classifier.onnx", tmp_path / "both.onnx")

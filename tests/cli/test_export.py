"""The verb export."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import domaincal as dc
from domaincal.cli import main
from support import small_domains

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx_classifiers import rows_of_classifier, write_classifier  # noqa: E402
from onnx_sessions import predict, session  # noqa: E402

DATA = small_domains(n_rows=60)
pytestmark = pytest.mark.filterwarnings("ignore::domaincal.DomaincalWarning")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Folder with a calibrator, a classifier and a calibrator of its outputs."""
    monkeypatch.chdir(tmp_path)
    dc.MultiDomainTemperatureScaling().fit(DATA).save("model.safetensors")
    write_classifier(tmp_path / "classifier.onnx")
    rows = rows_of_classifier()
    labels, domains = rows["logits"].argmax(axis=1), np.arange(300) % 6
    labels[::3] = 0
    data = dc.CalibrationData(rows["logits"], labels, features=rows["features"], domains=domains)
    dc.MultiDomainTemperatureScaling().fit(data).save("own.safetensors")
    return tmp_path


def run(*arguments, code=0):
    result = CliRunner().invoke(main, ["export", *arguments])
    assert result.exit_code == code, (result.output, result.exception)
    return result


def words(text):
    return " ".join(text.split())


def test_a_calibrator_becomes_a_graph_with_its_predictions():
    out = words(run("model.safetensors", "-o", "c.onnx").stdout)
    assert out.startswith("MultiDomainTemperatureScaling, ")
    assert "nodes: written to c.onnx (" in out
    assert "inputs: logits float32 (n, 5); features float32 (n, 4)" in out
    assert "outputs: probabilities float32 (n, 5); confidence float32 (n,); temperature" in out
    found = predict(
        session("c.onnx"), logits=DATA.logits.astype(np.float32),
        features=DATA.features.astype(np.float32),
    )  # fmt: skip
    wanted = dc.load("model.safetensors").predict_proba(DATA)
    np.testing.assert_allclose(found.probabilities, wanted, atol=1e-5)


def test_json_is_one_document_and_names_everything():
    found = json.loads(
        run("model.safetensors", "-o", "c.onnx", "--dtype", "float16", "--json").stdout
    )
    assert (found["document"], found["version"]) == ("domaincal export", 1)
    assert found["method"] == "MultiDomainTemperatureScaling"
    assert found["inputs"] == {"logits": "float16 (n, 5)", "features": "float16 (n, 4)"}
    assert list(found["outputs"]) == ["probabilities", "confidence", "temperature"]
    assert found["n_nodes"] == len(onnx.load("c.onnx").graph.node)
    assert found["classifier"] is None


def test_an_output_is_replaced_only_by_force(folder):
    (folder / "c.onnx").write_bytes(b"mine")
    error = run("model.safetensors", "-o", "c.onnx", code=1).stderr
    assert "c.onnx exists; pass --force to replace it" in error
    assert (folder / "c.onnx").read_bytes() == b"mine"
    run("model.safetensors", "-o", "c.onnx", "--force")
    assert onnx.load("c.onnx").producer_name == "domaincal"


def test_a_calibrator_is_attached():
    attach = ["--attach", "classifier.onnx", "--logits", "logits", "--features", "features"]
    out = words(run("own.safetensors", "-o", "both.onnx", *attach).stdout)
    assert "attached to classifier.onnx: written to both.onnx" in out
    assert "inputs: x float32 (batch, 16) outputs: logits float32 (batch, 5); " in out
    rows = rows_of_classifier()
    found = predict(session("both.onnx"), x=rows["x"]).probabilities
    wanted = dc.load("own.safetensors").predict_proba(rows["logits"], features=rows["features"])
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    again = ["both.onnx" if one == "classifier.onnx" else one for one in attach]
    error = words(run("own.safetensors", "-o", "c.onnx", *again, code=1).stderr)
    assert (
        "has already 'probabilities', 'confidence', 'temperature'; pass another --prefix" in error
    )
    found = run("own.safetensors", "-o", "c.onnx", *again, "--prefix", "b_", "--json").stdout
    assert "b_confidence" in json.loads(found)["outputs"]


ERRORS = {
    "other classes": (["model.safetensors", "--attach", "classifier.onnx", "--logits", "features",
                       "--features", "x"],
                      "shape (batch, 16), but the calibrator was fitted with 5 classes"),
    "features": (["own.safetensors", "--attach", "classifier.onnx", "--logits", "logits"],
                 "needs features; name their tensor with --features: 'features', 'hidden', 'x' of"),
    "two outputs": (["own.safetensors", "--attach", "classifier.onnx"],
                    "2 outputs (logits, features); name that of the logits with --logits."),
    "no classifier": (["own.safetensors", "--attach", "no.onnx"], "there is no file no.onnx"),
    "no model": (["no.safetensors"], "there is no file no.safetensors"),
    "a calibrator": (["own.safetensors", "--attach", "own.safetensors"],
                     "own.safetensors cannot be read"),
    "cpcs": (["cpcs.safetensors"], "CPCS fits a logistic regression to each batch"),
}  # fmt: skip


@pytest.mark.parametrize(("arguments", "message"), ERRORS.values(), ids=ERRORS)
def test_an_error_names_the_cure_and_writes_nothing(arguments, message, folder):
    dc.CPCS().fit(DATA).save("cpcs.safetensors")
    error = words(run(*arguments, "-o", "out.onnx", code=1).stderr)
    assert message in error
    assert error.count("Error: ") == 1
    assert not list(folder.glob("out*"))
    assert not list(folder.glob(".domaincal*"))


USAGE = {
    "suffix": (["-o", "c.bin"], 1, "c.bin must end in .onnx"),
    "logits": (["-o", "c.onnx", "--logits", "z"], 2, "--logits is about a classifier; pass --att"),
    "prefix": (["-o", "c.onnx", "--prefix", "a_"], 2, "--prefix is about a classifier; pass --att"),
    "dtype": (["-o", "c.onnx", "--attach", "classifier.onnx", "--dtype", "float16"], 2,
              "--attach takes the types of the classifier; leave out --dtype or --attach"),
    "no output": ([], 2, "Missing option '-o'"),
}  # fmt: skip


@pytest.mark.parametrize(("options", "code", "message"), USAGE.values(), ids=USAGE)
def test_wrong_usage_is_one_message(options, code, message):
    assert message in words(run("model.safetensors", *options, code=code).stderr)


def test_a_calibrator_of_probabilities_says_what_its_logits_are(folder):
    p = np.exp(DATA.logits - DATA.logits.max(axis=1, keepdims=True))
    np.savez("p.npz", probabilities=p / p.sum(axis=1, keepdims=True), labels=DATA.labels)
    fitted = CliRunner().invoke(
        main, ["fit", "p.npz", "--method", "ts", "-o", "p.safetensors", "--floor", "1e-6"]
    )
    assert fitted.exit_code == 0, fitted.output
    error = words(run("p.safetensors", "-o", "c.onnx").stderr)
    assert "the logits of the graph are their natural logarithms, those of probab" in error
    assert "below 1e-06 that of 1e-06" in error
    assert not run("model.safetensors", "-o", "d.onnx").stderr


def test_without_onnx_the_error_names_the_extra(monkeypatch, folder):
    monkeypatch.setitem(sys.modules, "onnx", None)
    error = run("missing.safetensors", "-o", "c.onnx", code=1).stderr
    assert "pip install 'domaincal[onnx]'" in error


def inspected(*arguments, code=0):
    result = CliRunner().invoke(main, ["inspect", *arguments])
    assert result.exit_code == code, (result.output, result.exception)
    return result


def test_inspect_says_what_was_written_into_a_graph():
    export = json.loads(run("model.safetensors", "-o", "c.onnx", "--json").stdout)
    found = json.loads(inspected("c.onnx", "--json").stdout)
    for name in ("inputs", "outputs", "n_nodes"):
        assert found[name] == export[name]
    assert found["calibrator"]["method"] == "MultiDomainTemperatureScaling"
    assert found["calibrator"]["fitted_on"] == dc.load("model.safetensors").data_fingerprint_
    out = words(inspected("c.onnx").stdout)
    assert "nodes): md-ts inputs logits float32 (n, 5); features float32 (n, 4) outputs" in out


def test_inspect_says_how_a_method_was_chosen_and_that_domains_are_optional():
    batch = dc.BatchTemperatureScaling()
    dc.AutoCalibration([batch], batch_size=20).fit(DATA).save("auto.safetensors")
    run("auto.safetensors", "-o", "c.onnx")
    out = inspected("c.onnx").stdout
    assert "\nleft-out domains (6, batches of 20 rows):\n" in out
    assert "domains int64 (n_or_1,), optional" in words(out)


def graph(outputs, *, nodes=True, metadata=None):
    """A graph with these outputs, saved as graph.onnx."""
    helper = onnx.helper
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 3])
    made = helper.make_graph(
        [helper.make_node("Identity", ["x"], [outputs[0].name])] * nodes, "g", [x], outputs
    )
    model = helper.make_model(made)
    for key, value in (metadata or {}).items():
        model.metadata_props.add(key=key, value=value)
    (path := Path("graph.onnx")).write_bytes(model.SerializeToString())
    return str(path)


Y = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n", None])
MAPS = onnx.helper.make_value_info(
    "maps", onnx.helper.make_sequence_type_proto(Y.type)
)  # as classifiers of scikit-learn have
UNKNOWN = onnx.ValueInfoProto(name="y")


def test_inspect_of_another_graph_names_the_cure(folder):
    out = words(inspected("classifier.onnx").stdout)
    assert "no calibrator of domaincal" in out
    assert "domaincal export MODEL -o FILE --attach CLASSIFIER" in out
    (folder / "UPPER.ONNX").write_bytes((folder / "classifier.onnx").read_bytes())
    assert words(inspected("UPPER.ONNX").stdout).startswith("UPPER.ONNX (ONNX, opset ")


@pytest.mark.parametrize(
    ("output", "options", "said"),
    [
        (Y, {}, "1 node): no calibrator of domaincal inputs x float32 (n, 3) outputs y float32"),
        (Y, {"nodes": False}, "0 nodes)"),
        (MAPS, {}, "outputs maps sequence domaincal export"),
        (UNKNOWN, {}, "outputs y of unknown type"),
        (Y, {"metadata": {"domaincal.note": "\x1b[31mred"}}, "no calibrator of domaincal"),
    ],
)
def test_inspect_describes_any_graph(output, options, said):
    path = graph([output], **options)
    out = inspected(path).stdout
    assert said in words(out)
    assert "\x1b" not in out
    json.loads(inspected(path, "--json").stdout)


@pytest.mark.parametrize(
    "metadata",
    [{"n_classes": "{"}, {"n_classes": "true"}, {"class_names": "5"}, {"class_names": "[1]"},
     {"class_names": "[" * 700 + "]" * 700}, {"domains": '{"a": "b"}'}],
)  # fmt: skip
def test_inspect_refuses_damaged_files(metadata):
    path = graph([Y], metadata={f"domaincal.{name}": text for name, text in metadata.items()})
    for options in ([], ["--json"]):
        error = words(inspected(path, *options, code=1).stderr)
        assert error.startswith("Error: graph.onnx cannot be read (")
        assert error.endswith("export it to ONNX again.")


def test_inspect_refuses_cut_files_and_unknown_types(folder):
    (folder / "cut.onnx").write_bytes((folder / "classifier.onnx").read_bytes()[:-9])
    (folder / "empty.onnx").write_bytes(onnx.ModelProto().SerializeToString())
    assert "it holds no graph" in words(inspected("empty.onnx", code=1).stderr)
    odd = onnx.helper.make_tensor_value_info("y", 99, ["n"])
    for path in ("cut.onnx", graph([odd])):
        assert "cannot be read (" in inspected(path, code=1).stderr


def test_a_folder_with_the_suffix_of_a_graph_is_data(folder):
    dc.write(DATA, "rows.npz")
    CliRunner().invoke(main, ["convert", "rows.npz", "store"])
    (folder / "store").rename(folder / "store.onnx")
    assert "6 domains" in words(inspected("store.onnx").stdout)

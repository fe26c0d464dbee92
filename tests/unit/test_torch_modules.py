"""Modules of to_torch: the same numbers as Python, gradients, compilation, export, bad input."""

import copy
import dataclasses
import io
import sys

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression

import domaincal as dc
from domaincal.kernels.torch_maps import NeighbourMeans
from exported_models import EXPORTED, WITHOUT_TEMPERATURE, exported_model
from hard_rows import hard_rows, training_rows

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore::domaincal.DomaincalWarning")

BATCHES = ("batch", "batch-logits", "shift-weighted")
#: Calibrators whose predictions are smooth functions, apart from limits and bin edges.
SMOOTH = ("ts", "md-ts-ols", "md-ts-log", "md-ts-inverse", "md-ts-logits", "md-ts-krr", "mixture",
          "feature-ts", "vector", "dac", "batch-row", "shift-weighted")  # fmt: skip


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


def rows(dtype="float64", which=slice(None), device="cpu"):
    """Logits, features and domains of the hard rows, as tensors."""
    data = hard_rows()
    z, x = (
        torch.tensor(a[which], dtype=getattr(torch, dtype)) for a in (data.logits, data.features)
    )
    return z.to(device), x.to(device), torch.tensor(data.domains[which], device=device)


def expected(name, z, x, domains):
    given = [None if a is None else a.cpu().numpy() for a in (z, x, domains)]
    return exported_model(name).predict_all(given[0], features=given[1], domains=given[2])


def assert_agrees(found, wanted, tolerance):
    np.testing.assert_allclose(found.probabilities.cpu(), wanted.probabilities, atol=tolerance)
    np.testing.assert_allclose(found.confidence.cpu(), wanted.confidence, atol=tolerance)
    if wanted.temperature is None:
        assert found.temperature is None
    else:
        np.testing.assert_allclose(found.temperature.cpu(), wanted.temperature, rtol=tolerance)


@pytest.mark.parametrize("name", EXPORTED)
def test_a_module_predicts_what_its_calibrator_does(name):
    module = exported_model(name).to_torch()
    for dtype, tolerance in (("float64", 1e-10), ("float32", 1e-5)):
        z, x, domains = rows(dtype)
        found = module(z, x, domains)
        assert found.probabilities.dtype == found.confidence.dtype == z.dtype
        assert_agrees(found, expected(name, z, x, domains), tolerance)
    assert (found.temperature is None) == name.startswith(WITHOUT_TEMPERATURE)
    one = rows("float64", slice(7, 8))
    assert_agrees(module(*one), expected(name, *one), 1e-10)


@pytest.mark.parametrize("name", BATCHES)
def test_without_domains_all_rows_are_one_batch(name):
    z, x, _ = rows("float64", slice(100))
    assert_agrees(exported_model(name).to_torch()(z, x), expected(name, z, x, None), 1e-10)


@pytest.mark.parametrize("name", ["domain-ts", "batch"])
def test_codes_may_be_integers_of_any_size(name):
    z, x, _ = rows("float32", slice(60))
    module, codes = exported_model(name).to_torch(), torch.arange(60) % 7
    wanted = module(z, x, codes)
    for dtype in (torch.uint8, torch.int16, torch.int32):
        assert torch.equal(module(z, x, codes.to(dtype))[0], wanted[0])


def test_batches_are_thinned_as_in_python():
    model = dc.ShiftWeightedScaling(max_rows=50)
    model.fit(training_rows())
    z, x, domains = rows()
    domains = domains % 2  # batches of about 180 rows
    given = (a.numpy() for a in (x, domains))
    wanted = model.predict_temperature(
        z.numpy(), **dict(zip(("features", "domains"), given, strict=True))
    )
    found = model.to_torch()
    np.testing.assert_allclose(found(z, x, domains).temperature, wanted, rtol=1e-10)
    model.max_rows = 20_000
    assert abs(model.to_torch()(z, x, domains).temperature - torch.tensor(wanted)).max() > 1e-4


def test_of_rows_at_the_same_distance_the_first_of_the_fit_are_neighbours():
    model = copy.copy(exported_model("md-ts-knn"))
    whole = np.random.default_rng(0).integers(0, 3, (200, 16)).astype(np.float64)
    whole[:, 2:] = 0.0  # nine different rows
    model.head_ = dataclasses.replace(
        model.head_, rows=whole, targets=np.linspace(1.0, 2.0, 200), n_neighbors=10
    )
    x, z = torch.tensor(whole[:9]), torch.zeros(9, 5)
    means = NeighbourMeans(torch.tensor(whole), torch.tensor(model.head_.targets))  # of a GPU
    found = model.to_torch()(z, x).temperature
    torch.testing.assert_close(found, means(x, [10])[:, 0].clamp(*model.clip_).float())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_computed_in_float32(dtype):
    z, x, _ = (a[:300] for a in rows(dtype))
    module = exported_model("md-ts-ols").to_torch()
    found = module(z, x)
    assert found.probabilities.dtype == torch.float32
    assert torch.equal(found.probabilities, module(z.float(), x.float()).probabilities)


def test_float64_and_integer_logits_are_computed_in_float64():
    module = exported_model("ts").to_torch()
    logits = torch.tensor([[3, 0, 1, 0, 2]])
    assert module(logits).probabilities.dtype == torch.float64
    assert torch.equal(module(logits).probabilities, module(logits.double()).probabilities)


def test_a_tiny_temperature_gives_all_to_the_largest_logit():
    model = dc.TemperatureScaling().fit(training_rows())
    model.temperature_ = 1e-60
    z = rows("float32")[0]
    found = model.to_torch()(z).probabilities
    np.testing.assert_allclose(found, model.predict_proba(z.numpy()), atol=1e-6)


@pytest.mark.parametrize("name", ["md-ts-ols", "md-ts-krr", "isotonic-rest", "batch", "dac"])
def test_no_rows_give_no_predictions(name):
    found = exported_model(name).to_torch()(*rows("float32", slice(0)))
    assert found.probabilities.shape == (0, 5)
    assert found.confidence.shape == (0,)


@pytest.mark.parametrize("name", EXPORTED)
@pytest.mark.parametrize("bad", [np.nan, -np.inf])
def test_rows_that_are_not_finite_are_nan(name, bad):
    z, x, _ = rows("float32", slice(20))
    module, domains = exported_model(name).to_torch(), torch.arange(20)
    good = module(z, x, domains)
    z[3, 1] = bad
    broken = [3]
    if module.n_features is not None:
        x[5, 0] = bad
        broken = [3, 5]
    found = module(z, x, domains)
    others = np.setdiff1d(np.arange(20), broken)
    for values, same in zip(found, good, strict=True):
        if values is not None:
            assert values[broken].isnan().all()
            torch.testing.assert_close(values[others], same[others], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", SMOOTH)
def test_gradients_are_those_of_finite_differences(name):
    data = training_rows()  # far from the limits of temperatures
    z, x = (torch.tensor(a[100::300], dtype=torch.float64) for a in (data.logits, data.features))
    module = exported_model(name).to_torch()
    domains = torch.zeros(len(z), dtype=torch.int64)
    inputs = [z.requires_grad_()]
    if module.n_features is not None:
        inputs.append(x.requires_grad_())

    def outputs(logits, features=None):
        return [a for a in module(logits, features, domains) if a is not None]

    assert torch.autograd.gradcheck(outputs, inputs, atol=1e-6)
    if len(inputs) == 2:
        (slope,) = torch.autograd.grad(module(z, x, domains).confidence.sum(), x)
        assert slope.any()


@pytest.mark.parametrize("name", ["histogram", "isotonic-rest", "md-ts-knn", "domain-ts"])
def test_gradients_of_the_others_reach_the_logits(name):
    z, x, domains = rows("float64", slice(60))
    module = exported_model(name).to_torch()
    module(z.requires_grad_(), x, domains).probabilities[:, 0].sum().backward()
    assert z.grad.isfinite().all()
    assert z.grad.any()


def test_gradients_of_batches_of_single_rows_are_finite():
    z, x, _ = (a[:30] for a in rows())
    module = exported_model("batch").to_torch()
    found = module(z.requires_grad_(), x.requires_grad_(), torch.arange(30))
    found.temperature.sum().backward()
    assert z.grad.isfinite().all()
    assert x.grad.isfinite().all()


def test_a_compiled_module_has_no_breaks_and_the_same_numbers():
    torch._dynamo.reset()
    module = exported_model("batch").to_torch()
    compiled = torch.compile(module, backend="eager", fullgraph=True, dynamic=True)
    for n in (50, 200):
        z, x, domains = rows("float32", slice(n))
        assert torch.equal(compiled(z, x, domains).probabilities, module(z, x, domains)[0])


@pytest.mark.parametrize("name", ["md-ts-krr", "isotonic-rest", "batch"])
def test_an_exported_module_takes_any_number_of_rows(name):
    module = exported_model(name).to_torch()
    n = {0: torch.export.Dim("n")}
    program = torch.export.export(
        module, rows("float32", slice(50)), dynamic_shapes=(n, n, n)
    ).module()
    for which in (slice(None), slice(1)):
        given = rows("float32", which)
        found = program(*given)
        assert type(found) is tuple
        for values, wanted in zip(found, module(*given), strict=True):
            if wanted is not None:
                torch.testing.assert_close(values, wanted, rtol=1e-6, atol=1e-7)


def test_an_exported_file_needs_no_class_of_ours():
    module = exported_model("ts").to_torch()
    file = io.BytesIO()
    torch.export.save(torch.export.export(module, rows("float32")[:1]), file)
    assert b"domaincal" not in _tree(file)
    program = torch.export.load(io.BytesIO(file.getvalue())).module()
    assert torch.equal(program(rows("float32")[0])[0], module(rows("float32")[0])[0])


def _tree(file):
    """Description of the program in an exported file, without the places in its source."""
    import json
    import zipfile

    with zipfile.ZipFile(file) as archive:
        name = next(n for n in archive.namelist() if n.endswith("models/model.json"))
        program = json.loads(archive.read(name))
    return json.dumps(
        [part["signature"] for part in program["graph_module"]["module_call_graph"]]
    ).encode()


def test_the_state_of_a_module_is_that_of_the_calibrator():
    model = exported_model("md-ts-ridge")
    half = training_rows().logits[:600], training_rows().labels[:600]
    other = dc.MultiDomainTemperatureScaling("ridge", fit_intercept=True).fit(
        *half, features=training_rows().features[:600], domains=training_rows().domains[:600]
    )
    z, x, _ = rows()
    module = other.to_torch()
    assert not torch.equal(module(z, x)[0], model.to_torch()(z, x)[0])
    module.load_state_dict(model.to_torch().state_dict())
    assert torch.equal(module(z, x)[0], model.to_torch()(z, x)[0])
    assert not list(module.parameters())


@pytest.mark.parametrize(("name", "other"), [
    ("md-ts-ols", "md-ts-log"), ("batch", "batch-row"), ("md-ts-ols", "feature-ts"),
])  # fmt: skip
def test_the_state_of_other_options_is_refused(name, other):
    module, state = exported_model(name).to_torch(), exported_model(other).to_torch().state_dict()
    with pytest.raises(RuntimeError, match=r"state of .*, but the module is that of .*; make it"):
        module.load_state_dict(state)
    with pytest.raises(RuntimeError, match="Missing key"):
        module.load_state_dict({})


def test_the_state_of_other_neighbours_is_refused():
    few, more = (copy.copy(exported_model("md-ts-knn")) for _ in range(2))
    for n, model in ((3, few), (5, more)):
        model.head_ = dataclasses.replace(model.head_, n_neighbors=n)
    with pytest.raises(RuntimeError, match=r"n_neighbors=5, but .*n_neighbors=3; make"):
        few.to_torch().load_state_dict(more.to_torch().state_dict())


def test_half_precision_leaves_the_learned_numbers_in_float32():
    z, x, _ = rows("float32")
    for convert in (torch.nn.Module.half, torch.nn.Module.bfloat16):
        module = convert(exported_model("md-ts-ols").to_torch())
        assert module.head.coef.dtype == torch.float32
        assert_agrees(module(z, x), expected("md-ts-ols", z, x, None), 1e-5)


@pytest.mark.parametrize(
    "name", ["md-ts-krr", "mixture", "batch", "isotonic-rest", "vector", "dac"]
)
def test_a_float32_module_differs_by_rounding(name):
    given = rows("float32", slice(300))
    module = exported_model(name).to_torch()
    wanted = module(*given)
    module.float()
    assert all(b.dtype != torch.float64 for b in module.buffers())
    torch.testing.assert_close(module(*given).probabilities, wanted[0], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", ["mixture", "md-ts-krr", "batch"])
def test_autocast_changes_nothing(name):
    module, given = exported_model(name).to_torch(), rows("float32", slice(100))
    with torch.autocast("cpu", torch.bfloat16):
        found = module(*given)
    assert all(torch.equal(a, b) for a, b in zip(found, module(*given), strict=True))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", EXPORTED)
def test_the_numbers_on_a_gpu_are_the_same(name):
    z, x, domains = rows("float64", device="cuda")
    found = exported_model(name).to_torch().to("cuda")(z, x, domains)
    assert found.probabilities.device.type == "cuda"
    assert_agrees(found, expected(name, z, x, domains), 1e-10)


def test_a_domain_that_is_a_string_is_looked_up_by_its_position():
    data = training_rows()
    names = np.array([f"site-{code}" for code in data.domains])
    model = dc.DomainTemperatureScaling().fit(data.logits, data.labels, domains=names)
    codes = model.domain_temperatures_.index.get_indexer(names[::50])
    z = torch.tensor(data.logits[::50])
    found = model.to_torch()(z, domains=torch.tensor(codes)).temperature
    np.testing.assert_allclose(
        found, model.predict_temperature(data.logits[::50], domains=names[::50]), rtol=1e-6
    )
    unknown = model.to_torch()(z, domains=torch.full((len(z),), -1)).temperature
    np.testing.assert_allclose(unknown, model.temperature_, rtol=1e-6)
    for given in (None, names[::50], names[::50].tolist()):
        with pytest.raises(dc.errors.InputError, match=r"a tensor with the position .*get_indexer"):
            model.to_torch()(z, domains=given)


def test_a_calibrator_from_a_file_has_the_same_module(tmp_path):
    model = exported_model("batch")
    model.save(tmp_path / "model.safetensors")
    given = rows("float32")
    found = dc.load(tmp_path / "model.safetensors").to_torch()(*given)
    assert torch.equal(found[0], model.to_torch()(*given)[0])


BAD = {
    "classes": ("ts", lambda z, x, d: (z[:, :4],), r"\(360, 4\), but .* 5 classes; pass .*rows, 5"),
    "one row": ("ts", lambda z, x, d: (z[0],), r"shape \(5,\).*; pass .* of shape \(rows, 5\)"),
    "no features": ("md-ts-ols", lambda z, x, d: (z,), r"needs features; pass .*\(rows, 16\)"),
    "features": ("mixture", lambda z, x, d: (z, x[:, 1:]), r"\(360, 15\), .* 16 features; pass"),
    "feature rows": ("dac", lambda z, x, d: (z, x[1:]), "have 359 rows, but the logits have 360"),
    "no domains": ("domain-ts", lambda z, x, d: (z,), "needs domains; pass domains=..., a tensor"),
    "real domains": ("batch", lambda z, x, d: (z, x, d.float()), "float32 instead of integers"),
    "domain rows": ("batch", lambda z, x, d: (z, x, d[1:]), r"shape \(359,\), .* 360 rows"),
    "array": ("ts", lambda z, x, d: (z.numpy(),), r"logits are of the type ndarray; pass a tensor"),
    "feature list": ("dac", lambda z, x, d: (z, x.tolist()), "features are of the type list; pass"),
    "names": ("batch", lambda z, x, d: (z, x, ["a"] * 360),
              r"domains are of the type list; pass .* torch.tensor\(numpy.unique\(domains, "),
    "looked up": ("domain-ts", lambda z, x, d: (z, x, d.numpy()),
                  r"domains are of the type ndarray; pass .* the name .* torch.tensor\(domains\)"),
    "truth": ("ts", lambda z, x, d: (z > 0,), "logits are torch.bool; pass .* real numbers"),
    "complex": ("mixture", lambda z, x, d: (z, x + 1j), "features are torch.complex64; pass .*"),
    "device": ("isotonic", lambda z, x, d: (z.to("meta"),),
               r"logits are on meta, but the module is on cpu; call module.to\('meta'\)"),
    "features there": ("md-ts-ols", lambda z, x, d: (z, x.to("meta")), "features are on meta, but"),
    "domains there": ("batch", lambda z, x, d: (z, x, d.to("meta")), "domains are on meta, but "),
}  # fmt: skip


@pytest.mark.parametrize(("name", "change", "message"), BAD.values(), ids=BAD)
def test_bad_rows_are_named(name, change, message):
    with pytest.raises(dc.errors.InputError, match=message):
        exported_model(name).to_torch()(*change(*rows("float32")))


@pytest.mark.parametrize(("make", "message"), [
    (dc.CPCS, "CPCS fits a logistic regression to each batch .*; use BatchTemperatureScaling, or"),
    (dc.TransCal, "TransCal fits a logistic regression to each batch"),
    (lambda: dc.MultiDomainTemperatureScaling(LinearRegression()),
     "head is a LinearRegression, .* no torch module; fit with head='ridge'"),
])  # fmt: skip
def test_what_cannot_be_a_module_says_why(make, message):
    with pytest.raises(dc.errors.InputError, match=message):
        make().fit(training_rows()).to_torch()


def test_a_calibrator_that_is_not_fitted_has_no_module():
    with pytest.raises(NotFittedError, match="not fitted yet"):
        dc.TemperatureScaling().to_torch()


def test_without_torch_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(dc.errors.MissingDependencyError, match=r"domaincal\[torch\]"):
        exported_model("ts").to_torch()

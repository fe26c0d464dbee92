"""CalibratedModel: one forward pass, the same numbers as Python, bad networks and layers."""

import copy
import io
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import domaincal as dc
from domaincal import deploy

torch = pytest.importorskip("torch")
nn = torch.nn
CalibratedModel = deploy.CalibratedModel
pytestmark = pytest.mark.filterwarnings("ignore::domaincal.DomaincalWarning")


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


def network(n_classes=3, n_features=8):
    """Small network with dropout and batch normalisation; its last layer is "6"."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(2),
            nn.Flatten(), nn.Sequential(nn.Linear(16, n_features), nn.ReLU(), nn.Dropout()),
            nn.Linear(n_features, n_classes),
        )  # fmt: skip


def images(n=120, seed=0):
    return torch.randn(n, 1, 6, 6, generator=torch.Generator().manual_seed(seed))


def outputs(module, inputs):
    """Logits and features in eval mode."""
    module = copy.deepcopy(module).eval()
    with torch.inference_mode():
        features = module[:-1](inputs)
        return module[-1](features).numpy(), features.numpy()


def fitted(calibrator=None, module=None):
    calibrator = dc.MultiDomainTemperatureScaling() if calibrator is None else calibrator
    logits, features = outputs(network() if module is None else module, images())
    labels = np.random.default_rng(0).integers(0, 3, len(logits))
    return calibrator.fit(logits, labels, features=features, domains=np.arange(len(logits)) % 4)


@pytest.fixture(scope="module")
def md_ts():
    return fitted()


@pytest.mark.parametrize("calibrator", [
    dc.TemperatureScaling(), dc.MultiDomainTemperatureScaling(), dc.DomainMixtureScaling(),
    dc.IsotonicCalibration(), dc.BatchTemperatureScaling(), dc.DomainTemperatureScaling(),
], ids=lambda c: type(c).__name__)  # fmt: skip
def test_it_predicts_as_the_calibrator_of_the_outputs(calibrator):
    module, new = network(), images(40, seed=1)
    calibrated = CalibratedModel(module, fitted(calibrator), layer="6")
    codes = torch.arange(40) % 4
    with torch.inference_mode():
        found = calibrated(new, domains=codes)
    logits, features = outputs(module, new)
    wanted = calibrator.predict_all(logits, features=features, domains=codes.numpy())
    np.testing.assert_allclose(found.probabilities, wanted.probabilities, atol=1e-5)
    np.testing.assert_allclose(found.confidence, wanted.confidence, atol=1e-5)
    if wanted.temperature is not None:
        np.testing.assert_allclose(found.temperature, wanted.temperature, rtol=1e-5)


def test_the_network_runs_once_and_in_eval_mode(md_ts):
    module = network().train()
    calls = []
    module[0].register_forward_hook(lambda *_: calls.append(1))
    calibrated = CalibratedModel(module, md_ts, layer="6")
    assert torch.equal(calibrated(images(5))[0], calibrated(images(5))[0])
    assert len(calls) == 2
    assert not module.training


def test_a_calibrator_without_features_needs_no_layer():
    calibrated = CalibratedModel(network(), fitted(dc.TemperatureScaling()))
    assert calibrated.layer is None
    assert calibrated(images(5)).probabilities.shape == (5, 3)


def test_the_last_layer_of_a_network_of_timm_is_found(md_ts):
    class OfTimm(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head = network()[:-1], nn.ModuleDict({"fc": network()[-1]})

        def get_classifier(self):
            return self.head["fc"]

        def forward(self, x):
            return self.head["fc"](self.body(x))

    calibrated = CalibratedModel(OfTimm(), md_ts)
    assert calibrated.layer == "head.fc"
    wanted = CalibratedModel(network(), md_ts, layer="6")(images(5))
    assert torch.equal(calibrated(images(5)).probabilities, wanted.probabilities)


def test_the_state_is_that_of_the_network_and_of_the_calibrator(md_ts):
    calibrated = CalibratedModel(network(), md_ts, layer="6")
    state = calibrated.state_dict()
    assert {name.split(".")[0] for name in state} == {"model", "calibrator"}
    other = network()
    nn.init.normal_(other[-1].weight)
    another = CalibratedModel(other, fitted(module=other), layer="6")
    assert not torch.equal(another(images(5))[0], calibrated(images(5))[0])
    another.load_state_dict(state)
    assert torch.equal(another(images(5))[0], calibrated(images(5))[0])


def test_copies_and_files_are_independent(md_ts):
    calibrated = CalibratedModel(network(), md_ts, layer="6")
    wanted = calibrated(images(5)).probabilities
    file = io.BytesIO()
    torch.save(calibrated, file)
    file.seek(0)
    for other in (copy.deepcopy(calibrated), torch.load(file, weights_only=False)):
        assert torch.equal(other(images(5)).probabilities, wanted)
        nn.init.zeros_(other.model[5][0].weight)
    assert torch.equal(calibrated(images(5)).probabilities, wanted)


def test_threads_do_not_mix_their_features(md_ts):
    calibrated = CalibratedModel(network(), md_ts, layer="6")
    batches = [images(n, seed=n) for n in range(1, 60)]
    with torch.inference_mode():
        wanted = [calibrated(batch).temperature for batch in batches]
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda batch: calibrated(batch).temperature, batches))
    assert all(torch.allclose(a, b) for a, b in zip(found, wanted, strict=True))


def test_the_network_by_itself_keeps_nothing(md_ts):
    module = network()
    calibrated = CalibratedModel(module, md_ts, layer="6")
    module(images(5))
    assert calibrated._calls.inputs is None
    with pytest.raises(RuntimeError):
        calibrated(torch.zeros(2, 3))
    assert calibrated._calls.inputs is None


def test_half_precision_changes_the_network_only(md_ts):
    calibrated = CalibratedModel(network(), md_ts, layer="6").bfloat16()
    found = calibrated(images(5).bfloat16())
    assert found.probabilities.dtype == torch.float32
    assert calibrated.calibrator.head.coef.dtype == torch.float32


def test_a_copy_of_the_network_holds_no_calibrator(md_ts):
    module = network()
    calibrated = CalibratedModel(module, md_ts, layer="6")
    (hook,) = copy.deepcopy(module)[6]._forward_pre_hooks.values()
    assert not any(isinstance(part, nn.Module) for part in vars(hook.__self__).values())
    assert not isinstance(hook.__self__, nn.Module)
    another = CalibratedModel(copy.deepcopy(module), md_ts, layer="6")
    assert torch.equal(another(images(5))[0], calibrated(images(5))[0])


@pytest.mark.filterwarnings("ignore:.torch.jit.*:DeprecationWarning")
def test_a_traced_network_serves_a_calibrator_without_features():
    calibrator = fitted(dc.TemperatureScaling())
    traced = CalibratedModel(torch.jit.trace(network().eval(), images(2)), calibrator)
    wanted = CalibratedModel(network(), calibrator)(images(5)).probabilities
    torch.testing.assert_close(traced(images(5)).probabilities, wanted)


def test_gradients_reach_the_inputs(md_ts):
    x = images(3).requires_grad_()
    CalibratedModel(network(), md_ts, layer="6")(x).confidence.sum().backward()
    assert x.grad.any()


def test_it_is_compiled_without_breaks_and_exported(md_ts):
    torch._dynamo.reset()
    calibrated = CalibratedModel(network(), md_ts, layer="6")
    wanted = calibrated(images(9)).probabilities
    compiled = torch.compile(calibrated, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(images(9)).probabilities, wanted)
    n = torch.export.Dim("n")
    program = torch.export.export(calibrated, (images(4),), dynamic_shapes=(({0: n},),)).module()
    torch.testing.assert_close(program(images(9))[0], wanted)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_it_moves_to_a_gpu_and_starts_on_that_of_the_network(md_ts):
    wanted = CalibratedModel(network(), md_ts, layer="6")(images(9)).probabilities
    for calibrated in (
        CalibratedModel(network(), md_ts, layer="6").to("cuda"),
        CalibratedModel(network().to("cuda"), md_ts, layer="6"),
    ):
        found = calibrated(images(9).to("cuda")).probabilities
        torch.testing.assert_close(found.cpu(), wanted, rtol=1e-4, atol=1e-4)


def compiled_in_place(name):
    module = network()
    module.get_submodule(name).compile(backend="eager")
    return module


class Wrapped(nn.Module):
    """A network whose output is changed."""

    def __init__(self, change):
        super().__init__()
        self.inner, self.change = network(), change

    def forward(self, x):
        return self.change(self.inner, x)


BAD_OUTPUTS = {
    "tuple": (lambda net, x: (net(x), 0), r"returns a tuple instead .*'inner.inner.6'"),
    "dictionary": (lambda net, x: {"logits": net(x)}, r"returns a dict .*\(inputs\).logits"),
    "shape": (lambda net, x: net(x)[:, :, None], r"shape \(4, 3, 1\), .*'inner.inner.6'"),
    "classes": (lambda net, x: net(x)[:, :2], "returns 2 classes, but the calibrator .* 3; pass a"),
    "twice": (lambda net, x: net(x) + net(x), "'inner.6' was called 2 times for one batch; name"),
    "never": (lambda net, x: net[:-1](x)[:, :3], "'inner.6' was called 0 times"),
    "keyword": (lambda net, x: net[-1](input=net[:-1](x)), "called with no positional argument"),
    "rows": (lambda net, x: net(x)[:2], r"'inner.6' has the shape \(4, 8\) for 2 rows of logits"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "message"), BAD_OUTPUTS.values(), ids=BAD_OUTPUTS)
def test_a_network_that_returns_something_else_is_an_error(change, message, md_ts):
    calibrated = CalibratedModel(Wrapped(change), md_ts, layer="inner.6")
    with pytest.raises(dc.errors.InputError, match=message):
        calibrated(images(4))


@pytest.mark.parametrize("columns", [slice(1), 0])
def test_one_logit_of_a_binary_classifier_is_an_error(columns):
    logits = np.random.default_rng(0).normal(size=(40, 2))
    calibrator = dc.TemperatureScaling().fit(logits, np.arange(40) % 2)
    calibrated = CalibratedModel(Wrapped(lambda net, x: net(x)[:, columns]), calibrator)
    with pytest.raises(dc.errors.InputError, match=r"one logit z .*stack\(\(torch.zeros"):
        calibrated(images(4))


def test_a_layer_with_other_features_is_an_error(md_ts):
    calibrated = CalibratedModel(network(), md_ts, layer="5.0")
    with pytest.raises(dc.errors.InputError, match=r"'5.0' has 16 features, .* with 8; name the"):
        calibrated(images(4))


BAD_ARGUMENTS = {
    "layer": (lambda m: (network(), m, "5.3"), r"no layer '5.3'; .* one of 5.2, 5.1, 5.0, 6"),
    "no layer": (lambda m: (network(), m, None), r"Scaling needs features; pass layer=.* 5.0, 6"),
    "layer unused": (lambda m: (network(), fitted(dc.TemperatureScaling()), "x"), "no layer 'x'"),
    "model": (lambda m: (dc.vision.Network(network(), "6"), m, None), "got Network; .*layer="),
    "calibrator": (lambda m: (network(), "model.safetensors", "6"), r"got str; domaincal.load\("),
    "module": (lambda m: (network(), m.to_torch(), "6"), "got FeatureTemperatures; pass the "),
    "classifier": (lambda m: (network(), deploy.CalibratedDomainClassifier(None), "6"),
                   r"got CalibratedDomainClassifier; pass its calibrator_"),
    "root": (lambda m: (network(), m, ""), "has no layer ''; .* one of 5.0, 6"),
    "traced": (lambda m: (torch.jit.trace(network().eval(), images(2)), m, "6"),
               r"'6' is compiled by torch.jit, .*; pass the network as it was before torch.jit"),
    "compiled": (lambda m: (torch.compile(network(), backend="eager"), m, "6"),
                 r"'6' is compiled by torch.compile, .*compile the CalibratedModel instead"),
    "in place": (lambda m: (compiled_in_place(""), m, "6"), "'6' is compiled by torch.compile"),
    "its layer": (lambda m: (compiled_in_place("6"), m, "6"), "'6' is compiled by torch.compile"),
    "exported": (lambda m: (torch.export.export(network().eval(), (images(2),)).module(), m, "6"),
                 r"is a GraphModule of torch.export, .*; pass the network that was exported"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:.torch.jit.*:DeprecationWarning")
@pytest.mark.parametrize(("arguments", "message"), BAD_ARGUMENTS.values(), ids=BAD_ARGUMENTS)
def test_bad_arguments_are_named(arguments, message, md_ts):
    model, calibrator, layer = arguments(md_ts)
    with pytest.raises(dc.errors.InputError, match=message):
        CalibratedModel(model, calibrator, layer=layer)


def test_a_calibrator_that_is_not_fitted_is_an_error():
    with pytest.raises(NotFittedError, match="not fitted yet"):
        CalibratedModel(network(), dc.TemperatureScaling())

"""Fits of tensors, on their device, equal fits of numpy arrays."""

import numpy as np
import pytest

import domaincal as dc
from domaincal import _tensors
from support import CALIBRATORS, given, small_domains

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore::domaincal.DomaincalWarning")

#: Tolerance of predictions for each dtype of logits and features.
TOLERANCES = {"float16": 1e-5, "bfloat16": 1e-5, "float32": 1e-5, "float64": 1e-8}
_MD_TS = dc.MultiDomainTemperatureScaling


def in_precision(data: dc.CalibrationData, dtype: str) -> dc.CalibrationData:
    """The same rows, rounded to a dtype, in numpy arrays."""

    def rounded(values):
        tensor = torch.tensor(values).to(getattr(torch, dtype))
        return (tensor.float() if dtype == "bfloat16" else tensor).numpy()

    return dc.CalibrationData(
        rounded(data.logits), labels=data.labels, features=rounded(data.features),
        domains=data.domains,
    )  # fmt: skip


def as_tensors(data: dc.CalibrationData, dtype: str, device: str) -> dict:
    def sent(values):
        return torch.tensor(values, device=device).to(getattr(torch, dtype))

    return {"logits": sent(data.logits), "features": sent(data.features)}


def compare(make, dtype, device, data, **options):
    """Fit arrays and tensors, and compare the predictions; returns both calibrators."""
    tolerance = TOLERANCES[dtype]
    if getattr(make(), "head", None) == "huber":  # stops where the slope is small
        tolerance = max(tolerance, 1e-6)
    data = in_precision(data, dtype)
    there = as_tensors(data, dtype, device)
    y = torch.tensor(data.labels, device=device)
    here = make().fit(data.logits, data.labels, **given(data), **options)
    fitted = make().fit(
        there["logits"], y, features=there["features"], domains=data.domains,
        **{name: torch.tensor(values, device=device) for name, values in options.items()},
    )  # fmt: skip
    assert fitted.data_fingerprint_ == here.data_fingerprint_
    said = {"features": there["features"], "domains": data.domains}
    names = ["predict_proba", "predict_confidence", "predict_temperature"]
    for name in names if hasattr(here, names[-1]) else names[:2]:
        expected = getattr(here, name)(data.logits, **given(data))
        found = getattr(fitted, name)(there["logits"], **said)
        assert isinstance(found, torch.Tensor)
        assert found.device == there["logits"].device
        assert str(found.dtype) == f"torch.{expected.dtype}"
        relative = tolerance if name == "predict_temperature" else 0.0
        np.testing.assert_allclose(found.cpu().numpy(), expected, atol=tolerance, rtol=relative)
    return here, fitted


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CALIBRATORS)
def test_every_calibrator_gives_the_predictions_of_arrays(name, dtype, device):
    compare(CALIBRATORS[name], dtype, device, small_domains())


# Without knn: rounded rows have equal distances, and scikit-learn has no rule for ties.
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["ts", "md-ts", "md-ts-ridge", "md-ts-krr", "isotonic"])
def test_half_precision_gives_the_predictions_of_arrays(name, dtype, device):
    compare(CALIBRATORS[name], dtype, device, small_domains())


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("target", ["temperature", "log", "inverse"])
@pytest.mark.parametrize("head", ["ols", "ridge", "huber", "krr", "knn"])
def test_every_head_and_target_gives_the_fit_of_arrays(head, target, intercept, device):
    def make():
        return _MD_TS(head, target=target, fit_intercept=intercept)

    here, fitted = compare(make, "float32", device, small_domains(seed=3, n_rows=70))
    np.testing.assert_allclose(fitted.domain_temperatures_, here.domain_temperatures_, rtol=1e-5)
    np.testing.assert_allclose(
        fitted.domain_standard_errors_, here.domain_standard_errors_, rtol=5e-3
    )
    assert fitted.head_parameters_ == pytest.approx(here.head_parameters_, rel=1e-6)
    if len(here.head_search_):
        columns = ["nll", "nll_pooled"]
        np.testing.assert_allclose(
            fitted.head_search_[columns], here.head_search_[columns], rtol=1e-5
        )
    if head in ("ols", "ridge", "huber"):
        scale = np.abs(here.coef_).max()
        np.testing.assert_allclose(fitted.coef_ / scale, here.coef_ / scale, atol=1e-5)
        assert fitted.intercept_ == pytest.approx(here.intercept_, abs=1e-5)


@pytest.mark.parametrize("name", ["ts", "domain-ts", "md-ts", "md-ts-ridge-intercept",
                                  "md-ts-huber", "md-ts-krr", "isotonic"])  # fmt: skip
def test_weights_give_the_predictions_of_arrays(name, device):
    data = small_domains()
    weight = np.random.default_rng(0).uniform(0.0, 2.0, len(data))
    weight[:20] = 0.0
    compare(CALIBRATORS[name], "float64", device, data, sample_weight=weight)


@pytest.mark.parametrize("name", ["ts", "domain-ts", "md-ts", "md-ts-ridge"])
def test_many_rows_give_the_fit_of_arrays(name, device):
    """There are enough rows for the compiled kernels and for a start from samples."""
    data = small_domains(n_domains=7, n_rows=4000, n_classes=40)
    mixed = data.select(np.random.default_rng(0).permutation(len(data)))
    for rows in (data, mixed):
        here, fitted = compare(CALIBRATORS[name], "float32", device, rows)
        assert fitted.temperature_ == pytest.approx(here.temperature_, rel=1e-6)
        assert fitted.n_iter_ <= here.n_iter_ + 2


def test_blocks_on_the_device_change_nothing(device, monkeypatch):
    """Sums and predictions do not depend on the size of the blocks."""
    for module, name in (
        ("domaincal.kernels.torch_kernels", "CHUNK_BYTES"),
        ("domaincal.statistics.feature_products", "DEVICE_BLOCK_BYTES"),
        ("domaincal.calibrators.heads.block_predictions", "DEVICE_BLOCK_BYTES"),
    ):
        monkeypatch.setattr(f"{module}.{name}", 3000)
    for name in ("md-ts-intercept", "md-ts-ridge", "md-ts-huber", "md-ts-krr", "md-ts-knn"):
        compare(CALIBRATORS[name], "float64", device, small_domains())


def test_logits_and_features_can_be_on_different_devices(device):
    data = small_domains()
    there = as_tensors(data, "float64", device)
    expected = _MD_TS("ridge").fit(data.logits, data.labels, **given(data))
    for logits, features in ((there["logits"], data.features), (data.logits, there["features"])):
        fitted = _MD_TS("ridge").fit(logits, data.labels, features=features, domains=data.domains)
        found = fitted.predict_confidence(logits, features=features)
        assert isinstance(found, torch.Tensor) == isinstance(logits, torch.Tensor)
        np.testing.assert_allclose(
            torch.as_tensor(found).cpu(),
            expected.predict_confidence(data.logits, features=data.features), rtol=1e-8,
        )  # fmt: skip


def test_domains_and_labels_can_be_tensors(device):
    data = small_domains()
    codes = np.unique(data.domains, return_inverse=True)[1]
    send = [torch.tensor(v, device=device) for v in (data.logits, data.labels, codes)]
    here = dc.DomainTemperatureScaling().fit(data.logits, data.labels, domains=codes)
    fitted = dc.DomainTemperatureScaling().fit(send[0], send[1], domains=send[2])
    np.testing.assert_allclose(fitted.domain_temperatures_, here.domain_temperatures_, rtol=1e-8)
    np.testing.assert_allclose(
        fitted.predict_temperature(send[0], domains=send[2]).cpu(),
        here.predict_temperature(data.logits, domains=codes), rtol=1e-8,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["ts", "md-ts", "md-ts-krr", "md-ts-knn", "histogram"])
def test_a_file_of_a_calibrator_fitted_on_tensors_predicts_for_arrays(name, device, tmp_path):
    data = small_domains()
    here, fitted = compare(CALIBRATORS[name], "float64", device, data)
    fitted.save(tmp_path / "there.safetensors")
    loaded = dc.load(tmp_path / "there.safetensors")
    np.testing.assert_allclose(
        loaded.predict_confidence(data.logits, **given(data)),
        here.predict_confidence(data.logits, **given(data)), rtol=1e-8,
    )  # fmt: skip
    if _tensors.is_host(torch.device(device)):  # the very same arithmetic
        here.save(tmp_path / "here.safetensors")
        same = [(tmp_path / f"{k}.safetensors").read_bytes() for k in ("here", "there")]
        assert len(same[0]) == len(same[1])
        assert loaded.get_params() == here.get_params()


def test_fits_and_predictions_have_no_gradients(device):
    data = small_domains()
    logits = torch.tensor(data.logits, device=device, requires_grad=True)
    fitted = dc.TemperatureScaling().fit(logits, data.labels)
    found = fitted.predict_proba(logits)
    assert not found.requires_grad
    assert logits.grad is None
    expected = dc.TemperatureScaling().fit(data.logits, data.labels)
    assert fitted.temperature_ == pytest.approx(expected.temperature_, rel=1e-8)


def test_a_calibrator_of_the_user_returns_tensors(device):
    class Doubled(dc.TemperatureScaling):
        def _temperatures(self, logits, features, domains):
            return 2.0 * super()._temperatures(logits, features, domains)

    data = small_domains()
    fitted = Doubled().fit(data.logits, data.labels)
    logits = torch.tensor(data.logits, device=device)
    found = fitted.predict_temperature(logits)
    assert isinstance(found, torch.Tensor)
    assert found.device == logits.device
    plain = dc.TemperatureScaling().fit(data.logits, data.labels)
    np.testing.assert_allclose(found.cpu(), 2.0 * plain.temperature_)
    assert isinstance(fitted.predict_confidence(data.logits), np.ndarray)

"""Sums of features and of batches on a device, and solutions from them."""

import functools

import numpy as np
import pytest

import domaincal as dc
from domaincal._tensors import DeviceArray
from domaincal.kernels import torch_features
from domaincal.kernels.device_groups import RowGroups
from domaincal.kernels.torch_factors import DeviceFactor
from domaincal.statistics import LeastSquares, normal_equations
from domaincal.statistics.least_squares import HostFactor
from domaincal.statistics.normal_equations import sum_normal_equations
from support import small_domains

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore::domaincal.DomaincalWarning")
HALF = {"float16": torch.float16, "bfloat16": torch.bfloat16}


def correlated_rows(n=9000, n_features=24, condition=20.0, offset=0.0):
    """Features whose singular values are spread evenly, in units of the largest."""
    rng = np.random.default_rng(0)
    left, _ = np.linalg.qr(rng.normal(size=(n, n_features)))
    right, _ = np.linalg.qr(rng.normal(size=(n_features, n_features)))
    return np.sqrt(n) * (left * np.geomspace(1.0, 1.0 / condition, n_features)) @ right + offset


@pytest.fixture
def elsewhere(monkeypatch):
    """The CPU, treated as a device that numpy cannot read."""
    monkeypatch.setattr("domaincal._tensors.is_host", lambda device: False)
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.parametrize("dtype", HALF)
def test_products_of_16_bits_are_summed_to_single_precision(dtype, elsewhere):
    x = torch.tensor(correlated_rows(), device=elsewhere).to(HALF[dtype])
    rows = torch.randperm(len(x), device=elsewhere)[:8500]  # two blocks, and a part of one
    exact = x[rows].double().T @ x[rows].double()
    found = torch_features.gram_of_products(x, rows)
    assert found.dtype == torch.float64
    # A device may cut off digits of its sums of 4,096 products.
    assert float((found - exact).abs().max() / exact.abs().max()) < 1e-4
    shift = torch.zeros(24, dtype=torch.float64, device=elsewhere)
    exactly = torch_features.gram_matrix(x, rows, shift, None)
    np.testing.assert_allclose(exactly.cpu(), exact.cpu(), rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("dtype", HALF)
def test_refined_products_of_16_bits_give_the_fit_in_double_precision(
    dtype, intercept, elsewhere, monkeypatch
):
    rows = correlated_rows(offset=0.5 if intercept else 0.0)
    data = small_domains(n_domains=6, n_rows=1500, n_features=24)
    x = torch.tensor(rows, device=elsewhere).to(HALF[dtype])
    logits = torch.tensor(data.logits, device=elsewhere)
    calls = []
    kernel = torch_features.gram_of_products

    def counted(*args):
        calls.append(1)
        return kernel(*args)

    monkeypatch.setattr(torch_features, "gram_of_products", counted)

    def fit(smallest):
        monkeypatch.setattr(normal_equations, "COMPILED_FROM", smallest)
        calls.clear()
        model = dc.MultiDomainTemperatureScaling(fit_intercept=intercept)
        model.fit(logits, data.labels, features=x, domains=data.domains)
        return model, len(calls)

    single, n_calls = fit(0)
    double, none = fit(np.inf)
    assert n_calls > 0
    assert none == 0
    scale = np.abs(double.coef_).max()
    np.testing.assert_allclose(single.coef_ / scale, double.coef_ / scale, atol=1e-9)
    assert single.intercept_ == pytest.approx(double.intercept_, abs=1e-9)


def test_products_are_double_again_where_refinement_does_not_converge(elsewhere, monkeypatch):
    """Two nearly equal features: their difference is lost in the sums of products."""
    rows = correlated_rows()
    rows[:, 1] = rows[:, 0] * (1 + 1e-3 * np.sign(rows[:, 2]))
    data = small_domains(n_domains=6, n_rows=1500, n_features=24)
    x = torch.tensor(rows, device=elsewhere).half()
    logits = torch.tensor(data.logits, device=elsewhere)
    fits = []
    for smallest in (0, np.inf):
        monkeypatch.setattr(normal_equations, "COMPILED_FROM", smallest)
        fits.append(
            dc.MultiDomainTemperatureScaling().fit(
                logits, data.labels, features=x, domains=data.domains
            )
        )
    np.testing.assert_allclose(fits[0].coef_, fits[1].coef_, rtol=1e-6, atol=1e-8)


def test_a_number_too_large_for_single_precision_is_summed_in_double(elsewhere, monkeypatch):
    data = small_domains(n_domains=4, n_rows=60, n_features=3)
    x = torch.tensor(data.features, device=elsewhere).to(torch.bfloat16)
    x[:, 0] *= 1e20  # its square is no float32
    monkeypatch.setattr(normal_equations, "COMPILED_FROM", 0)
    (sums,) = sum_normal_equations(
        DeviceArray(x), data.domain_codes[0], part=np.zeros(4, np.int64), single=True
    )
    assert not sums.single
    exact = x.double().T @ x.double()
    np.testing.assert_allclose(sums.gram.cpu(), exact.cpu(), rtol=1e-12)


@pytest.mark.parametrize("alpha", [0.0, 3.0])
def test_a_factor_on_the_device_is_that_of_lapack(alpha, elsewhere):
    x = correlated_rows(n=500)
    gram, right = x.T @ x, np.arange(24.0)
    here = HostFactor.of(gram, alpha)
    there = DeviceFactor.of(torch.tensor(gram + alpha * np.eye(24), device=elsewhere))
    np.testing.assert_allclose(there.solve(right), here.solve(right), rtol=1e-10)
    exact = np.linalg.cond(gram + alpha * np.eye(24))
    assert exact / 1.6**2 < there.condition < exact * 1.0001
    assert DeviceFactor.of(torch.tensor(-gram, device=elsewhere)) is None


@pytest.mark.parametrize("alpha", [0.0, 1e-3])
@pytest.mark.parametrize("intercept", [False, True])
def test_dependent_and_empty_features_are_solved_as_on_the_host(intercept, alpha, elsewhere):
    x = correlated_rows(n=600, offset=2.0)
    x[:, 3] = x[:, 5]
    x[:, 7] = 0.0
    codes = np.arange(600) % 5
    targets = np.linspace(1.0, 2.0, 5)

    def solve(features):
        (sums,) = sum_normal_equations(
            features, codes, part=np.zeros(5, np.int64), fit_intercept=intercept
        )
        solver = LeastSquares(sums, fit_intercept=intercept)
        return solver.solve(targets, alpha=alpha), solver.condition(alpha=alpha)

    here, condition = solve(x)
    there, same = solve(DeviceArray(torch.tensor(x, device=elsewhere)))
    np.testing.assert_allclose(there.coef, here.coef, atol=1e-7)
    assert there.intercept == pytest.approx(here.intercept, abs=1e-7)
    assert np.isinf(same) == np.isinf(condition)


def test_parts_of_groups_are_their_rows(elsewhere):
    codes = torch.tensor([2, 0, 1, 2, 3, 0], device=elsewhere)
    groups = RowGroups(6, elsewhere, codes, 4)
    found = groups.rows_of_parts(np.array([1, -1, 0, 1]), 2)
    assert [part.tolist() for part in found] == [[0, 3], [1, 4, 5]]
    one = RowGroups(3, elsewhere).rows_of_parts(np.array([1]), 2)
    assert [part.tolist() for part in one] == [[], [0, 1, 2]]
    assert groups.rows_at(np.array([0, 1, 5])).tolist() == [1, 5, 4]
    assert groups.sums().tolist() == [2, 1, 2, 1]
    assert RowGroups(6, elsewhere).sums().tolist() == [6]


@functools.cache
def batch_model():
    data = small_domains(n_domains=8, n_rows=120)
    return dc.BatchTemperatureScaling().fit(data.logits, data.labels, domains=data.domains)


def batch_rows():
    new = small_domains(n_domains=3, n_rows=70, seed=5)
    return new.logits.astype(np.float32), np.random.default_rng(0).integers(0, 40, 210)


class TestBatches:
    """Predictions for batches of rows on a device are those of arrays."""

    @pytest.mark.parametrize("given", ["tensor", "array", "names", "none"])
    def test_every_prediction(self, given, device):
        model, (z, batch) = batch_model(), batch_rows()
        domains, there = {
            "tensor": (batch, torch.tensor(3 * batch - 7, device=device)),
            "array": (batch, batch),
            "names": (batch, batch.astype(str)),
            "none": (None, None),
        }[given]
        sent = torch.tensor(z, device=device)
        for name in (
            "predict_proba", "predict_confidence", "predict_temperature",
            "predict_temperature_error",
        ):  # fmt: skip
            expected = getattr(model, name)(z, domains=domains)
            found = getattr(model, name)(sent, domains=there)
            assert found.device.type == device
            assert str(found.dtype) == f"torch.{expected.dtype}"
            np.testing.assert_allclose(found.cpu(), expected, rtol=1e-5, atol=1e-6)

    def test_single_rows(self, device):
        z, _ = batch_rows()
        data = small_domains(n_domains=8, n_rows=120)
        model = dc.BatchTemperatureScaling(batch="row")
        model.fit(data.logits, data.labels, domains=data.domains)
        found = model.predict_temperature(torch.tensor(z, device=device))
        np.testing.assert_allclose(found.cpu(), model.predict_temperature(z), rtol=1e-5)

    def test_scores_of_labelled_rows(self, device):
        model, (z, batch) = batch_model(), batch_rows()
        labels = z.argmax(1)
        here = model.score_rows(dc.CalibrationData(z, labels=labels, domains=batch))
        there = model.score_rows(
            dc.CalibrationData(torch.tensor(z, device=device), labels=labels, domains=batch)
        )
        for name in ("confidence", "nll", "brier", "temperature"):
            found = getattr(there, name)
            assert isinstance(found, np.ndarray)
            np.testing.assert_allclose(found, getattr(here, name), rtol=1e-5, atol=1e-6)

    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    def test_a_logit_that_is_not_finite_is_an_error(self, bad, device):
        model, (z, batch) = batch_model(), batch_rows()
        z[17, 2] = bad
        with pytest.raises(dc.errors.InputError, match="row 17"):
            model.predict_temperature(
                torch.tensor(z, device=device), domains=torch.tensor(batch, device=device)
            )

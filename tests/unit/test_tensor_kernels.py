"""The torch kernels compared with the numpy kernels."""

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsRegressor

from domaincal.calibrators.heads.kernel_ridge import GaussianKernel
from domaincal.kernels import numpy_kernels, torch_kernels, torch_maps
from domaincal.kernels.device_groups import RowGroups
from support import random_problem

torch = pytest.importorskip("torch")

#: Relative error of sums and of probabilities for each dtype of logits.
TOLERANCES = {"float16": 1e-5, "bfloat16": 1e-5, "float32": 1e-5, "float64": 1e-11, "int64": 1e-11}
DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
    ),
]
pytestmark = pytest.mark.parametrize("place", DEVICES)


@pytest.fixture(params=[1 << 25, 4000], ids=["whole", "chunks"], autouse=True)
def _chunks(request, monkeypatch):
    monkeypatch.setattr(torch_kernels, "CHUNK_BYTES", request.param)


def make(n, n_classes, dtype, place, seed=0):
    """Logits as a tensor, the same numbers as an array, and labels."""
    problem = random_problem(np.random.default_rng(seed), n, n_classes)
    scaled = problem.logits / problem.logits.std() * 5.0
    tensor = torch.tensor(scaled, device=place).to(getattr(torch, dtype))
    return tensor, tensor.double().cpu().numpy(), problem.labels


def near(found, expected, dtype):
    """Equal within the tolerance of the dtype, relative to the largest value of a column."""
    scale = np.maximum(np.abs(expected).max(axis=0), 0.1 * expected[:, 0].sum())
    np.testing.assert_allclose(found / scale, expected / scale, atol=TOLERANCES[dtype], rtol=0)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_domains", [1, 3])
@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("shape", [(1, 2), (300, 2), (77, 10), (65, 257)])
def test_temperature_sums(shape, dtype, n_domains, weighted, place):
    rng = np.random.default_rng(1)
    tensor, array, labels = make(*shape, dtype, place)
    n = len(labels)
    beta = rng.uniform(0.1, 2.0, n)
    if n > 10:
        beta[3:7] = np.nan
    weight = rng.uniform(0.0, 3.0, n) if weighted else np.empty(0)
    domain = rng.integers(0, n_domains, n) if n_domains > 1 else np.empty(0, np.int64)
    expected = numpy_kernels.temperature_sums(array, labels, beta, weight, domain, n_domains)

    def send(values):
        return torch.tensor(values, device=place) if len(values) else None

    groups = RowGroups(n, tensor.device, send(domain), n_domains)
    found = torch_kernels.temperature_sums(
        tensor, send(labels), send(beta), groups, weight=send(weight), per_row=True
    )
    assert found.dtype == np.float64
    near(found, expected, dtype)


@pytest.mark.parametrize("beta", [0.7, np.nan])
def test_one_beta_for_all_rows(beta, place):
    tensor, array, labels = make(50, 4, "float64", place)
    one = np.array([beta])
    none = np.empty(0)
    expected = numpy_kernels.temperature_sums(array, labels, one, none, none.astype(int), 1)
    found = torch_kernels.temperature_sums(
        tensor, torch.tensor(labels, device=place), torch.tensor(one, device=place),
        RowGroups(50, tensor.device),
    )  # fmt: skip
    np.testing.assert_allclose(found, expected, rtol=1e-11)


@pytest.mark.parametrize("per_row", [False, True])
@pytest.mark.parametrize("n_domains", [1, 3])
def test_every_third_row_of_each_domain(n_domains, per_row, place):
    rng = np.random.default_rng(2)
    tensor, array, labels = make(301, 6, "float32", place)
    domain = rng.integers(0, n_domains, 301)
    domain[domain == 1] = 0  # a domain without rows
    beta = rng.uniform(0.1, 2.0, 301 if per_row else n_domains)
    weight = rng.uniform(0.0, 3.0, 301)
    some = np.argsort(domain, kind="stable")[::3]
    expected = numpy_kernels.temperature_sums(
        array[some], labels[some], beta[some] if per_row else beta[domain[some]], weight[some],
        domain[some], n_domains,
    )  # fmt: skip

    def send(values):
        return torch.tensor(values, device=place)

    groups = RowGroups(301, tensor.device, send(domain) if n_domains > 1 else None, n_domains)
    found = torch_kernels.temperature_sums(
        tensor, send(labels), send(beta), groups, weight=send(weight), per_row=per_row, step=3
    )
    near(found, expected, "float32")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_rows_that_are_not_finite_are_reported(bad, place):
    tensor, _, labels = make(300, 5, "float32", place)
    tensor[200, 1] = bad
    y, one = torch.tensor(labels, device=place), torch.ones(1, dtype=torch.float64, device=place)
    sums = torch_kernels.temperature_sums(tensor, y, one, RowGroups(300, tensor.device))
    assert not np.isfinite(sums[0, [2, 5]]).all()
    confidences, _, finite = torch_kernels.top_label(tensor, one)
    assert not finite
    assert confidences.isfinite().logical_not().nonzero().tolist() == [[200]]
    assert not torch_kernels.softmax(tensor, one)[1]
    assert torch_kernels.softmax(tensor[:200], one)[1]


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("shape", [(1, 2), (300, 2), (65, 257)])
def test_top_label(shape, dtype, double, place):
    tensor, array, _ = make(*shape, dtype, place)
    tensor[0, 1] = tensor[0].max()  # a tie: the first class counts
    array[0, 1] = array[0].max()
    beta = np.linspace(0.2, 2.0, len(array))
    for some in (beta, beta[-1:]):
        expected, classes = numpy_kernels.top_label(array, some)
        found, predicted, finite = torch_kernels.top_label(
            tensor, torch.tensor(some, device=place), double=double
        )
        assert finite
        assert found.dtype == torch.float64
        tolerance = 1e-12 if double else TOLERANCES[dtype]
        np.testing.assert_allclose(found.cpu(), expected, rtol=tolerance)
        np.testing.assert_array_equal(predicted.cpu(), classes)


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_softmax(dtype, place):
    tensor, array, _ = make(65, 20, dtype, place)
    beta = np.linspace(0.2, 2.0, len(array))
    for some in (beta, beta[-1:]):
        expected = np.empty(array.shape)
        numpy_kernels.softmax(array, some, expected)
        found, finite = torch_kernels.softmax(tensor, torch.tensor(some, device=place))
        assert finite
        assert found.dtype == (torch.float64 if dtype in ("float64", "int64") else torch.float32)
        np.testing.assert_allclose(found.cpu(), expected, atol=TOLERANCES[dtype], rtol=1e-5)


def test_label_and_square(place):
    p = np.random.default_rng(0).dirichlet(np.ones(7), 300)
    labels = np.arange(300) % 7
    sent = torch.tensor(p, device=place), torch.tensor(labels, device=place)
    of_label, square = torch_kernels.label_and_square(*sent)
    np.testing.assert_array_equal(of_label, p[np.arange(300), labels])
    np.testing.assert_allclose(square, (p**2).sum(axis=1), rtol=1e-14)


def test_gaussian_kernel(place):
    rng = np.random.default_rng(0)
    rows, x = rng.normal(3.0, 1.0, (50, 6)), rng.normal(3.0, 1.0, (20, 6))
    expected = GaussianKernel(rows, 0.3)(x)
    kernel = torch_maps.GaussianKernel(torch.tensor(rows, device=place), 0.3)
    np.testing.assert_allclose(kernel(torch.tensor(x, device=place)).cpu(), expected, rtol=1e-12)


@pytest.mark.parametrize("distinct", [True, False])
def test_neighbours_with_and_without_ties(distinct, place):
    rng = np.random.default_rng(0)
    # On a coarse grid of integers, distances are exact and mostly tied.
    rows = rng.normal(size=(60, 3)) if distinct else rng.integers(0, 3, (60, 3)).astype(float)
    x = rng.normal(size=(25, 3)) if distinct else rng.integers(0, 3, (25, 3)).astype(float)
    targets = rng.normal(size=60)
    numbers = [1, 4, 30, 60]
    send = [torch.tensor(values, device=place) for values in (rows, targets, x)]
    found = torch_maps.NeighbourMeans(*send[:2])(send[2], numbers).cpu().numpy()
    for number, column in zip(numbers, found.T, strict=True):
        order = np.argsort(((x[:, None] - rows) ** 2).sum(axis=2), axis=1, kind="stable")
        np.testing.assert_allclose(column, targets[order[:, :number]].mean(axis=1), rtol=1e-12)
        if distinct:  # scikit-learn has no rule for ties
            peer = KNeighborsRegressor(number, algorithm="brute").fit(rows, targets)
            np.testing.assert_allclose(column, peer.predict(x), rtol=1e-12)

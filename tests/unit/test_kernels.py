"""Compiled kernels compared with the numpy kernels, and both with scipy."""

import itertools

import numpy as np
import pytest
from numba import njit
from scipy.special import softmax

from domaincal.kernels import (
    dispatch,
    numba_bins,
    numba_lanes,
    numba_linear,
    numba_softmax,
    numba_sums,
)
from domaincal.kernels.bins import bin_index


@njit
def _exp2(x):
    return numba_lanes.exp2(x)


@njit
def _log(x):
    return numba_lanes.log(x)


@njit
def _lane(x):
    return numba_lanes.lane(x)


@pytest.mark.parametrize(("dtype", "error"), [(np.float32, 2.5e-7), (np.float64, 1e-15)])
def test_exp2_is_accurate_to_the_precision_of_its_dtype(dtype, error):
    x = -np.linspace(0, 120, 20_001).astype(dtype)
    found = np.array([_exp2(v) for v in x], np.float64)
    np.testing.assert_allclose(found, np.exp2(x.astype(np.float64)), rtol=error)
    assert _exp2(dtype(0)) == 1.0
    assert 0 < _exp2(dtype(-1e30)) < 1e-37


@pytest.mark.parametrize(("dtype", "error"), [(np.float32, 2e-7), (np.float64, 4e-16)])
def test_log_is_accurate_to_the_precision_of_its_dtype(dtype, error):
    x = np.concatenate([1 + np.linspace(0, 1, 5_001), np.geomspace(1e-30, 1e30, 5_001)])
    x = x.astype(dtype)
    found = np.array([_log(v) for v in x], np.float64)
    expected = np.log(x.astype(np.float64))
    np.testing.assert_allclose(found, expected, rtol=error, atol=error)
    assert _log(dtype(1)) == 0.0
    assert np.isnan(_log(dtype(np.nan)))
    assert np.isnan(_log(dtype(np.inf)))


def test_every_float16_is_decoded():
    """All 65,536 bit patterns; infinity becomes NaN."""
    halves = np.arange(1 << 16, dtype=np.uint16)
    found = np.array([_lane(h) for h in halves])
    expected = halves.view(np.float16).astype(np.float32)
    expected[np.isinf(expected)] = np.nan
    np.testing.assert_array_equal(found, expected)


def _softmax(z):
    out = np.empty_like(z)
    assert dispatch.softmax(z, np.ones(1), out, compiled=True)
    return out


def _rows(n, n_classes, dtype, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.normal(0, 3, size=(n, n_classes)).astype(dtype)
    return z, rng.integers(0, n_classes, n), rng


@pytest.mark.parametrize("n_classes", [2, 10, 63, 64, 100, 1000])
@pytest.mark.parametrize(
    ("dtype", "error"), [(np.float64, 1e-12), (np.float32, 2e-6), (np.float16, 2e-6)]
)
@pytest.mark.parametrize("n", [1, 127, 300])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("domains", ["none", "sorted", "mixed"])
@pytest.mark.parametrize("betas", ["shared", "per row", "nan"])
def test_compiled_sums_equal_numpy_sums(n_classes, dtype, error, n, weighted, domains, betas):
    z, y, rng = _rows(n, n_classes, dtype)
    domain = rng.integers(0, 3, n)
    options = {
        "weight": rng.uniform(0, 2, n) if weighted else None,
        "domain": {"none": None, "sorted": np.sort(domain), "mixed": domain}[domains],
        "n_domains": 1 if domains == "none" else 3,
    }
    beta = np.array([0.7]) if betas == "shared" else rng.uniform(0.1, 2.0, n)
    if betas == "nan":
        beta[::5] = np.nan  # skipped rows; for n = 1, all rows
    found = dispatch.temperature_sums(z, y, beta, **options, compiled=True)
    expected = dispatch.temperature_sums(z, y, beta, **options)
    np.testing.assert_allclose(found, expected, rtol=error, atol=error * n)


@pytest.mark.parametrize("n_classes", [10, 100])
@pytest.mark.parametrize("compiled", [False, True])
def test_the_terms_of_a_row_do_not_depend_on_its_position(n_classes, compiled):
    z, y, _ = _rows(700, n_classes, np.float32)
    beta = np.array([0.7])
    alone = [
        dispatch.temperature_sums(z[i : i + 1], y[i : i + 1], beta, compiled=compiled)
        for i in range(700)
    ]
    whole = dispatch.temperature_sums(z, y, beta, compiled=compiled)
    np.testing.assert_allclose(whole, np.sum(alone, axis=0), rtol=1e-13)


@pytest.mark.parametrize("n_classes", [10, 100])
def test_samples_of_blocks_add_up_to_the_sample_of_the_whole(n_classes):
    z, y, _ = _rows(5000, n_classes, np.float32)
    beta = np.array([0.7])
    whole = dispatch.temperature_sums(z, y, beta, every=8, compiled=True)
    cuts = [0, 1, 130, 1111, 2048, 4999, 5000]
    parts = [
        dispatch.temperature_sums(z[a:b], y[a:b], beta, offset=a, every=8, compiled=True)
        for a, b in itertools.pairwise(cuts)
    ]
    np.testing.assert_allclose(whole, np.sum(parts, axis=0), rtol=1e-13)
    assert 400 < whole[0, 0] < 900


@pytest.mark.parametrize("n_classes", [2, 10, 64, 201])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("compiled", [False, True])
def test_a_value_that_is_not_finite_makes_the_sums_not_finite(n_classes, dtype, bad, compiled):
    """In the first, the last and inner columns, which lanes and remainder loops handle."""
    for column in {0, 1, n_classes // 2, n_classes - 1}:
        z, y, _ = _rows(5, n_classes, dtype)
        z[2, column] = bad
        sums = dispatch.temperature_sums(z, y, np.array([1.0]), compiled=compiled)
        assert not np.isfinite(sums[0, 2])
        confidence, _ = dispatch.top_label(z, np.array([1.0]), compiled=compiled)
        assert np.isnan(confidence[2])
        assert np.isfinite(np.delete(confidence, 2)).all()


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("n_classes", [2, 10, 64, 201])
def test_top_label(n_classes, compiled):
    z, _, rng = _rows(50, n_classes, np.float32)
    z[3] = 0.0  # ties go to the first class
    beta = rng.uniform(0.1, 2.0, 50)
    confidence, predicted = dispatch.top_label(z, beta, compiled=compiled)
    p = softmax(z.astype(np.float64) * beta[:, None], axis=1)
    np.testing.assert_allclose(confidence, p.max(axis=1), rtol=1e-6)
    np.testing.assert_array_equal(predicted, z.argmax(axis=1))


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("n_classes", [2, 7, 63, 64, 201])
@pytest.mark.parametrize(("dtype", "error"), [(np.float64, 1e-12), (np.float32, 1e-5)])
@pytest.mark.parametrize("betas", ["shared", "per row"])
def test_softmax(n_classes, dtype, error, betas, compiled):
    """The exponents are below 50, and their rounding is an error of the probabilities."""
    z, _, rng = _rows(300, n_classes, dtype)
    out = np.full(z.shape, np.nan, dtype)
    beta = np.array([0.7]) if betas == "shared" else rng.uniform(0.1, 2.0, 300)
    assert dispatch.softmax(z, beta, out, compiled=compiled)
    expected = softmax(z.astype(np.float64) * beta[:, None], axis=1)
    np.testing.assert_allclose(out, expected, rtol=error)
    if compiled and dtype == np.float32:
        halves = np.empty_like(out)
        assert dispatch.softmax(z.astype(np.float16), beta, halves, compiled=True)
        np.testing.assert_allclose(halves, out, atol=0.05)


@pytest.mark.parametrize("n_classes", [10, 100])
def test_compiled_probabilities_do_not_depend_on_the_position_of_a_row(n_classes):
    z, _, _ = _rows(300, n_classes, np.float32)
    whole, alone = np.empty_like(z), np.empty_like(z)
    dispatch.softmax(z, np.ones(1), whole, compiled=True)
    for i in range(300):
        dispatch.softmax(z[i : i + 1], np.ones(1), alone[i : i + 1], compiled=True)
    np.testing.assert_array_equal(whole, alone)


@pytest.mark.parametrize("n_classes", [2, 10, 64, 201])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("compiled", [False, True])
def test_softmax_tells_of_a_value_that_is_not_finite(n_classes, dtype, bad, compiled):
    for column in {0, 1, n_classes // 2, n_classes - 1}:
        z, _, _ = _rows(5, n_classes, dtype)
        out = np.empty(z.shape, np.float64 if dtype == np.float64 else np.float32)
        assert dispatch.softmax(z, np.ones(1), out, compiled=compiled)
        z[2, column] = bad
        assert not dispatch.softmax(z, np.ones(1), out, compiled=compiled)
        assert (dispatch.top_label(z, np.ones(1), compiled=compiled)[1] < n_classes).all()


@pytest.mark.parametrize("n_classes", [10, 100])
@pytest.mark.parametrize("compiled", [False, True])
def test_softmax_of_a_masked_logit_is_0(n_classes, compiled):
    z, _, _ = _rows(5, n_classes, np.float32)
    z[:, 1] = -1e30
    out = np.empty_like(z)
    assert dispatch.softmax(z, np.ones(1), out, compiled=compiled)
    assert (out[:, 1] == 0.0).all()
    np.testing.assert_allclose(out.sum(axis=1), 1.0, rtol=1e-6)


@pytest.mark.parametrize("n_bins", [1, 2, 7, 10, 15, 20, 100])
@pytest.mark.parametrize("compiled", [False, True])
def test_bins_are_closed_on_the_right(n_bins, compiled):
    """An edge m/M belongs to the bin on its left, its float neighbours to the bin they are in."""
    edges = np.arange(n_bins + 1) / n_bins
    inner = edges[1:]
    values = np.concatenate([[0.0], inner, np.nextafter(inner, 0), np.nextafter(inner[:-1], 1)])
    expected = np.concatenate([[0], np.arange(n_bins), np.arange(n_bins), np.arange(1, n_bins)])
    np.testing.assert_array_equal(bin_index(values, edges), expected)
    sums = dispatch.bin_sums(values, np.ones(len(values), bool), edges, compiled=compiled)
    np.testing.assert_array_equal(sums[:, 0], np.bincount(expected, minlength=n_bins))


def test_bin_sums_of_uneven_edges():
    rng = np.random.default_rng(0)
    confidence, hit = rng.random(1000), rng.random(1000) < 0.5
    edges = np.array([0.0, 0.01, 0.01, 0.5, 0.98, 1.0])  # with an empty bin
    weight = rng.random(1000)
    found = dispatch.bin_sums(confidence, hit, edges, weight=weight, compiled=True)
    expected = dispatch.bin_sums(confidence, hit, edges, weight=weight)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_read_only_arrays_do_not_compile_a_second_version():
    z, y, rng = _rows(100, 80, np.float32)
    w, confidence, hit = rng.random(100), rng.random(100), rng.random(100) < 0.5
    edges = np.linspace(0, 1, 11)
    coef = np.ones(80)
    arrays = (z, y, w, confidence, hit, coef)
    found, known = [], []
    for writable in (True, False):
        for values in arrays:
            values.flags.writeable = writable
        found.append((
            dispatch.temperature_sums(z, y, np.ones(1), weight=w, compiled=True),
            *dispatch.top_label(z, np.ones(1), compiled=True),
            _softmax(z),
            dispatch.bin_sums(confidence, hit, edges, weight=w, compiled=True),
            dispatch.residual_sum(z, w, w, coef=coef, intercept=0.0, centre=coef),
        ))  # fmt: skip
        moments = np.zeros((80, 80))
        dispatch.shift_rows(z, coef, y, w, out=np.empty((100, 80), np.float32), moments=moments)
        found[-1] += (moments,)
        kernels = (
            numba_sums.wide_sums, numba_softmax.wide_top_label, numba_softmax.wide_softmax,
            numba_bins.add_to_bins, numba_linear.shift_rows, numba_linear.add_residuals,
        )  # fmt: skip
        known.append([len(kernel.signatures) for kernel in kernels])
    assert known[0] == known[1]
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_predicted_class_is_the_first_of_the_largest_logits(dtype, monkeypatch):
    monkeypatch.setattr(dispatch, "_WIDENED", 100)
    random = np.random.default_rng(0)
    # Few different values, among them both zeros: most rows have ties.
    z = random.choice(np.array([-0.0, 0.0, -1.5, 6e-8, -65504.0], dtype), (503, 7))
    expected = [max(range(7), key=lambda k: (row[k], -k)) for row in z.astype(float).tolist()]
    np.testing.assert_array_equal(dispatch.predicted_classes(z), expected)
    assert dispatch.predicted_classes(z[:0]).shape == (0,)

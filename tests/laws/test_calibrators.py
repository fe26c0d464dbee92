"""Laws that every calibrator keeps, from one list of calibrators."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

import domaincal as dc
from domaincal.statistics import blocks, normal_equations
from support import CALIBRATORS, fit, small_domains, temperatures

# Small noisy domains: a head may well be worse than the pooled temperature.
pytestmark = pytest.mark.filterwarnings("ignore::domaincal.PoorHeadWarning")
every_calibrator = pytest.mark.parametrize("make", CALIBRATORS.values(), ids=CALIBRATORS)
# Laws of the temperature in units of the logits: MSP has T = 1, and log T, regressed without an
# intercept, is not equivariant.
scale_equivariant = pytest.mark.parametrize(
    "make",
    [CALIBRATORS[name] for name in CALIBRATORS if name not in ("msp", "md-ts-log")],
    ids=[name for name in CALIBRATORS if name not in ("msp", "md-ts-log")],
)
seeds = st.integers(0, 10_000)


def _given(data):
    return {"features": data.features, "domains": data.domains}


def _replace(data, **arrays):
    names = ("logits", "labels", "features", "domains")
    return dc.CalibrationData(**{name: arrays.get(name, getattr(data, name)) for name in names})


@every_calibrator
@given(seed=seeds)
def test_temperatures_are_positive_and_finite(make, seed):
    data = small_domains(seed)
    t = temperatures(fit(make(), data), data)
    assert t.shape == data.labels.shape
    assert (np.isfinite(t) & (t > 0)).all()


@every_calibrator
@given(seed=seeds)
def test_the_predicted_class_never_changes(make, seed):
    data = small_domains(seed)
    calibrator = fit(make(), data)
    p = calibrator.predict_proba(data.logits, **_given(data))
    np.testing.assert_array_equal(p.argmax(axis=1), data.logits.argmax(axis=1))
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
    confidence = calibrator.predict_confidence(data.logits, **_given(data))
    np.testing.assert_allclose(confidence, p.max(axis=1), rtol=1e-10)


@every_calibrator
@given(seed=seeds)
def test_a_constant_added_to_a_row_changes_nothing(make, seed):
    data = small_domains(seed)
    shift = np.random.default_rng(seed).normal(0, 10, size=(len(data), 1))
    moved = _replace(data, logits=data.logits + shift)
    before, after = (fit(make(), d).predict_proba(d.logits, **_given(d)) for d in (data, moved))
    np.testing.assert_allclose(after, before, rtol=1e-6, atol=1e-9)


@scale_equivariant
@given(seed=seeds, c=st.floats(0.25, 4.0))
def test_temperature_scales_with_the_logits(make, seed, c):
    """T(c z) = c T(z)."""
    data = small_domains(seed)
    scaled = _replace(data, logits=c * data.logits)
    t, t_scaled = (temperatures(fit(make(), d), d) for d in (data, scaled))
    np.testing.assert_allclose(t_scaled, c * t, rtol=1e-7)


@every_calibrator
@given(seed=seeds)
def test_permuting_rows_changes_nothing(make, seed):
    data = small_domains(seed)
    order = np.random.default_rng(seed).permutation(len(data))
    fitted, permuted = fit(make(), data), fit(make(), data.select(order))
    np.testing.assert_allclose(temperatures(permuted, data), temperatures(fitted, data), rtol=1e-7)


@every_calibrator
@given(seed=seeds)
def test_renaming_domains_changes_nothing(make, seed):
    data = small_domains(seed)
    names = data.domain_names
    other = dict(zip(names, np.random.default_rng(seed).permutation(len(names)), strict=True))
    renamed = _replace(data, domains=np.array([int(other[d]) for d in data.domains]))
    t, t_renamed = (temperatures(fit(make(), d), d) for d in (data, renamed))
    np.testing.assert_allclose(t_renamed, t, rtol=1e-7)


@every_calibrator
def test_blocks_and_threads_change_nothing(make, monkeypatch):
    data = small_domains(n_rows=400)
    whole = temperatures(fit(make(), data), data)
    for block_bytes, threads in [(1 << 10, "1"), (1 << 10, "4"), (3001, "2")]:
        monkeypatch.setattr(blocks.row_blocks, "__defaults__", (block_bytes,))
        monkeypatch.setattr(normal_equations, "_BLAS_BLOCK_BYTES", block_bytes)
        monkeypatch.setenv("NUMBA_NUM_THREADS", threads)
        parts = temperatures(fit(make(), data), data)
        np.testing.assert_allclose(parts, whole, rtol=1e-10)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("n_classes", [10, 100])
def test_blocks_change_nothing_in_compiled_fits(dtype, n_classes, monkeypatch):
    """With the sampled warm start, whose rows must not depend on the blocks."""
    data, _ = dc.make_multi_domain(4, 20_000, n_classes, random_state=1)
    z = data.logits.astype(dtype)
    options = {"domains": data.domains}
    whole = dc.DomainTemperatureScaling().fit(z, data.labels, **options)
    for block_bytes, threads in [(50_000, "1"), (50_000, "2"), (1 << 24, "2")]:
        monkeypatch.setattr(blocks.row_blocks, "__defaults__", (block_bytes,))
        monkeypatch.setenv("NUMBA_NUM_THREADS", threads)
        parts = dc.DomainTemperatureScaling().fit(z, data.labels, **options)
        assert parts.temperature_ == pytest.approx(whole.temperature_, rel=1e-10)
        np.testing.assert_allclose(
            parts.domain_temperatures_, whole.domain_temperatures_, rtol=1e-10
        )


@pytest.mark.parametrize(
    "name", ["ts", "domain-ts", "md-ts", "md-ts-intercept", "md-ts-equal", "md-ts-ridge-fixed"]
)
@given(seed=seeds)
def test_a_weight_equals_a_repetition(name, seed):
    data = small_domains(seed)
    times = np.random.default_rng(seed).integers(1, 4, len(data))
    repeated = data.select(np.repeat(np.arange(len(data)), times))
    weighted = fit(CALIBRATORS[name](), data, sample_weight=times)
    expected = temperatures(fit(CALIBRATORS[name](), repeated), data)
    np.testing.assert_allclose(temperatures(weighted, data), expected, rtol=1e-6)


@pytest.mark.parametrize("head", ["ols", "ridge"])
@given(seed=seeds)
def test_one_domain_with_an_intercept_is_temperature_scaling(head, seed):
    data = small_domains(seed, n_domains=1)
    md_ts = fit(dc.MultiDomainTemperatureScaling(head, fit_intercept=True), data)
    ts = fit(dc.TemperatureScaling(), data)
    np.testing.assert_allclose(temperatures(md_ts, data), ts.temperature_, rtol=1e-8)


@given(seed=seeds)
def test_temperature_scaling_never_raises_the_nll_of_its_own_rows(seed):
    data = small_domains(seed)
    p = fit(dc.TemperatureScaling(), data).predict_proba(data.logits)
    before = fit(dc.MaxSoftmax(), data).predict_proba(data.logits)
    assert dc.negative_log_likelihood(p, data.labels) <= (
        dc.negative_log_likelihood(before, data.labels) + 1e-12
    )


@given(seed=seeds)
def test_clipping_changes_only_what_it_clips(seed):
    """clip="auto" and the paper to the letter agree wherever no guard acts."""
    data = small_domains(seed)
    auto = fit(dc.MultiDomainTemperatureScaling(), data)
    letter = fit(dc.MultiDomainTemperatureScaling(clip=None), data)
    t_auto, t_letter = temperatures(auto, data), temperatures(letter, data)
    low, high = auto.clip_
    np.testing.assert_array_equal(t_auto, np.clip(t_letter, low, high))
    t_k = auto.domain_temperatures_
    assert (low, high) == (t_k.min() / 4, t_k.max() * 4)


@every_calibrator
def test_clone_and_refit_give_the_same(make):
    data = small_domains()
    calibrator = fit(make(), data)
    again = fit(clone(calibrator), data)
    np.testing.assert_array_equal(temperatures(again, data), temperatures(calibrator, data))
    assert clone(calibrator).get_params() == calibrator.get_params()


@every_calibrator
def test_inputs_are_left_alone(make):
    data = small_domains()
    copies = [a.copy() for a in (data.logits, data.labels, data.features, data.domains)]
    calibrator = fit(make(), data)
    calibrator.predict_proba(data.logits, **_given(data))
    for before, after in zip(
        copies, (data.logits, data.labels, data.features, data.domains), strict=True
    ):
        np.testing.assert_array_equal(before, after)


def test_true_temperatures_are_found():
    data, truth = dc.make_multi_domain(n_domains=10, n_rows=4000, random_state=3)
    fitted = fit(dc.DomainTemperatureScaling(), data)
    z = np.log(fitted.domain_temperatures_ / truth) / fitted.domain_standard_errors_
    assert z.abs().max() < 4.0
    assert fitted.domain_temperatures_.index.tolist() == truth.index.tolist()


def test_a_last_block_of_one_row(monkeypatch):
    """104,857 rows of 10 float32 logits fill a block: one more row is a block of its own."""
    data, _ = dc.make_multi_domain(2, 52_429, 10, random_state=0)
    flat = dc.CalibrationData(
        np.where((np.arange(len(data)) >= len(data) - 50)[:, None], 1.0, data.logits).astype("f4"),
        labels=data.labels,
        features=data.features,
        domains=np.where(np.arange(len(data)) >= len(data) - 50, "flat", data.domains),
    )
    with pytest.warns(dc.BoundaryWarning, match="'flat'"):
        fitted = fit(dc.DomainTemperatureScaling(), flat)
    assert np.isfinite(fitted.domain_temperatures_).all()
    t = temperatures(fit(dc.MultiDomainTemperatureScaling("ridge"), data), data)
    assert np.isfinite(t).all()


def test_the_limits_of_the_user_are_kept():
    data = small_domains()
    t = temperatures(fit(dc.MultiDomainTemperatureScaling(clip=(1.0, 1.1)), data), data)
    assert (t.min(), t.max()) == (1.0, 1.1)


@pytest.mark.parametrize("name", ["domain-ts", "md-ts"])
def test_the_pooled_temperature_is_that_of_temperature_scaling(name):
    data = small_domains()
    weight = np.linspace(0.1, 3.0, len(data))
    expected = fit(dc.TemperatureScaling(), data, sample_weight=weight).temperature_
    assert fit(CALIBRATORS[name](), data, sample_weight=weight).temperature_ == expected

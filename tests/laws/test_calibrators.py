"""Laws of all calibrators: one test for each pair of a law and a calibrator."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
from sklearn.base import clone

import domaincal as dc
from domaincal.calibrators.batch.batch_calibrator import BatchCalibrator
from domaincal.statistics import blocks, feature_products
from support import (
    CALIBRATORS,
    SCORE_MAPS,
    SLOW_TO_FIT,
    fit,
    given,
    probabilities,
    small_domains,
    temperatures,
)

# On small, noisy domains a head can be worse than the pooled temperature.
pytestmark = pytest.mark.filterwarnings("ignore::domaincal.errors.PoorHeadWarning")


@dataclass(frozen=True)
class Law:
    """A statement about a calibrator and a problem, and the calibrators it does not hold for."""

    holds: Callable
    unless: dict[str, str] = field(default_factory=dict)
    n_problems: int = 5


LAWS: dict[str, Law] = {}
NO_TEMPERATURE = dict.fromkeys((*SCORE_MAPS, "vector"), "it has no temperature")
ONE_FOR_A_BATCH = {
    name: "all rows of a batch share a temperature"
    for name, make in CALIBRATORS.items()
    if isinstance(make(), BatchCalibrator)
}


def law(unless=None, **options):
    def add(function):
        LAWS[function.__name__] = Law(function, unless or {}, **options)
        return function

    return add


def _problem(name, seed, **options):
    dear = {"n_rows": 40} if name in SLOW_TO_FIT else {}
    return small_domains(seed, **{**dear, **options})


def _replace(data, **arrays):
    names = ("logits", "labels", "features", "domains")
    return dc.CalibrationData(**{name: arrays.get(name, getattr(data, name)) for name in names})


@law(unless=NO_TEMPERATURE)
def temperatures_are_positive_and_finite(make, data, rng):
    t = temperatures(fit(make(), data), data)
    assert t.shape == data.labels.shape
    assert (np.isfinite(t) & (t > 0)).all()


@law(
    unless={
        **dict.fromkeys(SCORE_MAPS, "a confidence may be mapped below the other classes"),
        "vector": "its factors and offsets differ between the classes",
    }
)
def the_predicted_class_never_changes(make, data, rng):
    p = probabilities(fit(make(), data), data)
    np.testing.assert_array_equal(p.argmax(axis=1), data.logits.argmax(axis=1))


@law()
def probabilities_sum_to_one_and_hold_the_confidence(make, data, rng):
    calibrator = fit(make(), data)
    p = probabilities(calibrator, data)
    assert ((p >= 0) & (p <= 1)).all()
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
    confidence = calibrator.predict_confidence(data.logits, **given(data))
    predicted = data.logits.argmax(axis=1)
    np.testing.assert_allclose(confidence, p[np.arange(len(p)), predicted], rtol=1e-10)


@law()
def a_constant_added_to_a_row_changes_nothing(make, data, rng):
    moved = _replace(data, logits=data.logits + rng.normal(0, 10, size=(len(data), 1)))
    before, after = (probabilities(fit(make(), d), d) for d in (data, moved))
    np.testing.assert_allclose(after, before, rtol=1e-6, atol=1e-7)


@law(
    unless={
        **NO_TEMPERATURE,
        "msp": "its T is 1",
        "md-ts-log": "log T, regressed without an intercept, is not equivariant",
    }
)
def temperature_scales_with_the_logits(make, data, rng):
    """T(c z) = c T(z)."""
    c = rng.uniform(0.25, 4.0)
    t, t_scaled = (
        temperatures(fit(make(), d), d) for d in (data, _replace(data, logits=c * data.logits))
    )
    np.testing.assert_allclose(t_scaled, c * t, rtol=1e-6)


@law(unless={"md-ts-krr-nystroem": "its landmarks are drawn by row number"})
def permuting_rows_changes_nothing(make, data, rng):
    permuted = fit(make(), data.select(rng.permutation(len(data))))
    p = probabilities(fit(make(), data), data)
    np.testing.assert_allclose(probabilities(permuted, data), p, rtol=1e-6, atol=1e-9)


@law()
def renaming_domains_changes_nothing(make, data, rng):
    names = data.domain_names
    other = dict(zip(names, rng.permutation(len(names)), strict=True))
    renamed = _replace(data, domains=np.array([int(other[d]) for d in data.domains]))
    p, p_renamed = (probabilities(fit(make(), d), d) for d in (data, renamed))
    np.testing.assert_allclose(p_renamed, p, rtol=1e-7, atol=1e-9)


@law(unless=ONE_FOR_A_BATCH)
def a_prediction_does_not_depend_on_the_other_rows(make, data, rng):
    calibrator = fit(make(), data)
    some = np.sort(rng.choice(len(data), 30, replace=False))
    p = probabilities(calibrator, data)[some]
    np.testing.assert_allclose(probabilities(calibrator, data.select(some)), p, rtol=1e-9)


@law(n_problems=2)  # nothing in it is random, and thousands of threads are started
def blocks_and_threads_change_nothing(make, data, rng):
    whole = probabilities(fit(make(), data), data)
    for block_bytes, threads in [(1 << 11, "1"), (3001, "2")]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(blocks, "BLOCK_BYTES", block_bytes)
            patch.setattr(feature_products, "BLAS_BLOCK_BYTES", block_bytes)
            patch.setenv("NUMBA_NUM_THREADS", threads)
            parts = probabilities(fit(make(), data), data)
        np.testing.assert_allclose(parts, whole, rtol=1e-9, atol=1e-12)


@law(
    unless={
        "md-ts-knn": "a repeated row is two neighbours, a weighted one is one",
        "md-ts-knn-logits": "a repeated row is two neighbours, a weighted one is one",
        "md-ts-krr-nystroem": "its landmarks are drawn by row number",
        "dac": "a repeated row is two neighbours, a weighted one is one",
    }
)
def a_weight_equals_a_repetition(make, data, rng):
    times = rng.integers(0, 4, len(data))
    repeated = data.select(np.repeat(np.arange(len(data)), times))
    weighted = fit(make(), data, sample_weight=times)
    p = probabilities(fit(make(), repeated), data)
    np.testing.assert_allclose(probabilities(weighted, data), p, rtol=1e-4, atol=1e-6)


@law(
    unless={
        **{
            name: "it has no intercept"
            for name in CALIBRATORS
            if "intercept" not in name and "knn" not in name and name != "ts"
        },
        **NO_TEMPERATURE,
    }
)
def one_domain_is_temperature_scaling(make, data, rng):
    one = data.select(data.domains == data.domains[0])
    expected = fit(dc.TemperatureScaling(), one).temperature_
    np.testing.assert_allclose(temperatures(fit(make(), one), data), expected, rtol=1e-7)


@law(
    unless={
        n: "it does not minimise it" for n in CALIBRATORS if n not in ("ts", "domain-ts", "vector")
    }
)
def the_nll_of_its_own_rows_never_rises(make, data, rng):
    before, after = (
        dc.negative_log_likelihood(probabilities(fit(m(), data), data), data.labels)
        for m in (dc.MaxSoftmax, make)
    )
    assert after <= before + 1e-12


@law()
def clone_and_refit_give_the_same(make, data, rng):
    calibrator = fit(make(), data)
    again = fit(clone(calibrator), data)
    np.testing.assert_array_equal(probabilities(again, data), probabilities(calibrator, data))
    assert repr(clone(calibrator)) == repr(calibrator)


@law()
def inputs_are_left_alone(make, data, rng):
    arrays = (data.logits, data.labels, data.features, data.domains)
    copies = [a.copy() for a in arrays]
    weight = rng.uniform(0.5, 2.0, len(data))
    kept = weight.copy()
    probabilities(fit(make(), data, sample_weight=weight), data)
    for before, after in zip([*copies, kept], [*arrays, weight], strict=True):
        np.testing.assert_array_equal(before, after)


PAIRS = [
    pytest.param(name, law, id=f"{law_name}-{name}")
    for law_name, law in LAWS.items()
    for name in CALIBRATORS
    if name not in law.unless
]


@pytest.mark.parametrize(("name", "law"), PAIRS)
def test_law(name, law):
    few = name in SLOW_TO_FIT or name in ("mixture", "vector", "dac")
    for seed in range(min(2, law.n_problems) if few else law.n_problems):
        rng = np.random.default_rng([seed, 7])
        law.holds(CALIBRATORS[name], _problem(name, seed), rng)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("n_classes", [10, 100])
def test_blocks_change_nothing_in_compiled_fits(dtype, n_classes, monkeypatch):
    """The fit starts from a sample of the rows, which must not depend on the blocks."""
    data, _ = dc.make_multi_domain(4, 20_000, n_classes, random_state=1)
    z = data.logits.astype(dtype)
    options = {"domains": data.domains}
    whole = dc.DomainTemperatureScaling().fit(z, data.labels, **options)
    for block_bytes, threads in [(50_000, "1"), (50_000, "2"), (1 << 24, "2")]:
        monkeypatch.setattr(blocks, "BLOCK_BYTES", block_bytes)
        monkeypatch.setenv("NUMBA_NUM_THREADS", threads)
        parts = dc.DomainTemperatureScaling().fit(z, data.labels, **options)
        assert parts.temperature_ == pytest.approx(whole.temperature_, rel=1e-10)
        np.testing.assert_allclose(
            parts.domain_temperatures_, whole.domain_temperatures_, rtol=1e-10
        )


@pytest.mark.parametrize("seed", range(20))
def test_clipping_changes_only_clipped_temperatures(seed):
    """clip="auto" and clip=None agree inside the limits."""
    data = small_domains(seed)
    auto = fit(dc.MultiDomainTemperatureScaling(), data)
    letter = fit(dc.MultiDomainTemperatureScaling(clip=None), data)
    t_auto, t_letter = temperatures(auto, data), temperatures(letter, data)
    low, high = auto.clip_
    np.testing.assert_array_equal(t_auto, np.clip(t_letter, low, high))
    t_k = auto.domain_temperatures_
    assert (low, high) == (t_k.min() / 4, t_k.max() * 4)


def test_domain_temperatures_agree_with_the_true_ones():
    data, truth = dc.make_multi_domain(n_domains=10, n_rows=4000, random_state=3)
    fitted = fit(dc.DomainTemperatureScaling(), data)
    z = np.log(fitted.domain_temperatures_ / truth) / fitted.domain_standard_errors_
    assert z.abs().max() < 4.0
    assert fitted.domain_temperatures_.index.tolist() == truth.index.tolist()


def test_a_last_block_of_one_row_is_fitted(monkeypatch):
    """104,857 rows of 10 float32 logits fill a block: the last row is a block by itself."""
    data, _ = dc.make_multi_domain(2, 52_429, 10, random_state=0)
    flat = dc.CalibrationData(
        np.where((np.arange(len(data)) >= len(data) - 50)[:, None], 1.0, data.logits).astype("f4"),
        labels=data.labels,
        features=data.features,
        domains=np.where(np.arange(len(data)) >= len(data) - 50, "flat", data.domains),
    )
    with pytest.warns(dc.errors.BoundaryWarning, match="'flat'"):
        fitted = fit(dc.DomainTemperatureScaling(), flat)
    assert np.isfinite(fitted.domain_temperatures_).all()
    t = temperatures(fit(dc.MultiDomainTemperatureScaling("ridge"), data), data)
    assert np.isfinite(t).all()


def test_temperatures_are_clipped_to_the_limits_of_the_user():
    data = small_domains()
    fitted = fit(dc.MultiDomainTemperatureScaling(clip=(1.0, 1.1)), data)
    with pytest.warns(dc.errors.ClippedTemperatureWarning, match=r"at a limit \(1 or 1.1\)"):
        t = temperatures(fitted, data)
    assert (t.min(), t.max()) == (1.0, 1.1)


@pytest.mark.parametrize("name", ["domain-ts", "md-ts"])
def test_the_pooled_temperature_equals_that_of_temperature_scaling(name):
    data = small_domains()
    weight = np.linspace(0.1, 3.0, len(data))
    expected = fit(dc.TemperatureScaling(), data, sample_weight=weight).temperature_
    assert fit(CALIBRATORS[name](), data, sample_weight=weight).temperature_ == expected


@pytest.mark.filterwarnings("ignore::domaincal.errors.SmallDomainWarning")
@pytest.mark.parametrize(("n_rows", "is_used"), [(9, False), (10, True)])
def test_a_domain_is_used_from_ten_rows_on(n_rows, is_used):
    data = small_domains()
    small = np.flatnonzero(data.domains == "domain-0")
    kept = np.ones(len(data), bool)
    kept[small[n_rows:]] = False
    fitted = fit(dc.DomainTemperatureScaling(), data.select(kept))
    assert ("domain-0" in fitted.used_domains_) == is_used

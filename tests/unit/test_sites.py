"""Fits to the sums of sites are those of the pooled rows."""

import functools
import re
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone

import domaincal as dc
from domaincal.calibrators.batch.batch_training import BATCHES, TrainingBatches, fit_batch_map
from domaincal.distributed import (
    answer_plan,
    combine_sites,
    load_site,
    plan_second_round,
    site_batches,
    summarize_site,
)
from domaincal.distributed.site_batches import BatchMoments, fit_batches
from domaincal.distributed.site_curves import SlopeCurve
from domaincal.distributed.site_features import FeatureSums
from domaincal.distributed.site_merge import merge_sites
from domaincal.distributed.site_sums import MEANINGS
from domaincal.errors import BoundaryWarning, InputError, SmallDomainWarning
from domaincal.statistics import blocks, feature_products
from domaincal.statistics.domain_bins import DomainBins
from domaincal.statistics.domain_folds import similar_domain_folds

MdTs = dc.MultiDomainTemperatureScaling
ONE_ROUND = {
    "ols": MdTs(),
    "log": MdTs(target="log", fit_intercept=True, domain_weight="equal"),
    "inverse": MdTs(target="inverse", domain_weight="equal", clip=None),
    "intercept": MdTs(fit_intercept=True, clip=(0.1, 9.0)),
    "alpha": MdTs(head="ridge", alpha=3.0),
    "alpha-equal": MdTs(head="ridge", alpha=0.1, fit_intercept=True, domain_weight="equal"),
}
TWO_ROUNDS = {
    "ts": dc.TemperatureScaling(),
    "domain-ts": dc.DomainTemperatureScaling(),
    "ridge": MdTs(head="ridge"),
    "ridge-equal": MdTs(head="ridge", target="log", fit_intercept=True, domain_weight="equal"),
}


def pooled_rows(seed=0, *, cond=1e3, dtype=np.float64, n_domains=8, n_rows=120):
    """Rows of a few domains, whose features have singular values from 1 to 1 / cond.

    Domain k has ``n_rows + 10 * k`` rows.
    """
    longest = n_rows + 10 * n_domains
    rows, _ = dc.make_multi_domain(
        n_domains=n_domains, n_rows=longest, n_classes=5, n_features=6, random_state=seed
    )
    place, codes = np.arange(len(rows)) % longest, rows.domain_codes[0]
    rows = rows.select(np.flatnonzero(place < n_rows + 10 * codes))
    u, s, v = np.linalg.svd(rows.features.astype(np.float64), full_matrices=False)
    features = (u * np.geomspace(s[0], s[0] / cond, len(s))) @ v
    return dc.CalibrationData(
        rows.logits.astype(dtype), labels=rows.labels, features=features.astype(dtype),
        domains=rows.domains,
    )  # fmt: skip


def split(rows, n_sites):
    """Rows of each site: every n-th domain."""
    codes = rows.domain_codes[0]
    return [rows.select(np.flatnonzero(codes % n_sites == k)) for k in range(n_sites)]


def sums_of(parts, **options):
    return [summarize_site(part, **options) for part in parts]


@functools.cache
def rows_and_sums(seed, n_sites):
    """Rows, and the sums of their sites, which serve all methods."""
    rows = pooled_rows(seed)
    return rows, sums_of(split(rows, n_sites))


def in_memory(calibrator, rows):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return clone(calibrator).fit(rows)


def temperatures(fitted, rows):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fitted.predict_temperature(rows)


def require_same_fit(found, expected, rows, rtol=1e-8):
    """The same predictions and learned values."""
    np.testing.assert_allclose(temperatures(found, rows), temperatures(expected, rows), rtol=rtol)
    np.testing.assert_allclose(found.temperature_, expected.temperature_, rtol=1e-8)
    # Nothing that a fit learns is missing, and nothing else is set.
    assert sorted(vars(found)) == sorted(vars(expected))
    assert found.get_params() == expected.get_params()
    for name in ("n_classes_", "class_names_", "head_rows_", "feature_columns_", "_uses_logits"):
        assert getattr(found, name, None) == getattr(expected, name, None)
    if hasattr(expected, "domain_temperatures_"):
        for name in ("domain_temperatures_", "domain_standard_errors_"):
            np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-6)
            assert getattr(found, name).index.equals(getattr(expected, name).index)
        np.testing.assert_array_equal(found.used_domains_, expected.used_domains_)
    if hasattr(expected, "clip_"):
        np.testing.assert_allclose(found.clip_, expected.clip_, rtol=1e-9)
        assert found.head_parameters_ == pytest.approx(expected.head_parameters_, rel=1e-8)


@pytest.mark.parametrize("n_sites", [1, 2, 5])
@pytest.mark.parametrize("method", ONE_ROUND)
def test_one_round_equals_the_fit_of_pooled_rows(method, n_sites):
    for seed in range(3):
        rows, sums = rows_and_sums(seed, n_sites)
        found = combine_sites(sums, ONE_ROUND[method])
        require_same_fit(found, in_memory(ONE_ROUND[method], rows), rows)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_short_floats_are_summed_in_double_precision(dtype):
    rows = pooled_rows(4, cond=10.0, dtype=dtype)
    found = combine_sites(sums_of(split(rows, 2)), ONE_ROUND["log"])
    require_same_fit(found, in_memory(ONE_ROUND["log"], rows), rows)


def draw_the_same_batches(monkeypatch):
    """Make the random batches of sites repeatable, which no option does."""
    monkeypatch.setattr(site_batches, "_private_random", lambda: np.random.default_rng(0))


def two_rounds(parts, calibrator):
    sums = sums_of(parts, search=True)
    plan = plan_second_round(sums, calibrator)
    return combine_sites([*sums, *(answer_plan(part, plan) for part in parts)], calibrator)


@pytest.mark.parametrize("n_sites", [1, 3])
@pytest.mark.parametrize("method", TWO_ROUNDS)
def test_a_second_round_equals_the_fit_of_pooled_rows(method, n_sites):
    for seed in range(2):
        rows = pooled_rows(seed, cond=50.0)
        found = two_rounds(split(rows, n_sites), TWO_ROUNDS[method])
        expected = in_memory(TWO_ROUNDS[method], rows)
        require_same_fit(found, expected, rows)
        if "ridge" in method:
            np.testing.assert_allclose(found.head_search_, expected.head_search_, rtol=1e-7)
            assert list(found.head_search_) == list(expected.head_search_)
        np.testing.assert_allclose(found.temperature_, expected.temperature_, rtol=1e-11)
        if method == "ts":
            assert found.standard_error_ == pytest.approx(expected.standard_error_, rel=1e-6)


@pytest.mark.parametrize("with_features", [True, False])
def test_batches_are_close_to_those_of_a_fit_to_pooled_rows(with_features, monkeypatch):
    """Batches are random: the distance is like that of two fits with different seeds."""
    rows, _ = dc.make_multi_domain(n_domains=20, n_rows=150, n_classes=5, random_state=1)
    if not with_features:
        rows = dc.CalibrationData(rows.logits, labels=rows.labels, domains=rows.domains)
    known, new = dc.split_domains(rows, ["domain-02", "domain-07", "domain-11", "domain-16"])
    fits = [in_memory(dc.BatchTemperatureScaling(random_state=seed), known) for seed in (0, 1)]
    found = two_rounds(split(known, 3), dc.BatchTemperatureScaling())
    assert sorted(vars(found)) == sorted(vars(fits[0]))
    assert found.temperature_ == pytest.approx(fits[0].temperature_, rel=1e-9)
    log_t = [np.log(temperatures(fit, new)) for fit in (found, *fits)]
    assert np.abs(log_t[0] - log_t[1]).max() < 0.05
    assert np.ptp(log_t[1]) > 0.3  # the temperatures of the new domains differ by more than that
    for size in (1, 100):
        errors = [fit.batch_errors_.set_index("n_rows")["error"][size] for fit in (found, *fits)]
        assert errors[0] == pytest.approx(errors[1], rel=0.3)
    np.testing.assert_allclose(found.batch_map_.reach, fits[0].batch_map_.reach, rtol=0.4)
    # From the same batches, the sites in which the domains are decide nothing.
    draw_the_same_batches(monkeypatch)
    one, other = (
        two_rounds(split(known, n_sites), dc.BatchTemperatureScaling()) for n_sites in (1, 3)
    )
    np.testing.assert_allclose(temperatures(other, new), temperatures(one, new), rtol=1e-9)


def test_moments_of_batches_give_the_map_of_these_batches():
    """The same batches, once row by row and once as moments: only three numbers are estimates."""
    random, n_domains, log_pooled = np.random.default_rng(0), 12, 0.2
    log_t = random.normal(0.2, 0.4, n_domains)
    targets = log_t + random.normal(0, 0.05, n_domains)
    effects = np.outer(log_t, random.normal(size=11)) + 0.05 * random.normal(size=(n_domains, 11))
    batches, means, covariances = [], [], []
    for size, count in BATCHES.items():
        noise = random.normal(size=(n_domains, count, 11)) / np.sqrt(size)
        found = effects[:, None] + noise
        batches.append(
            TrainingBatches(size, found.reshape(-1, 11), np.repeat(np.arange(n_domains), count))
        )
        means.append(found.mean(axis=1))
        covariances.append(np.stack([np.cov(one.T, bias=True) for one in found]))
    moments = BatchMoments(effects, targets, np.stack(means, 1), np.stack(covariances, 1))
    expected, table = fit_batch_map(
        batches, targets=targets, log_temperatures=log_t, log_pooled=log_pooled,
        folds=similar_domain_folds(effects),
    )  # fmt: skip
    sums = SimpleNamespace(fit=SimpleNamespace(temperature=np.exp(log_t)))
    found, found_table = fit_batches(sums, np.ones(n_domains, bool), moments, log_pooled)
    for name in ("sizes", "mean", "scale", "log_pooled", "low", "high"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-9)
    np.testing.assert_allclose(found.coef, expected.coef, atol=1e-9 * np.abs(expected.coef).max())
    np.testing.assert_allclose(found.error, expected.error, rtol=0.1)
    np.testing.assert_allclose(found.reach, expected.reach, rtol=0.25)
    assert list(found_table) == list(table)
    np.testing.assert_allclose(found_table["pooled_error"], table["pooled_error"])


def test_batches_of_few_domains_get_the_pooled_temperature_in_one_round():
    rows = pooled_rows(0, n_domains=2)
    with pytest.warns(SmallDomainWarning, match="2 domains can be used"):
        found = combine_sites(sums_of(split(rows, 2)), dc.BatchTemperatureScaling())
    expected = in_memory(dc.BatchTemperatureScaling(), rows)
    require_same_fit(found, expected, rows)
    with pytest.raises(InputError, match="needs no second round"):
        plan_second_round(sums_of([rows]), dc.BatchTemperatureScaling())


def test_ridge_of_one_domain_takes_the_smallest_penalty_without_a_second_round():
    rows = pooled_rows(0, n_domains=1)
    calibrator = TWO_ROUNDS["ridge"]
    found = combine_sites(sums_of([rows]), calibrator)
    require_same_fit(found, in_memory(calibrator, rows), rows)
    assert found.head_search_.equals(in_memory(calibrator, rows).head_search_)
    with pytest.raises(InputError, match="needs no second round"):
        plan_second_round(sums_of([rows], search=True), calibrator)


def test_the_order_of_the_sites_changes_nothing():
    _, sums = rows_and_sums(1, 5)
    first = combine_sites(sums, ONE_ROUND["log"])
    for order in ([4, 3, 2, 1, 0], [2, 0, 4, 1, 3]):
        other = combine_sites([sums[k] for k in order], ONE_ROUND["log"])
        np.testing.assert_array_equal(first.coef_, other.coef_)
        assert first.intercept_ == other.intercept_
        assert first.temperature_ == other.temperature_
        assert first.data_fingerprint_ == other.data_fingerprint_
        assert first.domain_temperatures_.equals(other.domain_temperatures_)


def test_a_store_that_is_read_in_blocks_gives_the_sums_of_rows_in_memory(tmp_path, monkeypatch):
    rows = pooled_rows(2)
    rows = rows.select(np.random.default_rng(0).permutation(len(rows)))
    store = dc.Store(tmp_path / "scores")
    store.write(rows)
    expected = summarize_site(store.read(), search=True)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1 << 12)
    monkeypatch.setattr(feature_products, "BLAS_BLOCK_BYTES", 1 << 12)
    found = summarize_site(store, search=True)
    assert found.rows.fingerprint == expected.rows.fingerprint
    for name, values in expected.arrays().items():
        size = np.abs(np.nan_to_num(values.astype(float))).max()
        np.testing.assert_allclose(found.arrays()[name], values, rtol=1e-10, atol=1e-12 * size)
    plan = plan_second_round([expected], TWO_ROUNDS["ridge"])
    np.testing.assert_allclose(
        answer_plan(store, plan).nll_sums, answer_plan(rows, plan).nll_sums, rtol=1e-10
    )
    plan = plan_second_round([expected], dc.BatchTemperatureScaling())
    draw_the_same_batches(monkeypatch)
    np.testing.assert_allclose(
        answer_plan(store, plan).moments.batch_means, answer_plan(rows, plan).moments.batch_means,
        rtol=1e-8, atol=1e-8,
    )  # fmt: skip


def test_domains_without_a_temperature_are_left_out_as_in_memory(tmp_path):
    rows = pooled_rows(3)
    codes, names = rows.domain_codes
    labels = rows.labels.copy()
    labels[codes == 2] = np.argmax(rows.logits[codes == 2], axis=1)  # no row is wrong: at a bound
    few = np.flatnonzero(codes == 5)[6:]  # six rows are left
    rows = dc.CalibrationData(
        rows.logits, labels=labels, features=rows.features, domains=rows.domains
    ).select(np.setdiff1d(np.arange(len(rows)), few))
    parts = split(rows, 3)
    sums = sums_of(parts, min_rows=1, search=True)
    for site in sums:
        assert not site.features.domain_grams[~site.used].any()
        site.save(tmp_path / "site.safetensors")
        assert load_site(tmp_path / "site.safetensors").n_rows.tolist() == site.n_rows.tolist()
    assert not sums[2].used.any()
    for method in (TWO_ROUNDS["ridge-equal"], dc.BatchTemperatureScaling()):
        plan = plan_second_round(sums, method)
        answers = [answer_plan(part, plan, min_rows=1) for part in parts]
        with pytest.warns((SmallDomainWarning, BoundaryWarning)):
            found = combine_sites([*sums, *answers], method)
        if method.get_params().get("head") == "ridge":
            require_same_fit(found, in_memory(method, rows), rows)
        else:
            assert found.batch_map_.coef.any()
    for method in ("ols", "log"):
        with pytest.warns() as caught:
            found = combine_sites(sums, ONE_ROUND[method])
        assert [w.category for w in caught] == [SmallDomainWarning, BoundaryWarning]
        assert names[5] in str(caught[0].message)
        assert names[2] in str(caught[1].message)
        require_same_fit(found, in_memory(ONE_ROUND[method], rows), rows)
    assert len(found.used_domains_) == 6


def test_without_a_usable_domain_the_pooled_temperature_is_predicted():
    rows = pooled_rows(5)
    codes = rows.domain_codes[0]
    few = rows.select(np.concatenate([np.flatnonzero(codes == k)[:8] for k in range(8)]))
    with pytest.warns((SmallDomainWarning, BoundaryWarning)) as caught:
        found = combine_sites(sums_of(split(few, 2), min_rows=1), MdTs())
    assert "no domain is left for the regression" in str(caught[-1].message)
    require_same_fit(found, in_memory(MdTs(), few), few)


def test_rows_without_errors_have_a_pooled_temperature_at_the_bound():
    rows = pooled_rows(5)
    right = dc.CalibrationData(
        rows.logits, labels=np.argmax(rows.logits, axis=1), features=rows.features,
        domains=rows.domains,
    )  # fmt: skip
    with pytest.warns((SmallDomainWarning, BoundaryWarning)):
        found = combine_sites(sums_of(split(right, 2)), MdTs())
    expected = in_memory(dc.TemperatureScaling(), right)
    assert found.temperature_ == pytest.approx(expected.temperature_, rel=1e-10)
    with pytest.warns(BoundaryWarning, match=f"all {len(right)} rows is at its bound"):
        found = two_rounds(split(right, 2), dc.TemperatureScaling())
    assert found.temperature_ == pytest.approx(expected.temperature_, rel=1e-10)
    assert np.isnan(found.standard_error_)


def test_a_shift_keeps_the_intercept_accurate_far_from_zero():
    rows = pooled_rows(6, cond=10.0)
    far = dc.CalibrationData(
        rows.logits, labels=rows.labels, features=rows.features + 1e4, domains=rows.domains
    )
    calibrator = ONE_ROUND["intercept"]
    expected = in_memory(calibrator, far)
    near_mean = far.features.mean(axis=0).round()
    found = combine_sites(sums_of(split(far, 2), shift=near_mean), calibrator)
    require_same_fit(found, expected, far)
    # Without an intercept the shift has no effect but rounding.
    np.testing.assert_allclose(
        temperatures(combine_sites(sums_of(split(rows, 2), shift=0.5), MdTs()), rows),
        temperatures(in_memory(MdTs(), rows), rows), rtol=1e-8,
    )  # fmt: skip


def test_sorted_logits_are_summed_as_features():
    rows = pooled_rows(7)
    rows = dc.CalibrationData(rows.logits, labels=rows.labels, domains=rows.domains)
    calibrator = MdTs(features="logits", head="ridge", alpha=0.5)
    found = combine_sites(sums_of(split(rows, 2), features="logits"), calibrator)
    require_same_fit(found, in_memory(calibrator, rows), rows)
    with pytest.raises(InputError, match=r"no sums of the sorted logits"):
        combine_sites(sums_of(split(rows, 2)), calibrator)


def test_integer_domains_and_names_are_kept():
    rows = pooled_rows(8)
    names = [f"class-{k}" for k in range(5)]
    rows = dc.CalibrationData(
        rows.logits, labels=rows.labels, features=rows.features, domains=rows.domain_codes[0] * 3,
        class_names=names, feature_names=[f"x{k}" for k in range(6)],
    )  # fmt: skip
    found = combine_sites(sums_of(split(rows, 3)), MdTs())
    require_same_fit(found, in_memory(MdTs(), rows), rows)
    assert found.feature_columns_ == tuple(f"x{k}" for k in range(6))


def test_the_first_round_finds_the_pooled_temperature():
    for seed in range(6):
        rows = pooled_rows(seed + 20)
        found = combine_sites(sums_of(split(rows, 4)), MdTs())
        exact = in_memory(dc.TemperatureScaling(), rows).temperature_
        assert found.temperature_ == pytest.approx(exact, rel=1e-9)


def test_files_and_objects_give_the_same_model(tmp_path):
    rows = pooled_rows(9)
    sums = sums_of(split(rows, 2), search=True)
    plan = plan_second_round(sums, TWO_ROUNDS["ridge"])
    answers = [answer_plan(part, plan) for part in split(rows, 2)]
    expected = combine_sites([*sums, *answers], TWO_ROUNDS["ridge"])
    plan.save(tmp_path / "plan.safetensors")
    loaded = load_site(tmp_path / "plan.safetensors")
    paths = [tmp_path / f"{k}.safetensors" for k in range(4)]
    for one, path in zip(sums, paths, strict=False):
        one.save(path)
    for part, path in zip(split(rows, 2), paths[2:], strict=True):
        answer_plan(part, loaded).save(path)
    found = combine_sites(paths, TWO_ROUNDS["ridge"])
    np.testing.assert_array_equal(found.coef_, expected.coef_)
    found.save(tmp_path / "model.safetensors")
    model = dc.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(temperatures(model, rows), temperatures(expected, rows))
    assert model.data_fingerprint_.startswith(f"{len(rows)} rows of 2 sites, sha256 ")


def test_no_value_of_a_single_row_is_in_the_files():
    rows = pooled_rows(10, n_rows=60)
    sums = summarize_site(rows, search=True)
    plans = [
        plan_second_round([sums], method)
        for method in (TWO_ROUNDS["ridge"], TWO_ROUNDS["ts"], dc.BatchTemperatureScaling())
    ]
    shifted = rows.logits - rows.logits.max(axis=1, keepdims=True)
    probabilities = np.exp(shifted) / np.exp(shifted).sum(axis=1, keepdims=True)
    single = np.concatenate(
        [a.ravel() for a in (rows.logits, rows.features, probabilities, probabilities.max(axis=1))]
    )
    for arrays in (sums.arrays(), *(answer_plan(rows, plan).arrays() for plan in plans)):
        for name, values in arrays.items():
            assert len(rows) not in values.shape, name
            if values.dtype.kind == "f":
                assert not np.isin(values.round(12), single.round(12)).any(), name


def all_bins(rows):
    confidence = in_memory(dc.MaxSoftmax(), rows).predict_confidence(rows)
    hits = np.argmax(rows.logits, axis=1) == rows.labels
    codes, names = rows.domain_codes
    return DomainBins.from_confidences(confidence, hits, codes, len(names))


def combined_table(rows):
    return merge_sites(sums_of(split(rows, 3))).table()


def test_bins_of_few_rows_hide_their_confidences():
    rows = pooled_rows(11, n_rows=60)
    bins = summarize_site(rows).bins
    codes, names = rows.domain_codes
    raw = all_bins(rows)
    assert ((raw.weight > 0) & (raw.weight < 10)).any()
    assert not ((bins.weight > 0) & (bins.weight < 10)).any()
    # Rows are moved to a bin beside theirs, and none is lost.
    for name in ("weight", "confidence", "hits"):
        np.testing.assert_allclose(getattr(bins, name).sum(1), getattr(raw, name).sum(1))
        full = bins.weight > 0
        ends = [np.append(np.flatnonzero(one)[:-1] + 1, 15) for one in full]
        for own, cells, cuts in zip(getattr(raw, name), getattr(bins, name), ends, strict=True):
            groups = np.split(own, cuts[:-1])
            np.testing.assert_allclose(cells[cells.nonzero()], [g.sum() for g in groups if g.sum()])
    assert (bins.calibration_error() <= raw.calibration_error() + 1e-12).all()
    few = rows.select(np.flatnonzero(codes == 0)[:6])
    tiny = summarize_site(few, min_rows=1, features="none").bins
    (at,) = np.flatnonzero(tiny.weight[0])
    middle = (tiny.edges[at] + tiny.edges[at + 1]) / 2
    np.testing.assert_allclose(tiny.confidence[0, at], 6 * middle)
    expected = dc.score_table({"msp": in_memory(dc.MaxSoftmax(), rows)}, rows)
    accuracy = expected.set_index("domain").loc[list(names), "accuracy"]
    np.testing.assert_allclose(bins.accuracy, accuracy)
    assert bins.n.tolist() == np.bincount(codes).tolist()
    table = combined_table(rows)
    assert table["domain"].tolist() == list(names)
    np.testing.assert_allclose(table["accuracy"], accuracy)
    np.testing.assert_allclose(
        table["mean_confidence"],
        expected.set_index("domain").loc[list(names), "mean_confidence"], rtol=1e-12,
    )  # fmt: skip
    assert table["used"].all()


def test_the_contents_name_every_array_and_warn_of_wide_features():
    rows = pooled_rows(12, n_rows=60)
    sums = summarize_site(rows, search=True)
    assert sums.contents()["array"].tolist() == list(sums.arrays())
    assert sums.contents().set_index("array").loc["gram", "size"] == "6 x 6"
    assert not any("rotation" in remark for remark in sums.remarks())
    features = np.random.default_rng(0).normal(size=(len(rows), 60))
    wide = dc.CalibrationData(
        rows.logits, labels=rows.labels, features=features, domains=rows.domains
    )
    assert not any("rotation" in remark for remark in summarize_site(wide).remarks())
    assert any("60 rows of a domain" in r for r in summarize_site(wide, search=True).remarks())
    # With two sizes of domains, gram and gram_equal give the products of each.
    for n_domains, said in ((1, "60 rows of the site"), (2, "60 rows of a domain")):
        some = wide.select(np.flatnonzero(wide.domain_codes[0] < n_domains))
        assert any(said in remark for remark in summarize_site(some).remarks())


def test_the_page_names_every_array():
    page = (Path(__file__).parents[2] / "docs/sites.md").read_text()
    table = page[page.index("| array | size | meaning |") : page.index("The header of the file")]
    named = {name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row[:80])}
    assert set(MEANINGS) <= named


def test_sums_that_do_not_belong_together_are_not_added():
    one = FeatureSums(np.zeros(2), np.zeros((1, 2)), np.eye(2), np.eye(2))
    other = FeatureSums(np.ones(2), np.zeros((1, 2)), np.eye(2), np.eye(2))
    assert (one + one).gram.tolist() == [[2, 0], [0, 2]]
    with pytest.raises(InputError, match="same shift"):
        one + other
    curve = SlopeCurve(np.array([0.0, 0.25]), np.ones((2, 4)))
    shifted = SlopeCurve(np.array([0.25, 0.5]), np.ones((2, 4)))
    assert (curve + shifted).log_beta.tolist() == [0.25]
    assert (curve + shifted).sums.tolist() == [[2.0] * 4]

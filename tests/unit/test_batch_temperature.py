"""BatchTemperatureScaling: statistics of batches, map to log T, predictions and their errors."""

from dataclasses import replace
from functools import cache, reduce
from operator import add

import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax
from scipy.stats import entropy
from sklearn.decomposition import PCA

import domaincal as dc
from domaincal.calibrators.batch import batch_rows
from domaincal.calibrators.batch.batch_map import BatchMap, FeatureDirections
from domaincal.calibrators.batch.batch_rows import DomainRows, feature_directions
from domaincal.errors import FewClassesWarning
from domaincal.statistics.batch_sums import LOGIT_STATISTICS, RowStatistics, histogram_quantiles
from support import fit, fit_without_features, small_domains, temperatures

NEW = [f"domain-{k:02d}" for k in range(5)]


@cache
def _split(seed=0, **options):
    """Known and left-out domains with different temperatures, and the true temperatures."""
    settings = {"n_domains": 15, "n_rows": 200, "n_classes": 6, "n_features": 4, **options}
    data, truth = dc.make_multi_domain(random_state=seed, **settings)
    return *dc.split_domains(data, NEW), truth


@cache
def _fitted(seed=0, *, features=False):
    known = _split(seed)[0]
    make = fit if features else fit_without_features
    return make(dc.BatchTemperatureScaling(), known)


def _batches(data, size):
    """Names of batches of ``size`` rows of one domain."""
    place = pd.Series(data.domains).groupby(data.domains).cumcount() // size
    return np.array([f"{d} {k}" for d, k in zip(data.domains, place, strict=True)])


# statistics


def _logits(n=500, n_classes=7):
    rng = np.random.default_rng(0)
    return rng.normal(0, 3, size=(n, n_classes)) + rng.normal(0, 50, size=(n, 1))


@pytest.mark.parametrize("beta", [1.0, 0.3, 4.0])
def test_statistics_are_those_of_numpy(beta):
    logits, values = _logits(), np.random.default_rng(1).normal(size=(500, 3))
    batch = np.random.default_rng(2).integers(0, 4, 500)
    rows = RowStatistics.from_rows(logits, beta, values)
    found = pd.DataFrame(rows.sums(batch, 4).statistics())
    for k in range(4):
        z, p = beta * logits[batch == k], softmax(beta * logits[batch == k], axis=1)
        confidence, ordered = p.max(axis=1), np.sort(z, axis=1)
        expected = {
            "mean_confidence": confidence.mean(),
            "sd_confidence": confidence.std(),
            "mean_entropy": entropy(p, axis=1).mean(),
            "entropy_of_mean": entropy(p.mean(axis=0)),
            "mean_margin": (ordered[:, -1] - ordered[:, -2]).mean(),
            "mean_top_logit": (z.max(axis=1) - z.mean(axis=1)).mean(),
            "mean_spread": z.std(axis=1).mean(),
        }
        row = pd.Series(found.loc[k, :10].to_numpy(), index=LOGIT_STATISTICS)
        for name, value in expected.items():
            assert row[name] == pytest.approx(value, rel=1e-9), name
        np.testing.assert_allclose(found.loc[k, 11:], values[batch == k].mean(axis=0), rtol=1e-9)


def test_quantiles_are_within_a_bin_of_those_of_all_rows():
    logits = _logits(5000)
    confidence = softmax(logits, axis=1).max(axis=1)
    sums = RowStatistics.from_rows(logits, 1.0).sums(np.zeros(5000, np.int64), 1)
    names = [name for name in LOGIT_STATISTICS if name.startswith("confidence_")]
    found = pd.Series(sums.statistics()[0], index=LOGIT_STATISTICS)[names]
    levels = [float(name.removeprefix("confidence_")) for name in names]
    expected = np.quantile(confidence, levels, method="inverted_cdf")
    assert np.abs(found.to_numpy() - expected).max() <= 0.01


def test_quantiles_of_one_row_are_inside_its_bin():
    histogram = np.zeros((1, 100))
    histogram[0, 42] = 1.0
    for level, (quantile,) in zip(
        (0.1, 0.5), histogram_quantiles(histogram, (0.1, 0.5)), strict=True
    ):
        assert quantile == pytest.approx(0.42 + 0.01 * level)


def test_sums_of_parts_add_to_the_sums_of_all_rows():
    logits, batch = _logits(), np.random.default_rng(2).integers(0, 4, 500)

    def sums(part):
        return RowStatistics.from_rows(logits[part], 1.0).sums(batch[part], 4)

    total = reduce(add, map(sums, [slice(0, 100), slice(100, 101), slice(101, 500)]))
    whole = sums(slice(None))
    for name in ("n", "values", "probabilities", "histogram"):
        np.testing.assert_allclose(getattr(total, name), getattr(whole, name), rtol=1e-12)
    np.testing.assert_allclose(total.statistics(), whole.statistics(), rtol=1e-9)


def test_a_weight_and_a_repeated_row_give_the_same_sums():
    rows = RowStatistics.from_rows(_logits(50), 1.0)
    times = np.random.default_rng(3).integers(0, 4, 50)
    repeated = np.repeat(np.arange(50), times)
    one = np.zeros(50, np.int64)
    weighted = rows.sums(one, 1, weight=times.astype(float)).statistics()
    drawn = rows.sums(np.zeros(len(repeated), np.int64), 1, rows=repeated).statistics()
    np.testing.assert_allclose(weighted, drawn, rtol=1e-12)


@pytest.mark.parametrize("shape", [(400, 12), (30, 60), (400, 3)])
def test_directions_are_whitened_principal_components(shape):
    rng = np.random.default_rng(0)
    x = rng.normal(size=shape) * np.linspace(3.0, 0.5, shape[1]) + 7.0
    parts = np.array_split(rng.permutation(shape[0]), 3)
    found = feature_directions(x, [DomainRows(p, np.ones(len(p))) for p in parts])
    values = found(x)
    n = min(8, shape[1])
    coordinates = values[:, 2 : 2 + n]
    expected = PCA(n, whiten=True, svd_solver="full").fit_transform(x)
    expected *= np.sqrt(shape[0] / (shape[0] - 1))  # PCA divides by n - 1
    np.testing.assert_allclose(np.abs(coordinates), np.abs(expected), atol=1e-6)
    centred = x - x.mean(axis=0)
    ratio = values[:, :2] / np.column_stack([np.linalg.norm(centred, axis=1), centred.std(axis=1)])
    np.testing.assert_allclose(ratio, 1.0 / np.abs(centred).max(), rtol=1e-9)


@pytest.mark.parametrize("n_features", [2, 50])
def test_constant_features_change_nothing(n_features):
    """The mean of 0.1 is rounded: the differences to it are not features."""
    known, new, _ = _split()
    constant = fit(dc.BatchTemperatureScaling(), _with_features(known, 0.1, n_features))
    expected = _fitted().predict_temperature(new.logits, domains=new.domains)
    for value in (0.1, 0.2):
        found = temperatures(constant, _with_features(new, value, n_features))
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def _with_features(data, value, n_features):
    features = np.full((len(data), n_features), value)
    return dc.CalibrationData(
        data.logits, labels=data.labels, features=features, domains=data.domains
    )


def test_values_of_far_features_stay_finite_and_those_of_bad_features_do_not():
    directions = FeatureDirections(np.zeros(2), 1e-160, 1e60 * np.eye(2))
    values = directions(np.array([[1e150, -1e150], [np.nan, 0.0], [0.0, np.inf], [1e-150, 0.0]]))
    assert np.isfinite(values).all(axis=1).tolist() == [True, False, False, True]


def test_a_thinned_domain_keeps_its_distribution():
    rng = np.random.default_rng(0)
    rows = DomainRows(np.arange(1000), rng.integers(1, 4, 1000).astype(float))
    thin = rows.thinned(100)
    assert len(thin.rows) == 100
    assert (thin.weight == 1.0).all()
    expected = np.average(rows.rows, weights=rows.weight)
    assert thin.rows.mean() == pytest.approx(expected, abs=10)
    assert rows.thinned(1000) is rows


# the map


def _map(**changes):
    """Log T of 0 for single rows and of 2 for batches of 100 rows, both plus 3."""
    parts = {
        "sizes": np.array([1.0, 100.0]), "mean": np.zeros((2, 1)), "scale": np.ones((2, 1)),
        "coef": np.array([[0.0, 0.0], [0.0, 2.0]]), "log_pooled": 3.0, "low": -100.0,
        "high": 100.0, "error": np.array([0.4, 0.1]),
        "reach": np.full(2, 2.0),
    }  # fmt: skip
    return BatchMap(**{**parts, **changes})


def test_sizes_are_interpolated_in_the_logarithm_of_the_rows():
    n = np.array([1.0, 10.0, 100.0, 1e9])
    found = _map().predict(np.zeros((4, 1)), n)
    np.testing.assert_allclose(found.log_temperature, [3.0, 4.0, 5.0, 5.0])
    np.testing.assert_allclose(found.log_error**2, [0.16, 0.085, 0.01, 0.01])


def test_statistics_are_standardised_before_the_map():
    some = _map(mean=np.full((2, 1), 5.0), scale=np.full((2, 1), 2.0), coef=np.ones((2, 2)))
    found = some.predict(np.array([[9.0]]), np.ones(1))
    np.testing.assert_allclose(found.log_temperature, 3.0 + 2.0 + 1)


def test_predictions_stay_inside_the_limits():
    limited = _map(coef=np.ones((2, 2)), low=2.5, high=4.5)
    found = limited.predict(np.array([[-9.0], [0.0], [9.0]]), np.ones(3))
    np.testing.assert_allclose(found.log_temperature, [2.5, 4.0, 4.5])


def test_a_far_batch_tends_to_the_pooled_temperature():
    """At distances 5 and 50, that is x of 10 and 100; the limit is a distance of 10."""
    found = _map(coef=np.array([[0.1, 0.0]] * 2)).predict(np.array([[10.0], [100.0]]), np.ones(2))
    expected = [3.0 + 1.0, 3.0 + 10.0 * (10.0 / 50.0) ** 4]
    np.testing.assert_allclose(found.log_temperature, expected)
    np.testing.assert_allclose(found.distance, [5.0, 50.0])


def test_the_error_grows_with_the_distance_beyond_the_batches_of_the_fit():
    found = _map().predict(np.array([[0.0], [2.0], [4.0], [8.0]]), np.ones(4))
    # Squared distances 0, 1, 4, 16; the variance is proportional to the distance.
    np.testing.assert_allclose(found.log_error, 0.4 * np.sqrt([1.0, 1.0, 2.0, 4.0]))


# predictions


def test_blocks_of_rows_change_nothing(monkeypatch):
    new = _split()[1].select(slice(None, None, 4))
    fitted = _fitted(features=True)
    codes = np.random.default_rng(0).permutation(len(new))
    groups = {
        "one batch": None,
        "domains": new.domains,
        "single rows": codes,
        "mixed": np.where(codes < 40, codes, codes % 7 + 1000),
        "one large batch": np.where(codes < 5, codes, 1000),
    }

    def predict(domains):
        given = {"features": new.features, "domains": domains}
        return np.stack(
            [fitted.predict_temperature(new.logits, **given),
             fitted.predict_temperature_error(new.logits, **given)]
        )  # fmt: skip

    whole = {name: predict(domains) for name, domains in groups.items()}
    read = []
    plain = batch_rows.row_values
    monkeypatch.setattr(
        batch_rows, "row_values", lambda *a, **k: read.append(a[2]) or plain(*a, **k)
    )
    for rows in (4, 37):
        monkeypatch.setattr(batch_rows, "_BLOCK_BYTES", rows * 8 * (6 + 4 + 100))
        for name, domains in groups.items():
            read.clear()
            np.testing.assert_allclose(predict(domains), whole[name], rtol=1e-9, err_msg=name)
            sizes = [len(np.arange(len(new))[one]) for one in read]
            assert sum(sizes) == 2 * len(new)
            assert max(sizes) <= rows
            if name == "single rows":  # single rows share blocks
                assert min(sizes) >= min(rows, len(new) % rows or rows)


def test_every_row_alone_is_a_batch_of_one_row():
    known, new, _ = _split()
    by_row = fit_without_features(dc.BatchTemperatureScaling(batch="row"), known)
    single = np.arange(len(new))
    expected = _fitted().predict_temperature(new.logits, domains=single)
    found = by_row.predict_temperature(new.logits)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    np.testing.assert_array_equal(
        by_row.predict_temperature(new.logits, domains=new.domains), found
    )
    np.testing.assert_allclose(by_row.predict_temperature(new.logits[7:8]), found[7], rtol=1e-12)
    assert len(np.unique(found)) > 1


def test_without_domains_all_rows_are_one_batch():
    _, new, _ = _split()
    found = _fitted().predict_temperature(new.logits)
    expected = _fitted().predict_temperature(new.logits, domains=np.zeros(len(new), int))
    np.testing.assert_array_equal(found, expected)
    assert len(np.unique(found)) == 1
    shuffled = _fitted().predict_temperature(new.logits[::-1])
    np.testing.assert_allclose(shuffled, found, rtol=1e-12)


def test_the_names_of_batches_decide_nothing():
    _, new, _ = _split()
    found = _fitted().predict_temperature(new.logits, domains=new.domains)
    renamed = np.array([f"z{name[::-1]}" for name in new.domains])
    np.testing.assert_allclose(
        _fitted().predict_temperature(new.logits, domains=renamed), found, rtol=1e-12
    )


@pytest.mark.parametrize("features", [False, True])
def test_left_out_domains_get_nearly_their_own_temperatures(features):
    """At most a third of the distance of the pooled temperature from 20 rows on."""
    for size in (20, 100):
        ours, pooled = [], []
        for seed in range(2):
            _, new, truth = _split(seed)
            fitted = _fitted(seed, features=features)
            t = fitted.predict_temperature(
                new.logits, features=new.features, domains=_batches(new, size)
            )
            own = np.log(truth[new.domains].to_numpy())
            ours.append(np.abs(np.log(t) - own).mean())
            pooled.append(np.abs(np.log(fitted.temperature_) - own).mean())
        assert np.mean(ours) < np.mean(pooled) / 3


@pytest.mark.parametrize("n_rows", [20, 100, 400])
def test_features_of_nine_domains_are_enough_for_batches_of_any_size(n_rows):
    """The logits look alike everywhere: only the features tell the temperature of a domain."""
    errors, pooled_errors = [], []
    for seed in range(5):
        data, truth = dc.make_multi_domain(n_domains=15, n_rows=400, random_state=seed)
        scale = truth.reindex(data.domains).to_numpy()[:, None]
        random = np.random.default_rng(seed)
        scores = random.normal(0.0, 2.0, data.logits.shape) / scale
        labels = np.argmax(scores + random.gumbel(size=scores.shape), axis=1)
        alike = dc.CalibrationData(
            scores * scale, labels=labels, features=data.features, domains=data.domains
        )
        known, new = dc.split_domains(alike, truth.index[9:].tolist())
        rows = np.concatenate([np.flatnonzero(new.domains == d)[:n_rows] for d in truth.index[9:]])
        fitted = fit(dc.BatchTemperatureScaling(), known)
        found = np.log(temperatures(fitted, new.select(rows)))
        expected = np.log(truth.reindex(new.domains[rows]).to_numpy())
        errors.append(np.abs(found - expected).mean())
        pooled_errors.append(np.abs(np.log(fitted.temperature_) - expected).mean())
    assert np.mean(errors) < 0.4 * np.mean(pooled_errors)


def test_one_temperature_everywhere_is_found():
    """The T_k differ by their standard errors only: the map must not learn more than that."""
    known, new, _ = _split(temperatures=(1.5, 1.5))
    noise = np.random.default_rng(0).normal(size=(len(known) + len(new), 4))
    fitted = dc.BatchTemperatureScaling().fit(
        known.logits, known.labels, features=noise[: len(known)], domains=known.domains
    )
    for size in (1, 20, 200):
        t = fitted.predict_temperature(
            new.logits, features=noise[len(known) :], domains=_batches(new, size)
        )
        distance = np.sqrt(np.mean(np.log(t / fitted.temperature_) ** 2))
        assert distance < fitted.domain_standard_errors_.mean()


@pytest.mark.filterwarnings("ignore::domaincal.errors.ClippedTemperatureWarning")
@pytest.mark.filterwarnings("ignore::domaincal.errors.FewClassesWarning")
def test_absurd_batches_get_no_absurd_temperature():
    _, new, _ = _split()
    fitted = _fitted(features=True)
    t_k = fitted.domain_temperatures_
    absurd = {
        "large logits": (new.logits * 1e6, new.features),
        "equal logits": (np.zeros_like(new.logits), new.features),
        "masked logits": (np.where(np.arange(6) < 2, new.logits, -1e30), new.features),
        "large features": (new.logits, new.features * -1e15),
        "all": (-1e9 * new.logits, 1e12 + new.features),
    }
    low, high = np.exp([fitted.batch_map_.low, fitted.batch_map_.high])
    margin = np.log(high / low) * 0.3 / 1.6
    for name, (logits, features) in absurd.items():
        for domains in (None, new.domains, np.arange(len(new))):
            t = fitted.predict_temperature(logits, features=features, domains=domains)
            assert ((t >= low * (1 - 1e-12)) & (t <= high * (1 + 1e-12))).all(), name
    # The targets are temperatures of another criterion, close to the T_k.
    assert np.log(low) + margin == pytest.approx(np.log(t_k.min()), abs=0.15)
    assert np.log(high) - margin == pytest.approx(np.log(t_k.max()), abs=0.15)


# standard errors


def test_errors_are_positive_and_shared_by_a_batch():
    _, new, _ = _split()
    batches = _batches(new, 20)
    errors = _fitted().predict_temperature_error(new.logits, domains=batches)
    assert errors.shape == (len(new),)
    assert (errors > 0).all()
    assert (pd.Series(errors).groupby(batches).nunique() == 1).all()
    assert len(_fitted().predict_temperature_error(new.logits)) == len(new)


def test_errors_fall_with_the_size_of_the_batch():
    _, new, _ = _split()
    means = [
        _fitted().predict_temperature_error(new.logits, domains=_batches(new, size)).mean()
        for size in (1, 5, 20, 200)
    ]
    assert (np.diff(means) < 0).all()
    table = _fitted().batch_errors_
    assert (table["error"] < table["pooled_error"]).all()


def test_errors_cover_the_temperatures_of_left_out_domains():
    """Between 85% and all of the batches, over six data sets."""
    covered = []
    for seed in range(6):
        _, new, _ = _split(seed)
        own = fit(dc.DomainTemperatureScaling(), new).domain_temperatures_[new.domains]
        for size in (20, 100):
            given = {"domains": _batches(new, size)}
            t, error = (
                getattr(_fitted(seed), name)(new.logits, **given)
                for name in ("predict_temperature", "predict_temperature_error")
            )
            covered.append(np.mean(np.abs(np.log(t / own.to_numpy())) <= 1.96 * error))
    assert 0.85 <= np.mean(covered) <= 1.0


@pytest.mark.filterwarnings("ignore::domaincal.errors.ClippedTemperatureWarning")
def test_a_far_batch_has_a_larger_error():
    _, new, _ = _split()
    fitted = _fitted(features=True)
    near = fitted.predict_temperature_error(new.logits, features=new.features)[0]
    far = fitted.predict_temperature_error(100 * new.logits, features=new.features)[0]
    elsewhere = fitted.predict_temperature_error(new.logits, features=100 + new.features)[0]
    assert far > 2 * near
    assert elsewhere > 2 * near


# few domains


@pytest.mark.parametrize("features", [False, True])
@pytest.mark.filterwarnings("ignore:fewer than 10 rows:domaincal.errors.SmallDomainWarning")
def test_fewer_than_three_domains_are_temperature_scaling(features, tmp_path):
    data = small_domains(n_domains=4)
    names = np.array(["a", "b", "small"])[(np.arange(len(data)) % 2) + (np.arange(len(data)) < 5)]
    names[:5] = "small"  # too few rows to be used
    given = {"features": data.features} if features else {}
    with pytest.warns(dc.errors.SmallDomainWarning, match="2 domains can be used, but at least 3"):
        fitted = dc.BatchTemperatureScaling().fit(data.logits, data.labels, domains=names, **given)
    expected = dc.TemperatureScaling().fit(data.logits, data.labels).temperature_
    loaded = _saved_and_loaded(fitted, tmp_path)
    for model in (fitted, loaded):
        for domains in (None, data.domains, np.arange(len(data))):
            t = model.predict_temperature(data.logits, domains=domains)  # features are not needed
            np.testing.assert_allclose(t, expected, rtol=1e-9)
            errors = model.predict_temperature_error(data.logits, domains=domains)
            assert errors.shape == t.shape
            assert np.isnan(errors).all()
        assert "unknown" in model.summary()["error of log T on left-out domains"]
        assert model._repr_html_()


def test_a_fit_needs_domains():
    data = small_domains()
    with pytest.raises(dc.errors.InputError, match="BatchTemperatureScaling needs domains"):
        dc.BatchTemperatureScaling().fit(data.logits, data.labels)


# arguments


def _saved_and_loaded(fitted, folder):
    fitted.save(folder / "model.safetensors")
    return dc.load(folder / "model.safetensors")


@pytest.mark.parametrize("features", [False, True])
def test_save_and_load_change_nothing(features, tmp_path):
    _, new, _ = _split()
    fitted = _fitted(features=features)
    loaded = _saved_and_loaded(fitted, tmp_path)
    for name in ("predict_proba", "predict_temperature", "predict_temperature_error"):
        expected, found = (
            getattr(model, name)(new.logits, features=new.features, domains=_batches(new, 20))
            for model in (fitted, loaded)
        )
        np.testing.assert_array_equal(found, expected)
    assert loaded.summary() == fitted.summary()


def test_features_of_the_fit_are_needed_at_prediction():
    _, new, _ = _split()
    fitted = _fitted(features=True)
    for method in ("predict_proba", "predict_temperature_error"):
        with pytest.raises(dc.errors.InputError, match="BatchTemperatureScaling needs features"):
            getattr(fitted, method)(new.logits, domains=new.domains)
    with pytest.raises(dc.errors.InputError, match="fitted with 4"):
        fitted.predict_proba(new.logits, features=new.features[:, :3])


def test_features_are_ignored_after_a_fit_without():
    _, new, _ = _split()
    expected = _fitted().predict_proba(new.logits, domains=new.domains)
    found = _fitted().predict_proba(new.logits, features=new.features * 7, domains=new.domains)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("grouped", [False, True])
def test_a_value_that_is_not_finite_is_named_with_its_row(value, grouped):
    _, new, _ = _split()
    fitted = _fitted(features=True)
    domains = new.domains if grouped else None
    shown = "NaN" if np.isnan(value) else f"{value}"
    for name, row, column in (("logits", 700, 2), ("features", 320, 1)):
        arrays = {"logits": new.logits.copy(), "features": new.features.copy()}
        arrays[name][row, column] = value
        message = rf"{name} contains {shown} \(row {row}, column {column}\)"
        for method in ("predict_proba", "predict_temperature_error"):
            with pytest.raises(dc.errors.InputError, match=message):
                getattr(fitted, method)(**arrays, domains=domains)


def test_bad_features_of_the_fit_are_named():
    data = small_domains()
    bad = data.features.copy()
    bad[3, 1] = np.nan
    with pytest.raises(dc.errors.InputError, match=r"features contains NaN \(row 3, column 1\)"):
        dc.BatchTemperatureScaling().fit(
            data.logits, data.labels, features=bad, domains=data.domains
        )


@pytest.mark.parametrize(
    ("options", "message"),
    [({"batch": "rows"}, "batch must be one of 'domain', 'row', got 'rows'"),
     ({"batch": 1}, "batch must be one of"),
     ({"random_state": -1}, "random_state must be")],
)  # fmt: skip
def test_bad_parameters_are_refused(options, message):
    with pytest.raises(dc.errors.InputError, match=message):
        fit(dc.BatchTemperatureScaling(**options), small_domains())


def test_a_parameter_that_is_changed_after_the_fit_decides_nothing():
    data = small_domains()
    fitted = fit(dc.BatchTemperatureScaling(), data)
    before = temperatures(fitted, data)
    fitted.set_params(batch="row")
    np.testing.assert_array_equal(temperatures(fitted, data), before)


def test_columns_of_a_data_frame_can_be_in_any_order():
    data, names = small_domains(), ["a", "b", "c", "d"]
    frame = pd.DataFrame(data.features, columns=names)
    fitted = dc.BatchTemperatureScaling().fit(
        data.logits, data.labels, features=frame, domains=data.domains
    )
    expected = fitted.predict_proba(data.logits, features=frame, domains=data.domains)
    turned = fitted.predict_proba(data.logits, features=frame[names[::-1]], domains=data.domains)
    np.testing.assert_array_equal(turned, expected)
    with pytest.raises(dc.errors.InputError, match="column"):
        fitted.predict_proba(data.logits, features=frame.rename(columns={"a": "x"}))


def test_rows_beyond_the_sample_of_a_domain_count(monkeypatch):
    """A sample of each domain is enough for nearly the same temperatures."""
    known, new, _ = _split()
    expected = temperatures(_fitted(features=True), new)
    monkeypatch.setattr(batch_rows, "MOST_ROWS", 100)
    t = temperatures(fit(dc.BatchTemperatureScaling(), known), new)
    assert np.abs(np.log(t / expected)).max() < 0.1
    assert (t != expected).any()


def test_tensors_give_the_temperatures_of_arrays(device):
    torch = pytest.importorskip("torch")
    data = small_domains()
    z, x = (torch.tensor(values, device=device) for values in (data.logits, data.features))
    arrays, tensors = fit(dc.BatchTemperatureScaling(), data), dc.BatchTemperatureScaling()
    tensors.fit(z, data.labels, features=x, domains=data.domains)
    for name in ("predict_temperature", "predict_temperature_error", "predict_proba"):
        expected = getattr(arrays, name)(data.logits, features=data.features, domains=data.domains)
        found = getattr(tensors, name)(z, features=x, domains=data.domains)
        assert isinstance(found, torch.Tensor)
        assert found.device.type == z.device.type
        np.testing.assert_allclose(found.cpu().numpy(), expected, rtol=1e-6)


def test_batches_of_one_class_are_reported():
    data, _ = dc.make_multi_domain(10, 400, 10, random_state=0)
    calibrator = dc.BatchTemperatureScaling().fit(data)
    one = data.select(data.domains == data.domains[0])
    predicted = one.logits.argmax(axis=1)
    consecutive = one.select(np.argsort(predicted, kind="stable"))
    batches = np.arange(len(one)) // 20
    with pytest.warns(FewClassesWarning, match=r"% of the 400 rows are in batches .* far fewer"):
        calibrator.predict_temperature(
            consecutive.logits, features=consecutive.features, domains=batches
        )
    # Random rows, and batches of a few rows: no warning.
    calibrator.predict_temperature(one.logits, features=one.features, domains=batches)
    calibrator.predict_temperature(
        consecutive.logits, features=consecutive.features, domains=np.arange(len(one)) // 5
    )


def test_a_constant_map_says_so():
    fitted = dc.BatchTemperatureScaling().fit(small_domains())
    assert "temperature of a batch" not in fitted.summary()
    fitted.batch_map_ = replace(fitted.batch_map_, coef=np.zeros_like(fitted.batch_map_.coef))
    assert "always the pooled one" in fitted.summary()["temperature of a batch"]

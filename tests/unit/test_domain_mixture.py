"""DomainMixtureScaling and its domain classifier."""

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

import domaincal as dc
from domaincal.calibrators.features.feature_projection import FeatureProjection
from domaincal.calibrators.mixture import domain_posterior
from domaincal.calibrators.mixture.domain_posterior import DomainPosterior, DomainSample, _Gaussians
from support import fit, small_domains, temperatures

DATA = small_domains(n_domains=8)


def _replace(data, **arrays):
    names = ("logits", "labels", "features", "domains")
    return dc.CalibrationData(**{name: arrays.get(name, getattr(data, name)) for name in names})


@pytest.mark.parametrize("factor", [1.0, 1e3, -1e6, 1e12])
def test_temperatures_never_leave_the_range_of_the_domains(factor):
    fitted = fit(dc.DomainMixtureScaling(), DATA)
    far = _replace(DATA, features=DATA.features * factor)
    t, t_k = temperatures(fitted, far), fitted.domain_temperatures_
    assert t.min() >= t_k.min()
    assert t.max() <= t_k.max()


def test_the_temperature_is_the_formula():
    fitted = fit(dc.DomainMixtureScaling(), DATA)
    q = fitted.posterior_(DATA.features)
    t_k = fitted.domain_temperatures_.to_numpy()
    expected = np.array([np.prod(t_k**row) for row in q])
    np.testing.assert_allclose(temperatures(fitted, DATA), expected, rtol=1e-12)


def test_equal_domains_get_one_temperature():
    """Every domain holds the same rows, so that all T_k are equal."""
    one = DATA.select(DATA.domains == "domain-0")
    rng = np.random.default_rng(0)
    copies = dc.CalibrationData(
        np.tile(one.logits, (4, 1)), labels=np.tile(one.labels, 4),
        features=rng.normal(size=(4 * len(one), 3)), domains=np.repeat(np.arange(4), len(one)),
    )  # fmt: skip
    expected = fit(dc.TemperatureScaling(), one).temperature_
    found = temperatures(fit(dc.DomainMixtureScaling(), copies), copies)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("make", [dc.DomainMixtureScaling, dc.ShiftWeightedScaling])
def test_one_domain_is_temperature_scaling(make):
    one = DATA.select(DATA.domains == "domain-0")
    expected = fit(dc.TemperatureScaling(), one).temperature_
    np.testing.assert_allclose(temperatures(fit(make(), one), DATA), expected, rtol=1e-9)


def test_features_that_tell_nothing_give_about_the_geometric_mean():
    distances = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        noise = _replace(DATA, features=rng.normal(size=(len(DATA), 20)))
        fitted = fit(dc.DomainMixtureScaling(), noise)
        new = fitted.predict_temperature(DATA.logits, features=rng.normal(size=(len(DATA), 20)))
        log_t = np.log(fitted.domain_temperatures_)
        distances.append(np.abs(np.log(new) - log_t.mean()).mean() / log_t.std())
    assert np.mean(distances) < 0.2


def test_features_that_tell_the_domain_give_its_temperature():
    codes = np.unique(DATA.domains, return_inverse=True)[1]
    rng = np.random.default_rng(0)
    features = 10.0 * np.eye(8)[codes] + 0.1 * rng.normal(size=(len(codes), 8))
    clear = _replace(DATA, features=features)
    fitted = fit(dc.DomainMixtureScaling(), clear)
    sharp = fitted.posterior_search_["sharpness"].max()
    sample = DomainSample.draw(
        features, codes, np.ones(8, bool), None, max_rows=10**6, random_state=0
    )
    coef, intercept = _Gaussians(sample, np.ones(8, bool)).linear_functions(0.1, sharp)
    posterior = DomainPosterior(*sample.projection.fold(coef, intercept))
    np.testing.assert_allclose(posterior(features), np.eye(8)[codes], atol=1e-6)


def test_the_classifier_is_linear_discriminant_analysis():
    """Oracle: scikit-learn, on standardised features, with equal priors and without shrinkage."""
    codes = np.unique(DATA.domains, return_inverse=True)[1]
    sample = DomainSample.draw(
        DATA.features, codes, np.ones(8, bool), None, max_rows=10**6, random_state=0
    )
    coef, intercept = _Gaussians(sample, np.ones(8, bool)).linear_functions(0.0, 1.0)
    posterior = DomainPosterior(*sample.projection.fold(coef, intercept))
    oracle = LinearDiscriminantAnalysis(solver="lsqr", priors=np.full(8, 1 / 8))
    expected = oracle.fit(DATA.features, codes).predict_proba(DATA.features)
    # scikit-learn's covariance is divided by n, too.
    np.testing.assert_allclose(posterior(DATA.features), expected, atol=1e-8)


def test_the_search_is_the_nll_of_domains_left_out():
    """Every domain is a fold below 6 domains; the candidate with sharpness 0 is the mean log T."""
    data = DATA.select(np.isin(DATA.domains, [f"domain-{k}" for k in range(5)]))
    fitted = fit(dc.DomainMixtureScaling(), data)
    log_t = np.log(fitted.domain_temperatures_)
    expected = []
    for name in log_t.index:
        own = data.select(data.domains == name)
        p = softmax(own.logits / np.exp(log_t.drop(name).mean()), axis=1)
        expected.append(dc.negative_log_likelihood(p, own.labels))
    search = fitted.posterior_search_
    uniform = search.loc[search["sharpness"] == 0, "nll"]
    assert uniform.to_numpy() == pytest.approx([np.mean(expected)], rel=1e-10)
    assert search["nll"].min() <= uniform.iloc[0]


@pytest.mark.parametrize("make", [dc.DomainMixtureScaling, dc.ShiftWeightedScaling])
def test_the_classifier_is_that_of_the_lowest_nll(make):
    codes = np.unique(DATA.domains, return_inverse=True)[1]
    every = np.ones(8, bool)
    sample = DomainSample.draw(DATA.features, codes, every, None, max_rows=10**6, random_state=0)
    fitted = fit(make(), DATA)
    search = fitted.posterior_search_
    best = search.loc[search["nll"].idxmin()]
    expected = _Gaussians(sample, every).linear_functions(best["shrinkage"], best["sharpness"])
    coef, intercept = sample.projection.fold(*expected)
    np.testing.assert_allclose(fitted.posterior_.coef, coef, rtol=1e-9)
    np.testing.assert_allclose(fitted.posterior_.intercept, intercept, rtol=1e-9, atol=1e-12)
    if "em_steps" in search:
        assert fitted.em_steps_ == best["em_steps"]


def test_a_domain_that_cannot_be_used_is_left_out():
    labels = DATA.labels.copy()
    odd = DATA.domains == "domain-3"
    labels[odd] = DATA.logits[odd].argmax(axis=1)
    with pytest.warns(dc.errors.BoundaryWarning, match="'domain-3'"):
        fitted = fit(dc.DomainMixtureScaling(), _replace(DATA, labels=labels))
    rest = fit(dc.DomainMixtureScaling(), _replace(DATA, labels=labels).select(~odd))
    np.testing.assert_allclose(temperatures(fitted, DATA), temperatures(rest, DATA), rtol=1e-9)


@pytest.mark.parametrize("make", [dc.DomainMixtureScaling, dc.ShiftWeightedScaling])
@pytest.mark.filterwarnings("ignore::domaincal.errors.BoundaryWarning")
def test_without_a_usable_domain_every_row_gets_the_pooled_temperature(make, tmp_path):
    small = _replace(DATA, domains=np.arange(len(DATA)) // 5)
    with (
        pytest.warns(dc.errors.SmallDomainWarning, match="fewer than 10 rows"),
        pytest.warns(dc.errors.SmallDomainWarning, match="every row gets the pooled temperature"),
    ):
        fitted = fit(make(), small)
    np.testing.assert_allclose(temperatures(fitted, DATA), fitted.temperature_, rtol=1e-12)
    fitted.save(tmp_path / "model.safetensors")
    loaded = dc.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(temperatures(loaded, DATA), temperatures(fitted, DATA))


@pytest.mark.parametrize("make", [dc.DomainMixtureScaling, dc.ShiftWeightedScaling])
def test_a_sample_has_equally_many_rows_of_each_domain(make, monkeypatch):
    seen = []
    draw = DomainSample.draw

    def spy(*arguments, **options):
        seen.append(draw(*arguments, **options))
        return seen[-1]

    monkeypatch.setattr(domain_posterior.DomainSample, "draw", spy)
    with pytest.warns(dc.errors.SubsampleWarning, match=r"200 of 640 rows; raise max_rows=200"):
        fitted = fit(make(max_rows=200), DATA)
    assert np.bincount(seen[0].codes).tolist() == [25] * 8
    # The temperatures of the domains come from all rows.
    expected = fit(make(), DATA).domain_temperatures_
    np.testing.assert_array_equal(fitted.domain_temperatures_, expected)


def test_fewer_rows_than_domains_are_refused():
    with pytest.raises(dc.errors.InputError, match=r"max_rows=7 is less than the 8 domains"):
        fit(dc.DomainMixtureScaling(max_rows=7), DATA)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"max_rows": 0}, "max_rows must be"), ({"random_state": -1}, "random_state must be")],
)
@pytest.mark.parametrize(
    "make", [dc.DomainMixtureScaling, dc.ShiftWeightedScaling, dc.FeatureTemperatureScaling]
)
def test_bad_parameters_are_refused(make, options, message):
    with pytest.raises(dc.errors.InputError, match=message):
        fit(make(**options), DATA)


@pytest.mark.parametrize(
    "make", [dc.DomainMixtureScaling, dc.ShiftWeightedScaling, dc.FeatureTemperatureScaling]
)
def test_bad_features_are_refused(make):
    name = make.__name__
    with pytest.raises(dc.errors.InputError, match=f"{name} needs features"):
        make().fit(DATA.logits, DATA.labels, domains=DATA.domains)
    bad = DATA.features.copy()
    bad[3, 1] = np.nan
    with pytest.raises(dc.errors.InputError, match=r"features contains NaN \(row 3, column 1\)"):
        make().fit(DATA.logits, DATA.labels, features=bad, domains=DATA.domains)
    weight = np.ones(len(DATA))
    weight[3] = 0.0  # a row that is not in the sample
    with pytest.raises(dc.errors.InputError, match=r"features contains NaN \(row 3, column 1\)"):
        fit(make(), _replace(DATA, features=bad), sample_weight=weight)
    with pytest.raises(dc.errors.InputError, match="too large"):
        fit(make(), _replace(DATA, features=DATA.features * 1e160))
    fitted = fit(make(), DATA)
    with pytest.raises(dc.errors.InputError, match=r"features contains NaN \(row 3, column 1\)"):
        fitted.predict_proba(DATA.logits, features=bad)
    with pytest.raises(dc.errors.InputError, match="fitted with 4"):
        fitted.predict_proba(DATA.logits, features=DATA.features[:, :3])
    with pytest.raises(dc.errors.InputError, match=f"{name} needs features"):
        fitted.predict_proba(DATA.logits)


@pytest.mark.parametrize("make", [dc.DomainMixtureScaling, dc.ShiftWeightedScaling])
def test_a_fit_without_domains_is_refused(make):
    with pytest.raises(dc.errors.InputError, match="needs domains"):
        make().fit(DATA.logits, DATA.labels, features=DATA.features)


@pytest.mark.parametrize("shape", [(300, 6), (60, 200), (500, 200)])
def test_projected_features_are_principal_components(shape):
    """Gram matrices of the projection and of standardised features agree in what is kept."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(shape[0], 4)) @ rng.normal(size=(4, shape[1])) * 3.0 + 5.0
    projection = FeatureProjection.fit(x)
    standard = (x - x.mean(axis=0)) / x.std(axis=0)
    found = projection(x)
    assert found.shape[1] <= 128
    np.testing.assert_allclose(found @ found.T, standard @ standard.T, atol=1e-6)


@pytest.mark.parametrize("n_features", [3, 200])
def test_constant_features_project_to_zero(n_features):
    x = np.full((20, n_features), 0.1)
    np.testing.assert_array_equal(FeatureProjection.fit(x)(x), np.zeros((20, 1)))


def test_constant_features_change_nothing():
    wide = _replace(DATA, features=np.column_stack([DATA.features, np.full(len(DATA), 0.1)]))
    for make in (dc.DomainMixtureScaling, dc.FeatureTemperatureScaling):
        plain, constant = fit(make(), DATA), fit(make(), wide)
        np.testing.assert_allclose(temperatures(constant, wide), temperatures(plain, DATA), 1e-6)


def test_columns_of_a_data_frame_can_be_in_any_order():
    import pandas as pd

    names = ["a", "b", "c", "d"]
    frame = pd.DataFrame(DATA.features, columns=names)
    for make in (dc.DomainMixtureScaling, dc.FeatureTemperatureScaling):
        fitted = make().fit(DATA.logits, DATA.labels, features=frame, domains=DATA.domains)
        assert fitted.feature_columns_ == tuple(names)
        t = fitted.predict_temperature(DATA.logits, features=frame)
        turned = fitted.predict_temperature(DATA.logits, features=frame[names[::-1]])
        np.testing.assert_array_equal(turned, t)


def test_single_rows_are_predicted_without_domains():
    fitted = fit(dc.DomainMixtureScaling(), DATA)
    whole = temperatures(fitted, DATA)
    for k in (0, 100, 333):
        one = fitted.predict_temperature(DATA.logits[[k]], features=DATA.features[[k]])
        assert one[0] == pytest.approx(whole[k], rel=1e-12)

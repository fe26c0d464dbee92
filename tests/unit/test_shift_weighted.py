"""ShiftWeightedScaling: shares of the domains in a batch, and temperatures from a table."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

import domaincal as dc
from domaincal.calibrators.mixture.shift_weighted import estimate_shares
from domaincal.calibrators.mixture.weighted_temperature import SlopeTable
from domaincal.statistics import LabelledRows, fit_temperature
from support import fit, given, small_domains, temperatures

DATA = small_domains(n_domains=6)
CODES = np.unique(DATA.domains, return_inverse=True)[1]


def _separate(n_domains=6, noise=0.05, **options):
    """Domains that the features tell apart."""
    data = small_domains(n_domains=n_domains, n_rows=200, **options)
    codes = np.unique(data.domains, return_inverse=True)[1]
    rng = np.random.default_rng(0)
    features = np.eye(n_domains)[codes] + noise * rng.normal(size=(len(codes), n_domains))
    return dc.CalibrationData(
        data.logits, labels=data.labels, features=features, domains=data.domains
    )


@pytest.mark.parametrize("scale", [1.0, 100.0])
@pytest.mark.parametrize("stretch", [1.0, 50.0])
def test_the_table_gives_the_exact_weighted_fit(scale, stretch):
    """Oracle: the fit to all rows with weights alpha_k / n_k; log T agrees to 1e-5."""
    factors = scale * stretch ** (CODES / 5)  # the T_k range over a factor of 50
    z = DATA.logits * factors[:, None]
    rows = LabelledRows(z, DATA.labels, CODES, 6)
    t_k = fit_temperature(rows).temperature
    table = SlopeTable.from_rows(rows, t_k)
    rng = np.random.default_rng(0)
    shares = np.concatenate([rng.dirichlet(np.full(6, 0.3), 40), np.eye(6), np.full((1, 6), 1 / 6)])
    found = table.temperatures(shares)
    n = np.bincount(CODES)
    for share, t in zip(shares, found, strict=True):
        exact = fit_temperature(LabelledRows(z, DATA.labels, weight=(share / n)[CODES]))
        assert np.log(t) == pytest.approx(np.log(exact.temperature[0]), abs=1e-5)
    assert found.min() >= t_k.min() * (1 - 1e-12)
    assert found.max() <= t_k.max() * (1 + 1e-12)


def test_the_table_leaves_domains_out():
    rows = LabelledRows(DATA.logits, DATA.labels, CODES, 6)
    t_k = fit_temperature(rows).temperature.copy()
    t_k[2] = np.nan
    assert SlopeTable.from_rows(rows, t_k).slopes.shape == (65, 5)


@pytest.mark.parametrize("seed", range(5))
def test_the_shares_maximise_the_posterior(seed):
    """Oracle: a general optimiser on the log-likelihood with the Dirichlet prior."""
    rng = np.random.default_rng(seed)
    q = rng.dirichlet(np.full(3, 0.5), 30)

    def objective(x):
        share = np.exp(x - np.logaddexp.reduce(x))
        return -np.log(q @ share).sum() - np.log(share).sum() / 3

    best = minimize(objective, np.zeros(3), tol=1e-12).x
    expected = np.exp(best - np.logaddexp.reduce(best))
    found = estimate_shares(q, np.zeros(30, int), 1, n_steps=10_000)[0]
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_one_step_is_the_mean_of_the_posteriors():
    q = np.random.default_rng(0).dirichlet(np.ones(4), 50)
    found = estimate_shares(q, np.zeros(50, int), 1, n_steps=1)[0]
    np.testing.assert_allclose(found, (q.sum(axis=0) + 0.25) / 51, rtol=1e-12)


def test_the_shares_of_a_batch_do_not_depend_on_other_batches():
    rng = np.random.default_rng(1)
    q = rng.dirichlet(np.full(5, 0.3), 200)
    codes = rng.integers(0, 12, 200)
    together = estimate_shares(q, codes, 12, n_steps=100)
    np.testing.assert_allclose(together.sum(axis=1), 1.0, rtol=1e-12)
    for k in range(12):
        own = q[codes == k]
        alone = estimate_shares(own, np.zeros(len(own), int), 1, n_steps=100)[0]
        np.testing.assert_allclose(together[k], alone, atol=1e-9)


def test_a_weight_of_a_row_equals_its_repetition():
    rng = np.random.default_rng(2)
    q, times = rng.dirichlet(np.ones(3), 20), rng.integers(1, 4, 20)
    repeated = np.repeat(q, times, axis=0)
    expected = estimate_shares(repeated, np.zeros(len(repeated), int), 1, n_steps=50)
    found = estimate_shares(q, np.zeros(20, int), 1, 50, times.astype(float))
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_a_batch_of_one_row_keeps_all_domains():
    """The prior counts as one row: a row that is certain of its domain has half of the weight."""
    q = np.array([[1.0, 0.0, 0.0, 0.0]])
    found = estimate_shares(q, np.zeros(1, int), 1, n_steps=1000)[0]
    np.testing.assert_allclose(found, [0.625, 0.125, 0.125, 0.125], atol=1e-8)


def test_a_batch_of_a_known_domain_gets_its_temperature():
    data = _separate()
    fitted = fit(dc.ShiftWeightedScaling(), data)
    assert len(fitted.posterior_search_) == 42
    # Domains that are nothing like each other have no relatives among the others: the search finds
    # no use in the classifier. A sharp one recovers the domain.
    fitted.posterior_ = type(fitted.posterior_)(100 * np.eye(6), np.zeros(6))
    shares = fitted.mixture_weights(data)
    assert (np.diag(shares) > 0.99).all()
    for name, t in fitted.domain_temperatures_.items():
        own = data.select(data.domains == name)
        assert temperatures(fitted, own)[0] == pytest.approx(t, rel=0.02)


def test_mixture_weights_recover_the_mixture_of_a_batch():
    data = _separate()
    fitted = fit(dc.ShiftWeightedScaling(), data)
    fitted.posterior_ = type(fitted.posterior_)(100 * np.eye(6), np.zeros(6))
    fitted.em_steps_ = 100
    codes = np.unique(data.domains, return_inverse=True)[1]
    rng = np.random.default_rng(3)
    rows = np.concatenate(
        [rng.choice(np.flatnonzero(codes == 1), 60), rng.choice(np.flatnonzero(codes == 4), 40)]
    )
    shares = fitted.mixture_weights(data.logits[rows], features=data.features[rows])
    np.testing.assert_allclose(shares.iloc[0], [0, 0.6, 0, 0, 0.4, 0], atol=0.02)


def test_mixture_weights_are_a_table_of_batches_and_domains():
    fitted = fit(dc.ShiftWeightedScaling(), DATA)
    batches = np.where(np.arange(len(DATA)) % 3 == 0, "b", "a")
    table = fitted.mixture_weights(DATA.logits, features=DATA.features, domains=batches)
    assert isinstance(table, pd.DataFrame)
    assert table.index.tolist() == ["a", "b"]
    assert table.columns.tolist() == fitted.used_domains_.tolist()
    np.testing.assert_allclose(table.sum(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(fitted.mixture_weights(DATA), fitted.mixture_weights(
        DATA.logits, **given(DATA)
    ))  # fmt: skip
    assert fitted.mixture_weights(DATA.logits, features=DATA.features).index.tolist() == [0]


def test_domains_at_prediction_only_group_the_rows():
    fitted = fit(dc.ShiftWeightedScaling(), DATA)
    t = fitted.predict_temperature(DATA.logits, features=DATA.features)
    assert len(np.unique(t)) == 1
    new_names = np.char.add("new-", CODES.astype(str))
    found = fitted.predict_temperature(DATA.logits, features=DATA.features, domains=new_names)
    np.testing.assert_array_equal(found, temperatures(fitted, DATA))
    for k in range(6):
        own = np.equal(CODES, k)
        alone = fitted.predict_temperature(DATA.logits[own], features=DATA.features[own])
        np.testing.assert_allclose(alone, found[own], rtol=1e-9)


@pytest.mark.parametrize("factor", [1.0, -1e3, 1e9])
def test_temperatures_never_leave_the_range_of_the_domains(factor):
    fitted = fit(dc.ShiftWeightedScaling(), DATA)
    t = fitted.predict_temperature(
        DATA.logits, features=DATA.features * factor, domains=np.arange(len(DATA))
    )
    t_k = fitted.domain_temperatures_
    assert t.min() >= t_k.min()
    assert t.max() <= t_k.max()


def test_large_batches_are_thinned():
    """The shares of 4,800 rows come from 480 of them, and hardly differ from those of all."""
    fitted = fit(dc.ShiftWeightedScaling(), DATA)
    many = np.tile(np.arange(len(DATA)), 10)
    whole = fitted.mixture_weights(DATA.logits[many], features=DATA.features[many])
    fitted.max_rows = 480
    thin = fitted.mixture_weights(DATA.logits[many], features=DATA.features[many])
    np.testing.assert_allclose(thin, whole, atol=0.05)
    assert not np.array_equal(thin, whole)


def test_mixture_weights_of_bad_input_are_refused():
    fitted = fit(dc.ShiftWeightedScaling(), DATA)
    with pytest.raises(dc.errors.InputError, match="ShiftWeightedScaling needs features"):
        fitted.mixture_weights(DATA.logits)
    with pytest.raises(dc.errors.InputError, match="got a CalibrationData"):
        fitted.mixture_weights(DATA, features=DATA.features)
    with pytest.raises(dc.errors.InputError, match="logits have 4 classes"):
        fitted.mixture_weights(DATA.logits[:, :4], features=DATA.features)

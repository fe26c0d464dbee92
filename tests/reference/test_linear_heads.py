"""Least squares and ridge against scikit-learn in float64."""

import numpy as np
import pytest
import threadpoolctl
from scipy.linalg import lapack
from sklearn.linear_model import LinearRegression, Ridge

import domaincal as dc
from domaincal.calibrators.heads import HeadProblem
from domaincal.calibrators.heads.linear import solve_linear
from domaincal.statistics import (
    LeastSquares,
    NormalEquations,
    feature_products,
    least_squares,
    positive_definite,
)
from support import blas_threads, fit, search_folds, small_domains

# On small, noisy domains a head can be worse than the pooled temperature.
pytestmark = pytest.mark.filterwarnings("ignore::domaincal.errors.PoorHeadWarning")


def _problem(condition, n=2000, p=40, n_domains=9, seed=0):
    rng = np.random.default_rng(seed)
    u, _ = np.linalg.qr(rng.normal(size=(n, p)))
    v, _ = np.linalg.qr(rng.normal(size=(p, p)))
    features = u * np.geomspace(1.0, 1.0 / condition, p) @ v.T * 30.0
    return features, rng.integers(0, n_domains, n), rng.uniform(0.5, 4.0, n_domains)


def fit_linear(features, codes, targets, *, weight, alpha, fit_intercept):
    problem = HeadProblem(features, codes, targets, weight, False, fit_intercept, None, None)
    return solve_linear(problem, alpha)


@pytest.mark.parametrize("condition", [1e1, 1e3, 1e5, 9e5])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_ols_equals_scikit_learn(condition, intercept, weighted):
    features, codes, targets = _problem(condition)
    weight = np.random.default_rng(1).uniform(0.1, 3.0, len(codes)) if weighted else None
    ours = fit_linear(features, codes, targets, weight=weight, alpha=0.0, fit_intercept=intercept)(
        features
    )
    theirs = LinearRegression(fit_intercept=intercept, tol=0.0).fit(
        features, targets[codes], sample_weight=weight
    )
    np.testing.assert_allclose(ours, theirs.predict(features), rtol=0, atol=1e-6)


@pytest.mark.parametrize("alpha", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("intercept", [False, True])
def test_ridge_equals_scikit_learn(alpha, intercept):
    features, codes, targets = _problem(1e4)
    ours = fit_linear(features, codes, targets, weight=None, alpha=alpha, fit_intercept=intercept)(
        features
    )
    theirs = Ridge(alpha=alpha, fit_intercept=intercept, solver="svd").fit(features, targets[codes])
    np.testing.assert_allclose(ours, theirs.predict(features), rtol=0, atol=1e-6)


@pytest.mark.parametrize("offset", [1e3, 1e6])
@pytest.mark.parametrize("alpha", [0.0, 10.0])
def test_predictions_are_accurate_for_features_far_from_zero(offset, alpha):
    """Centring cancels most digits of the Gram matrix; refinement restores them."""
    features, codes, targets = _problem(10.0)
    features += offset
    ours = fit_linear(features, codes, targets, weight=None, alpha=alpha, fit_intercept=True)
    head = Ridge(alpha=alpha, solver="svd") if alpha else LinearRegression(tol=0.0)
    theirs = head.fit(features, targets[codes]).predict(features)
    np.testing.assert_allclose(ours(features), theirs, rtol=0, atol=1e-6)


@pytest.mark.parametrize(("condition", "kept"), [(5e5, True), (2e6, False)])
def test_singular_values_above_the_tolerance_are_used(condition, kept):
    rng = np.random.default_rng(4)
    u, _ = np.linalg.qr(rng.normal(size=(500, 2)))
    features, codes = u * [1.0, 1.0 / condition], np.arange(500) % 3
    ours = fit_linear(features, codes, np.arange(3.0), weight=None, alpha=0.0, fit_intercept=False)
    assert (abs(ours.coef[1]) > 1e-3) == kept


@pytest.mark.parametrize("alpha", [0.0, 1e-9, 1e-3])
@pytest.mark.parametrize("condition", [1e1, 1e3, 1e5])
def test_both_factorisations_give_the_same_predictions(condition, alpha, monkeypatch):
    features, codes, targets = _problem(condition)
    sums = NormalEquations.from_rows(features, codes, 9, shift=np.zeros(40))
    by_cholesky = LeastSquares(sums)
    found = by_cholesky.solve(targets, alpha=alpha)
    assert "spectrum" not in vars(by_cholesky)
    # LAPACK reports that the matrix is not positive definite.
    monkeypatch.setattr(lapack, "dpotrf", lambda matrix, **_: (matrix, 1))
    expected = LeastSquares(sums).solve(targets, alpha=alpha)
    np.testing.assert_allclose(found(features), expected(features), rtol=0, atol=1e-6)


@pytest.mark.parametrize("alpha", [1e-300, 1e-9, 1e-3, 1.0])
@pytest.mark.parametrize("scale", [1.0, 1e4])
@pytest.mark.parametrize("intercept", [False, True])
def test_ridge_of_nearly_dependent_features_equals_scikit_learn(alpha, scale, intercept):
    """With a small penalty, small singular values are used; without one they count as zero."""
    rng = np.random.default_rng(6)
    u = rng.normal(size=(500, 2))
    features = scale * np.column_stack([u[:, 0], u[:, 0] + 1.5e-6 * u[:, 1]])
    codes, targets = np.arange(500) % 3, np.arange(1.0, 4.0)
    ours = fit_linear(features, codes, targets, weight=None, alpha=alpha, fit_intercept=intercept)
    theirs = Ridge(alpha=alpha, fit_intercept=intercept, solver="svd").fit(features, targets[codes])
    np.testing.assert_allclose(ours(features), theirs.predict(features), rtol=0, atol=1e-6)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("apart", [0.0, 1e-8])
def test_opposite_features_share_their_coefficient(sign, apart):
    """The minimum-norm solution; the column sums of the Gram matrix cancel, its norm does not."""
    rng = np.random.default_rng(7)
    u = rng.normal(size=(500, 2))
    features = np.column_stack([u[:, 0], sign * u[:, 0] + apart * u[:, 1]])
    codes, targets = (u[:, 0] > 0).astype(int), np.array([1.0, 2.0])
    ours = fit_linear(features, codes, targets, weight=None, alpha=0.0, fit_intercept=False)
    np.testing.assert_allclose(ours.coef[0], sign * ours.coef[1], rtol=1e-6)


def test_large_factorisations_use_one_thread(monkeypatch):
    """With two, OpenBLAS crashes from about 16,000 features on."""
    threads = []
    dpotrf = least_squares.lapack.dpotrf

    def spy(*arguments, **options):
        threads.append(set(blas_threads()))
        return dpotrf(*arguments, **options)

    monkeypatch.setattr(least_squares.lapack, "dpotrf", spy)
    monkeypatch.setattr(positive_definite, "THREADED_UP_TO", 40)
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        for p in (40, 41):
            features, codes, targets = _problem(10.0, p=p)
            options = {"weight": None, "alpha": 0.0, "fit_intercept": False}
            fit_linear(features, codes, targets, **options)
    assert threads == [{2}, {1}]


def test_sums_with_different_shifts_cannot_be_added():
    features, codes, _ = _problem(10.0)
    sums = [
        NormalEquations.from_rows(features, codes, 9, shift=np.full(40, shift))
        for shift in (0.0, 1.0)
    ]
    with pytest.raises(dc.errors.InputError, match="same shift"):
        sums[0] + sums[1]


def test_small_singular_values_count_as_zero():
    """The minimum-norm solution of numpy.linalg.lstsq with the same cut."""
    features, codes, targets = _problem(1e2, p=30)
    features = np.column_stack([features, features[:, 0], np.zeros(len(features))])
    ours = fit_linear(features, codes, targets, weight=None, alpha=0.0, fit_intercept=False)
    theirs, *_ = np.linalg.lstsq(features, targets[codes], rcond=1e-6)
    np.testing.assert_allclose(ours.coef, theirs, atol=1e-8)


def test_more_features_than_rows_give_the_minimum_norm_solution():
    rng = np.random.default_rng(3)
    features, codes, targets = rng.normal(size=(20, 50)), np.arange(20) % 4, np.arange(1.0, 5.0)
    ours = fit_linear(features, codes, targets, weight=None, alpha=0.0, fit_intercept=False)
    np.testing.assert_allclose(ours(features), targets[codes], atol=1e-8)


@pytest.mark.parametrize("condition", [1e3, 1e5])
def test_blocks_give_the_same_predictions(condition, monkeypatch):
    features, codes, targets = _problem(condition)
    options = {"weight": None, "alpha": 0.0, "fit_intercept": False}
    whole = fit_linear(features, codes, targets, **options)(features)
    monkeypatch.setattr(feature_products, "BLAS_BLOCK_BYTES", 8 * 40 * 37)
    blocks = fit_linear(features, codes, targets, **options)(features)
    tolerance = 1e-10 if condition == 1e3 else 1e-8
    np.testing.assert_allclose(blocks, whole, rtol=0, atol=tolerance)


@pytest.mark.parametrize("target", ["temperature", "log", "inverse"])
def test_md_ts_is_the_two_steps_of_the_paper(target):
    """A temperature for each domain, then LinearRegression on the features of all rows."""
    data = small_domains()
    calibrator = fit(dc.MultiDomainTemperatureScaling(target=target, clip=None), data)
    by_domain = {
        name: dc.TemperatureScaling()
        .fit(*(a[data.domains == name] for a in (data.logits, data.labels)))
        .temperature_
        for name in data.domain_names
    }
    forward, back = {
        "temperature": (lambda t: t, lambda t: t),
        "log": (np.log, np.exp),
        "inverse": (lambda t: 1 / t, lambda t: 1 / t),
    }[target]
    regressed = forward(np.array([by_domain[name] for name in data.domains]))
    script = LinearRegression(fit_intercept=False).fit(data.features, regressed)
    expected = back(script.predict(data.features))
    found = calibrator.predict_temperature(data.logits, features=data.features)
    low, high = calibrator.clip_
    inside = (expected > low) & (expected < high)
    assert inside.mean() > 0.95
    np.testing.assert_allclose(found[inside], expected[inside], rtol=1e-6)


def test_equal_domain_weight_is_a_weighted_regression():
    data = small_domains()
    keep = np.concatenate([np.flatnonzero(data.domains == n)[: 20 * (k + 1)]
                           for k, n in enumerate(data.domain_names)])  # fmt: skip
    data = data.select(keep)
    calibrator = fit(dc.MultiDomainTemperatureScaling(domain_weight="equal"), data)
    rows = calibrator.domain_temperatures_.loc[data.domains].to_numpy()
    _, codes, counts = np.unique(data.domains, return_inverse=True, return_counts=True)
    script = LinearRegression(fit_intercept=False).fit(
        data.features, rows, sample_weight=1.0 / counts[codes]
    )
    np.testing.assert_allclose(calibrator.coef_, script.coef_, atol=1e-8)


def test_alpha_has_the_lowest_nll_on_held_out_domains():
    """The search by hand, with scikit-learn."""
    data = small_domains(n_domains=7)
    calibrator = fit(dc.MultiDomainTemperatureScaling("ridge"), data)
    table = calibrator.head_search_
    unit = np.square(data.features).sum() / data.features.shape[1]  # mean eigenvalue of X'X
    np.testing.assert_allclose(table["alpha"], unit * 10.0 ** np.arange(-6, 3))
    t_k = calibrator.domain_temperatures_
    folds = search_folds(data)
    assert len(folds) == 5
    expected = []
    for alpha in table["alpha"]:
        nll = {}
        for names in folds:
            out = np.isin(data.domains, names)
            t = t_k.loc[data.domains[~out]].to_numpy()
            head = Ridge(alpha=alpha, fit_intercept=False, solver="svd")
            value = head.fit(data.features[~out], t).predict(data.features[out])
            value = np.clip(value, t.min() / 4, t.max() * 4)
            z = data.logits[out] / value[:, None]
            log_p = z - np.logaddexp.reduce(z, axis=1, keepdims=True)
            loss = -log_p[np.arange(out.sum()), data.labels[out]]
            nll.update({n: loss[data.domains[out] == n].mean() for n in names})
        expected.append(np.mean(list(nll.values())))
    np.testing.assert_allclose(table["nll"], expected, rtol=1e-7)
    assert calibrator.head_parameters_ == {"alpha": table["alpha"][np.argmin(expected)]}
    assert (table["n_domains"] == 7).all()
    assert (table["n_rows"] == len(data)).all()

"""Heads of MD-TS against scikit-learn's estimators, and the search redone by hand."""

import numpy as np
import pytest
import scipy.linalg
from sklearn.ensemble import RandomForestRegressor
from sklearn.kernel_approximation import Nystroem
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import HuberRegressor, LinearRegression, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline

import domaincal as dc
from domaincal.calibrators import heads
from domaincal.calibrators.heads import huber, kernel_ridge as kernel, linear, neighbours
from domaincal.statistics.positive_definite import solve_positive_definite
from support import fit, search_folds, small_domains, temperatures

# On small, noisy domains a head can be worse than the pooled temperature.
pytestmark = pytest.mark.filterwarnings("ignore::domaincal.errors.PoorHeadWarning")
MD_TS = dc.MultiDomainTemperatureScaling
DATA = small_domains(n_domains=7, n_rows=60)


def _problem(seed=0, *, n=300, p=6, n_domains=5, weighted=False, intercept=False, equal=False):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, n_domains, n)
    features = rng.normal(size=(n, p)) * np.geomspace(1, 100, p) + codes[:, None] + 3.0
    targets = rng.uniform(0.5, 4.0, n_domains)
    weight = rng.uniform(0.1, 3.0, n) if weighted else None
    return heads.HeadProblem(features, codes, targets, weight, equal, intercept, None, None)


def _targets(problem):
    return problem.targets[problem.codes]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("epsilon", [1.35, 2.5])
def test_huber_equals_scikit_learn(weighted, intercept, epsilon):
    """The features are of unequal size; scikit-learn only converges if they are scaled."""
    problem = _problem(weighted=weighted, intercept=intercept)
    found = huber.fit_huber_maps(problem, problem.all_rows(), (epsilon,))[0]
    size = np.abs(problem.features).max(axis=0)
    theirs = HuberRegressor(
        epsilon=epsilon, alpha=0.0, fit_intercept=intercept, max_iter=10_000, tol=1e-9
    ).fit(problem.features / size, _targets(problem), sample_weight=problem.weight)
    expected = theirs.predict(problem.features / size)
    np.testing.assert_allclose(found(problem.features), expected, atol=1e-4)


def test_huber_of_an_exact_fit_is_least_squares():
    """Huber's scale would be 0."""
    rng = np.random.default_rng(0)
    features, codes = rng.normal(size=(20, 50)), np.arange(20) % 4
    problem = heads.HeadProblem(
        features, codes, np.arange(1.0, 5.0), None, False, False, None, None
    )
    found = huber.fit_huber_maps(problem, problem.all_rows(), (1.35,))[0]
    np.testing.assert_allclose(found(features), problem.targets[codes], atol=1e-8)


def test_huber_gives_little_weight_to_an_outlying_domain():
    data = small_domains(n_domains=12, n_rows=100)
    temperatures_ = np.where(np.arange(12) == 3, 50.0, 2.0)
    codes = np.unique(data.domains, return_inverse=True)[1]
    problem = heads.HeadProblem(data.features, codes, temperatures_, None, False, True, None, None)
    robust = huber.fit_huber_maps(problem, problem.all_rows(), (1.35,))[0](data.features)
    plain = linear.solve_linear(problem, 0.0)(data.features)
    others = codes != 3
    assert np.abs(robust[others] - 2.0).mean() < 0.3 * np.abs(plain[others] - 2.0).mean()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("alpha", [1e-2, 10.0])
def test_krr_equals_scikit_learn(weighted, alpha):
    problem = _problem(weighted=weighted)
    gamma = 1e-3
    reference, duals, offset = kernel.solve_kernel_ridge(
        problem, problem.all_rows(), gamma, [alpha, 99.0], None
    )
    assert offset == 0.0
    found = kernel.KernelMap(reference, duals[:, 0], gamma)
    theirs = KernelRidge(alpha=alpha, kernel="rbf", gamma=gamma).fit(
        problem.features, _targets(problem), sample_weight=problem.weight
    )
    new = problem.features[::3] + 0.5
    np.testing.assert_allclose(found(new), theirs.predict(new), rtol=1e-7, atol=1e-9)


def test_krr_with_an_intercept_centres_the_targets():
    problem = _problem(weighted=True, intercept=True)
    reference, duals, offset = kernel.solve_kernel_ridge(
        problem, problem.all_rows(), 1e-3, [1.0], None
    )
    assert offset == pytest.approx(np.average(_targets(problem), weights=problem.weight))
    found = kernel.KernelMap(reference, duals[:, 0], 1e-3, offset)
    far = problem.features + 1e5
    np.testing.assert_allclose(found(far), offset)


@pytest.mark.parametrize("n_components", [30, 1000])
def test_nystroem_equals_a_pipeline_of_scikit_learn(n_components):
    problem = _problem()
    gamma, alpha = 1e-3, 0.1
    reference, duals, _ = kernel.solve_kernel_ridge(
        problem, problem.all_rows(), gamma, [alpha], n_components
    )
    found = kernel.KernelMap(reference, duals[:, 0], gamma)
    theirs = make_pipeline(
        Nystroem(kernel="rbf", gamma=gamma, n_components=min(n_components, 300), random_state=0),
        Ridge(alpha=alpha, fit_intercept=False),
    ).fit(problem.features, _targets(problem))
    new = problem.features[::3] + 0.5
    np.testing.assert_allclose(found(new), theirs.predict(new), rtol=1e-6, atol=1e-8)


def test_many_reference_rows_are_used_in_single_precision(monkeypatch):
    monkeypatch.setattr(kernel, "SINGLE_PRECISION_ABOVE", 0)
    single = dc.CalibrationData(
        DATA.logits, labels=DATA.labels, features=DATA.features.astype("f4"), domains=DATA.domains
    )
    found = fit(MD_TS("krr"), single)
    assert found.head_.rows.dtype == np.float32
    t = temperatures(fit(MD_TS("krr"), DATA), DATA)
    np.testing.assert_allclose(temperatures(found, single), t, rtol=2e-3)


@pytest.mark.parametrize("head", ["krr", "knn", "huber"])
@pytest.mark.parametrize("target", ["temperature", "log"])
def test_md_ts_is_the_two_steps_of_the_paper(head, target):
    """A temperature for each domain, then scikit-learn's estimator with the chosen parameters."""
    fitted = fit(MD_TS(head, target=target), DATA)
    t_k = fitted.domain_temperatures_.loc[DATA.domains].to_numpy()
    estimator = {
        "krr": lambda: KernelRidge(kernel="rbf", **fitted.head_parameters_),
        "knn": lambda: KNeighborsRegressor(**fitted.head_parameters_),
        "huber": lambda: HuberRegressor(
            alpha=0.0, fit_intercept=False, max_iter=5000, **fitted.head_parameters_
        ),
    }[head]()
    forward, back = (np.log, np.exp) if target == "log" else (np.asarray, np.asarray)
    expected = back(estimator.fit(DATA.features, forward(t_k)).predict(DATA.features))
    expected = np.clip(expected, *fitted.clip_)
    np.testing.assert_allclose(
        temperatures(fitted, DATA), expected, rtol=1e-3 if head == "huber" else 1e-6
    )
    assert fitted.head_rows_ == len(DATA)


GRIDS = {
    "huber": (
        [{"epsilon": e} for e in huber.EPSILON_GRID],
        lambda n, **p: HuberRegressor(alpha=0.0, fit_intercept=False, max_iter=5000, **p),
    ),
    "krr": (
        [{"alpha": a, "gamma": g} for g in kernel.GAMMA_GRID for a in kernel.ALPHA_GRID],
        lambda n, alpha, gamma: KernelRidge(alpha=alpha * n, gamma=gamma, kernel="rbf"),
    ),
    "knn": (
        [{"n_neighbors": k} for k in neighbours.NEIGHBOUR_GRID],
        lambda n, **p: KNeighborsRegressor(**p),
    ),
}


@pytest.mark.parametrize("head", GRIDS)
def test_the_search_equals_a_search_by_hand(head):
    """Folds are clusters of similar domains; the mean NLL of the held-out domains decides."""
    fitted = fit(MD_TS(head), DATA)
    table = fitted.head_search_
    grid, make = GRIDS[head]
    unit = 2.0 * DATA.features.var(axis=0).sum()  # mean squared distance of two rows
    t_k = fitted.domain_temperatures_
    folds = search_folds(DATA)
    assert len(folds) == 5
    expected = []
    for parameters in grid:
        given_ = {k: v / unit if k == "gamma" else v for k, v in parameters.items()}
        nll = {}
        for names in folds:
            out = np.isin(DATA.domains, names)
            t = t_k.loc[DATA.domains[~out]].to_numpy()
            estimator = make(len(t), **given_).fit(DATA.features[~out], t)
            value = np.clip(estimator.predict(DATA.features[out]), t.min() / 4, t.max() * 4)
            z = DATA.logits[out] / value[:, None]
            log_p = z - np.logaddexp.reduce(z, axis=1, keepdims=True)
            loss = -log_p[np.arange(out.sum()), DATA.labels[out]]
            nll.update({n: loss[DATA.domains[out] == n].mean() for n in names})
        expected.append(np.mean(list(nll.values())))
    pooled = []
    for names in folds:
        out = np.isin(DATA.domains, names)
        ts = dc.TemperatureScaling().fit(DATA.logits[~out], DATA.labels[~out])
        for name in names:
            rows = DATA.domains == name
            p = ts.predict_proba(DATA.logits[rows])
            pooled.append(dc.negative_log_likelihood(p, DATA.labels[rows]))
    np.testing.assert_allclose(table["nll_pooled"], np.mean(pooled), rtol=1e-7)
    np.testing.assert_allclose(table["nll"], expected, rtol=1e-3 if head == "huber" else 1e-7)
    assert table.columns.tolist()[-4:] == ["n_domains", "n_rows", "nll", "nll_pooled"]
    best = table.iloc[int(np.argmin(expected))]
    assert fitted.head_parameters_ == {k: best[k] for k in fitted.head_parameters_}
    if head == "krr":
        alphas = [p["alpha"] * len(DATA) for p in grid]
        np.testing.assert_allclose(table["alpha"], alphas)
        np.testing.assert_allclose(table["gamma"], [p["gamma"] / unit for p in grid])


@pytest.mark.parametrize("head", ["krr", "knn"])
def test_a_subsample_has_max_rows_rows_and_equally_many_of_each_domain(head):
    sizes = np.array([60, 30, 60, 60, 25, 60, 60])
    rows = [np.flatnonzero(DATA.domains == name) for name in DATA.domain_names]
    keep = np.concatenate([r[:size] for r, size in zip(rows, sizes, strict=True)])
    data = DATA.select(keep)
    with pytest.warns(
        dc.errors.SubsampleWarning, match=r"140 of 355 rows, at most 20 of each .* max_rows=145"
    ):
        fitted = fit(MD_TS(head, max_rows=145), data)
    assert fitted.head_rows_ == 140
    rows = fitted.head_.rows
    places = [int(np.flatnonzero((data.features == row).all(axis=1))[0]) for row in rows]
    _, counts = np.unique(data.domains[places], return_counts=True)
    assert counts.tolist() == [20] * 7
    with pytest.warns(dc.errors.SubsampleWarning):
        other = fit(MD_TS(head, max_rows=145, random_state=1), data)
    assert not np.array_equal(other.head_.rows, rows)
    with pytest.raises(dc.errors.InputError, match="max_rows=6 is less than the 7 domains"):
        fit(MD_TS(head, max_rows=6), data)
    # Of a domain with fewer rows, all are used.
    with pytest.warns(dc.errors.SubsampleWarning):
        fitted = fit(MD_TS(head, max_rows=245), data)
    assert fitted.head_rows_ == 5 * 35 + 30 + 25


def test_linear_heads_use_all_rows():
    for head in ("ols", "ridge", "huber"):
        assert fit(MD_TS(head, max_rows=10), DATA).head_rows_ == len(DATA)


def test_any_regressor_is_a_head():
    forest = RandomForestRegressor(10, random_state=0)
    fitted = fit(MD_TS(forest), DATA)
    t_k = fitted.domain_temperatures_.loc[DATA.domains].to_numpy()
    expected = RandomForestRegressor(10, random_state=0).fit(DATA.features, t_k)
    np.testing.assert_allclose(temperatures(fitted, DATA), expected.predict(DATA.features))
    assert not hasattr(forest, "estimators_")
    assert len(fitted.head_search_) == 0
    linear, named = (fit(MD_TS(h), DATA) for h in (LinearRegression(fit_intercept=False), "ols"))
    np.testing.assert_allclose(temperatures(linear, DATA), temperatures(named, DATA), rtol=1e-7)


def test_a_regressor_uses_sample_weights_or_is_refused():
    weight = np.linspace(0.1, 3.0, len(DATA))
    by_hand = fit(MD_TS(LinearRegression()), DATA, sample_weight=weight)
    ours = fit(MD_TS(fit_intercept=True), DATA, sample_weight=weight)
    np.testing.assert_allclose(temperatures(by_hand, DATA), temperatures(ours, DATA), rtol=1e-6)
    with pytest.raises(dc.errors.InputError, match="KNeighborsRegressor takes no sample_weight"):
        fit(MD_TS(KNeighborsRegressor()), DATA, sample_weight=weight)
    with pytest.raises(dc.errors.InputError, match="domain_weight='equal'"):
        fit(MD_TS(KNeighborsRegressor(), domain_weight="equal"), DATA)


@pytest.mark.parametrize("head", ["huber", "krr"])
def test_equal_domain_weight_is_a_weighted_regression(head):
    keep = np.concatenate([np.flatnonzero(DATA.domains == n)[: 15 + 6 * k]
                           for k, n in enumerate(DATA.domain_names)])  # fmt: skip
    data = DATA.select(keep)
    fitted = fit(MD_TS(head, domain_weight="equal"), data)
    _, codes, counts = np.unique(data.domains, return_inverse=True, return_counts=True)
    weight = counts.mean() / counts[codes]
    t_k = fitted.domain_temperatures_.loc[data.domains].to_numpy()
    estimator = (
        KernelRidge(kernel="rbf", **fitted.head_parameters_)
        if head == "krr"
        else HuberRegressor(alpha=0.0, fit_intercept=False, **fitted.head_parameters_)
    )
    expected = estimator.fit(data.features, t_k, sample_weight=weight).predict(data.features)
    expected = np.clip(expected, *fitted.clip_)
    np.testing.assert_allclose(
        temperatures(fitted, data), expected, rtol=1e-3 if head == "huber" else 1e-6
    )


@pytest.mark.parametrize("head", ["ols", "ridge", "huber", "krr", "knn"])
def test_features_of_logits_are_sorted_and_centred(head):
    """The result is the same as with these features, and features that are passed are ignored."""
    centred = DATA.logits - DATA.logits.mean(axis=1, keepdims=True)
    features = -np.sort(-centred, axis=1)
    own = fit(MD_TS(head, features="logits"), DATA)
    passed = MD_TS(head).fit(DATA.logits, DATA.labels, features=features, domains=DATA.domains)
    expected = passed.predict_temperature(DATA.logits, features=features)
    np.testing.assert_allclose(temperatures(own, DATA), expected, rtol=1e-6)
    np.testing.assert_array_equal(own.predict_temperature(DATA.logits), temperatures(own, DATA))
    own.fit(DATA.logits, DATA.labels, domains=DATA.domains)
    with pytest.raises(dc.errors.InputError, match="logits contains NaN"):
        own.predict_proba(np.where(np.arange(5) == 2, np.nan, DATA.logits))


@pytest.mark.parametrize("head", ["ols", "huber", "krr", "knn", LinearRegression()])
def test_features_that_are_not_finite_are_refused(head):
    fitted = fit(MD_TS(head), DATA)
    for bad in (np.nan, np.inf):
        x = DATA.features.copy()
        x[5, 1] = bad
        with pytest.raises(dc.errors.InputError, match=r"features contains .* \(row 5, column 1\)"):
            fitted.predict_proba(DATA.logits, features=x)
        with pytest.raises(dc.errors.InputError, match=r"features contains .* \(row 5, column 1\)"):
            MD_TS(head).fit(DATA.logits, DATA.labels, features=x, domains=DATA.domains)


def test_only_linear_heads_have_coefficients():
    assert fit(MD_TS("huber"), DATA).coef_.shape == (4,)
    for head in ("krr", "knn"):
        fitted = fit(MD_TS(head), DATA)
        assert not hasattr(fitted, "coef_")
        with pytest.raises(AttributeError, match=f"head='{head}' is not linear"):
            _ = fitted.intercept_


@pytest.mark.parametrize("n", [1, 40])
def test_positive_definite_systems_are_solved_in_place(n):
    rng = np.random.default_rng(n)
    x = rng.normal(size=(n, n))
    matrix, right = x @ x.T + np.eye(n), rng.normal(size=n)
    expected = scipy.linalg.solve(matrix, right, assume_a="pos")
    lower = np.linalg.cholesky(matrix)
    found = solve_positive_definite(matrix, right)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    np.testing.assert_allclose(np.triu(matrix), lower.T, rtol=1e-9, atol=1e-12)


def test_constant_features_give_one_temperature():
    same = np.ones((len(DATA), 3))
    for head in ("krr", "knn", "huber", "ridge"):
        fitted = MD_TS(head).fit(DATA.logits, DATA.labels, features=same, domains=DATA.domains)
        t = fitted.predict_temperature(DATA.logits, features=same)
        assert np.ptp(t) < 1e-9
        assert fitted.clip_[0] < t[0] < fitted.clip_[1]


def test_a_single_domain_takes_the_default_candidate():
    one = DATA.select(DATA.domains == DATA.domains[0])
    for head in ("ridge", "huber", "krr", "knn"):
        fitted = fit(MD_TS(head, fit_intercept=True), one)
        assert np.isnan(fitted.head_search_["nll"]).all()
        assert fitted.head_parameters_


@pytest.mark.parametrize("head", ["ols", "huber", "krr"])
def test_the_scale_of_the_weights_does_not_matter(head):
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(DATA))
    found = [
        temperatures(fit(MD_TS(head), DATA, sample_weight=weight * scale), DATA)
        for scale in (1.0, 1e7, 1e-7)
    ]
    np.testing.assert_allclose(found[1], found[0], rtol=1e-4)
    np.testing.assert_allclose(found[2], found[0], rtol=1e-4)


@pytest.mark.filterwarnings("ignore::domaincal.errors.ClippedTemperatureWarning")
def test_huber_fits_features_that_are_constant_or_vary_in_one_domain():
    for features in (np.ones((len(DATA), 3)), (DATA.domains == DATA.domains[0])[:, None] * 1.0):
        for intercept in (False, True):
            calibrator = MD_TS("huber", fit_intercept=intercept)
            calibrator.fit(DATA.logits, DATA.labels, features=features, domains=DATA.domains)
            t = calibrator.predict_temperature(DATA.logits, features=features)
            assert np.isfinite(t).all()


@pytest.mark.filterwarnings("ignore::domaincal.errors.BoundaryWarning")
@pytest.mark.filterwarnings("ignore::domaincal.errors.SmallDomainWarning")
def test_rows_that_are_correct_with_probability_one_are_fitted():
    fit(MD_TS(), dc.CalibrationData(np.eye(5)[DATA.labels] * 1000.0, labels=DATA.labels,
                                    features=DATA.features, domains=DATA.domains))  # fmt: skip


@pytest.mark.parametrize("state", [2**40, np.random.default_rng(0), [1, 2]])
def test_nystroem_accepts_every_seed_of_numpy(state):
    fitted = fit(MD_TS("krr", nystroem=20, random_state=state), DATA)
    assert fitted.head_.rows.shape == (20, 4)


def test_the_seed_chooses_the_landmarks():
    rows = [fit(MD_TS("krr", nystroem=20, random_state=k), DATA).head_.rows for k in (0, 0, 1)]
    np.testing.assert_array_equal(rows[0], rows[1])
    assert not np.array_equal(rows[0], rows[2])


def test_nystroem_uses_weights():
    problem = _problem(weighted=True)
    reference, duals, _ = kernel.solve_kernel_ridge(problem, problem.all_rows(), 1e-3, [0.1], 30)
    found = kernel.KernelMap(reference, duals[:, 0], 1e-3)
    landmarks = Nystroem(kernel="rbf", gamma=1e-3, n_components=30, random_state=0)
    basis = landmarks.fit_transform(problem.features)
    theirs = Ridge(alpha=0.1, fit_intercept=False)
    theirs.fit(basis, _targets(problem), sample_weight=problem.weight)
    np.testing.assert_allclose(found(problem.features), theirs.predict(basis), rtol=1e-6)


def test_the_criterion_is_the_mean_over_domains_not_over_rows():
    """Domains of very unequal size in one fold."""
    keep = np.concatenate([np.flatnonzero(DATA.domains == n)[: 20 if k == 2 else 60]
                           for k, n in enumerate(DATA.domain_names)])  # fmt: skip
    data = DATA.select(keep)
    table = fit(MD_TS("knn"), data).head_search_
    t_k = fit(MD_TS("knn"), data).domain_temperatures_
    folds = search_folds(data)
    assert any(len({(data.domains == name).sum() for name in names}) == 2 for names in folds)
    losses = {}
    for names in folds:
        out = np.isin(data.domains, names)
        t = t_k.loc[data.domains[~out]].to_numpy()
        value = KNeighborsRegressor(1).fit(data.features[~out], t).predict(data.features[out])
        z = data.logits[out] / value[:, None]
        loss = -(z - np.logaddexp.reduce(z, axis=1, keepdims=True))
        loss = loss[np.arange(out.sum()), data.labels[out]]
        losses.update({n: loss[data.domains[out] == n].mean() for n in names})
    assert table.loc[0, "nll"] == pytest.approx(np.mean(list(losses.values())), rel=1e-7)


def test_a_head_worse_than_one_temperature_gives_a_warning():
    """A hundred features of noise: the head overfits."""
    noise = np.random.default_rng(0).normal(size=(len(DATA), 100))
    calibrator = MD_TS("huber", fit_intercept=True)
    with pytest.warns(
        dc.errors.PoorHeadWarning,
        match="domains left out of the fit, the predicted temperatures",
    ) as caught:
        calibrator.fit(DATA.logits, DATA.labels, features=noise, domains=DATA.domains)
    assert caught[0].filename == __file__
    table = calibrator.head_search_
    assert table["nll"].min() > 1.01 * table["nll_pooled"].min()


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        ({}, r"try fit_intercept=True \(.*\), target='log' or another head"),
        ({"target": "log"}, r"try fit_intercept=True \([^,]*\) or another head"),
        ({"head": "huber", "fit_intercept": True}, "try target='log' or another head"),
        ({"head": "huber", "fit_intercept": True, "target": "log"}, "try another head"),
    ],
)
def test_the_warning_of_a_poor_head_suggests_options_that_are_off(options, advice):
    noise = np.random.default_rng(0).normal(size=(len(DATA), 100))
    with pytest.warns(dc.errors.PoorHeadWarning, match=advice):
        fit(
            MD_TS(**options),
            dc.CalibrationData(
                DATA.logits, labels=DATA.labels, features=noise, domains=DATA.domains
            ),
        )


def test_the_warning_of_a_subsample_points_to_the_call_of_fit():
    with pytest.warns(dc.errors.SubsampleWarning) as caught:
        MD_TS("knn", max_rows=70).fit(
            DATA.logits, DATA.labels, features=DATA.features, domains=DATA.domains
        )
    assert caught[0].filename == __file__


def test_features_too_large_for_float32_are_refused():
    single = DATA.features.astype(np.float32)
    for head in ("krr", "knn"):
        fitted = MD_TS(head).fit(DATA.logits, DATA.labels, features=single, domains=DATA.domains)
        if head == "knn":
            with pytest.raises(dc.errors.InputError, match="features are too large"):
                fitted.predict_proba(DATA.logits, features=DATA.features * 1e300)


def test_a_head_with_infinite_predictions_is_refused():
    class Broken(LinearRegression):
        def predict(self, x):
            return np.full(len(x), np.nan)

    with pytest.raises(dc.errors.InputError, match="not finite; choose another head"):
        fit(MD_TS(Broken()), DATA)


def test_parameters_set_after_the_fit_do_not_change_predictions():
    fitted = fit(MD_TS(target="log"), DATA)
    before = temperatures(fitted, DATA)
    fitted.set_params(target="inverse", features="logits")
    np.testing.assert_array_equal(temperatures(fitted, DATA), before)

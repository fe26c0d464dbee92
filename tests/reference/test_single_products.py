"""Normal equations from float32 products: solutions and predictions are those of float64."""

import numpy as np
import pytest
from scipy.linalg import blas
from sklearn.linear_model import LinearRegression, Ridge

import domaincal as dc
from domaincal._row_arrays import ComputedRows
from domaincal.calibrators.heads import HeadProblem, linear
from domaincal.errors import InputError
from domaincal.kernels import dispatch
from domaincal.statistics import (
    LeastSquares,
    LinearMap,
    NormalEquations,
    feature_products,
    least_squares,
    normal_equations,
    single_products,
)
from domaincal.statistics.normal_equations import single_pays, sum_normal_equations
from domaincal.statistics.residual_sums import sum_residuals

pytestmark = pytest.mark.filterwarnings("ignore::domaincal.errors.PoorHeadWarning")

N_DOMAINS = 9


@pytest.fixture
def any_size(monkeypatch):
    """Float32 products, of few rows, for inputs of any size."""
    monkeypatch.setattr(linear, "_SMALLEST_STEP", np.inf)  # no look at few rows first
    monkeypatch.setattr(normal_equations, "COMPILED_FROM", 0)
    monkeypatch.setattr(dispatch, "COMPILED_FROM", 0)
    monkeypatch.setattr(single_products, "PRODUCT_ROWS", 500)


@pytest.fixture
def precisions(monkeypatch):
    """Whether each sum of normal equations had float32 products, in the order of the calls."""
    seen = []

    def spy(*arguments, **options):
        equations = sum_normal_equations(*arguments, **options)
        seen.append("single" if equations[0].single else "double")
        return equations

    monkeypatch.setattr(linear, "sum_normal_equations", spy)
    return seen


def make_problem(
    condition, *, dtype=np.float32, seed=0, n=8000, p=20, offset=0.0, intercept=False,
    weight=None, equal=False,
):  # fmt: skip
    rng = np.random.default_rng(seed)
    u, _ = np.linalg.qr(rng.normal(size=(n, p)))
    v, _ = np.linalg.qr(rng.normal(size=(p, p)))
    features = (u * np.geomspace(1.0, 1.0 / condition, p) @ v.T * 300.0 + offset).astype(dtype)
    codes = rng.integers(0, N_DOMAINS, n)
    targets = rng.uniform(0.5, 4.0, N_DOMAINS)
    weights = rng.uniform(0.1, 3.0, n) if weight else None
    return HeadProblem(features, codes, targets, weights, equal, intercept, None, None)


def solve_double(problem, alpha=0.0):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linear, "single_pays", lambda features: False)
        return linear.solve_linear(problem, alpha)


def assert_same_predictions(found, expected, problem, tolerance=1e-10):
    x = problem.features
    value = expected(x)
    np.testing.assert_allclose(found(x), value, rtol=0, atol=tolerance * np.abs(value).max())


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("condition", [1.0, 1e2, 1e3])
@pytest.mark.parametrize("alpha", [0.0, 3.0])
@pytest.mark.parametrize(
    "options",
    [
        {}, {"intercept": True, "offset": 4.0}, {"weight": True}, {"equal": True},
        {"offset": 4.0, "intercept": True, "weight": True, "equal": True, "seed": 1},
    ],
    ids=["plain", "intercept", "weight", "equal", "all"],
)  # fmt: skip
def test_predictions_equal_those_of_float64_and_scikit_learn(
    dtype, condition, alpha, options, any_size, precisions
):
    problem = make_problem(condition, dtype=dtype, **options)
    found = linear.solve_linear(problem, alpha)
    assert precisions == ["double" if dtype == np.float64 else "single"]
    assert_same_predictions(found, solve_double(problem, alpha), problem)
    intercept = problem.fit_intercept
    head = Ridge(alpha=alpha, fit_intercept=intercept, solver="svd") if alpha else (
        LinearRegression(fit_intercept=intercept, tol=0.0)
    )  # fmt: skip
    x = problem.features.astype(np.float64)
    head.fit(x, problem.targets[problem.codes], sample_weight=problem.row_weights())
    np.testing.assert_allclose(found(x), head.predict(x), rtol=0, atol=1e-6)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("shape", [(3000, 60), (20_000, 8)])
def test_predictions_are_equal_at_the_largest_condition(seed, shape, any_size):
    n, p = shape
    problem = make_problem(1e3, seed=seed, n=n, p=p)
    assert_same_predictions(linear.solve_linear(problem, 0.0), solve_double(problem), problem)


def test_a_large_mean_costs_no_digits(any_size, precisions):
    """Products are of features minus a point near their mean, with and without an intercept."""
    for intercept in (False, True):
        problem = make_problem(10.0, offset=100.0, intercept=intercept)
        found = linear.solve_linear(problem, 0.0)
        assert_same_predictions(found, solve_double(problem), problem)
    assert precisions == ["single", "double"] * 2


@pytest.mark.parametrize("condition", [1e5, 1e8])
def test_ill_conditioned_features_are_summed_in_float64(condition, any_size, precisions):
    problem = make_problem(condition, n=2000)
    found = linear.solve_linear(problem, 0.0)
    assert precisions == ["single", "double"]
    np.testing.assert_array_equal(found.coef, solve_double(problem).coef)


def test_a_large_condition_number_alone_is_enough_for_float64(any_size, precisions):
    """Here the float32 products are exact: their refinement would converge."""
    problem = make_problem(1.0)
    problem.features[:] = np.random.default_rng(0).integers(-4, 5, (8000, 20))
    problem.features[:, 3] *= 2.0**-13
    found = linear.solve_linear(problem, 0.0)
    assert precisions == ["single", "double"]
    np.testing.assert_array_equal(found.coef, solve_double(problem).coef)


@pytest.mark.parametrize(
    ("condition", "alpha", "seen"),
    [(1e3, 0.0, ["single"]), (1e5, 0.0, ["double"]), (1e5, 10.0, ["single"])],
)
@pytest.mark.parametrize("intercept", [False, True])
def test_few_rows_spare_sums_that_would_be_repeated(
    condition, alpha, seen, intercept, any_size, precisions, monkeypatch
):
    monkeypatch.setattr(linear, "_SMALLEST_STEP", 8)
    problem = make_problem(condition, intercept=intercept, n=2000)
    found = linear.solve_linear(problem, alpha)
    assert precisions == seen
    assert_same_predictions(found, solve_double(problem, alpha), problem)


def test_values_that_are_not_finite_are_reported_by_all_rows(any_size, monkeypatch):
    monkeypatch.setattr(linear, "_SMALLEST_STEP", 8)
    problem = make_problem(10.0)
    problem.features[0, 3] = np.nan  # a row of the sample
    with pytest.raises(InputError, match=r"features contains NaN \(row 0, column 3\)"):
        linear.solve_linear(problem, 0.0)


@pytest.mark.parametrize("rank", [19, 10])
def test_dependent_features_are_summed_in_float64(rank, any_size, precisions):
    problem = make_problem(1.0)
    rng = np.random.default_rng(2)
    problem.features[:] = rng.normal(size=(8000, rank)) @ rng.normal(size=(rank, 20))
    found = linear.solve_linear(problem, 0.0)
    assert precisions == ["single", "double"]
    np.testing.assert_array_equal(found.coef, solve_double(problem).coef)


@pytest.mark.parametrize(
    ("error", "seen"),
    [(1e-3, ["single"]), (0.12, ["single", "double"]), (3.0, ["single", "double"])],
)
def test_wrong_products_are_corrected_or_detected(error, seen, any_size, precisions, monkeypatch):
    ssyrk = blas.ssyrk
    monkeypatch.setattr(blas, "ssyrk", lambda *a: ssyrk(*a) * np.float32(1 + error))
    problem = make_problem(10.0)
    found = linear.solve_linear(problem, 0.0)
    assert precisions == seen
    assert_same_predictions(found, solve_double(problem), problem)


@pytest.mark.parametrize("alpha", [0.0, 0.1])
@pytest.mark.parametrize("scale", [1e-30, 1e-22, 1e-15, 1e15, 1e20, 1e30])
def test_squares_that_float32_cannot_hold_are_summed_in_float64(scale, alpha, any_size, precisions):
    problem = make_problem(10.0)
    problem.features[:] *= np.float32(scale)
    found = linear.solve_linear(problem, alpha * scale**2)
    assert precisions == ["single" if scale == 1e15 else "double"]
    assert_same_predictions(found, solve_double(problem, alpha * scale**2), problem)


def test_one_small_feature_is_used(any_size):
    """Its squares underflow, but its singular value counts."""
    problem = make_problem(1.0)
    problem.features[:] *= np.float32(1e-18)
    problem.features[:, 3] *= np.float32(1e-5)
    expected = solve_double(problem)
    assert expected.coef[3] != 0
    assert_same_predictions(linear.solve_linear(problem, 0.0), expected, problem)


def test_features_that_are_not_finite_are_an_error(any_size):
    for bad in (np.nan, np.inf):
        problem = make_problem(1.0)
        problem.features[700, 2] = bad
        with pytest.raises(InputError, match="features contains"):
            linear.solve_linear(problem, 0.0)


@pytest.mark.parametrize("single", [False, True])
def test_features_that_are_always_zero_have_the_coefficient_zero(single, any_size, monkeypatch):
    """As with the minimum norm, but without eigenvectors."""
    problem = make_problem(10.0)
    problem.features[:, [4, 9]] = 0.0
    monkeypatch.setattr(linear, "single_pays", lambda features: single)
    monkeypatch.setattr(least_squares.scipy.linalg, "eigh", None)
    found = linear.solve_linear(problem, 0.0)
    x = problem.features.astype(np.float64)
    theirs, *_ = np.linalg.lstsq(x, problem.targets[problem.codes], rcond=1e-6)
    np.testing.assert_allclose(found.coef, theirs, atol=1e-12)
    assert (found.coef[[4, 9]] == 0).all()


def test_targets_that_are_zero_have_the_solution_zero(any_size, precisions):
    problem = make_problem(10.0)
    problem.targets[:] = 0.0
    assert not linear.solve_linear(problem, 0.0).coef.any()
    assert precisions == ["single"]


@pytest.fixture(scope="module")
def data():
    rows, _ = dc.make_multi_domain(n_domains=7, n_rows=600, random_state=3)
    rows = rows.select(np.random.default_rng(3).permutation(len(rows)))
    return dc.CalibrationData(
        rows.logits, labels=rows.labels, features=rows.features.astype(np.float32),
        domains=rows.domains,
    )  # fmt: skip


HEADS = {
    "ols": {},
    "equal": {"fit_intercept": True, "domain_weight": "equal", "target": "log"},
    "ridge": {"head": "ridge", "alpha": 3.0},
    "search": {"head": "ridge"},
}


@pytest.mark.parametrize("head", HEADS)
def test_md_ts_is_that_of_float64(head, data, any_size, precisions, monkeypatch):
    fits = []
    head_fit = linear.HeadFit
    monkeypatch.setattr(linear, "HeadFit", lambda *a: fits.append(head_fit(*a)) or fits[-1])

    def fit():
        calibrator = dc.MultiDomainTemperatureScaling(**HEADS[head]).fit(data)
        return calibrator, calibrator.predict_temperature(data)

    found, temperatures = fit()
    # The table of a search chooses alpha: its sums are float64.
    assert precisions == ["double" if head == "search" else "single"]
    monkeypatch.setattr(linear, "single_pays", lambda features: False)
    expected, double = fit()
    np.testing.assert_allclose(temperatures, double, rtol=1e-10)
    assert found.head_parameters_ == expected.head_parameters_
    np.testing.assert_allclose(
        found.head_search_.to_numpy(float), expected.head_search_.to_numpy(float), rtol=1e-12
    )
    np.testing.assert_allclose(*(fit.held_out.to_numpy(float) for fit in fits), rtol=1e-6)


def test_a_fold_that_spans_fewer_directions_needs_no_eigenvectors(data, any_size, monkeypatch):
    """Rounding errors of its Gram matrix stay below the penalty of judged heads."""
    x = data.features.astype(np.float64)
    direction = np.full(x.shape[1], x.shape[1] ** -0.5)
    others = data.domains != data.domains[0]
    x[others] -= np.outer(x[others] @ direction, direction)
    changed = dc.CalibrationData(
        data.logits, labels=data.labels, features=x.astype(np.float32), domains=data.domains
    )
    monkeypatch.setattr(least_squares.scipy.linalg, "eigh", None)
    dc.MultiDomainTemperatureScaling().fit(changed)


@pytest.mark.parametrize("head", ["ols", "equal", "ridge"])
def test_a_store_in_blocks_gives_the_predictions_of_memory(
    head, data, any_size, precisions, monkeypatch, tmp_path
):
    dc.write(data, tmp_path / "scores")
    method = dc.MultiDomainTemperatureScaling(**HEADS[head])
    in_memory = method.fit(data).predict_temperature(data)
    monkeypatch.setattr(feature_products, "BLAS_BLOCK_BYTES", 1 << 14)
    found = dc.MultiDomainTemperatureScaling(**HEADS[head]).fit(dc.Store(tmp_path / "scores"))
    assert precisions == ["single", "single"]
    np.testing.assert_allclose(found.predict_temperature(data), in_memory, rtol=1e-10)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_sums_of_integers_are_exact(dtype, weighted):
    """Float32 holds sums of products of small integers: about any point, in any blocks."""
    rng = np.random.default_rng(0)
    x = rng.integers(-8, 9, (5000, 6)).astype(dtype)
    domain = rng.integers(0, 4, 5000)
    weight = np.square(rng.integers(0, 3, 5000)).astype(float) if weighted else None
    shift = np.arange(6.0)
    expected = NormalEquations.from_rows(x, domain, 4, weight, shift=shift)
    for near in (shift, np.array([1.0, 0, -2, 0, 3, 1])):
        sums = single_products.SingleProducts(4, near)
        for part in np.array_split(np.arange(5000), [10, 2100, 2100, 4900]):
            sums.add(x[part], domain[part], None if weight is None else weight[part])
        for found, name in zip(sums.about(shift), ("gram", "moments", "weight"), strict=True):
            np.testing.assert_array_equal(found, getattr(expected, name))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_compiled_residuals_are_those_of_numpy(dtype, weighted, any_size, monkeypatch):
    problem = make_problem(10.0, dtype=dtype, offset=50.0, weight=weighted)
    problem.targets[2] = np.nan
    rng = np.random.default_rng(0)
    solution, centre = LinearMap(rng.normal(size=20), 0.7), rng.normal(size=20) + 50.0

    def residual():
        return sum_residuals(
            problem.features, problem.codes, solution, problem.targets, centre=centre,
            weight=problem.weight,
        )  # fmt: skip

    monkeypatch.setattr(feature_products, "BLAS_BLOCK_BYTES", 8 * 20 * 999)
    found = residual()
    monkeypatch.setattr(normal_equations, "COMPILED_FROM", np.inf)
    np.testing.assert_allclose(found, residual(), rtol=1e-10)


def test_the_condition_is_that_of_the_features():
    problem = make_problem(1e2, n=2000)
    sums = NormalEquations.from_rows(problem.features, problem.codes, 9, shift=np.zeros(20))
    solver = LeastSquares(sums)
    assert 1e2 / 1.3 < solver.condition() < 1e2 * 1.0001
    assert 1.0 <= solver.condition(alpha=1e9) < 1.1
    problem.features[:, 0] = problem.features[:, 1]
    sums = NormalEquations.from_rows(problem.features, problem.codes, 9, shift=np.zeros(20))
    assert LeastSquares(sums).condition() == np.inf


def test_products_are_single_for_many_rows_of_short_floats():
    def rows(n, p, dtype):
        return ComputedRows((n, p), dtype, lambda start, stop: np.zeros((stop - start, p), dtype))

    assert single_pays(rows(10**6, 512, np.float16))
    assert single_pays(rows(10**6, 512, np.float32))
    assert not single_pays(rows(10**6, 512, np.float64))
    assert not single_pays(rows(10**6, 512, np.int8))
    assert not single_pays(rows(10**4, 512, np.float16))

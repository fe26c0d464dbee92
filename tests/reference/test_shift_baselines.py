"""TransCal, CPCS, DAC and VectorScaling against brute force, scikit-learn and known truth."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize
from scipy.spatial.distance import cdist
from scipy.special import log_softmax, softmax
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import NearestNeighbors

import domaincal as dc
from domaincal.calibrators.baselines import vector_scaling
from domaincal.calibrators.baselines.density_aware import NeighbourDistance, fit_line, normalised
from domaincal.calibrators.baselines.density_ratio import DensityRatio
from domaincal.calibrators.baselines.transcal import LAMBDAS, weighted_accuracy
from domaincal.calibrators.baselines.vector_scaling import PenalisedLoss
from domaincal.calibrators.inputs import TrainingRows
from domaincal.calibrators.temperature import fit_pooled_temperature
from support import fit, small_domains

SHIFT = 1.5


def _covariate_shift(rng, n, mean):
    """Rows whose true temperature depends on the first feature, which is normal with this mean."""
    x = rng.normal(size=(n, 3))
    x[:, 0] += mean
    logits = rng.normal(0.0, 3.0, size=(n, 5))
    temperature = np.exp(0.6 * x[:, 0])
    labels = np.argmax(logits / temperature[:, None] + rng.gumbel(size=logits.shape), axis=1)
    return dc.CalibrationData(logits, labels=labels, features=x)


@pytest.mark.parametrize("n_batch", [1, 20, 400, 3000])
def test_density_ratio_is_that_of_scikit_learn(n_batch):
    rng = np.random.default_rng(n_batch)
    source = rng.normal([1.0, -5.0, 300.0], [1.0, 2.0, 50.0], size=(1000, 3))
    batch = rng.normal([2.0, -5.0, 290.0], [1.0, 1.0, 70.0], size=(n_batch, 3))
    weight = rng.uniform(0.5, 2.0, 1000)
    (found,) = DensityRatio.fit(source, weight).log_weights([batch])

    mean = np.average(source, axis=0, weights=weight)
    deviation = np.sqrt(np.average((source - mean) ** 2, axis=0, weights=weight))
    x = (np.concatenate([source, batch]) - mean) / deviation
    n = min(1000, n_batch)
    of_rows = np.concatenate([n * weight / weight.sum(), np.full(n_batch, n / n_batch)])
    classifier = LogisticRegression(C=1.0, tol=1e-12, max_iter=1000, solver="newton-cholesky")
    classifier.fit(x, np.repeat([0, 1], [1000, n_batch]), sample_weight=of_rows)
    np.testing.assert_allclose(found, classifier.decision_function(x[:1000]), rtol=1e-5, atol=1e-7)


def test_density_ratio_approaches_the_true_one():
    """Of two normal distributions with variance 1: log w = SHIFT x - SHIFT^2 / 2."""
    rng = np.random.default_rng(0)
    source, batch = (_covariate_shift(rng, 20_000, mean) for mean in (0.0, SHIFT))
    (found,) = DensityRatio.fit(source.features, np.ones(20_000)).log_weights([batch.features])
    true = SHIFT * source.features[:, 0] - SHIFT**2 / 2
    assert np.abs(found - true).mean() < 0.05
    assert np.exp(found).mean() == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("method", [dc.CPCS, dc.TransCal])
@pytest.mark.parametrize("mean", [SHIFT, -SHIFT])
def test_weighted_fits_recover_the_temperature_of_the_batch(method, mean):
    rng = np.random.default_rng(1)
    source, batch = _covariate_shift(rng, 8000, 0.0), _covariate_shift(rng, 4000, mean)
    oracle = dc.TemperatureScaling().fit(batch).temperature_
    pooled = dc.TemperatureScaling().fit(source).temperature_
    found = method().fit(source).predict_temperature(batch)
    assert np.unique(found).size == 1
    assert abs(np.log(found[0] / oracle)) < 0.35 * abs(np.log(pooled / oracle))


@pytest.mark.parametrize("seed", range(3))
def test_the_temperature_of_cpcs_is_the_best_of_a_fine_grid(seed):
    data = small_domains(seed, n_rows=60)
    batch = data.select(data.domains == "domain-1")
    weight = np.random.default_rng(seed).uniform(0.5, 2.0, len(data))
    calibrator = fit(dc.CPCS(), data, sample_weight=weight)
    (log_weight,) = DensityRatio.fit(data.features, weight).log_weights([batch.features])
    one_hot = np.eye(5)[data.labels]

    def brier(t):
        error = softmax(data.logits / t, axis=1) - one_hot
        return float(weight * np.exp(log_weight) @ (error**2).sum(axis=1))

    found = calibrator.predict_temperature(batch.logits, features=batch.features)[0]
    grid = np.geomspace(*calibrator.limits_, 4001)
    best = grid[np.argmin([brier(t) for t in grid])]
    assert found == pytest.approx(best, rel=np.log(grid[1] / grid[0]))
    assert brier(found) <= brier(best)


def _literal_accuracy(w, hits, weight, accuracy, total_weight):
    """The steps in the notes of TransCal, one lambda after the other."""
    share, h, n = weight / weight.sum(), hits.astype(float), weight.sum()

    def mean(values):
        return float(np.sum(share * values))

    def covariance(a, b):
        return mean((a - mean(a)) * (b - mean(b)))

    terms, c2s = [], []
    for power in LAMBDAS:
        v = w**power / (mean(w**power) / mean(w) ** power)
        t = v * h
        c1 = covariance(t, v) / covariance(v, v) if power > 0 else 0.0
        t = t - c1 * (v - 1)
        c2 = covariance(t, h) / covariance(h, h)
        terms.append(t - c2 * (h - accuracy))
        c2s.append(c2)
    a = [mean(t) for t in terms]
    of_hits = accuracy * (1 - accuracy) / total_weight
    errors = []
    for k in range(len(LAMBDAS)):
        variance = covariance(terms[k], terms[k]) / n + c2s[k] ** 2 * of_hits
        apart = terms[k] - terms[-1]
        of_apart = covariance(apart, apart) / n + (c2s[k] - c2s[-1]) ** 2 * of_hits
        errors.append(max(0.0, (a[k] - a[-1]) ** 2 - of_apart) + variance)
    best = int(np.argmin(errors))
    return a[best], LAMBDAS[best]


@pytest.mark.parametrize("strength", [0.1, 0.5, 2.0])
def test_the_accuracy_of_transcal_follows_its_formulas(strength):
    rng = np.random.default_rng(int(10 * strength))
    x = rng.normal(size=300)
    hits = rng.uniform(size=300) < 1 / (1 + np.exp(-x))
    weight = rng.uniform(0.5, 2.0, 300)
    log_weight = strength * x - strength**2 / 2 + 0.1
    overall = {"accuracy": 0.55, "total_weight": 1000.0}
    found = weighted_accuracy(log_weight, hits, weight, **overall)
    assert found == pytest.approx(_literal_accuracy(np.exp(log_weight), hits, weight, **overall))


def test_the_estimated_accuracy_approaches_the_true_one():
    """Source x ~ N(0, 1), batch x ~ N(1, 1), P(right | x) = sigmoid(x); averages of 300 draws."""
    true = np.mean(1 / (1 + np.exp(-np.random.default_rng(0).normal(1.0, 1.0, 10**6))))
    errors = {"found": [], "plain": []}
    for seed in range(300):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=400)
        hits = rng.uniform(size=400) < 1 / (1 + np.exp(-x))
        overall = {"accuracy": hits.mean(), "total_weight": 400.0}
        found, _ = weighted_accuracy(x - 0.5, hits, np.ones(400), **overall)
        errors["found"].append(found - true)
        errors["plain"].append(np.mean(np.exp(x - 0.5) * hits) - true)
    assert abs(np.mean(errors["found"])) < 0.01
    assert np.std(errors["found"]) < 0.6 * np.std(errors["plain"])


def test_lambda_is_1_for_many_rows_and_smaller_for_few():
    chosen = []
    for n, n_draws in ((20, 50), (20_000, 5)):
        draws = []
        for seed in range(n_draws):
            rng = np.random.default_rng(seed)
            x = rng.normal(size=n)
            hits = rng.uniform(size=n) < 1 / (1 + np.exp(-x))
            overall = {"accuracy": hits.mean(), "total_weight": float(n)}
            draws.append(weighted_accuracy(x - 0.5, hits, np.ones(n), **overall)[1])
        chosen.append(np.mean(draws))
    assert chosen[0] < 0.9
    assert chosen[1] > 0.98


@pytest.mark.parametrize("seed", range(3))
def test_transcal_matches_confidence_and_accuracy(seed):
    data = small_domains(seed)
    batch = data.select(data.domains == "domain-2")
    calibrator = fit(dc.TransCal(), data)
    (log_weight,) = DensityRatio.fit(data.features, np.ones(len(data))).log_weights(
        [batch.features]
    )
    hits = data.logits.argmax(axis=1) == data.labels
    accuracy, _ = weighted_accuracy(
        log_weight, hits, np.ones(len(data)), accuracy=hits.mean(), total_weight=len(data)
    )
    found = calibrator.predict_temperature(batch.logits, features=batch.features)[0]

    def gap(t):
        return abs(softmax(batch.logits / t, axis=1).max(axis=1).mean() - accuracy)

    assert gap(found) < 1e-9
    grid = np.geomspace(*calibrator.limits_, 2001)
    best = grid[np.argmin([gap(t) for t in grid])]
    assert found == pytest.approx(best, rel=np.log(grid[1] / grid[0]))


@pytest.mark.parametrize("k", [1, 10, 50])
def test_distances_are_those_of_scikit_learn_and_scipy(k):
    rng = np.random.default_rng(k)
    source, new = rng.normal(size=(200, 6)), 7.0 * rng.normal(size=(40, 6))
    unit, new_unit = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (source, new))
    distance = NeighbourDistance(normalised(source), k)
    expected, _ = NearestNeighbors(n_neighbors=k).fit(unit).kneighbors(new_unit)
    np.testing.assert_allclose(distance(new), expected[:, -1], rtol=1e-7)
    # Column 0 of the sorted distances is the row itself.
    apart = np.sort(cdist(unit, unit), axis=1)[:, k]
    np.testing.assert_allclose(distance.leave_one_out(), apart, rtol=1e-7)


def _rows_with_distances(n=3000):
    """Rows whose true temperature is 1 + 4 d, with d the distance that DAC uses."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 4)) * [1.0, 1.0, 0.2, 0.2]
    d = NeighbourDistance(normalised(x), 50).leave_one_out()
    logits = rng.normal(0.0, 3.0, size=(n, 5))
    noisy = logits / (1.0 + 4.0 * d)[:, None] + rng.gumbel(size=logits.shape)
    return dc.CalibrationData(logits, labels=noisy.argmax(axis=1), features=x), d


def test_dac_recovers_a_line_and_minimises_the_nll():
    data, d = _rows_with_distances()
    found = dc.DAC().fit(data)

    def nll(line):
        t = line[0] + line[1] * d
        if not (t > 0).all():
            return np.inf
        return -log_softmax(data.logits / t[:, None], axis=1)[np.arange(len(d)), data.labels].mean()

    line = [found.intercept_, found.coef_]
    options = {"xatol": 1e-9, "fatol": 1e-15, "maxiter": 2000}
    best = minimize(nll, [1.0, 1.0], method="Nelder-Mead", options=options)
    np.testing.assert_allclose(line, best.x, rtol=1e-5)
    assert line[1] == pytest.approx(4.0, rel=0.3)


def test_dac_is_temperature_scaling_where_distances_say_nothing():
    """Where confidence should rise with the distance, the best w1 >= 0 is 0."""
    data, d = _rows_with_distances()
    rng = np.random.default_rng(1)
    noisy = data.logits / (3.0 - 2.0 * d / d.max())[:, None] + rng.gumbel(size=data.logits.shape)
    y = noisy.argmax(axis=1)
    found = dc.DAC().fit(data.logits, y, features=data.features)
    assert found.coef_ == 0.0
    expected = dc.TemperatureScaling().fit(data.logits, y).temperature_
    assert found.intercept_ == pytest.approx(expected, rel=1e-7)


def test_a_weight_in_the_line_of_dac_is_a_repetition():
    """With the same distances; a repeated row would be a neighbour of itself."""
    data, d = _rows_with_distances(600)
    weight = np.random.default_rng(2).integers(0, 4, len(d))
    some = TrainingRows(data.logits, data.labels, None, None, weight.astype(float))
    at = np.repeat(np.arange(len(d)), weight)
    repeated = TrainingRows(data.logits[at], data.labels[at], None, None, None)
    lines = [
        fit_line(rows, distances, fit_pooled_temperature(rows))
        for rows, distances in ((some, d), (repeated, d[at]))
    ]
    np.testing.assert_allclose(*lines, rtol=1e-6)
    assert lines[0][1] > 1.0


def test_the_derivatives_of_vector_scaling_are_those_of_finite_differences():
    data = small_domains()
    rng = np.random.default_rng(0)
    rows = TrainingRows(data.logits, data.labels, None, None, rng.uniform(0.5, 2.0, len(data)))
    loss = PenalisedLoss(rows, 2.5, rng.normal(size=10))
    parameters = rng.normal(size=10)
    numeric = approx_fprime(parameters, lambda p: loss(p)[0], 1e-7)
    np.testing.assert_allclose(loss(parameters)[1], numeric, atol=1e-6)
    second = approx_fprime(parameters, lambda p: loss(p)[1], 1e-7)
    np.testing.assert_allclose(loss.hessian(parameters), second, atol=1e-6)


def _vector_objective(data, weight, centre):
    """The sum in the notes of VectorScaling, as a function of a and b."""
    z = data.logits - data.logits.mean(axis=1, keepdims=True)
    scale = np.average(z.std(axis=1), weights=weight)

    def objective(p):
        a, b = np.split(p, 2)
        log_p = log_softmax(a * z + b, axis=1)[np.arange(len(z)), data.labels]
        penalty = 0.5 * (scale**2 * (a - 1 / centre) ** 2 + b**2).sum()
        return -weight @ log_p + penalty

    return objective


def test_vector_scaling_minimises_its_objective():
    data = small_domains(n_classes=3)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(data))
    found = fit(dc.VectorScaling(), data, sample_weight=weight)
    expected = fit(dc.TemperatureScaling(), data, sample_weight=weight).temperature_
    assert found.temperature_ == expected
    objective = _vector_objective(data, weight, expected)
    start = np.r_[np.full(3, 1 / expected), np.zeros(3)]
    best = minimize(objective, start, method="BFGS", options={"gtol": 1e-4})
    np.testing.assert_allclose(np.r_[found.coef_, found.intercept_], best.x, atol=1e-4)


def test_vector_scaling_recovers_factors_and_offsets():
    rng = np.random.default_rng(0)
    z = rng.normal(0.0, 2.0, size=(40_000, 4))
    z -= z.mean(axis=1, keepdims=True)
    a, b = np.array([0.5, 1.0, 1.5, 0.8]), np.array([0.6, -0.4, 0.0, -0.2])
    y = np.argmax(a * z + b + rng.gumbel(size=z.shape), axis=1)
    found = dc.VectorScaling().fit(z, y)
    np.testing.assert_allclose(found.coef_, a, atol=0.06)
    np.testing.assert_allclose(found.intercept_, b, atol=0.06)


def test_vector_scaling_with_a_large_penalty_is_temperature_scaling(monkeypatch):
    monkeypatch.setattr(vector_scaling, "PENALTY", 1e12)
    data = small_domains()
    found, expected = (fit(m(), data) for m in (dc.VectorScaling, dc.TemperatureScaling))
    np.testing.assert_allclose(
        found.predict_proba(data.logits), expected.predict_proba(data.logits), atol=1e-8
    )

"""Divergence, mixture weights and bound against slow, literal versions."""

from itertools import combinations

import numpy as np
import pytest
import scipy.optimize
import scipy.stats

import domaincal as dc
from domaincal.shift import (
    best_temperatures,
    calibration_risk,
    divergence,
    mixture_distances,
    mixture_weights,
    risk_bound,
    risk_table,
    two_sample_distance,
)
from domaincal.shift.gap_samples import GapSamples


def confidence(logits, temperature):
    p = np.exp((logits - logits.max(axis=1, keepdims=True)) / temperature)
    return p.max(axis=1) / p.sum(axis=1)


def literal_divergence(first, second, temperatures, w=None, v=None):
    """All pairs, all thresholds t that occur: the largest |P(gap <= t) - P'(gap <= t)|."""
    w = np.ones(len(first)) if w is None else w
    v = np.ones(len(second)) if v is None else v
    largest = 0.0
    for a, b in combinations(temperatures, 2):
        gaps = [np.abs(confidence(z, a) - confidence(z, b)) for z in (first, second)]
        for t in np.concatenate(gaps):
            shares = [x[g <= t].sum() / x.sum() for x, g in zip((w, v), gaps, strict=True)]
            largest = max(largest, abs(shares[0] - shares[1]))
    return largest


@pytest.mark.parametrize("seed", range(5))
def test_divergence_is_the_literal_one(seed):
    random = np.random.default_rng(seed)
    first, second = random.normal(0, 1, (17, 3)), random.normal(0, 1.5, (23, 3))
    grid = [0.5, 1.0, 1.7, 4.0]
    found = divergence(first, second, grid)
    assert found.value == pytest.approx(literal_divergence(first, second, grid), abs=1e-12)
    w, v = random.random(17), random.random(23)
    found = divergence(first, second, grid, first_weight=w, second_weight=v)
    assert found.value == pytest.approx(literal_divergence(first, second, grid, w, v), abs=1e-12)


def test_divergence_with_ties_is_the_literal_one():
    random = np.random.default_rng(0)
    first, second = random.integers(0, 3, (30, 2)) * 1.0, random.integers(0, 4, (20, 2)) * 1.0
    found = divergence(first, second, [1.0, 2.0])
    assert found.value == pytest.approx(literal_divergence(first, second, [1.0, 2.0]), abs=1e-12)


def test_divergence_of_one_pair_is_the_statistic_of_scipy():
    random = np.random.default_rng(0)
    first, second = random.normal(0, 1, (200, 5)), random.normal(0, 1.3, (300, 5))
    gaps = [np.abs(confidence(z, 1.0) - confidence(z, 2.0)) for z in (first, second)]
    found = divergence(first, second, [2.0, 1.0])
    assert found.value == pytest.approx(scipy.stats.ks_2samp(*gaps).statistic, abs=1e-12)
    at_most = [(gap <= found.threshold).mean() for gap in gaps]
    assert found.value == pytest.approx(abs(at_most[0] - at_most[1]), abs=1e-12)


def three_domains(seed=0, n_rows=40):
    """Known domains of three spreads; the new one is a mixture of two of them."""
    random = np.random.default_rng(seed)
    known = [random.normal(0, s, (n_rows, 4)) for s in (0.5, 1.5, 4.0)]
    new = np.concatenate([random.normal(0, s, (n_rows, 4)) for s in (0.5, 4.0)])
    return np.concatenate(known), np.repeat(np.arange(3), n_rows), new


def test_best_mixture_is_that_of_a_search_over_the_simplex():
    known, codes, new = three_domains()
    grid = np.array([0.5, 1.0, 2.0])
    alpha, smallest = GapSamples.from_rows(known, codes, new, grid).best_mixture()
    assert alpha.sum() == pytest.approx(1.0)
    assert (alpha >= 0).all()
    literal = literal_divergence(known, new, grid, w=alpha[codes])
    assert smallest == pytest.approx(literal, abs=1e-9)
    steps = np.arange(21) / 20
    others = [
        divergence(known, new, grid, first_weight=np.array([a, b, max(1 - a - b, 0)])[codes]).value
        for a in steps
        for b in steps
        if a + b <= 1 + 1e-9
    ]
    assert smallest <= min(others) + 1e-6
    assert smallest >= min(others) - 0.06  # a step of the search changes d by 0.05 at most


@pytest.mark.parametrize("ties", [False, True])
def test_best_mixture_is_that_of_one_program_with_all_thresholds(ties):
    known, codes, new = three_domains(seed=2)
    if ties:
        known, new = (z[np.arange(len(z)) // 4 * 4] for z in (known, new))
        new[::8], known[::20] = 0.0, 0.0
    grid = np.array([0.5, 1.0, 3.0])
    rows = []
    for a, b in combinations(grid, 2):
        gaps, new_gaps = (np.abs(confidence(z, a) - confidence(z, b)) for z in (known, new))
        rows += [
            [*((gaps[codes == k] <= t).mean() for k in range(3)), (new_gaps <= t).mean()]
            for t in np.concatenate([gaps, new_gaps])
        ]
    shares = np.array(rows)
    limit = np.full((len(rows), 1), -1.0)
    program = scipy.optimize.linprog(
        [0, 0, 0, 1],
        A_ub=np.block([[shares[:, :3], limit], [-shares[:, :3], limit]]),
        b_ub=np.concatenate([shares[:, 3], -shares[:, 3]]),
        A_eq=[[1, 1, 1, 0]],
        b_eq=[1],
    )
    smallest = GapSamples.from_rows(known, codes, new, grid).best_mixture()[1]
    assert smallest == pytest.approx(program.fun, abs=3e-6)


def test_equal_rows_have_no_divergence():
    rows = np.tile([[1.0, 0.0]], (10, 1))
    codes = np.repeat([0, 1], 5)
    samples = GapSamples.from_rows(rows, codes, rows, np.array([1.0, 2.0]))
    assert samples.best_mixture()[1] == pytest.approx(0.0, abs=1e-12)
    assert samples.unexplained_part() == 0.0


def test_mixture_of_known_domains_is_found():
    known, codes, new = three_domains(n_rows=2000)
    samples = GapSamples.from_rows(known, codes, new, np.array([0.5, 1.0, 2.0]))
    alpha, smallest = samples.best_mixture()
    np.testing.assert_allclose(alpha, [0.5, 0.0, 0.5], atol=0.05)
    assert smallest < 0.03
    assert smallest <= samples.unexplained_part() + 0.05 < 0.1
    far = GapSamples.from_rows(known, codes, 50 * new, np.array([0.5, 1.0, 2.0]))
    assert far.best_mixture()[1] > 0.3
    assert far.unexplained_part() > 0.3


def test_unexplained_part_of_one_known_domain_is_the_total_variation_of_its_bins():
    random = np.random.default_rng(1)
    known, new = random.normal(0, 1, (500, 3)), random.normal(0, 2, (100, 3))
    samples = GapSamples.from_rows(known, np.zeros(500, np.int64), new, np.array([1.0, 2.0]))
    gaps = [np.abs(confidence(z, 1.0) - confidence(z, 2.0)) for z in (known, new)]
    # Each known row counts a fifth of a new one.
    both = np.sort(np.concatenate([gaps[0], np.repeat(gaps[1], 5)]))
    cuts = both[np.arange(1, 10) * 100 - 1]
    shares = [np.diff([(g <= t).mean() for t in cuts], prepend=0, append=1) for g in gaps]
    assert samples.unexplained_part() == pytest.approx(
        np.abs(shares[0] - shares[1]).sum() / 2, abs=1e-6
    )


def test_risk_is_the_mean_gap_and_the_difference_of_mean_confidences():
    z = np.random.default_rng(0).normal(0, 2, (100, 5))
    literal = np.abs(confidence(z, 3.0) - confidence(z, 1.2)).mean()
    assert calibration_risk(z, 3.0, 1.2) == pytest.approx(literal, abs=1e-12)
    means = confidence(z, 3.0).mean() - confidence(z, 1.2).mean()
    assert calibration_risk(z, 3.0, 1.2) == pytest.approx(abs(means), abs=1e-12)


def domains(n_domains=5, n_rows=300, seed=0):
    return dc.make_multi_domain(n_domains, n_rows, random_state=seed)[0]


def test_risk_of_one_temperature_is_confidence_minus_accuracy():
    data = domains()
    calibrator = dc.TemperatureScaling().fit(data)
    table = risk_table(data, calibrator).set_index("domain")
    for name, rows in data.by_domain():
        z = np.asarray(rows.logits, np.float64)
        gap = confidence(z, calibrator.temperature_).mean() - (z.argmax(1) == rows.labels).mean()
        assert table["predicted"][name] == pytest.approx(abs(gap), abs=1e-5)


def test_risk_table_is_the_literal_one():
    data = domains(3)
    best = best_temperatures(data)
    calibrator = dc.MultiDomainTemperatureScaling().fit(data)
    table = risk_table(data, calibrator).set_index("domain")
    assert (table["own"] == 0).all()
    for name, rows in data.by_domain():
        others = [calibration_risk(rows.logits, t, best[name]) for t in best.drop(name)]
        assert table["others_mean"][name] == pytest.approx(np.mean(others), abs=1e-6)
        assert table["others_worst"][name] == pytest.approx(max(others), abs=1e-6)
        predicted = calibrator.predict_temperature(rows)
        assert table["predicted"][name] == pytest.approx(
            calibration_risk(rows.logits, predicted, best[name]), abs=1e-6
        )


def test_every_term_of_the_bound_is_the_literal_one():
    data = domains(4, 120)
    known, new = dc.split_domains(data, ["domain-3"])
    codes, names = known.domain_codes
    grid = np.array([0.5, 0.8, 1.3, 2.0, 3.5])
    delta = 0.1
    row = risk_bound(
        known, new, dc.TemperatureScaling().fit(known), delta=delta, temperatures=grid
    ).iloc[0]
    alpha = mixture_weights(known, new, temperatures=grid).loc["domain-3"].to_numpy()

    def best(rows):
        z = np.asarray(rows.logits, np.float64)
        accuracy = (z.argmax(axis=1) == rows.labels).mean()
        return min(grid, key=lambda t: abs(confidence(z, t).mean() - accuracy))

    def risk(rows, temperature):
        z = np.asarray(rows.logits, np.float64)
        return np.abs(confidence(z, temperature) - confidence(z, best(rows))).mean()

    parts = [rows for _, rows in known.by_domain()]
    mixed = {t: sum(a * risk(r, t) for a, r in zip(alpha, parts, strict=True)) for t in grid}
    h = row["temperature"]
    assert h in grid
    assert row["weighted_risk"] == pytest.approx(mixed[h], abs=1e-6)
    d = literal_divergence(
        np.asarray(known.logits, np.float64), np.asarray(new.logits, np.float64), grid,
        w=(alpha / np.bincount(codes))[codes],
    )  # fmt: skip
    assert row["divergence"] == pytest.approx(0.9 * d, abs=2e-6)
    error = np.sqrt(np.log(2 * 10 * 4 / delta) / (2 * 120))
    assert row["complexity"] == pytest.approx(0.9 * 3 * error)
    assert row["lambda"] == pytest.approx(min(mixed[t] + risk(new, t) for t in grid), abs=1e-6)
    assert row["true_risk"] == pytest.approx(risk(new, h), abs=1e-6)
    assert row["bound"] == pytest.approx(
        row[["weighted_risk", "divergence", "complexity", "lambda"]].sum()
    )
    z = np.asarray(new.logits, np.float64)
    gaps = [np.abs(confidence(z, t) - confidence(z, h)).mean() for t in grid]
    assert row["largest_risk"] == pytest.approx(max(gaps), abs=1e-6)
    assert len(names) == 3


@pytest.mark.parametrize("seed", range(4))
def test_bound_holds_on_the_samples_without_the_term_of_complexity(seed):
    random = np.random.default_rng(seed)
    data = domains(6, 60, seed)
    # Any logits and labels will do: the proof holds for every pair of distributions.
    labels = np.where(
        random.random(len(data)) < 0.5, random.integers(0, 10, len(data)), data.labels
    )
    logits = data.logits * np.exp(random.normal(0, 1, 6))[data.domain_codes[0], None]
    any_rows = dc.CalibrationData(logits, labels=labels, domains=data.domains)
    known, new = dc.split_domains(any_rows, ["domain-1", "domain-4"])
    for calibrator in (dc.TemperatureScaling(), dc.MaxSoftmax()):
        grid = random.uniform(0.2, 5.0, 4)
        table = risk_bound(known, new, calibrator.fit(known), temperatures=grid)
        bound = table[["weighted_risk", "divergence", "lambda"]].sum(axis=1)
        assert (table["true_risk"] <= bound + 1e-9).all()


def test_a_factor_of_a_half_would_be_wrong():
    # The gap is large in the new domain only, and d = 1: the risks differ by nearly d. Of 50
    # classes, equal logits have the confidence 0.02.
    equal = np.zeros((100, 50))
    far = equal.copy()
    far[:, 0] = 20.0
    known = dc.CalibrationData(equal, labels=np.arange(100) % 50, domains=["known"] * 100)
    new = dc.CalibrationData(far, labels=[1, 2] * 50, domains=["new"] * 100)
    row = risk_bound(known, new, dc.MaxSoftmax().fit(known), temperatures=[1.0, 1000.0]).iloc[0]
    assert row["divergence"] == pytest.approx(0.98)
    assert row["weighted_risk"] + row["lambda"] < 0.01
    assert row["true_risk"] > 0.95  # more than half of the divergence


def test_two_sample_distance_grows_with_the_shift():
    random = np.random.default_rng(0)
    known = dc.CalibrationData(random.normal(size=(400, 2)), features=random.normal(size=(400, 3)))
    distances = []
    for shift in (0.0, 1.0, 8.0):
        x = random.normal(size=(200, 3)) + np.array([shift, 0.0, 0.0])
        new = dc.CalibrationData(random.normal(size=(200, 2)), features=x)
        found = two_sample_distance(known, new)
        distances.append(found["distance"][0])
    assert distances[0] < 0.15
    # Of normal distributions a distance s apart, AUC = Phi(s / sqrt(2)).
    assert distances[1] == pytest.approx(2 * scipy.stats.norm.cdf(1 / np.sqrt(2)) - 1, abs=0.1)
    assert distances[2] > 0.99


def test_mixture_distances_are_those_of_the_mixture_weights():
    data = domains(5, 150)
    known, new = dc.split_domains(data, ["domain-1", "domain-2"])
    grid = [0.7, 1.4, 2.8]
    table = mixture_distances(known, new, temperatures=grid).set_index("domain")
    alpha = mixture_weights(known, new, temperatures=grid)
    codes, _ = known.domain_codes
    for name, rows in new.by_domain():
        w = alpha.loc[name].to_numpy()[codes]
        expected = divergence(known.logits, rows.logits, grid, first_weight=w).value
        assert table["divergence"][name] == pytest.approx(expected, abs=1e-6)
        assert table["nearest"][name] == alpha.loc[name].idxmax()
        assert table["share"][name] == pytest.approx(alpha.loc[name].max())

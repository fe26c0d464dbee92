"""Histogram binning and BBQ against slow, literal implementations; isotonic against sklearn."""

from bisect import bisect_left
from fractions import Fraction
from math import ceil, exp, floor, lgamma

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression

import domaincal as dc
from domaincal.calibrators import score_calibrator

SEEDS = range(6)


def _problem(seed, n=70, n_classes=3, *, ties=False):
    rng = np.random.default_rng(seed)
    z = rng.normal(0, 2, size=(n, n_classes))
    if ties:
        z = np.round(z)
    y = np.argmax(0.5 * z + rng.gumbel(size=z.shape), axis=1)
    return z, y


def _softmax(z):
    p = np.exp(z - z.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


def _literal_edges(scores, n_bins, strategy):
    """Inner edges of bins of equal width, or with equal numbers of rows."""
    if strategy == "uniform":
        return [m / n_bins for m in range(1, n_bins)]
    ordered = sorted(scores)
    edges = []
    for m in range(1, n_bins):
        # The smallest score with at least the share m / n_bins of the rows at or below it ...
        needed = ceil(Fraction(m * len(ordered), n_bins))
        edge = ordered[needed - 1]
        larger = [s for s in ordered if s > edge]
        # ... and the edge half-way to the next one.
        edges.append((edge + larger[0]) / 2 if larger else edge)
    return edges


def _literal_bins(scores, hits, edges):
    """Rows and hits of each bin (a, b], by a loop over the rows."""
    rows, right = [0] * (len(edges) + 1), [0] * (len(edges) + 1)
    for score, hit in zip(scores, hits, strict=True):
        k = bisect_left(edges, score)
        rows[k] += 1
        right[k] += int(hit)
    return rows, right


def _literal_histogram(scores, hits, n_bins, strategy):
    edges = _literal_edges(scores, n_bins, strategy)
    rows, right = _literal_bins(scores, hits, edges)
    ends = [0.0, *edges, 1.0]
    values = [
        h / n if n else (ends[k] + ends[k + 1]) / 2
        for k, (n, h) in enumerate(zip(rows, right, strict=True))
    ]
    return lambda score: values[bisect_left(edges, score)]


def _literal_bbq(scores, hits):
    """Naeini et al. 2015, section 3: the mean over all binnings, weighted by their scores."""
    root = len(scores) ** (1 / 3)
    models = []
    most = min(ceil(10 * root), len(set(scores)))
    for n_bins in range(min(max(1, floor(root / 10)), most), most + 1):
        edges = _literal_edges(scores, n_bins, "quantile")
        rows, right = _literal_bins(scores, hits, edges)
        ends = [0.0, *edges, 1.0]
        log_score, values = 0.0, []
        for k in range(n_bins):
            middle = (ends[k] + ends[k + 1]) / 2
            prior = 2 / n_bins
            alpha, beta = prior * middle, prior * (1 - middle)
            n, m = rows[k], right[k]
            if n:
                log_score += lgamma(prior) - lgamma(n + prior)
                log_score += lgamma(m + alpha) - lgamma(alpha)
                log_score += lgamma(n - m + beta) - lgamma(beta)
            values.append((m + alpha) / (n + prior))
        models.append((edges, values, log_score))
    best = max(score for _, _, score in models)
    weights = [exp(score - best) for _, _, score in models]

    def calibrated(score):
        values = [values[bisect_left(edges, score)] for edges, values, _ in models]
        return sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights)

    return calibrated


def _isotonic(scores, hits):
    fitted = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(scores, hits)
    return lambda score: fitted.predict([score])[0]


METHODS = {
    "histogram": (
        lambda scheme: dc.HistogramBinning(7, scheme=scheme),
        lambda s, h: _literal_histogram(s, h, 7, "uniform"),
    ),
    "histogram-quantile": (
        lambda scheme: dc.HistogramBinning(7, strategy="quantile", scheme=scheme),
        lambda s, h: _literal_histogram(s, h, 7, "quantile"),
    ),
    "bbq": (lambda scheme: dc.BayesianBinning(scheme=scheme), _literal_bbq),
    "isotonic": (lambda scheme: dc.IsotonicCalibration(scheme=scheme), _isotonic),
}
every_method = pytest.mark.parametrize(("make", "literal"), METHODS.values(), ids=METHODS)


@every_method
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_top_label_equals_a_literal_implementation(make, literal, ties, seed):
    z, y = _problem(seed, ties=ties)
    new, _ = _problem(seed + 100, n=20)
    predicted, scores = z.argmax(axis=1), _softmax(z).max(axis=1)
    calibrated = literal(scores.tolist(), (predicted == y).tolist())
    p = make("top-label").fit(z, y).predict_proba(new)
    softmax, top = _softmax(new), new.argmax(axis=1)
    for row in range(len(new)):
        c = calibrated(softmax[row, top[row]])
        rest = 1.0 - softmax[row, top[row]]
        expected = softmax[row] * (1.0 - c) / rest
        expected[top[row]] = c
        np.testing.assert_allclose(p[row], expected, atol=1e-9)


@every_method
@pytest.mark.parametrize("seed", SEEDS)
def test_one_vs_rest_equals_a_literal_implementation(make, literal, seed, monkeypatch):
    monkeypatch.setattr(score_calibrator, "CLASSES_PER_BLOCK", 2)
    z, y = _problem(seed)
    new, _ = _problem(seed + 100, n=20)
    maps = [literal(_softmax(z)[:, k].tolist(), (y == k).tolist()) for k in range(3)]
    expected = np.array([[m(s) for m, s in zip(maps, row, strict=True)] for row in _softmax(new)])
    expected /= expected.sum(axis=1, keepdims=True)
    fitted = make("one-vs-rest").fit(z, y)
    np.testing.assert_allclose(fitted.predict_proba(new), expected, atol=1e-9)
    confidences = fitted.predict_confidence(new)
    np.testing.assert_allclose(confidences, expected[np.arange(20), new.argmax(axis=1)], atol=1e-9)


def test_a_row_with_probability_zero_for_all_classes_keeps_its_softmax():
    """All maps are 0 at the scores of the row."""
    z, y = _problem(0)
    fitted = dc.HistogramBinning(3, scheme="one-vs-rest").fit(z, y)
    for m in fitted.maps_:
        m.values[:] = 0.0
    np.testing.assert_allclose(fitted.predict_proba(z), _softmax(z), rtol=1e-12)


def test_the_value_of_an_empty_bin_is_its_midpoint():
    z = dc.logits_from_probabilities([[0.95, 0.05]] * 4)
    fitted = dc.HistogramBinning(10).fit(z, [0, 0, 0, 1])
    assert fitted.maps_[0].values.tolist() == pytest.approx(
        [0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.75]
    )


def test_scores_of_exactly_zero_and_one_give_finite_probabilities():
    """Saturated logits; the parameters of the prior stay positive."""
    z = np.array([[1000.0, 0.0, 0.0], [0.0, 1000.0, 0.0]] * 40)
    y = np.array([0, 1, 2, 1] * 20)
    for scheme in ("top-label", "one-vs-rest"):
        p = dc.BayesianBinning(scheme=scheme).fit(z, y).predict_proba(z)
        assert (np.isfinite(p) & (p >= 0)).all()
        np.testing.assert_allclose(p.sum(axis=1), 1.0)
    top = dc.BayesianBinning().fit(z, y).predict_confidence(z[:1])
    assert top == pytest.approx([0.75], abs=0.02)


def test_the_other_classes_of_a_saturated_row_keep_their_proportions():
    """1 - p is rounded to 0."""
    z = np.array([[100.0, 1.0, 0.0]] * 4)
    p = dc.HistogramBinning().fit(z, [0, 0, 1, 2]).predict_proba(z[:1])
    share = np.exp(1.0) / (1.0 + np.exp(1.0))
    np.testing.assert_allclose(p, [[0.5, 0.5 * share, 0.5 * (1 - share)]])


def test_bbq_recovers_a_known_map():
    """Accuracy is the square of the confidence; 40,000 rows determine it to about one point."""
    rng = np.random.default_rng(0)
    c = rng.uniform(0.5, 1.0, 40_000)
    hits = rng.random(40_000) < c**2
    z = dc.logits_from_probabilities(np.column_stack([c, 1 - c]))
    found = dc.BayesianBinning().fit(z, np.where(hits, 0, 1)).predict_confidence(z)
    assert np.abs(found - c**2).mean() < 0.015
    many = dc.BayesianBinning().fit(z, np.where(hits, 0, 1)).maps_[0]
    assert many.posterior.sum() == pytest.approx(1.0)
    assert len(many.n_bins) == len(many.posterior)


def test_a_class_with_score_zero_has_probability_zero():
    """Masked logits: a bin that holds only zeros has no width."""
    z = np.zeros((400, 3))
    z[:, 2] = -1e9
    p = dc.BayesianBinning(scheme="one-vs-rest").fit(z, np.arange(400) % 2).predict_proba(z[:1])
    np.testing.assert_allclose(p, [[0.5, 0.5, 0.0]], atol=5e-3)


@pytest.mark.parametrize("make", [dc.IsotonicCalibration, dc.BayesianBinning])
def test_blocks_of_single_precision_logits_give_the_result_of_the_whole(make):
    """The whole uses compiled kernels; steep maps would magnify a difference of rounding."""
    data, _ = dc.make_multi_domain(4, 8000, 10, random_state=1)
    z = (3 * data.logits).astype(np.float32)
    fitted = make().fit(z, data.labels)
    whole = fitted.predict_confidence(z)[:500]
    np.testing.assert_allclose(fitted.predict_confidence(z[:500]), whole, atol=1e-12)


def test_the_number_of_binnings_is_limited_by_the_scores():
    """A total weight of 5e11 would need 79,000 binnings."""
    z, y = _problem(0, n=50)
    fitted = dc.BayesianBinning().fit(z, y, sample_weight=np.full(50, 1e10))
    assert fitted.maps_[0].n_bins.max() <= 50


def test_bbq_of_many_rows_starts_at_a_tenth_of_the_cube_root():
    z, _ = _problem(3, n=8500)  # 20.4 / 10: from 2 bins on
    # Hits do not depend on the score, so that fewer bins are better.
    miss = np.random.default_rng(0).random(len(z)) < 0.4
    y = np.where(miss, (z.argmax(axis=1) + 1) % 3, z.argmax(axis=1))
    scores = _softmax(z).max(axis=1)
    calibrated = _literal_bbq(scores.tolist(), (z.argmax(axis=1) == y).tolist())
    found = dc.BayesianBinning().fit(z, y)
    assert found.maps_[0].n_bins[found.maps_[0].posterior.argmax()] == 2
    some = np.linspace(0.35, 1.0, 40)
    np.testing.assert_allclose(found.maps_[0](some), [calibrated(s) for s in some], atol=1e-9)


def test_parameters_set_after_the_fit_do_not_change_predictions():
    z, y = _problem(0)
    fitted = dc.HistogramBinning().fit(z, y)
    before = fitted.predict_proba(z)
    np.testing.assert_array_equal(fitted.set_params(scheme="one-vs-rest").predict_proba(z), before)

"""Temperature at which mean confidence equals accuracy, compared with a root by brentq."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import softmax

from domaincal.statistics.consistent_temperature import consistent_log_temperatures

REACH = np.log(4.0)


def _domains(seed, n_domains=6, n_rows=200, n_classes=4):
    """Logits, labels and codes of domains with different temperatures, in shuffled order."""
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.repeat(np.arange(n_domains), n_rows))
    scores = rng.normal(0, 2, size=(len(codes), n_classes))
    labels = np.argmax(scores + rng.gumbel(size=scores.shape), axis=1)
    log_t = rng.uniform(-0.7, 0.7, n_domains)
    return scores * np.exp(log_t)[codes, None], labels, codes, log_t


def _excess(logits, labels, log_t, weight=None):
    confidence = softmax(logits / np.exp(log_t), axis=1).max(axis=1)
    hits = logits.argmax(axis=1) == labels
    return np.average(confidence - hits, weights=weight)


def _root(logits, labels, low, high):
    return brentq(lambda u: _excess(logits, labels, u), low, high, xtol=1e-14)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("seed", range(3))
def test_each_domain_has_the_root_of_its_own_rows(seed, dtype, kernel):
    logits, labels, codes, log_t = _domains(seed)
    logits = logits.astype(dtype)
    found = consistent_log_temperatures(logits, labels, codes, log_t, reach=REACH)
    for k, start in enumerate(log_t):
        own = codes == k
        z = logits[own].astype(np.float64)
        expected = _root(z, labels[own], start - REACH, start + REACH)
        tolerance = 1e-5 if dtype == np.float64 else 1e-4
        assert found[k] == pytest.approx(expected, abs=tolerance)


def test_the_start_does_not_decide_the_root():
    logits, labels, codes, log_t = _domains(3)
    from_truth, from_afar = (
        consistent_log_temperatures(logits, labels, codes, log_t + move, reach=REACH)
        for move in (0.0, 1.0)
    )
    np.testing.assert_allclose(from_afar, from_truth, atol=1e-5)


def test_out_of_reach_the_nearer_end_is_returned():
    """Accuracy 1 asks for a temperature of 0, accuracy 0 for an infinite one."""
    logits, labels, codes, log_t = _domains(4)
    labels = np.where(codes == 1, logits.argmax(axis=1), labels)
    labels = np.where(codes == 2, logits.argmin(axis=1), labels)
    reach = 0.5
    found = consistent_log_temperatures(logits, labels, codes, log_t, reach=reach)
    assert found[1] == pytest.approx(log_t[1] - reach, abs=1e-6)
    assert found[2] == pytest.approx(log_t[2] + reach, abs=1e-6)
    # These domains do not disturb the others.
    own = codes == 0
    expected = _root(logits[own], labels[own], log_t[0] - reach, log_t[0] + reach)
    assert found[0] == pytest.approx(expected, abs=1e-5)
    # A root that exists but is further away than the reach.
    near = consistent_log_temperatures(logits, labels, codes, found - 0.3, reach=0.1)
    np.testing.assert_allclose(near[3:], found[3:] - 0.2, atol=1e-6)


def test_a_weight_is_a_repetition():
    logits, labels, codes, log_t = _domains(5)
    times = np.random.default_rng(0).integers(0, 4, len(codes))
    rows = np.repeat(np.arange(len(codes)), times)
    weighted = consistent_log_temperatures(
        logits, labels, codes, log_t, reach=REACH, weight=times.astype(np.float64)
    )
    repeated = consistent_log_temperatures(
        logits[rows], labels[rows], codes[rows], log_t, reach=REACH
    )
    np.testing.assert_allclose(weighted, repeated, atol=1e-6)
    assert _excess(
        logits[codes == 0], labels[codes == 0], weighted[0], times[codes == 0]
    ) == pytest.approx(0.0, abs=1e-6)


def test_tensors_give_the_root_of_arrays(device):
    torch = pytest.importorskip("torch")
    from domaincal.data import CalibrationData

    logits, labels, codes, log_t = _domains(6)
    rows = CalibrationData(torch.tensor(logits, device=device), labels=labels).logits
    found = consistent_log_temperatures(rows, labels, codes, log_t, reach=REACH)
    expected = consistent_log_temperatures(logits, labels, codes, log_t, reach=REACH)
    np.testing.assert_allclose(found, expected, atol=1e-6)

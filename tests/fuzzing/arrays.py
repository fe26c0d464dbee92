"""Attacks on fits, predictions and metrics with hostile arrays."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import domaincal as dc
import support
from fuzzing.damage import name, number
from fuzzing.target import (
    Target,
    check_between,
    check_predictions,
    require,
)

_DTYPES = ("f8", "f8", "f4", "f2", ">f8", "i8", "u1", "?", "c16", "O", "U5", "M8[s]", "g")


def _matrix(rng: random.Random, n: int, n_columns: int) -> Any:
    """A matrix of float64, with hostile values in some of its places."""
    values = np.random.default_rng(rng.getrandbits(64)).normal(size=(n, n_columns))
    kind = rng.randrange(8)
    if kind == 0:
        values = values * 10.0 ** rng.randrange(-320, 308)
    elif kind == 1:
        values = np.full_like(values, rng.choice((0.0, 1.0, -1e308, 1e308, 1e-320)))
    elif kind == 2 and values.size:
        values.flat[rng.randrange(values.size)] = float(number(rng))
    elif kind == 3 and values.size:
        values = values[:, :1] * np.ones((1, n_columns))
    elif kind == 4:
        values = np.sign(values) * 10.0 ** (values * 100)
    return values


def _hostile(rng: random.Random, values: Any) -> Any:
    """The same values in another type, shape or container."""
    kind = rng.randrange(12)
    with np.errstate(all="ignore"):
        try:
            if kind == 0:
                return values.astype(rng.choice(_DTYPES))
        except (TypeError, ValueError):
            return values
    if kind == 1:
        return values.tolist()
    if kind == 2:
        return rng.choice((values[:-1], values[:0], values[..., None], values.ravel(), values.T))
    if kind == 3:
        return pd.DataFrame(values) if values.ndim == 2 else pd.Series(values)
    if kind == 4:
        return rng.choice((None, 7, "abc", [], [[]], {}, object(), name(rng), float("nan")))
    if kind == 5:
        return np.ma.masked_array(values, values == values)
    if kind == 6:
        return values[::-1]
    return values


def _labels(rng: random.Random, n: int, n_classes: int) -> Any:
    generator = np.random.default_rng(rng.getrandbits(64))
    labels = generator.integers(0, max(n_classes, 1), n)
    kind = rng.randrange(8)
    if kind == 0:
        labels = np.zeros(n, int)
    elif kind == 1 and n:
        labels[rng.randrange(n)] = rng.choice((-1, n_classes, 2**40))
    elif kind == 2:
        return labels.astype(rng.choice(("f8", "u1", "U3", "?", "O", "c8", "m8[s]", "S3")))
    return _hostile(rng, labels) if kind == 3 else labels


def _domains(rng: random.Random, n: int) -> Any:
    codes = np.random.default_rng(rng.getrandbits(64)).integers(0, rng.choice((1, 2, 4, n + 1)), n)
    kind = rng.randrange(14)
    if kind == 0:
        names = [name(rng) for _ in range(4)]
        return [names[c % 4] for c in codes]
    if kind == 1:
        pool = (None, 1, "a", float("nan"), b"x", (1,), True)
        return [rng.choice(pool) for _ in range(n)]
    if kind == 2:
        kinds = ("M8[s]", "m8[s]", "f8", "c16", "V4", "S3", "?", "u8", "i1", ">i8", "O")
        dtype = rng.choice(kinds)
        return np.zeros(n, dtype) if dtype == "V4" else codes.astype(dtype)
    if kind == 3:
        return pd.Categorical(codes.astype(str))
    if kind == 4:
        return pd.Series(codes.astype(str), dtype=rng.choice(("string", "object", "category")))
    if kind == 5:
        return _hostile(rng, codes)
    if kind == 6:
        return codes - 2**62
    return codes if kind % 2 else np.array([f"domain {c}" for c in codes], object)


def _weights(rng: random.Random, n: int) -> Any:
    generator = np.random.default_rng(rng.getrandbits(64))
    weights = generator.random(n)
    kind = rng.randrange(12)
    if kind < 4:
        return None
    if kind == 4:
        return weights * 10.0 ** rng.choice((-320, -300, -100, -15, 15, 89, 150, 300))
    if kind == 5:
        return 10.0 ** generator.uniform(-320, 308, n)
    if kind == 6:
        return np.where(weights < 0.9, 0.0, weights)
    if kind == 7:
        return np.zeros(n)
    if kind == 8 and n:
        weights[rng.randrange(n)] = float(number(rng))
        return weights
    if kind == 9:
        return _hostile(rng, weights)
    return np.round(weights * 5)


def _sizes(rng: random.Random) -> tuple[int, int]:
    n = rng.choice((0, 1, 2, 3, 10, 40, 40, 120))
    return n, rng.choice((0, 1, 2, 2, 3, 3, 10, 50))


# fits


def _make_fit(rng: random.Random, folder: Path) -> dict[str, Any]:
    n, n_classes = _sizes(rng)
    n_features = rng.choice((0, 1, 3, 3, 8, 200))
    odd = rng.random() < 0.3
    logits = _matrix(rng, n, n_classes)
    features = _matrix(rng, n, n_features)
    case = {
        "method": rng.choice(list(support.CALIBRATORS)),
        "logits": _hostile(rng, logits) if odd else logits,
        "labels": _labels(rng, n, n_classes),
        "features": _hostile(rng, features) if odd else features,
        "domains": _domains(rng, n),
        "weight": _weights(rng, n),
        "new_logits": _matrix(rng, rng.choice((0, 1, 20)), n_classes),
        "as_data": rng.random() < 0.3,
    }
    if rng.random() < 0.5:  # features and domains for as many new rows
        m = len(case["new_logits"])
        case["new"] = {"features": _matrix(rng, m, n_features), "domains": _domains(rng, m)}
    else:
        case["new"] = None
    return case


def _check_fit(case: dict[str, Any]) -> None:
    calibrator = support.CALIBRATORS[case["method"]]()
    arrays = {"features": case["features"], "domains": case["domains"]}
    if case["as_data"]:
        data = dc.CalibrationData(case["logits"], case["labels"], **arrays)
        repr(data)
        calibrator.fit(data, sample_weight=case["weight"])
        scores = calibrator.score_rows(data)
        check_between(scores.confidence, 0, 1, "confidence")
        check_between(scores.nll, 0, np.inf, "nll")
        check_between(scores.brier, 0, 2, "brier")
    else:
        calibrator.fit(case["logits"], case["labels"], **arrays, sample_weight=case["weight"])
    if case["new"] is None:
        check_predictions(calibrator, np.asarray(case["logits"]), **arrays)
    else:
        check_predictions(calibrator, case["new_logits"], **case["new"])


# metrics


def _make_metric(rng: random.Random, folder: Path) -> dict[str, Any]:
    n, n_classes = _sizes(rng)
    p = np.random.default_rng(rng.getrandbits(64)).dirichlet(
        [rng.choice((0.01, 1.0, 30.0))] * max(n_classes, 1), n
    )
    kind = rng.randrange(6)
    if kind == 0:
        p = _hostile(rng, p)
    elif kind == 1 and p.size:
        p.flat[rng.randrange(p.size)] = float(number(rng))
    elif kind == 2:
        p = p.round()
    elif kind == 3:
        p = p.astype(rng.choice(("f4", "f2", "g")))
    return {
        "probabilities": p,
        "labels": _labels(rng, n, n_classes),
        "domains": _domains(rng, n),
        "weight": _weights(rng, n),
        "n_bins": rng.choice((15, 15, 1, 2, 1000, 0, -1, 2.5, None, "x", 10**6, 2 * 10**9)),
        "strategy": rng.choice(("uniform", "quantile", "quantile", "x")),
        "norm": rng.choice(("l1", "l2", "max", "x")),
        "level": rng.choice((0.95, 0.95, 0.0, 1.0, float("nan"), 1e-300, 0.999999999999)),
        "which": rng.randrange(16),
    }


def _check_metric(case: dict[str, Any]) -> None:
    p, y, domains = case["probabilities"], case["labels"], case["domains"]
    weight = {"sample_weight": case["weight"]}
    bins = {"n_bins": case["n_bins"], "strategy": case["strategy"], **weight}
    metrics, which = dc.metrics, case["which"]
    if which == 0:
        check_between(dc.expected_calibration_error(p, y, norm=case["norm"], **bins), 0, 1, "ece")
    elif which == 1:
        check_between(dc.excess_calibration_error(p, y, **bins), -1, 1, "excess")
    elif which == 2:
        found = metrics.calibration_error_interval(p, y, level=case["level"], **bins)
        check_between([found.value, found.low, found.high], 0, 1, "interval")
        require(found.low <= found.high, f"low {found.low} above high {found.high}")
        check_between(found.p_value, 0, 1, "p value")
    elif which == 3:
        found = metrics.debiased_squared_calibration_error(p, y, **bins)
        check_between(np.nan_to_num(found), -1, 1, "debiased")  # NaN: no bin has two rows
    elif which == 4:
        check_between(metrics.smooth_calibration_error(p, y, **weight), 0, 1, "smooth ece")
    elif which == 5:
        found = metrics.classwise_calibration_error(p, y, norm=case["norm"], **bins)
        check_between(found, 0, 1, "classwise ece")
    elif which == 6:
        check_between(dc.negative_log_likelihood(p, y, **weight), 0, 1e4, "nll")
    elif which == 7:
        check_between(dc.brier_score(p, y, **weight), 0, 2, "brier")
    elif which == 8:
        check_between(metrics.accuracy(p, y, **weight), 0, 1, "accuracy")
    elif which == 9:
        found = metrics.brier_decomposition(p, y, **bins)
        check_between(found[:3], 0, 2, "terms of the Brier score")
        check_between(found.within_bins, -2, 2, "within bins")
    elif which == 10:
        _check_curve(dc.reliability_curve(p, y, **bins))
    elif which == 11:
        found = dc.multi_domain_calibration_error(p, y, domains, norm=case["norm"], **bins)
        check_between(found, 0, 1, "multi-domain ece")
    elif which == 12:
        check_between(dc.accuracy_prediction_error(p, y, domains, **weight), 0, 1, "error")
    elif which == 13:
        table = dc.per_domain(dc.brier_score, p, y, domains, level=case["level"])
        require(len(table) >= 1, "no row")
    elif which == 14:
        numbers = np.ndim(p) == 2 and np.size(p) and np.asarray(p).dtype.kind in "fiu"
        confidences = np.max(p, axis=1) if numbers else p
        hits = np.asarray(y) == 0
        found = metrics.bins_by_domain(confidences, hits, domains, **bins)
        check_between([sums.calibration_error() for sums in found.values()], 0, 1, "ece")
        check_between(dc.compare_domains(found, level=case["level"])["ece"], 0, 1, "ece")
    else:
        _check_evaluation(case)


def _check_curve(curve: Any) -> None:
    full = curve.n > 0
    for values in (curve.confidence, curve.accuracy, curve.low, curve.high):
        check_between(values[full], 0, 1, "a reliability curve")


def _check_evaluation(case: dict[str, Any]) -> None:
    """Tables of scores by domain."""
    logits = dc.logits_from_probabilities(case["probabilities"])
    data = dc.CalibrationData(logits, case["labels"], domains=case["domains"])
    fitted = dc.TemperatureScaling().fit(data, sample_weight=case["weight"])
    table = dc.score_table(fitted, data, n_bins=case["n_bins"])
    check_between(table["ece"], 0, 1, "ece")
    check_between(table["brier"], 0, 2, "brier")


TARGETS = (
    Target("fit", _make_fit, _check_fit, 3.0),
    Target("metric", _make_metric, _check_metric, 1.5),
)

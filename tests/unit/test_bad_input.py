"""Whatever arrives: it works, or one InputError names the argument and the cure."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression

import domaincal as dc
from support import (
    CALIBRATORS,
    fit,
    probabilities,
    small_domains,
    temperatures,
)

DATA = small_domains()
N, N_CLASSES = DATA.logits.shape
every_calibrator = pytest.mark.parametrize("make", CALIBRATORS.values(), ids=CALIBRATORS)


def _put(array, index, value):
    changed = np.array(array, copy=True)
    changed[index] = value
    return changed


def _strings(*, empty):
    names = np.array([f"d{k % 3}" for k in range(N)], object)
    names[4] = empty
    return names


# What is wrong: argument, value, and what the message must say.
BAD_FIT = {
    "nan logits": ("logits", _put(DATA.logits, (3, 1), np.nan), r"logits contains NaN \(row 3, column 1\)"),
    "inf logits": ("logits", _put(DATA.logits, (3, 1), np.inf), r"logits contains inf \(row 3"),
    "-inf logits": ("logits", _put(DATA.logits, (3, 1), -np.inf), r"logits contains -inf .* lift masked logits"),
    "1-D logits": ("logits", DATA.logits[:, 0], r"logits must have two dimensions.*logits_from_scores"),
    "3-D logits": ("logits", DATA.logits[:, :, None], r"logits must have two dimensions"),
    "one class": ("logits", DATA.logits[:, :1], r"at least 2 classes, got 1"),
    "no rows": ("logits", DATA.logits[:0], r"logits is empty"),
    "strings": ("logits", DATA.logits.astype(str), r"logits must be an array of real numbers"),
    "objects": ("logits", _put(DATA.logits.astype(object), (0, 0), "x"), r"logits .* real numbers"),
    "ragged": ("logits", [[1.0, 2.0], [3.0]], r"logits must be an array of real numbers, got list"),
    "complex": ("logits", DATA.logits * 1j, r"Complex data not supported: logits"),
    "sparse": ("logits", scipy.sparse.csr_array(DATA.logits), r"logits.*toarray|two dimensions"),
    "label too large": ("y", _put(DATA.labels, 7, N_CLASSES), r"y contains 5, outside the classes 0..4"),
    "label negative": ("y", _put(DATA.labels, 7, -1), r"y contains -1, outside"),
    "label 1.5": ("y", _put(DATA.labels.astype(float), 0, 1.5), r"y must be integer class indices 0..4, got 1.5 in row 0"),
    "label nan": ("y", _put(DATA.labels.astype(float), 6, np.nan), r"got nan in row 6"),
    "label names": ("y", DATA.labels.astype(str), r"y must be integer class indices.*row 0.*column's number"),
    "one-hot": ("y", np.eye(N_CLASSES)[DATA.labels], r"y must be a 1-D.*argmax"),
    "short labels": ("y", DATA.labels[:-1], rf"y has {N - 1} rows, but the logits .* have {N}"),
    "nan weight": ("sample_weight", _put(np.ones(N), 3, np.nan), r"sample_weight contains nan"),
    "negative weight": ("sample_weight", _put(np.ones(N), 3, -1.0), r"sample_weight contains -1"),
    "huge weight": ("sample_weight", np.full(N, 1e308), r"sample_weight sums to inf"),
    "masked": ("logits", np.ma.masked_less(DATA.logits, 0), r"logits is a masked array"),
    "nothing": ("logits", None, r"logits is None"),
    "no labels": ("y", None, r"y is None"),
    "no weight": ("sample_weight", np.zeros(N), r"sample_weight sums to zero"),
    "short weight": ("sample_weight", np.ones(N - 1), r"sample_weight has"),
}  # fmt: skip
BAD_DOMAINS = {
    "missing": ("domains", None, r"needs domains; pass domains="),
    "short": ("domains", DATA.domains[:-1], r"domains has"),
    "2-D": ("domains", np.stack([DATA.domains] * 2, axis=1), r"domains must be a 1-D"),
    "set": ("domains", {1, 2}, r"domains must be a list or array"),
    "huge": ("domains", [2**70 + k for k in range(N)], r"integers \(of 64 bits\)"),
    "overflow": ("domains", np.arange(N) * 1e300, r"got 1e\+300 in row 1"),
    "booleans": ("domains", np.arange(N) % 2 == 0, r"got bool"),
    "objects": ("domains", (np.arange(N) % 2 == 0).astype(object), r"got bool"),
    "mixed": ("domains", _strings(empty=4), r"all integers .* or all strings, got int and str"),
    "mixed list": ("domains", list(_strings(empty=4)), r"all integers .* or all strings"),
    "none": ("domains", _strings(empty=None), r"no value in row 4"),
    "nan": ("domains", _put(np.zeros(N), 4, np.nan), r"got nan in row 4"),
    "fraction": ("domains", np.full(N, 0.5), r"integers or strings, got 0.5 in row 0"),
    "weightless": ("sample_weight", (DATA.domains != "domain-0") * 1.0, r"sums to zero in domain 'domain-0'"),
}  # fmt: skip
BAD_FEATURES = {
    "missing": ("features", None, r"MultiDomainTemperatureScaling needs features; pass features="),
    "1-D": ("features", DATA.features[:, 0], r"features must have two dimensions"),
    "4-D": ("features", DATA.features[:, :, None, None], r"features must.*reshape"),
    "nan": ("features", _put(DATA.features, (5, 2), np.nan), r"features contains NaN \(row 5, column 2"),
    "inf": ("features", _put(DATA.features, (5, 2), np.inf), r"features contains inf"),
    "short": ("features", DATA.features[:-1], r"features has"),
    "no columns": ("features", DATA.features[:, :0], r"at least one column"),
    "huge": ("features", DATA.features * 1e200, r"too large to be squared"),
}  # fmt: skip


def _fit_with(calibrator, argument, value):
    arguments = {
        "logits": DATA.logits, "y": DATA.labels, "features": DATA.features, "domains": DATA.domains,
        argument: value,
    }  # fmt: skip
    return calibrator.fit(arguments.pop("logits"), arguments.pop("y"), **arguments)


@pytest.mark.parametrize("case", BAD_FIT.values(), ids=BAD_FIT)
@pytest.mark.parametrize("name", ["msp", "ts", "domain-ts", "md-ts", "histogram", "bbq-rest"])
def test_bad_rows(kernel, name, case):
    argument, value, message = case
    with pytest.raises(dc.errors.InputError, match=message):
        _fit_with(CALIBRATORS[name](), argument, value)


@pytest.mark.parametrize("case", BAD_DOMAINS.values(), ids=BAD_DOMAINS)
@pytest.mark.parametrize("name", ["domain-ts", "md-ts"])
def test_bad_domains(name, case):
    argument, value, message = case
    with pytest.raises(dc.errors.InputError, match=message):
        _fit_with(CALIBRATORS[name](), argument, value)


@pytest.mark.parametrize("case", BAD_FEATURES.values(), ids=BAD_FEATURES)
@pytest.mark.parametrize("name", ["md-ts", "md-ts-intercept", "md-ts-ridge"])
def test_bad_features(name, case):
    argument, value, message = case
    with pytest.raises(dc.errors.InputError, match=message):
        _fit_with(CALIBRATORS[name](), argument, value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"head": "lasso"}, r"head must be one of 'ols', .* scikit-learn regressor, got 'lasso'"),
        ({"target": "T"}, r"target must be one of"),
        ({"domain_weight": "row"}, r"domain_weight must be one of"),
        ({"clip": (2.0, 1.0)}, r"clip must be 'auto', None or a pair"),
        ({"clip": "none"}, r"clip must be"),
        ({"clip": 3.0}, r"clip must be"),
        ({"head": "ridge", "alpha": -1.0}, r"alpha must be a number >= 0"),
        ({"head": "ridge", "alpha": "x"}, r"alpha must be a number"),
        ({"alpha": 1.0}, r"alpha=1.0 is for head='ridge' only, got head='ols'"),
        ({"clip": {1.0, 2.0}}, r"clip must be"),
        ({"clip": np.array([1.0, 2.0])}, r"clip must be"),
        ({"head": np.array(["ols"])}, r"head must be one of"),
        ({"fit_intercept": "no"}, r"fit_intercept must be True or False"),
        ({"head": LinearRegression}, r"an instance of a scikit-learn regressor, got <class"),
        ({"head": LogisticRegression()}, r"an instance of a scikit-learn regressor"),
        ({"head": None}, r"head must be one of"),
        ({"features": "embedding"}, r"features must be 'logits' or None"),
        ({"features": DATA.features}, r"features must be 'logits' or None"),
        ({"head": "krr", "max_rows": 0}, r"max_rows must be a whole number >= 1"),
        ({"head": "krr", "max_rows": 5}, r"max_rows=5 is less than the 6 domains"),
        ({"head": "krr", "nystroem": 0}, r"nystroem must be a whole number >= 1"),
        (
            {"head": "knn", "nystroem": 5},
            r"nystroem=5 is for head='krr' only, got head='knn'; leave it out",
        ),
        (
            {"head": "huber", "alpha": 1.0},
            r"alpha=1.0 is for head='ridge' only, got head='huber'; give a regressor",
        ),
        ({"head": "knn", "domain_weight": "equal"}, r"no meaning for head='knn'"),
        ({"head": "krr", "random_state": -1}, r"random_state must be"),
    ],
)
def test_bad_parameters(options, message):
    with pytest.raises(dc.errors.InputError, match=message):
        fit(dc.MultiDomainTemperatureScaling(**options), DATA)


@pytest.mark.parametrize(
    ("calibrator", "message"),
    [
        (dc.HistogramBinning(0), r"n_bins must be a whole number >= 1, got 0"),
        (dc.HistogramBinning(strategy="equal"), r"strategy must be one of 'uniform', 'quantile'"),
        (dc.HistogramBinning(scheme="ovr"), r"scheme must be one of 'top-label', 'one-vs-rest'"),
        (dc.IsotonicCalibration(scheme=None), r"scheme must be one of"),
        (dc.BayesianBinning(scheme="all"), r"scheme must be one of"),
    ],
)
def test_bad_parameters_of_score_maps(calibrator, message):
    with pytest.raises(dc.errors.InputError, match=message):
        fit(calibrator, DATA)


@pytest.mark.parametrize("scheme", ["top-label", "one-vs-rest"])
@pytest.mark.parametrize("method", ["predict_proba", "predict_confidence"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_bad_logits_of_score_maps(kernel, scheme, method, bad):
    z = _put(DATA.logits, (5, 2), bad)
    with pytest.raises(dc.errors.InputError, match=r"logits contains .* \(row 5, column 2\)"):
        dc.IsotonicCalibration(scheme=scheme).fit(z, DATA.labels)
    predict = getattr(dc.IsotonicCalibration(scheme=scheme).fit(DATA.logits, DATA.labels), method)
    with pytest.raises(dc.errors.InputError, match=r"logits contains .* \(row 5, column 2\)"):
        predict(z)
    with pytest.raises(dc.errors.InputError, match=r"logits have 4 classes"):
        predict(DATA.logits[:, :4])


@pytest.mark.parametrize("method", ["predict_proba", "predict_confidence", "predict_temperature"])
def test_bad_prediction(kernel, method):
    predict = getattr(fit(dc.MultiDomainTemperatureScaling(), DATA), method)
    with pytest.raises(dc.errors.InputError, match=r"needs features"):
        predict(DATA.logits)
    with pytest.raises(dc.errors.InputError, match=r"features have 3 columns, .* fitted with 4"):
        predict(DATA.logits, features=DATA.features[:, :3])
    with pytest.raises(dc.errors.InputError, match=r"logits have 4 classes, .* fitted with 5"):
        predict(DATA.logits[:, :4], features=DATA.features)
    with pytest.raises(dc.errors.InputError, match=r"features contains NaN"):
        predict(DATA.logits, features=_put(DATA.features, (0, 0), np.nan))
    if method != "predict_temperature":
        for bad in (np.nan, np.inf, -np.inf):
            with pytest.raises(dc.errors.InputError, match=r"logits contains"):
                predict(_put(DATA.logits, (5, 2), bad), features=DATA.features)


def test_domain_temperatures_need_domains_and_warn_of_unseen_ones():
    fitted = fit(dc.DomainTemperatureScaling(), DATA)
    with pytest.raises(dc.errors.InputError, match="needs domains"):
        fitted.predict_proba(DATA.logits)
    with pytest.warns(dc.errors.UnseenDomainWarning, match=r"domain 'mars' not seen"):
        t = fitted.predict_temperature(DATA.logits[:2], domains=["mars", "domain-1"])
    assert t.tolist() == [fitted.temperature_, fitted.domain_temperatures_["domain-1"]]


def _read_only(a):
    a = a.copy()
    a.flags.writeable = False
    return a


def _strided(a):
    wide = np.zeros((a.shape[0] * 2, a.shape[1] * 3), a.dtype)
    wide[::2, ::3] = a
    return wide[::2, ::3]


FORMS = {
    "read-only": _read_only,
    "fortran": np.asfortranarray,
    "strided": _strided,
    "big-endian": lambda a: a.astype(">f8"),
    "big-endian single": lambda a: a.astype(">f4"),
    "longdouble": lambda a: a.astype(np.longdouble),
    "list": lambda a: a.tolist(),
    "object": lambda a: a.astype(object),
    "frame": pd.DataFrame,
}


@every_calibrator
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_other_forms_of_the_same_numbers(kernel, make, form):
    data = dc.CalibrationData(
        DATA.logits.astype(np.float32).astype(np.float64), labels=DATA.labels,
        features=DATA.features.astype(np.float32).astype(np.float64), domains=DATA.domains,
    )  # fmt: skip
    expected = fit(make(), data)
    logits, features = form(data.logits), form(data.features)
    found = make().fit(logits, data.labels, features=features, domains=data.domains)
    given = {"features": features, "domains": data.domains}
    p = probabilities(expected, data)
    np.testing.assert_allclose(found.predict_proba(logits, **given), p, rtol=1e-4, atol=1e-6)
    confidence = found.predict_confidence(logits, **given)
    predicted = data.logits.argmax(axis=1)
    np.testing.assert_allclose(confidence, p[np.arange(N), predicted], rtol=1e-4)


def test_integer_logits(kernel):
    z = np.round(DATA.logits * 3).astype(np.int32)
    found = dc.TemperatureScaling().fit(z, DATA.labels)
    expected = dc.TemperatureScaling().fit(z.astype(float), DATA.labels)
    assert found.temperature_ == pytest.approx(expected.temperature_, rel=1e-12)
    assert found.predict_proba(z).dtype == np.float64


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_probabilities_of_single_precision(dtype):
    z = DATA.logits.astype(dtype)
    p = dc.TemperatureScaling().fit(z, DATA.labels).predict_proba(z)
    assert p.dtype == np.float32
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-6)


@pytest.mark.parametrize(
    "form",
    [list, pd.Series, pd.Categorical, np.array, lambda d: pd.array(d, dtype="string")],
    ids=["list", "series", "categorical", "array", "string"],
)
def test_forms_of_domains(form):
    names = [str(d) for d in DATA.domains]
    found = dc.DomainTemperatureScaling().fit(DATA.logits, DATA.labels, domains=form(names))
    expected = fit(dc.DomainTemperatureScaling(), DATA).domain_temperatures_
    assert found.domain_temperatures_.to_dict() == pytest.approx(expected.to_dict())
    assert all(isinstance(name, str) for name in found.domain_temperatures_.index)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.uint16, np.float64, object])
def test_integer_domains(dtype):
    codes = np.unique(DATA.domains, return_inverse=True)[1].astype(dtype)
    fitted = dc.DomainTemperatureScaling().fit(DATA.logits, DATA.labels, domains=codes)
    assert fitted.domain_temperatures_.index.tolist() == list(range(6))
    fitted.predict_proba(DATA.logits, domains=codes)


def _degenerate(name):
    z, y = DATA.logits.copy(), DATA.labels.copy()
    odd = DATA.domains == "domain-3"
    if name == "all right":
        y[odd] = z[odd].argmax(axis=1)
    elif name == "all wrong":
        y[odd] = z[odd].argmin(axis=1)
    elif name == "all equal":
        z[odd] = 2.5
    keep = np.ones(N, bool)
    if name in ("three rows", "one row"):
        keep[np.flatnonzero(odd)[3 if name == "three rows" else 1 :]] = False
    return dc.CalibrationData(
        z[keep], labels=y[keep], features=DATA.features[keep], domains=DATA.domains[keep]
    )


@pytest.mark.parametrize("name", ["all right", "all wrong", "all equal", "three rows", "one row"])
@pytest.mark.parametrize("method", ["domain-ts", "md-ts", "md-ts-log", "md-ts-ridge"])
def test_a_degenerate_domain_is_named_and_left_out(kernel, name, method):
    data = _degenerate(name)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted = fit(CALIBRATORS[method](), data)
    wanted = dc.errors.SmallDomainWarning if "row" in name else dc.errors.BoundaryWarning
    reason = {
        "all right": "No row is wrong", "all wrong": "The labels contradict the logits",
        "all equal": "all equal",
    }  # fmt: skip
    named = [w for w in caught if issubclass(w.category, wanted)]
    assert len(named) == 1
    assert "in domain 'domain-3'" in str(named[0].message)
    assert reason.get(name, "add rows or merge domains") in str(named[0].message)
    assert named[0].filename.endswith("support.py")  # the line that called fit
    t = fitted.domain_temperatures_
    assert (np.isfinite(t) & (t > 0)).all()
    assert len(t) == 6
    predicted = temperatures(fitted, data)
    assert (np.isfinite(predicted) & (predicted > 0)).all()
    assert "domain-3" not in fitted.used_domains_
    if method == "domain-ts":
        np.testing.assert_array_equal(predicted[data.domains == "domain-3"], fitted.temperature_)
    else:
        rest = fit(CALIBRATORS[method](), data.select(data.domains != "domain-3"))
        np.testing.assert_allclose(fitted.coef_, rest.coef_, rtol=1e-6, atol=1e-9)


@every_calibrator
@pytest.mark.parametrize("right", [True, False])
@pytest.mark.filterwarnings("ignore::domaincal.DomaincalWarning")
def test_all_rows_right_or_wrong(kernel, make, right):
    labels = DATA.logits.argmax(axis=1) if right else DATA.logits.argmin(axis=1)
    data = dc.CalibrationData(
        DATA.logits, labels=labels, features=DATA.features, domains=DATA.domains
    )
    p = probabilities(fit(make(), data), data)
    assert (np.isfinite(p) & (p >= 0)).all()
    np.testing.assert_allclose(p.sum(axis=1), 1.0)


@pytest.mark.filterwarnings("ignore::domaincal.errors.BoundaryWarning")
def test_no_usable_domain_gives_the_pooled_temperature():
    domains = np.arange(N) // 5
    with (
        pytest.warns(dc.errors.SmallDomainWarning, match=r"and 86 more"),
        pytest.warns(dc.errors.SmallDomainWarning, match=r"every row gets the pooled temperature"),
    ):
        fitted = dc.MultiDomainTemperatureScaling("ridge").fit(
            DATA.logits, DATA.labels, features=DATA.features, domains=domains
        )
    t = fitted.predict_temperature(DATA.logits, features=DATA.features)
    np.testing.assert_allclose(t, fitted.temperature_)
    assert len(fitted.used_domains_) == 0


@pytest.mark.parametrize("scale", [1e-4, 1e4, 1e12])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_large_and_small_logits(kernel, scale, dtype):
    z = (DATA.logits * scale).astype(dtype)
    fitted = dc.TemperatureScaling().fit(z, DATA.labels)
    expected = dc.TemperatureScaling().fit(DATA.logits, DATA.labels).temperature_
    assert fitted.temperature_ == pytest.approx(scale * expected, rel=1e-5)
    p = fitted.predict_proba(z)
    assert np.isfinite(p).all()


def test_logits_beyond_their_precision(kernel):
    z = DATA.logits.astype(np.float64) * 1e300
    with pytest.raises(dc.errors.InputError, match="spread too far"), np.errstate(over="ignore"):
        dc.TemperatureScaling().fit(z, DATA.labels)


METRICS = [
    dc.expected_calibration_error,
    dc.excess_calibration_error,
    dc.negative_log_likelihood,
    dc.brier_score,
    dc.metrics.accuracy,
    dc.reliability_curve,
]


@pytest.mark.parametrize("metric", METRICS, ids=lambda m: m.__name__)
def test_bad_probabilities(metric):
    good, y = np.array([[0.2, 0.8], [0.5, 0.5]]), [1, 0]
    metric(good, y)
    for p, message in [
        ([[0.2, 0.8], [0.5, 0.6]], r"sum to 1 .* row 1 is .*softmax"),
        ([[1.2, -0.2], [0.5, 0.5]], r">= 0 .* row 0"),
        ([[np.nan, 1.0], [0.5, 0.5]], r"probabilities contains NaN \(row 0, column 0"),
        ([0.2, 0.8], r"probabilities must have shape.*column_stack"),
        (np.empty((0, 2)), r"probabilities is empty"),
    ]:
        with pytest.raises(dc.errors.InputError, match=message):
            metric(p, y if len(p) else [])
    with pytest.raises(dc.errors.InputError, match=r"labels contains 2"):
        metric(good, [1, 2])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.5, 1.5], [1, 0]), r"confidences contains 1.5 \(row 1\)"),
        (([0.5, np.nan], [1, 0]), r"confidences contains nan"),
        (([[0.5, 0.5]], [1, 0]), r"confidences must be 1-D"),
        (([0.5, 0.5], [1, 2]), r"hits contains 2"),
        (([0.5, 0.5], [1]), r"hits has 1 rows"),
        (([], []), r"confidences is empty"),
    ],
)
def test_bad_confidences(arguments, message):
    with pytest.raises(dc.errors.InputError, match=message):
        dc.metrics.confidence_calibration_error(*arguments)


@pytest.mark.parametrize("n_bins", [0, -1, 2.5, True, "15"])
def test_bad_bins(n_bins):
    with pytest.raises(dc.errors.InputError, match="n_bins must be a whole number >= 1"):
        dc.metrics.confidence_calibration_error([0.5], [1], n_bins=n_bins)


def test_bins_can_be_summed_but_not_mixed():
    a, b = (dc.metrics.BinSums.from_confidences([0.5], [1], n_bins=m) for m in (5, 6))
    assert sum([a, a]).n == 2.0
    with pytest.raises(dc.errors.InputError, match="same edges"):
        a + b
    with pytest.raises(TypeError):
        sum([a, 3])


def test_the_floor_needs_whole_weights():
    p, y = [[0.75, 0.25], [0.75, 0.25]], [0, 1]
    repeated = dc.excess_calibration_error(p * 2, y * 2)
    assert dc.excess_calibration_error(p, y, sample_weight=[2, 2]) == pytest.approx(repeated)
    assert dc.expected_calibration_error(p, y, sample_weight=[0.5, 0.5]) == 0.25
    sums = dc.metrics.BinSums.from_confidences([0.75, 0.75], [1, 0], sample_weight=[0.3, 0.3])
    for chance in (sums.floor, sums.interval, sums.debiased_squared_error, sums.excess_error):
        with pytest.raises(dc.errors.InputError, match=r"gives a bin 0\.6; use whole weights"):
            chance()


def test_bad_features_of_a_domain_that_is_left_out():
    domains = np.where(np.arange(N) < 3, "tiny", DATA.domains)
    bad = _put(DATA.features, (1, 1), np.nan)
    with (
        pytest.warns(dc.errors.SmallDomainWarning),
        pytest.raises(dc.errors.InputError, match="row 1, column 1"),
    ):
        dc.MultiDomainTemperatureScaling().fit(
            DATA.logits, DATA.labels, features=bad, domains=domains
        )


def test_boolean_labels():
    z = DATA.logits[:, :2]
    found = dc.TemperatureScaling().fit(z, DATA.labels > 2)
    expected = dc.TemperatureScaling().fit(z, (DATA.labels > 2).astype(int))
    assert found.temperature_ == expected.temperature_
    assert dc.negative_log_likelihood([[0.3, 0.7], [0.9, 0.1]], [True, False]) == pytest.approx(
        -np.log([0.7, 0.9]).mean()
    )


def test_a_failed_fit_leaves_what_was_there():
    calibrator = dc.MultiDomainTemperatureScaling("ridge")
    bad = _put(DATA.features, (3, 1), np.nan)
    with pytest.raises(dc.errors.InputError):
        calibrator.fit(DATA.logits, DATA.labels, features=bad, domains=DATA.domains)
    with pytest.raises(NotFittedError):
        calibrator.predict_proba(DATA.logits, features=DATA.features)
    before = dict(vars(fit(calibrator, DATA)))
    with pytest.raises(dc.errors.InputError):
        calibrator.fit(2 * DATA.logits, DATA.labels, features=bad, domains=DATA.domains)
    assert vars(calibrator) == before


def test_a_refit_leaves_nothing_of_the_first():
    calibrator = fit(dc.MultiDomainTemperatureScaling("ridge"), DATA)
    assert calibrator.head_parameters_["alpha"] > 0
    assert len(calibrator.head_search_) == 9
    fit(calibrator.set_params(head="ols"), DATA)
    assert calibrator.head_parameters_ == {}
    assert len(calibrator.head_search_) == 0


def test_features_without_a_mean_are_warned_of():
    """Without an intercept, predictions for standardised features collapse to the lower clip."""
    standard = (DATA.features - DATA.features.mean(axis=0)) / DATA.features.std(axis=0)
    arguments = {"features": standard, "domains": DATA.domains}
    cures = (
        r"try fit_intercept=True \(standardised features need it\), target='log' or another head"
    )
    with pytest.warns(dc.errors.PoorHeadWarning, match=cures):
        dc.MultiDomainTemperatureScaling().fit(DATA.logits, DATA.labels, **arguments)
    dc.MultiDomainTemperatureScaling(fit_intercept=True).fit(DATA.logits, DATA.labels, **arguments)


def test_logits_from_probabilities():
    p = np.array([[0.2, 0.8], [1.0, 0.0]])
    z = dc.logits_from_probabilities(p)
    np.testing.assert_allclose(z, np.log([[0.2, 0.8], [1.0, 1e-12]]))
    # The two cases that public packages tell apart by guessing.
    with pytest.raises(dc.errors.InputError, match="sum to 1"):
        dc.logits_from_probabilities([[0.2, 0.8], [0.5, 0.6]])
    for floor in (0.0, 1.0, "x"):
        with pytest.raises(dc.errors.InputError, match="floor must be a number > 0 and < 1"):
            dc.logits_from_probabilities(p, floor=floor)


def test_logits_from_scores():
    s = np.array([-1.0, 0.0, 3.0])
    p = (
        dc.MaxSoftmax()
        .fit(dc.logits_from_scores(s), [0, 1, 1])
        .predict_proba(dc.logits_from_scores(s))
    )
    np.testing.assert_allclose(p[:, 1], 1 / (1 + np.exp(-s)))
    for bad, message in [([[1.0, 2.0]], "1-D"), ([np.nan], "scores contains nan"), ([], "1-D"),
                         (["a"], "real numbers"), ([1j], "Complex"), (None, "None")]:  # fmt: skip
        with pytest.raises(dc.errors.InputError, match=message):
            dc.logits_from_scores(bad)

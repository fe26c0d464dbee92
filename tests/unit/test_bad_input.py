"""Invalid arguments of calibrators: one InputError names the argument and the cure."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression

import domaincal as dc
from support import CALIBRATORS, fit, small_domains

DATA = small_domains()
N, N_CLASSES = DATA.logits.shape


def _replace_entry(array, index, value):
    changed = np.array(array, copy=True)
    changed[index] = value
    return changed


def _domain_names(*, empty):
    names = np.array([f"d{k % 3}" for k in range(N)], object)
    names[4] = empty
    return names


# Argument, invalid value, and the expected message.
BAD_FIT = {
    "nan logits": ("logits", _replace_entry(DATA.logits, (3, 1), np.nan), r"logits contains NaN \(row 3, column 1\)"),
    "inf logits": ("logits", _replace_entry(DATA.logits, (3, 1), np.inf), r"logits contains inf \(row 3"),
    "-inf logits": ("logits", _replace_entry(DATA.logits, (3, 1), -np.inf), r"logits contains -inf .* raise masked logits"),
    "1-D logits": ("logits", DATA.logits[:, 0], r"logits must have two dimensions.*logits_from_scores"),
    "3-D logits": ("logits", DATA.logits[:, :, None], r"logits must have two dimensions"),
    "one class": ("logits", DATA.logits[:, :1], r"at least 2 classes, got 1"),
    "no rows": ("logits", DATA.logits[:0], r"logits is empty"),
    "strings": ("logits", DATA.logits.astype(str), r"logits must be an array of real numbers"),
    "objects": ("logits", _replace_entry(DATA.logits.astype(object), (0, 0), "x"), r"logits .* real numbers"),
    "ragged": ("logits", [[1.0, 2.0], [3.0]], r"logits must be an array of real numbers, got list"),
    "complex": ("logits", DATA.logits * 1j, r"Complex data not supported: logits"),
    "sparse": ("logits", scipy.sparse.csr_array(DATA.logits), r"logits.*toarray|two dimensions"),
    "label too large": ("y", _replace_entry(DATA.labels, 7, N_CLASSES), r"y contains 5, outside the classes 0..4"),
    "label negative": ("y", _replace_entry(DATA.labels, 7, -1), r"y contains -1, outside"),
    "label 1.5": ("y", _replace_entry(DATA.labels.astype(float), 0, 1.5), r"y must be integer class indices 0..4, got 1.5 in row 0"),
    "label nan": ("y", _replace_entry(DATA.labels.astype(float), 6, np.nan), r"got nan in row 6"),
    "label names": ("y", DATA.labels.astype(str), r"y must be integer class indices.*row 0.*class_names"),
    "one-hot": ("y", np.eye(N_CLASSES)[DATA.labels], r"y must be a 1-D.*argmax"),
    "short labels": ("y", DATA.labels[:-1], rf"y has {N - 1} rows, but the logits .* have {N}"),
    "nan weight": ("sample_weight", _replace_entry(np.ones(N), 3, np.nan), r"sample_weight contains nan"),
    "negative weight": ("sample_weight", _replace_entry(np.ones(N), 3, -1.0), r"sample_weight contains -1"),
    "huge weight": ("sample_weight", np.full(N, 1e308), r"sample_weight sums to inf"),
    "large weight": ("sample_weight", np.full(N, 1e99), r"sums to 4.8e\+101, more than 1e\+100; divide"),
    "small weight": ("sample_weight", np.full(N, 1e-121), r"contains 1e-121, less than 1e-120; multiply"),
    "mixed weights": ("sample_weight", np.where(np.arange(N) % 2, 1e-300, 1e90), r"contains 1e-300, .* to 0"),
    "subnormal": ("sample_weight", _replace_entry(np.ones(N), 5, 5e-324), r"contains 4.94e-324, .* to 0"),
    "time labels": ("y", DATA.labels.astype("m8[s]"), r"y must be integer class indices"),
    "date labels": ("y", DATA.labels.astype("M8[D]"), r"y must be integer class indices"),
    "complex labels": ("y", DATA.labels + 0j, r"y must be integer class indices"),
    "byte labels": ("y", DATA.labels.astype("S1"), r"y must be integer class indices"),
    "void labels": ("y", np.zeros(N, "V4"), r"y must be integer class indices"),
    "huge labels": ("y", [10**400] * N, r"y must be integer class indices"),
    "masked labels": ("y", np.ma.array(DATA.labels, mask=DATA.labels == 1), r"y is a masked array"),
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
    "mixed": ("domains", _domain_names(empty=4), r"all integers .* or all strings, got int and str"),
    "mixed list": ("domains", list(_domain_names(empty=4)), r"all integers .* or all strings"),
    "none": ("domains", _domain_names(empty=None), r"no value in row 4"),
    "nan": ("domains", _replace_entry(np.zeros(N), 4, np.nan), r"got nan in row 4"),
    "times": ("domains", np.arange(N).astype("m8[s]"), r"integers .* or all strings, got timedelta64\[s\]"),
    "time objects": ("domains", [np.timedelta64(k, "s") for k in range(N)], r"got timedelta64"),
    "dates": ("domains", np.arange(N).astype("M8[D]"), r"got datetime64\[D\]"),
    "void": ("domains", np.zeros(N, "V4"), r"got void32"),
    "records": ("domains", np.zeros(N, [("a", int), ("b", float)]), r"got void128"),
    "bytes": ("domains", np.full(N, b"a"), r"got bytes8"),
    "complex": ("domains", np.full(N, 1j), r"got complex128"),
    "masked": ("domains", np.ma.array(np.arange(N) % 3, mask=np.arange(N) == 4), r"domains is a masked array"),
    "surrogate": ("domains", _domain_names(empty="a\ud800"), r"domains contains 'a\\ud800', .* lone surrogate.*rename"),
    "zero": ("domains", _domain_names(empty="a\0"), r"zero character"),
    "long": ("domains", _domain_names(empty="a" * 1001), r"has 1001 characters; use names of at most 1000"),
    "fraction": ("domains", np.full(N, 0.5), r"integers or strings, got 0.5 in row 0"),
    "weightless": ("sample_weight", (DATA.domains != "domain-0") * 1.0, r"sums to zero in domain 'domain-0'"),
}  # fmt: skip


BAD_FEATURES = {
    "missing": ("features", None, r"MultiDomainTemperatureScaling needs features; pass features="),
    "1-D": ("features", DATA.features[:, 0], r"features must have two dimensions"),
    "4-D": ("features", DATA.features[:, :, None, None], r"features must.*reshape"),
    "nan": ("features", _replace_entry(DATA.features, (5, 2), np.nan), r"features contains NaN \(row 5, column 2"),
    "inf": ("features", _replace_entry(DATA.features, (5, 2), np.inf), r"features contains inf"),
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
def test_the_error_names_invalid_rows(kernel, name, case):
    argument, value, message = case
    with pytest.raises(dc.errors.InputError, match=message):
        _fit_with(CALIBRATORS[name](), argument, value)


@pytest.mark.parametrize("case", BAD_DOMAINS.values(), ids=BAD_DOMAINS)
@pytest.mark.parametrize("name", ["domain-ts", "md-ts"])
def test_the_error_names_invalid_domains(name, case):
    argument, value, message = case
    with pytest.raises(dc.errors.InputError, match=message):
        _fit_with(CALIBRATORS[name](), argument, value)


@pytest.mark.parametrize("label", ["b\ud800", "b\0"])
@pytest.mark.parametrize("dtype", [object, None])
def test_a_label_is_not_taken_for_a_similar_class(label, dtype):
    """numpy's strings would drop the zero."""
    frame = pd.DataFrame(DATA.logits[:4, :2], columns=["a", "b"])
    labels = ["a", label, "a", "b"]
    labels = labels if dtype is None else np.array(labels, dtype)
    with pytest.raises(
        dc.errors.InputError, match=r"y contains .* \(row 1\), which is not a class"
    ):
        dc.MaxSoftmax().fit(frame, labels)


@pytest.mark.parametrize("case", BAD_FEATURES.values(), ids=BAD_FEATURES)
@pytest.mark.parametrize("name", ["md-ts", "md-ts-intercept", "md-ts-ridge"])
def test_the_error_names_invalid_features(name, case):
    argument, value, message = case
    with pytest.raises(dc.errors.InputError, match=message):
        _fit_with(CALIBRATORS[name](), argument, value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"head": "lasso"}, r"head must be one of 'ols', .*'knn', got 'lasso'"),
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
            r"alpha=1.0 is for head='ridge' only, got head='huber'; pass a regressor",
        ),
        ({"head": "knn", "domain_weight": "equal"}, r"no effect on head='knn'"),
        ({"head": "krr", "random_state": -1}, r"random_state must be"),
    ],
)
def test_the_error_names_invalid_parameters(options, message):
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
def test_the_error_names_invalid_parameters_of_score_calibrators(calibrator, message):
    with pytest.raises(dc.errors.InputError, match=message):
        fit(calibrator, DATA)


@pytest.mark.parametrize("scheme", ["top-label", "one-vs-rest"])
@pytest.mark.parametrize("method", ["predict_proba", "predict_confidence"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_score_calibrators_refuse_logits_that_are_not_finite(kernel, scheme, method, bad):
    z = _replace_entry(DATA.logits, (5, 2), bad)
    with pytest.raises(dc.errors.InputError, match=r"logits contains .* \(row 5, column 2\)"):
        dc.IsotonicCalibration(scheme=scheme).fit(z, DATA.labels)
    predict = getattr(dc.IsotonicCalibration(scheme=scheme).fit(DATA.logits, DATA.labels), method)
    with pytest.raises(dc.errors.InputError, match=r"logits contains .* \(row 5, column 2\)"):
        predict(z)
    with pytest.raises(dc.errors.InputError, match=r"logits have 4 classes"):
        predict(DATA.logits[:, :4])


@pytest.mark.parametrize("method", ["predict_proba", "predict_confidence", "predict_temperature"])
def test_predictions_refuse_arrays_that_do_not_match_the_fit(kernel, method):
    predict = getattr(fit(dc.MultiDomainTemperatureScaling(), DATA), method)
    with pytest.raises(dc.errors.InputError, match=r"needs features"):
        predict(DATA.logits)
    with pytest.raises(dc.errors.InputError, match=r"features have 3 columns, .* fitted with 4"):
        predict(DATA.logits, features=DATA.features[:, :3])
    with pytest.raises(dc.errors.InputError, match=r"logits have 4 classes, .* fitted with 5"):
        predict(DATA.logits[:, :4], features=DATA.features)
    with pytest.raises(dc.errors.InputError, match=r"features contains NaN"):
        predict(DATA.logits, features=_replace_entry(DATA.features, (0, 0), np.nan))
    if method != "predict_temperature":
        for bad in (np.nan, np.inf, -np.inf):
            with pytest.raises(dc.errors.InputError, match=r"logits contains"):
                predict(_replace_entry(DATA.logits, (5, 2), bad), features=DATA.features)


def test_domain_temperature_scaling_needs_domains_and_warns_of_unseen_ones():
    fitted = fit(dc.DomainTemperatureScaling(), DATA)
    with pytest.raises(dc.errors.InputError, match="needs domains"):
        fitted.predict_proba(DATA.logits)
    with pytest.warns(dc.errors.UnseenDomainWarning, match=r"domain 'mars' not seen"):
        t = fitted.predict_temperature(DATA.logits[:2], domains=["mars", "domain-1"])
    assert t.tolist() == [fitted.temperature_, fitted.domain_temperatures_["domain-1"]]


def test_features_of_unused_domains_must_be_finite():
    domains = np.where(np.arange(N) < 3, "tiny", DATA.domains)
    bad = _replace_entry(DATA.features, (1, 1), np.nan)
    with (
        pytest.warns(dc.errors.SmallDomainWarning),
        pytest.raises(dc.errors.InputError, match="row 1, column 1"),
    ):
        dc.MultiDomainTemperatureScaling().fit(
            DATA.logits, DATA.labels, features=bad, domains=domains
        )


def test_a_failed_fit_does_not_change_the_calibrator():
    calibrator = dc.MultiDomainTemperatureScaling("ridge")
    bad = _replace_entry(DATA.features, (3, 1), np.nan)
    with pytest.raises(dc.errors.InputError):
        calibrator.fit(DATA.logits, DATA.labels, features=bad, domains=DATA.domains)
    with pytest.raises(NotFittedError):
        calibrator.predict_proba(DATA.logits, features=DATA.features)
    before = dict(vars(fit(calibrator, DATA)))
    with pytest.raises(dc.errors.InputError):
        calibrator.fit(2 * DATA.logits, DATA.labels, features=bad, domains=DATA.domains)
    assert vars(calibrator) == before


def test_a_second_fit_replaces_all_values_of_the_first():
    calibrator = fit(dc.MultiDomainTemperatureScaling("ridge"), DATA)
    assert calibrator.head_parameters_["alpha"] > 0
    assert len(calibrator.head_search_) == 9
    fit(calibrator.set_params(head="ols"), DATA)
    assert calibrator.head_parameters_ == {}
    assert len(calibrator.head_search_) == 0


def test_a_data_frame_with_other_columns_is_sent_to_from_frame():
    frame = pd.DataFrame({"p": [0.1, 0.9], "site": ["a", "b"]})
    with pytest.raises(dc.errors.InputError, match=r"choose the columns with CalibrationData"):
        dc.TemperatureScaling().fit(frame, [0, 1])

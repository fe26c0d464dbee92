"""Containers and dtypes of the arguments: the same numbers give the same predictions."""

from functools import cache

import numpy as np
import pandas as pd
import pytest

import domaincal as dc
from support import CALIBRATORS, fit, probabilities, small_domains

DATA = small_domains()


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


@cache
def _expected(name):
    """Rows that float32 can hold, and the probabilities of the calibrator for float64 arrays."""
    data = small_domains(n_domains=4, n_rows=40)
    data = dc.CalibrationData(
        data.logits.astype(np.float32).astype(np.float64), labels=data.labels,
        features=data.features.astype(np.float32).astype(np.float64), domains=data.domains,
    )  # fmt: skip
    return data, probabilities(fit(CALIBRATORS[name](), data), data)


@pytest.mark.parametrize("name", CALIBRATORS)
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.filterwarnings("ignore::domaincal.errors.PoorHeadWarning")  # the domains are small
def test_predictions_do_not_depend_on_the_container_of_the_numbers(kernel, name, form):
    data, expected = _expected(name)
    logits, features = form(data.logits), form(data.features)
    found = CALIBRATORS[name]().fit(logits, data.labels, features=features, domains=data.domains)
    predictions = found.predict_all(logits, features=features, domains=data.domains)
    np.testing.assert_allclose(predictions.probabilities, expected, rtol=1e-4, atol=1e-6)
    predicted = data.logits.argmax(axis=1)
    confidences = expected[np.arange(len(data)), predicted]
    np.testing.assert_allclose(predictions.confidence, confidences, rtol=1e-4)


def test_integer_logits_equal_float64_logits(kernel):
    z = np.round(DATA.logits * 3).astype(np.int32)
    found = dc.TemperatureScaling().fit(z, DATA.labels)
    expected = dc.TemperatureScaling().fit(z.astype(float), DATA.labels)
    assert found.temperature_ == pytest.approx(expected.temperature_, rel=1e-12)
    assert found.predict_proba(z).dtype == np.float64


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_probabilities_of_half_and_single_precision_logits_are_float32(dtype):
    z = DATA.logits.astype(dtype)
    p = dc.TemperatureScaling().fit(z, DATA.labels).predict_proba(z)
    assert p.dtype == np.float32
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-6)


@pytest.mark.parametrize(
    "form",
    [list, pd.Series, pd.Categorical, np.array, lambda d: pd.array(d, dtype="string")],
    ids=["list", "series", "categorical", "array", "string"],
)
def test_domains_can_be_any_sequence_of_strings(form):
    names = [str(d) for d in DATA.domains]
    found = dc.DomainTemperatureScaling().fit(DATA.logits, DATA.labels, domains=form(names))
    expected = fit(dc.DomainTemperatureScaling(), DATA).domain_temperatures_
    assert found.domain_temperatures_.to_dict() == pytest.approx(expected.to_dict())
    assert all(isinstance(name, str) for name in found.domain_temperatures_.index)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.uint16, np.float64, object])
def test_domains_can_be_integers_of_any_dtype(dtype):
    codes = np.unique(DATA.domains, return_inverse=True)[1].astype(dtype)
    fitted = dc.DomainTemperatureScaling().fit(DATA.logits, DATA.labels, domains=codes)
    assert fitted.domain_temperatures_.index.tolist() == list(range(6))
    fitted.predict_proba(DATA.logits, domains=codes)


def test_boolean_labels_equal_integer_labels():
    z = DATA.logits[:, :2]
    found = dc.TemperatureScaling().fit(z, DATA.labels > 2)
    expected = dc.TemperatureScaling().fit(z, (DATA.labels > 2).astype(int))
    assert found.temperature_ == expected.temperature_
    assert dc.negative_log_likelihood([[0.3, 0.7], [0.9, 0.1]], [True, False]) == pytest.approx(
        -np.log([0.7, 0.9]).mean()
    )

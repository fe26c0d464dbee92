"""Warnings of mistakes that would otherwise be silent: probabilities as logits, other features."""

import warnings

import numpy as np
import pytest
from scipy.special import softmax

import domaincal as dc
from domaincal.evaluation.protocols import evaluate_fitted
from domaincal.report import make_report
from support import small_domains

DATA = small_domains()
P = softmax(DATA.logits, axis=1)
CURE = r"pass domaincal\.logits_from_probabilities\(p\) instead"


def warned(call, category):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [w for w in caught if w.category is category]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_probabilities_passed_as_logits_give_a_warning_and_stay_unchanged(dtype):
    p = P.astype(dtype)
    with pytest.warns(dc.errors.ProbabilitiesWarning, match=CURE) as caught:
        fitted = dc.TemperatureScaling().fit(p, DATA.labels)
    assert [w.filename for w in caught] == [__file__]
    for predict in (fitted.predict_proba, fitted.predict_temperature, fitted.predict_all):
        with pytest.warns(dc.errors.ProbabilitiesWarning, match=CURE):
            predict(p)
    with pytest.warns(dc.errors.ProbabilitiesWarning):
        shown = fitted.predict_proba(p)
    expected = softmax(p.astype(np.float64) / fitted.temperature_, axis=1)
    np.testing.assert_allclose(shown, expected, atol=1e-6)


def test_tensors_and_rounded_probabilities_are_recognised():
    torch = pytest.importorskip("torch")
    tensor = torch.tensor(P)
    hard = np.eye(5, dtype=int)[DATA.labels]  # such as those of a decision tree
    for p in (tensor, tensor.to(torch.bfloat16), P.round(4), P.round(2), P.tolist(), P[:3], hard):
        with pytest.warns(dc.errors.ProbabilitiesWarning):
            dc.MaxSoftmax().fit(p, DATA.labels[: len(p)])


def test_a_tensor_on_a_device_is_recognised(device):
    torch = pytest.importorskip("torch")
    for dtype in (torch.float32, torch.bfloat16):
        p = torch.tensor(P, device=device, dtype=dtype)
        with pytest.warns(dc.errors.ProbabilitiesWarning):
            dc.MaxSoftmax().fit(p, DATA.labels)


OTHER_ROW = np.where(np.arange(len(P))[:, None] == 100, DATA.logits, P)


@pytest.mark.parametrize(
    "logits",
    [
        DATA.logits, np.log(P), dc.logits_from_probabilities(P), OTHER_ROW, 100.0 * P, P - 0.01,
        P[:2], np.zeros((50, 5)),
    ],
    ids=["logits", "log", "converted", "one other row", "percent", "shifted", "two rows",
         "zeros"],
)  # fmt: skip
def test_other_logits_give_no_warning(logits):
    msp = dc.MaxSoftmax().fit(DATA.logits, DATA.labels)
    call = lambda: msp.predict_proba(logits)  # noqa: E731
    assert not warned(call, dc.errors.ProbabilitiesWarning)


def test_few_rows_of_logits_are_read(monkeypatch):
    """The first rows rule out nearly all logits."""
    from domaincal._validation import probabilities

    read = []
    original = probabilities.host_array
    monkeypatch.setattr(
        probabilities, "host_array", lambda z: (read.append(len(z)), original(z))[1]
    )
    many = np.repeat(P, 50, axis=0)
    assert not probabilities.look_like_probabilities(-many)
    assert read == [16]
    assert probabilities.look_like_probabilities(many)
    assert sum(read) == 16 + len(many)


@pytest.mark.parametrize("target", ["temperature", "log", "inverse"])
@pytest.mark.parametrize("clip", ["auto", None, (0.5, 8.0)])
def test_temperatures_at_a_limit_give_a_warning(target, clip):
    fitted = dc.MultiDomainTemperatureScaling(target=target, clip=clip).fit(DATA)
    category = dc.errors.ClippedTemperatureWarning
    assert not warned(lambda: fitted.predict_proba(DATA), category)
    other = -1e4 * DATA.features
    for n_rows, expected in ((len(DATA), 1), (20, 1), (19, 0)):
        rows = slice(n_rows)
        caught = warned(
            lambda rows=rows: fitted.predict_proba(DATA.logits[rows], features=other[rows]),
            category,
        )
        assert [w.filename for w in caught] == [__file__] * expected
    t = fitted.predict_temperature(DATA.logits[:19], features=other[:19])
    assert np.isclose(t[:, None], fitted.clip_).any(axis=1).all()


@pytest.mark.parametrize(("n_clipped", "expected"), [(10, 0), (11, 1)])
def test_a_tenth_of_the_temperatures_may_be_at_a_limit(n_clipped, expected):
    fitted = dc.MultiDomainTemperatureScaling().fit(DATA)
    features = DATA.features[:100].copy()
    features[:n_clipped] *= -1e4
    caught = warned(
        lambda: fitted.predict_confidence(DATA.logits[:100], features=features),
        dc.errors.ClippedTemperatureWarning,
    )
    assert len(caught) == expected
    assert all(str(w.message).startswith("11% of the 100 predicted") for w in caught)


@pytest.mark.parametrize(
    ("calibrator", "knows_distances"),
    [(dc.FeatureTemperatureScaling(), False), (dc.BatchTemperatureScaling(batch="row"), True)],
    ids=["feature-ts", "batch"],
)
def test_rows_unlike_those_of_the_fit_give_a_warning(calibrator, knows_distances):
    """At a limit, or so far away that the temperature tends to the pooled one."""
    fitted = calibrator.fit(DATA)
    category = dc.errors.ClippedTemperatureWarning
    assert not warned(lambda: fitted.predict_proba(DATA), category)
    for factor in (-30.0, -1e6):
        other = factor * DATA.features
        # Temperatures at a limit are reported of 20 rows or more, far rows always.
        for n_rows, expected in ((len(DATA), True), (19, knows_distances), (1, knows_distances)):
            rows = slice(n_rows)
            caught = warned(
                lambda rows=rows, x=other: fitted.predict_proba(
                    DATA.logits[rows], features=x[rows]
                ),
                category,
            )
            assert bool(caught) == expected
            assert all(w.filename == __file__ for w in caught)


def test_the_warning_about_a_far_batch_names_the_pooled_temperature():
    fitted = dc.BatchTemperatureScaling().fit(DATA)
    (caught,) = warned(
        lambda: fitted.predict_proba(DATA.logits, features=1e6 * DATA.features),
        dc.errors.ClippedTemperatureWarning,
    )
    expected = f"their temperatures tend to the pooled temperature {fitted.temperature_:.4g}"
    assert str(caught.message).startswith(f"100% of the {len(DATA)} rows are in batches that are")
    assert expected in str(caught.message)


@pytest.mark.filterwarnings("ignore::domaincal.errors.SmallDomainWarning")
def test_one_temperature_for_all_rows_is_not_at_a_limit():
    two = DATA.select(np.isin(DATA.domains, DATA.domain_names[:2]))
    for calibrator in (dc.BatchTemperatureScaling(), dc.FeatureTemperatureScaling()):
        fitted = calibrator.fit(two)
        if isinstance(calibrator, dc.FeatureTemperatureScaling):
            fitted._store_constant(two.features.shape[1])
        for scale in (1.0, 1e3):
            z, x = scale * two.logits, 1e6 * two.features
            call = lambda f=fitted, z=z, x=x: f.predict_proba(z, features=x)  # noqa: E731
            assert not warned(call, dc.errors.ClippedTemperatureWarning)


SEEN = r"\(--ood\) names domains to which {} was fitted: {}\. Their errors look smaller"


@pytest.mark.parametrize("names", [DATA.domain_names, np.arange(6)], ids=["text", "numbers"])
def test_domains_of_the_fit_that_are_called_unseen_give_a_warning(names):
    codes, _ = DATA.domain_codes
    data = dc.CalibrationData(
        DATA.logits, labels=DATA.labels, features=DATA.features, domains=names[codes]
    )
    known, _ = dc.split_domains(data, [names[5]])
    few, _ = dc.split_domains(known, [names[2]])
    models = {"one": dc.MultiDomainTemperatureScaling().fit(known),
              "other": dc.MultiDomainTemperatureScaling().fit(few)}  # fmt: skip
    with pytest.warns(dc.errors.DomaincalWarning, match=SEEN.format("one", names[2])) as caught:
        table = evaluate_fitted(models, data, ood=[names[2], names[5]])
    assert len(caught) == 1
    assert set(table.loc[table["kind"] == "OOD", "domain"]) == {names[2], names[5]}
    message = SEEN.format("MultiDomainTemperatureScaling", names[2])
    with pytest.warns(dc.errors.DomaincalWarning, match=message):
        make_report(data, model=models["one"], ood=[names[2]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        evaluate_fitted(models, data, ood=[names[5]])

"""TransCal, CPCS, DAC and VectorScaling: batches, samples, degenerate rows and invalid input."""

import numpy as np
import pytest

import domaincal as dc
from domaincal.calibrators.baselines.density_ratio import DensityRatio
from support import CALIBRATORS, fit, given, small_domains, temperatures

DATA = small_domains()
OF_BATCHES = ["transcal", "cpcs"]
WITH_FEATURES = [*OF_BATCHES, "dac"]
ALL = [*WITH_FEATURES, "vector"]


def _replace(data, **arrays):
    names = ("logits", "labels", "features", "domains")
    return dc.CalibrationData(**{name: arrays.get(name, getattr(data, name)) for name in names})


@pytest.mark.parametrize("name", OF_BATCHES)
def test_domains_group_the_rows_of_a_prediction(name):
    calibrator = fit(CALIBRATORS[name](), DATA)
    together = temperatures(calibrator, DATA)
    for domain in np.unique(DATA.domains):
        own = DATA.domains == domain
        batch = DATA.select(own)
        alone = calibrator.predict_temperature(batch.logits, features=batch.features)
        np.testing.assert_allclose(together[own], alone, rtol=1e-12)
    assert len(np.unique(together)) == 6


@pytest.mark.parametrize("name", OF_BATCHES)
def test_a_batch_of_one_row_is_near_equal_weights(name):
    """All temperatures of single rows are nearer to the median than those of whole domains."""
    calibrator = fit(CALIBRATORS[name](), DATA)
    some = DATA.select(np.arange(0, len(DATA), 40))
    ratios = calibrator._source.log_weights([row[None] for row in some.features])
    spread = [np.ptp(log_weight) for log_weight in ratios]
    (of_domain,) = calibrator._source.log_weights([DATA.features[DATA.domains == "domain-1"]])
    assert np.median(spread) < np.ptp(of_domain)
    single = calibrator.predict_temperature(
        some.logits, features=some.features, domains=np.arange(len(some))
    )
    assert (np.isfinite(single) & (single > 0)).all()


@pytest.mark.parametrize("name", WITH_FEATURES)
def test_features_are_needed_at_fit_and_prediction(name):
    with pytest.raises(dc.errors.InputError, match=r"needs features; pass features="):
        CALIBRATORS[name]().fit(DATA.logits, DATA.labels)
    calibrator = fit(CALIBRATORS[name](), DATA)
    with pytest.raises(dc.errors.InputError, match=r"needs features; pass features="):
        calibrator.predict_proba(DATA.logits)
    with pytest.raises(dc.errors.InputError, match=r"features have 3 columns.*fitted with 4"):
        calibrator.predict_proba(DATA.logits, features=DATA.features[:, :3])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("name", WITH_FEATURES)
def test_features_that_are_not_finite_are_refused(name, bad):
    x = DATA.features.copy()
    x[7, 2] = bad
    message = rf"features contains {str(bad).replace('nan', 'NaN')} \(row 7, column 2\)"
    with pytest.raises(dc.errors.InputError, match=message):
        CALIBRATORS[name]().fit(DATA.logits, DATA.labels, features=x)
    calibrator = fit(CALIBRATORS[name](), DATA)
    with pytest.raises(dc.errors.InputError, match=message):
        calibrator.predict_proba(DATA.logits, features=x)
    with pytest.raises(dc.errors.InputError, match=message):
        calibrator.predict_proba(DATA.logits, features=x, domains=DATA.domains)


@pytest.mark.parametrize("name", ALL)
def test_logits_that_are_not_finite_are_refused(name):
    z = DATA.logits.copy()
    z[5, 1] = np.nan
    message = r"logits contains NaN \(row 5, column 1\)"
    with pytest.raises(dc.errors.InputError, match=message):
        CALIBRATORS[name]().fit(z, DATA.labels, **given(DATA))
    calibrator = fit(CALIBRATORS[name](), DATA)
    for predict in (calibrator.predict_proba, calibrator.predict_confidence):
        with pytest.raises(dc.errors.InputError, match="NaN"):
            predict(z, **given(DATA))


def test_a_row_with_nan_is_named_by_its_number_in_the_call():
    """In a batch, the rows of a domain are counted anew: the error must not use their numbers."""
    z, x = DATA.logits.copy(), DATA.features.copy()
    z[400, 1], x[300, 2] = np.nan, np.nan
    for name in OF_BATCHES:
        calibrator = fit(CALIBRATORS[name](), DATA)
        with pytest.raises(dc.errors.InputError, match="row 300, column 2"):
            calibrator.predict_proba(DATA.logits, features=x, domains=DATA.domains)
        with pytest.raises(dc.errors.InputError, match="row 400, column 1"):
            calibrator.predict_proba(z, **given(DATA))


@pytest.mark.parametrize(
    ("calibrator", "message"),
    [
        (dc.TransCal(max_rows=0), "max_rows must be a whole number >= 1, got 0"),
        (dc.CPCS(max_rows=2.5), r"max_rows must be a whole number >= 1, got 2\.5"),
        (dc.CPCS(random_state=-1), "random_state must be"),
        (dc.TransCal(at_least_one="yes"), "at_least_one must be True or False, got 'yes'"),
        (dc.DAC(n_neighbors=0), "n_neighbors must be a whole number >= 1, got 0"),
        (dc.DAC(max_rows=3), "max_rows=3 is less than the 6 domains"),
        (dc.TransCal(max_rows=3), "max_rows=3 is less than the 6 domains"),
    ],
)
def test_invalid_parameters_are_refused(calibrator, message):
    with pytest.raises(dc.errors.InputError, match=message):
        fit(calibrator, DATA)


@pytest.mark.parametrize("make", [dc.TransCal, dc.CPCS, dc.DAC])
def test_a_sample_has_equally_many_rows_of_each_domain(make):
    message = f"{make.__name__} learned from the features of 60 of 480 rows; raise max_rows=65"
    with pytest.warns(dc.errors.SubsampleWarning, match=message):
        found = fit(make(max_rows=65), DATA)
    assert found.n_rows_ == 60
    with pytest.warns(dc.errors.SubsampleWarning):
        again, other = (fit(make(max_rows=65, random_state=s), DATA) for s in (0, 1))
    np.testing.assert_array_equal(temperatures(again, DATA), temperatures(found, DATA))
    part = "_distance" if make is dc.DAC else "_source"
    assert not np.array_equal(getattr(other, part).rows, getattr(found, part).rows)
    with pytest.warns(dc.errors.SubsampleWarning, match="65 of 480"):
        make(max_rows=65).fit(DATA.logits, DATA.labels, features=DATA.features)


@pytest.mark.parametrize("make", [dc.TransCal, dc.CPCS])
def test_a_large_batch_is_thinned_out_for_the_weights(make):
    few = DATA.select(np.arange(0, 480, 8))
    calibrator = make(max_rows=60).fit(few.logits, few.labels, features=few.features)
    z, x = DATA.logits, DATA.features
    same = np.repeat(x[:1], 480, axis=0)
    same[::8] = x[::8]
    t = calibrator.predict_temperature(z, features=x)
    np.testing.assert_array_equal(t, calibrator.predict_temperature(z, features=same))


def test_the_second_control_variate_uses_the_accuracy_of_all_rows():
    """With equal weights, the estimate is the accuracy of all rows, not that of the sample."""
    x = np.ones((480, 2))
    with pytest.warns(dc.errors.SubsampleWarning):
        found = dc.TransCal(max_rows=60).fit(DATA.logits, DATA.labels, features=x)
    accuracy = np.mean(DATA.logits.argmax(axis=1) == DATA.labels)
    assert found.accuracy_ == accuracy
    assert np.mean(found._hits) != accuracy
    assert found.predict_confidence(DATA.logits, features=x).mean() == pytest.approx(accuracy)


@pytest.mark.parametrize("name", OF_BATCHES)
def test_constant_features_give_equal_weights(name):
    """CPCS then minimises the plain Brier score, TransCal matches the plain accuracy."""
    x = np.full((480, 3), 7.0)
    data = _replace(DATA, features=x)
    calibrator = fit(CALIBRATORS[name](), data)
    (log_weight,) = calibrator._source.log_weights([x + 5.0])
    np.testing.assert_allclose(log_weight, 0.0, atol=1e-12)
    assert len(np.unique(temperatures(calibrator, data))) == (6 if name == "transcal" else 1)


def test_constant_features_make_dac_temperature_scaling():
    data = _replace(DATA, features=np.full((480, 3), 7.0))
    expected = fit(dc.TemperatureScaling(), data).temperature_
    np.testing.assert_array_equal(temperatures(fit(dc.DAC(), data), data), expected)


@pytest.mark.filterwarnings("ignore::domaincal.errors.BoundaryWarning")
@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_rows_give_finite_predictions(name, n):
    few = DATA.select(np.arange(n))
    calibrator = fit(CALIBRATORS[name](), few)
    p = calibrator.predict_proba(DATA.logits, **given(DATA))
    assert np.isfinite(p).all()
    assert np.isfinite(calibrator.predict_proba(few.logits, **given(few))).all()


@pytest.mark.filterwarnings("ignore::domaincal.errors.BoundaryWarning")
@pytest.mark.parametrize("name", OF_BATCHES)
def test_equal_logits_have_temperature_1(name):
    data = _replace(DATA, logits=np.full_like(DATA.logits, 3.0))
    np.testing.assert_array_equal(temperatures(fit(CALIBRATORS[name](), data), data), 1.0)


def test_an_accuracy_out_of_reach_gives_a_limit_of_the_temperature():
    wrong = (DATA.logits.argmax(axis=1) + 1) % 5
    right = DATA.logits.argmax(axis=1)
    for labels, end in ((wrong, 1), (right, 0)):
        with pytest.warns(dc.errors.BoundaryWarning):
            found = fit(dc.TransCal(), _replace(DATA, labels=labels))
        np.testing.assert_allclose(temperatures(found, DATA), found.limits_[end], rtol=1e-12)


def test_transcal_never_raises_a_confidence_if_it_is_asked_not_to():
    sharp = _replace(DATA, logits=DATA.logits / 10.0)
    free, bound = (fit(dc.TransCal(at_least_one=b), sharp) for b in (False, True))
    assert temperatures(free, sharp).max() < 1.0
    np.testing.assert_array_equal(temperatures(bound, sharp), 1.0)
    flat = _replace(DATA, logits=DATA.logits * 10.0)
    free, bound = (fit(dc.TransCal(at_least_one=b), flat) for b in (False, True))
    np.testing.assert_allclose(temperatures(bound, flat), temperatures(free, flat), rtol=1e-9)


@pytest.mark.parametrize("name", OF_BATCHES)
def test_a_far_batch_gives_finite_temperatures(name):
    calibrator = fit(CALIBRATORS[name](), DATA)
    for scale in (1e3, 1e12, 1e100):
        t = calibrator.predict_temperature(DATA.logits, features=DATA.features * scale)
        assert (np.isfinite(t) & (t > 0)).all()


def test_many_features_are_reduced_to_principal_components():
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(600, 3))
    mixing = rng.normal(size=(3, 200))
    wide, batch = hidden @ mixing, (hidden[:100] + np.eye(3)[0]) @ mixing
    ratio = DensityRatio.fit(wide, np.ones(600))
    assert ratio.rows.shape[1] <= 128
    (log_weight,) = ratio.log_weights([batch])
    # Of normal distributions, the log-ratio is linear in the coordinate that is shifted.
    assert np.corrcoef(log_weight, hidden[:, 0])[0, 1] > 0.95


def test_the_number_of_neighbours_is_limited_to_the_other_rows():
    few = DATA.select(np.arange(20))
    assert fit(dc.DAC(), few).n_neighbors_ == 19
    assert fit(dc.DAC(n_neighbors=3), few).n_neighbors_ == 3


def test_dac_does_not_depend_on_the_length_of_the_features():
    lengths = np.random.default_rng(0).uniform(0.1, 10.0, size=(480, 1))
    scaled = _replace(DATA, features=DATA.features * lengths)
    t, t_scaled = (temperatures(fit(dc.DAC(), d), d) for d in (DATA, scaled))
    np.testing.assert_allclose(t_scaled, t, rtol=1e-6)


def test_vector_scaling_keeps_a_class_that_never_occurs():
    y = np.where(DATA.labels == 4, 0, DATA.labels)
    found = dc.VectorScaling().fit(DATA.logits, y)
    assert found.intercept_.argmin() == 4
    p = found.predict_proba(DATA.logits)[:, 4]
    assert (p > 0).all()
    assert p.mean() < 0.02


def test_vector_scaling_of_separable_rows_has_a_minimum():
    y = DATA.logits.argmax(axis=1)
    with pytest.warns(dc.errors.BoundaryWarning):
        found = dc.VectorScaling().fit(DATA.logits, y)
    assert found.n_iter_ < 500
    np.testing.assert_allclose(found.coef_, 1 / found.temperature_, rtol=0.05)
    assert np.abs(found.intercept_).max() < 1.0


@pytest.mark.parametrize("c", [1e-6, 0.3, 1e6])
def test_vector_scaling_does_not_depend_on_the_unit_of_the_logits(c):
    p, scaled = (dc.VectorScaling().fit(z, DATA.labels).predict_proba(z)
                 for z in (DATA.logits, c * DATA.logits))  # fmt: skip
    np.testing.assert_allclose(scaled, p, atol=1e-7)


def test_vector_scaling_can_change_the_class_but_not_its_confidence():
    """The confidence is the probability of the argmax of the logits, as in every table."""
    z = DATA.logits + 4.0 * np.eye(5)[4]  # class 4 is predicted far too often
    found = dc.VectorScaling().fit(z, DATA.labels)
    p, predicted = found.predict_proba(z), z.argmax(axis=1)
    assert (p.argmax(axis=1) != predicted).any()
    confidence = p[np.arange(len(p)), predicted]
    np.testing.assert_array_equal(found.predict_confidence(z), confidence)

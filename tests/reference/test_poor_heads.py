"""PoorHeadWarning: heads are judged by domains that are left out of the fit."""

import warnings

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsRegressor

import domaincal as dc
from domaincal.calibrators.heads import linear
from support import search_folds

MD_TS = dc.MultiDomainTemperatureScaling
Warned = dc.errors.PoorHeadWarning


def uninformative(n_domains, n_rows=500, n_features=50, seed=0):
    """Features that tell the domains apart, but say nothing about their temperatures."""
    data, _ = dc.make_multi_domain(n_domains, n_rows, random_state=seed)
    rng = np.random.default_rng(seed)
    centres = 3.0 * rng.normal(size=(n_domains, n_features))
    codes = np.unique(data.domains, return_inverse=True)[1]
    features = centres[codes] + rng.normal(size=(len(codes), n_features))
    return dc.CalibrationData(
        data.logits, labels=data.labels, features=features, domains=data.domains
    )


def poor_head_warnings(calibrator, data):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        calibrator.fit(data)
    return [str(w.message) for w in caught if w.category is Warned]


@pytest.mark.parametrize("n_domains", [3, 5, 8])
@pytest.mark.parametrize("seed", range(3))
def test_features_that_tell_nothing_give_a_warning(n_domains, seed):
    """In sample, five centres in 50 dimensions fit any five temperatures."""
    (message,) = poor_head_warnings(MD_TS(), uninformative(n_domains, seed=seed))
    assert message.startswith("on domains left out of the fit, the predicted temperatures are")


@pytest.mark.parametrize(
    "calibrator",
    [
        MD_TS("ridge", alpha=1e-3),
        MD_TS("ridge", alpha=1e-3, domain_weight="equal"),
        MD_TS("huber"),
        MD_TS(LinearRegression(fit_intercept=False)),
        MD_TS(RandomForestRegressor(5, random_state=0)),
    ],
    ids=str,
)
def test_every_head_that_can_overfit_is_judged_by_left_out_domains(calibrator):
    (message,) = poor_head_warnings(calibrator, uninformative(5, n_rows=100))
    assert message.startswith("on domains left out of the fit")


@pytest.mark.parametrize("n_domains", [1, 2])
def test_one_or_two_domains_are_judged_in_sample(n_domains):
    assert poor_head_warnings(MD_TS(), uninformative(n_domains)) == []
    data = uninformative(n_domains)
    centred = dc.CalibrationData(
        data.logits, labels=data.labels, features=data.features - data.features.mean(axis=0),
        domains=data.domains,
    )  # fmt: skip
    (message,) = poor_head_warnings(MD_TS(), centred)
    assert message.startswith("on the calibration rows, the predicted temperatures are")


@pytest.mark.parametrize("n_domains", [3, 4, 5, 6, 8, 12, 20])
def test_features_that_tell_the_temperature_give_no_warning(n_domains):
    for seed in range(3):
        data, _ = dc.make_multi_domain(n_domains, random_state=seed)
        assert poor_head_warnings(MD_TS(), data) == []


@pytest.mark.parametrize(("n_domains", "intercept"), [(5, False), (14, False), (14, True)])
def test_the_ratio_in_the_message_is_that_of_fits_without_each_fold(n_domains, intercept):
    data = uninformative(n_domains, n_rows=100, n_features=20)
    (message,) = poor_head_warnings(MD_TS(fit_intercept=intercept), data)
    nll, pooled = [], []
    folds = search_folds(data, 10)
    assert len(folds) == min(n_domains, 10)
    for names in folds:
        known, new = dc.split_domains(data, names)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            head = MD_TS(fit_intercept=intercept).fit(known)
            scores = (
                head.score_rows(new).nll,
                dc.TemperatureScaling().fit(known).score_rows(new).nll,
            )
        for name in names:
            nll.append(scores[0][new.domains == name].mean())
            pooled.append(scores[1][new.domains == name].mean())
    assert f"(NLL {np.mean(nll) / np.mean(pooled):.2f} times as high)" in message


def test_a_regressor_that_cannot_be_fitted_to_some_domains_is_judged_in_sample():
    data = uninformative(3, n_rows=100)
    needs_all = MD_TS(KNeighborsRegressor(len(data)))
    assert poor_head_warnings(needs_all, data) == []
    assert needs_all.head_rows_ == len(data)


def test_wide_features_are_judged_with_fewer_folds(monkeypatch):
    """The Gram matrices of all folds are in memory at once."""
    numbers = []
    original = linear.sum_normal_equations

    def spy(*arguments, n_parts, **options):
        numbers.append(n_parts)
        return original(*arguments, n_parts=n_parts, **options)

    monkeypatch.setattr(linear, "sum_normal_equations", spy)
    data = uninformative(12, n_rows=50)
    for limit in (1 << 29, 4 * 8 * 50**2, 0):
        monkeypatch.setattr(linear, "JUDGED_BYTES", limit)
        assert poor_head_warnings(MD_TS(), data)
    assert numbers == [10, 4, 3]

"""CalibratedDomainClassifier in scikit-learn's checks, pipelines and searches."""

import numpy as np
import pytest
from sklearn import config_context
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

import domaincal as dc
from patients import patients


def _checks():
    # Without domains, as the checks call fit: "auto" then is temperature scaling.
    estimator = dc.CalibratedDomainClassifier(LogisticRegression(), cv=2)
    for instance, check in estimator_checks_generator(estimator):
        name = getattr(check, "func", check).__name__
        if name != "check_array_api_input":  # arrays of other libraries are not supported
            yield pytest.param(instance, check, id=name)


@pytest.mark.parametrize(("estimator", "check"), list(_checks()))
@pytest.mark.filterwarnings("ignore::domaincal.DomaincalWarning")  # no domains, random labels
def test_all_estimator_checks_pass(estimator, check):
    check(estimator)


@pytest.fixture
def routing():
    with config_context(enable_metadata_routing=True):
        yield


@pytest.mark.usefixtures("routing")
def test_cross_validation_passes_the_domains_on():
    X, y, site = patients()
    model = dc.CalibratedDomainClassifier(LogisticRegression(), "md-ts:target=log", cv=3)
    found = cross_validate(
        model, X, y, scoring="neg_log_loss", cv=GroupKFold(3), error_score="raise",
        params={"domains": site, "groups": site}, return_estimator=True,
    )  # fmt: skip
    assert np.isfinite(found["test_score"]).all()
    for (train, test), fitted, score in zip(
        GroupKFold(3).split(X, y, groups=site), found["estimator"], found["test_score"], strict=True
    ):
        assert set(fitted.calibrator_.domain_temperatures_.index) == set(site[train])
        p = fitted.predict_proba(X[test])
        truth = p[np.arange(len(test)), np.searchsorted(fitted.classes_, y[test])]
        assert score == pytest.approx(np.log(truth).mean())


@pytest.mark.usefixtures("routing")
def test_a_search_over_methods_finds_the_best_on_left_out_domains():
    X, y, site = patients(n_rows=120)
    fitted = LogisticRegression().fit(X, y)
    model = dc.CalibratedDomainClassifier(fitted, dc.MultiDomainTemperatureScaling())
    grid = {
        "method__target": ["temperature", "log"],
        "method__head": ["ols", "ridge"],
        "method__fit_intercept": [True],
    }
    search = GridSearchCV(
        model, grid, scoring="neg_log_loss", cv=GroupKFold(3), error_score="raise"
    )
    search.fit(X, y, domains=site, groups=site)
    scores = search.cv_results_["mean_test_score"]
    assert np.isfinite(scores).all()
    assert len(np.unique(scores)) == 4
    assert search.best_score_ == scores.max()
    np.testing.assert_array_equal(search.predict(X), fitted.predict(X))
    np.testing.assert_array_equal(model.estimator.coef_, fitted.coef_)


@pytest.mark.usefixtures("routing")
def test_a_search_over_the_parameters_of_the_estimator():
    X, y, site = patients()
    model = dc.CalibratedDomainClassifier(LogisticRegression(), "ts", cv=3)
    search = GridSearchCV(
        model, {"estimator__C": [1e-3, 1.0], "method": ["ts", "msp"]}, scoring="neg_log_loss",
        cv=GroupKFold(3), error_score="raise",
    )  # fmt: skip
    search.fit(X, y, domains=site, groups=site)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_estimator_.estimator_.C in (1e-3, 1.0)


@pytest.mark.usefixtures("routing")
def test_domains_are_routed_through_a_pipeline():
    X, y, site = patients()
    model = dc.CalibratedDomainClassifier(LogisticRegression(), cv=3, batch_size=30)
    pipeline = make_pipeline(StandardScaler(), model).fit(X, y, domains=site)
    scaled = StandardScaler().fit_transform(X)
    alone = dc.CalibratedDomainClassifier(LogisticRegression(), cv=3, batch_size=30)
    alone.fit(scaled, y, domains=site)
    np.testing.assert_array_equal(
        pipeline.predict_proba(X, domains=site), alone.predict_proba(scaled, domains=site)
    )


def test_a_pipeline_without_routing_takes_the_prefix_of_the_step():
    X, y, site = patients()
    model = dc.CalibratedDomainClassifier(LogisticRegression(), "domain-ts", cv=3)
    pipeline = make_pipeline(StandardScaler(), model)
    pipeline.fit(X, y, calibrateddomainclassifier__domains=site)
    assert len(pipeline[-1].calibrator_.domain_temperatures_) == 6

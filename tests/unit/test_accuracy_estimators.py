"""Estimators of the accuracy of unlabelled domains, and their intervals."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import domaincal as dc
from domaincal.calibrators.baselines.density_ratio import DensityRatio
from domaincal.shift.accuracy.left_out_residuals import (
    LeftOutResiduals,
    draw_batches,
    left_out_residuals,
)

DATA, _ = dc.make_multi_domain(n_domains=14, n_rows=120, random_state=1)
KNOWN, NEW = dc.split_domains(DATA, ["domain-03", "domain-05", "domain-11"])
ESTIMATORS = {
    "batch": dc.shift.ConfidenceEstimator(),
    "plain": dc.shift.ConfidenceEstimator(dc.MaxSoftmax()),
    "paper": dc.shift.ConfidenceEstimator(dc.MultiDomainTemperatureScaling()),
    "doc": dc.shift.DifferenceOfConfidences(),
    "atc-mc": dc.shift.ThresholdedConfidence(),
    "atc-ne": dc.shift.ThresholdedConfidence("entropy"),
    "importance": dc.shift.ImportanceWeighting(),
    "regression": dc.shift.AccuracyRegression(),
}
each_estimator = pytest.mark.parametrize("name", ESTIMATORS)


@pytest.fixture(scope="module")
def fitted():
    return {name: clone(one).fit(KNOWN) for name, one in ESTIMATORS.items()}


def hits(data):
    return np.asarray(data.logits).argmax(axis=1) == data.labels


def softmax(data):
    z = np.asarray(data.logits, np.float64)
    p = np.exp(z - z.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


def by_domain(values, data):
    return pd.Series(values).groupby(data.domains).mean().to_numpy()


def predicted(estimator, data):
    return estimator.predict(data)["predicted_accuracy"].to_numpy()


class TestFormulas:
    def test_plain_confidence_is_the_mean_of_the_largest_probability(self, fitted):
        expected = by_domain(softmax(NEW).max(axis=1), NEW)
        assert predicted(fitted["plain"], NEW) == pytest.approx(expected, rel=1e-6)

    def test_the_default_is_the_mean_confidence_of_batch_scaling(self, fitted):
        confidence = dc.BatchTemperatureScaling().fit(KNOWN).predict_confidence(NEW)
        assert predicted(fitted["batch"], NEW) == pytest.approx(by_domain(confidence, NEW))

    def test_a_batch_of_a_left_out_domain_is_judged_by_its_own_rows(self, fitted):
        # As in the intervals: batches are parts of the domains of the data.
        codes = np.arange(len(NEW)) % 5
        alone = fitted["batch"].predict(NEW.logits, features=NEW.features, domains=codes)
        found = fitted["batch"]._estimates(NEW, codes, 5)
        assert found == pytest.approx(alone["predicted_accuracy"].to_numpy())

    def test_a_known_domain_is_looked_up_by_its_name(self):
        calibrator = dc.DomainTemperatureScaling()
        estimator = dc.shift.ConfidenceEstimator(calibrator).fit(KNOWN)
        expected = calibrator.fit(KNOWN).predict_confidence(KNOWN)
        assert predicted(estimator, KNOWN) == pytest.approx(by_domain(expected, KNOWN))

    def test_difference_of_confidences(self, fitted):
        source = hits(KNOWN).mean() - softmax(KNOWN).max(axis=1).mean()
        expected = by_domain(softmax(NEW).max(axis=1), NEW) + source
        assert predicted(fitted["doc"], NEW) == pytest.approx(np.clip(expected, 0, 1), rel=1e-6)

    @pytest.mark.parametrize("name", ["atc-mc", "atc-ne"])
    def test_the_share_of_the_fit_above_the_threshold_is_its_accuracy(self, fitted, name):
        pooled = dc.CalibrationData(KNOWN.logits)
        assert predicted(fitted[name], pooled) == pytest.approx([hits(KNOWN).mean()], abs=1e-9)

    def test_the_score_of_atc_is_the_negative_entropy(self, fitted):
        p = softmax(NEW)
        above = (p * np.log(p)).sum(axis=1) >= fitted["atc-ne"].threshold_
        assert predicted(fitted["atc-ne"], NEW) == pytest.approx(by_domain(above, NEW))

    def test_without_a_hit_no_score_is_above_the_threshold(self):
        wrong = replace(KNOWN, labels=(np.asarray(KNOWN.logits).argmax(axis=1) + 1) % 10)
        estimator = dc.shift.ThresholdedConfidence().fit(wrong)
        assert (predicted(estimator, NEW) == 0.0).all()

    def test_importance_weights_are_those_of_the_density_ratio(self, fitted):
        ratio = DensityRatio.fit(np.asarray(KNOWN.features), np.ones(len(KNOWN)))
        batches = [np.asarray(rows.features) for _, rows in NEW.by_domain()]
        expected = [np.average(hits(KNOWN), weights=np.exp(w)) for w in ratio.log_weights(batches)]
        assert predicted(fitted["importance"], NEW) == pytest.approx(expected)

    def test_importance_weighting_of_the_rows_of_the_fit_gives_their_accuracy(self, fitted):
        pooled = dc.CalibrationData(KNOWN.logits, features=KNOWN.features)
        assert predicted(fitted["importance"], pooled) == pytest.approx([hits(KNOWN).mean()])

    def test_the_regression_finds_an_accuracy_that_follows_from_the_confidence(self):
        # T is 1 everywhere, and domains differ in how large their logits are.
        random = np.random.default_rng(0)
        domains = np.repeat(np.arange(20), 400)
        z = random.normal(size=(len(domains), 5)) * np.linspace(0.5, 4.0, 20)[domains, None]
        labels = np.argmax(z + random.gumbel(size=z.shape), axis=1)
        data = dc.CalibrationData(z, labels=labels, domains=domains)
        known, new = dc.split_domains(data, [3, 7, 11])
        found = predicted(dc.shift.AccuracyRegression().fit(known), new)
        assert found == pytest.approx(by_domain(hits(new), new), abs=0.05)


@each_estimator
class TestTable:
    def test_columns_and_ranges(self, fitted, name):
        table = fitted[name].predict(NEW)
        assert table.columns.tolist() == [
            "domain", "n", "predicted_accuracy", "low", "high", "verdict", "distance", "reason",
        ]  # fmt: skip
        assert table["domain"].tolist() == ["domain-03", "domain-05", "domain-11"]
        assert (table["n"] == 120).all()
        p, low, high = (table[key].to_numpy() for key in ("predicted_accuracy", "low", "high"))
        assert ((low >= 0) & (low <= p) & (p <= high) & (high <= 1)).all()
        assert (high - low < 1).any()
        assert set(table["verdict"]) <= {"inside", "edge", "outside"}

    def test_labels_and_the_order_of_rows_do_not_matter(self, fitted, name):
        order = np.random.default_rng(0).permutation(len(NEW))
        other = replace(NEW.select(order), labels=None)
        first, second = fitted[name].predict(NEW), fitted[name].predict(other)
        pd.testing.assert_frame_equal(first, second)

    def test_arrays_and_data_give_the_same(self, fitted, name):
        arrays = fitted[name].predict(NEW.logits, features=NEW.features, domains=NEW.domains)
        pd.testing.assert_frame_equal(arrays, fitted[name].predict(NEW))
        again = clone(ESTIMATORS[name]).fit(
            KNOWN.logits, KNOWN.labels, features=KNOWN.features, domains=KNOWN.domains
        )
        pd.testing.assert_frame_equal(again.predict(NEW), arrays)

    def test_rows_without_domains_are_one_domain(self, fitted, name):
        table = fitted[name].predict(NEW.logits, features=NEW.features)
        assert table[["domain", "n"]].to_numpy().tolist() == [["all rows", 360]]

    def test_one_row_is_a_batch(self, fitted, name):
        table = fitted[name].predict(NEW.logits[:1], features=NEW.features[:1])
        assert np.isfinite(table[["predicted_accuracy", "low", "high"]].to_numpy()).all()

    def test_other_classes_are_refused(self, fitted, name):
        with pytest.raises(dc.DomaincalError, match=r"logits have 9 classes.* the fit had 10"):
            fitted[name].predict(NEW.logits[:, :9], features=NEW.features)


class TestIntervals:
    def test_eight_domains_are_too_few_and_nine_are_enough(self):
        names = [f"domain-{k:02d}" for k in range(14)]
        few, _ = dc.split_domains(DATA, names[8:])
        table = dc.shift.ConfidenceEstimator(dc.TemperatureScaling()).fit(few).predict(NEW)
        assert (table["low"] == 0).all()
        assert (table["high"] == 1).all()
        assert table["reason"].str.contains("90% needs 9 labelled domains, and the fit had 8").all()
        enough, _ = dc.split_domains(DATA, names[9:])
        table = dc.shift.ConfidenceEstimator(dc.TemperatureScaling()).fit(enough).predict(NEW)
        assert ((table["high"] - table["low"]) < 1).all()
        assert not table["reason"].str.contains("needs").any()

    def test_a_larger_coverage_has_wider_intervals_and_needs_more_domains(self):
        def width(coverage):
            calibrator = dc.TemperatureScaling()
            estimator = dc.shift.ConfidenceEstimator(calibrator, coverage=coverage).fit(KNOWN)
            return estimator.residuals_.half_width(np.array([50.0]), coverage)[0]

        assert width(0.5) < width(0.9) < width(0.95) == np.inf

    @pytest.mark.parametrize("n_domains", [9, 15, 40])
    @pytest.mark.parametrize("n_draws", [1, 4])
    def test_intervals_cover_exchangeable_domains(self, n_domains, n_draws):
        # A domain has an error of its own, and each of its batches another one.
        random = np.random.default_rng(n_domains)
        covered = []
        for _ in range(600):
            own = random.standard_t(4, size=(n_domains + 1, 1))
            values = own + 0.5 * random.normal(size=(n_domains + 1, n_draws))
            errors = LeftOutResiduals(np.ones(1), values[None, :-1])
            covered.append(abs(values[-1, 0]) <= errors.half_width(np.ones(1), 0.9)[0])
        # At least 90%, and at most 1 / (n_domains + 1) more, within three standard errors.
        noise = 3 * np.sqrt(0.09 / 600)
        assert 0.9 - noise <= np.mean(covered) <= 0.9 + 1 / (n_domains + 1) + noise

    def test_fewer_rows_have_wider_intervals(self, fitted):
        widths = fitted["plain"].residuals_.half_width(np.array([1.0, 5.0, 100.0]), 0.9)
        assert (np.diff(widths) < 0).all()

    def test_between_two_sizes_widths_are_interpolated_and_outside_they_are_the_nearest(self):
        values = np.stack([np.full((9, 1), 0.4), np.full((9, 1), 0.2)])
        errors = LeftOutResiduals(np.array([10.0, 1000.0]), values)
        widths = errors.half_width(np.array([1.0, 10.0, 100.0, 1000.0, 1e6]), 0.9)
        assert widths == pytest.approx([0.4, 0.4, 0.3, 0.2, 0.2])

    def test_no_fit_sees_the_domains_whose_errors_it_gives(self):
        codes = np.repeat(np.arange(23), 5)
        seen = []

        def estimates(others, rows, batches, n_batches):
            assert not set(codes[others]) & set(codes[rows])
            assert set(codes[others]) | set(codes[rows]) == set(range(23))
            seen.extend(set(codes[rows]))
            # The number of the domain, so that each residual shows which batch it belongs to.
            return np.bincount(batches, codes[rows], n_batches) / np.bincount(batches)

        found = left_out_residuals(
            estimates, codes=codes, accuracy=np.arange(23.0), draws={2: 3, 100: 3},
            random=np.random.default_rng(0),
        )  # fmt: skip
        assert sorted(seen) == list(range(23))
        assert found.values.shape == (2, 23, 3)
        assert not found.values.any()

    def test_batches_have_different_rows_of_one_domain(self):
        codes = np.repeat([0, 1, 2], 50)
        rows, batches = draw_batches(
            codes, np.array([0, 2]), {20: 2, 80: 2}, np.random.default_rng(0)
        )
        assert np.bincount(batches).tolist() == [20, 20, 20, 20, 50, 50, 50, 50]
        for batch, domain in enumerate([0, 0, 2, 2, 0, 0, 2, 2]):
            own = rows[batches == batch]
            assert len(set(own)) == len(own)
            assert (codes[own] == domain).all()


class TestBadInput:
    @pytest.mark.parametrize("coverage", [0.0, 1.0, 1.5, "90%", None])
    def test_coverage(self, coverage):
        with pytest.raises(dc.DomaincalError, match="coverage must be a number"):
            dc.shift.DifferenceOfConfidences(coverage=coverage).fit(KNOWN)

    def test_parameters(self):
        with pytest.raises(dc.DomaincalError, match=r"calibrator='ts' is not a calibrator"):
            dc.shift.ConfidenceEstimator("ts").fit(KNOWN)
        with pytest.raises(dc.DomaincalError, match="score"):
            dc.shift.ThresholdedConfidence("margin").fit(KNOWN)
        with pytest.raises(dc.DomaincalError, match="random_state"):
            dc.shift.ThresholdedConfidence(random_state=-1).fit(KNOWN)

    def test_missing_labels_features_and_domains(self):
        with pytest.raises(dc.DomaincalError, match="y is missing"):
            dc.shift.DifferenceOfConfidences().fit(KNOWN.logits)
        with pytest.raises(dc.DomaincalError, match="no labels"):
            dc.shift.DifferenceOfConfidences().fit(replace(KNOWN, labels=None))
        bare = replace(KNOWN, features=None)
        with pytest.raises(dc.DomaincalError, match="ImportanceWeighting needs features"):
            dc.shift.ImportanceWeighting().fit(bare)
        with pytest.raises(dc.DomaincalError, match="at least 3 domains, got 1"):
            dc.shift.AccuracyRegression().fit(replace(KNOWN, domains=None))

    def test_data_and_arrays_together(self, fitted):
        with pytest.raises(dc.DomaincalError, match="pass either the data or arrays"):
            fitted["batch"].predict(NEW, features=NEW.features)

    @pytest.mark.parametrize("name", ["batch", "importance", "regression"])
    def test_other_features(self, fitted, name):
        with pytest.raises(dc.DomaincalError, match="features"):
            fitted[name].predict(NEW.logits, features=NEW.features[:, :3])
        with pytest.raises(dc.DomaincalError, match="features"):
            fitted[name].predict(NEW.logits)

    def test_named_features_may_come_in_any_order(self):
        names = [f"f{k}" for k in range(KNOWN.features.shape[1])]
        frame = pd.DataFrame(np.asarray(NEW.features), columns=names)
        known = replace(KNOWN, feature_names=tuple(names))
        estimator = dc.shift.AccuracyRegression().fit(known)
        first = estimator.predict(NEW.logits, features=frame, domains=NEW.domains)
        second = estimator.predict(NEW.logits, features=frame[names[::-1]], domains=NEW.domains)
        pd.testing.assert_frame_equal(first, second)

    def test_predict_before_fit(self):
        with pytest.raises(Exception, match="not fitted"):
            dc.shift.ConfidenceEstimator().predict(NEW)

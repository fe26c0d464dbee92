"""Options, notes and errors of the functions about the distance of new domains."""

import re
from pathlib import Path

import numpy as np
import pytest

import domaincal as dc
from domaincal.errors import InputError
from domaincal.shift import (
    best_temperatures,
    calibration_certificate,
    calibration_risk,
    certificate_from_errors,
    divergence,
    domain_verdicts,
    mixture_distances,
    mixture_weights,
    risk_bound,
    risk_table,
    two_sample_distance,
)


@pytest.fixture(scope="module")
def rows():
    data, _ = dc.make_multi_domain(6, 200, random_state=0)
    return dc.split_domains(data, ["domain-4", "domain-5"])


def without(data, *names):
    arrays = {"labels": data.labels, "features": data.features, "domains": data.domains}
    return dc.CalibrationData(data.logits, **{k: v for k, v in arrays.items() if k not in names})


@pytest.mark.parametrize("method", ["divergence", "posterior", "means"])
def test_shares_of_every_method_sum_to_one(rows, method):
    alpha = mixture_weights(*rows, method=method)
    assert alpha.index.tolist() == ["domain-4", "domain-5"]
    assert alpha.columns.tolist() == [f"domain-{k}" for k in range(4)]
    assert (alpha.to_numpy() >= 0).all()
    np.testing.assert_allclose(alpha.sum(axis=1), 1.0)


@pytest.mark.parametrize("method", ["divergence", "posterior", "means"])
def test_a_known_domain_is_found_again(method):
    data, truth = dc.make_multi_domain(3, 600, temperatures=(0.2, 6.0), random_state=3)
    known, new = dc.split_halves(data)
    assert np.diff(np.sort(np.log(truth))).min() > 0.3
    alpha = mixture_weights(known, new, method=method)
    assert (np.diag(alpha) > 0.5).all()


def test_rows_without_domains_are_one_new_domain(rows):
    known, new = rows
    one = without(new, "domains", "labels")
    for table in (mixture_distances(known, one), two_sample_distance(known, one)):
        assert table["domain"].tolist() == ["all rows"]
        assert table["n"].tolist() == [400]
    assert mixture_weights(known, one).index.tolist() == ["all rows"]
    assert mixture_weights(known, one, method="posterior").shape == (1, 4)


def test_bound_without_labels_has_neither_lambda_nor_truth(rows):
    known, new = rows
    calibrator = dc.TemperatureScaling().fit(known)
    blind, seen = (
        risk_bound(known, without(new, "labels"), calibrator),
        risk_bound(*rows, calibrator),
    )
    assert blind[["lambda", "bound", "true_risk"]].isna().all(axis=None)
    same = ["weighted_risk", "divergence", "complexity", "largest_risk"]
    np.testing.assert_allclose(blind[same], seen[same])
    assert blind["note"].str.startswith("says nothing: the bound is").all()


def test_bound_of_many_rows_says_something():
    data, _ = dc.make_multi_domain(4, 20_000, 2, temperatures=(1.0, 1.2), random_state=0)
    known, new = dc.split_domains(data, ["domain-3"])
    calibrator = dc.TemperatureScaling().fit(known)
    grid = [0.3, 1.0, 3.0]
    row = risk_bound(known, new, calibrator, temperatures=grid).iloc[0]
    assert row["note"].startswith("says something: the risk is at most")
    assert row["true_risk"] <= row["bound"] < row["largest_risk"]
    blind = risk_bound(known, without(new, "labels"), calibrator, temperatures=grid).iloc[0]
    assert "says something if lambda is below" in blind["note"]


def test_complexity_falls_with_rows_and_grows_with_certainty(rows):
    known, new = rows
    calibrator = dc.TemperatureScaling().fit(known)
    terms = [risk_bound(known, new, calibrator, delta=d)["complexity"][0] for d in (0.5, 0.01)]
    assert terms[0] < terms[1]
    few = new.select(np.arange(20))
    assert risk_bound(known, few, calibrator, delta=0.5)["complexity"][0] > terms[0]


@pytest.mark.filterwarnings("ignore::domaincal.errors.ClippedTemperatureWarning")
def test_bound_applies_to_one_temperature_for_a_domain_only(rows):
    known, new = rows
    per_row = risk_bound(known, new, dc.MultiDomainTemperatureScaling().fit(known))
    assert per_row["note"][1] == (
        "does not apply: MultiDomainTemperatureScaling has temperatures that differ between the "
        "rows of a domain."
    )
    assert per_row.drop(columns=["domain", "n", "note"]).isna().all(axis=None)
    binned = risk_bound(known, new, dc.HistogramBinning().fit(known))
    assert "HistogramBinning has a map that is not a temperature" in binned["note"][0]
    of_batches = risk_bound(known, new, dc.BatchTemperatureScaling().fit(known))
    assert of_batches["bound"].notna().all()


def test_best_temperature_of_a_domain_without_errors_is_finite():
    data, _ = dc.make_multi_domain(3, 100, random_state=0)
    labels = np.where(data.domains == "domain-0", data.logits.argmax(axis=1), data.labels)
    certain = dc.CalibrationData(data.logits, labels=labels, domains=data.domains)
    with pytest.warns(dc.errors.BoundaryWarning):
        pooled = dc.DomainTemperatureScaling().fit(certain).temperature_
    found = best_temperatures(certain)
    assert found["domain-0"] == pytest.approx(pooled / 4, rel=1e-6)


def test_risk_table_of_one_domain_has_no_others():
    data, _ = dc.make_multi_domain(1, 100, random_state=0)
    table = risk_table(data, dc.TemperatureScaling().fit(data))
    assert table[["others_mean", "others_worst"]].isna().all(axis=None)


def test_certificate_is_the_conformal_quantile():
    errors = np.arange(1, 20) / 100  # 19 errors: the 18th is at 90%
    assert certificate_from_errors(errors[::-1]).limit == 0.18
    assert certificate_from_errors(errors[:9]).limit == 0.09
    assert certificate_from_errors(errors[:8]).limit == 1.0
    assert certificate_from_errors(errors[:3], level=0.5).limit == 0.02


def test_certificate_leaves_each_domain_out():
    data, _ = dc.make_multi_domain(4, 100, random_state=0)
    found = calibration_certificate(dc.TemperatureScaling(), data, level=0.5, n_bins=10)
    known, new = dc.split_domains(data, ["domain-2"])
    p = dc.TemperatureScaling().fit(known).predict_proba(new)
    expected = dc.expected_calibration_error(p, new.labels, n_bins=10)
    assert found.errors["domain-2"] == pytest.approx(expected, abs=1e-6)
    assert found.limit == np.sort(found.errors)[2]
    assert found.level == 0.5


def test_certificate_covers_exchangeable_domains():
    random = np.random.default_rng(0)
    errors = random.gamma(2.0, 0.02, (2000, 20))
    covered = [row[0] <= certificate_from_errors(row[1:]).limit for row in errors]
    assert 0.88 < np.mean(covered) < 0.92  # exactly 18 / 20 in expectation


def test_constant_features_do_not_change_the_shares(rows):
    wider = [
        dc.CalibrationData(
            data.logits,
            labels=data.labels,
            features=np.hstack([data.features, np.full((len(data), 1), value)]),
            domains=data.domains,
        )
        for data, value in zip(rows, (3.0, 4.0), strict=True)
    ]
    alpha, expected = (mixture_weights(*both, method="means") for both in (wider, rows))
    np.testing.assert_allclose(alpha, expected, atol=1e-9)


def test_small_domains_have_no_two_sample_distance(rows):
    known, new = rows
    table = two_sample_distance(known, new.select(np.arange(5)))
    assert table["distance"].isna().all()
    assert table["n"].tolist() == [5]


def test_constant_features_tell_nothing(rows):
    known, new = (
        dc.CalibrationData(data.logits, features=np.ones((len(data), 2))) for data in rows
    )
    assert two_sample_distance(known, new)["distance"].tolist() == [0.0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda known, new: divergence([[0.0, 1.0]], [[0.0, 1.0, 2.0]], [1, 2]), "2 classes and"),
        (lambda known, new: divergence([[0.0, 1.0]], [[0.0, 1.0]], [1.0]), "at least two"),
        (lambda known, new: divergence([[0.0, 1.0]], [[0.0, 1.0]], [1.0, -1.0]), "positive"),
        (lambda known, new: divergence([[0.0, 1.0]], [[0.0, 1.0]], [1.0, 1.0]), "different"),
        (lambda known, new: calibration_risk([[0.0, 1.0]], 0.0, 1.0), "temperature must be"),
        (lambda known, new: calibration_risk([[0.0, 1.0]], 1.0, [1.0, 2.0]), "best_temperature"),
        (lambda known, new: mixture_weights(known, new, method="em"), "method"),
        (lambda known, new: mixture_weights(known, new, method="means", temperatures=[1, 2]),
         "grid of 'divergence'"),
        (lambda known, new: mixture_weights(without(known, "domains"), new), "needs domains"),
        (lambda known, new: mixture_weights(known, new.logits), "must be a CalibrationData"),
        (lambda known, new: mixture_weights(known, without(new, "features"), method="means"),
         "needs features"),
        (lambda known, new: mixture_weights(known, dc.CalibrationData(new.logits[:, :4])),
         "10 classes and the new one has 4"),
        (lambda known, new: mixture_distances(without(known, "labels"), new), "temperatures=..."),
        (lambda known, new: domain_verdicts(without(known, "labels"), new), "needs labels"),
        (lambda known, new: best_temperatures(without(known, "labels")), "needs labels"),
        (lambda known, new: risk_bound(known, new, None, delta=0.0), "delta"),
        (lambda known, new: risk_table(known.logits, None), "needs a CalibrationData"),
        (lambda known, new: two_sample_distance(known, without(new, "features")), "needs features"),
        (lambda known, new: two_sample_distance(known, new, max_rows=3), "max_rows"),
        (lambda known, new: calibration_certificate(dc.TemperatureScaling(), known, level=1.0),
         "level"),
        (lambda known, new: certificate_from_errors([]), "at least one"),
        (lambda known, new: certificate_from_errors([0.1, np.nan]), "between 0 and 1"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_named(rows, call, message):
    with pytest.raises(InputError, match=message):
        call(*rows)


def test_a_certificate_needs_two_domains():
    data, _ = dc.make_multi_domain(1, 50, random_state=0)
    with pytest.raises(InputError, match="at least 2 domains"):
        calibration_certificate(dc.TemperatureScaling(), data)


def test_features_that_are_not_finite_are_named(rows):
    known, new = rows
    x = np.array(new.features)
    x[:, 0] = np.nan
    with pytest.raises(InputError, match="features"):
        two_sample_distance(known, dc.CalibrationData(new.logits, features=x))


def test_the_python_blocks_of_the_page_on_new_domains_run(capsys):
    text = (Path(__file__).parents[2] / "docs/shift.md").read_text()
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(compile(block, "docs/shift.md", "exec"), {})
    assert "The ECE of a new domain is at most" in capsys.readouterr().out

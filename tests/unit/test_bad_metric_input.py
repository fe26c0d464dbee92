"""Invalid arguments of metrics and of logits_from_*: one InputError names the argument."""

import inspect

import numpy as np
import pytest

import domaincal as dc

METRICS = [
    dc.expected_calibration_error,
    dc.excess_calibration_error,
    dc.negative_log_likelihood,
    dc.brier_score,
    dc.metrics.accuracy,
    dc.reliability_curve,
]


@pytest.mark.parametrize("metric", METRICS, ids=lambda m: m.__name__)
def test_metrics_refuse_invalid_probabilities(metric):
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
def test_metrics_refuse_invalid_confidences(arguments, message):
    with pytest.raises(dc.errors.InputError, match=message):
        dc.metrics.confidence_calibration_error(*arguments)


def test_bins_cannot_take_all_memory():
    with pytest.raises(dc.errors.InputError, match="n_bins must be a whole number <= 100000"):
        dc.metrics.confidence_calibration_error([0.5], [1], n_bins=2_000_000_000)
    with pytest.raises(dc.errors.InputError, match="n_bins must be a whole number <= 100000"):
        dc.HistogramBinning(n_bins=2_000_000_000).fit([[2.0, 0.0], [0.0, 1.0]], [0, 1])


@pytest.mark.parametrize("n_bins", [0, -1, 2.5, True, "15"])
def test_metrics_refuse_an_invalid_number_of_bins(n_bins):
    with pytest.raises(dc.errors.InputError, match="n_bins must be a whole number >= 1"):
        dc.metrics.confidence_calibration_error([0.5], [1], n_bins=n_bins)


def test_bin_sums_can_be_added_only_with_the_same_edges():
    a, b = (dc.metrics.BinSums.from_confidences([0.5], [1], n_bins=m) for m in (5, 6))
    assert sum([a, a]).n == 2.0
    with pytest.raises(dc.errors.InputError, match="same edges"):
        a + b
    with pytest.raises(TypeError):
        sum([a, 3])


def test_the_floor_needs_integer_weights():
    p, y = [[0.75, 0.25], [0.75, 0.25]], [0, 1]
    repeated = dc.excess_calibration_error(p * 2, y * 2)
    assert dc.excess_calibration_error(p, y, sample_weight=[2, 2]) == pytest.approx(repeated)
    assert dc.expected_calibration_error(p, y, sample_weight=[0.5, 0.5]) == 0.25
    sums = dc.metrics.BinSums.from_confidences([0.75, 0.75], [1, 0], sample_weight=[0.3, 0.3])
    for chance in (sums.floor, sums.interval, sums.debiased_squared_error, sums.excess_error):
        with pytest.raises(dc.errors.InputError, match=r"gives a bin 0\.6; use integer weights"):
            chance()


def test_logits_from_probabilities_are_logarithms_with_a_floor():
    p = np.array([[0.2, 0.8], [1.0, 0.0]])
    z = dc.logits_from_probabilities(p)
    np.testing.assert_allclose(z, np.log([[0.2, 0.8], [1.0, 1e-12]]))
    # The two cases that public packages tell apart by guessing.
    with pytest.raises(dc.errors.InputError, match="sum to 1"):
        dc.logits_from_probabilities([[0.2, 0.8], [0.5, 0.6]])
    for floor in (0.0, 1.0, "x"):
        with pytest.raises(dc.errors.InputError, match="floor must be a number > 0 and < 1"):
            dc.logits_from_probabilities(p, floor=floor)


def test_logits_from_scores_give_the_sigmoid():
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


def _weighted_metrics():
    for name in dir(dc.metrics):
        metric = getattr(dc.metrics, name)
        parameters = inspect.signature(metric).parameters if inspect.isfunction(metric) else ()
        if "sample_weight" in parameters and "probabilities" in parameters:
            yield pytest.param(metric, tuple(parameters), id=name)


#: They count a weight of 2 as two rows.
COUNTS_ROWS = {
    "excess_calibration_error", "debiased_squared_calibration_error", "calibration_error_interval",
}  # fmt: skip


@pytest.mark.parametrize(("metric", "parameters"), [*_weighted_metrics()])
def test_the_unit_of_the_weights_changes_no_metric(metric, parameters):
    rng = np.random.default_rng(0)
    p = rng.dirichlet([0.5] * 3, 200)
    arrays = [p, rng.integers(0, 3, 200)]
    if "domains" in parameters:
        arrays.append(rng.integers(0, 3, 200))
    weight = rng.integers(1, 4, 200).astype(float)
    if metric.__name__ in COUNTS_ROWS:
        metric(*arrays, sample_weight=weight)
        for unit in (1e15, 1e89):
            with pytest.raises(dc.errors.InputError, match=r"weight of 2 as two rows.* 1e\+12"):
                metric(*arrays, sample_weight=weight * unit)
        return
    expected = metric(*arrays, sample_weight=weight)
    for unit in (1e-100, 1e-15, 1e15, 1e89):
        found = metric(*arrays, sample_weight=weight * unit)
        if metric is dc.reliability_curve:  # its interval counts rows
            assert ((found.low >= 0) & (found.high <= 1) | np.isnan(found.accuracy)).all()
            np.testing.assert_allclose(found.accuracy, expected.accuracy, atol=1e-9)
        else:
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_numbers_of_any_length_are_refused():
    """Python cannot convert 10**400 to float, and refuses to write 10**5000."""
    for value in (10**400, 10**5000, np.timedelta64(1, "s")):
        with pytest.raises(dc.errors.InputError, match="n_bins must be a whole number"):
            dc.metrics.confidence_calibration_error([0.5], [1], n_bins=value)
        with pytest.raises(dc.errors.InputError, match="noise must be a number"):
            dc.make_multi_domain(noise=value)
        with pytest.raises(dc.errors.InputError, match="confidences must be an array of real"):
            dc.metrics.confidence_calibration_error([value], [1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.5, 1.5], [1, 0]), r"confidences contains 1.5 \(row 1\)"),
        (([0.5, 0.5], [1, 2]), r"hits contains 2"),
        (([0.5, 0.5], [1]), r"hits has 1 rows"),
        (([0.5, 0.5], [1, 0], ["a"]), r"domains has 1 rows"),
        (([0.5, 0.5], [1, 0], ["a", None]), r"domains has no value in row 1"),
        (([0.5, 0.5], [1, 0], ["a", "all"]), r"domains contains 'all'.*rename that domain"),
        (([], []), r"confidences is empty"),
    ],
)
def test_risk_coverage_refuses_invalid_rows(arguments, message):
    with pytest.raises(dc.errors.InputError, match=message):
        dc.risk_coverage(*arguments)


def test_thresholds_accuracies_and_levels_are_shares():
    found = dc.risk_coverage([0.5, 0.9], [0, 1])
    found.at(0), found.at(1.0), found.threshold_for(1)
    for accuracy in (0.0, 1.01, 95, np.nan, "0.95", True):
        with pytest.raises(dc.errors.InputError, match=r"accuracy must be a number > 0 and <= 1"):
            found.threshold_for(accuracy)
    with pytest.raises(dc.errors.InputError, match=r"threshold is NaN.*a lower accuracy"):
        found.at(found.threshold_for(0.99)["high"].item())
    for threshold in (-0.1, 1.1, "0.9", None):
        with pytest.raises(dc.errors.InputError, match=r"threshold must be a number >= 0 and <= 1"):
            found.at(threshold)
    for level in (0.0, 1.0, 95):
        for call in (lambda: found.at(0.5, level=level), lambda: found.threshold_for(level=level)):  # noqa: B023
            with pytest.raises(dc.errors.InputError, match=r"level must be a number > 0 and < 1"):
                call()

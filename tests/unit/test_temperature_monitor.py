"""TemperatureMonitor: what it says about a stream is what the estimator says about the rows."""

import warnings
from copy import deepcopy
from dataclasses import replace
from functools import cache, reduce
from itertools import islice
from operator import add

import numpy as np
import pandas as pd
import pytest

import domaincal as dc
from crafted_models import altered_models, read_model, write_model
from domaincal.deploy.monitored_sums import MonitoredSums
from domaincal.errors import FewClassesWarning, FileFormatError, InputError
from domaincal.statistics.batch_sums import RowStatistics
from support import small_domains

DATA = small_domains(n_domains=13, n_rows=150)
KNOWN, NEW = dc.split_domains(DATA, ["domain-03", "domain-05", "domain-07"])
# Too few domains for intervals, but fast.
FEW = KNOWN[np.isin(KNOWN.domains, KNOWN.domain_names[:4])]
# In an order in which the domains take turns at random.
NEW = NEW[np.random.default_rng(0).permutation(len(NEW))]
WIDE = 10_000
MEMORIES = ({"window": WIDE}, {"window": 40}, {"window": 7}, {"half_life": 30.0})


@cache
def fitted():
    """Estimator of the known domains."""
    return dc.shift.ConfidenceEstimator().fit(KNOWN)


def watched(data, size=100, **memory):
    """Monitor that got the rows in blocks of this size."""
    monitor = dc.TemperatureMonitor(fitted(), **memory)
    for start in range(0, len(data), size):
        monitor.update(data[start : start + size])
    return monitor


def assert_same(one, other, *, rtol=1e-9):
    pd.testing.assert_frame_equal(one, other, rtol=rtol, check_exact=False)


def assert_agrees(status, data):
    """The status of a monitor is what the estimator and its calibrator say about these rows."""
    table = fitted().predict(data)
    for column in ("domain", "n", "verdict", "reason"):
        assert status[column].tolist() == table[column].tolist()
    for column in ("predicted_accuracy", "low", "high"):
        np.testing.assert_allclose(status[column], table[column], atol=1e-4, rtol=0)
    first = [np.flatnonzero(data.domains == name)[0] for name in table["domain"]]
    calibrator = fitted().calibrator_
    np.testing.assert_allclose(
        status["temperature"], calibrator.predict_temperature(data)[first], rtol=1e-9
    )
    np.testing.assert_allclose(
        status["temperature_error"], calibrator.predict_temperature_error(data)[first], rtol=1e-9
    )


def test_the_status_is_what_the_estimator_says_about_all_rows():
    assert_agrees(watched(NEW, window=WIDE).status(), NEW)


@pytest.mark.parametrize("window", [1, 7, 20, 33, 100])
def test_the_status_is_what_the_estimator_says_about_the_last_rows(window):
    rows = NEW[NEW.domains == "domain-05"]
    status = watched(rows, size=13, window=window).status()
    (n,) = status["n"]
    assert window <= n < window + np.ceil(window / 20)
    assert_agrees(status, rows[len(rows) - n :])


def test_rows_without_domains_are_one_domain():
    monitor = dc.TemperatureMonitor(fitted())
    monitor.update(NEW.logits, features=NEW.features)
    status = monitor.status()
    assert list(map(repr, status["domain"])) == ["'all rows'"]
    table = fitted().predict(NEW.logits, features=NEW.features)
    assert status["predicted_accuracy"][0] == pytest.approx(
        table["predicted_accuracy"][0], abs=1e-4
    )


@pytest.mark.parametrize("memory", MEMORIES)
def test_the_size_of_the_blocks_changes_nothing(memory, monkeypatch):
    whole = watched(NEW, size=len(NEW), **memory).status()
    for size in (1, 7, 100):
        assert_same(watched(NEW, size, **memory).status(), whole)
    # Many rows are also cut into blocks inside of the monitor.
    monkeypatch.setattr("domaincal.deploy.temperature_monitor._BLOCK_BYTES", 50_000)
    assert_same(watched(NEW, size=len(NEW), **memory).status(), whole)


def test_the_order_of_rows_that_all_count_changes_nothing():
    order = np.random.default_rng(1).permutation(len(NEW))
    assert_same(watched(NEW[order], window=WIDE).status(), watched(NEW, window=WIDE).status())


@pytest.mark.parametrize("half_life", [4.0, 30.0])
def test_forgotten_rows_count_with_weights_that_halve(half_life):
    rows = NEW[NEW.domains == "domain-05"]
    weight = 0.5 ** (np.arange(len(rows))[::-1] / half_life)
    calibrator = fitted().calibrator_
    sums = RowStatistics.from_rows(
        rows.logits, 1 / calibrator.temperature_, calibrator.feature_directions_(rows.features)
    ).sums(np.zeros(len(rows), np.int64), 1, weight=weight)
    n = weight.sum() ** 2 / (weight**2).sum()
    found = calibrator.batch_map_.predict(sums.statistics(), np.array([n]))
    temperature = np.exp(found.log_temperature[0])
    z = rows.logits / temperature
    confidence = 1 / np.exp(z - z.max(axis=1, keepdims=True)).sum(axis=1)

    status = watched(rows, size=40, half_life=half_life).status().iloc[0]
    assert status["n"] == round(n)
    assert status["temperature"] == pytest.approx(temperature, rel=1e-9)
    assert status["predicted_accuracy"] == pytest.approx(
        np.average(confidence, weights=weight), abs=1e-4
    )


def test_without_forgetting_all_rows_count():
    assert_same(
        watched(NEW, half_life=1e11).status(), watched(NEW, window=WIDE).status(), rtol=1e-6
    )


@pytest.mark.parametrize("memory", MEMORIES)
def test_monitors_of_other_domains_add_up_to_one_that_saw_all(memory):
    parts = [watched(NEW[NEW.domains == name], **memory) for name in NEW.domain_names]
    assert_same(reduce(add, parts).status(), watched(NEW, **memory).status())


def test_monitors_of_the_same_domains_add_up_to_the_rows_of_both():
    half = len(NEW) // 2
    one, other = (watched(rows, window=WIDE) for rows in (NEW[:half], NEW[half:]))
    before = one.status()
    assert_same((one + other).status(), watched(NEW, window=WIDE).status())
    assert_same((other + one).status(), (one + other).status())
    assert_same(one.status(), before, rtol=0)


def test_a_domain_of_two_monitors_counts_both_windows_until_new_rows_come():
    rows = NEW[NEW.domains == "domain-05"]
    one, other = watched(rows[:75], window=20), watched(rows[75:], window=20)
    both = one + other
    assert_agrees(both.status(), rows[[*range(55, 75), *range(130, 150)]])
    both.update(rows[:20])
    assert_agrees(both.status(), rows[:20])


def test_of_two_monitors_the_oldest_rows_of_each_are_dropped_first():
    rows = NEW[NEW.domains == "domain-05"]
    # The last five of each are five parts of two rows; before them are 15 parts of one row.
    both = watched(rows[:75], window=20) + watched(rows[75:80], window=20)
    both.update(rows[80:85])
    assert_agrees(both.status(), rows[65:85])


def test_only_like_monitors_are_added():
    monitor = watched(NEW, window=20)
    with pytest.raises(InputError, match="window=20 and half_life=5 cannot be added"):
        monitor + dc.TemperatureMonitor(fitted(), half_life=5)
    other = deepcopy(fitted())
    other.coverage = 0.8
    with pytest.raises(InputError, match="different estimators"):
        monitor + dc.TemperatureMonitor(other, window=20)
    with pytest.raises(TypeError):
        monitor + 1


@pytest.mark.parametrize("memory", MEMORIES)
def test_a_loaded_monitor_goes_on_where_it_was(memory, tmp_path):
    path = tmp_path / "monitor.safetensors"
    half = len(NEW) // 2
    monitor = watched(NEW[:half], **memory)
    monitor.update(NEW.logits[:3], features=NEW.features[:3], domains=[4, -1, 4])
    monitor.save(path)
    loaded = dc.TemperatureMonitor.load(path)
    assert loaded.parameters() == monitor.parameters()
    assert_same(loaded.status(), monitor.status(), rtol=0)
    assert loaded.status()["domain"].tolist()[:2] == [-1, 4]
    for one in (monitor, loaded):
        one.update(NEW[half:])
    assert_same(loaded.status(), monitor.status(), rtol=0)
    assert_same((monitor + loaded).status(), (loaded + monitor).status())
    # The file is also one of a calibrator and of an estimator.
    assert dc.load(path).n_classes_ == 5
    assert_same(dc.shift.load_estimator(path).predict(NEW), fitted().predict(NEW), rtol=0)


def test_an_empty_monitor_has_an_empty_table(tmp_path):
    monitor = dc.TemperatureMonitor(fitted())
    monitor.save(tmp_path / "empty.safetensors")
    for one in (monitor, dc.TemperatureMonitor.load(tmp_path / "empty.safetensors")):
        assert one.status().shape == (0, 10)
    assert repr(monitor) == "<TemperatureMonitor of 0 domains, window=1000>"


def test_a_file_without_a_monitor_is_refused(tmp_path):
    path = tmp_path / "model.safetensors"
    dc.shift.save_estimator(fitted(), path, calibrator=fitted().calibrator_)
    with pytest.raises(InputError, match="holds no monitor; give a file that monitor"):
        dc.TemperatureMonitor.load(path)


def _forged(header, tensors):
    """Files with another section of the monitor."""
    own = {name: values for name, values in tensors.items() if name.startswith("monitor.")}
    section = {"monitor": header["sections"]["monitor"]}
    for what, altered, arrays in altered_models(section, own):
        sections = {**header["sections"], **altered}
        if "monitor" in altered:
            yield what, {**header, "sections": sections}, {**tensors, **arrays}


@pytest.mark.parametrize("memory", [{"window": 20}, {"half_life": 30.0}])
def test_a_forged_monitor_is_refused_or_gives_a_valid_status(memory, tmp_path):
    path = tmp_path / "monitor.safetensors"
    watched(NEW[:60], **memory).save(path)
    header, tensors = read_model(path)
    n_refused = 0
    for what, *content in islice(_forged(header, tensors), 0, None, 3):
        write_model(path, *content)
        try:
            monitor = dc.TemperatureMonitor.load(path)
        except FileFormatError:
            n_refused += 1
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dc.DomaincalWarning)
            status = monitor.status()
        assert (status["temperature"] > 0).all(), what
        assert status["predicted_accuracy"].between(0, 1).all(), what
    assert n_refused > 50


def test_a_domain_that_occurs_twice_is_refused(tmp_path):
    path = tmp_path / "monitor.safetensors"
    watched(NEW[:60]).save(path)
    header, tensors = read_model(path)
    names = header["sections"]["monitor"]["domains"]
    names[1] = names[0]
    write_model(path, header, tensors)
    with pytest.raises(FileFormatError, match="a domain that occurs twice"):
        dc.TemperatureMonitor.load(path)


# Columns of the sums: rows, squared weights, values of the logits, then of the classes.
@pytest.mark.parametrize(
    ("column", "value"),
    [(0, 3.0), (0, 1e17), (1, 0.5), (1, 1e6), (2, 1e300), (20, 9.0), (40, -1.0), (200, 7.0),
     (-1, -1.0), (-1, 1e6), (5, np.nan)],
)  # fmt: skip
def test_sums_that_no_rows_can_have_are_refused(column, value, tmp_path):
    path = tmp_path / "monitor.safetensors"
    watched(NEW[:60], window=20).save(path)
    header, tensors = read_model(path)
    tensors["monitor.sums"][2, column] = value
    write_model(path, header, tensors)
    with pytest.raises(FileFormatError, match="sums that no rows can have"):
        dc.TemperatureMonitor.load(path)


def test_the_memory_does_not_grow_with_the_number_of_rows(tmp_path):
    sizes = []
    monitor = dc.TemperatureMonitor(fitted(), window=40)
    for k in range(5):
        monitor.update(NEW)
        monitor.save(tmp_path / f"{k}.safetensors")
        sizes.append((tmp_path / f"{k}.safetensors").stat().st_size)
    assert len(set(sizes)) == 1


@pytest.mark.parametrize("ratio", [1.0, 10.0, 1e4])
def test_confidences_between_the_stored_temperatures_are_interpolated(ratio):
    estimator = deepcopy(fitted())
    calibrator = estimator.calibrator_
    reach = np.log(ratio) / 2
    middle = calibrator.batch_map_.log_pooled
    calibrator.batch_map_ = replace(calibrator.batch_map_, low=middle - reach, high=middle + reach)
    layout = MonitoredSums(estimator)
    logits, n = NEW.logits.copy(), len(NEW)
    logits[:100, 1:] = 0.0  # equal margins are the most difficult
    each_row = np.arange(n)
    sums = layout.of_rows(logits, NEW.features, each_row, n, np.ones(n))
    log_t = np.random.default_rng(0).uniform(middle - reach, middle + reach, n)
    z = logits / np.exp(log_t)[:, None]
    expected = 1 / np.exp(z - z.max(axis=1, keepdims=True)).sum(axis=1)
    np.testing.assert_allclose(layout.mean_confidences(sums, log_t), expected, atol=1e-4)


def test_a_warning_is_given_once_for_each_domain():
    rows = NEW[np.argsort(NEW.logits.argmax(axis=1), kind="stable")]
    calls = []
    monitor = dc.TemperatureMonitor(fitted(), window=30)
    for start in range(0, len(rows), 45):
        monitor.update(rows[start : start + 45])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            monitor.status()
        calls += [str(one.message) for one in caught if one.category is FewClassesWarning]
    names = [text.split(":")[0] for text in calls]
    assert names
    assert len(set(names)) == len(names)
    assert set(names) <= {f"domain '{name}'" for name in NEW.domain_names}


@pytest.mark.parametrize("order", ["C", "F"])
def test_an_update_does_not_change_the_arrays(order):
    logits, features = (a.copy(order=order) for a in (NEW.logits, NEW.features))
    dc.TemperatureMonitor(fitted()).update(logits, features=features)
    assert np.array_equal(logits, NEW.logits)
    assert np.array_equal(features, NEW.features)


@pytest.mark.parametrize("broken", ["logits", "features"])
def test_rows_of_a_failed_update_are_not_counted(broken, monkeypatch):
    monkeypatch.setattr("domaincal.deploy.temperature_monitor._BLOCK_BYTES", 50_000)
    monitor = watched(NEW[:100])
    before = monitor.status()
    arrays = {"logits": NEW.logits.copy(), "features": NEW.features.copy()}
    arrays[broken][-1, 0] = np.nan
    with pytest.raises(InputError, match=broken):
        monitor.update(**arrays)
    assert_same(monitor.status(), before, rtol=0)


def test_wrong_rows_are_refused():
    monitor = dc.TemperatureMonitor(fitted())
    with pytest.raises(InputError, match="4 classes, but the fit had 5"):
        monitor.update(NEW.logits[:, :4], features=NEW.features)
    with pytest.raises(InputError, match="update got a CalibrationData"):
        monitor.update(NEW, domains=NEW.domains)
    with pytest.raises(InputError, match="TemperatureMonitor needs features"):
        monitor.update(NEW.logits)
    with pytest.raises(InputError, match="features"):
        monitor.update(NEW.logits, features=NEW.features[:, :3])


def test_an_estimator_without_features_needs_none():
    estimator = dc.shift.ConfidenceEstimator().fit(FEW.logits, FEW.labels, domains=FEW.domains)
    monitor = dc.TemperatureMonitor(estimator)
    monitor.update(NEW.logits, domains=NEW.domains)
    table = estimator.predict(NEW.logits, domains=NEW.domains)
    np.testing.assert_allclose(
        monitor.status()["predicted_accuracy"], table["predicted_accuracy"], atol=1e-4
    )


@pytest.mark.parametrize(
    ("memory", "message"),
    [
        ({"window": 5, "half_life": 5}, "both window=5 and half_life=5"),
        ({"window": 0}, "window must be a whole number >= 1, got 0"),
        ({"window": 2.5}, "window must be a whole number"),
        ({"half_life": 0.0}, "half_life must be a number > 0"),
        ({"half_life": np.nan}, "half_life must be a number > 0"),
    ],
)
def test_wrong_parameters_are_refused(memory, message):
    with pytest.raises(InputError, match=message):
        dc.TemperatureMonitor(fitted(), **memory)


def test_only_fitted_estimators_of_batches_are_monitored():
    unlike = {
        "must be a ConfidenceEstimator, got BatchTemperatureScaling": fitted().calibrator_,
        "not fitted": dc.shift.ConfidenceEstimator(),
        "with TemperatureScaling": dc.shift.ConfidenceEstimator(dc.TemperatureScaling()).fit(FEW),
        "batch='row'": dc.shift.ConfidenceEstimator(
            dc.BatchTemperatureScaling(batch="row")
        ).fit(FEW),
    }  # fmt: skip
    for message, estimator in unlike.items():
        with pytest.raises(InputError, match=message):
            dc.TemperatureMonitor(estimator)

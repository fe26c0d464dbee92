"""Rows of a store that are read in blocks give the numbers of rows in memory."""

import os
import pickle
import tracemalloc

import numpy as np
import pytest
from scipy.stats import chisquare
from sklearn.base import clone

import domaincal as dc
from domaincal._row_arrays import ComputedRows, MappedRows
from domaincal.calibrators import blocked_fits
from domaincal.calibrators.batch import blocked_batches
from domaincal.calibrators.inputs import TrainingRows, unpack_arguments
from domaincal.calibrators.row_sample import distinct_numbers, equal_sizes, sample_blocks
from domaincal.errors import (
    ClippedTemperatureWarning,
    FileFormatError,
    InputError,
    SubsampleWarning,
    UnseenDomainWarning,
)
from domaincal.kernels import dispatch
from domaincal.statistics import blocks, feature_products

METHODS = {
    "msp": dc.MaxSoftmax(),
    "ts": dc.TemperatureScaling(),
    "domain-ts": dc.DomainTemperatureScaling(),
    "ols": dc.MultiDomainTemperatureScaling(),
    "log": dc.MultiDomainTemperatureScaling(
        target="log", fit_intercept=True, domain_weight="equal"
    ),
    "ridge": dc.MultiDomainTemperatureScaling(head="ridge"),
    "alpha": dc.MultiDomainTemperatureScaling(head="ridge", alpha=3.0),
    "logits": dc.MultiDomainTemperatureScaling(features="logits"),
}


@pytest.fixture(scope="module")
def data():
    """Rows of all domains in random order: most blocks hold rows of every domain."""
    rows, _ = dc.make_multi_domain(n_domains=7, n_rows=900, random_state=3)
    return rows.select(np.random.default_rng(3).permutation(len(rows)))


@pytest.fixture(scope="module")
def store(data, tmp_path_factory):
    """Three shards of unequal length; the last has only some of the domains."""
    store = dc.Store(tmp_path_factory.mktemp("blocks") / "scores")
    last = np.flatnonzero(data.domain_codes[0] < 4)[-500:]
    first = np.setdiff1d(np.arange(len(data)), last)
    for part in (first[:1234], first[1234:], last):
        store.append(data.select(part))
    return store


@pytest.fixture(params=[1 << 22, 1 << 14], ids=["large", "small"])
def block_bytes(request, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_BYTES", request.param)
    monkeypatch.setattr(feature_products, "BLAS_BLOCK_BYTES", 4 * request.param)
    monkeypatch.setattr("domaincal.data.blocked_rows.BLOCK_BYTES", request.param)


@pytest.mark.parametrize("method", METHODS)
def test_fit_and_predictions_equal_those_in_memory(method, store, block_bytes):
    memory = store.read()
    expected = clone(METHODS[method]).fit(memory)
    found = clone(METHODS[method]).fit(store)
    np.testing.assert_allclose(
        found.predict_temperature(store), expected.predict_temperature(memory), rtol=1e-10
    )
    np.testing.assert_allclose(
        found.predict_proba(store), expected.predict_proba(memory), rtol=1e-6
    )
    np.testing.assert_allclose(
        found.predict_confidence(store), expected.predict_confidence(memory), rtol=1e-6
    )
    assert found.data_fingerprint_ == expected.data_fingerprint_
    assert found.n_classes_ == expected.n_classes_


def test_large_logits_start_from_the_same_sample(tmp_path, monkeypatch):
    # Both fits sample one in 8 runs of rows first: their start, and so their T, must be equal.
    data, _ = dc.make_multi_domain(n_domains=2, n_rows=20_000, n_classes=10, random_state=1)
    dc.write(data, tmp_path / "scores")
    asked = []
    real = dispatch.sampled_rows
    monkeypatch.setattr(
        dispatch, "sampled_rows", lambda *a, **k: asked.append(k["every"]) or real(*a, **k)
    )
    found = dc.DomainTemperatureScaling().fit(dc.Store(tmp_path / "scores"))
    expected = dc.DomainTemperatureScaling().fit(data)
    assert set(asked) >= {8}
    assert found.n_iter_ == expected.n_iter_
    np.testing.assert_allclose(
        found.domain_temperatures_, expected.domain_temperatures_, rtol=1e-12
    )


def test_a_value_of_the_sample_that_is_not_finite_is_named(tmp_path):
    data, _ = dc.make_multi_domain(n_domains=2, n_rows=20_000, n_classes=10, random_state=1)
    row = int(dispatch.sampled_rows(20_000, 40_000, n_classes=10, every=8)[0])
    logits = data.logits.copy()
    logits[row, 3] = np.nan
    dc.write(dc.CalibrationData(logits, data.labels, domains=data.domains), tmp_path / "bad")
    with pytest.raises(InputError, match=rf"logits contains NaN \(row {row}, column 3\)"):
        dc.DomainTemperatureScaling().fit(dc.Store(tmp_path / "bad"))


def test_ridge_search_scores_the_candidates_as_in_memory(store):
    memory = store.read()
    expected = clone(METHODS["ridge"]).fit(memory).head_search_
    found = clone(METHODS["ridge"]).fit(store).head_search_
    np.testing.assert_allclose(found.to_numpy(float), expected.to_numpy(float), rtol=1e-9)


def test_other_heads_say_what_they_sample(store):
    with pytest.warns(SubsampleWarning, match="140 of 6300 rows, at most 20 of each domain"):
        fitted = dc.MultiDomainTemperatureScaling(head="krr", max_rows=140).fit(store)
    assert fitted.head_rows_ == 140
    with pytest.warns(SubsampleWarning, match="700 of 6300 rows"):
        dc.MultiDomainTemperatureScaling(head="huber", max_rows=700).fit(store)


def test_blocks_are_the_rows(store, data):
    rows = store.rows()
    memory = store.read()
    parts = list(rows.blocks(n_rows=1000))
    assert [len(part) for part in parts] == [1000] * 6 + [300]
    for name in ("logits", "labels", "features", "domains"):
        joined = np.concatenate([getattr(part, name) for part in parts])
        np.testing.assert_array_equal(joined, getattr(memory, name))
    assert rows.domain_names.tolist() == memory.domain_names.tolist()
    assert len(rows) == len(memory)
    for part in parts:  # codes count the names of the part only
        codes, names = part.domain_codes
        np.testing.assert_array_equal(names[codes], part.domains)
        assert set(codes.tolist()) == set(range(len(names)))


@pytest.mark.parametrize("names", ["integers", "texts"])
def test_codes_follow_the_sorted_names_of_all_shards(tmp_path, names):
    store = dc.Store(tmp_path / "scores")
    parts = [[9, 2], [5, 9]] if names == "integers" else [["z", "b"], ["m", "z"]]
    for part in parts:
        store.append(dc.CalibrationData(np.eye(2), labels=[0, 1], domains=part))
    coded = store.rows().domains
    assert coded.names.tolist() == sorted({*parts[0], *parts[1]})
    assert coded.names[coded.codes[0:4]].tolist() == parts[0] + parts[1]


def test_selections_are_those_of_numpy(store):
    rows, memory = store.rows().logits, store.read().logits
    random = np.random.default_rng(0)
    for index in (
        np.array([], np.int64),
        np.array([6299, 0, 1234, 1233, 0]),
        random.integers(0, 6300, 400),
        random.random(6300) < 0.3,
        slice(10, 5000, 7),
        slice(-3, None),
    ):
        np.testing.assert_array_equal(rows[index], memory[index])


def test_rows_can_be_pickled(store):
    again = pickle.loads(pickle.dumps(store.rows()))
    np.testing.assert_array_equal(again.logits[5:9], store.read().logits[5:9])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_forked_processes_read_their_own_rows(store):
    rows, expected = store.rows(), np.array(store.read().logits)
    rows.logits[0:1]  # opens the first file
    children = []
    for seed in range(2):
        child = os.fork()
        if child == 0:
            right = False
            try:
                starts = np.random.default_rng(seed).integers(0, 1200, 3000)
                right = all(
                    np.array_equal(rows.logits[start : start + 9], expected[start : start + 9])
                    for start in starts.tolist()
                )
            finally:
                os._exit(0 if right else 1)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]


@pytest.mark.parametrize(("index", "row"), [([3, -1], -1), ([0, 6300], 6300)])
def test_rows_that_do_not_exist_are_an_error(store, index, row):
    with pytest.raises(InputError, match=rf"there is no row {row}; use numbers from 0 to 6299"):
        store.rows().select(np.array(index))


def test_mapped_rows_read_the_chosen_rows_only():
    read = []

    class Noted(ComputedRows):
        def _select(self, rows):
            read.append(rows.tolist())
            return np.sqrt(rows)

    source = Noted((50,), np.float64, lambda start, stop: np.sqrt(np.arange(start, stop)))
    mapped = MappedRows((50,), np.float64, np.negative, source)
    np.testing.assert_array_equal(mapped[np.array([40, 3])], -np.sqrt([40, 3]))
    assert read == [[40, 3]]


def test_a_sample_takes_memory_for_the_drawn_rows_only():
    random = np.random.default_rng(0)
    tracemalloc.start()
    drawn = distinct_numbers(5_000_000, 500_000, random)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(np.unique(drawn)) == 500_000
    assert peak < 6 * drawn.nbytes  # all numbers would take 10 times as much


@pytest.mark.parametrize("size", [3, 8])
def test_all_numbers_are_drawn_equally_often(size):
    counts = np.zeros(10)
    random = np.random.default_rng(0)
    for _ in range(2000):
        drawn = distinct_numbers(10, size, random)
        assert len(drawn) == size
        counts[drawn] += 1
    assert counts.sum() == 2000 * size
    assert chisquare(counts).pvalue > 1e-4


def test_a_sample_does_not_depend_on_the_blocks(monkeypatch):
    domain = np.random.default_rng(0).integers(0, 5, 3000)
    codes = ComputedRows((3000,), np.int64, lambda start, stop: domain[start:stop])
    used = np.array([True, True, False, True, True])
    counts = np.bincount(domain)
    sizes = equal_sizes(counts, used, 400)
    drawn = []
    for size in (1 << 22, 999):
        monkeypatch.setattr(blocks, "BLOCK_BYTES", size)
        drawn.append(sample_blocks(codes, sizes, n_rows=counts, random_state=0))
    np.testing.assert_array_equal(*drawn)
    assert np.bincount(domain[drawn[0]], minlength=5).tolist() == [100, 100, 0, 100, 100]
    assert len(np.unique(drawn[0])) == 400
    sizes = equal_sizes(counts, used, 3000)
    everything = sample_blocks(codes, sizes, n_rows=counts, random_state=0)
    np.testing.assert_array_equal(everything, np.flatnonzero(domain != 2))


def test_a_warning_of_several_blocks_comes_once(store, monkeypatch):
    monkeypatch.setattr("domaincal.data.blocked_rows.BLOCK_BYTES", 1 << 14)
    fitted = dc.DomainTemperatureScaling().fit(store.read().select(slice(0, 600)))
    fitted.domain_temperatures_ = fitted.domain_temperatures_.drop("domain-0")
    fitted.used_domains_ = fitted.used_domains_[1:]
    with pytest.warns(UnseenDomainWarning, match=r"'domain-0'.* blocks of rows\)") as caught:
        fitted.predict_temperature(store)
    assert len(caught) == 1


# Their fits take sums over all rows, and at most as many rows in memory as the data have.
SAME_AS_IN_MEMORY = {
    "histogram": dc.HistogramBinning(),
    "one-vs-rest": dc.HistogramBinning(scheme="one-vs-rest"),
    "knn": dc.MultiDomainTemperatureScaling(head="knn"),
    "batch": dc.BatchTemperatureScaling(),
    "row": dc.BatchTemperatureScaling(batch="row"),
    "feature": dc.FeatureTemperatureScaling(),
    "mixture": dc.DomainMixtureScaling(),
    "shift": dc.ShiftWeightedScaling(),
    "transcal": dc.TransCal(),
    "cpcs": dc.CPCS(),
    "dac": dc.DAC(),
    "vector": dc.VectorScaling(),
    "auto": dc.AutoCalibration([dc.MultiDomainTemperatureScaling()]),
    "auto of batches": dc.AutoCalibration(batch_size=50),
}


@pytest.mark.parametrize("method", SAME_AS_IN_MEMORY)
def test_other_fits_and_predictions_equal_those_in_memory(method, store, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1 << 16)
    monkeypatch.setattr("domaincal.data.blocked_rows.BLOCK_BYTES", 1 << 17)
    memory = store.read()
    expected = clone(SAME_AS_IN_MEMORY[method]).fit(memory).predict_proba(memory)
    fitted = clone(SAME_AS_IN_MEMORY[method]).fit(store)
    np.testing.assert_allclose(fitted.predict_proba(store), expected, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(fitted.predict_proba(memory), expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("scheme", ["top-label", "one-vs-rest"])
@pytest.mark.parametrize(
    "method",
    [dc.HistogramBinning(strategy="quantile"), dc.IsotonicCalibration(), dc.BayesianBinning()],
    ids=lambda method: type(method).__name__,
)
def test_maps_of_a_histogram_of_scores_are_close(method, scheme, store, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1 << 16)
    memory = store.read()
    method = clone(method).set_params(scheme=scheme)
    expected = clone(method).fit(memory).predict_proba(memory)
    found = method.fit(store).predict_proba(memory)
    # Steps move by few of the 6,300 rows: a row near a step can be on its other side.
    change = np.abs(found - expected).max(axis=1)
    assert (change > 6e-3).mean() < 0.01
    assert 0 < change.mean() < 1e-3


def test_scores_that_are_not_finite_are_named_in_blocks(tmp_path):
    z = np.random.default_rng(0).normal(size=(50, 3))
    z[17, 1] = np.inf
    store = _store(tmp_path / "bad", logits=z, labels=np.arange(50) % 3)
    for scheme in ("top-label", "one-vs-rest"):
        with pytest.raises(InputError, match=r"logits contains inf \(row 17, column 1\)"):
            dc.IsotonicCalibration(scheme=scheme).fit(store)


@pytest.mark.parametrize("method", [dc.VectorScaling(), dc.TransCal()], ids=repr)
def test_methods_that_need_memory_say_what_they_sample(method, store, monkeypatch):
    monkeypatch.setattr(blocked_fits, "SAMPLE_BYTES", 200_000)
    name = type(method).__name__
    with pytest.warns(SubsampleWarning, match=rf"{name} needs rows in memory.* of 6300 rows"):
        fitted = method.fit(store)
    assert fitted.n_classes_ == 10


def test_batches_are_resampled_from_fewer_rows_if_memory_is_short(store, monkeypatch):
    monkeypatch.setattr(blocked_fits, "SAMPLE_BYTES", 500_000)
    with pytest.warns(SubsampleWarning, match="batches from at most [0-9]+ rows of each domain"):
        found = dc.BatchTemperatureScaling().fit(store)
    expected = dc.BatchTemperatureScaling().fit(store.read())
    change = np.log(found.predict_temperature(store) / expected.predict_temperature(store))
    assert 0 < np.abs(change).max() < 0.2


def test_a_sample_for_memory_has_every_domain(store, monkeypatch):
    monkeypatch.setattr(blocked_fits, "SAMPLE_BYTES", 30_000)
    inputs = unpack_arguments("fit", store, features=None, domains=None)
    rows = TrainingRows(inputs.logits, inputs.y, inputs.features, inputs.domains, None)
    with pytest.warns(SubsampleWarning):
        some = blocked_fits.read_or_sample(rows, name="Method")
    counts = np.unique(some.domains, return_counts=True)[1]
    assert counts.tolist() == [max(10, 900 * (30_000 // rows_bytes(rows)) // 6300)] * 7


def rows_bytes(rows):
    return rows.logits.row_bytes + rows.features.row_bytes


def test_batches_that_fit_no_memory_together_are_read_in_groups(store, monkeypatch):
    fitted = dc.ShiftWeightedScaling().fit(store)
    expected = fitted.predict_temperature(store)
    monkeypatch.setattr(blocked_batches, "GROUP_BYTES", 400_000)
    np.testing.assert_array_equal(fitted.predict_temperature(store), expected)
    monkeypatch.setattr(blocked_batches, "GROUP_BYTES", 10_000)
    with pytest.raises(InputError, match="ShiftWeightedScaling needs the rows of a batch in memor"):
        fitted.predict_temperature(store)


@pytest.mark.parametrize("method", ["predict_all", "predict_temperature_error"])
def test_methods_without_blocks_say_so(method, store):
    fitted = dc.BatchTemperatureScaling().fit(store)
    with pytest.raises(InputError, match=rf"{method} needs rows in memory; read the data first"):
        getattr(fitted, method)(store)


@pytest.mark.parametrize("domains", [True, False])
@pytest.mark.parametrize("features", [True, False])
@pytest.mark.parametrize("batch", ["domain", "row"])
def test_batches_are_predicted_in_two_passes(
    store, tmp_path, block_bytes, domains, features, batch
):
    memory = store.read()
    given = {"domains": memory.domains if domains else None}
    given["features"] = memory.features if features else None
    new = dc.CalibrationData(memory.logits, memory.labels, **given)
    dc.write(new, tmp_path / "new")
    rows = dc.Store(tmp_path / "new")
    fitted = dc.BatchTemperatureScaling(batch=batch).fit(
        memory.logits, memory.labels, features=given["features"], domains=memory.domains
    )
    for method in ("predict_temperature", "predict_confidence", "predict_proba"):
        expected, found = (getattr(fitted, method)(one) for one in (new, rows))
        np.testing.assert_allclose(found, expected, rtol=1e-6 if method[8] in "cp" else 1e-10)
    expected, found = (dc.score_table(fitted, one) for one in (new, rows))
    np.testing.assert_allclose(found["ece"], expected["ece"], rtol=1e-9)


def test_batches_without_the_features_of_the_fit_are_refused(store, tmp_path):
    memory = store.read()
    fitted = dc.BatchTemperatureScaling().fit(memory)
    dc.write(dc.CalibrationData(memory.logits, domains=memory.domains), tmp_path / "bare")
    with pytest.raises(InputError, match="needs features"):
        fitted.predict_proba(dc.Store(tmp_path / "bare"))


def test_weights_are_refused(store):
    with pytest.raises(InputError, match="sample_weight cannot be used"):
        dc.TemperatureScaling().fit(store, sample_weight=np.ones(len(store)))


def test_arrays_beside_a_store_are_refused(store):
    with pytest.raises(InputError, match=r"fit got a BlockedRows.* and y as well"):
        dc.TemperatureScaling().fit(store, np.zeros(len(store)))
    fitted = dc.TemperatureScaling().fit(store)
    with pytest.raises(InputError, match="features as well"):
        fitted.predict_proba(store, features=np.zeros((len(store), 2)))


def _store(path, **arrays):
    given = {"logits": np.random.default_rng(0).normal(size=(40, 3)), **arrays}
    dc.Store(path).write(dc.CalibrationData(**given))
    return dc.Store(path)


def test_missing_arrays_are_named(tmp_path):
    with pytest.raises(InputError, match="no labels, which fit needs"):
        dc.TemperatureScaling().fit(_store(tmp_path / "a"))
    labelled = _store(tmp_path / "b", labels=np.arange(40) % 3)
    with pytest.raises(InputError, match="needs features"):
        dc.MultiDomainTemperatureScaling().fit(labelled)
    with pytest.raises(InputError, match="needs domains"):
        dc.DomainTemperatureScaling().fit(labelled)


@pytest.mark.parametrize("array", ["logits", "features"])
def test_a_value_that_is_not_finite_is_named(tmp_path, array, store):
    memory = store.read()
    values = {"logits": np.array(memory.logits), "features": np.array(memory.features)}
    values[array][4321, 2] = np.nan
    dc.Store(tmp_path / "bad").write(
        dc.CalibrationData(**values, labels=memory.labels, domains=memory.domains)
    )
    with pytest.raises(InputError, match=rf"{array} contains NaN \(row 4321, column 2\)"):
        dc.MultiDomainTemperatureScaling().fit(dc.Store(tmp_path / "bad"))


def test_labels_outside_the_classes_are_refused(tmp_path):
    store = _store(tmp_path / "scores", labels=np.arange(40) % 3)
    path = store.path / "part-00000" / "labels.npy"
    labels = np.load(path)
    labels[7] = 3
    np.save(path, labels)
    with pytest.raises(InputError, match="contains 3, outside the classes"):
        dc.TemperatureScaling().fit(store)


def test_a_file_that_changes_while_it_is_read_is_an_error(tmp_path):
    store = _store(tmp_path / "scores", labels=np.arange(40) % 3)
    rows = store.rows()
    path = store.path / "part-00000" / "logits.npy"
    logits = np.load(path)
    np.save(path, logits * 2.0)
    with pytest.raises(FileFormatError, match=r"logits\.npy was changed while it was read"):
        dc.TemperatureScaling().fit(rows)
    rows = store.rows()
    path.unlink()
    with pytest.raises(FileFormatError, match=r"logits\.npy was removed or replaced"):
        dc.TemperatureScaling().fit(rows)


def test_rows_of_a_replaced_store_are_an_error(tmp_path):
    store = _store(tmp_path / "scores", labels=np.arange(40) % 3)
    rows = store.rows()
    _store(tmp_path / "scores", labels=np.arange(40) % 2)
    with pytest.raises(FileFormatError, match="was removed or replaced while it was read"):
        dc.TemperatureScaling().fit(rows)
    assert store.rows().labels[0:4].tolist() == [0, 1, 0, 1]  # opened again: the new rows


def test_a_truncated_shard_is_an_error(tmp_path):
    store = _store(tmp_path / "scores", labels=np.arange(40) % 3)
    path = store.path / "part-00000" / "logits.npy"
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(FileFormatError, match=r"logits\.npy is truncated or damaged"):
        store.rows()


def test_codes_without_a_name_are_an_error(tmp_path):
    store = _store(tmp_path / "scores", labels=np.arange(40) % 3, domains=np.arange(40) % 2)
    path = store.path / "part-00000" / "domains.npy"
    codes = np.load(path)
    codes[3] = 2
    np.save(path, codes)
    with pytest.raises(FileFormatError, match="codes that have no name"):
        dc.DomainTemperatureScaling().fit(store)


def test_clipped_rows_of_each_block_are_reported(store, tmp_path):
    memory = store.read()
    fitted = dc.MultiDomainTemperatureScaling().fit(memory)
    dc.write(dc.CalibrationData(memory.logits, features=memory.features * 100), tmp_path / "scaled")
    with pytest.warns(ClippedTemperatureWarning):
        fitted.predict_temperature(dc.Store(tmp_path / "scaled"))


@pytest.mark.parametrize("method", ["msp", "ts", "domain-ts", "log"])
def test_scores_equal_those_in_memory(method, store, block_bytes):
    memory = store.read()
    fitted = clone(METHODS[method]).fit(memory)
    expected, found = (dc.score_table(fitted, rows) for rows in (memory, store))
    assert found.columns.tolist() == expected.columns.tolist()
    assert found["domain"].tolist() == expected["domain"].tolist()
    assert found["n"].tolist() == expected["n"].tolist()
    numbers = expected.columns[3:]
    np.testing.assert_allclose(found[numbers], expected[numbers], rtol=1e-9, atol=1e-12)


def test_evaluate_fits_and_scores_stores(store):
    memory = store.read()
    methods = [dc.TemperatureScaling(), dc.MultiDomainTemperatureScaling()]
    expected = dc.evaluate(methods, train=memory, test=memory)
    found = dc.evaluate(methods, train=store, test=store.rows())
    assert found["method"].tolist() == expected["method"].tolist()
    np.testing.assert_allclose(found["ece"], expected["ece"], rtol=1e-9)


def test_rows_without_domains_are_scored_as_one(tmp_path):
    store = _store(tmp_path / "scores", labels=np.arange(40) % 3)
    fitted = dc.MaxSoftmax().fit(store)
    assert dc.score_table(fitted, store)[["domain", "n"]].to_numpy().tolist() == [["all", 40]]


def test_what_cannot_be_scored_in_blocks_says_so(store, tmp_path):
    with pytest.raises(InputError, match="test has no labels; write the store"):
        dc.score_table(dc.TemperatureScaling().fit(store), _store(tmp_path / "plain"))


class OwnFit(dc.TemperatureScaling):
    def fit(self, logits, y=None, *, features=None, domains=None, sample_weight=None):
        return super().fit(logits, y)


def test_a_fit_of_a_user_needs_memory(store):
    with pytest.raises(InputError, match=r"OwnFit has a fit of its own.*store\.read\(\)"):
        dc.evaluate(OwnFit(), train=store, test=store)

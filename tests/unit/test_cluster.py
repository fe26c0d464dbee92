"""Rows on a Dask cluster give the numbers of rows in memory."""

import json
import re
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from sklearn.base import clone

import domaincal as dc
from domaincal.cli import main
from domaincal.errors import (
    InputError,
    SubsampleWarning,
    UnseenDomainWarning,
)
from domaincal.statistics.blocks import thread_count
from domaincal.statistics.normal_equations import sum_normal_equations

pytest.importorskip("distributed", reason="the extra dask is not installed")
import dask.array as da
import dask.dataframe as dd

from clusters import (
    blocked_rows,
    dask_arrays,
    shuffled_rows,  # noqa: F401  (a fixture)
    three_shards,  # noqa: F401  (a fixture)
    two_workers,  # noqa: F401  (a fixture)
)
from domaincal import distributed

# Processes that end give warnings of Dask in its own threads, where an error would stop its loop.
pytestmark = pytest.mark.filterwarnings("default")

METHODS = {
    "ts": dc.TemperatureScaling(),
    "log": dc.MultiDomainTemperatureScaling(
        target="log", fit_intercept=True, domain_weight="equal"
    ),
    "ridge": dc.MultiDomainTemperatureScaling(head="ridge"),
    "alpha": dc.MultiDomainTemperatureScaling(head="ridge", alpha=3.0),
    "logits": dc.MultiDomainTemperatureScaling(features="logits"),
}


@pytest.fixture(scope="module")
def memory(store):
    return store.read()


@pytest.fixture(scope="module")
def rows(store, client):
    return distributed.on_cluster(store, client)


def _same_scores(found, expected):
    assert found["domain"].tolist() == expected["domain"].tolist()
    assert found["n"].tolist() == expected["n"].tolist()
    numbers = expected.columns[3:]
    np.testing.assert_allclose(found[numbers], expected[numbers], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_fits_predictions_and_scores_equal_those_in_memory(method, rows, memory):
    expected = clone(METHODS[method]).fit(memory)
    found = clone(METHODS[method]).fit(rows)
    np.testing.assert_allclose(
        found.predict_temperature(rows), expected.predict_temperature(memory), rtol=1e-10
    )
    assert found.data_fingerprint_ == expected.data_fingerprint_
    _same_scores(dc.score_table(found, rows), dc.score_table(expected, memory))


def test_domain_temperatures_equal_those_in_memory(rows, memory):
    expected = dc.DomainTemperatureScaling().fit(memory)
    found = dc.DomainTemperatureScaling().fit(rows)
    for name in ("domain_temperatures_", "domain_standard_errors_"):
        pd.testing.assert_series_equal(getattr(found, name), getattr(expected, name), rtol=1e-10)
    assert found.n_iter_ == expected.n_iter_


@pytest.mark.filterwarnings("ignore::domaincal.errors.PoorHeadWarning")
@pytest.mark.parametrize(("condition", "tolerance"), [(1e3, 1e-10), (1e5, 1e-8)])
def test_dependent_features_keep_the_tolerance(client, data, condition, tolerance):
    u, _, v = np.linalg.svd(data.features.astype(np.float64), full_matrices=False)
    features = (u * np.logspace(0, -np.log10(condition), u.shape[1])) @ v
    bad = dc.CalibrationData(data.logits, data.labels, features, data.domains)
    rows = distributed.on_cluster(blocked_rows(bad), client)
    expected = dc.MultiDomainTemperatureScaling().fit(bad).predict_temperature(bad)
    found = dc.MultiDomainTemperatureScaling().fit(rows).predict_temperature(bad)
    np.testing.assert_allclose(found, expected, rtol=tolerance)


def test_float32_products_are_added(rows, memory):
    codes, part = memory.domain_codes[0], np.arange(7) % 2
    found = sum_normal_equations(
        rows.features, rows.domains.codes, part=part, n_parts=2, single=True
    )
    expected = sum_normal_equations(memory.features, codes, part=part, n_parts=2)
    for a, b in zip(found, expected, strict=True):
        assert a.single
        np.testing.assert_allclose(a.gram, b.gram, rtol=1e-4, atol=1e-4 * np.abs(b.gram).max())


def test_the_search_scores_the_candidates_as_in_memory(rows, memory):
    expected = clone(METHODS["ridge"]).fit(memory).head_search_
    found = clone(METHODS["ridge"]).fit(rows).head_search_
    np.testing.assert_allclose(found.to_numpy(float), expected.to_numpy(float), rtol=1e-9)


def test_samples_are_those_of_the_store(rows, store):
    method = dc.MultiDomainTemperatureScaling(head="krr", max_rows=140)
    with pytest.warns(SubsampleWarning, match="140 of 6300 rows"):
        found = clone(method).fit(rows)
    with pytest.warns(SubsampleWarning, match="140 of 6300 rows"):
        expected = clone(method).fit(store)
    np.testing.assert_array_equal(found.head_.rows, expected.head_.rows)


def test_workers_have_one_thread(client):
    assert set(client.run(thread_count).values()) == {1}


def test_rows_are_read_from_their_workers(rows, memory):
    parts = list(rows.blocks(n_rows=1000))
    for name in ("logits", "labels", "features", "domains"):
        joined = np.concatenate([getattr(part, name) for part in parts])
        np.testing.assert_array_equal(joined, getattr(memory, name))
    some = np.array([6299, 0, 1234, 1233, 0])
    np.testing.assert_array_equal(rows.logits[some], memory.logits[some])
    np.testing.assert_array_equal(rows.logits[::600], memory.logits[::600])
    assert rows.logits[some[:0]].shape == (0, 10)


@pytest.mark.parametrize("method", ["predict_proba", "predict_confidence"])
def test_predictions_come_in_the_order_of_the_rows(rows, memory, method, monkeypatch):
    monkeypatch.setattr("domaincal.data.blocked_rows.BLOCK_BYTES", 1 << 14)
    fitted = clone(METHODS["log"]).fit(memory)
    found, expected = (getattr(fitted, method)(one) for one in (rows, memory))
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_batches_are_fitted_and_predicted(rows, memory):
    fitted = dc.BatchTemperatureScaling().fit(memory)
    # The order of the rows alone changes these temperatures by 1.5e-4, in memory too.
    again = dc.BatchTemperatureScaling().fit(rows)
    np.testing.assert_allclose(
        again.predict_temperature(memory), fitted.predict_temperature(memory), rtol=1e-3
    )
    found, expected = (fitted.predict_temperature(one) for one in (rows, memory))
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    _same_scores(dc.score_table(fitted, rows), dc.score_table(fitted, memory))


def test_binning_is_fitted_to_sums(rows, store):
    method = dc.HistogramBinning(scheme="one-vs-rest")
    found, expected = (clone(method).fit(one) for one in (rows, store))
    for a, b in zip(found.maps_, expected.maps_, strict=True):
        np.testing.assert_allclose(a.values, b.values, rtol=1e-9)


def test_rows_of_a_mask_stay_on_their_workers(rows, memory):
    mask = (memory.domains != "domain-2") & (np.arange(len(memory)) % 3 > 0)
    mask[:2500] = False  # no row of some parts
    again = np.arange(mask.sum()) % 2 == 0
    some, expected = rows.where(mask).where(again), memory.select(mask).select(again)
    assert some.row_parts is not None
    assert some.domain_names.tolist() == expected.domain_names.tolist()
    for name in ("logits", "labels", "features", "domains"):
        joined = np.concatenate([getattr(block, name) for block in some.blocks()])
        np.testing.assert_array_equal(joined, getattr(expected, name))
    found, fitted = (clone(METHODS["log"]).fit(one) for one in (some, expected))
    np.testing.assert_allclose(found.coef_, fitted.coef_, rtol=1e-9)


@pytest.mark.parametrize("use", ["predict_temperature", "score_table"])
def test_a_warning_of_the_workers_comes_once(rows, memory, use):
    fitted = dc.DomainTemperatureScaling().fit(memory.select(memory.domains != "domain-0"))
    predict = fitted.predict_temperature if use == "predict_temperature" else None
    with pytest.warns(UnseenDomainWarning, match="'domain-0'") as caught:
        predict(rows) if predict else dc.score_table(fitted, rows)
    assert len(caught) == 1


def test_dask_arrays_equal_memory(client, data):
    arrays = dask_arrays(data, 2000)
    arrays["logits"] = da.from_array(data.logits, chunks=(1100, 4))
    arrays["labels"] = da.from_array(data.labels, chunks=777)
    logits = arrays.pop("logits")
    rows = distributed.from_dask(logits, **arrays, client=client)
    assert rows.domain_names.tolist() == data.domain_names.tolist()
    expected, found = (clone(METHODS["ridge"]).fit(one) for one in (data, rows))
    np.testing.assert_allclose(
        found.predict_temperature(rows), expected.predict_temperature(data), rtol=1e-10
    )
    assert found.data_fingerprint_ == expected.data_fingerprint_
    _same_scores(dc.score_table(found, rows), dc.score_table(expected, data))


def test_chunks_of_unknown_length_are_counted(client, data):
    arrays = dask_arrays(data, 2000)
    kept = data.labels != 3
    logits, labels = (
        arrays[name][da.from_array(kept, chunks=2000)] for name in ("logits", "labels")
    )
    rows = distributed.from_dask(logits, labels, client=client)
    assert len(rows) == kept.sum()
    found = dc.TemperatureScaling().fit(rows).temperature_
    expected = dc.TemperatureScaling().fit(data.logits[kept], data.labels[kept]).temperature_
    assert found == pytest.approx(expected, rel=1e-10)


@pytest.fixture(scope="module")
def frame(data):
    """Classes and sites with names; the first partition is empty, and each lacks some sites."""
    frame = pd.DataFrame(data.logits[:, :4], columns=[f"z_{c}" for c in "abcd"])
    frame["truth"] = np.array(list("abcd"))[data.logits[:, :4].argmax(axis=1)]
    frame.loc[::3, "truth"] = "a"
    frame["site"] = data.domains
    frame["age"], frame["note"] = data.features[:, 0].astype(np.float64), "text"
    return frame.sort_values("site", ignore_index=True)


def test_a_dask_data_frame_equals_memory(client, frame):
    columns = {"logits": "z_*", "label": "truth", "domain": "site", "features": ["age"]}
    given = dd.from_pandas(frame, npartitions=5, sort=False)
    given = dd.concat([given[given["age"] > 1e9], given])
    rows = distributed.from_dask(given, **columns, client=client)
    expected = dc.CalibrationData.from_frame(frame, **columns)
    assert rows.class_names == expected.class_names == ("a", "b", "c", "d")
    assert rows.feature_names == ("age",)
    method = dc.MultiDomainTemperatureScaling(fit_intercept=True)
    found, fitted = clone(method).fit(rows), clone(method).fit(expected)
    np.testing.assert_allclose(
        found.predict_temperature(rows), fitted.predict_temperature(expected), rtol=1e-10
    )
    assert found.feature_columns_ == fitted.feature_columns_
    _same_scores(dc.score_table(found, rows), dc.score_table(fitted, expected))


def test_a_partition_with_an_error_is_named(client, frame, data):
    bad = frame.copy()
    bad.loc[3500, "age"] = np.nan
    given = dd.from_pandas(bad, npartitions=5, sort=False)
    columns = {"logits": "z_*", "label": "truth", "domain": "site", "features": ["age"]}
    with pytest.raises(InputError, match=r"partition 2 .*'age' has no value in row 980"):
        distributed.from_dask(given, **columns, client=client)
    arrays = dask_arrays(data, 2000)
    labels = arrays["labels"] + (arrays["labels"] == 9) * (da.arange(6300, chunks=2000) >= 6000)
    with pytest.raises(InputError, match=r"partition 3 .* contains 10, outside the classes"):
        distributed.from_dask(arrays["logits"], labels, client=client)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": np.zeros(6300)}, "labels must be a dask array like the logits, got ndarray"),
        ({"labels": da.zeros(10)}, "labels has 10 rows, but the logits have 6300"),
        ({"features": da.zeros(6300)}, r"features must have 2 dimensions, got shape \(6300,\)"),
        ({"label": "y"}, "label=... names columns of a data frame, but data is an array"),
        ({"data": np.zeros((3, 2))}, "must be a dask array of logits or a dask data frame"),
        ({"data": da.zeros((0, 2))}, "data has no rows"),
    ],
)
def test_what_from_dask_cannot_use_is_named(client, data, change, message):
    given = {"data": da.from_array(data.logits, chunks=2000), "client": client, **change}
    with pytest.raises(InputError, match=message):
        distributed.from_dask(**given)


@pytest.mark.parametrize(("kind", "names"), [("classes", "z_"), ("features", "x_")])
def test_partitions_with_columns_in_another_order_are_an_error(client, data, kind, names):
    columns = [f"z_{c}" for c in "abcdefghij"], [f"x_{c}" for c in "abcdefghijklmnop"]
    arrays = zip((data.logits, data.features), columns, strict=True)
    frame = pd.concat([pd.DataFrame(a, columns=c) for a, c in arrays], axis=1)
    frame["label"] = data.labels
    chosen = [name for name in frame if name.startswith(names)]
    others = [name for name in frame if name not in chosen]
    parts = [frame.iloc[:2000], frame.iloc[2000:][[*chosen[::-1], *others]]]
    given = dd.from_map(lambda number: parts[number], [0, 1], meta=parts[0].iloc[:0])
    with pytest.raises(InputError, match=rf"the {kind} of the first partition are .*number 1"):
        distributed.from_dask(given, logits="z_*", features="x_*", label="label", client=client)


@pytest.mark.parametrize("name", ["scores", "scores.zarr"])
def test_workers_find_a_relative_path(client, data, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    dc.write(data, name)
    with dc.io.open_rows(name) as opened:
        rows = distributed.on_cluster(opened.rows, client)
        assert dc.TemperatureScaling().fit(rows).n_classes_ == 10


def test_arguments_of_on_cluster_are_checked(client, rows, data, store):
    with pytest.raises(InputError, match=r"must be a Store .* got CalibrationData"):
        distributed.on_cluster(data, client)
    with pytest.raises(InputError, match="on a cluster already"):
        distributed.on_cluster(rows, client)
    with pytest.raises(InputError, match=r"must be a distributed\.Client, got str"):
        distributed.on_cluster(store, "tcp://127.0.0.1:1")
    with pytest.raises(InputError, match="no client was created"):
        distributed.on_cluster(store)


@pytest.mark.parametrize("suffix", [".zarr", ".parquet"])
def test_other_files_equal_memory(client, memory, tmp_path, suffix):
    pytest.importorskip({".zarr": "zarr", ".parquet": "pyarrow"}[suffix])
    dc.write(memory, tmp_path / f"scores{suffix}")
    with dc.io.open_rows(tmp_path / f"scores{suffix}") as opened:
        rows = distributed.on_cluster(opened.rows, client)
        found = dc.MultiDomainTemperatureScaling(fit_intercept=True).fit(rows)
    expected = dc.MultiDomainTemperatureScaling(fit_intercept=True).fit(memory)
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-9)
    assert found.data_fingerprint_ == expected.data_fingerprint_


def test_the_blocks_of_the_page_run(client, monkeypatch, capsys):
    monkeypatch.setattr(distributed, "cluster_client", lambda **options: nullcontext(client))
    page = (Path(__file__).parents[2] / "docs/clusters.md").read_text()
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(compile(block, "docs/clusters.md", "exec"), {})
    assert capsys.readouterr().out.splitlines() == ["8 domains", "T = 1.625", "(8,)"]


def _ran(arguments):
    done = CliRunner().invoke(main, [*map(str, arguments)])
    assert done.exit_code == 0, done.output
    assert done.stderr == ""
    return json.loads(done.stdout)


def test_verbs_on_a_cluster_give_what_they_give_here(client, store, tmp_path):
    cluster = ["--scheduler", client.scheduler.address]
    fits = []
    for name, more in (("here", []), ("there", cluster)):
        model = tmp_path / f"{name}.safetensors"
        _ran(["fit", store.path, "-o", model, "--method", "md-ts", "--json", *more])
        fits.append(dc.load(model))
    np.testing.assert_allclose(fits[0].coef_, fits[1].coef_, rtol=1e-9)
    scores = ["evaluate", store.path, "--methods", "ts,md-ts", "--ood", "domain-3", "--json"]
    found, expected = (pd.DataFrame(_ran([*scores, *m])["table"]) for m in (cluster, []))
    np.testing.assert_allclose(found["ece"], expected["ece"], rtol=1e-9)


def _require_same_arrays(found, expected):
    for name, values in expected.items():
        size = np.abs(np.nan_to_num(values.astype(float))).max()
        np.testing.assert_allclose(found[name], values, rtol=1e-7, atol=1e-9 * size)


def test_a_site_can_sum_the_rows_of_a_cluster(rows, memory):
    sums = distributed.summarize_site(memory, search=True)
    _require_same_arrays(distributed.summarize_site(rows, search=True).arrays(), sums.arrays())
    for method in (dc.TemperatureScaling(), dc.MultiDomainTemperatureScaling(head="ridge")):
        plan = distributed.plan_second_round([sums], method)
        expected = distributed.answer_plan(memory, plan).arrays()
        _require_same_arrays(distributed.answer_plan(rows, plan).arrays(), expected)


def test_a_site_on_a_cluster_counts_the_rows_in_which_a_feature_differs(memory, client, tmp_path):
    features = np.tile(memory.features[:, :1], (1, 4)).astype(float)
    codes = memory.domain_codes[0]
    place = np.arange(len(memory))
    features[:, 1] = np.isin(place, np.flatnonzero(codes == 1)[3:10]) + 2.0
    features[:, 2] = codes
    data = dc.CalibrationData(
        memory.logits, labels=memory.labels, features=features, domains=memory.domains
    )
    store = dc.Store(tmp_path / "rare")
    store.write(data)
    for rows in (data, distributed.on_cluster(store, client)):
        with pytest.raises(InputError, match=r"the feature 1 \(7 rows\) differs .* of domain '"):
            distributed.summarize_site(rows)

"""Files of all earlier format versions can be read and give the same values."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

import domaincal as dc
from archives.make import Scores, animals
from crafted_models import read_model
from domaincal.calibrators.files import model_file
from domaincal.calibrators.files.registry import METHODS
from domaincal.io import store_meta

ARCHIVES = sorted(p for p in (Path(__file__).parents[1] / "archives").glob("v*"))
MODELS = [p for folder in ARCHIVES for p in sorted(folder.glob("*.safetensors"))]


def test_every_version_has_files():
    models = {read_model(path)[0]["version"] for path in MODELS}
    assert models == set(range(1, model_file.VERSION + 1))
    stores = {json.loads((f / "scores" / "meta.json").read_text())["version"] for f in ARCHIVES}
    assert stores == set(range(1, store_meta.VERSION + 1))
    assert len(MODELS) >= 11 * len(ARCHIVES)


def test_the_newest_version_has_a_file_of_every_class():
    headers = [read_model(path)[0] for path in MODELS]
    newest = {header["class"] for header in headers if header["version"] == model_file.VERSION}
    # AutoCalibration saves its winner.
    assert newest == {cls.__name__ for cls in METHODS.values()} - {"AutoCalibration"}


@pytest.mark.parametrize("path", MODELS, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_only_a_chosen_model_says_how_it_was_chosen(path):
    selection = dc.load(path).provenance_
    assert (selection is not None) == (path.stem == "chosen")
    if selection is not None:
        assert selection.batch_size == 20
        assert selection.table["method"].tolist() == [
            "TemperatureScaling", "BatchTemperatureScaling",
        ]  # fmt: skip


@pytest.mark.parametrize("folder", ARCHIVES, ids=lambda p: p.name)
@pytest.mark.parametrize("name", ["scores.npz", "scores.csv", "scores", "scores.parquet"])
def test_data_of_earlier_versions_can_be_read(folder, name):
    if name.endswith(".parquet"):
        pytest.importorskip("pyarrow")
    data = dc.read(folder / name, verify=True)
    made, _ = dc.make_multi_domain(3, 40, 3, 2, random_state=0)  # as in make.py
    np.testing.assert_array_equal(data.logits.astype("f4"), made.logits)
    np.testing.assert_array_equal(data.labels, made.labels)
    np.testing.assert_array_equal(data.domains, made.domains)
    np.testing.assert_array_equal(data.groups, np.arange(len(made)) % 40)
    assert data.class_names == ("ant", "bee", "cat")
    assert data.feature_names == (None if folder.name == "v1" else ("width", "height"))


@pytest.mark.parametrize("folder", ARCHIVES, ids=lambda p: p.name)
def test_rows_are_appended_to_stores_of_earlier_versions(folder, tmp_path, monkeypatch):
    store = dc.Store(shutil.copytree(folder / "scores", tmp_path / "scores"))
    before = store.read()
    more = replace(before[:50], domains=np.arange(50).astype(str), groups=np.arange(50) + 7)

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("domaincal.io.store.replacing", full)
        with pytest.raises(OSError, match="No space"):
            store.append(more)
    np.testing.assert_array_equal(store.read(verify=True).logits, before.logits)

    for k in (1, 2):
        store.append(more, at=len(before) + 50 * (k - 1))
        found = store.read(verify=True)
        assert len(store) == len(found) == len(before) + 50 * k
        for name in ("logits", "labels", "features", "domains", "groups"):
            parts = [getattr(before, name), *[getattr(more, name)] * k]
            np.testing.assert_array_equal(getattr(found, name), np.concatenate(parts))
        np.testing.assert_array_equal(store.domains(), found.domains)
        assert (found.class_names, found.feature_names) == (
            before.class_names, before.feature_names,
        )  # fmt: skip
        assert found.provenance == before.provenance

    store.write(more)
    assert len(store.read(verify=True)) == 50
    left = {path.name for path in store.path.iterdir()}
    assert left == {".lock", "meta.json", "part-00005"}


def test_a_damaged_list_of_earlier_shards_is_found(tmp_path):
    store = dc.Store(shutil.copytree(ARCHIVES[0] / "scores", tmp_path / "scores"))
    store.append(store.read()[:50])
    content = (store.path / "earlier.json").read_text()
    for damaged in (content.replace("domain-0", "domain-9"), content[:-5], ""):
        (store.path / "earlier.json").write_text(damaged)
        with pytest.raises(dc.errors.FileFormatError, match=r"earlier.json has changed since"):
            store.read()
    (store.path / "earlier.json").unlink()
    with pytest.raises(dc.errors.FileFormatError, match=r"earlier.json is missing"):
        store.read()


@pytest.mark.parametrize("path", MODELS, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_models_of_earlier_versions_give_the_same_confidences(path):
    found = dc.load(path).predict_confidence(dc.read(path.parent / "scores.npz"))
    expected = np.load(path.parent / "expected.npz")[path.stem]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize(
    "path", [p for p in MODELS if p.stem == "classifier"], ids=lambda p: p.parent.name
)
def test_classifiers_of_earlier_versions_can_be_loaded(path):
    X, y, domains = animals()
    model = dc.CalibratedDomainClassifier.load(
        path, Scores(), estimator_file=path.with_name("scores.csv")
    )
    refitted = clone(model).fit(X, y, domains=domains)
    np.testing.assert_allclose(model.predict_proba(X), refitted.predict_proba(X), rtol=1e-6)

"""Files of all earlier format versions can be read and give the same values."""

from pathlib import Path

import numpy as np
import pytest

import domaincal as dc
from domaincal.calibrators import model_file
from domaincal.io import store_meta

ARCHIVES = sorted(p for p in (Path(__file__).parents[1] / "archives").glob("v*"))
MODELS = [p for folder in ARCHIVES for p in sorted(folder.glob("*.safetensors"))]


def test_every_version_has_files():
    newest = max(model_file.VERSION, store_meta.VERSION)
    assert [folder.name for folder in ARCHIVES] == [f"v{k + 1}" for k in range(newest)]
    assert len(MODELS) >= 11 * len(ARCHIVES)


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


@pytest.mark.parametrize("path", MODELS, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_models_of_earlier_versions_give_the_same_confidences(path):
    found = dc.load(path).predict_confidence(dc.read(path.parent / "scores.npz"))
    expected = np.load(path.parent / "expected.npz")[path.stem]
    np.testing.assert_allclose(found, expected, rtol=1e-6)

"""Wherever the rows are, the fits are the same: memory, store, parquet, csv, Zarr, other blocks."""

import numpy as np
import pytest
from sklearn.base import clone

import domaincal as dc
from domaincal.statistics import blocks, feature_products

SUFFIXES = ("", ".parquet", ".csv", ".zarr")
METHODS = {
    "ts": dc.TemperatureScaling(),
    "ols": dc.MultiDomainTemperatureScaling(),
    "ridge": dc.MultiDomainTemperatureScaling(head="ridge", fit_intercept=True),
}
# Largest relative difference of predicted temperatures by the condition number of the features.
TOLERANCES = {1e3: 1e-10, 1e5: 1e-8}


@pytest.fixture(scope="module", params=TOLERANCES, ids=lambda condition: f"cond{condition:g}")
def rows(request):
    """Rows whose features have the given condition number, in float64."""
    data, _ = dc.make_multi_domain(n_domains=6, n_rows=300, n_classes=4, random_state=1)
    random = np.random.default_rng(1)
    x = data.features.astype(np.float64)
    u, _, v = np.linalg.svd(x, full_matrices=False)
    x = u * np.geomspace(1.0, 1.0 / request.param, x.shape[1]) @ v * np.sqrt(len(x))
    order = random.permutation(len(data))
    made = dc.CalibrationData(
        data.logits.astype(np.float64), data.labels, x, domains=data.domains
    ).select(order)
    return request.param, made


@pytest.fixture(scope="module")
def fitted(rows):
    condition, data = rows
    return condition, data, {name: clone(method).fit(data) for name, method in METHODS.items()}


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("block_bytes", [1 << 22, 1 << 13], ids=["large", "small"])
@pytest.mark.filterwarnings("ignore::domaincal.errors.PoorHeadWarning")
def test_files_give_the_fits_of_memory(fitted, suffix, block_bytes, tmp_path, monkeypatch):
    for suffix_of, package in ((".parquet", "pyarrow"), (".zarr", "zarr")):
        if suffix == suffix_of:
            pytest.importorskip(package)
    condition, data, expected = fitted
    monkeypatch.setattr(blocks, "BLOCK_BYTES", block_bytes)
    monkeypatch.setattr(feature_products, "BLAS_BLOCK_BYTES", 4 * block_bytes)
    monkeypatch.setattr("domaincal.data.blocked_rows.BLOCK_BYTES", block_bytes)
    dc.write(data, tmp_path / f"scores{suffix}")
    with dc.io.open_rows(tmp_path / f"scores{suffix}") as opened:
        for name, method in METHODS.items():
            again = clone(method).fit(opened.rows)
            np.testing.assert_allclose(
                again.predict_temperature(opened.rows),
                expected[name].predict_temperature(data),
                rtol=TOLERANCES[condition],
            )
            assert again.temperature_ == pytest.approx(expected[name].temperature_, rel=1e-10)

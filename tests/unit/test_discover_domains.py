"""discover_domains: clusters of features as domains."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import domaincal as dc
from domaincal.calibrators.features import domain_discovery
from domaincal.calibrators.features.row_clusters import RowClusters
from support import small_domains

DATA = small_domains(n_domains=6)


def _blobs(rng, n_blobs=5, n_rows=60, spread=0.1, temperatures=None):
    """Features around n_blobs centres; each blob has a temperature of its own."""
    codes = np.arange(n_blobs * n_rows) % n_blobs
    x = 3.0 * rng.normal(size=(n_blobs, 6))[codes] + spread * rng.normal(size=(len(codes), 6))
    t = np.exp(np.linspace(-1.5, 1.5, n_blobs)) if temperatures is None else temperatures
    z = 3.0 * rng.normal(size=(len(codes), 4))
    y = np.argmax(z / t[codes][:, None] + rng.gumbel(size=z.shape), axis=1)
    return x, z, y, codes


@pytest.mark.parametrize("seed", range(3))
def test_clear_clusters_are_found(seed):
    x, _, _, codes = _blobs(np.random.default_rng(seed))
    found = dc.discover_domains(x, n_domains=5)
    assert adjusted_rand_score(codes, found) == 1.0
    assert found.dtype == np.int64


@pytest.mark.parametrize("seed", range(3))
def test_the_number_of_domains_is_that_of_the_temperatures(seed):
    x, z, y, codes = _blobs(np.random.default_rng(seed), n_rows=400)
    found = dc.discover_domains(x, logits=z, labels=y)
    # More domains than temperatures cost little: at least the blobs are kept apart.
    assert all(len(np.unique(codes[found == k])) == 1 for k in range(found.max() + 1))
    assert 5 <= found.max() + 1 <= 20


def test_one_temperature_gives_few_domains():
    x, z, y, _ = _blobs(np.random.default_rng(0), n_rows=400, temperatures=np.ones(5))
    assert dc.discover_domains(x, logits=z, labels=y).max() + 1 <= 5


def test_no_more_domains_than_asked_for():
    found = dc.discover_domains(DATA, max_domains=3)
    assert found.max() < 3
    assert dc.discover_domains(DATA, max_domains=1).tolist() == [0] * len(DATA)


def test_the_same_input_gives_the_same_domains():
    first = dc.discover_domains(DATA.features, n_domains=7, random_state=3)
    np.testing.assert_array_equal(
        dc.discover_domains(DATA.features, n_domains=7, random_state=3), first
    )


def test_domains_are_numbered_in_the_order_of_their_first_rows():
    found = dc.discover_domains(DATA.features, n_domains=7)
    _, first = np.unique(found, return_index=True)
    assert (np.diff(first) > 0).all()
    assert found[0] == 0


def test_the_unit_of_a_feature_changes_nothing():
    x, _, _, _ = _blobs(np.random.default_rng(1), spread=1.0)
    units = np.array([1e-6, 1.0, 1e3, 1.0, 1e9, 2.0])
    np.testing.assert_array_equal(
        dc.discover_domains(x * units + 5.0, n_domains=5), dc.discover_domains(x, n_domains=5)
    )


@pytest.mark.parametrize("n_domains", [2, 10, 40, 100])
def test_every_domain_has_ten_rows(n_domains):
    rng = np.random.default_rng(0)
    # A few rows far from all others would be clusters of their own.
    x = np.concatenate([rng.normal(size=(300, 4)), 100.0 + rng.normal(size=(4, 4))])
    found = dc.discover_domains(x, n_domains=n_domains)
    assert np.bincount(found).min() >= 10
    assert found.max() + 1 <= n_domains


@pytest.mark.parametrize("n_rows", [1, 5, 9, 12])
def test_few_rows_are_one_domain(n_rows):
    found = dc.discover_domains(DATA.features[:n_rows], n_domains=5)
    assert found.tolist() == [0] * n_rows
    data = DATA.select(np.arange(n_rows))
    assert dc.discover_domains(data).tolist() == [0] * n_rows


def test_equal_rows_are_one_domain():
    assert dc.discover_domains(np.ones((50, 3)), n_domains=5).tolist() == [0] * 50
    two = np.repeat([[0.0], [1.0]], 25, axis=0)
    assert dc.discover_domains(two, n_domains=5).tolist() == [0] * 25 + [1] * 25


def test_large_data_are_assigned_to_the_clusters_of_a_sample(monkeypatch):
    monkeypatch.setattr(domain_discovery, "MAX_ROWS", 150)
    x, _, _, codes = _blobs(np.random.default_rng(2), n_rows=200)
    assert adjusted_rand_score(codes, dc.discover_domains(x, n_domains=5)) == 1.0


def test_small_clusters_join_the_nearest():
    rows = np.concatenate([np.zeros((20, 1)), np.ones((20, 1)), np.full((3, 1), 1.4)])
    clusters = RowClusters.fit(rows, 3, 0)
    np.testing.assert_allclose(np.sort(clusters.centres, axis=0), [[0.0], [1.0]])
    assert len(set(clusters(rows)[20:].tolist())) == 1


def test_calibration_data_replace_the_arrays():
    expected = dc.discover_domains(DATA.features, logits=DATA.logits, labels=DATA.labels)
    np.testing.assert_array_equal(dc.discover_domains(DATA), expected)
    unlabelled = dc.CalibrationData(DATA.logits, features=DATA.features)
    assert len(dc.discover_domains(unlabelled, n_domains=4)) == len(DATA)
    with pytest.raises(dc.errors.InputError, match="there are no labels to choose it by"):
        dc.discover_domains(unlabelled)
    with pytest.raises(dc.errors.InputError, match="got a CalibrationData"):
        dc.discover_domains(DATA, labels=DATA.labels)


def test_tensors_give_the_domains_of_arrays():
    torch = pytest.importorskip("torch")
    found = dc.discover_domains(
        torch.tensor(DATA.features), logits=torch.tensor(DATA.logits), labels=DATA.labels
    )
    np.testing.assert_array_equal(found, dc.discover_domains(DATA))


def test_discovered_domains_serve_as_domains():
    domains = dc.discover_domains(DATA)
    calibrator = dc.DomainMixtureScaling().fit(
        DATA.logits, DATA.labels, features=DATA.features, domains=domains
    )
    assert len(calibrator.domain_temperatures_) == domains.max() + 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"features": DATA.features}, r"no logits and labels .*pass logits=.*or n_domains=20"),
        ({"features": DATA.features, "logits": DATA.logits}, "no labels"),
        ({"features": DATA.features, "labels": DATA.labels}, "no logits"),
        ({"features": DATA.features, "n_domains": 0}, "n_domains must be"),
        ({"features": DATA.features, "n_domains": 2.5}, "n_domains must be"),
        ({"features": DATA.features, "n_domains": 2, "max_domains": 0}, "max_domains must be"),
        ({"features": DATA.features, "n_domains": 2, "random_state": "x"}, "random_state must be"),
        ({"features": DATA.features[:, 0], "n_domains": 2}, "two dimensions"),
        ({"features": None, "n_domains": 2}, "discover_domains needs features"),
        ({"features": [["a"]], "n_domains": 2}, "features"),
        ({"features": DATA.features * np.nan, "n_domains": 2}, "features contains NaN"),
        ({"features": DATA.features[:0], "n_domains": 2}, "features"),
        (
            {"features": DATA.features, "logits": DATA.logits[:9], "labels": DATA.labels},
            "logits have 9 rows, but features have 480",
        ),
        (
            {"features": DATA.features, "logits": DATA.logits, "labels": DATA.labels[:9]},
            "labels",
        ),
        (
            {"features": DATA.features, "logits": DATA.logits * np.nan, "labels": DATA.labels},
            "logits contains NaN",
        ),
    ],
)
def test_bad_input_is_refused(arguments, message):
    with pytest.raises(dc.errors.InputError, match=message):
        dc.discover_domains(**arguments)

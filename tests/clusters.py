"""Rows and clusters for the tests of clusters, which skip without the extra dask."""

import numpy as np
import pytest

import domaincal as dc
from domaincal import distributed
from domaincal._row_arrays import CodedRows, ComputedRows
from domaincal.data import BlockedRows
from domaincal.distributed import cluster_rows


@pytest.fixture(scope="module", name="client")
def two_workers():
    """A cluster of two processes; parts are so small that each worker has several."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cluster_rows, "PART_BYTES", 1 << 17)
        with distributed.cluster_client(workers=2) as client:
            yield client


@pytest.fixture(scope="module", name="data")
def shuffled_rows():
    rows, _ = dc.make_multi_domain(n_domains=7, n_rows=900, random_state=3)
    return rows.select(np.random.default_rng(3).permutation(len(rows)))


@pytest.fixture(scope="module", name="store")
def three_shards(data, tmp_path_factory):
    """Three shards; the last has only some of the domains."""
    store = dc.Store(tmp_path_factory.mktemp("cluster") / "scores")
    last = np.flatnonzero(data.domain_codes[0] < 4)[-500:]
    first = np.setdiff1d(np.arange(len(data)), last)
    for part in (first[:1234], first[1234:], last):
        store.append(data.select(part))
    return store


def blocked_rows(data, read=None):
    """Blocked rows of data in memory; ``read(start, stop)`` returns the logits."""
    codes, names = data.domain_codes

    def of(values):
        return ComputedRows(values.shape, values.dtype, lambda start, stop: values[start:stop])

    logits = of(data.logits)
    if read is not None:
        logits = ComputedRows(data.logits.shape, data.logits.dtype, read)
    return BlockedRows(logits, of(data.labels), of(data.features), CodedRows(of(codes), names))


def dask_arrays(data, chunks):
    import dask.array as da

    names = ("logits", "labels", "features", "domains")
    return {name: da.from_array(getattr(data, name), chunks=chunks) for name in names}

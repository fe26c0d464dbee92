"""Histograms of gaps, and the verdict on batches that they give."""

import numpy as np
import pytest

import domaincal as dc
from domaincal.errors import InputError
from domaincal.shift import CoveredDomains, GapHistograms, domain_verdicts
from domaincal.shift.gap_histograms import BIN_EDGES, PAIRS

TEMPERATURE = 1.5


def domains(n_domains=12, n_rows=200, random_state=0):
    data, _ = dc.make_multi_domain(n_domains, n_rows, random_state=random_state)
    codes, _ = data.domain_codes
    return np.asarray(data.logits), codes


def fitted(n_domains=12, **options):
    logits, codes = domains(n_domains, **options)
    return CoveredDomains.fit(logits, codes, n_domains, TEMPERATURE, np.random.default_rng(0))


def one_batch(logits):
    return GapHistograms.from_rows(logits, np.zeros(len(logits), np.int64), 1, TEMPERATURE)


def verdicts(covered, logits):
    gaps = one_batch(logits)
    return covered.judge(gaps, gaps.n)["verdict"].tolist()


def confidence(logits, temperature):
    p = np.exp((logits - logits.max(axis=1, keepdims=True)) / temperature)
    return p.max(axis=1) / p.sum(axis=1)


def test_histograms_are_those_of_the_literal_gaps():
    logits, codes = domains(3, 50)
    logits = logits.astype(np.float64)
    gaps = GapHistograms.from_rows(logits, codes, 3, TEMPERATURE)
    for p, (a, b) in enumerate(PAIRS):
        first = confidence(logits, a * TEMPERATURE)
        second = 1 / logits.shape[1] if np.isinf(b) else confidence(logits, b * TEMPERATURE)
        for k in range(3):
            expected, _ = np.histogram(np.abs(first - second)[codes == k], BIN_EDGES)
            assert gaps.counts[k, p].tolist() == expected.tolist()


def test_histograms_of_parts_can_be_added():
    logits, codes = domains(4, 300)
    whole = GapHistograms.from_rows(logits, codes, 4, TEMPERATURE)
    order = np.random.default_rng(1).permutation(len(codes))
    parts = [
        GapHistograms.from_rows(logits[rows], codes[rows], 4, TEMPERATURE)
        for rows in np.array_split(order, 3)
    ]
    assert (parts[0] + parts[1] + parts[2]).counts.tolist() == whole.counts.tolist()
    assert whole.n.tolist() == [300.0] * 4


def test_compiled_and_plain_kernels_give_nearly_the_same_histograms():
    random = np.random.default_rng(0)
    logits = random.normal(0, 3, (30_000, 10)).astype(np.float32)
    codes = random.integers(0, 2, len(logits))
    large = GapHistograms.from_rows(logits, codes, 2, TEMPERATURE)  # compiled: 300,000 numbers
    halves = [
        GapHistograms.from_rows(logits[part], codes[part], 2, TEMPERATURE)
        for part in (slice(None, 15_000), slice(15_000, None))
    ]
    difference = np.abs(large.distributions() - (halves[0] + halves[1]).distributions())
    assert difference.max() < 1e-3  # rows on an edge, by the rounding of float32


def test_histograms_at_other_temperatures_cannot_be_added():
    logits, codes = domains(2, 20)
    first, second = (GapHistograms.from_rows(logits, codes, 2, t) for t in (1.0, 2.0))
    with pytest.raises(InputError, match="same temperature"):
        first + second


def test_logits_that_are_not_finite_are_named():
    with pytest.raises(InputError, match="row 1"):
        one_batch(np.array([[0.0, 1.0], [np.nan, 0.0]]))


def test_left_out_domains_of_the_fit_are_mostly_inside():
    logits, codes = domains(40)
    found = []
    for k in range(20):
        kept = codes != k
        shifted = codes[kept] - (codes[kept] > k)
        covered = CoveredDomains.fit(
            logits[kept], shifted, 39, TEMPERATURE, np.random.default_rng(k)
        )
        found += verdicts(covered, logits[codes == k][:100])
    # Exchangeable: 90% inside. 14 of 20 or fewer would have a chance of 1%.
    assert found.count("inside") >= 15
    assert found.count("outside") <= 3


def test_far_rows_are_outside_and_few_rows_are_not():
    covered = fitted()
    logits, codes = domains()
    far = logits[codes == 3] * 20
    assert verdicts(covered, far) == ["outside"]
    assert verdicts(covered, far[:1]) == ["inside"]  # one row is as far as one row of any domain
    reason = covered.judge(one_batch(far[:1]), [1])["reason"][0]
    assert "With 1 row, only large differences would show." in reason


def test_limits_fall_with_the_number_of_rows_and_are_constant_beyond_the_largest_size():
    covered = fitted()
    gaps = one_batch(domains()[0])
    table = [covered.judge(gaps, [n]).iloc[0] for n in (1, 7, 30, 200, 1e6)]
    limits = [row["inside_limit"] for row in table]
    assert limits[0] > limits[1] > limits[2] > limits[3] == limits[4]
    assert all(row["outside_limit"] >= row["inside_limit"] for row in table)


def test_few_domains_are_said_to_be_few():
    logits, _ = domains()
    gaps = one_batch(logits[:50])
    five = fitted(5).judge(gaps, gaps.n)
    assert five["reason"][0].endswith("5 known domains are few to compare with.")
    two = fitted(2).judge(gaps, gaps.n)
    assert two["verdict"][0] == "unknown"
    assert two["reason"][0].startswith("2 known domains, but at least 3 are needed")


def test_a_batch_without_rows_is_unknown():
    gaps = GapHistograms.from_rows(domains()[0][:20], np.zeros(20, np.int64), 2, TEMPERATURE)
    table = fitted().judge(gaps, gaps.n)
    assert table["verdict"].tolist()[1] == "unknown"
    assert table["reason"][1] == "There are no rows."


def test_small_domains_do_not_widen_the_limits():
    logits, codes = domains()
    own = fitted()
    small = np.concatenate([logits, logits[:3] * 50])
    with_small = CoveredDomains.fit(
        small, np.append(codes, [12, 12, 12]), 13, TEMPERATURE, np.random.default_rng(0)
    )
    gaps = one_batch(logits[:100])
    limits = [c.judge(gaps, [100])["outside_limit"][0] for c in (own, with_small)]
    assert limits[1] == pytest.approx(limits[0], abs=0.05)


def test_at_most_a_hundred_domains_are_left_out():
    covered = fitted(103, n_rows=12)
    assert covered.left_out.shape == (5, 100, 8)
    assert covered.sizes.tolist() == [1, 2, 5, 10, 12]


def test_arrays_hold_everything():
    covered = fitted()
    again = CoveredDomains.from_arrays(covered.arrays())
    gaps = one_batch(domains()[0][:77])
    assert again.judge(gaps, gaps.n).equals(covered.judge(gaps, gaps.n))
    two = fitted(2)
    assert CoveredDomains.from_arrays(two.arrays()).left_out.shape == two.left_out.shape


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", np.array([0.0])),
        ("temperature", np.array([np.nan])),
        ("temperature", np.array(["1"])),
        ("counts", np.zeros((0, 6, 50))),
        ("counts", np.zeros((12, 6, 50))),
        ("counts", np.full((12, 6, 50), -1.0)),
        ("counts", np.ones((12, 6, 51))),
        ("counts", np.ones((2, 6, 50))),  # fewer domains than were left out
        ("counts", np.triu(np.ones((6, 50))) * np.ones((12, 1, 1))),  # rows differ between pairs
        ("sizes", np.array([], np.int64)),
        ("sizes", np.array([1, 2, 5, 5, 20, 50, 100, 200])),
        ("sizes", np.array([1.5, 2, 5, 10, 20, 50, 100, 200])),
        ("left_out", np.full((8, 12, 8), np.inf)),
        ("left_out", np.full((8, 12, 8), 1.5)),
        ("left_out", np.zeros((8, 12, 7))),
        ("left_out", np.zeros((7, 12, 8))),
    ],
)
def test_forged_arrays_are_refused(name, value):
    with pytest.raises(ValueError, match="covered domains"):
        CoveredDomains.from_arrays({**fitted().arrays(), name: value})


def test_missing_arrays_are_named():
    arrays = fitted(3).arrays()
    del arrays["sizes"]
    with pytest.raises(ValueError, match="no array 'sizes'"):
        CoveredDomains.from_arrays(arrays)


def test_wrong_arguments_are_named():
    covered = fitted(3)
    logits, codes = domains(3)
    gaps = one_batch(logits[:5])
    with pytest.raises(InputError, match="1 numbers of rows"):
        covered.judge(gaps, [5, 5])
    with pytest.raises(InputError, match="1 numbers of rows"):
        covered.judge(gaps, [-5])
    other = GapHistograms.from_rows(logits[:5], np.zeros(5, np.int64), 1, 2.0)
    with pytest.raises(InputError, match=r"at T = 2, but .* at T = 1\.5"):
        covered.judge(other, [5])
    with pytest.raises(InputError, match="codes must be 5 numbers from 0 to 0"):
        GapHistograms.from_rows(logits[:5], np.arange(5), 1, 1.5)
    with pytest.raises(InputError, match="codes must be 5 numbers"):
        GapHistograms.from_rows(logits[:5], np.arange(4), 4, 1.5)
    with pytest.raises(InputError, match="temperature must be a number > 0"):
        GapHistograms.from_rows(logits[:5], np.arange(5), 5, 0.0)
    with pytest.raises(InputError, match="domain 3 of 4 has no rows"):
        CoveredDomains.fit(logits, codes, 4, TEMPERATURE, np.random.default_rng(0))


def test_verdicts_of_data_are_those_of_its_batches():
    data, _ = dc.make_multi_domain(12, 150, random_state=0)
    known, new = dc.split_domains(data, ["domain-03", "domain-07"])
    table = domain_verdicts(known, new, random_state=5)
    codes, names = known.domain_codes
    t = dc.TemperatureScaling().fit(known).temperature_
    covered = CoveredDomains.fit(known.logits, codes, len(names), t, np.random.default_rng(5))
    gaps = GapHistograms.from_rows(new.logits, new.domain_codes[0], 2, t)
    expected = covered.judge(gaps, gaps.n)
    assert table["domain"].tolist() == ["domain-03", "domain-07"]
    assert table["n"].tolist() == [150, 150]
    assert table[expected.columns].equals(expected)

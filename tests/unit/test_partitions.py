"""Partitions of domains into InD and OOD."""

import pytest
from hypothesis import given, strategies as st

import domaincal as dc
from domaincal.experiments.partitions import CORRUPTION_PARTITIONS, Partition
from domaincal.vision.corruptions.catalogue import (
    CLEAN,
    CORRUPTIONS,
    FAMILIES,
    SEVERITIES,
    domain_name,
)

NAMES = [CLEAN, *(domain_name(name, s) for name in CORRUPTIONS for s in SEVERITIES)]
COUNTS = dict.fromkeys(NAMES, 100)


def _severity(name):
    return 0 if name == CLEAN else int(name[-1])


@pytest.mark.parametrize(
    ("name", "ind", "ood"),
    [
        ("unseen-severities", {0, 1, 5}, {2, 3, 4}),
        ("unseen-severity-5", {0, 1, 2, 3, 4}, {5}),
        ("all", {0, 1, 2, 3, 4, 5}, set()),
    ],
)
def test_partitions_by_severity_have_these_severities(name, ind, ood):
    inside, outside = CORRUPTION_PARTITIONS[name].choose(COUNTS, random_state=0)
    assert set(inside) == {n for n in NAMES if _severity(n) in ind}
    assert set(outside) == {n for n in NAMES if _severity(n) in ood}


def test_unseen_types_are_noise_and_blur():
    inside, outside = CORRUPTION_PARTITIONS["unseen-types"].choose(COUNTS, random_state=0)
    noisy = {*FAMILIES["noise"], *FAMILIES["blur"]}
    assert set(outside) == {n for n in NAMES if n.rsplit("-")[0] in noisy}
    assert (len(inside), len(outside)) == (41, 35)


def test_unseen_kinds_leave_two_kinds_of_each_family_seen():
    inside, outside = CORRUPTION_PARTITIONS["unseen-kinds"].choose(COUNTS, random_state=0)
    assert (len(inside), len(outside)) == (41, 35)
    assert sorted(inside + outside) == sorted(NAMES)
    for kinds in FAMILIES.values():
        assert len({n.rsplit("-")[0] for n in inside} & set(kinds)) == 2


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_is_left_out_as_a_whole(family):
    inside, outside = CORRUPTION_PARTITIONS[f"unseen-{family}"].choose(COUNTS, random_state=0)
    assert {n.rsplit("-")[0] for n in outside} == set(FAMILIES[family])
    assert sorted(inside + outside) == sorted(NAMES)


def test_eight_corruptions_are_the_41_domains_of_the_papers_first_figure():
    inside, outside = CORRUPTION_PARTITIONS["eight-corruptions"].choose(COUNTS, random_state=0)
    assert (len(inside), outside) == (41, [])
    assert {n.rsplit("-")[0] for n in inside} == {
        "clean", "gaussian_noise", "shot_noise", "defocus_blur", "glass_blur", "snow", "frost",
        "pixelate", "jpeg_compression",
    }  # fmt: skip


def test_random_partitions_draw_four_domains_with_their_own_seed():
    chosen = [
        CORRUPTION_PARTITIONS[f"random-4-{s}"].choose(COUNTS, random_state=7) for s in (1, 2, 3)
    ]
    assert [(len(ind), len(ood)) for ind, ood in chosen] == [(4, 72)] * 3
    assert len({tuple(ind) for ind, _ in chosen}) == 3
    # The same domains in every repeat.
    assert chosen[0] == CORRUPTION_PARTITIONS["random-4-1"].choose(COUNTS, random_state=8)


def test_partitions_of_rxrx1_and_gldv2_are_those_of_the_paper():
    cells = {"HEPG2": (8, 12), "HUVEC": (17, 25), "RPE": (8, 12), "U2OS": (4, 6)}
    names = [f"{cell}-{k:02d}" for cell, (a, b) in cells.items() for k in range(a, b)]
    main = dc.experiments.read_experiment("rxrx1").main
    inside, outside = main.choose(dict.fromkeys(names, 100), random_state=0)
    assert inside == ["HEPG2-08", "HUVEC-17", "RPE-08", "U2OS-04"]
    assert len(outside) == 14
    clients = {f"client-{k}": 290 + k for k in range(60)}
    partition = dc.experiments.read_experiment("gldv2").main
    inside, outside = partition.choose(clients, random_state=0)
    assert (len(inside), len(outside)) == (30, 20)
    assert all(clients[name] >= 300 for name in inside + outside)
    assert partition.choose(clients, random_state=1)[0] != inside  # drawn afresh in every repeat
    assert partition.choose(clients, random_state=0)[0] == inside


@given(st.sets(st.sampled_from(NAMES), min_size=6), st.integers(0, 5), st.integers(1, 6))
def test_a_random_partition_puts_every_domain_on_one_side(names, seed, wanted):
    counts = dict.fromkeys(names, 10)
    inside, outside = Partition("p", random_ind=wanted).choose(counts, random_state=seed)
    assert len(inside) == wanted
    assert sorted(inside + outside) == sorted(names)
    assert not set(inside) & set(outside)


def test_domains_in_both_lists_are_ind_and_domains_in_neither_are_left_out():
    partition = Partition("p", ind=("a", "b"), ood=("b", "c"))
    assert partition.choose(dict.fromkeys("abcd", 5), random_state=0) == (["a", "b"], ["c"])


def test_an_exact_name_takes_precedence_over_a_pattern():
    counts = {"x[1]": 5, "x1": 5, "y": 5}
    assert Partition("p", ood=("x[1]",)).choose(counts, random_state=0) == (["x1", "y"], ["x[1]"])


def test_random_state_0_is_used():
    partition = Partition("p", random_ind=2, random_state=0)
    counts = dict.fromkeys("abcdefgh", 5)
    assert partition.choose(counts, random_state=3) == partition.choose(counts, random_state=4)


def test_patterns_match_integers_as_text():
    assert Partition("p", ood=("1?",)).choose({3: 5, 12: 5, 17: 5}, random_state=0) == (
        [3],
        [12, 17],
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": ""}, "name of a partition"),
        ({"ood": (3,)}, "must be a list of strings"),
        ({"ind": 5}, "must be a list of strings"),
        ({"random_ind": 2, "ood": ("a",)}, "random_ind together with ind or ood"),
        ({"random_ind": 0}, "random_ind"),
        ({"min_rows": 0}, "min_rows"),
        ({"random_state": -1}, "random_state"),
    ],
)
def test_invalid_parameters_are_errors(options, message):
    with pytest.raises(dc.errors.InputError, match=message):
        Partition(**{"name": "p", **options})


@pytest.mark.parametrize(
    ("partition", "message"),
    [
        (Partition("p", ood=("night-*",)), "has 'night-\\*', which matches no domain"),
        (Partition("p", ood=("*",)), "leaves no InD domain"),
        (Partition("p", random_ind=4), "needs 4 InD domains, but only 3"),
        (Partition("p", min_rows=50), "no domain has the 50 rows"),
    ],
)
def test_partitions_that_do_not_match_the_data_are_errors(partition, message):
    with pytest.raises(dc.errors.InputError, match=message):
        partition.choose(dict.fromkeys("abc", 5), random_state=0)

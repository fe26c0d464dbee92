"""CalibrationData, concatenation and splits."""

import copy
import dataclasses
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

import domaincal as dc
from support import small_domains

DATA = small_domains()
NAMES = ("ant", "bee", "cat", "dog", "emu")


def _full(**options):
    groups = np.arange(len(DATA)) % 80  # the same 80 groups in each of the 6 domains
    known = {"labels": DATA.labels, "features": DATA.features, "domains": DATA.domains,
             "groups": groups, "class_names": NAMES, "provenance": {"model": "m"}}  # fmt: skip
    return dc.CalibrationData(DATA.logits, **{**known, **options})


def _same(a, b):
    for name in ("logits", "labels", "features", "domains", "groups"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    assert (a.class_names, a.provenance) == (b.class_names, b.provenance)


def test_halves_cover_every_domain_once():
    first, second = dc.split_halves(DATA, random_state=3)
    assert len(first) == len(second) == len(DATA) // 2
    counts = pd.Series(first.domains).value_counts()
    assert (counts == 40).all()
    rows = np.concatenate([first.logits, second.logits])
    np.testing.assert_array_equal(np.sort(rows, axis=0), np.sort(DATA.logits, axis=0))
    again, _ = dc.split_halves(DATA, random_state=3)
    np.testing.assert_array_equal(again.logits, first.logits)
    other, _ = dc.split_halves(DATA, random_state=4)
    assert not np.array_equal(other.logits, first.logits)


def test_split_domains_separates_the_ood_rows():
    ind, ood = dc.split_domains(DATA, ["domain-1"])
    assert ood.domain_names.tolist() == ["domain-1"]
    assert len(ind) + len(ood) == len(DATA)
    assert len(dc.split_domains(DATA, (n for n in ["domain-1"]))[1]) == len(ood)


@pytest.mark.parametrize(
    ("ood", "message"),
    [
        (["x"], "ood contains 'x', which matches no domain"),
        ("x,y", r"pass each on its own \(ood=\[\.\.\.\]"),
        ("night-*", r"ood contains 'night-\*', which matches no domain"),
        ([], "ood matches none of the 6"),
        (DATA.domain_names.tolist(), "ood matches all of the 6"),
        (1, r"pass \[1\]"),
    ],
)
def test_split_domains_needs_domains_on_both_sides(ood, message):
    with pytest.raises(dc.errors.InputError, match=message):
        dc.split_domains(DATA, ood)


def test_the_container_checks_its_arrays_and_is_frozen():
    with pytest.raises(dc.errors.InputError, match="labels has 1 rows"):
        dc.CalibrationData(DATA.logits, labels=[0])
    with pytest.raises(AttributeError):
        DATA.logits = None
    with pytest.raises(dc.errors.InputError, match="no domains"):
        dc.CalibrationData(DATA.logits).domain_names  # noqa: B018
    assert repr(DATA) == "CalibrationData(480 rows, 5 classes, 4 features, 6 domains)"


ARRAYS = ("logits", "labels", "features", "domains", "groups")


@pytest.mark.parametrize(
    "made",
    [
        lambda data: data,
        lambda data: data[:100],
        lambda data: data.select(np.arange(100)),
        lambda data: data.select(data.domains == "domain-1"),
        lambda data: dc.concatenate([data, data]),
        lambda data: dc.split_halves(data)[1],
        lambda data: next(data.by_domain())[1],
        lambda data: dataclasses.replace(data, labels=None),
        copy.copy,
        copy.deepcopy,
        lambda data: pickle.loads(pickle.dumps(data)),
    ],
)
def test_arrays_of_the_container_are_read_only(made):
    """Otherwise the codes of domains and groups could become those of other names."""
    data = made(_full())
    arrays = [getattr(data, name) for name in ARRAYS if getattr(data, name) is not None]
    for values in (*arrays, *data.domain_codes, *data.group_codes):
        with pytest.raises(ValueError, match="read-only"):
            values[0] = values[-1]
    for codes, names, ids in (
        (*data.domain_codes, data.domains), (*data.group_codes, data.groups),
    ):  # fmt: skip
        np.testing.assert_array_equal(names[codes], ids)


def test_arrays_are_not_copied_and_stay_writable_for_the_caller():
    own = {name: getattr(_full(), name).copy() for name in ARRAYS}
    data = dc.CalibrationData(**own)
    assert all(values.flags.writeable for values in own.values())
    for name in ("logits", "labels", "features"):
        assert np.shares_memory(getattr(data, name), own[name])
    own["domains"][:] = "domain-0"
    assert len(data.domain_names) == 6
    data.domain_names[0] = "x"
    assert data.domain_names[0] == "domain-0"


def test_patterns_match_names_and_integers_but_an_exact_name_comes_first():
    data = dc.CalibrationData(np.eye(4), domains=["a[1]", "a1", "a2", "b"])
    assert dc.split_domains(data, "a[1]")[1].domain_names.tolist() == ["a[1]"]
    assert dc.split_domains(data, ["a?"])[1].domain_names.tolist() == ["a1", "a2"]
    assert dc.split_domains(data, ["a?", "b"])[0].domain_names.tolist() == ["a[1]"]
    numbers = dc.CalibrationData(np.eye(3), domains=[1, 12, 3])
    assert dc.split_domains(numbers, "1*")[1].domain_names.tolist() == [1, 12]
    assert dc.split_domains(numbers, [3])[1].domain_names.tolist() == [3]
    assert dc.split_domains(numbers, "3")[1].domain_names.tolist() == [3]


@pytest.mark.parametrize("seed", range(5))
def test_halves_by_group_share_no_group(seed):
    data = _full()
    first, second = dc.split_halves(data, by="group", random_state=seed)
    assert not set(first.groups) & set(second.groups)
    assert len(first) + len(second) == len(data)
    assert (pd.Series(first.domains).value_counts() == 40).all()
    assert set(dc.split_halves(data, by="row", random_state=seed)[0].groups) & set(second.groups)
    # Splitting by group is the default for data with groups.
    _same(dc.split_halves(data, random_state=seed)[0], first)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("per_domain", [2, 3, 4, 7])
def test_groups_within_domains_are_halved_in_every_domain(seed, per_domain):
    inside = np.char.add(DATA.domains, (np.arange(480) % per_domain).astype(str))
    first, second = dc.split_halves(_full(groups=inside), random_state=seed)
    assert not set(first.groups) & set(second.groups)
    for half in (first, second):
        counts = pd.Series(half.groups).groupby(half.domains).nunique()
        assert len(counts) == 6
        assert set(counts) <= {per_domain // 2, (per_domain + 1) // 2}


def test_halves_by_group_depend_on_the_seed_and_not_on_the_names():
    two = DATA.select((DATA.domains == "domain-0") | (DATA.domains == "domain-1"))
    # In the order of the names, groups alternate between the two domains.
    names = [f"{k % 10}-{domain}" for k, domain in enumerate(two.domains)]
    data = dc.CalibrationData(two.logits, domains=two.domains, groups=names)
    chosen = set()
    for seed in range(5):
        first, _ = dc.split_halves(data, random_state=seed)
        assert pd.Series(first.groups).groupby(first.domains).nunique().tolist() == [5, 5]
        chosen.add(frozenset(first.groups))
    assert len(chosen) > 1


@pytest.mark.parametrize("seed", range(5))
def test_groups_across_some_of_the_domains_are_balanced_by_rows(seed):
    """Each group is in a random subset of the domains."""
    rng = np.random.default_rng(seed)
    data = _full(groups=rng.integers(100, size=480))
    first, second = dc.split_halves(data, random_state=seed)
    assert not set(first.groups) & set(second.groups)
    for name in data.domain_names:
        share = (first.domains == name).sum() / (data.domains == name).sum()
        assert 0.35 < share < 0.65


def test_the_odd_row_of_a_domain_goes_to_the_first_half():
    data = dc.CalibrationData(np.zeros((8, 2)), domains=list("aaaaabbc"))
    first, second = dc.split_halves(data)
    assert pd.Series(first.domains).value_counts().to_dict() == {"a": 3, "b": 1, "c": 1}
    assert pd.Series(second.domains).value_counts().to_dict() == {"a": 2, "b": 1}
    with pytest.raises(dc.errors.InputError, match="every domain has a single row"):
        dc.split_halves(data.select([0, 5, 7]))


def test_halves_by_group_need_at_least_two_groups():
    with pytest.raises(dc.errors.InputError, match="by='group' needs groups"):
        dc.split_halves(DATA, by="group")
    with pytest.raises(dc.errors.InputError, match="all rows are in one group"):
        dc.split_halves(_full(groups=["a"] * len(DATA)), by="group")
    with pytest.raises(dc.errors.InputError, match="by must be one of"):
        dc.split_halves(DATA, by="domain")


def test_leave_one_domain_out_leaves_each_domain_out_once():
    folds = list(dc.leave_one_domain_out(_full()))
    assert [name for name, _, _ in folds] == DATA.domain_names.tolist()
    for name, others, rows in folds:
        assert set(rows.domains) == {name}
        assert name not in others.domains
        assert len(others) + len(rows) == len(DATA)
    with pytest.raises(dc.errors.InputError, match="at least two"):
        next(dc.leave_one_domain_out(DATA.select(DATA.domains == "domain-0")))


def test_rows_selected_by_slice_mask_or_numbers_stay_aligned():
    data = _full()
    picked = data[10:200:7]
    _same(picked, data.select(slice(10, 200, 7)))
    _same(data[data.domains == "domain-3"], dict(data.by_domain())["domain-3"])
    for wrong in (3, [[0, 1]], 10_000, "domain-3", [0, 10_000], np.zeros(3, bool)):
        with pytest.raises(dc.errors.InputError, match="rows"):
            data[wrong]
    with pytest.raises(dc.errors.InputError, match="is empty"):
        data[:0]
    _same(picked, data.select(np.arange(len(data))[10:200:7]))
    np.testing.assert_array_equal(picked.labels, data.labels[10:200:7])
    np.testing.assert_array_equal(picked.groups, data.groups[10:200:7])


def test_the_concatenated_domains_are_the_data():
    data = _full().select(np.argsort(DATA.domains, kind="stable"))
    parts = [part for _, part in data.by_domain()]
    assert [len(part) for part in parts] == [80] * 6
    _same(dc.concatenate(parts), data)
    assert dc.concatenate(parts).fingerprint() == data.fingerprint()


def test_concatenate_keeps_the_provenance_on_which_all_parts_agree():
    a, b = (_full(provenance={"model": "m", "site": k, f"only-{k}": None}) for k in "ab")
    assert dc.concatenate([a, b]).provenance == {"model": "m"}


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        ({"class_names": None}, "class names"),
        ({"groups": None}, "type of groups"),
        ({"groups": ["x"] * len(DATA)}, "type of groups"),
    ],
)
def test_parts_that_disagree_are_not_concatenated(change, fact):
    with pytest.raises(dc.errors.InputError, match=f"part 0 and part 1 disagree in their {fact}"):
        dc.concatenate([_full(), _full(**change)])
    for wrong in ([], [DATA, 1]):
        with pytest.raises(dc.errors.InputError, match="parts"):
            dc.concatenate(wrong)


def test_concatenated_arrays_have_the_widest_dtype():
    both = dc.concatenate([_full(), dc.CalibrationData(
        DATA.logits.astype("f"), labels=DATA.labels, features=DATA.features.astype("f2"),
        domains=DATA.domains, groups=np.arange(480), class_names=NAMES,
    )])  # fmt: skip
    assert both.logits.dtype == both.features.dtype == np.float64
    np.testing.assert_array_equal(both.logits[480:], DATA.logits.astype("f"))


def test_labels_may_be_class_names():
    names = np.array(NAMES)[DATA.labels]
    for labels in (names, names.astype(object), names.tolist()):
        np.testing.assert_array_equal(_full(labels=labels).labels, DATA.labels)
    with pytest.raises(dc.errors.InputError, match=r"labels contains 'eel' \(row 3\).* ant, bee"):
        _full(labels=["ant", "bee", "cat", "eel", *names[4:]])
    with pytest.raises(dc.errors.InputError, match="must be integer class indices"):
        dc.CalibrationData(DATA.logits, labels=names)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"class_names": NAMES[:4]}, "4 names, but the logits have 5"),
        ({"class_names": ("ant",) * 5}, "contains 'ant' twice"),
        ({"class_names": (1, 2, 3, 4, 5)}, "sequence of strings, got 1"),
        ({"class_names": "abcde"}, "sequence of strings, got 'abcde'"),
        ({"groups": [1]}, "groups has 1 rows"),
        ({"domains": ["a\0"] + ["a"] * (len(DATA) - 1)}, "has a zero character"),
        ({"groups": ["x" * 1001] * len(DATA)}, "groups contains 'xxxx.* 1001 characters"),
        ({"groups": [0.5] * len(DATA)}, "groups must be integers or strings"),
        ({"groups": [None] + [1] * (len(DATA) - 1)}, "groups must be integers or strings, got nan"),
        ({"provenance": {"a": np.eye(2)}}, "provenance must be a mapping"),
        ({"provenance": {"a": float("nan")}}, "provenance must be a mapping"),
        ({"provenance": 3}, "provenance must be a mapping"),
    ],
)
def test_invalid_names_groups_and_provenance_are_refused(options, message):
    with pytest.raises(dc.errors.InputError, match=message):
        _full(**options)


def test_a_fingerprint_changes_with_logits_and_labels_only():
    data = _full()
    assert data.fingerprint() == _full().fingerprint()
    assert data.fingerprint().startswith("480 rows, sha256 ")
    moved = data.logits.copy()
    moved[7, 2] += 1e-3
    labels = data.labels.copy()
    labels[0] = (labels[0] + 1) % 5
    others = [
        _full(labels=labels), _full(labels=None),
        data.select(slice(1, None)), dc.CalibrationData(moved, labels=data.labels),
    ]  # fmt: skip
    assert len({data.fingerprint(), *(other.fingerprint() for other in others)}) == 5
    assert _full(features=None, domains=None).fingerprint() == data.fingerprint()
    # A csv file changes the dtypes of logits and labels, but not the rows.
    narrow = dc.CalibrationData(data.logits.astype("f"), labels=data.labels.astype("i1"))
    assert narrow.fingerprint() == data.fingerprint()


def test_any_changed_label_changes_the_fingerprint_of_many_rows():
    rng = np.random.default_rng(0)
    z, y = rng.normal(size=(5000, 3)), rng.integers(3, size=5000)
    data = dc.CalibrationData(z, labels=y)
    for row in range(1, 60):
        labels = y.copy()
        labels[row] = (labels[row] + 1) % 3
        assert dc.CalibrationData(z, labels=labels).fingerprint() != data.fingerprint()


@given(
    st.lists(st.sampled_from(["b", "a", "night", "c"]), min_size=1, max_size=30), st.data(),
    st.booleans(),
)  # fmt: skip
def test_codes_index_the_sorted_names_that_occur(names, draw, integers):
    """For all rows, for selected rows, and for rows selected from these."""
    ids = [len(name) for name in names] if integers else names
    data = dc.CalibrationData(np.zeros((len(ids), 2)), domains=ids, groups=ids[::-1])
    for _ in range(3):
        for values, (codes, found) in (
            (data.domains, data.domain_codes), (data.groups, data.group_codes)
        ):  # fmt: skip
            expected, inverse = np.unique(values, return_inverse=True)
            np.testing.assert_array_equal(found, expected)
            np.testing.assert_array_equal(codes, inverse)
        np.testing.assert_array_equal(data.domain_names, np.unique(data.domains))
        rows = draw.draw(st.lists(st.integers(0, len(data) - 1), min_size=1, max_size=30))
        data = data.select(rows)


def test_data_without_domains_or_groups_have_codes():
    data = dc.CalibrationData(np.zeros((3, 2)))
    assert data.domain_codes[0].tolist() == [0, 0, 0]
    assert data.domain_codes[1].tolist() == ["all"]
    assert data.group_codes[0].tolist() == [0, 1, 2]


def test_a_selection_does_not_share_provenance_or_names_with_the_data():
    data = dc.CalibrationData(
        np.zeros((3, 2)), domains=["a", "b", "a"], provenance={"network": "mine"}
    )
    part = data.select([0, 2])
    part.provenance["network"] = "other"
    part.domain_names[0] = "z"
    assert data.provenance["network"] == "mine"
    assert part.domain_names.tolist() == ["a"]
    assert data.domain_names.tolist() == ["a", "b"]


def test_domains_in_the_byte_order_of_another_machine_are_read():
    domains = np.array([3, 1, 1])
    data = dc.CalibrationData(np.eye(3), domains=domains.astype(">i8"))
    assert data.domains.tolist() == [3, 1, 1]
    assert data.domain_names.tolist() == [1, 3]

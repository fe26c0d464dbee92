"""Forged, damaged and foreign files of sites, and those of other sites, are refused by name."""

import json
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import save_file

import domaincal as dc
from domaincal._tensor_files import SITE_ENTRY, read_tensors
from domaincal.distributed import (
    answer_plan,
    combine_sites,
    load_site,
    plan_second_round,
    summarize_site,
)
from domaincal.distributed.site_file import write_site_file
from domaincal.errors import DomaincalError, FileFormatError, InputError

MdTs = dc.MultiDomainTemperatureScaling
RIDGE = MdTs(head="ridge")


@pytest.fixture(scope="module")
def rows():
    data, _ = dc.make_multi_domain(
        n_domains=4, n_rows=60, n_classes=4, n_features=3, random_state=0
    )
    return data


@pytest.fixture(scope="module")
def files(rows, tmp_path_factory):
    """Sums, plans and answers of two sites, by name."""
    folder = tmp_path_factory.mktemp("sites")
    other, one = dc.split_domains(rows, ["domain-0", "domain-1"])
    sums = [summarize_site(part, search=True) for part in (one, other)]
    plan = plan_second_round(sums, RIDGE)
    points = plan_second_round(sums, dc.TemperatureScaling())
    batches = plan_second_round(sums, dc.BatchTemperatureScaling())
    written = {
        "one": sums[0], "other": sums[1], "plan": plan, "points": points,
        "answers": answer_plan(one, plan), "slopes": answer_plan(one, points),
        "other-answers": answer_plan(other, plan), "batches": batches,
        "moments": answer_plan(one, batches),
    }  # fmt: skip
    found = {name: folder / f"{name}.safetensors" for name in written}
    for name, content in written.items():
        content.save(found[name])
    return found


def forge(path, target, *, header=(), **arrays):
    """Write a changed copy with the right checksum; None removes an array."""
    tensors, metadata = read_tensors(path)
    content = json.loads(metadata[SITE_ENTRY])
    for name, change in arrays.items():
        if change is None:
            del tensors[name]
        else:
            values = tensors.get(name, np.zeros(1)).copy()
            changed = change(values)
            tensors[name] = values if changed is None else changed
    content |= dict(header)
    for entry in ("sha256", "version", "written_by"):
        content.pop(entry)
    write_site_file(target, content.pop("content"), content, tensors)
    return target


def put(value, at=0):
    """Set one value."""

    def change(values):
        values.flat[at] = value

    return change


#: File, changed arrays, and what the error says after the name of the file.
FORGED = {
    "negative count": ("one", {"n_rows": put(-60)}, "n_rows is -60"),
    "no rows": ("one", {"n_rows": put(0)}, "n_rows is 0"),
    "other count": ("one", {"n_rows": put(61)}, "bins and n_rows do not count the same rows"),
    "float count": ("one", {"n_rows": lambda n: n + 0.5}, "n_rows has the dtype float64"),
    "temperature 0": ("one", {"temperature": put(0.0)}, "temperature is 0"),
    "temperature below 0": ("one", {"temperature": put(-1.0)}, "temperature is -1"),
    "temperature nan": ("one", {"temperature": put(np.nan)}, "temperature is nan"),
    "temperature inf": ("one", {"temperature": put(np.inf)}, "temperature is inf"),
    "error": ("one", {"standard_error": put(-0.1)}, "standard_error is -0.1"),
    "scale": ("one", {"scale": put(0.0)}, "scale is 0 in a domain"),
    "half a row": ("one", {"bins": put(0.5)}, "bins and n_rows"),
    "bin nan": ("one", {"bins": put(np.nan, 1)}, "bins is nan"),
    "more hits": ("one", {"bins": put(1e3, 2)}, "bins hold more hits or confidence than rows"),
    "points": ("one", {"log_beta": lambda u: u[::-1].copy()}, "log_beta is not in ascending"),
    "equal points": ("one", {"log_beta": lambda u: u * 0}, "log_beta holds a value twice"),
    "curvature": ("one", {"curve": put(-1.0, 2)}, "curve holds sums that no rows can have"),
    "falling slope": ("one", {"curve": put(1e9, 1)}, "curve holds sums that no rows can have"),
    "curve nan": ("one", {"curve": put(np.nan)}, "curve is nan"),
    "short curve": ("one", {"curve": lambda c: c[1:].copy()}, "curve has the shape"),
    "other curve": ("one", {"domain_curves": lambda c: c * 2}, "domain_curves and curve"),
    "shift nan": ("one", {"shift": put(np.nan)}, "shift is nan"),
    "wide shift": ("one", {"shift": lambda s: np.zeros(4)}, "n_features is 4"),
    "moments nan": ("one", {"moments": put(np.nan)}, "moments is nan"),
    "moments": ("one", {"moments": lambda m: m + 1e3}, "gram cannot be sums of products"),
    "not symmetric": ("one", {"gram": put(1e6, 1)}, "gram is not symmetric"),
    "not positive": ("one", {"gram": lambda g: -g}, "gram cannot be sums of products"),
    "gram inf": ("one", {"gram": put(np.inf)}, "gram is inf"),
    "gram of means": ("one", {"gram_equal": lambda g: -g}, "gram_equal cannot be sums"),
    "other gram": ("one", {"gram": lambda g: g * 2}, "domain_grams and gram do not agree"),
    "other equal": ("one", {"gram_equal": lambda g: g * 2}, "domain_grams and gram_equal"),
    "no gram of means": ("one", {"gram_equal": None}, "gram_equal is missing"),
    "wide grams": ("one", {"domain_grams": lambda g: np.ones((2, 7))}, "domain_grams have 7"),
    "no gram": ("one", {"gram": None}, "gram is missing"),
    "stranger": ("one", {"logits": lambda _: np.ones((3, 2))}, "logits is no array of such a file"),
    "integers": ("one", {"gram": lambda g: g.astype(np.int64)}, "gram has the dtype int64"),
    "answers nan": ("answers", {"nll_sums": put(np.nan)}, "nll_sums is nan"),
    "answers below 0": ("answers", {"nll_sums": put(-1.0)}, "nll_sums is -1"),
    "slopes": ("slopes", {"curve": put(-1.0)}, "curve holds sums that no rows can have"),
    "folds": ("plan", {"folds": put(99)}, "folds name a fold that does not exist"),
    "limits": ("plan", {"limits": lambda v: v[:, ::-1].copy()}, "limits are not in ascending"),
    "pooled": ("plan", {"pooled": put(-1.0)}, "pooled is -1"),
    "coef": ("plan", {"coef": put(np.nan)}, "coef is nan"),
    "statistics nan": ("moments", {"batch_means": put(np.nan)}, "batch_means is nan"),
    "huge statistics": ("moments", {"batch_means": put(1e101)}, "batch_means is 1e+101"),
    "far target": ("moments", {"targets": put(1e9)}, "targets is 1e+09"),
    "sizes": ("moments", {"batch_means": lambda v: v[:, 1:].copy()}, "batch_means has the shape"),
    "other covariance": ("moments", {"batch_covariances": put(1.0, 1)}, "batch_covariances is not"),
    "covariance": ("moments", {"batch_covariances": lambda v: -v}, "batch_covariances cannot be"),
    "no targets": ("moments", {"targets": None}, "targets is missing"),
    "directions": ("batches", {"directions": put(np.inf)}, "directions is inf"),
    "direction scale": ("batches", {"scale": put(0.0)}, "scale is 0"),
    "no centre": ("batches", {"centre": None}, "centre is missing"),
    "pooled nan": ("batches", {"log_pooled": put(np.nan)}, "log_pooled is nan"),
    "plan points": ("points", {"log_beta": put(np.nan)}, "log_beta is nan"),
}


@pytest.mark.parametrize("case", FORGED)
def test_a_forged_array_is_refused_by_name(case, files, tmp_path):
    name, arrays, message = FORGED[case]
    path = forge(files[name], tmp_path / "forged.safetensors", **arrays)
    with pytest.raises(FileFormatError) as caught:
        load_site(path)
    assert str(path) in str(caught.value)
    assert message in str(caught.value)


HEADERS = {
    "n_classes": (1, "n_classes is 1"),
    "class_names": (["a", "a", "b", "c"], "class_names has 3 different names"),
    "feature_names": (["x"], "feature_names and shift"),
    "features": ("given!", "features are of an unknown kind"),
    "domains": (["domain-1", "domain-0"], "domains are not sorted"),
    "fingerprint": (None, "fingerprint is of type NoneType"),
    "floor": (2.0, "floor is out of range"),
    "n_iter": (-1, "n_iter is -1"),
}


@pytest.mark.parametrize("entry", HEADERS)
def test_a_forged_header_is_refused_by_name(entry, files, tmp_path):
    value, message = HEADERS[entry]
    path = forge(files["one"], tmp_path / "forged.safetensors", header={entry: value})
    with pytest.raises(FileFormatError) as caught:
        load_site(path)
    assert str(path) in str(caught.value)
    assert message in str(caught.value)


@pytest.mark.parametrize("value", [[], "domain", ["a", "a"], ["a", 1], [1.5], [True, False], None])
def test_domains_that_are_no_names_are_refused(value, files, tmp_path):
    path = forge(files["one"], tmp_path / "forged.safetensors", header={"domains": value})
    with pytest.raises(FileFormatError, match="forged"):
        load_site(path)


def test_a_domain_gram_that_is_not_positive_is_refused(files, tmp_path):
    """All sums agree, but those of one domain are less than the products of its moments."""

    def moved(lower):
        return lower + np.array([[-1.0], [1.0]]) * 2 * lower[:1]

    path = forge(files["one"], tmp_path / "forged.safetensors", domain_grams=moved)
    with pytest.raises(FileFormatError, match="domain_grams cannot be sums of products"):
        load_site(path)


def test_damaged_truncated_newer_and_foreign_files_are_refused(files, rows, tmp_path):
    content = files["one"].read_bytes()
    bad = tmp_path / "bad.safetensors"
    for damaged in (content[:-40], content[:60], b"", b"not a file", content + b"more"):
        bad.write_bytes(damaged)
        with pytest.raises(FileFormatError, match=r"bad\.safetensors"):
            load_site(bad)
    flipped = bytearray(content)
    flipped[-30] ^= 1
    bad.write_bytes(flipped)
    with pytest.raises(FileFormatError, match=r"bad\.safetensors cannot be read \(wrong checksum"):
        load_site(bad)
    tensors, metadata = read_tensors(files["one"])
    header = json.loads(metadata[SITE_ENTRY])
    for change, message in (
        ({"version": 99}, "has format version 99"),
        ({"content": "else"}, "it has an unknown content"),
        ({"version": "1"}, "version '1'"),
    ):
        save_file(tensors, bad, {SITE_ENTRY: json.dumps(header | change)})
        with pytest.raises(FileFormatError, match=message):
            load_site(bad)
    save_file(tensors, bad, {"other": "1"})
    with pytest.raises(FileFormatError, match=r"bad\.safetensors holds no sums of a site"):
        load_site(bad)
    dc.MaxSoftmax().fit(rows).save(bad)
    with pytest.raises(FileFormatError, match=r"bad\.safetensors holds no sums of a site"):
        load_site(bad)
    with pytest.raises(FileFormatError, match="holds no calibrator"):
        dc.load(files["one"])
    with pytest.raises(FileNotFoundError, match=r"nowhere\.safetensors"):
        load_site(tmp_path / "nowhere.safetensors")
    with pytest.raises(InputError, match=r"rows\.npz is not a \.safetensors file"):
        load_site(tmp_path / "rows.npz")


@pytest.mark.parametrize("name", ["one", "plan", "answers", "batches", "moments"])
def test_whatever_byte_is_changed_there_is_one_error(name, files, tmp_path):
    content, random = files[name].read_bytes(), np.random.default_rng(0)
    path = tmp_path / "changed.safetensors"
    for place in random.integers(len(content), size=40):
        changed_bytes = bytearray(content)
        changed_bytes[place] ^= 1 << int(random.integers(8))
        path.write_bytes(changed_bytes)
        with pytest.raises(DomaincalError, match=r"changed\.safetensors"):
            load_site(path)


def test_a_header_that_promises_much_memory_is_refused(tmp_path):
    header = b'{"gram":{"dtype":"F64","shape":[4000000000,4000000000],"data_offsets":[0,8]}}'
    path = tmp_path / "bomb.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(8))
    with pytest.raises(FileFormatError, match=r"bomb\.safetensors"):
        load_site(path)


def changed(data, **options):
    arrays = {"logits": data.logits, "labels": data.labels, "features": data.features,
              "domains": data.domains}  # fmt: skip
    return dc.CalibrationData(**{**arrays, **options})


def _pairs(rows):
    """Data of two sites that do not belong together, and the message."""
    other, one = dc.split_domains(rows, ["domain-0", "domain-1"])
    names = {"class_names": list("abcd")}
    yield one, changed(other, logits=other.logits[:, :3], labels=other.labels % 3), "3 classes"
    yield changed(one, **names), other, "other names of the classes"
    yield changed(one, **names), changed(other, class_names=list("bacd")), "other names of the cl"
    yield one, changed(other, features=other.features[:, :2]), "2 features"
    yield one, changed(other, features=None), "sums of no features"
    yield changed(one, feature_names=list("xyz")), changed(other, feature_names=list("xzy")), "feat"
    yield one, changed(other, domains=np.arange(len(other)) % 2), "numbers, those of"
    yield one, rows, "the domain 'domain-0' is in"
    yield one, one, "hold the same sums"


@pytest.mark.parametrize("case", range(9))
def test_sites_that_do_not_belong_together_name_both_files(case, rows, tmp_path):
    one, other, message = list(_pairs(rows))[case]
    paths = [tmp_path / "a.safetensors", tmp_path / "b.safetensors"]
    for data, path in zip((one, other), paths, strict=True):
        summarize_site(data).save(path)
    for order in (paths, paths[::-1]):
        with pytest.raises(InputError) as caught:
            combine_sites(order, MdTs())
        assert "a.safetensors" in str(caught.value)
        assert "b.safetensors" in str(caught.value)
    with pytest.raises(InputError, match=message):
        combine_sites(paths, MdTs())


def test_another_shift_or_floor_is_refused(rows):
    other, one = dc.split_domains(rows, ["domain-0", "domain-1"])
    sums = [summarize_site(one), summarize_site(other, shift=1.0)]
    with pytest.raises(InputError, match="site 2 has another shift than site 1"):
        combine_sites(sums, MdTs())
    sums = [summarize_site(one), summarize_site(other)]
    sums[1] = replace(sums[1], rows=replace(sums[1].rows, floor=1e-6))
    with pytest.raises(InputError, match="floor"):
        combine_sites(sums, MdTs())


def test_the_second_round_must_fit_the_first(files, rows):
    one, other = files["one"], files["other"]
    both = [files["answers"], files["other-answers"]]
    wrong = {
        "ridge without alpha needs a second round": [one, other],
        "other.safetensors has no answers": [one, other, files["answers"]],
        "hold the answers of the same site": [one, other, *both, files["answers"]],
        "answers.safetensors answers another plan": [one, *both],
        "slopes.safetensors answers another plan": [one, other, files["slopes"], *both],
        "plan.safetensors is the plan of a second round": [one, other, files["plan"]],
        "answers.safetensors is of the second round; give the sums": [files["answers"]],
    }
    for message, given in wrong.items():
        with pytest.raises(InputError, match=message):
            combine_sites(given, RIDGE)
    assert combine_sites([one, other, *both], RIDGE).head_search_["nll"].notna().all()
    with pytest.raises(InputError, match="answers another plan"):
        combine_sites([one, other, *both], MdTs(head="ridge", fit_intercept=True))
    with pytest.raises(InputError, match=r"answers\.safetensors is of the second round"):
        plan_second_round([one, other, *both], RIDGE)
    for method in ("TemperatureScaling", "DomainTemperatureScaling"):
        with pytest.raises(InputError, match=f"{method} needs a second round"):
            combine_sites([one, other], getattr(dc, method)())
    plan = load_site(files["plan"])
    with pytest.raises(InputError, match=r"plan\.safetensors knows no domain 'new'"):
        answer_plan(changed(rows, domains=np.full(len(rows), "new")), plan)
    with pytest.raises(InputError, match="the data has sums of no features"):
        answer_plan(changed(rows, features=None), plan)
    for name in ("plan", "batches"):
        with pytest.raises(InputError, match=f"{name}.safetensors is for 3 features"):
            answer_plan(changed(rows, features=rows.features[:, :2]), load_site(files[name]))


def test_a_second_round_of_other_rows_is_refused(files, rows):
    sums = [load_site(files["one"]), load_site(files["other"])]
    plan = plan_second_round(sums, RIDGE)
    other, one = dc.split_domains(rows, ["domain-0", "domain-1"])
    fewer = one.select(np.arange(len(one) - 3))
    with pytest.raises(InputError, match=r"one\.safetensors has no answers of the second round"):
        combine_sites([*sums, answer_plan(fewer, plan), answer_plan(other, plan)], RIDGE)
    forged = replace(answer_plan(one, plan), n_rows=np.array([61, 60]), source="forged")
    with pytest.raises(InputError, match="n_rows of forged differ"):
        combine_sites([*sums, forged, answer_plan(other, plan)], RIDGE)


def test_moments_of_files_are_those_of_the_answers(files, rows, tmp_path):
    plan = load_site(files["batches"])
    _, one = dc.split_domains(rows, ["domain-0", "domain-1"])
    answers = answer_plan(one, plan)
    answers.save(tmp_path / "moments.safetensors")
    found, expected = load_site(tmp_path / "moments.safetensors").arrays(), answers.arrays()
    assert list(found) == list(expected)
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values)


def test_forged_answers_of_another_size_are_refused(files):
    sums, both = [files["one"], files["other"]], [files["answers"], files["other-answers"]]
    answers = [load_site(path) for path in both]
    short = replace(answers[0], nll_sums=answers[0].nll_sums[1:], source="short")
    with pytest.raises(InputError, match=r"nll_sums of short has the shape \(9, 2\), but the plan"):
        combine_sites([*sums, short, answers[1]], RIDGE)
    with pytest.raises(InputError, match=r"nll_sums of .*answers.* is missing"):
        combine_sites([*sums, replace(answers[0], nll_sums=None), answers[1]], RIDGE)
    with pytest.raises(InputError, match=r"answers\.safetensors is of a second round, which this"):
        combine_sites([*sums, *both], MdTs())


def test_a_search_needs_sums_for_it(rows):
    with pytest.raises(InputError, match=r"site 1 has no sums for a search.*search=True"):
        plan_second_round([summarize_site(rows)], RIDGE)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_rows": 61}, r"fewer than 61 rows in domains 'domain-0', .*--min-rows"),
        ({"min_rows": 0}, "min_rows=0"),
        ({"min_rows": True}, "min_rows=True"),
        ({"shift": [1.0, 2.0]}, r"shift has the shape \(2,\), but there are 3 features"),
        ({"shift": [1.0, 2.0, np.inf]}, "not finite"),
        ({"shift": "mean"}, "shift must be"),
        ({"features": "embedding"}, "features"),
    ],
)
def test_wrong_arguments_name_themselves(options, message, rows):
    with pytest.raises(InputError, match=message):
        summarize_site(rows, **options)


def test_small_domains_are_refused_in_both_rounds(rows):
    few = rows.select(np.flatnonzero(rows.domain_codes[0] < 3)[:150])
    with pytest.raises(InputError, match="fewer than 50 rows in domain 'domain-2'"):
        summarize_site(few)
    plan = plan_second_round([summarize_site(few, min_rows=30)], dc.TemperatureScaling())
    with pytest.raises(InputError, match="fewer than 50 rows"):
        answer_plan(few, plan)


def test_data_that_no_sums_can_be_taken_of(rows):
    cases = {
        "data must be CalibrationData": rows.logits,
        "no labels": changed(rows, labels=None),
        "no domains": changed(rows, domains=None),
        "features contains NaN": changed(rows, features=np.where(rows.features > 2, np.nan, 1.0)),
    }
    for message, data in cases.items():
        with pytest.raises(DomaincalError, match=message):
            summarize_site(data)
    logits = np.where(rows.logits > 2, np.inf, rows.logits)
    with pytest.raises(DomaincalError, match="logits contains inf"):
        summarize_site(changed(rows, logits=logits))


def test_methods_that_need_rows_are_refused(files):
    for calibrator, message in (
        (MdTs(head="krr"), "head='krr' needs rows"),
        (dc.IsotonicCalibration(), "IsotonicCalibration cannot be fitted to sums"),
        (MdTs(head="ridge", alpha=-1.0), "alpha"),
    ):
        with pytest.raises(InputError, match=message):
            combine_sites([files["one"]], calibrator)
    for sites, message in (([], "at least one"), ("a", "list"), ([3], "sites holds a int")):
        with pytest.raises(InputError, match=message):
            combine_sites(sites, MdTs())
    with pytest.raises(InputError, match="needs no second round"):
        plan_second_round([files["one"]], MdTs())


def test_logits_on_very_different_scales_are_refused(rows):
    other, one = dc.split_domains(rows, ["domain-0", "domain-1"])
    sums = [summarize_site(one), summarize_site(changed(other, logits=other.logits * 1e4))]
    with pytest.raises(InputError, match="too different; check that all sites use the same"):
        combine_sites(sums, MdTs())


def test_files_of_sites_end_in_safetensors(rows, tmp_path):
    with pytest.raises(InputError, match=r"must end in \.safetensors"):
        summarize_site(rows).save(tmp_path / "sums.json")

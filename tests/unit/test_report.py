"""Contents of the report: the numbers are those of the library, and follow its laws."""

import json
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import domaincal as dc
from domaincal.calibrators.choice.selection import choose
from domaincal.evaluation.left_out_scores import score_left_out_domains
from domaincal.metrics.domains import bins_by_domain
from domaincal.report import earlier, scored_rows
from domaincal.report.make_report import make_report
from domaincal.report.plain_values import array

DATA, _ = dc.make_multi_domain(n_domains=9, n_rows=60, n_classes=3, n_features=3, random_state=3)
FAST = {"batch_size": "domain"}  # two candidates
# For what does not depend on the protocol.
MODEL = dc.TemperatureScaling().fit(DATA)


@pytest.fixture(scope="module")
def contents():
    return make_report(DATA, **FAST).contents


def close(found, expected):
    np.testing.assert_allclose(array(found), np.asarray(expected, np.float64), rtol=6e-5, atol=1e-9)


def test_the_numbers_before_are_those_of_leaving_one_domain_out(contents):
    table = dc.evaluate_leave_one_domain_out(dc.MaxSoftmax(), DATA)
    found = contents["domains"]
    assert found["name"] == table["domain"].tolist()
    assert set(found["kind"]) == {"unseen"}
    close(found["accuracy"], table["accuracy"])
    for key, column in {"confidence": "mean_confidence", "ece": "ece", "floor": "floor",
                        "excess": "excess", "nll": "nll", "brier": "brier"}.items():  # fmt: skip
        close(found["before"][key], table[column])
    mean = dc.summary_table(table).iloc[0]
    for key in ("ece", "excess", "gap", "nll"):
        close([contents["means"]["unseen"]["before"][key]], [mean[key]])


def test_the_intervals_are_those_of_compare_domains(contents):
    hits = DATA.logits.argmax(axis=1) == DATA.labels
    confidences = dc.MaxSoftmax().fit(DATA).predict_confidence(DATA)
    table = dc.compare_domains(bins_by_domain(confidences, hits, DATA.domains))
    close(contents["domains"]["before"]["low"], table["low"])
    close(contents["domains"]["before"]["high"], table["high"])


def test_every_method_has_the_scores_of_leaving_one_domain_out(contents):
    methods = {
        "TemperatureScaling": dc.TemperatureScaling(),
        "BatchTemperatureScaling": dc.BatchTemperatureScaling(),
        "MultiDomainTemperatureScaling": dc.MultiDomainTemperatureScaling(),
        "MaxSoftmax": dc.MaxSoftmax(),
    }
    table = dc.evaluate_leave_one_domain_out(methods, DATA)
    means = dc.summary_table(table).set_index("method")
    rows = contents["methods"]["rows"]
    assert [row["method"] for row in rows] == list(methods)
    for row in rows:
        for key in ("ece", "excess", "nll"):
            close([row[key]], [means.loc[row["method"], key]])
    assert sum(row["chosen"] for row in rows) == 1
    # The calibrated numbers are those of the method that was chosen for every domain.
    (name,) = contents["names"]["after"].removesuffix(", chosen by left-out domains").split(", ")
    of_choice = table[table["method"] == name]
    close(contents["domains"]["after"]["ece"], of_choice["ece"])


def test_the_choice_for_a_domain_does_not_depend_on_its_own_scores():
    rng = np.random.default_rng(0)
    folds = np.repeat(np.arange(4), 3)
    base = pd.DataFrame({"n": 100, "ece": 0.1, "excess": rng.uniform(0.05, 0.06, 12), "nll": 1.0})
    candidates = scored_rows.named_candidates(1, has_features=True)
    tables = {name: base.copy() for name in candidates}
    good = tables["FeatureTemperatureScaling"]
    good.loc[folds > 0, ["excess", "nll"]] = rng.uniform(0.01, 0.02, (9, 2))
    chosen = scored_rows.choices_of_folds(tables, folds, candidates)
    for fold in range(4):
        others = folds != fold
        table = choose({name: one[others] for name, one in tables.items()}, "TemperatureScaling",
                       "BatchTemperatureScaling")  # fmt: skip
        assert table.loc[table["chosen"], "method"].item() == chosen[fold]
        changed = {name: one.copy() for name, one in tables.items()}
        changed["FeatureTemperatureScaling"].loc[~others, "excess"] = 5.0
        assert scored_rows.choices_of_folds(changed, folds, candidates)[fold] == chosen[fold]
    assert chosen[0] == "FeatureTemperatureScaling"


def test_two_other_domains_are_too_few_to_choose_from():
    tables = {
        name: pd.DataFrame({"n": [50] * 3, "ece": 0.1, "excess": value, "nll": value})
        for name, value in (("TemperatureScaling", 0.9), ("BatchTemperatureScaling", 0.0))
    }
    candidates = {name: getattr(dc, name)() for name in tables}
    found = scored_rows.choices_of_folds(tables, np.arange(3), candidates)
    assert set(found) == {"TemperatureScaling"}


def test_rows_in_another_order_change_nothing(contents):
    order = np.random.default_rng(0).permutation(len(DATA))
    found = make_report(DATA.select(order), **FAST).contents
    for stage in ("before", "after"):
        for key, values in contents["domains"][stage].items():
            np.testing.assert_allclose(
                array(found["domains"][stage][key]), array(values), rtol=1e-3, atol=1e-6
            )
    assert found["verdict"] == contents["verdict"]


def test_other_names_of_the_domains_change_only_the_names(contents):
    renamed = replace(DATA, domains=np.array([f"<b>{name}" for name in DATA.domains]))
    found = make_report(renamed, **FAST).contents
    assert found["domains"].pop("name") == [f"<b>{n}" for n in contents["domains"]["name"]]
    expected = {key: value for key, value in contents["domains"].items() if key != "name"}
    assert found["domains"] == expected
    assert found["means"] == contents["means"]


def test_scores_of_left_out_domains_are_those_of_the_protocol_in_folds_and_by_group():
    groups = np.arange(len(DATA)) % 20
    data = replace(DATA, groups=groups)
    methods = {"ts": dc.TemperatureScaling(), "batch": dc.BatchTemperatureScaling()}
    expected = dc.evaluate_leave_one_domain_out(methods, data, n_folds=3)
    found = score_left_out_domains(methods, data, n_folds=3)
    assert len(found.folds) == 9
    assert set(found.folds) == {0, 1, 2}
    for name in methods:
        mean = np.bincount(found.data.domain_codes[0], found.scores[name].nll) / np.bincount(
            found.data.domain_codes[0]
        )
        np.testing.assert_allclose(mean, expected.loc[expected["method"] == name, "nll"])


def test_batches_have_the_number_of_rows_that_was_asked_for():
    methods = {"batch": dc.BatchTemperatureScaling(), "ts": dc.TemperatureScaling()}
    found = score_left_out_domains(methods, DATA, batch_size=25)
    for _, rows in pd.Series(found.scores["batch"].temperature).groupby(found.data.domains):
        assert sorted(rows.value_counts().tolist()) == [10, 25, 25]
    pooled = pd.Series(found.scores["ts"].temperature).groupby(found.data.domains).nunique()
    assert (pooled == 1).all()


def test_named_domains_are_unseen_and_the_others_known():
    found = make_report(DATA, ood="*-[678]", **FAST).contents
    assert found["domains"]["kind"] == ["known"] * 6 + ["unseen"] * 3
    table = dc.evaluate_split(
        {"MaxSoftmax": dc.MaxSoftmax(), "auto": dc.AutoCalibration(batch_size="domain")},
        DATA, ood="*-[678]",
    )  # fmt: skip
    for stage, method in (("before", "MaxSoftmax"), ("after", "auto")):
        of_method = table[table["method"] == method].sort_values("domain")
        close(found["domains"][stage]["ece"], of_method["ece"])
        close(found["domains"][stage]["nll"], of_method["nll"])
    assert found["means"]["known"]["n_domains"] == 6
    assert found["means"]["unseen"]["n_domains"] == 3


def test_a_model_is_scored_on_all_rows(tmp_path):
    known, _ = dc.split_domains(DATA, "*-[678]")
    fitted = dc.DomainTemperatureScaling().fit(known)
    fitted.save(tmp_path / "m.safetensors")
    with pytest.warns(dc.errors.UnseenDomainWarning):
        found = make_report(DATA, tmp_path / "m.safetensors").contents
    assert found["domains"]["kind"] == ["known"] * 6 + ["unseen"] * 3
    with pytest.warns(dc.errors.UnseenDomainWarning):
        table = dc.score_table(fitted, DATA)
    close(found["domains"]["after"]["ece"], table["ece"])
    assert "methods" in found["missing"]
    own = make_report(known, fitted).contents
    assert "fitted to these very rows" in own["protocol"]
    assert "errors look too small" in own["verdict"]["sentences"][0]
    assert set(own["domains"]["kind"]) == {"known"}


def test_the_batches_of_a_chosen_model_are_those_of_its_choice():
    auto = dc.AutoCalibration(batch_size=20).fit(DATA)
    found = make_report(DATA, auto.best_).contents
    assert "random batches of 20 of one domain" in found["protocol"]
    assert [row["method"] for row in found["methods"]["rows"]] == auto.selection_["method"].tolist()


def test_risk_and_reliability_are_those_of_the_library(contents):
    confidences = dc.MaxSoftmax().fit(DATA).predict_confidence(DATA)
    hits = DATA.logits.argmax(axis=1) == DATA.labels
    curves = dc.risk_coverage(confidences, hits)
    for row in contents["risk"]["targets"]:
        expected = curves.threshold_for(accuracy=row["accuracy"])["coverage"]
        close([row["before"]], expected)
    assert contents["risk"]["before"]["coverage"][-1] == 1.0
    assert len(contents["risk"]["before"]["coverage"]) <= 200
    p = dc.MaxSoftmax().fit(DATA).predict_proba(DATA)
    curve = dc.reliability_curve(p, DATA.labels)
    full = curve.n > 0
    found = contents["reliability"]["all"]["before"]
    assert found["bin"] == np.flatnonzero(full).tolist()
    for key in ("n", "confidence", "accuracy", "low", "high"):
        close(found[key], getattr(curve, key)[full])


def test_temperatures_are_those_of_the_temperature_table():
    fitted = dc.MultiDomainTemperatureScaling().fit(DATA)
    found = make_report(DATA, fitted).contents["domains"]["temperature"]
    table = dc.temperature_table(fitted, DATA)
    for key in ("learned", "predicted", "low", "high"):
        np.testing.assert_allclose(found[key], table[key], rtol=6e-6)
    np.testing.assert_allclose(found["error"], table["standard_error"], rtol=6e-6)
    without = make_report(DATA, dc.HistogramBinning().fit(DATA)).contents
    assert without["domains"]["temperature"] is None
    assert without["missing"]["temperatures"] == (
        "The calibration (HistogramBinning, the fitted model) has no temperatures."
    )


def test_new_domains_are_estimated_as_the_library_does():
    known, new = dc.split_domains(DATA, ["domain-4"])
    found = make_report(known, unlabelled=new, **FAST).contents["unlabelled"]
    table = dc.shift.ConfidenceEstimator().fit(known).predict(new)
    close(found["predicted"], table["predicted_accuracy"])
    close(found["low"], table["low"])
    close(found["distance"], table["distance"])
    assert found["verdict"] == table["verdict"].tolist()


def test_new_domains_without_a_lower_limit_come_first():
    new = DATA.select(np.isin(DATA.domains, ["domain-0", "domain-1"]))
    far = np.where(new.domains == "domain-1", 50.0, 1.0)[:, None]
    new = replace(new, logits=new.logits * far)
    with pytest.warns(dc.errors.ClippedTemperatureWarning):
        found = make_report(DATA, unlabelled=new, **FAST).contents
    assert found["unlabelled"]["name"] == ["domain-1", "domain-0"]
    assert found["unlabelled"]["verdict"] == ["outside", "inside"]
    assert found["unlabelled"]["predicted"][0] > found["unlabelled"]["predicted"][1]
    assert any("Do not rely on the model in domain-1" in sentence
               for sentence in found["verdict"]["sentences"])  # fmt: skip


def test_rows_without_labels_need_a_model_and_show_what_they_can(tmp_path):
    known, new = dc.split_domains(DATA, ["domain-4"])
    bare = replace(new, labels=None)
    with pytest.raises(dc.errors.InputError, match=r"no labels; add them, or pass model"):
        make_report(bare)
    with pytest.raises(dc.errors.InputError, match=r"leave out the other rows"):
        make_report(bare, dc.TemperatureScaling().fit(known), unlabelled=new)
    dc.shift.save_estimator(dc.shift.ConfidenceEstimator().fit(known), tmp_path / "m.safetensors",
                            calibrator=dc.TemperatureScaling().fit(known))  # fmt: skip
    found = make_report(bare, tmp_path / "m.safetensors").contents
    assert found["domains"] is None
    assert found["means"] is None
    assert found["unlabelled"]["name"] == ["domain-4"]
    assert "add the class of each row" in found["missing"]["domains"]
    assert found["verdict"]["state"] == "unknown"


@pytest.mark.parametrize("case", ["no domains", "one domain", "two domains", "one row", "all right",
                                  "one class right"])  # fmt: skip
def test_poor_data_give_a_page_that_says_what_cannot_be_shown(case):
    data = DATA
    if case == "no domains":
        data = replace(DATA, domains=None)
    elif case == "one domain":
        data = DATA.select(DATA.domains == "domain-0")
    elif case == "two domains":
        data = DATA.select(np.isin(DATA.domains, ["domain-0", "domain-1"]))
    elif case == "one row":
        data = DATA.select([0, *np.flatnonzero(DATA.domains != "domain-0").tolist()])
        assert (data.domains == "domain-0").sum() == 1
    elif case == "all right":
        data = replace(DATA, labels=DATA.logits.argmax(axis=1))
    else:
        data = replace(DATA, labels=np.zeros(len(DATA), int))
    found = make_report(data, **FAST).contents
    json.dumps(found, allow_nan=False)
    if case in ("no domains", "one domain"):
        assert set(found["domains"]["kind"]) == {"known"}
        assert found["means"]["unseen"] is None
        assert "add the domain of each row" in found["missing"]["methods"]
        assert found["verdict"]["state"] == "unknown"
    if case == "no domains":
        assert found["domains"]["name"] == ["all rows"]
    if case == "two domains":
        assert "2 domains are too few to say more" in found["verdict"]["headline"]
        assert found["names"]["after"].startswith("TemperatureScaling")
    if case == "one row":
        assert found["domains"]["n"][0] == 1
        assert found["methods"]["rows"][0]["n_domains"] == 8
    if case == "all right":
        assert found["risk"] is None
        assert "Nearly all rows are right" in found["missing"]["risk"]


def test_a_single_row_is_one_error_with_the_cure():
    with pytest.raises(dc.errors.InputError, match="need a domain with at least two"):
        make_report(DATA[:1])


def test_very_long_names_are_shortened():
    names = np.array([f"{'x' * 900}{name}" for name in DATA.domains])
    data = replace(DATA, domains=names, class_names=["c" * 1000, "d", "e"])
    found = make_report(data, model=MODEL).contents
    assert max(map(len, found["domains"]["name"])) == 300
    assert found["domains"]["name"][0].endswith("domain-0")
    assert len(json.dumps(found)) < 100_000


def test_a_model_or_new_rows_of_other_classes_are_an_error():
    other, _ = dc.make_multi_domain(n_domains=3, n_rows=30, n_classes=4, n_features=3)
    with pytest.raises(dc.errors.InputError, match="classes"):
        make_report(DATA, dc.TemperatureScaling().fit(other))
    with pytest.raises(dc.errors.InputError, match=r"unlabelled .* has scores of 4 classes, but"):
        make_report(DATA, unlabelled=other)


@pytest.mark.parametrize(("arguments", "message"), [
    ({"n_bins": 101}, "n_bins must be at most 100"),
    ({"batch_size": 0}, "batch_size"),
    ({"batch_size": "all"}, "batch_size"),
    ({"ood": "night"}, "'night', which matches no domain"),
    ({"model": 3}, "not a calibrator"),
    ({"unlabelled": [1]}, "unlabelled must be CalibrationData or a Store"),
    ({"random_state": -1}, "random_state"),
])  # fmt: skip
def test_wrong_arguments(arguments, message):
    with pytest.raises(dc.errors.InputError, match=message):
        make_report(DATA, **arguments)


def test_more_rows_than_the_limit_are_sampled_equally_from_each_domain(monkeypatch, tmp_path):
    monkeypatch.setattr(sys.modules[make_report.__module__], "MOST_ROWS", 200)
    found = make_report(DATA, model=MODEL).contents
    assert found["domains"]["n"] == [22] * 9
    assert "A random sample of 198 of 540 rows" in found["protocol"]
    dc.write(DATA, tmp_path / "store")
    stored = make_report(dc.Store(tmp_path / "store"), model=MODEL).contents
    assert stored["domains"]["n"] == [22] * 9
    assert stored["run"]["fingerprint"] == DATA.fingerprint()


def test_a_store_gives_the_numbers_of_memory(contents, tmp_path):
    dc.write(DATA, tmp_path / "store")
    found = make_report(dc.Store(tmp_path / "store"), **FAST).contents
    assert found["domains"] == contents["domains"]


def test_few_folds_of_very_many_domains(monkeypatch):
    monkeypatch.setattr(scored_rows, "_MOST_FOLDS", 4)
    monkeypatch.setattr(scored_rows, "_FITTED_DOMAINS", 20)
    found = make_report(DATA, **FAST).contents
    assert "dealt at random into 2 folds" in found["protocol"]


def _page(contents, **changes):
    text = json.dumps({**contents, **changes}).replace("<", "\\u003c")
    return f"<html>{earlier.CONTENTS_START}{text}{earlier.CONTENTS_END}</html>"


def test_an_earlier_page_is_read_and_compared(contents, tmp_path):
    pytest.importorskip("plotly")
    pytest.importorskip("jinja2")
    made = make_report(DATA, title="</script><b>", model=MODEL)
    made.save(tmp_path / "a.html")
    assert earlier.read_contents(tmp_path / "a.html") == made.contents
    same = make_report(DATA, baseline=tmp_path / "a.html", model=MODEL).contents["change"]
    assert same["title"] == "</script><b>"
    assert all(row["ece_before"] == row["ece_after"] for row in same["rows"])
    assert "(0.0 points, 95% interval" in same["sentences"][0]
    part = DATA.select(DATA.domains != "domain-3")
    fewer = make_report(part, baseline=tmp_path / "a.html", model=MODEL).contents["change"]
    assert len(fewer["rows"]) == 8
    assert "1 domain is no longer there: domain-3." in fewer["sentences"]
    change = [abs(row["ece_after"] - row["ece_before"]) for row in fewer["rows"]]
    assert change == sorted(change, reverse=True)


def test_pages_without_a_common_domain_say_so(contents, tmp_path):
    (tmp_path / "a.html").write_text(_page(contents))
    renamed = replace(DATA, domains=np.array([f"new {name}" for name in DATA.domains]))
    found = make_report(renamed, baseline=tmp_path / "a.html", model=MODEL).contents["change"]
    assert found["rows"] == []
    assert found["sentences"][0] == "The pages have no labelled domain in common."


@pytest.mark.parametrize(("damage", "message"), [
    (lambda page, c: "<html></html>", "has no contents of a report"),
    (lambda page, c: page[: len(page) // 2], "truncated or damaged"),
    (lambda page, c: page.replace(earlier.CONTENTS_START, "x"), "has no contents"),
    (lambda page, c: _page(c, version=2), "version 2 of the contents, newer than 1"),
    (lambda page, c: _page(c, version="1"), "newer than 1"),
    (lambda page, c: _page(c, format="x"), "contents of something else"),
    (lambda page, c: _page(c, domains={"name": [1]}), "is damaged"),
    (lambda page, c: _page(c, domains={**c["domains"], "n": [1]}), "is damaged"),
    (lambda page, c: _page(c, domains={**c["domains"], "n": ["x"] * 9}), "is damaged"),
    (lambda page, c: _page(c, run=None), "is damaged"),
    (lambda page, c: _page(c, names={}), "is damaged"),
    (lambda page, c: earlier.CONTENTS_START + "[" * 100_000 + "</script>", "truncated or damaged"),
    (lambda page, c: earlier.CONTENTS_START + "[]</script>", "something else"),
])  # fmt: skip
def test_a_damaged_earlier_page_is_one_error_with_the_cure(contents, tmp_path, damage, message):
    path = tmp_path / "page.html"
    path.write_text(damage(_page(contents), contents))
    with pytest.raises(dc.errors.FileFormatError, match=message) as found:
        make_report(DATA, model=MODEL, baseline=path)
    assert str(path) in str(found.value)
    assert "domaincal" in str(found.value)

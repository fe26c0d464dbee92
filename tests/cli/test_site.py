"""The verb ``site``: from the files of three sites to a model, in one round and in two."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

import domaincal as dc
from domaincal.cli import main
from domaincal.cli.site import _MIN_ROWS
from domaincal.distributed.site_summary import MIN_ROWS

SITES = ("north", "south", "west")


def run(*arguments, code=0):
    result = CliRunner().invoke(main, ["site", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result


@pytest.fixture(scope="module")
def data():
    rows, _ = dc.make_multi_domain(6, 100, n_classes=4, n_features=3, random_state=0)
    return dc.CalibrationData(
        rows.logits.astype(float), labels=rows.labels, features=rows.features.astype(float),
        domains=rows.domains,
    )  # fmt: skip


@pytest.fixture
def folder(data, tmp_path, monkeypatch):
    """Data of three sites: a .npz, a csv and a store."""
    monkeypatch.chdir(tmp_path)
    for k, name in enumerate(("north.npz", "south.csv", "west")):
        own = [f"domain-{j}" for j in (2 * k, 2 * k + 1)]
        dc.write(dc.split_domains(data, own)[1], name)
    return tmp_path


def summarize_all(*options, suffix=""):
    paths = []
    for source in ("north.npz", "south.csv", "west"):
        paths.append(f"{source.split('.')[0]}{suffix}.safetensors")
        run("summarize", source, "-o", paths[-1], *options)
    return paths


def test_one_round_gives_the_model_of_the_pooled_rows(folder, data):
    said = " ".join(run("summarize", "north.npz", "-o", "n.safetensors").stdout.split())
    assert said.startswith("sums over 200 rows of 2 domains written to n.safetensors (")
    assert "What leaves the building: n_rows 2 number of rows of each domain temperature 2" in said
    assert "gram 3 x 3 sums of the products of two features, over all rows" in said
    assert "sums of features are over at least 100 rows each, and bins count at least 1" in said
    sums = summarize_all()
    said = run("combine", *sums, "-o", "model.safetensors").stdout
    assert "md-ts: MultiDomainTemperatureScaling()" in said
    assert "600 rows of 3 sites" in said
    temperature = dc.load("model.safetensors").domain_temperatures_["domain-3"]
    (row,) = [line for line in said.splitlines() if "domain-3" in line]
    own = data.select(np.flatnonzero(data.domains == "domain-3"))
    accuracy = 100 * np.mean(np.argmax(own.logits, axis=1) == own.labels)
    assert f" 100 │ {accuracy:10.2f} │" in row
    assert f" {temperature:.3g} │" in row
    assert "written to model.safetensors" in said
    expected = dc.MultiDomainTemperatureScaling().fit(data)
    found = dc.load("model.safetensors")
    np.testing.assert_allclose(
        found.predict_temperature(data), expected.predict_temperature(data), rtol=1e-8
    )
    applied = CliRunner().invoke(main, ["apply", "model.safetensors", "north.npz", "-o", "p.csv"])
    assert applied.exit_code == 0


def test_two_rounds_search_the_penalty(folder, data):
    method = ("--method", "md-ts:head=ridge:fit_intercept=true")
    sums = summarize_all("--search")
    assert "domaincal site summarize --given" in " ".join(
        run("combine", *sums, "-o", "m.safetensors", *method, code=1).stderr.split()
    )
    said = run("combine", *sums, "--plan", "plan.safetensors", *method).stdout
    assert "plan written to plan.safetensors, not yet a calibrator" in said
    answers = summarize_all("--given", "plan.safetensors", suffix="-2")
    run("combine", *answers, *sums, "-o", "m.safetensors", *method)
    expected = dc.MultiDomainTemperatureScaling(head="ridge", fit_intercept=True).fit(data)
    found = dc.load("m.safetensors")
    assert found.head_parameters_ == pytest.approx(expected.head_parameters_, rel=1e-8)
    np.testing.assert_allclose(
        found.predict_temperature(data), expected.predict_temperature(data), rtol=1e-8
    )


def test_the_shift_is_a_file_of_numbers_or_the_mean_of_a_site(folder, data):
    np.save("mean.npy", data.features.mean(axis=0))
    for shift in ("mean.npy", "north.safetensors"):
        run("summarize", "north.npz", "-o", "north.safetensors", "--force")
        sums = [f"{name}-shifted.safetensors" for name in SITES]
        for source, path in zip(("north.npz", "south.csv", "west"), sums, strict=True):
            run("summarize", source, "-o", path, "--shift", shift, "--force")
        run("combine", *sums, "-o", "model.safetensors", "--force")
        np.testing.assert_allclose(
            dc.load("model.safetensors").coef_,
            dc.MultiDomainTemperatureScaling().fit(data).coef_, rtol=1e-8,
        )  # fmt: skip
    used = dc.distributed.load_site("north-shifted.safetensors").features.shift
    north = dc.read("north.npz").features.mean(axis=0)
    np.testing.assert_allclose(used, north, rtol=1e-12)
    run("summarize", "north.npz", "-o", "x.safetensors", "--shift", "model.safetensors", code=1)
    run("summarize", "north.npz", "-o", "x.safetensors", "--shift", "none.npy", code=1)


def test_rare_features_and_few_wrong_rows_are_refused_with_the_option_that_allows_them(folder):
    north = dc.read("north.npz")
    features = north.features.copy()
    features[:, 1] = np.arange(len(north)) == 7
    for name, labels, said in (
        ("rare.npz", north.labels, "the feature 1 (1 row) differs"),
        ("good.npz", np.where(np.arange(len(north)) < 3, north.labels, north.logits.argmax(1)),
         "are predicted wrong in domain"),
    ):  # fmt: skip
        dc.write(
            dc.CalibrationData(
                north.logits, labels=labels, features=features, domains=north.domains
            ),
            name,
        )
        result = run("summarize", name, "-o", "x.safetensors", code=1)
        message = " ".join(result.stderr.split())
        assert said in message
        assert "allow them with --min-rows." in message
        assert not (folder / "x.safetensors").exists()
        run("summarize", name, "-o", "x.safetensors", "--min-rows", "1")
        (folder / "x.safetensors").unlink()


def test_features_can_stay_at_the_site(folder, data):
    said = run("summarize", "north.npz", "-o", "n.safetensors", "--no-features").stdout
    assert "gram" not in said
    assert "moments" not in said
    assert "no sums of features" in " ".join(
        run("combine", "n.safetensors", "-o", "m.safetensors", code=1).stderr.split()
    )
    run("combine", "n.safetensors", "--plan", "p.safetensors", "--method", "ts")
    run("summarize", "north.npz", "-o", "a.safetensors", "--given", "p.safetensors")
    run("combine", "n.safetensors", "a.safetensors", "-o", "m.safetensors", "--method", "ts")
    expected = dc.TemperatureScaling().fit(dc.read("north.npz")).temperature_
    assert dc.load("m.safetensors").temperature_ == pytest.approx(expected, rel=1e-10)


def test_json_documents(folder):
    document = json.loads(run("summarize", "west", "-o", "w.safetensors", "--json").stdout)
    assert document["document"] == "domaincal site summarize"
    assert document["n_rows"] == 200
    assert {"array": "gram", "size": "3 x 3"}.items() <= document["arrays"][-2].items()
    document = json.loads(run("combine", "w.safetensors", "-o", "m.safetensors", "--json").stdout)
    assert document["document"] == "domaincal site combine"
    assert document["calibrator"]["class"] == "MultiDomainTemperatureScaling"
    assert [row["n"] for row in document["domains"]] == [100, 100]
    document = json.loads(
        run(
            "combine", "w.safetensors", "--plan", "p.safetensors", "--method", "ts", "--json"
        ).stdout
    )
    assert document["plan"] == "p.safetensors"


def test_inspect_says_what_a_file_of_a_site_holds(folder):
    def inspect(*arguments):
        result = CliRunner().invoke(main, ["inspect", *arguments])
        assert result.exit_code == 0, result.output
        return " ".join(result.stdout.split())

    run("summarize", "west", "-o", "w.safetensors")
    run("combine", "w.safetensors", "--plan", "p.safetensors", "--method", "ts")
    run("summarize", "west", "-o", "a.safetensors", "--given", "p.safetensors")
    sums, plan, answers = map(inspect, ("w.safetensors", "p.safetensors", "a.safetensors"))
    assert sums.startswith("w.safetensors (sums of a site): 200 rows, 4 classes, 2 domains")
    assert "│ domain-4 │ 100 │" in sums
    assert "gram 3 x 3 sums of the products of two features" in sums
    assert "(plan of a second round): 4 classes, 2 domains of all sites" in plan
    assert "summarize DATA --given p.safetensors" in plan
    assert answers.startswith("a.safetensors (answers of a site to a plan): 200 rows, 4 classes")
    for path, content, n in (("w", "sums", 200), ("p", "plan", None), ("a", "answers", 200)):
        document = json.loads(inspect(f"{path}.safetensors", "--json"))
        assert document["document"] == "domaincal site file"
        assert (document["content"], document["n_rows"]) == (content, n)
        assert document["domains"] == ["domain-4", "domain-5"]


@pytest.mark.parametrize("verb", [["fit", "-o", "x.safetensors"], ["evaluate"]])
def test_verbs_for_rows_say_that_sums_are_none(folder, verb):
    run("summarize", "west", "-o", "w.safetensors")
    result = CliRunner().invoke(main, [verb[0], "w.safetensors", *verb[1:]])
    assert result.exit_code == 1
    assert "w.safetensors holds sums of a site" in result.stderr
    assert "domaincal site combine." in " ".join(result.stderr.split())


def test_sorted_logits_and_the_floor_of_probabilities_reach_the_model(folder, data):
    p = np.exp(data.logits) / np.exp(data.logits).sum(axis=1, keepdims=True)
    np.savez("p.npz", p=p, labels=data.labels, domains=data.domains.astype(str))
    arguments = ("--probabilities", "p", "--floor", "1e-9")
    run("summarize", "p.npz", "-o", "p.safetensors", "--sorted-logits", *arguments)
    run("combine", "p.safetensors", "-o", "m.safetensors", "--method", "md-ts:features=logits")
    shown = CliRunner().invoke(main, ["inspect", "m.safetensors"]).stdout
    assert "1e-09 of probabilities" in shown
    run("combine", "p.safetensors", "--plan", "plan.safetensors", "--method", "ts")
    run("summarize", "p.npz", "-o", "a.safetensors", "--given", "plan.safetensors", *arguments)
    run("combine", "p.safetensors", "a.safetensors", "-o", "ts.safetensors", "--method", "ts")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["summarize", "north.npz", "-o", "x.npz"], 1, "must end in .safetensors"),
        (["summarize", "north.npz", "-o", "old.safetensors"], 1, "pass --force to replace it"),
        (["summarize", "none.npz", "-o", "x.safetensors"], 1, "none.npz"),
        (["summarize", "north.npz", "-o", "x.safetensors", "--min-rows", "101"], 1,
         "allow them with --min-rows."),
        (["summarize", "bare.npz", "-o", "x.safetensors"], 1, "name it with --domain."),
        (["summarize", "north.npz", "-o", "x.safetensors", "--given", "old.safetensors"], 1,
         "old.safetensors is no plan"),
        (["summarize", "north.npz", "-o", "x.safetensors", "--given", "p", "--search"], 2,
         "--search is for the first round"),
        (["summarize", "north.npz", "-o", "x.safetensors", "--sorted-logits", "--no-features"], 2,
         "exclude each other"),
        (["combine", "old.safetensors"], 2, "give -o for a calibrator, or --plan"),
        (["combine", "old.safetensors", "-o", "x.safetensors", "--plan", "y"], 2, "give -o"),
        (["combine", "old.safetensors", "-o", "old.safetensors"], 1, "pass --force"),
        (["combine", "old.safetensors", "-o", "x.bin"], 1, "must end in .safetensors"),
        (["combine", "north.npz", "-o", "x.safetensors"], 1,
         "give files that domaincal site summarize wrote"),
        (["combine", "none.safetensors", "-o", "x.safetensors"], 1,
         "there is no file none.safetensors."),
        (["combine", "old.safetensors", "old.safetensors", "-o", "x.safetensors"], 1,
         "hold the same sums"),
        (["combine", "old.safetensors", "-o", "x.safetensors", "--method", "msp"], 1,
         "cannot be fitted to sums"),
        (["combine", "old.safetensors", "-o", "x.safetensors", "--method", "other"], 2,
         "there is no method"),
        (["combine"], 2, "Missing argument"),
    ],
)  # fmt: skip
def test_wrong_use_is_one_message(folder, data, arguments, code, message):
    run("summarize", "north.npz", "-o", "old.safetensors")
    np.savez("bare.npz", logits=data.logits, labels=data.labels)
    before = sorted(p.name for p in folder.iterdir())
    result = run(*arguments, code=code)
    assert message in " ".join(result.stderr.split())
    assert sorted(p.name for p in folder.iterdir()) == before


def test_the_help_shows_the_number_of_the_library():
    assert _MIN_ROWS == MIN_ROWS
    assert f"[default: {MIN_ROWS}; " in run("summarize", "--help").stdout.replace("\n", " ")
    listed = run("--help").stdout
    for shown in (listed, run("summarize", "--help").stdout, run("combine", "--help").stdout):
        assert max(map(len, shown.splitlines())) <= 80
    assert listed.index("summarize  ") < listed.index("combine  ")

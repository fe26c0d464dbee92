"""The runner: the numbers of the protocol, cached results, and the TOML format."""

import json
import os
import signal
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import domaincal as dc
from domaincal._tensor_files import read_tensors
from domaincal.data.splits import half_mask
from domaincal.experiments import data_sources, result_cache, results as results_module, runner
from domaincal.experiments.experiment import select_networks
from domaincal.experiments.methods import Method
from domaincal.experiments.reproduce import reproduce
from domaincal.experiments.results import SCORES, means_over_domains
from domaincal.experiments.trials import trials_of
from domaincal.experiments.user_code import load_object
from support import small_domains

pytestmark = pytest.mark.filterwarnings("ignore::domaincal.DomaincalWarning")

TOML = """
name = "mine"
n_bins = 10
repeats = 2
random_state = 3
partitions = [{name = "new", title = "two unseen", ood = ["*-[45]"]}, "all"]

[data]
net = "mine.npz"

[methods]
MSP = "msp"
TS = "ts"
MD-TS = "md-ts"
T_k = "domain-ts"
oracle = "oracle"
"""


MIXED = "results of 'net' come from data that were made more than once"


@pytest.fixture
def data():
    made = small_domains(n_rows=60)
    return replace(made, groups=np.tile(np.arange(60), 6))


@pytest.fixture
def folder(tmp_path, data):
    dc.write(data, tmp_path / "mine.npz")
    (tmp_path / "mine.toml").write_text(TOML)
    return tmp_path


def _run(folder, text=TOML, out="out", **options):
    (folder / "mine.toml").write_text(text)
    experiment = dc.experiments.read_experiment(folder / "mine.toml", allow_code=True)
    return dc.experiments.run_experiment(experiment, folder / out, **options)


def _rows(results, **values):
    table = results.table
    for key, value in values.items():
        table = table[table[key] == value]
    return table.reset_index(drop=True)


def test_results_are_those_of_evaluate_split(folder, data):
    results = _run(folder)
    for repeat in (0, 1):
        expected = dc.evaluate_split(
            {"MSP": dc.MaxSoftmax(), "TS": dc.TemperatureScaling(),
             "MD-TS": dc.MultiDomainTemperatureScaling()},
            data, ood="*-[45]", by="row", n_bins=10, random_state=3 + repeat,
        )  # fmt: skip
        for method in ("MSP", "TS", "MD-TS"):
            mine = _rows(results, partition="new", repeat=repeat, method=method)
            own = expected[expected["method"] == method].reset_index(drop=True)
            columns = ["kind", "domain", "n", "accuracy", "mean_confidence", "ece", "floor",
                       "excess", "gap", "nll", "brier"]  # fmt: skip
            pd.testing.assert_frame_equal(mine[columns], own[columns], check_dtype=False)
    assert set(results.table["head"]) == {"", "ols"}
    assert results.table["head"][results.table["method"] == "MD-TS"].eq("ols").all()


def test_the_oracle_is_temperature_scaling_fitted_to_the_scored_rows_of_each_domain(folder, data):
    results = _run(folder)
    rows = _rows(results, partition="new", repeat=0, method="oracle", kind="OOD")
    for domain, ece in zip(rows["domain"], rows["ece"], strict=True):
        own = data.select(data.domains == domain)
        fitted = dc.TemperatureScaling().fit(own.logits, own.labels)
        p = fitted.predict_proba(own.logits)
        assert ece == pytest.approx(dc.expected_calibration_error(p, own.labels, n_bins=10))
    # InD: the half that is scored, not the half that calibrates.
    first = half_mask(data, by="row", random_state=3)
    own = data.select(~first & (data.domains == "domain-0"))
    p = dc.TemperatureScaling().fit(own.logits, own.labels).predict_proba(own.logits)
    row = _rows(results, partition="all", repeat=0, method="oracle", domain="domain-0")
    expected = dc.expected_calibration_error(p, own.labels, n_bins=10)
    assert row["ece"].item() == pytest.approx(expected)


def test_the_oracle_fits_degenerate_and_small_domains_too(folder, data):
    """The temperature of a domain without errors is at a bound; a small domain has 5 rows."""
    labels = np.where(data.domains == "domain-5", data.logits.argmax(axis=1), data.labels)
    rows = (data.domains != "domain-4") | (np.arange(len(data)) % 12 == 0)
    odd = replace(data, labels=labels).select(rows)
    dc.write(odd, folder / "mine.npz")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nobody is warned about the oracle
        results = _run(folder, TOML.split("[methods]")[0] + '[methods]\noracle = "oracle"')
    table = _rows(results, partition="new", repeat=0).set_index("domain")
    assert table.loc["domain-4", "n"] == 5
    assert table.loc["domain-5", "ece"] < 0.03
    for domain in ("domain-4", "domain-5"):
        own = table.loc[domain]
        assert own["predicted"] == pytest.approx(own["learned"])


def test_domain_ts_is_scored_on_ind_domains_only(folder):
    results = _run(folder)
    assert set(_rows(results, method="T_k")["kind"]) == {"InD"}
    assert set(_rows(results, method="TS", partition="new")["kind"]) == {"InD", "OOD"}


def test_calibrated_is_the_temperature_of_the_calibration_rows(folder):
    results = _run(folder)
    own = _rows(results, partition="new", repeat=0, method="T_k")
    np.testing.assert_allclose(own["calibrated"], own["predicted"])
    assert not np.allclose(own["calibrated"], own["learned"])
    others = _rows(results, partition="new", repeat=0, method="TS")
    assert (others["calibrated"].isna() == (others["kind"] == "OOD")).all()


def test_pooled_scores_are_those_of_all_rows_of_a_kind(folder, data):
    results = _run(folder)
    chosen = results.pooled.query("partition == 'new' and repeat == 0 and kind == 'OOD'")
    outside = data.select(np.isin(data.domains, ["domain-4", "domain-5"]))
    p = dc.MaxSoftmax().fit(outside.logits, outside.labels).predict_proba(outside.logits)
    msp = chosen[chosen["method"] == "MSP"].iloc[0]
    assert msp["n"] == len(outside)
    assert msp["accuracy"] == pytest.approx((outside.logits.argmax(1) == outside.labels).mean())
    assert msp["mean_confidence"] == pytest.approx(p.max(axis=1).mean())
    assert msp["ece"] == pytest.approx(dc.expected_calibration_error(p, outside.labels, n_bins=10))
    mean = _rows(results, partition="new", repeat=0, kind="OOD", method="MSP")["ece"].mean()
    assert msp["ece"] <= mean + 1e-12  # domains of equal size


def test_temperatures_agree_with_temperature_table(folder, data):
    results = _run(folder)
    rows = _rows(results, partition="all", repeat=1, method="MD-TS").set_index("domain")
    train, test = dc.split_halves(data, by="row", random_state=4)
    fitted = dc.MultiDomainTemperatureScaling()
    fitted.fit(train.logits, train.labels, features=train.features, domains=train.domains)
    expected = dc.temperature_table(fitted, test).set_index("domain")
    for column in ("learned", "predicted", "low", "high"):
        np.testing.assert_allclose(rows[column], expected[column])


def test_means_average_repeats_within_a_domain_first():
    table = pd.DataFrame({
        "data": "d", "network": "n", "partition": "p", "split": "row", "head": "",
        "method": "TS", "kind": "OOD", "repeat": [0, 1, 0, 1, 0],
        "domain": ["a", "a", "b", "b", "c"],
        **{score: [1.0, 3.0, 4.0, 6.0, 8.0] for score in SCORES},
    })  # fmt: skip
    row = means_over_domains(table).iloc[0]
    assert row["ece"] == pytest.approx((2 + 5 + 8) / 3)
    assert row["ece_standard_error"] == pytest.approx(3.0 / np.sqrt(3))  # sd of 2, 5, 8 is 3
    assert (row["n_domains"], row["repeats"]) == (3, 2)


def test_provenance_contains_that_of_the_data(folder, data):
    dc.write(replace(data, provenance={"weights": "1a2b"}), folder / "mine.npz")
    results = _run(folder)
    assert results.provenance["rows"] == {"net": [{"weights": "1a2b"}]}
    written = json.loads((folder / "out" / "provenance.json").read_text())
    assert written[0]["rows"] == results.provenance["rows"]


@pytest.mark.parametrize("argument", ["", "random_state, "])
def test_results_of_data_that_were_made_twice_give_a_warning(folder, argument):
    """E.g. a network that is trained again gives other rows, of the same definition."""
    (folder / "mine.py").write_text(
        f"def load({argument}folder):\n"
        "    import domaincal as dc\n"
        "    from dataclasses import replace\n"
        "    made = (folder / 'made by').read_text()\n"
        f"    made = made + str({argument.strip(', ') or 0})\n"
        "    return replace(dc.read(folder / 'mine.npz'), provenance={'by': made})\n"
    )
    text = TOML.replace('"mine.npz"', '{source = "mine.py:load"}')
    (folder / "made by").write_text("one machine")
    with warnings.catch_warnings():
        warnings.filterwarnings("error", MIXED)
        _run(folder, text)
        (folder / "made by").write_text("another machine")
        _run(folder, text)  # nothing is missing
    with pytest.warns(dc.DomaincalWarning, match=MIXED):
        results = _run(folder, text.replace('MSP = "msp"', 'MSP = "msp"\nhist = "histogram"'))
    assert len(results.provenance["rows"]["net"]) == (4 if argument else 2)
    # A new repeat mixes data only if all repeats share them.
    (folder / "made by").write_text("a third machine")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _run(folder, text.replace("repeats = 2", "repeats = 3"))
    assert any("made more than once" in str(w.message) for w in caught) == (not argument)


def test_files_with_the_same_numbers_and_other_provenance_are_the_same_data(folder, data):
    for by in ("one", "another"):
        dc.write(replace(data, provenance={"by": by}), folder / "mine.npz")
        with warnings.catch_warnings():
            warnings.filterwarnings("error", MIXED)
            _run(folder, TOML + f'{by} = "histogram:n_bins={len(by)}"\n')


def test_select_networks_keeps_the_named_networks_of_all_experiments(folder):
    (folder / "mine.toml").write_text(TOML)
    mine = dc.experiments.read_experiment(folder / "mine.toml")
    two = replace(mine, name="two", sources=(replace(mine.sources[0], network="other"),))
    assert select_networks([mine, two], ["net"]) == [mine]
    assert select_networks([mine, two], ["other"]) == [two]
    assert select_networks([mine, two], ["other", "net"]) == [mine, two]
    with pytest.raises(
        dc.errors.InputError, match="no network 'x' in mine and two; choose from net, oth"
    ):
        select_networks([mine, two], ["x"])


def test_no_group_is_both_fitted_and_scored_in_the_group_split(folder, data, monkeypatch):
    text = TOML.replace("random_state = 3", 'random_state = 3\nsplits = ["row", "group"]')
    seen = []
    run_trial = runner.run_trial

    def spy(method, data, **options):
        seen.append((set(data.train.groups), {k: set(v.groups) for k, v in data.scored.items()}))
        return run_trial(method, data, **options)

    monkeypatch.setattr(runner, "run_trial", spy)
    results = _run(folder, text)
    assert set(results.table["split"]) == {"row", "group"}
    disjoint = [not any(train & own for own in scored.values()) for train, scored in seen]
    assert sum(disjoint) == len(seen) // 2


def _count_fits(monkeypatch):
    fits = []
    original = runner.run_trial

    def counted(method, *arguments, **options):
        fits.append(method)
        return original(method, *arguments, **options)

    monkeypatch.setattr(runner, "run_trial", counted)
    return fits


def test_cached_trials_are_not_run_again(folder, monkeypatch):
    fits = _count_fits(monkeypatch)
    whole = _run(folder)
    assert len(fits) == 2 * 2 * 5
    again = _run(folder)
    assert len(fits) == 20
    pd.testing.assert_frame_equal(again.table, whole.table)
    # One more method, one more repeat: only their trials are run.
    _run(folder, TOML.replace('MSP = "msp"', 'MSP = "msp"\niso = "isotonic"'))
    assert len(fits) == 20 + 4
    _run(folder, TOML.replace("repeats = 2", "repeats = 3"))
    assert len(fits) == 24 + 10


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("n_bins = 10", "n_bins = 12"),
        ("random_state = 3", "random_state = 9"),
        ('ood = ["*-[45]"]', 'ood = ["*-5"]'),
        ('"md-ts"', '"md-ts:head=ridge"'),
        ("random_state = 3", 'random_state = 3\nsplits = ["group"]'),
    ],
)
def test_a_changed_definition_runs_its_trials_again(folder, old, new, monkeypatch):
    first = _run(folder)
    fits = _count_fits(monkeypatch)
    second = _run(folder, TOML.replace(old, new))
    assert fits
    assert not first.table["ece"].equals(second.table["ece"])
    fresh = _run(folder, TOML.replace(old, new), out="fresh")
    pd.testing.assert_frame_equal(second.table, fresh.table)


@pytest.mark.parametrize("array", ["logits", "labels", "features", "domains", "groups"])
def test_one_changed_row_runs_all_trials_again(folder, data, array, monkeypatch):
    _run(folder)
    fits = _count_fits(monkeypatch)
    values = getattr(data, array).copy()
    values[7] = values[-1] if array == "domains" else (values[7] + 1) % 5
    dc.write(replace(data, **{array: values}), folder / "mine.npz")
    _run(folder)
    assert len(fits) == 20


def test_another_version_of_domaincal_runs_all_trials_again(folder, monkeypatch):
    _run(folder)
    fits = _count_fits(monkeypatch)
    monkeypatch.setattr(result_cache, "version", lambda _: "9.9")
    _run(folder)
    assert len(fits) == 20


def test_results_are_found_under_the_same_keys(tmp_path, monkeypatch):
    """Names and keys of version 4, with bins and seed in TOML.

    Results of earlier versions have other names, and are run again: they have no checksum, or no
    T_k of the calibration rows.
    """
    monkeypatch.setattr(result_cache, "version", lambda _: "1.0")
    logits = (np.arange(72).reshape(24, 3) * 7 % 11).astype(np.float64)
    data = dc.CalibrationData(
        logits, labels=np.arange(24) % 3, domains=np.repeat(["a", "b", "c", "d"], 6)
    )
    dc.write(data, tmp_path / "mine.npz")
    text = """
        name = "mine"
        n_bins = 12
        repeats = 2
        random_state = 3
        partitions = [{name = "drawn", random_ind = 2, min_rows = 5, random_state = 7}]
        data = {net = "mine.npz"}
        methods = {TS = "ts"}
    """
    results = _run(tmp_path, text)
    paths = sorted((tmp_path / "out/cells").iterdir())
    assert [path.name for path in paths] == [
        "2923062f387f95d2999d6f14f905c215.safetensors",
        "a93eba94ac00d8ebd58faa6bf90737ce.safetensors",
    ]
    tensors, texts = read_tensors(paths[0])
    assert {name: values.shape for name, values in tensors.items()} == {
        "bins": (4, 3, 12),
        "edges": (13,),
    }
    assert (texts["format"], texts["version"]) == ("domaincal cell", "4")
    assert set(texts) == {"format", "version", "key", "table", "provenance", "sha256"}
    assert texts["key"] == (
        '{"bins": 12, "data": {"domains": "strings (24,) e54afa4b", "labels": '
        '"int64 (24,) 02267a41", "logits": "float64 (24, 3) d0a7e81e"}, "domaincal": "1.0", '
        '"method": {"code": null, "text": "ts"}, "partition": {"ind": [], "min_rows": 5, '
        '"name": "drawn", "ood": [], "random_ind": 2, "seed": 7}, "seed": 4, "split": "row", '
        '"version": "4"}'
    )
    assert results.provenance["partitions"]["drawn"]["random_state"] == 7


def test_results_of_shipped_sources_are_found_under_the_same_keys(monkeypatch):
    monkeypatch.setattr(result_cache, "version", lambda _: "1.0")
    monkeypatch.setattr(data_sources, "versions", lambda *_: {"numpy": "2.0"})
    experiment = dc.experiments.read_experiment("digits-c")
    (trial,) = trials_of(
        experiment,
        partitions=[p for p in experiment.partitions if p.name == "random-4-2"],
        methods=experiment.methods[2:3],
        splits=["group"],
        repeats=4,
    )[3:]
    key = result_cache.trial_key(experiment, trial, experiment.sources[0].identity(3))
    path = result_cache.cache_path(Path(), key)
    assert path.name == "c9e437c252614b9af290f66b3817b515.safetensors"


def test_two_names_for_one_method_are_fitted_once(folder, monkeypatch):
    fits = _count_fits(monkeypatch)
    results = _run(folder, TOML + '"the same" = "ts"\n')
    assert len(fits) == 20
    first, second = (_rows(results, method=m)["ece"] for m in ("TS", "the same"))
    pd.testing.assert_series_equal(first, second)


def test_trials_with_damaged_files_are_run_again(folder, monkeypatch):
    whole = _run(folder)
    paths = sorted((folder / "out/cells").iterdir())
    paths[0].write_bytes(b"nonsense")
    paths[1].write_bytes(paths[1].read_bytes()[:-9])
    os.replace(paths[3], paths[2])  # a result under the name of another
    fits = _count_fits(monkeypatch)
    again = _run(folder)
    assert len(fits) == 4
    pd.testing.assert_frame_equal(again.table, whole.table)


MORTAL = """
import os, signal
from pathlib import Path
import domaincal as dc

class Mortal(dc.TemperatureScaling):
    def fit(self, *args, **options):
        log = Path(__file__).with_name("log")
        log.open("a").write("x")
        if len(log.read_text()) == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().fit(*args, **options)
"""


def test_a_killed_run_continues(folder):
    (folder / "mortal.py").write_text(MORTAL)
    text = TOML.replace('TS = "ts"\n', 'TS = "mortal.py:Mortal"\n')
    (folder / "mine.toml").write_text(text)
    command = [sys.executable, "-m", "domaincal", "reproduce", "summary", "--allow-code",
               "--experiment", folder / "mine.toml", "-o", folder / "out"]  # fmt: skip
    killed = subprocess.run(command, capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL
    kept = {p.name: p.stat().st_mtime_ns for p in (folder / "out/cells").glob("*.safetensors")}
    assert 2 <= len(kept) < 20
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    now = {p.name: p.stat().st_mtime_ns for p in (folder / "out/cells").glob("*.safetensors")}
    assert len(now) == 20
    assert kept.items() <= now.items()  # untouched
    assert len((folder / "log").read_text()) == 5  # two before, one in vain, two after
    plain = _run(folder, TOML, out="plain").table
    table = pd.read_csv(folder / "out/results.csv", keep_default_na=False)
    np.testing.assert_allclose(table["ece"], plain["ece"], rtol=1e-8)


def test_the_same_experiment_gives_the_same_files(folder):
    for out in ("a", "b"):
        _run(folder, out=out)
    for name in ("results.csv", "pooled.csv", "means.csv", "provenance.json"):
        assert (folder / "a" / name).read_bytes() == (folder / "b" / name).read_bytes()
    table = pd.read_csv(folder / "a/results.csv")
    assert {"method", "head", "partition", "repeat", "domain", "kind", "n", "accuracy",
            "mean_confidence", "ece", "floor", "excess", "nll", "brier"} <= set(table)  # fmt: skip
    assert len(table) == len(_run(folder, out="a").table)
    known = json.loads((folder / "a/provenance.json").read_text())[0]
    assert known["versions"]["domaincal"] == dc.__version__
    assert known["data"]["net"]["logits"].startswith("float64 (360, 5) ")
    assert known["methods"]["MD-TS"]["text"] == "md-ts"


def test_results_are_written_once(folder, monkeypatch):
    written = []
    original = results_module.atomic_file

    def counted(path):
        written.append(path.name)
        return original(path)

    monkeypatch.setattr(results_module, "atomic_file", counted)
    names = ["means.csv", "pooled.csv", "provenance.json", "results.csv"]
    _run(folder)
    assert sorted(written) == names
    written.clear()
    experiment = dc.experiments.read_experiment(folder / "mine.toml")
    reproduce(["summary", "table-1"], [experiment, replace(experiment, name="b")], folder / "out")
    assert sorted(written) == names


def test_progress_counts_the_trials_that_are_left(folder):
    steps = []
    _run(folder, track=lambda left: (steps.append(len(left)), left)[1])
    _run(folder, track=lambda left: (steps.append(len(left)), left)[1])
    assert steps == [20, 0]


def test_run_experiment_runs_only_the_given_trials(folder):
    experiment = dc.experiments.read_experiment(folder / "mine.toml")
    trials = trials_of(experiment, partitions=[experiment.main], methods=experiment.methods[:1])
    results = dc.experiments.run_experiment(experiment, folder / "out", trials=trials)
    assert set(results.table["method"]) == {"MSP"}
    assert len(results.only(trials[:1]).table) == len(results.table) / 2


def test_warnings_and_errors_name_the_trial(folder):
    made = small_domains(n_rows=60)
    dc.write(
        replace(made, features=made.features - made.features.mean(axis=0)), folder / "mine.npz"
    )
    with pytest.warns(dc.errors.PoorHeadWarning, match=r"'MD-TS' on 'net', 'new', repeat 0: "):
        _run(folder)
    text = TOML.replace('"md-ts"', '"md-ts:head=forest"')
    with pytest.raises(
        dc.errors.InputError, match=r"^'MD-TS' on 'net', 'all', repeat 0: head must be"
    ):
        _run(folder, text)


OWN = '''
import numpy as np
import domaincal as dc

def load(folder, random_state, rows=50):
    """Rows that differ with random_state."""
    assert (folder / "marker").exists()
    data, _ = dc.make_multi_domain(n_domains=4, n_rows=rows, random_state=random_state)
    return data

def fixed(rows=50):
    load.calls = getattr(load, "calls", 0) + 1
    return dc.make_multi_domain(n_domains=4, n_rows=rows, random_state=0)[0]

def nothing():
    return 3

def old(seed=0):
    return fixed()

def named(code, versions=1):
    return fixed(rows=30 + code)

class Plain:
    def fit(self, *_, **__): ...
    def predict_confidence(self, *_, **__): ...
    def predict_proba(self, *_, **__): ...

class Half(dc.TemperatureScaling):
    """TS, but half as warm."""
    def __init__(self, factor=0.5):
        self.factor = factor
    def fit(self, *args, **options):
        super().fit(*args, **options)
        self.temperature_ *= self.factor
        return self
'''


def test_data_and_methods_of_a_user(folder):
    (folder / "own.py").write_text(OWN)
    (folder / "elsewhere").mkdir()
    (folder / "elsewhere/marker").touch()
    (folder / "mine.toml").write_text("""
        name = "own"
        repeats = 2
        data = {a = {source = "own.py:load", rows = 40}, b = {source = "own.py:fixed"}}
        methods = {TS = "ts", half = "own.py:Half", same = "own.py:Half:factor=1.0"}
    """)
    experiment = dc.experiments.read_experiment(
        folder / "mine.toml", data=folder / "elsewhere", allow_code=True
    )
    table = dc.experiments.run_experiment(experiment, folder / "out").table
    assert (table.query("network == 'a'")["n"] == 20).all()
    assert (table.query("network == 'b'")["n"] == 25).all()
    ts, half, same = (table[table["method"] == m].reset_index() for m in ("TS", "half", "same"))
    np.testing.assert_allclose(half["predicted"], ts["predicted"] / 2)
    np.testing.assert_allclose(same["ece"], ts["ece"])
    # Each repeat has its own rows if the function has the parameter random_state.
    accuracy = ts.pivot_table(index="domain", columns=["network", "repeat"], values="learned")
    assert (accuracy["a", 0] != accuracy["a", 1]).all()


LOADER = """
from pathlib import Path
import domaincal as dc

def load(folder, shift=0):
    seed = int((folder / "seed").read_text()) + int(Path(__file__).with_name("more").read_text())
    return dc.make_multi_domain(n_domains=4, n_rows=50, random_state=seed + shift)[0]
"""


def test_options_may_be_called_code_or_versions(folder):
    """The identity of the data has entries of the same names."""
    (folder / "own.py").write_text(OWN)
    text = 'name = "a"\ndata = {n = {source = "own.py:named", code = %d}}'
    assert [_run(folder, text % code).table["n"].max() for code in (0, 8)] == [15, 19]


def test_code_options_and_folders_of_a_source_are_part_of_the_key(folder):
    for place, seed, more in (("a", 0, 10), ("b", 1, 20)):
        (folder / place).mkdir()
        (folder / place / "seed").write_text(str(seed))
        (folder / place / "more").write_text(str(more))
        (folder / place / "own.py").write_text(LOADER)

    def first(place="a", data="a", option="", code=LOADER):
        (folder / place / "own.py").write_text(code)
        (folder / place / "e.toml").write_text(
            'name = "e"\nmethods = {MSP = "msp"}\n[data]\nn = {source = "own.py:load"'
            + option
            + "}"
        )
        experiment = dc.experiments.read_experiment(
            folder / place / "e.toml", data=folder / data, allow_code=True
        )
        return dc.experiments.run_experiment(experiment, folder / "out").table["ece"].tolist()

    seen = [first(), first(data="b"), first(option=", shift = 5"), first(place="b"),
            first(code=LOADER.replace("seed + shift", "seed + shift + 7"))]  # fmt: skip
    assert len({tuple(values) for values in seen}) == 5
    assert first() == seen[0]


def test_a_file_that_failed_to_import_can_be_imported_again(folder):
    (folder / "own.py").write_text(
        "from pathlib import Path\nnumber = int(Path(__file__).with_name('number').read_text())\n"
    )
    with pytest.raises(FileNotFoundError):
        load_object("own.py:number", folder)
    (folder / "number").write_text("3")
    assert load_object("own.py:number", folder) == 3
    (folder / "own.py").write_text("def broken(:")
    with pytest.raises(dc.errors.InputError, match=r"own\.py is not valid Python"):
        load_object("own.py:number", folder)


def test_changed_code_is_run_again(folder):
    (folder / "own.py").write_text(OWN)
    text = TOML.replace('TS = "ts"', 'TS = "own.py:Half"')
    first = _run(folder, text).table
    (folder / "own.py").write_text(OWN.replace("factor=0.5", "factor=0.25"))
    second = _run(folder, text).table
    ratio = first["predicted"] / second["predicted"]
    np.testing.assert_allclose(ratio[first["method"] == "TS"], 2.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name = ", "is not a valid TOML file"),
        ("n_bins = 3", "name must be a string, got None"),
        ('name = "a"', "data must be a table, got None"),
        ('name = "a"\ndata = {}', "sources of 'a' is empty"),
        ('name = "a"\ndata = {n = 3}', "must be the path of a file or a table"),
        (
            'name = "a"\ndata = {n = {source = "nowhere"}}',
            "unknown source 'nowhere'; write the path",
        ),
        ('name = "a"\ndata = {n = {source = "no.py:load"}}', "no file .*no.py"),
        ('name = "a"\ndata = {n = {source = "own.py"}}', "names a file only; write own.py:NAME"),
        ('name = "a"\ndata = {n = {source = "own.py:x"}}', "has no 'x'"),
        (
            'name = "a"\ndata = {n = {source = "own.py:load", x = 1}}',
            "no option 'x'; it has rows",
        ),
        (
            'name = "a"\ndata = {n = {source = "own.py:load", random_state = 1}}',
            "no option 'random_state'",
        ),
        (
            'name = "a"\ndata = {n = {source = "own.py:old"}}',
            "has the parameter 'seed'; rename it to random_state",
        ),
        ('name = "a"\ndata = {n = {source = "own.py:named"}}', "needs the option 'code'"),
        ('name = "a\\nb"\ndata = {n = "x.npz"}', "cannot be printed"),
        ('name = "a"\ndata = {n = "x.npz"}\nbin = 3', "key 'bin'; choose from name, n_bins"),
        ('name = "a"\ndata = {n = "x.npz"}\nbins = 3', "key 'bins'; write n_bins instead"),
        ('name = "a"\ndata = {n = "x.npz"}\nseed = 3', "key 'seed'; write random_state instead"),
        (
            'name = "a"\ndata = {n = "x.npz"}\npartitions = [{name = "p", seed = 1}]',
            "'p' has the unknown key 'seed'; write random_state instead",
        ),
        ('name = "a"\ndata = {n = "x.npz"}\nn_bins = 0', "n_bins must be"),
        ('name = "a"\ndata = {n = "x.npz"}\nrepeats = "3"', "repeats must be"),
        ('name = "a"\ndata = {n = "x.npz"}\nsplits = "row"', "splits must be a list"),
        ('name = "a"\ndata = {n = "x.npz"}\nsplits = ["rows"]', "splits must be one of"),
        ('name = "a"\ndata = {n = "x.npz"}\npartitions = ["no"]', "there is no partition 'no'"),
        ('name = "a"\ndata = {n = "x.npz"}\npartitions = [3]', "must be a name or a table"),
        ('name = "a"\ndata = {n = "x.npz"}\npartitions = []', "partitions of 'a' is empty"),
        ('name = "a"\ndata = {n = "x.npz"}\npartitions = ["all", "all"]', "'all' twice"),
        ('name = "a"\ndata = {n = "x.npz"}\npartitions = [{name = "p", odd = 1}]', "key 'odd'"),
        ('name = "a"\ndata = {n = "x.npz"}\nmethods = ["ts"]', "methods must be a table"),
        (
            'name = "a"\ndata = {n = "x.npz"}\nmethods = {a = "st"}',
            "is 'st', but there is no 'st'; choose from .*oracle",
        ),
        ('name = "a"\ndata = {n = "x.npz"}\nmethods = {a = "oracle:x=1"}', "oracle has no param"),
        ('name = "a"\ndata = {n = "x.npz"}\nmethods = {a = "own.py:Plain"}', "has no get_params"),
        ('name = "a"\ndata = {n = "x.npz"}\nmethods = {a = 3}', "'a' must be a string"),
        ('name = "a"\ndata = {n = "x.npz"}\nmethods = {a = "own.py:nothing"}', "not a calibrator"),
        ('name = "a"\ndata = {n = "x.npz"}\nmethods = {a = "md-ts:haed=ols"}', "parameter 'haed'"),
    ],
)
def test_invalid_definitions_are_errors_that_name_the_file(folder, text, message):
    (folder / "own.py").write_text(OWN)
    (folder / "mine.toml").write_text(text)
    with pytest.raises(dc.DomaincalError, match=message) as error:
        dc.experiments.read_experiment(folder / "mine.toml", allow_code=True)
    assert "mine.toml" in str(error.value)


def test_missing_files_and_arrays_are_errors(folder):
    with pytest.raises(
        dc.errors.InputError,
        match="no experiment 'nowhere'; pass the path of a TOML file, or one of",
    ):
        dc.experiments.read_experiment("nowhere")
    (folder / "mine.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(dc.errors.FileFormatError, match="is not a text file"):
        dc.experiments.read_experiment(folder / "mine.toml")
    with pytest.raises(
        dc.errors.InputError, match=r"the data of 'mine' do not exist: there is no .*gone.npz"
    ):
        _run(folder, TOML.replace("mine.npz", "gone.npz"))
    bare = small_domains()
    dc.write(replace(bare, domains=None), folder / "mine.npz")
    with pytest.raises(dc.errors.InputError, match="'net' have no domains"):
        _run(folder)
    text = TOML.replace("random_state = 3", 'splits = ["group"]')
    dc.write(bare, folder / "mine.npz")
    with pytest.raises(dc.errors.InputError, match="'net' have no groups, which splits"):
        _run(folder, text)
    (folder / "own.py").write_text(OWN)
    with pytest.raises(dc.errors.InputError, match="returns int; it must return"):
        _run(folder, TOML.replace('"mine.npz"', '{source = "own.py:nothing"}'))


def test_networks_without_data_are_left_out_with_a_warning(folder):
    text = TOML.replace('net = "mine.npz"', 'net = "mine.npz"\nother = "gone.npz"')
    with pytest.warns(dc.DomaincalWarning, match=r"other is left out: there is no .*gone.npz"):
        results = _run(folder, text)
    assert set(results.table["network"]) == {"net"}


@pytest.mark.parametrize("name", ["digits-c", "imagenet-c", "rxrx1", "gldv2"])
def test_shipped_experiments_have_the_bins_methods_and_networks_of_the_paper(name):
    experiment = dc.experiments.read_experiment(name)
    assert experiment.n_bins == (100 if name == "imagenet-c" else 20)
    assert [m.name for m in experiment.methods] == ["MSP", "TS", "MD-TS", "T_k", "oracle"]
    names = {"imagenet-c": "ImageNet-C", "rxrx1": "RxRx1", "gldv2": "GLDv2"}
    if name in names:
        known = dc.experiments.paper_cells(1).query("dataset == @names[@name]")["architecture"]
        assert [s.network for s in experiment.sources] == list(dict.fromkeys(known))


def test_properties_of_a_method():
    assert Method("a", "md-ts:head=knn").head == "knn"
    assert Method("a", "ts").head == ""
    assert not Method("a", "oracle").ind_only
    assert Method("a", "domain-ts").ind_only

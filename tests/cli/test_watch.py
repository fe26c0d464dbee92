"""domaincal watch: the state of a stream after each N rows of a file."""

import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import domaincal as dc
from domaincal.cli import main
from support import small_domains


def _run(*arguments, status=0):
    done = CliRunner().invoke(main, ["watch", *(str(a) for a in arguments)])
    assert done.exit_code == status, done.output
    return done


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Folder with model.safetensors, and new.csv of 240 rows of two new domains."""
    folder = tmp_path_factory.mktemp("watch")
    data = small_domains(n_domains=12, n_rows=120)
    known, new = dc.split_domains(data, ["domain-03", "domain-05"])
    estimator = dc.shift.ConfidenceEstimator().fit(known)
    calibrator = dc.TemperatureScaling().fit(known)
    dc.shift.save_estimator(estimator, folder / "model.safetensors", calibrator=calibrator)
    random = np.random.default_rng(0)
    new = new[random.permutation(len(new))]
    table = pd.DataFrame(new.logits).add_prefix("logit_")
    table = table.join(pd.DataFrame(new.features).add_prefix("feature_"))
    table["domain"] = new.domains
    # In another order than the file, and than these numbers as texts.
    table["step"] = random.permutation(len(table))
    start = pd.Timestamp("2026-03-01T22:00:00+02:00")
    zones = ["UTC", start.tz]
    table["time"] = [
        (start + pd.Timedelta(int(k), "min")).tz_convert(zones[k % 2]).isoformat()
        for k in table["step"]
    ]
    table["half"] = table["step"] // 120
    table.to_csv(folder / "new.csv", index=False)
    dc.write(new, folder / "new.npz")
    return folder


def _document(folder, *options, data="new.csv"):
    return json.loads(_run(folder / "model.safetensors", folder / data, "--json", *options).stdout)


def _expected(folder, every, by=None, **memory):
    """States of a monitor in Python, as a list of dictionaries."""
    table = pd.read_csv(folder / "new.csv")
    if by is not None:
        table = table.sort_values(by, kind="stable")
    estimator = dc.shift.load_estimator(folder / "model.safetensors")
    monitor = dc.TemperatureMonitor(estimator, **memory)
    states = []
    for start in range(0, len(table), every):
        rows = table[start : start + every]
        monitor.update(
            rows.filter(like="logit_").to_numpy(),
            features=rows.filter(like="feature_").to_numpy(),
            domains=rows["domain"].to_numpy(),
        )
        states += [
            {"rows": start + len(rows), **row} for row in monitor.status().to_dict("records")
        ]
    return states


def _assert_states(document, expected):
    found = [{key: state[key] for key in state if key != "at"} for state in document["states"]]
    for state, other in zip(found, expected, strict=True):
        assert state == pytest.approx(other)


@pytest.mark.parametrize(("by", "last"), [("step", "239"), ("time", "2026-03-02T01:59:00+02:00")])
def test_the_states_are_those_of_a_monitor(folder, by, last):
    found = _document(folder, "--by", by, "--every", 100, "--window", 40)
    _assert_states(found, _expected(folder, 100, "step", window=40))
    assert found["states"][-1]["at"] == last
    assert found["document"] == "domaincal watch"
    given = {"every": 100, "by": by, "window": 40, "half_life": None, "coverage": 0.9}
    assert given.items() <= found.items()
    assert found["n_domains_of_fit"] == 10


def test_rows_are_forgotten_with_a_half_life(folder):
    found = _document(folder, "--half-life", 30)
    _assert_states(found, _expected(folder, 500, half_life=30))
    assert (found["window"], found["half_life"], found["states"][0]["at"]) == (None, 30, None)


def test_rows_of_equal_value_keep_their_order(folder):
    found = _document(folder, "--by", "half", "--every", 50, "--window", 10)
    _assert_states(found, _expected(folder, 50, "half", window=10))


def test_only_domains_that_got_rows_are_shown(folder):
    table = pd.read_csv(folder / "new.csv").sort_values("domain")
    table.to_csv(folder / "one_by_one.csv", index=False)
    found = _document(folder, "--every", 120, data="one_by_one.csv")
    assert [(s["rows"], s["domain"]) for s in found["states"]] == [
        (120, "domain-03"), (240, "domain-05"),
    ]  # fmt: skip


def test_the_table_has_a_section_for_each_state(folder):
    done = _run(folder / "model.safetensors", folder / "new.csv", "--by", "step", "--every", 120)
    lines = done.stdout.splitlines()
    assert lines[0] == "Predicted accuracy in %, in the order of step"
    assert max(map(len, lines)) <= 80
    first, second = (k for k, line in enumerate(lines) if "after" in line)
    state = _document(folder, "--by", "step", "--every", 120)["states"][0]
    line = next(line for line in lines if "domain-03" in line)
    cells = [cell.strip() for cell in line.split("│")[1:-1]]
    percents = [f"{100 * state[key]:.1f}" for key in ("predicted_accuracy", "low", "high")]
    assert "after 120 rows," in lines[first]
    assert second > first
    assert cells == [
        "domain-03", str(state["n"]),
        f"{state['temperature']:.3g} ± {100 * state['temperature_error']:.0f}%", percents[0],
        f"{percents[1]} to {percents[2]}", state["verdict"],
    ]  # fmt: skip


def test_a_file_without_domains_has_a_line_for_each_state(folder):
    pd.read_csv(folder / "new.csv").drop(columns="domain").to_csv(folder / "one.csv", index=False)
    done = _run(folder / "model.safetensors", folder / "one.csv", "--every", 80)
    assert [f"│ {n} rows" in done.stdout for n in (80, 160, 240)] == [True] * 3
    assert "has no domains: all rows count as one domain" in done.stderr


def test_far_domains_are_explained_and_a_warning_is_printed_once(folder):
    table = pd.read_csv(folder / "new.csv")
    logits = table.filter(like="logit_").columns
    one_class = table.assign(**{logits[0]: table[logits].max(axis=1) + 30.0})
    one_class.to_csv(folder / "one_class.csv", index=False)
    done = _run(folder / "model.safetensors", folder / "one_class.csv", "--every", 30)
    text = " ".join(done.stderr.split())
    assert text.count("far fewer classes") == 1
    assert "domain-03 is now outside. Its distance" in " ".join(done.stdout.split())


def test_few_domains_give_no_intervals(folder, tmp_path):
    few = small_domains(n_domains=4)
    estimator = dc.shift.ConfidenceEstimator().fit(few)
    path = tmp_path / "few.safetensors"
    dc.shift.save_estimator(estimator, path, calibrator=estimator.calibrator_)
    done = _run(path, folder / "new.csv")
    assert "There are no intervals: one that holds for 90%" in " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        (["new.csv", "--by", "hour"], 1, "no column 'hour' to order the rows by (other columns: "
         "'step', 'time', 'half')"),
        (["new.csv", "--by", "domain"], 1, "'domain-03' in the column 'domain', which is neither"),
        (["gaps.csv", "--by", "step"], 1, "row 4 of"),
        (["new.npz", "--by", "step"], 2, "--by names a column of a table"),
        (["new.csv", "--window", "9", "--half-life", "9"], 2, "exclude each other"),
        (["new.csv", "--logits", "logit_0,logit_1"], 1, "scores of 2 classes"),
        (["few.csv"], 1, "has no features"),
    ],
)  # fmt: skip
def test_errors_name_the_cure(folder, options, status, message):
    table = pd.read_csv(folder / "new.csv")
    table.assign(step=table["step"].where(table.index != 3)).to_csv(folder / "gaps.csv")
    table.drop(columns=[f"feature_{k}" for k in range(4)]).to_csv(folder / "few.csv")
    data, *others = options
    done = _run(folder / "model.safetensors", folder / data, *others, status=status)
    assert message in " ".join(done.stderr.split())


def test_a_model_without_an_estimator_is_refused(folder):
    data = small_domains(n_domains=3)
    dc.TemperatureScaling().fit(data).save(folder / "ts.safetensors")
    done = _run(folder / "ts.safetensors", folder / "new.csv", status=1)
    assert "tells nothing about the accuracy in new domains" in " ".join(done.stderr.split())

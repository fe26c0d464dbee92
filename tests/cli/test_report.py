"""``domaincal report``."""

import json
import os
import re
import resource
import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner

import domaincal as dc
from domaincal.cli import main
from domaincal.report import make_report
from domaincal.report.earlier import read_contents

pytest.importorskip("plotly")
pytest.importorskip("jinja2")

DATA, _ = dc.make_multi_domain(n_domains=12, n_rows=40, n_classes=3, n_features=2, random_state=0)
KNOWN, NEW = dc.split_domains(DATA, ["domain-03", "domain-05"])
FAST = ("--batch", "domain")


def run(*arguments, code=0):
    result = CliRunner().invoke(main, ["report", *map(str, arguments)])
    assert result.exit_code == code, (result.output, result.exception)
    return result


def of_model(folder):
    """Arguments of the fastest page."""
    return folder / "known.npz", "--model", folder / "m.safetensors"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    dc.write(KNOWN, folder / "known.npz")
    bare = dc.CalibrationData(NEW.logits, features=NEW.features, domains=NEW.domains)
    dc.write(bare, folder / "new.npz")
    dc.shift.save_estimator(dc.shift.ConfidenceEstimator().fit(KNOWN), folder / "m.safetensors",
                            calibrator=dc.TemperatureScaling().fit(KNOWN))  # fmt: skip
    return folder


def test_the_page_has_the_contents_of_the_library_and_the_verdict_is_printed(folder, tmp_path):
    page = tmp_path / "page.html"
    out = run(folder / "known.npz", *FAST, "--unlabelled", folder / "new.npz", "-o", page).stdout
    found = read_contents(page)
    made = make_report(KNOWN, unlabelled=NEW, batch_size="domain", title="known.npz").contents
    for part in ("domains", "means", "methods", "reliability", "risk", "unlabelled", "verdict"):
        assert found[part] == json.loads(json.dumps(made[part])), part
    assert found["title"] == "known.npz"
    lines = out.splitlines()
    assert lines[0] == found["verdict"]["headline"]
    assert lines[1:-1] == found["verdict"]["sentences"]
    assert lines[-1].startswith(f"page written to {page} (")


def test_the_page_says_how_it_was_made_without_personal_paths(folder, tmp_path):
    page = tmp_path / "page.html"
    run(folder / "known.npz", *FAST, "--ood", "*-0*", "--ood", "domain-11", "--features",
        "features", "--title", "Two words", "--seed", 3, "-o", page)  # fmt: skip
    text = page.read_text()
    assert str(folder) not in text
    assert str(tmp_path) not in text
    run_section = read_contents(page)["run"]
    assert run_section["command"] == (
        "domaincal report known.npz --output page.html --ood '*-0*' --ood domain-11 --batch domain "
        "--seed 3 --title 'Two words' --features features"
    )
    assert run_section["seed"] == 3
    assert run_section["fingerprint"] == KNOWN.fingerprint()
    assert run_section["versions"]["domaincal"] == dc.__version__


def test_json_has_the_verdict_and_the_means(folder, tmp_path):
    page = tmp_path / "page.html"
    document = json.loads(run(*of_model(folder), "-o", page, "--json").stdout)
    contents = read_contents(page)
    assert document["document"] == "domaincal report"
    for key in ("verdict", "means", "names", "protocol", "missing"):
        assert document[key] == contents[key]
    assert document["data"]["fingerprint"] == KNOWN.fingerprint()
    assert document["output"] == str(page)


def test_a_baseline_is_compared(folder, tmp_path):
    first, second = tmp_path / "a.html", tmp_path / "b.html"
    run(*of_model(folder), "-o", first)
    out = run(*of_model(folder), "--baseline", first, "-o", second).stdout
    assert "In the 10 domains of both pages, the mean calibration error (ECE)" in out
    # A page may replace its baseline.
    run(
        folder / "known.npz",
        "--model",
        folder / "m.safetensors",
        "--baseline",
        second,
        "-o",
        second,
        "--force",
    )
    assert read_contents(second)["change"]["title"] == "known.npz"


def test_a_model_and_rows_without_labels(folder, tmp_path):
    page = tmp_path / "page.html"
    out = run(folder / "new.npz", "--model", folder / "m.safetensors", "-o", page).stdout
    assert out.startswith("On the new domain domain-")
    assert read_contents(page)["domains"] is None
    run(*of_model(folder), "-o", page, "--force")
    assert "fitted to these very rows" in read_contents(page)["protocol"]


def test_labels_of_new_rows_are_not_read(folder, tmp_path):
    frame = "site,a,b,c\n" + "".join(f"x,{k % 3},0,{k % 2}\n" for k in range(30))
    (tmp_path / "new.csv").write_text(frame)
    rows = "site,y,a,b,c\n" + "".join(
        f"s{k % 4},{'abc'[k % 3]},{k % 3},0,{k % 2}\n" for k in range(120)
    )
    (tmp_path / "known.csv").write_text(rows)
    run(tmp_path / "known.csv", "--unlabelled", tmp_path / "new.csv", "--logits", "a,b,c",
        "--label", "y", "--domain", "site", *FAST, "-o", tmp_path / "page.html")  # fmt: skip
    assert read_contents(tmp_path / "page.html")["unlabelled"]["name"] == ["x"]


def test_rows_without_domains_give_a_warning_and_a_page(folder, tmp_path):
    dc.write(dc.CalibrationData(KNOWN.logits, labels=KNOWN.labels), tmp_path / "bare.npz")
    result = run(tmp_path / "bare.npz", *FAST, "-o", tmp_path / "page.html")
    assert "all rows count as one domain" in result.stderr
    assert "Confidence is off by" in result.stdout


@pytest.mark.parametrize(("arguments", "message", "code"), [
    (("known.npz", "-o", "page.pdf"), "page.pdf must end in .html", 1),
    (("known.npz", "-o", "known.npz"), "must end in .html", 1),
    (("known.npz", "-o", "no/page.html"), "there is no folder", 1),
    (("new.npz", "-o", "page.html"), "no labels, which report needs; add .* or pass --model", 1),
    (("known.npz", "--ood", "x*", "-o", "page.html"), "--ood contains 'x*', which matches no", 1),
    (("known.npz", "--ood", "*", "-o", "page.html"), "--ood matches all of the 10 domains", 1),
    (("known.npz", "--batch", "0", "-o", "page.html"), "--batch must be a number of rows", 2),
    (("known.npz", "--bins", "101", "-o", "page.html"), "101 is not in the range", 2),
    (("known.npz", "--baseline", "known.npz", "-o", "page.html"), "has no contents of a report", 1),
    (("known.npz", "--baseline", "no.html", "-o", "page.html"), "there is no file", 1),
    (("known.npz", "--model", "no.safetensors", "-o", "page.html"), "there is no file", 1),
    (("known.npz", "--model", "other.safetensors", "-o", "page.html"),
     "scores of 3 classes, but other.safetensors was fitted on 4", 1),
    (("new.npz", "--model", "m.safetensors", "--unlabelled", "new.npz", "-o", "page.html"),
     "--unlabelled was given as well", 1),
    (("known.npz",), "Missing option '-o'", 2),
])  # fmt: skip
def test_wrong_input_is_one_error_with_the_cure(folder, monkeypatch, arguments, message, code):
    monkeypatch.chdir(folder)
    if "other.safetensors" in arguments:
        other, _ = dc.make_multi_domain(n_domains=3, n_rows=30, n_classes=4)
        dc.TemperatureScaling().fit(other).save("other.safetensors")
    error = " ".join(run(*arguments, code=code).stderr.split())
    assert re.search(message.replace("*'", r"\*'").replace("'*", r"'\*"), error), error
    assert error.count("Error") == 1
    assert not os.path.exists("page.html")


def test_an_existing_page_is_replaced_only_with_force(folder, tmp_path):
    page = tmp_path / "page.html"
    page.write_text("mine")
    assert "pass --force" in run(*of_model(folder), "-o", page, code=1).stderr
    assert page.read_text() == "mine"
    run(*of_model(folder), "-o", page, "--force")
    assert read_contents(page)["format"] == "domaincal report"


@pytest.mark.parametrize("package", ["plotly", "jinja2"])
def test_a_missing_extra_is_told_before_anything_is_read(tmp_path, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    error = run(tmp_path / "missing.npz", "-o", tmp_path / "page.html", code=1).stderr
    assert "pip install 'domaincal[report]'" in error
    assert "missing.npz" not in error


def test_a_full_disk_leaves_nothing_half_written(folder, tmp_path):
    page = tmp_path / "page.html"
    done = subprocess.run(
        [sys.executable, "-m", "domaincal", "report", *of_model(folder), "-o", page],
        capture_output=True, text=True, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)),
    )  # fmt: skip
    assert done.returncode == 1
    assert f"{page}: File too large" in " ".join(done.stderr.split())
    assert os.listdir(tmp_path) == []


def test_hostile_names_are_text(folder, tmp_path):
    names = np.array([f"</script><img src=x onerror=alert({k})>\u2028" for k in range(10)])
    domains = names[np.unique(KNOWN.domains, return_inverse=True)[1]]
    hostile = dc.CalibrationData(KNOWN.logits, labels=KNOWN.labels, domains=domains)
    dc.write(hostile, tmp_path / "hostile.npz")
    run(tmp_path / "hostile.npz", "--model", folder / "m.safetensors", "-o",
        tmp_path / "page.html")  # fmt: skip
    assert "<img src=x" not in (tmp_path / "page.html").read_text()
    assert read_contents(tmp_path / "page.html")["domains"]["name"] == names.tolist()

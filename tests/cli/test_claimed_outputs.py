"""An output that does not exist yet is written by one command at a time."""

import subprocess
import sys
from hashlib import sha256

import pytest
from click.testing import CliRunner

import domaincal as dc
from domaincal.cli import main
from domaincal.cli.options import claimed
from support import small_domains


def run(*arguments, code=0):
    result = CliRunner().invoke(main, [str(a) for a in arguments])
    assert result.exit_code == code, (result.output, result.exception)
    return result


@pytest.fixture
def scores(tmp_path):
    dc.write(small_domains(n_rows=60), tmp_path / "scores.npz")
    return tmp_path / "scores.npz"


@pytest.fixture
def model(scores):
    run("fit", scores, "-o", scores.parent / "model.safetensors", "--method", "ts")
    return scores.parent / "model.safetensors"


_FITS = """
import multiprocessing, sys
import domaincal.calibrators, domaincal.cli.tables, domaincal.io.inspection
from domaincal.cli import main

def fit(start, number):
    sys.stderr = sys.stdout = open(f"{number}.txt", "w")
    start.wait()
    method = f"histogram:n_bins={10 + number}"
    main(["fit", "scores.npz", "-o", "model.safetensors", "--method", method])

context = multiprocessing.get_context("fork")
start = context.Barrier(4)
children = [context.Process(target=fit, args=(start, k)) for k in range(4)]
for child in children:
    child.start()
for child in children:
    child.join()
print(sorted(child.exitcode for child in children))
"""


def test_of_four_fits_at_once_one_writes_the_output(scores):
    """Each of them sees that the output does not exist yet."""
    done = subprocess.run(
        [sys.executable, "-c", _FITS], cwd=scores.parent, capture_output=True, text=True,
        check=False, timeout=240,
    )  # fmt: skip
    texts = [(scores.parent / f"{k}.txt").read_text() for k in range(4)]
    assert done.stdout == "[0, 1, 1, 1]\n", (done.stderr, texts)
    losers = [text for text in texts if "Error: " in text]
    assert len(losers) == 3
    for text in losers:
        assert "another command is writing model.safetensors" in text or "exists; pass" in text
    (winner,) = [k for k in range(4) if texts[k] not in losers]
    assert dc.load(scores.parent / "model.safetensors").n_bins == 10 + winner
    assert not list(scores.parent.glob(".*"))


@pytest.mark.parametrize("verb", ["fit", "apply", "convert"])
def test_an_output_that_another_command_writes_is_refused(scores, model, verb):
    output = scores.parent / ("m.safetensors" if verb == "fit" else "t.npz")
    order = {
        "fit": [scores, "-o", output], "apply": [model, scores, "-o", output],
        "convert": [scores, output],
    }[verb]  # fmt: skip
    with claimed(output, force=False):
        error = run(verb, *order, code=1).stderr
        assert f"another command is writing {output}" in " ".join(error.split())
        run(verb, *order, "--force")
        output.unlink()
    run(verb, *order)
    assert not list(scores.parent.glob(".*"))


def test_a_lock_that_is_a_link_or_a_pipe_is_refused(scores):
    """A link would be followed, and the file behind it emptied."""
    output, victim = scores.parent / "t.npz", scores.parent / "victim"
    victim.write_text("mine")
    lock = scores.parent / f".domaincal-{sha256(b't.npz').hexdigest()[:12]}.claim"
    lock.symlink_to(victim)
    error = run("convert", scores, output, code=1).stderr
    assert "is not a regular file and cannot be locked" in error
    assert victim.read_text() == "mine"

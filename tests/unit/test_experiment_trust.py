"""What the files of an experiment can do: no code without consent, no cost, no changed number."""

import errno
import json
import os
import py_compile
import shutil
import subprocess
import threading
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import domaincal as dc
from domaincal._tensor_files import read_tensors, write_tensors
from domaincal.cli import main
from domaincal.errors import DomaincalError, DomaincalWarning, InputError
from domaincal.experiments import read_experiment, result_cache, run_experiment, runner
from domaincal.experiments.experiment import Experiment
from domaincal.experiments.methods import Method
from domaincal.experiments.tiny_imagenet_c import tiny_imagenet_c
from domaincal.experiments.trials import trials_of
from domaincal.experiments.user_code import load_object
from support import small_domains

pytestmark = pytest.mark.filterwarnings("ignore::domaincal.DomaincalWarning")

CODE = """
from pathlib import Path
import domaincal as dc

Path(__file__).with_name("it ran").touch()

def load():
    return dc.make_multi_domain(n_domains=3, n_rows=30, random_state=0)[0]

class Mine(dc.TemperatureScaling):
    pass
"""
PLAIN = 'name = "mine"\ndata = {net = "mine.npz"}\nmethods = {TS = "ts"}\n'


@pytest.fixture
def folder(tmp_path):
    """An experiment with a file of logits, and Python files beside it."""
    (tmp_path / "below").mkdir()
    dc.write(small_domains(n_rows=40), tmp_path / "below/mine.npz")
    for name in ("below/own.py", "below/other.py", "outside.py"):
        (tmp_path / name).write_text(CODE)
    (tmp_path / "below/mine.toml").write_text(PLAIN)
    return tmp_path / "below"


def _read(folder, text, **options):
    (folder / "mine.toml").write_text(text)
    return read_experiment(folder / "mine.toml", **options)


def _with_code(source="own.py:load", method="other.py:Mine"):
    return (
        f'name = "mine"\ndata = {{net = {{source = "{source}"}}}}\nmethods = {{own = "{method}"}}\n'
    )


def _has_run(folder):
    return any(folder.parent.rglob("it ran"))


def test_reading_runs_no_code_and_names_the_files_that_would_run(folder):
    with pytest.raises(InputError, match=r"--allow-code \(allow_code=True\)") as error:
        _read(folder, _with_code())
    assert str(folder / "own.py") in str(error.value)
    assert str(folder / "other.py") in str(error.value)
    assert not _has_run(folder)
    experiment = _read(folder, _with_code(), allow_code=True)
    assert _has_run(folder)
    assert len(run_experiment(experiment, folder / "out").table) == 3


def test_the_command_runs_code_only_if_it_is_allowed(folder):
    (folder / "mine.toml").write_text(_with_code())
    arguments = ["reproduce", "summary", "--experiment", str(folder / "mine.toml"), "--json"]
    arguments += ["-o", str(folder / "out")]
    refused = CliRunner().invoke(main, arguments)
    assert refused.exit_code == 1
    assert "own.py" in refused.stderr
    assert "--allow-code" in refused.stderr
    assert not _has_run(folder)
    assert not (folder / "out").exists()
    allowed = CliRunner().invoke(main, [*arguments, "--allow-code"])
    assert allowed.exit_code == 0, allowed.output
    assert json.loads(allowed.stdout)["document"] == "domaincal reproduction"


def test_methods_made_in_python_run_code_only_of_a_given_folder(folder):
    with pytest.raises(InputError, match="is code, which may not run"):
        Method("own", "own.py:Mine")
    assert not _has_run(folder)
    assert Method("own", "own.py:Mine", folder).calibrator()


@pytest.mark.parametrize("allow_code", [False, True])
@pytest.mark.parametrize(
    "named",
    [
        subprocess.__file__,
        "../outside.py",
        "../below/own.py",
        "sub/../../outside.py",
        "link.py",
        "linked/outside.py",
        "own.py\\u0000.py",
        "no.py",
        "pipe.py",
    ],
)
def test_code_must_be_below_the_folder_of_the_experiment(folder, named, allow_code):
    (folder / "link.py").symlink_to(folder.parent / "outside.py")
    (folder / "linked").symlink_to(folder.parent)
    (folder / "sub").mkdir()
    os.mkfifo(folder / "pipe.py")
    for text in (_with_code(source=f"{named}:load"), _with_code(method=f"{named}:Mine")):
        with pytest.raises(InputError, match=r"outside of the folder|there is no file"):
            _read(folder, text, allow_code=allow_code)
    assert not _has_run(folder)


def test_an_experiment_runs_no_shell_command(folder):
    text = _with_code(source=f"{subprocess.__file__}:getoutput")
    text = text.replace('getoutput"}', f'getoutput", cmd = "touch \'{folder / "it ran"}\'"}}')
    with pytest.raises(InputError, match="outside of the folder"):
        run_experiment(_read(folder, text, allow_code=True), folder / "out")
    assert not _has_run(folder)


def test_links_and_folders_below_the_experiment_may_hold_code(folder):
    (folder / "sub").mkdir()
    (folder / "own.py").rename(folder / "sub/own.py")
    (folder / "link.py").symlink_to(folder / "sub/own.py")
    text = _with_code(source="link.py:load", method="sub/own.py:Mine")
    assert _read(folder, text, allow_code=True).name == "mine"


def test_compiled_files_beside_the_code_are_not_run(folder):
    """Who allows a file has read the file, not a .pyc in __pycache__."""
    path = folder / "number.py"
    path.write_text("number = 666\n")
    py_compile.compile(path, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    path.write_text("number = 3\n")
    assert load_object("number.py:number", folder) == 3


def test_one_file_is_run_once_by_several_threads(folder):
    (folder / "slow.py").write_text(
        "import time\nfrom pathlib import Path\n"
        "Path(__file__).with_name(f'run {time.time_ns()}').touch()\n"
        "time.sleep(0.1)\nnumber = 3\n"
    )
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(load_object("slow.py:number", folder)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [3] * 4
    assert len(list(folder.glob("run *"))) == 1


HEAD = 'name = "a"\ndata = {n = "mine.npz"}\n'


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * 100_000,
        "a = " + "{a=" * 50_000,
        "a = " + "1" * 5_000,
        HEAD + "repeats = " + "1" * 5_000,
        HEAD + "repeats = 0x" + "f" * 5_000,
        HEAD + "repeats = -0x" + "f" * 5_000,
        ".".join("a" * 100_000) + " = 1",
        "[" + " . ".join(['"\\""'] * 10_000) + "]",
        "a = {" + ".".join(["'b'"] * 10_000) + " = 1}",
        HEAD + "repeats = 2020-01-01",
        HEAD + 'methods = {TS = "ts"}\nsplits = ["row", 07:32:00]',
        HEAD + f'methods = {{a = "{"t" * 1_001}"}}',
        HEAD + f'methods = {{{"t" * 1_001} = "ts"}}',
        HEAD + "methods = {a = [" + "1, " * 20_000 + "]}",
        HEAD + "partitions = [{name = 'p', ood = [" + "1, " * 20_000 + "]}]",
        HEAD + "#" * 1_000_000,
        b"name = '\xff'",
        b"\xef\xbb\xbfname = 'a'",
        b"name = 'a\x00b'",
    ],
)
def test_no_toml_file_gives_another_error(folder, text):
    path = folder / "mine.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(DomaincalError) as error:
        read_experiment(path)
    assert "mine.toml" in str(error.value)
    assert len(str(error.value)) < 5_000


def test_a_pipe_or_a_folder_is_not_an_experiment(folder):
    os.mkfifo(folder / "pipe.toml")
    for name, message in (("pipe.toml", "not a regular file"), ("", "is a folder")):
        with pytest.raises(InputError, match=message):
            read_experiment(folder / name)


@pytest.mark.parametrize("path", ["a\\u0000b", "n" * 900, "a\\nb"])
def test_impossible_paths_of_data_do_not_exist(folder, path):
    experiment = _read(folder, PLAIN.replace("mine.npz", path))
    with pytest.raises(InputError, match="do not exist"):
        run_experiment(experiment, folder / "out")


@pytest.mark.parametrize("key", ["repeats", "n_bins"])
@pytest.mark.parametrize("value", [10_001, 2_000_000_000, 10**18])
def test_counts_are_bounded(folder, key, value):
    with pytest.raises(InputError, match=rf"mine.toml: {key} must be"):
        _read(folder, f"{key} = {value}\n" + PLAIN)
    assert _read(folder, f"{key} = 10000\n" + PLAIN)


def test_the_number_of_trials_is_bounded(folder):
    partitions = [f'{{name = "p{k}"}}' for k in range(11)]
    text = f"repeats = 10000\npartitions = [{', '.join(partitions)}]\n" + PLAIN
    with pytest.raises(InputError, match=r"has 110000 trials .* at most 100000"):
        _read(folder, text)
    many = "\n".join(f'm{k} = "ts"' for k in range(2_000))
    splits = ", ".join(['"row"'] * 60)
    with pytest.raises(InputError, match="has 120000 trials"):
        _read(folder, f"{HEAD}splits = [{splits}]\n[methods]\n{many}")


def test_repeats_of_the_command_line_are_bounded(folder):
    arguments = ["--experiment", str(folder / "mine.toml"), "-o", str(folder / "out")]
    for verb in (["reproduce", "summary", *arguments], ["demo", "-o", str(folder / "demo")]):
        result = CliRunner().invoke(main, [*verb, "--repeats", "2000000000"])
        assert result.exit_code == 1
        assert "repeats must be at most 10000, got 2000000000" in result.stderr


def test_bins_that_need_too_much_memory_are_refused(folder):
    """150 trials x 60 domains x 3 sums x 10,000 bins x 8 bytes are more than 2 GiB."""
    dc.write(dc.make_multi_domain(60, 4, random_state=0)[0], folder / "mine.npz")
    experiment = _read(folder, "repeats = 150\nn_bins = 10000\n" + PLAIN)
    with pytest.raises(InputError, match="150 trials with 60 domains and n_bins=10000 take about"):
        run_experiment(experiment, folder / "out")
    assert not list((folder / "out/cells").iterdir())


def test_the_memory_of_data_files_is_limited(folder):
    experiment = read_experiment(folder / "mine.toml", max_memory=100)
    with pytest.raises(DomaincalError, match=r"more than 100 bytes; .*max_memory"):
        run_experiment(experiment, folder / "out")
    arguments = ["--experiment", str(folder / "mine.toml"), "-o", str(folder / "out")]
    result = CliRunner().invoke(main, ["reproduce", "summary", *arguments, "--max-memory", "1 kB"])
    assert "more than 1.0 kB" in result.stderr


def test_options_of_shipped_sources_name_no_process_and_no_path(folder):
    with pytest.raises(InputError, match="has no option 'n_jobs'; it has n_images"):
        _read(folder, 'name = "a"\ndata = {n = {source = "digits-c", n_jobs = 100000}}')
    for option in ("folder", "cache_folder"):
        entry = f'{{source = "tiny-imagenet-c", network = "resnet-50", {option} = "/tmp"}}'
        with pytest.raises(InputError, match=f"has no option '{option}'"):
            _read(folder, f'name = "a"\ndata = {{n = {entry}}}')
    for network in ("../../escape", "/tmp/x", "a/b", 3, ["a"]):
        with pytest.raises(InputError, match="network must be the name of a network"):
            tiny_imagenet_c(network, folder=folder, cache_folder=folder / "made")


def test_warnings_of_trials_change_no_filter_of_other_threads(folder, monkeypatch):
    """The first thread ends its trial while the second one is in the middle of its own."""
    first_is_in, second_is_in = threading.Event(), threading.Event()
    original = runner.run_trial

    def run_trial(*arguments, **options):
        if threading.current_thread() is first:
            first_is_in.set()
            assert second_is_in.wait(60)
        else:
            second_is_in.set()
            first.join(60)
        return original(*arguments, **options)

    monkeypatch.setattr(runner, "run_trial", run_trial)
    experiment = _read(folder, PLAIN)
    first, second = (
        threading.Thread(target=run_experiment, args=(experiment, folder / name)) for name in "ab"
    )
    before = list(warnings.filters)
    first.start()
    assert first_is_in.wait(60)
    second.start()
    second.join(60)
    first.join(60)
    assert list(warnings.filters) == before
    assert (folder / "b/means.csv").exists()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Results of one trial."""
    folder = tmp_path_factory.mktemp("made")
    dc.write(small_domains(n_rows=40), folder / "mine.npz")
    run_experiment(_read(folder, "n_bins = 4\n" + PLAIN), folder / "out")
    return folder


@pytest.fixture
def cell(made, tmp_path):
    """The file of a result, and its key."""
    experiment = read_experiment(made / "mine.toml")
    (path,) = (made / "out/cells").iterdir()
    (trial,) = trials_of(experiment)
    key = result_cache.trial_key(experiment, trial, experiment.sources[0].identity(0))
    return Path(shutil.copy(path, tmp_path)), key


def test_no_flipped_bit_changes_a_result(cell):
    path, key = cell
    right, content = result_cache.read_result(path, key), path.read_bytes()
    rng = np.random.default_rng(0)
    for place in rng.choice(len(content), size=200, replace=False):
        damaged = bytearray(content)
        damaged[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        found = result_cache.read_result(path, key)
        if found is not None:  # e.g. another order of the header
            assert found.table.equals(right.table)
            np.testing.assert_array_equal(found.bins, right.bins)
            np.testing.assert_array_equal(found.edges, right.edges)
            assert found.provenance == right.provenance


def test_a_damaged_result_gives_a_warning_and_the_same_means(made, tmp_path):
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    (path,) = (tmp_path / "out/cells").iterdir()
    content = bytearray(path.read_bytes())
    content[content.index(b'\\"ece\\": [0.') + 15] ^= 1  # a digit of an ECE
    path.write_bytes(content)
    experiment = read_experiment(tmp_path / "mine.toml")
    with pytest.warns(DomaincalWarning, match=rf"{path.name} .*checksum.* trial is run again"):
        run_experiment(experiment, tmp_path / "out")
    means = (tmp_path / "out/means.csv").read_bytes()
    assert means == (made / "out/means.csv").read_bytes()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run_experiment(experiment, tmp_path / "out")


def _crafted(path, change):
    """Change the content of a result, and give it the right checksum."""
    tensors, texts = read_tensors(path)
    del texts["sha256"]
    table, provenance = json.loads(texts["table"]), json.loads(texts["provenance"])
    provenance = change(tensors, table) or provenance
    texts |= {"table": json.dumps(table), "provenance": json.dumps(provenance)}
    write_tensors(path, tensors, {**texts, "sha256": result_cache._checksum(texts, tensors)})


def _set(mapping, key, value):
    mapping[key] = value


@pytest.mark.parametrize(
    "change",
    [
        lambda tensors, table: tensors["bins"].__setitem__((0, 0, 0), np.nan),
        lambda tensors, table: tensors["bins"].__setitem__((0, 1, 3), -1.0),
        lambda tensors, table: tensors["bins"].__setitem__((0, 2, 3), 1e9),
        lambda tensors, table: tensors["bins"].__setitem__((0, 0, 3), 1e9),
        lambda tensors, table: _set(tensors, "bins", tensors["bins"][1:]),
        lambda tensors, table: _set(tensors, "bins", tensors["bins"].astype(np.int64)),
        lambda tensors, table: _set(tensors, "edges", tensors["edges"][::-1]),
        lambda tensors, table: tensors.pop("edges") is None,
        lambda tensors, table: table["ece"].__setitem__(0, 7.0),
        lambda tensors, table: table["accuracy"].__setitem__(0, None),
        lambda tensors, table: table["nll"].__setitem__(0, -1.0),
        lambda tensors, table: table["predicted"].__setitem__(0, -1.0),
        lambda tensors, table: table["n"].__setitem__(0, 10**30),
        lambda tensors, table: table["kind"].__setitem__(0, "new"),
        lambda tensors, table: table["domain"].__setitem__(0, ["a"]),
        lambda tensors, table: table["gap"].__setitem__(0, "high"),
        lambda tensors, table: table.pop("ece") is None,
        lambda tensors, table: _set(table, "more", table["ece"]),
        lambda tensors, table: table.clear(),
        lambda tensors, table: [1],
    ],
)
def test_results_out_of_range_are_run_again(cell, change):
    path, key = cell
    _crafted(path, lambda tensors, table: None)
    assert result_cache.read_result(path, key) is not None
    _crafted(path, change)
    with pytest.warns(DomaincalWarning, match=r"cannot be read .*; .* Its trial is run again"):
        assert result_cache.read_result(path, key) is None


def test_losses_of_a_users_method_may_have_any_value(cell):
    path, key = cell
    key = {**key, "method": {"text": "own.py:Mine", "code": "1"}}
    result = result_cache.read_result(path, cell[1])
    result.table.loc[0, ["nll", "predicted"]] = -1.0
    result_cache.write_result(path, result, key)
    assert result_cache.read_result(path, key).table["nll"][0] == -1.0


def test_a_pipe_in_place_of_a_result_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    errors = []

    def read():
        try:
            result_cache.read_result(tmp_path / "pipe", {})
        except InputError as error:
            errors.append(str(error))

    reader = threading.Thread(target=read, daemon=True)  # it may wait for ever
    reader.start()
    reader.join(60)
    assert not reader.is_alive()
    assert "pipe is not a regular file" in errors[0]


@pytest.mark.parametrize("name", ["results.csv", "cells/a.safetensors", "summary.txt"])
@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_results_are_not_written_through_links_and_pipes(folder, name, kind):
    """A folder from elsewhere must not choose which file of the user is replaced."""
    (folder / "out/cells").mkdir(parents=True)
    (folder / "precious").write_text("mine")
    if kind == "link":
        (folder / "out" / name).symlink_to(folder / "precious")
    else:
        os.mkfifo(folder / "out" / name)
    with pytest.raises(InputError, match=rf"{name} is a link or a pipe; remove it"):
        run_experiment(read_experiment(folder / "mine.toml"), folder / "out")
    assert (folder / "precious").read_text() == "mine"


def test_domains_that_results_cannot_hold_are_refused(folder):
    data = small_domains(n_rows=40)
    names = np.where(data.domains == data.domains[0], "a\rb", data.domains).astype(object)
    dc.write(replace(data, domains=names), folder / "mine.npz")
    with pytest.raises(InputError, match=r"the domain 'a\\rb', which results.csv cannot hold"):
        run_experiment(read_experiment(folder / "mine.toml"), folder / "out")


def test_a_full_disk_leaves_the_results_of_the_run_before(made, tmp_path, monkeypatch):
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    before = {path: path.read_bytes() for path in (tmp_path / "out").glob("*.*")}

    def to_csv(self, file, **options):
        file.write(b"half of it")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(pd.DataFrame, "to_csv", to_csv)
    with pytest.raises(OSError, match="No space left"):
        run_experiment(read_experiment(tmp_path / "mine.toml"), tmp_path / "out")
    after = {path: path.read_bytes() for path in (tmp_path / "out").glob("*.*")}
    assert after == before


def test_names_that_cannot_be_printed_or_are_long_are_refused(folder):
    for name in ("a\x1b[31m", "a\u202e", "x" * 1_001):
        with pytest.raises(InputError, match=r"cannot be printed|characters"):
            Experiment(name, read_experiment(folder / "mine.toml").sources)


def test_file_names_of_results_do_not_depend_on_names_in_the_file(folder):
    text = PLAIN.replace('"mine"', '"../../escape/x"').replace("net =", '"/tmp/y" =')
    run_experiment(_read(folder, text), folder / "out")
    assert {path.name for path in (folder / "out").iterdir()} == {
        "cells", "means.csv", "pooled.csv", "provenance.json", "results.csv",
    }  # fmt: skip
    assert {path.suffix for path in Path(folder, "out/cells").iterdir()} == {".safetensors"}


def test_cells_of_another_format_are_damaged(cell):
    path, key = cell
    write_tensors(path, {"bins": np.zeros(3)}, {"format": "other"})
    with pytest.warns(DomaincalWarning, match="cannot be read"):
        assert result_cache.read_result(path, key) is None

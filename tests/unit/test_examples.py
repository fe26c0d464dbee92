"""The examples, on small synthetic files of the same format and on the real data if present."""

import io
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import domaincal as dc
from domaincal.experiments.user_code import load_object

EXAMPLES = Path(__file__).parents[2] / "examples"
pytestmark = [
    pytest.mark.filterwarnings("ignore::domaincal.DomaincalWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]


@pytest.fixture
def made_up(tmp_path):
    """WISDM with 20 people and three activities, FDU-MTL with 6 domains; both easy to classify."""
    rng = np.random.default_rng(0)
    label = np.tile([0, 1, 2], 20 * 10)
    columns = {f"F{k}": label + rng.normal(size=len(label)) for k in range(91)}
    table = pd.DataFrame({"ACTIVITY": np.array(["A", "B", "C"])[label], **columns})
    table.insert(1, "subject", np.repeat(np.arange(1600, 1620), 30))
    (tmp_path / "wisdm").mkdir()
    table.to_csv(tmp_path / "wisdm/wisdm_watch_accel.csv.gz", index=False)
    (tmp_path / "fdu-mtl").mkdir()
    with tarfile.open(tmp_path / "fdu-mtl/fdu-mtl.tar.xz", "w:xz") as archive:
        for domain in ("books", "dvd", "imdb", "MR", "toys", "video"):
            for part in ("train", "test"):
                words = [f"word{k}" for k in range(150)]
                lines = [
                    f"{k % 2}\t{'good' if k % 2 else 'bad'} {' '.join(rng.choice(words, 8))}"
                    for k in range(60)
                ]
                lines[3] = lines[2]  # the same review twice
                content = "\n".join(lines).encode() + b"\n1\tgood \xff\xc2\x85 thing\n"
                member = tarfile.TarInfo(f"fdu-mtl/{domain}.task.{part}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return tmp_path


def test_wisdm_gives_the_rows_of_people_outside_the_training(made_up):
    load = load_object("wisdm.py:load", EXAMPLES)
    data = load(made_up, 0)
    assert (len(data), data.logits.shape[1], data.features.shape[1]) == (5 * 30, 3, 100)
    assert data.class_names == ("A", "B", "C")
    assert set(data.domain_names).isdisjoint(data.provenance["training domains"])
    assert dc.metrics.accuracy(np.exp(data.logits) / np.exp(data.logits).sum(1, keepdims=True),
                       data.labels) > 0.9  # fmt: skip
    np.testing.assert_array_equal(load(made_up, 0).logits, data.logits)
    assert set(load(made_up, 1).domain_names) != set(data.domain_names)


@pytest.mark.parametrize("network", ["linear", "mlp"])
def test_fdu_mtl_gives_the_rows_of_domains_outside_the_training(made_up, network):
    load = load_object("fdu_mtl.py:load", EXAMPLES)
    data = load(made_up, 0, network=network)
    assert len(data) == 2 * 2 * 61
    assert (data.logits[:, 0] == 0).all()
    assert (data.logits.argmax(1) == data.labels).mean() > 0.9
    # Repeated reviews share a group, and so do the equal last reviews of all files.
    assert len(np.unique(data.groups)) == 2 * 2 * 59 + 1
    np.testing.assert_array_equal(load(made_up, 0, network=network).logits, data.logits)


@pytest.mark.parametrize(
    ("name", "file"),
    [("wisdm", "wisdm/wisdm_watch_accel.csv.gz"), ("fdu_mtl", "fdu-mtl/fdu-mtl.tar.xz")],
)
def test_the_error_about_a_missing_file_names_it(name, file, tmp_path):
    with pytest.raises(dc.errors.InputError, match=f"must contain {file}.*where to get it"):
        load_object(f"{name}.py:load", EXAMPLES)(tmp_path, 0)


def test_files_with_other_columns_or_names_are_errors(made_up):
    path = made_up / "wisdm/wisdm_watch_accel.csv.gz"
    pd.read_csv(path).to_csv(path)  # the index becomes a column
    with pytest.raises(dc.errors.InputError, match="so that nothing leaks"):
        load_object("wisdm.py:load", EXAMPLES)(made_up, 0)
    with tarfile.open(made_up / "fdu-mtl/fdu-mtl.tar.xz", "w:xz"):
        pass
    with pytest.raises(dc.errors.InputError, match=r"must hold <domain>.task.train"):
        load_object("fdu_mtl.py:load", EXAMPLES)(made_up, 0)


@pytest.mark.parametrize("name", ["wisdm", "fdu-mtl"])
def test_the_experiments_run_on_the_real_data(name, shared_data, tmp_path):
    experiment = dc.experiments.read_experiment(
        EXAMPLES / f"{name}.toml", data=shared_data, allow_code=True
    )
    small = replace(experiment, sources=experiment.sources[:1], repeats=1, splits=("row",))
    means = dc.experiments.run_experiment(small, tmp_path).means()
    assert set(means["kind"]) == {"InD", "OOD"}
    ood = means[means["kind"] == "OOD"].set_index("method")["ece"]
    assert ood["oracle"] == ood.min()
    assert ood["TS"] < 0.3

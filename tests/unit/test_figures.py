"""Figures show the data of their titles; tables mark the best method; targets are independent."""

import itertools
import textwrap
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import domaincal as dc
from domaincal.experiments.figures import (
    accuracy_figure,
    overview_figure,
    reliability_figure,
    save_figure,
    scatter_figure,
    split_figure,
    temperature_figure,
)
from domaincal.experiments.paper_tables import ece_table
from domaincal.experiments.reproduce import reproduce
from domaincal.experiments.targets import TARGETS
from domaincal.experiments.verdicts import verdicts
from support import small_domains

matplotlib = pytest.importorskip("matplotlib", reason="needs the extra plots")
pytest.importorskip("matplotlib.image")
Figure = pytest.importorskip("matplotlib.figure").Figure
pytestmark = pytest.mark.filterwarnings("ignore::domaincal.DomaincalWarning")

NAMES = np.array(["clean", "gaussian_noise-5", "fog-2", "fog-5", "snow-3", "snow-5"])
TOML = """
name = "c"
repeats = 2
n_bins = 10
partitions = [
    {name = "unseen", ood = ["fog-2", "snow-3"]}, "all",
    {name = "random-a", title = "a", random_ind = 2, random_state = 1},
    {name = "random-b", title = "b", random_ind = 4, random_state = 2},
    {name = "eight-corruptions", ind = ["clean", "gaussian_noise-5", "snow-5"]},
]
[data]
one = "a.npz"
two = "b.npz"
"""


@pytest.fixture
def experiment(tmp_path):
    for k, name in enumerate("ab"):
        data = small_domains(seed=k, n_rows=60)
        codes = np.unique(data.domains, return_inverse=True)[1]
        dc.write(replace(data, domains=NAMES[codes]), tmp_path / f"{name}.npz")
    (tmp_path / "c.toml").write_text(TOML)
    return dc.experiments.read_experiment(tmp_path / "c.toml")


def _run(experiment, tmp_path, target):
    trials = TARGETS[target].trials(experiment)
    return dc.experiments.run_experiment(experiment, tmp_path / "out", trials=trials)


def _points(ax):
    """Points by label."""
    return {
        line.get_label(): np.column_stack(line.get_data())
        for line in ax.get_lines()
        if line.get_linestyle() == "None"
    }


def _titles(figure):
    return [ax.get_title() for ax in figure.axes]


def test_the_reliability_figure_shows_pooled_domains_one_domain_and_every_ece(experiment, tmp_path):
    results = _run(experiment, tmp_path, "figure-1")
    result = next(iter(results.trial_results.values()))
    assert set(result.table["domain"]) == {"clean", "gaussian_noise-5", "snow-5"}
    figure = reliability_figure(results)
    pooled, one, every = figure.axes
    row = result.table.set_index("domain").loc["gaussian_noise-5"]
    assert pooled.get_title() == f"pooled, ECE {100 * result.sums().calibration_error():.2f}%"
    assert one.get_title() == f"gaussian_noise-5, ECE {100 * row['ece']:.2f}%"
    (points,) = _points(every).values()
    np.testing.assert_allclose(points[:, 1], 100 * np.sort(result.table["ece"]))
    assert "first repeat" in figure.get_suptitle()
    assert _run(experiment, tmp_path, "figure-7").table["domain"].nunique() == 6


def test_the_temperature_figure_shows_the_first_repeat(experiment, tmp_path):
    results = _run(experiment, tmp_path, "figure-8")
    assert set(results.table["repeat"]) == {0}
    table = next(iter(results.trial_results.values())).table
    # As in the paper, and as in the other figures.
    shown = [["mean", "calibrated"], ["predicted", "learned"]]
    for ax, columns in zip(temperature_figure(results).axes, shown, strict=True):
        drawn = np.column_stack(ax.containers[0].lines[0].get_data()).astype(float)
        np.testing.assert_allclose(drawn, table[columns])


def test_the_scatter_figure_has_ind_above_ood(experiment, tmp_path):
    figure = scatter_figure([_run(experiment, tmp_path, "figure-3")])
    assert _titles(figure) == ["(InD) c, one", "(OOD) c, one"]
    counts = [len(next(iter(_points(ax).values()))) for ax in figure.axes]
    assert counts == [4, 2]


def test_the_accuracy_figure_shows_ood_domains_of_the_first_or_of_each_network(
    experiment, tmp_path
):
    results = _run(experiment, tmp_path, "figure-4")
    (ax,) = accuracy_figure([results], all_networks=False).axes
    assert ax.get_title() == "(OOD) c, one"
    rows = results.table.query("network == 'one' and kind == 'OOD' and method == 'TS'")
    expected = 100 * rows.groupby("domain")[["mean_confidence", "accuracy"]].mean()
    drawn = next(v for k, v in _points(ax).items() if k.startswith("TS"))
    np.testing.assert_allclose(np.sort(drawn, axis=0), np.sort(expected, axis=0))
    assert _titles(accuracy_figure([results], all_networks=True)) == [
        "(OOD) c, one",
        "(OOD) c, two",
    ]


def test_figures_without_ood_domains_show_ind_domains(experiment, tmp_path):
    alone = replace(experiment, partitions=experiment.partitions[1:2])
    results = _run(alone, tmp_path, "figure-4")
    assert _titles(accuracy_figure([results], all_networks=False)) == ["(InD) c, one"]
    figure = scatter_figure([results])
    assert _titles(figure) == ["(InD) c, one"]


def test_the_split_figure_has_a_column_for_each_random_partition(experiment, tmp_path):
    results = _run(experiment, tmp_path, "figure-6")
    figure = split_figure(results)
    assert _titles(figure) == ["(InD) a", "(InD) b", "(OOD) a", "(OOD) b"]
    counts = [len(next(iter(_points(ax).values()))) for ax in figure.axes]
    assert counts == [2, 4, 4, 2]


OVERVIEWS = ["domains", "accuracy", "temperatures"]


@pytest.mark.parametrize("what", OVERVIEWS)
def test_overviews_have_a_row_for_each_network_and_a_column_for_each_partition(
    experiment, tmp_path, what
):
    results = _run(experiment, tmp_path, what)
    assert set(results.table["partition"]) == {"unseen", "random-a", "random-b"}
    figure = overview_figure([results], what)
    grid = figure.axes[0].get_gridspec()
    assert (grid.nrows, grid.ncols) == (2, 3)
    assert _titles(figure) == ["unseen", "a", "b", "", "", ""]
    # Names of networks at the left; the axes are named once.
    assert [ax.get_ylabel() for ax in figure.axes] == ["one", "", "", "two", "", ""]
    assert not any(ax.get_xlabel() for ax in figure.axes)
    names = {
        "domains": ("TS: ECE in %", "MD-TS: ECE in %"),
        "accuracy": ("mean confidence in %, the predicted accuracy", "accuracy in %"),
        "temperatures": (
            "predicted temperature (median, 5 to 95%)", "temperature learned from labels",
        ),
    }  # fmt: skip
    assert (figure.get_supxlabel(), figure.get_supylabel()) == names[what]
    titles = {
        "domains": "c (numbers: domains in which MD-TS has the lower ECE)",
        "accuracy": "c: OOD domains (numbers: mean of |confidence - accuracy| in %)",
        "temperatures": "c: MD-TS, first repeat",
    }
    assert figure.get_suptitle() == titles[what]
    # Panels of a network have the same limits, so that only the first needs tick labels.
    for row in (figure.axes[:3], figure.axes[3:]):
        assert len({(*ax.get_xlim(), *ax.get_ylim()) for ax in row}) == 1
        shown = [ax.yaxis.get_tick_params()["labelleft"] for ax in row]
        assert shown == [True, False, False]


def test_panels_of_overviews_show_their_own_network_and_partition(experiment, tmp_path):
    results = _run(experiment, tmp_path, "domains")
    figure = overview_figure([results], "domains")
    keys = [(n, p) for n in ("one", "two") for p in ("unseen", "random-a", "random-b")]
    panels = results.table.set_index(["network", "partition"]).sort_index()
    for ax, key in zip(figure.axes, keys, strict=True):
        part = panels.loc[key]
        wide = 100 * part.pivot_table(index=["kind", "domain"], columns="method", values="ece")
        drawn = np.concatenate(list(_points(ax).values()))
        expected = wide[["TS", "MD-TS"]].to_numpy()
        np.testing.assert_allclose(np.sort(drawn, axis=0), np.sort(expected, axis=0))
        # Counts of the domains below the diagonal.
        for kind, rows in wide.groupby("kind"):
            count = f"{kind} {(rows['MD-TS'] < rows['TS']).sum()} of {len(rows)}"
            assert count in [text.get_text() for text in ax.get_legend().get_texts()]


@pytest.mark.parametrize("what", OVERVIEWS)
def test_overviews_of_several_experiments_name_them(experiment, tmp_path, what):
    results = _run(experiment, tmp_path, what)
    other = replace(
        results.only([t for _, t in results.trial_results if t.partition.name != "unseen"]),
        experiment=replace(experiment, name="another experiment with a much longer name"),
    )
    figure = overview_figure([results, other], what)
    assert len(figure.axes) == 12
    kind = "(OOD) " if what == "accuracy" else ""
    titles = [kind + name for name in ("unseen", "a", "b")]
    # Titles above each experiment: the columns of the second are other partitions.
    assert _titles(figure) == [*titles, "", "", "", *titles[1:], "", "", "", ""]
    assert [ax.axison for ax in figure.axes] == [True] * 6 + [True, True, False] * 2
    assert figure.axes[0].get_ylabel() == "c, one"
    name = textwrap.fill("another experiment with a much longer name, two", 20)
    assert figure.axes[9].get_ylabel() == name


@pytest.mark.parametrize("what", OVERVIEWS)
def test_an_overview_of_one_network_has_at_most_four_columns(experiment, tmp_path, what):
    parts = [replace(experiment.partitions[0], name=f"p{k}", title=f"part {k}") for k in range(6)]
    one = replace(
        experiment, sources=experiment.sources[:1], partitions=tuple(parts[:5]), repeats=1
    )
    figure = overview_figure([_run(one, tmp_path, what)], what)
    grid = figure.axes[0].get_gridspec()
    assert (grid.nrows, grid.ncols) == (2, 3)
    assert _titles(figure) == [*(f"part {k}" for k in range(5)), ""]
    assert all(ax.get_xlabel() for ax in figure.axes[:5])


def _many(results, networks, partitions):
    """Results of as many networks and partitions, which are all the same."""
    methods = {key[1].method.name: (key[1], own) for key, own in results.trial_results.items()}
    kept = {
        (f"network {n}", trial._replace(partition=replace(trial.partition, name=f"p{p}"))): result
        for n in range(networks)
        for p in range(partitions)
        for trial, result in methods.values()
    }
    return replace(results, trial_results=kept)


@pytest.mark.parametrize("shape", [(5, 8), (1, 8), (1, 20), (20, 1), (9, 2)])
def test_no_side_of_an_overview_is_above_3000_pixels(experiment, tmp_path, shape):
    figure = overview_figure([_many(_run(experiment, tmp_path, "domains"), *shape)], "domains")
    assert len([ax for ax in figure.axes if ax.axison]) == shape[0] * shape[1]
    assert max(figure.get_size_inches() * 200) <= 3000


@pytest.mark.parametrize("what", OVERVIEWS)
def test_an_overview_of_five_networks_and_eight_partitions_is_readable(experiment, tmp_path, what):
    figure = overview_figure([_many(_run(experiment, tmp_path, what), 5, 8)], what)
    png, _ = save_figure(figure, tmp_path / "many")
    height, width, _ = matplotlib.image.imread(png).shape
    assert max(height, width) <= 3000
    # Panels, in inches, are not too small, and do not overlap.
    boxes = [ax.get_window_extent() for ax in figure.axes]
    assert min(box.width / figure.dpi for box in boxes) > 1.4
    assert all(a.x1 < b.x0 for a, b in itertools.pairwise(boxes[:8]))
    assert all(a.y0 > b.y1 for a, b in itertools.pairwise(boxes[::8]))


def test_captions_say_what_is_good():
    figures = [target for target in TARGETS.values() if not target.is_table]
    assert len(figures) == 11
    for target in figures:
        assert target.caption.startswith(target.about[0].upper() + target.about[1:] + ". ")
        assert "n the diagonal: " in target.caption or "Below the diagonal: " in target.caption
    assert "Below the diagonal: MD-TS has the lower ECE." in TARGETS["domains"].caption
    assert "On the diagonal: mean confidence equals accuracy" in TARGETS["accuracy"].caption
    needed = "On the diagonal: the predicted temperature is the one that the domain needs"
    assert needed in TARGETS["temperatures"].caption
    assert TARGETS["table-1"].caption == "Per-domain ECE."


def test_an_experiment_without_ood_domains_can_stand_beside_one_with_them(
    experiment, tmp_path, monkeypatch
):
    # Figures are made, but not rendered, which takes most of the time.
    monkeypatch.setattr(Figure, "savefig", lambda self, file, **_: file.write(b"figure"))
    other = replace(experiment, name="d", partitions=experiment.partitions[1:2])
    made, _ = reproduce(["all"], [experiment, other], tmp_path / "out")
    assert "figure-3" in {m.target.name for m in made}
    table = pd.read_csv(tmp_path / "out/means.csv")
    assert set(table["data"]) == {"c", "d"}


def test_two_experiments_with_the_same_name_are_an_error(experiment, tmp_path):
    with pytest.raises(dc.errors.InputError, match="two experiments have the name 'c'"):
        reproduce(["table-1"], [experiment, experiment], tmp_path / "out")


def test_methods_that_know_domains_are_never_marked_as_the_best(experiment, tmp_path):
    (tmp_path / "c.toml").write_text(
        TOML + '[methods]\nTS = "ts"\nMSP = "msp"\nBound = "oracle"\nOwn = "domain-ts"'
    )
    experiment = dc.experiments.read_experiment(tmp_path / "c.toml")
    results = dc.experiments.run_experiment(experiment, tmp_path / "out")
    table = ece_table([results], experiment.methods, "t", None)
    for block in table.printed.blocks:
        assert all(line.best in (None, 0, 1) for line in block.lines)
    # Own and Bound are lower than all others.
    results.table["ece"] = results.table["method"].map({"TS": 0.2, "MSP": 0.3}).fillna(0.1)
    table = ece_table([results], experiment.methods, "t", None)
    for block in table.printed.blocks:
        assert all(line.best == 0 for line in block.lines)
    assert any(
        "Bound: a temperature for each domain, fitted to the labels" in n
        for n in table.printed.notes
    )
    assert all("Bound" not in sentence for sentence in verdicts(results))


def test_a_method_of_the_experiment_replaces_that_of_the_table_with_the_same_name(
    experiment, tmp_path
):
    (tmp_path / "c.toml").write_text(TOML + '[methods]\nTS = "isotonic"\nMD-TS = "md-ts:clip=null"')
    experiment = dc.experiments.read_experiment(tmp_path / "c.toml")
    reproduce(["summary", "table-1", "table-3"], [experiment], tmp_path / "out")
    results = pd.read_csv(tmp_path / "out/results.csv")
    assert not results.duplicated(
        ["network", "partition", "split", "repeat", "method", "head", "kind", "domain"]
    ).any()
    assert results.query("method == 'TS'")["learned"].isna().all()  # isotonic has no temperature
    texts = {trial.method.text for trial in TARGETS["table-3"].trials(experiment)}
    assert "md-ts:clip=null:head=ridge" in texts


def test_verdicts_use_the_first_split_and_judge_no_single_domain(experiment, tmp_path):
    data = small_domains(n_rows=60)
    dc.write(replace(data, groups=np.arange(len(data))), tmp_path / "a.npz")
    (tmp_path / "c.toml").write_text(
        'name = "c"\nsplits = ["row", "group"]\nmethods = {TS = "ts", MD-TS = "md-ts"}\n'
        'partitions = [{name = "p", ood = ["domain-5"]}]\ndata = {n = "a.npz"}'
    )
    results = dc.experiments.run_experiment(
        dc.experiments.read_experiment(tmp_path / "c.toml"), tmp_path / "out"
    )
    table = results.table
    own = table.query("split == 'row' and kind == 'OOD' and method == 'TS'")["ece"].item()
    table.loc[table["split"] == "group", "ece"] = 0.77
    (sentence,) = verdicts(results)
    assert f"against {100 * own:.2f}%" in sentence
    assert "MD-TS against TS in the only domain" in sentence


def test_names_in_titles_are_drawn_as_they_are(experiment, tmp_path):
    odd = replace(
        experiment,
        name="$^$ and _",
        sources=(replace(experiment.sources[0], network="$x_{"),),
        partitions=(replace(experiment.partitions[0], title="a $ of " + "$ %" * 20),),
        repeats=1,
    )
    before = dict(matplotlib.rcParams)
    reproduce(["domains", "summary"], [odd], tmp_path / "out")
    assert dict(matplotlib.rcParams) == before
    figure = overview_figure([_run(odd, tmp_path, "domains")], "domains")
    assert figure.get_suptitle() == r"\$^\$ and _, \$x_{"


def test_only_figures_without_drawing_are_an_error(experiment, tmp_path):
    with pytest.raises(dc.errors.InputError, match="the targets are all figures"):
        reproduce(["figure-3"], [experiment], tmp_path / "out", figures=False)

"""Figures show the computed results, and leave matplotlib's settings unchanged."""

from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

import domaincal as dc
from domaincal.plots.style import MARKERS, method_styles
from support import fit, probabilities, small_domains

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("agg")
pyplot = pytest.importorskip("matplotlib.pyplot")

DATA = small_domains()
METHODS = {
    "MSP": dc.MaxSoftmax(),
    "TS": dc.TemperatureScaling(),
    "MD-TS": dc.MultiDomainTemperatureScaling(),
}
TABLE = dc.evaluate_split(METHODS, DATA, ood="domain-[24]")
MD_TS = fit(dc.MultiDomainTemperatureScaling(), DATA)
CURVE = dc.reliability_curve(probabilities(MD_TS, DATA), DATA.labels, n_bins=10)
TEMPERATURES = dc.temperature_table(MD_TS, DATA)
HITS = DATA.logits.argmax(axis=1) == DATA.labels
RISKS = dc.risk_coverage(probabilities(MD_TS, DATA).max(axis=1), HITS, DATA.domains)
EXPECTED = pd.DataFrame(
    {
        "domain": [f"site {k}" for k in range(70)],
        "predicted_accuracy": np.linspace(0.95, 0.2, 70),
        "low": np.linspace(0.85, 0.1, 70),
        "high": np.linspace(1.0, 0.3, 70),
        "verdict": ["inside"] * 60 + ["edge"] * 7 + ["outside"] * 3,
    }
)

PLOTS = {
    "reliability": lambda ax=None: dc.plots.plot_reliability(CURVE, ax=ax, label="MD-TS"),
    "errors": lambda ax=None: dc.plots.plot_domain_errors(TABLE, ax=ax),
    "scatter": lambda ax=None: dc.plots.plot_method_scatter(TABLE, "TS", "MD-TS", ax=ax),
    "accuracy": lambda ax=None: dc.plots.plot_accuracy_prediction(TABLE, ax=ax),
    "temperatures": lambda ax=None: dc.plots.plot_temperatures(TEMPERATURES, ax=ax),
    "expected": lambda ax=None: dc.plots.plot_predicted_accuracy(EXPECTED, ax=ax),
    "risk": lambda ax=None: dc.plots.plot_risk_coverage(RISKS, ax=ax),
}


@pytest.fixture(autouse=True)
def _close():
    yield
    pyplot.close("all")


@pytest.mark.parametrize("draw", PLOTS.values(), ids=PLOTS)
def test_a_plot_uses_the_given_axes_and_changes_no_settings(draw):
    pyplot.close("all")  # figures of doctests
    before = dict(matplotlib.rcParams)
    figure = matplotlib.figure.Figure()
    ax = figure.subplots()
    assert draw(ax) is ax
    assert ax.get_xlabel() or ax.get_xticklabels()
    assert ax.get_ylabel()
    assert dict(matplotlib.rcParams) == before
    assert pyplot.get_fignums() == []
    figure.canvas.draw()


@pytest.mark.parametrize("draw", PLOTS.values(), ids=PLOTS)
@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_a_new_figure_can_be_saved(draw, suffix, tmp_path):
    draw().figure.savefig(tmp_path / f"figure.{suffix}")
    assert (tmp_path / f"figure.{suffix}").stat().st_size > 4000


def _points(ax, k=0):
    drawn = [line for line in ax.get_lines() if line.get_marker() in MARKERS]
    return np.column_stack([np.asarray(v, float) for v in drawn[k].get_data()])


def test_the_reliability_diagram_shows_all_bins_and_the_ece():
    ax = dc.plots.plot_reliability(CURVE)
    known = CURVE.n > 0
    np.testing.assert_allclose(
        np.sort(np.concatenate([_points(ax), _points(ax, 1)]), axis=0),
        np.sort(np.column_stack([CURVE.confidence, CURVE.accuracy])[known], axis=0),
    )
    ece = dc.expected_calibration_error(probabilities(MD_TS, DATA), DATA.labels, n_bins=10)
    assert ax.get_title() == f"ECE {100 * ece:.2f}%"


def test_bins_of_few_rows_are_pale_and_not_connected_by_the_line():
    confidence = np.repeat([0.95, 0.75, 0.65], [50, 3, 20])
    p = np.column_stack([confidence, 1 - confidence])
    curve = dc.reliability_curve(p, np.arange(73) % 2, n_bins=10)
    ax = dc.plots.plot_reliability(curve)
    np.testing.assert_allclose(_points(ax)[:, 0], [0.65, 0.95])
    pale = ax.containers[-1]
    np.testing.assert_allclose(pale.lines[0].get_xdata(), [0.75])
    assert pale.lines[0].get_alpha() < 0.5
    (bar,) = pale.lines[2][0].get_segments()
    k = int(np.flatnonzero(curve.n == 3)[0])
    np.testing.assert_allclose(bar[:, 1], [curve.low[k], curve.high[k]])


def test_predicted_accuracies_are_drawn_with_their_intervals_lowest_first():
    ax = dc.plots.plot_predicted_accuracy(EXPECTED)
    names = [text.get_text() for text in ax.get_yticklabels()]
    assert names == [f"site {k}" for k in range(69, 9, -1)]
    assert ax.get_ylabel() == "60 lowest of 70 domains"
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # the first is at the top
    points = {line.get_label(): line for line in ax.get_lines()}
    assert list(points) == ["inside", "edge", "outside"]
    assert [len(line.get_xdata()) for line in points.values()] == [50, 7, 3]
    assert points["outside"].get_xdata()[0] == pytest.approx(20.0)
    ends = ax.collections[-1].get_segments()[0]
    assert ends == pytest.approx(np.array([[10.0, 0.0], [30.0, 0.0]]))


def test_a_table_without_predicted_accuracies_is_refused():
    with pytest.raises(dc.DomaincalError, match="predict of an estimator"):
        dc.plots.plot_predicted_accuracy(TABLE)


def test_the_scatter_plot_shows_both_methods_and_counts_wins():
    ax = dc.plots.plot_method_scatter(TABLE, "TS", "MD-TS")
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    for k, kind in enumerate(("InD", "OOD")):
        rows = TABLE[TABLE["kind"] == kind].pivot(index="domain", columns="method", values="ece")
        np.testing.assert_allclose(_points(ax, k), 100 * rows[["TS", "MD-TS"]])
        better = (rows["MD-TS"] < rows["TS"]).sum()
        assert texts[k] == f"{kind}: MD-TS lower in {better} of {len(rows)}"


@pytest.mark.parametrize("score", ["ece", "gap"])
def test_the_legend_of_a_scatter_plot_hides_no_domain(score):
    # Points fill the square, so that no corner is free.
    first, second = (values.ravel() for values in np.meshgrid(*[np.linspace(-0.1, 0.2, 9)] * 2))
    names = [f"domain-{k}" for k in range(first.size)]
    table = pd.DataFrame(
        {
            "domain": names * 2,
            "kind": (["InD", "OOD"] * first.size)[: first.size] * 2,
            "method": ["TS"] * first.size + ["MD-TS"] * first.size,
            score: np.concatenate([first, second]),
        }
    )
    if score == "ece":
        table["ece"] = table["ece"].abs()
    ax = dc.plots.plot_method_scatter(table, "TS", "MD-TS", score=score)
    ax.figure.draw_without_rendering()
    box = ax.get_legend().get_window_extent()
    assert ax.bbox.containsx(box.x0)
    assert ax.bbox.containsy(box.y1)
    for k in range(2):
        places = ax.transData.transform(_points(ax, k))
        assert not [place for place in places if box.contains(*place)]


def test_domain_errors_are_in_the_order_of_the_first_method():
    ax = dc.plots.plot_domain_errors(TABLE, score="gap")
    rows = TABLE.pivot(index="domain", columns="method", values="gap").sort_values("MSP")
    assert [text.get_text() for text in ax.get_xticklabels()] == rows.index.tolist()
    for k, method in enumerate(METHODS):
        np.testing.assert_allclose(_points(ax, k)[:, 1], 100 * rows[method])
    bold = [t.get_text() for t in ax.get_xticklabels() if t.get_fontweight() == "bold"]
    assert sorted(bold) == ["domain-2", "domain-4"]


def test_the_legend_of_accuracy_prediction_gives_the_mean_absolute_error():
    ax = dc.plots.plot_accuracy_prediction(TABLE, methods=("TS",))
    rows = TABLE[TABLE["method"] == "TS"]
    np.testing.assert_allclose(_points(ax), 100 * rows[["mean_confidence", "accuracy"]])
    (text,) = [text.get_text() for text in ax.get_legend().get_texts()]
    assert text == f"TS (MAE {100 * rows['gap'].mean():.2f}%)"


def test_repeated_rows_of_a_domain_are_averaged():
    table = pd.DataFrame({
        "method": "TS", "domain": ["a", "a"], "accuracy": [0.5, 0.5],
        "mean_confidence": [0.4, 0.6],
    })  # fmt: skip
    ax = dc.plots.plot_accuracy_prediction(table)
    np.testing.assert_allclose(_points(ax), [[50.0, 50.0]])
    assert ax.get_legend().get_texts()[0].get_text() == "TS (MAE 10.00%)"


def test_risk_coverage_draws_each_domain_and_all_rows():
    lines = dc.plots.plot_risk_coverage(RISKS).get_lines()
    assert len(lines) == len(RISKS.curves) == 7
    for line, curve in zip(lines, RISKS.curves.values(), strict=True):
        drawn = curve.kept >= 10
        expected = 100 * np.column_stack([curve.coverage, curve.risk])[drawn]
        np.testing.assert_allclose(np.column_stack(line.get_data()), expected)
    assert len({line.get_color() for line in lines}) == 7
    assert lines[-1].get_label() == f"all rows (area {100 * RISKS.curves['all'].area:.2f}%)"


@pytest.mark.parametrize(("n_domains", "n_entries"), [(0, 1), (1, 1), (6, 7), (7, 2), (48, 2)])
def test_many_risk_curves_share_an_entry_of_the_legend(n_domains, n_entries):
    domains = np.arange(len(DATA)) % n_domains if n_domains else None
    ax = dc.plots.plot_risk_coverage(
        dc.risk_coverage(MD_TS.predict_confidence(DATA), HITS, domains)
    )
    assert len(ax.get_legend().get_texts()) == n_entries


LONG_METHODS = (
    "ts",
    *(f"md-ts:head=ridge:target={t}:fit_intercept=true" for t in ("log", "inverse")),
)


@pytest.mark.parametrize("n_domains", [1, 12, 60])
def test_long_names_stay_inside_the_figure(n_domains):
    same = "the-same-hospital" * 4
    domains = [f"{same}-{k:02}-{same}" for k in range(n_domains)]
    ece = np.linspace(0.01, 0.2, 3 * n_domains)
    table = pd.DataFrame({
        "method": np.repeat(LONG_METHODS, n_domains), "domain": domains * 3, "ece": ece,
        "mean_confidence": ece, "accuracy": 0.5, "kind": "OOD",
    })  # fmt: skip
    drawings = [
        dc.plots.plot_domain_errors(table),
        dc.plots.plot_method_scatter(table, *LONG_METHODS[1:]),
        dc.plots.plot_accuracy_prediction(table),
        dc.plots.plot_reliability(CURVE, label=LONG_METHODS[1]),
    ]
    for ax in drawings:
        ax.figure.draw_without_rendering()  # a warning tells of axes without room
        box, (width, height) = ax.get_tightbbox(), ax.figure.bbox.size
        assert min(box.x0, box.y0) >= -1
        assert box.x1 <= width + 1
        assert box.y1 <= height + 1
        assert ax.get_window_extent().height > 0.3 * height
    if n_domains == 12:
        names = [text.get_text() for text in drawings[0].get_xticklabels()]
        assert len(set(names)) == 12
    legend = drawings[0].get_legend().get_texts()
    assert [text.get_text().replace("\n", "").split(" (")[0] for text in legend] == list(
        LONG_METHODS
    )


def test_a_method_has_the_same_style_in_every_figure():
    alone, among = method_styles(["MD-TS"]), method_styles(["MSP", "mine", "MD-TS", "TS", "yours"])
    assert alone["MD-TS"] == among["MD-TS"]
    assert len({style["color"] for style in among.values()}) == 5
    assert len({style["marker"] for style in among.values()}) == 5
    many = method_styles([f"method {k}" for k in range(20)])
    assert len({tuple(style.items()) for style in many.values()}) == len(MARKERS)


def test_the_temperature_plot_shows_the_temperature_table():
    for name, rows in DATA.by_domain():
        row = TEMPERATURES.set_index("domain").loc[name]
        alone = dc.TemperatureScaling().fit(rows.logits, rows.labels)
        assert row["learned"] == pytest.approx(alone.temperature_, rel=1e-8)
        t = MD_TS.predict_temperature(rows.logits, features=rows.features)
        assert row["predicted"] == pytest.approx(np.median(t))
        assert row["low"] == pytest.approx(np.quantile(t, 0.05))
        assert row["high"] == pytest.approx(np.quantile(t, 0.95))
        assert row["mean"] == pytest.approx(t.mean())
        assert row["deviation"] == pytest.approx(t.std())
        assert row["n"] == len(rows)
    for spread, shown in (("quantiles", "predicted"), ("deviation", "mean")):
        ax = dc.plots.plot_temperatures(TEMPERATURES, spread=spread)
        np.testing.assert_allclose(_points(ax), TEMPERATURES[[shown, "learned"]])


def test_many_domains_have_no_names_and_a_table_needs_no_kinds():
    table = pd.concat(
        [TABLE.drop(columns="kind").assign(domain=TABLE["domain"] + f"-{k}") for k in range(9)]
    )
    ax = dc.plots.plot_domain_errors(table)
    assert ax.get_xlabel() == "54 domains, in the order of MSP"
    texts = dc.plots.plot_method_scatter(table, "TS", "MSP").get_legend().get_texts()
    assert len(texts) == 1
    assert texts[0].get_text().startswith("MSP lower in ")


ODD_NAMES = ("$^$ and $x_{", "_hidden", "50% \\$", "two\nlines\x07")


def test_names_are_drawn_as_they_are(tmp_path):
    """Also names that matplotlib would take for formulas, or leave out of a legend."""
    methods = dict(zip(ODD_NAMES, [*METHODS.values(), dc.TemperatureScaling()], strict=True))
    domains = np.array(ODD_NAMES, object)[np.arange(len(DATA)) % len(ODD_NAMES)]
    table = dc.evaluate_split(methods, replace(DATA, domains=domains))
    first, second, *_ = ODD_NAMES
    kinds = TEMPERATURES.assign(kind=(ODD_NAMES * 2)[: len(TEMPERATURES)])
    drawings = [
        dc.plots.plot_domain_errors(table),
        dc.plots.plot_accuracy_prediction(table),
        dc.plots.plot_method_scatter(table.drop(columns="kind"), first, second),
        dc.plots.plot_method_scatter(table, second, first),
        dc.plots.plot_reliability(CURVE, label=first),
        dc.plots.plot_temperatures(kinds),
        dc.plots.plot_risk_coverage(dc.risk_coverage(np.ones(len(DATA)), HITS, domains)),
    ]
    for ax in drawings:
        ax.figure.savefig(tmp_path / "figure.svg")
        ElementTree.parse(tmp_path / "figure.svg")  # no control characters
        texts = [text.get_text() for text in ax.findobj(matplotlib.text.Text)]
        assert not any(map(matplotlib.cbook.is_math_text, texts))
    for ax, n_entries in zip(drawings, (4, 4, 1, 1, 3, 4, 5), strict=True):
        assert len(ax.get_legend().get_texts()) == n_entries
    assert drawings[2].get_xlabel().replace("\\", "") == f"{first}: ECE in %"


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (
            lambda: dc.plots.plot_reliability(TABLE),
            "curve must be a ReliabilityCurve, got DataFrame",
        ),
        (lambda: dc.plots.plot_domain_errors(TABLE, score="nll"), "score must be one of 'ece'"),
        (lambda: dc.plots.plot_domain_errors(TABLE[["method"]]), "results table with the columns"),
        (lambda: dc.plots.plot_domain_errors(TABLE[:0]), "table is empty"),
        (
            lambda: dc.plots.plot_method_scatter(TABLE, "TS", "X"),
            "second='X' is not a method of the table; choose from 'MSP'",
        ),
        (lambda: dc.plots.plot_accuracy_prediction(TABLE, methods=("X",)), "choose from MSP, TS"),
        (lambda: dc.plots.plot_accuracy_prediction(3), "results table"),
        (
            lambda: dc.plots.plot_risk_coverage(RISKS.curves),
            "curves must be a RiskCoverage, got dict",
        ),
        (lambda: dc.plots.plot_temperatures(TABLE), "make it with domaincal.temperature_table"),
        (lambda: dc.plots.plot_temperatures(TEMPERATURES[:0]), "table is empty"),
        (
            lambda: dc.temperature_table(
                dc.IsotonicCalibration().fit(DATA.logits, DATA.labels), DATA
            ),
            "IsotonicCalibration has no temperature",
        ),
    ],
)
def test_invalid_tables_and_methods_are_refused(draw, message):
    with pytest.raises(dc.errors.InputError, match=message):
        draw()

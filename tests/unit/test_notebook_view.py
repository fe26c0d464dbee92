"""HTML views of calibrators, data and results in notebooks."""

from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context

import domaincal as dc
from support import CALIBRATORS, fit, small_domains

DATA = small_domains()


def _show(calibrator):
    """HTML text and its parsed tree; invalid markup fails here."""
    html = calibrator._repr_html_()
    assert calibrator._repr_mimebundle_()["text/html"] == html
    return html, ElementTree.fromstring(html)


@pytest.mark.parametrize("name", CALIBRATORS)
@pytest.mark.filterwarnings("ignore::domaincal.errors.PoorHeadWarning")
def test_the_view_of_a_fitted_calibrator_shows_its_learned_values(name):
    calibrator = fit(CALIBRATORS[name](), DATA)
    html, tree = _show(calibrator)
    facts = {row[0].text: row[1].text for row in tree.iter("tr")}
    assert tree.find("code").text == repr(calibrator)
    assert facts["classes"] == "5"
    if hasattr(calibrator, "temperature_"):
        shown = facts.get("temperature") or facts["pooled temperature"]
        assert shown.startswith(f"{calibrator.temperature_:.4g}")
    if hasattr(calibrator, "domain_temperatures_"):
        assert len(list(tree.iter("circle"))) == 6
    if hasattr(calibrator, "head_parameters_"):
        for value in calibrator.head_parameters_.values():
            assert f"{value:.4g}" in facts["head"]
    if hasattr(calibrator, "maps_"):
        assert len(list(tree.iter("polyline"))) == len(calibrator.maps_)
    assert "nan" not in html


def test_the_view_before_the_fit_is_that_of_scikit_learn():
    html = dc.TemperatureScaling()._repr_html_()
    assert "Not fitted" in html
    with config_context(display="text"):
        assert not hasattr(dc.TemperatureScaling(), "_repr_html_")


def test_names_of_domains_are_escaped():
    names = np.where(DATA.domains == "domain-1", "<script>alert(1)</script>", DATA.domains)
    shown = dc.DomainTemperatureScaling().fit(DATA.logits, DATA.labels, domains=names)
    html, tree = _show(shown)
    assert "<script" not in html
    assert not list(tree.iter("script"))


def test_at_most_30_domains_or_maps_are_drawn():
    data = small_domains(n_domains=45, n_rows=30)
    _, tree = _show(fit(dc.DomainTemperatureScaling(), data))
    assert len(list(tree.iter("circle"))) == 30
    many = small_domains(n_classes=40)
    _, tree = _show(dc.HistogramBinning(scheme="one-vs-rest").fit(many.logits, many.labels))
    assert len(list(tree.iter("polyline"))) == 30


def test_unused_domains_are_hollow_circles():
    names = np.where(np.arange(len(DATA)) < 3, "tiny", DATA.domains)
    with pytest.warns(dc.errors.SmallDomainWarning):
        fitted = dc.DomainTemperatureScaling().fit(DATA.logits, DATA.labels, domains=names)
    html, tree = _show(fitted)
    assert [c.get("fill") for c in tree.iter("circle")].count("none") == 1
    assert "7, of which 1 not used" in html


def test_domains_are_drawn_in_the_order_of_their_temperatures_with_intervals():
    fitted = fit(dc.DomainTemperatureScaling(), DATA)
    _, tree = _show(fitted)
    across = [float(c.get("cx")) for c in tree.iter("circle")]
    assert across == sorted(across)
    names = [t.text for t in tree.iter("text")][:-1]
    assert names == fitted.domain_temperatures_.sort_values().index.tolist()
    bars = list(tree.iter("line"))[1:]
    length = float(bars[0].get("x2")) - float(bars[0].get("x1"))
    errors = fitted.domain_standard_errors_
    t = fitted.domain_temperatures_
    ends = np.concatenate([np.log(t) - 1.96 * errors, np.log(t) + 1.96 * errors])
    expected = 244 * 2 * 1.96 * errors[t.idxmin()] / (ends.max() - ends.min())
    assert length == pytest.approx(expected, abs=0.2)


def test_maps_rise_from_the_bottom_left():
    _, tree = _show(dc.IsotonicCalibration().fit(DATA))
    points = [p.split(",") for p in next(tree.iter("polyline")).get("points").split()]
    assert float(points[0][1]) > float(points[-1][1])  # y grows downwards


def test_a_temperature_at_its_bound_is_shown_without_an_interval():
    with pytest.warns(dc.errors.BoundaryWarning):
        fitted = dc.TemperatureScaling().fit(DATA.logits, DATA.logits.argmax(axis=1))
    assert "at its bound" in _show(fitted)[0]


def _facts_and_tree(thing):
    tree = ElementTree.fromstring(thing._repr_html_())
    return {row[0].text: row[1].text for row in tree.iter("tr")}, tree


def _names(tree):
    """Names of the rows of the drawing; its caption is the last text."""
    return [text.text for text in tree.iter("text")][:-1]


UNEQUAL = replace(
    DATA[np.r_[0:80, 80:100, 160:220]], class_names=list("abcde"), provenance={"network": "<i>"}
)


def test_the_view_of_data_has_facts_and_the_rows_of_each_domain():
    facts, tree = _facts_and_tree(UNEQUAL)
    assert tree.find("code").text == repr(UNEQUAL)
    assert facts == {
        "logits": "float64, on the host", "labels": "in every row",
        "classes": "5: a, b, c, d and 1 more", "features": "4",
        "domains": "3, with 20 to 80 rows", "provenance": "network: <i>",
    }  # fmt: skip
    assert _names(tree) == ["domain-0", "domain-2", "domain-1"]
    lengths = [float(line.get("x2")) - float(line.get("x1")) for line in tree.iter("line")]
    np.testing.assert_allclose(np.divide(lengths, lengths[0]), [1, 60 / 80, 20 / 80], atol=1e-3)


def test_data_without_domains_or_with_equal_ones_have_no_drawing():
    bare = dc.CalibrationData([[2.0, 0.0]], groups=[7])
    facts, tree = _facts_and_tree(bare)
    assert [facts[name] for name in ("labels", "features", "domains")] == ["none"] * 3
    assert facts["groups"] == "1"
    assert tree.find("svg") is None
    facts, tree = _facts_and_tree(DATA)
    assert facts["domains"] == "6, with 80 rows each"
    assert tree.find("svg") is None


def test_the_view_of_data_reads_no_logits():
    class Described:
        shape, dtype = UNEQUAL.logits.shape, UNEQUAL.logits.dtype

        def __len__(self):
            return self.shape[0]

    data = UNEQUAL[:]
    object.__setattr__(data, "logits", Described())
    assert data._repr_html_() == UNEQUAL._repr_html_()


def test_the_view_of_an_inspection_draws_accuracy_and_confidence(tmp_path):
    dc.write(DATA, tmp_path / "scores.npz")
    found = dc.inspect(tmp_path / "scores.npz")
    facts, tree = _facts_and_tree(found)
    assert f"{tmp_path / 'scores.npz'}: 480 rows, 5 classes" in tree.find("code").text
    assert facts["format"] == found.format
    assert facts["domains"] == "6"
    assert "logits (float64)" in facts["arrays"]
    table = found.domains.set_index("domain")
    gap = (table["mean_confidence"] - table["accuracy"]).sort_values(ascending=False)
    assert _names(tree) == gap.index.tolist()
    across = {fill: [float(c.get("cx")) for c in tree.iter("circle") if c.get("fill") == fill]
              for fill in ("none", "#2a78d6")}  # fmt: skip
    values = table.loc[gap.index, ["mean_confidence", "accuracy"]].to_numpy()
    places = 138 + 244 * (values - values.min()) / np.ptp(values)
    np.testing.assert_allclose([across["none"], across["#2a78d6"]], places.T, atol=0.06)


def test_the_view_of_an_inspection_lists_findings_and_needs_no_labels(tmp_path):
    names = np.where(DATA.domains == "domain-1", "<b>&", DATA.domains)
    dc.write(replace(DATA, labels=None, domains=names), tmp_path / "scores.npz")
    found = dc.inspect(tmp_path / "scores.npz")
    facts, tree = _facts_and_tree(found)
    assert facts["finding 1"] == found.findings[0]
    assert {c.get("fill") for c in tree.iter("circle")} == {"none"}
    assert "<b>&" in _names(tree)


def test_the_view_of_a_comparison_draws_the_interval():
    rows = {"method": ["A<"] * 3 + ["B"] * 3, "domain": [1, 2, 3] * 2}
    table = pd.DataFrame({**rows, "ece": [0.05, 0.05, 0.07, 0.01, 0.02, 0.04]})
    found = dc.compare_methods(table, "B", "A<")
    facts, tree = _facts_and_tree(found)
    assert tree.find("code").text == "B against A<"
    assert facts["result"] == "B is better than A<"
    assert facts["difference"] == "-3.33 points"
    assert facts["domains"] == "3; lower in 3, higher in 0"
    reference, line = tree.iter("line")
    dot = float(next(tree.iter("circle")).get("cx"))
    assert float(reference.get("x1")) == 382.0  # 0 is the right end of the scale
    assert float(line.get("x1")) == 138.0
    assert dot == pytest.approx(138 + 244 * (1 - found.difference / found.low), abs=0.06)


def test_the_view_of_a_comparison_of_one_domain_has_no_interval():
    table = pd.DataFrame({"method": ["A", "B"], "domain": [1, 1], "nll": [0.5, 0.4]})
    facts, tree = _facts_and_tree(dc.compare_methods(table, "B", "A", score="nll"))
    assert facts["mean over domains"] == "NLL 0.400 against 0.500"
    assert tree.find("svg") is None
    assert not {"interval", "p-value", "result"} & set(facts)


def test_at_most_30_domains_of_data_and_inspections_are_drawn(tmp_path):
    data = small_domains(n_domains=45, n_rows=30)[1:]
    dc.write(data, tmp_path / "scores.npz")
    for thing, fill in ((data, "#2a78d6"), (dc.inspect(tmp_path / "scores.npz"), "none")):
        _, tree = _facts_and_tree(thing)
        assert [c.get("fill") for c in tree.iter("circle")].count(fill) == 30
        assert "(30 of 45 domains)" in [text.text for text in tree.iter("text")][-1]

"""HTML view of calibrators in notebooks."""

from xml.etree import ElementTree

import numpy as np
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

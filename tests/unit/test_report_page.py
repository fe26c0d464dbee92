"""The page of a report as text: policy, JSON, sections. A browser opens it in tests/browser."""

import base64
import hashlib
import html
import json
import re

import pytest

from browser.sample_contents import HOSTILE_NAMES, sample_contents, with_change, without_labels

pytest.importorskip("plotly", reason="the extra report is not installed")
pytest.importorskip("jinja2", reason="the extra report is not installed")

from domaincal.report.page import render

JSON = re.compile(r'<script type="application/json" id="report-contents">(.*?)</script>', re.S)


@pytest.fixture(scope="module")
def contents():
    return with_change(sample_contents(len(HOSTILE_NAMES), names=HOSTILE_NAMES))


@pytest.fixture(scope="module")
def page(contents):
    return render(contents)


def test_the_page_holds_its_contents(page, contents):
    (text,) = JSON.findall(page)
    assert json.loads(text) == contents
    assert not set("<>&\u2028\u2029") & set(text)


def test_the_policy_names_the_hash_of_every_script_and_nothing_else(page):
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="(.*?)"', page)
    directives = dict(part.split(" ", 1) for part in html.unescape(policy).split("; "))
    assert directives["default-src"] == "'none'"
    scripts = re.findall(r"<script>(.*?)</script>", page, re.S)
    hashes = [base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts]
    assert directives["script-src"].split() == [f"'sha256-{h}'" for h in hashes]
    assert len(scripts) == 3
    assert "unsafe-eval" not in policy
    assert "http" not in html.unescape(policy)


def test_nothing_outside_of_the_page_is_named_by_its_elements(page):
    shell = re.sub(r"<(script|style)\b.*?</\1>", "", page, flags=re.S)
    named = {value for _, value in re.findall(r"""(?:src|href)=(["'])(.*?)\1""", shell)}
    assert {value for value in named if not value.startswith("#")} == {"data:,"}
    assert "\r" not in page


def test_a_section_is_shown_or_its_reason_or_nothing():
    contents = sample_contents(3)
    contents["methods"] = contents["risk"] = contents["unlabelled"] = None
    contents["domains"]["temperature"] = None
    contents["missing"] = {"methods": "Three domains are too few.", "risk": ""}
    page = render(contents)
    sections = re.findall(r'<section id="(\w+)"', page)
    assert sections == ["verdict", "domains", "overview", "reliability", "missing", "run"]
    assert "<dd>Three domains are too few.</dd>" in page
    assert '<div id="methods">' in page
    assert 'id="temperatures"' not in page


def test_averages_have_signs_as_in_print():
    contents = sample_contents(8)
    contents["means"]["known"] = json.loads(json.dumps(contents["means"]["unseen"]))
    for value, shown in ((-0.012, "\N{MINUS SIGN}1.2"), (-0.0001, "0.0"), (0.05, "5.0")):
        contents["means"]["known"]["after"]["excess"] = value
        averages = render(contents).split('aria-label="Averages over domains"')[1]
        assert averages.split("</table>")[0].count(f"<td>{shown}</td></tr>") == 1


def test_a_page_without_labels_has_no_figure():
    page = render(without_labels(sample_contents(3)))
    assert 'class="plot' not in page
    assert re.findall(r'<section id="(\w+)"', page) == ["verdict", "unlabelled", "missing", "run"]


def test_a_name_with_half_a_surrogate_pair_can_be_written():
    page = render(sample_contents(2, names=("\ud800 site", "other")))
    assert "? site" in json.loads(JSON.findall(page)[0])["domains"]["name"]
    page.encode("utf-8")


def test_numbers_that_json_has_not_are_refused():
    contents = sample_contents(2)
    contents["domains"]["n"][0] = float("nan")
    with pytest.raises(ValueError, match="JSON compliant"):
        render(contents)

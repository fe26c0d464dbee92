"""The HTML page of a report: contents become one file that needs nothing from outside."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping
from importlib import resources
from typing import Any, TypeAlias

from domaincal._optional import require
from domaincal._version import __version__

_PURPOSE = "the page of a report"
_Section: TypeAlias = dict[str, str]
# In the head, before anything is drawn: a page that is read in the dark does not flash.
_EARLY_SCRIPTS = ("theme.js",)
# One idea a file; the last one starts the page.
SCRIPTS = (
    "text.js", "contents.js", "choice.js", "intervals.js", "table.js", "figures.js", "points.js",
    "domains.js", "overview.js", "reliability.js", "methods.js", "temperatures.js",
    "unlabelled.js", "risk.js", "change.js", "start.js",
)  # fmt: skip
STYLES = ("page.css", "table.css", "figures.css", "print.css")
# Sections in the order of the page: id, title, words of the menu.
SECTIONS = (
    ("verdict", "The verdict", "Verdict"),
    ("change", "What changed since the earlier page", "Change"),
    ("domains", "Every domain, worst first", "Domains"),
    ("overview", "Does confidence mean what it says?", "Confidence"),
    ("reliability", "Confidence from low to high", "Reliability"),
    ("methods", "Which method was chosen, and why", "Methods"),
    ("temperatures", "Temperatures, predicted and learned", "Temperatures"),
    ("unlabelled", "What to expect on data without labels", "New data"),
    ("risk", "How many answers to accept", "Accepting"),
    ("missing", "What is not shown, and why", "Not shown"),
    ("run", "What was run", "Run"),
)
_PARTS = (
    "title", "verdict", "names", "protocol", "missing", "domains", "means", "reliability",
    "methods", "unlabelled", "risk", "change", "run",
)  # fmt: skip
# What stands for a number that is not there.
_NOTHING = "\N{EN DASH}"
# What </script> and comments are made of, and line ends of JavaScript that JSON does not escape.
_ESCAPES = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


def render(contents: Mapping[str, Any]) -> str:
    """Return the HTML page that shows the contents of a report.

    The page holds its scripts, its styles and the contents as JSON. Its Content-Security-Policy
    allows exactly these scripts and no request to anywhere.

    Parameters
    ----------
    contents : mapping
        ``Report.contents``: what JSON can hold, without NaN. A part that is missing or None is
        left out; if it has a sentence in ``contents["missing"]``, the page says why.

    Returns
    -------
    str

    Examples
    --------
    >>> verdict = {"state": "unknown", "headline": "There are no labels.", "sentences": []}
    >>> page = render({"title": "scores.npz", "verdict": verdict})
    >>> "<title>scores.npz" in page and "There are no labels." in page
    True
    """
    jinja2 = require("jinja2", extra="report", purpose=_PURPOSE)
    plotly = require("plotly.offline", extra="report", purpose=_PURPOSE)
    complete = dict.fromkeys(_PARTS) | dict(contents)
    scripts = {
        "early": _joined("js", _EARLY_SCRIPTS),
        "plotly": _script(plotly.get_plotlyjs()),
        "page": "(() => {\n'use strict';\n" + _joined("js", SCRIPTS) + "})();\n",
    }
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(asset),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters.update(percent=_percent, points=_points, count=_count)
    sections, missing = _sections(complete)
    page = environment.get_template("page.html").render(
        policy=_policy(scripts.values()),
        scripts=scripts,
        styles=_joined("css", STYLES),
        json=_json(complete),
        version=__version__,
        contents=complete,
        sections=sections,
        missing=missing,
    )
    # Names can hold halves of surrogate pairs, which no file in UTF-8 can.
    return str(page).encode("utf-8", "replace").decode("utf-8")


def _sections(contents: Mapping[str, Any]) -> tuple[list[_Section], list[_Section]]:
    """Sections that have something to show; and the others for which a sentence says why."""
    domains = contents["domains"]
    sentences = contents["missing"] or {}
    parts = dict(contents)
    parts["overview"] = domains
    parts["temperatures"] = domains and domains["temperature"]
    missing = [
        {"id": name, "title": title, "sentence": sentences[name]}
        for name, title, _ in SECTIONS
        if not parts[name] and name in sentences
    ]
    parts["missing"] = missing
    shown = [
        {"id": name, "title": title, "menu": menu} for name, title, menu in SECTIONS if parts[name]
    ]
    return shown, missing


def asset(name: str) -> str:
    """Text of a file of the page; browsers hash scripts with line ends of one character."""
    text = resources.files("domaincal.report").joinpath("assets", name).read_text(encoding="utf-8")
    return text.replace("\r\n", "\n")


def _joined(folder: str, names: Iterable[str]) -> str:
    return "".join(asset(f"{folder}/{name}") for name in names)


def _script(source: str) -> str:
    """The source for a script element, which its own text must not end or change."""
    return source.replace("\r\n", "\n").replace("</script", r"<\/script").replace("<!--", r"<\!--")


def _policy(scripts: Iterable[str]) -> str:
    """Content-Security-Policy that allows these scripts and no request."""
    digests = (hashlib.sha256(script.encode()).digest() for script in scripts)
    sources = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {sources}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _json(contents: Mapping[str, Any]) -> str:
    text = json.dumps(contents, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(_ESCAPES)


def _percent(fraction: float | None) -> str:
    return _NOTHING if fraction is None else f"{100 * fraction:.1f}%"


def _points(fraction: float | None) -> str:
    if fraction is None:
        return _NOTHING
    found = f"{100 * fraction:.1f}"
    return found.replace("-", "\N{MINUS SIGN}" if float(found) else "")


def _count(number: int | None) -> str:
    return _NOTHING if number is None else f"{number:,}"

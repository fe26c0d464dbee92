"""One HTML page of results for readers: contents as numbers, and the page that shows them."""

from __future__ import annotations

from domaincal.report.make_report import Report, make_report

__all__ = ["Report", "make_report"]

"""A browser without a network, and pages that must stay quiet in it."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from browser.pages import CALM

CHROMIUM = "/usr/bin/chromium"
OPTIONS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
AXE = Path(__file__).parent / "node_modules" / "axe-core" / "axe.min.js"


@dataclass
class OpenedPages:
    """Writes contents as files and opens them; notes what a quiet page would not do."""

    browser: Any
    folder: Path
    complaints: list[str] = field(default_factory=list)
    contexts: list[Any] = field(default_factory=list)

    def __call__(
        self, contents: dict, *, width: int = 1280, height: int = 900, script: str = "", **options
    ):
        """Open the contents as a page; ``script`` runs before those of the page."""
        from domaincal.report.page import render

        path = self.folder / f"page-{len(self.contexts)}.html"
        path.write_text(render(contents), encoding="utf-8")
        context = self.browser.new_context(
            viewport={"width": width, "height": height}, offline=True, reduced_motion="reduce",
            **options,
        )  # fmt: skip
        context.set_default_timeout(60_000)
        self.contexts.append(context)
        if script:
            context.add_init_script(script)
        page = context.new_page()
        page.on("console", self._note_message)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", self._note_dialog)
        page.on("request", self._note_request)
        page.goto(path.as_uri())
        return page

    def _note_message(self, message) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def _note_dialog(self, dialog) -> None:
        self.complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _note_request(self, request) -> None:
        if not request.url.startswith(("file:", "data:", "blob:")):
            self.complaints.append(f"request: {request.url}")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """Chromium of Debian, driven by playwright; closed before other modules use asyncio."""
    if not Path(CHROMIUM).exists():
        pytest.skip(f"there is no {CHROMIUM} (Debian: apt-get install chromium)")
    pytest.importorskip("plotly", reason="the extra report is not installed")
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield browser
        browser.close()


@pytest.fixture
def opened(chromium: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Open contents as pages; none may write to the console, ask, or request anything."""
    pages = OpenedPages(chromium, tmp_path)
    yield pages
    for context in pages.contexts:
        context.close()
    shutil.rmtree(tmp_path, ignore_errors=True)
    assert not pages.complaints


@pytest.fixture(scope="module")
def _kept(chromium: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenedPages]:
    pages = OpenedPages(chromium, tmp_path_factory.mktemp("kept"))
    yield pages
    for context in pages.contexts:
        context.close()


@pytest.fixture
def calm_page(_kept: OpenedPages) -> Iterator[Any]:
    """A page of ``CALM`` that tests share, because opening one takes a second; all is shown."""
    if not _kept.contexts:
        _kept(CALM)
    (page,) = _kept.contexts[0].pages
    yield page
    page.keyboard.press("Escape")
    assert not page.locator("#chip").is_visible()
    assert not _kept.complaints


@pytest.fixture
def axe() -> str:
    """Source of axe-core."""
    if not AXE.exists():
        pytest.skip("axe-core is not installed: npm install --prefix tests/browser")
    return AXE.read_text(encoding="utf-8")

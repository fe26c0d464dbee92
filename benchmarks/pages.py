"""``python -m benchmarks.pages [DOMAINS ...]``: size and time of pages of ``domaincal report``.

Synthetic rows, 20 of a domain at a time. For each number of domains: seconds to compute and to
render the page, its size, and seconds until Chromium, offline, has loaded it and drawn the first
figure. One machine does all; the times of the browser include those of 4.8 MB of plotly.
"""

import argparse
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import domaincal as dc
from domaincal.report import make_report

CHROMIUM = "/usr/bin/chromium"
DOMAINS = (10, 500, 5_000)
#: Rows of all domains together, if that leaves at least 20 of each.
ROWS = 20_000
_QUIET = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]


def load_seconds(browser: Any, path: Path) -> tuple[float, float]:
    """Seconds until the page is loaded, and until the figure of all domains is drawn."""
    page = browser.new_page(viewport={"width": 1280, "height": 900}, offline=True)
    start = time.perf_counter()
    page.goto(path.as_uri())
    loaded = time.perf_counter() - start
    page.locator("#overview").scroll_into_view_if_needed()
    while not page.evaluate("Boolean(document.querySelector('#overview .plot')?.data)"):
        page.wait_for_timeout(10)
    drawn = time.perf_counter() - start
    page.close()
    return loaded, drawn


def main() -> None:
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("domains", type=int, nargs="*", default=DOMAINS)
    options = parser.parse_args()
    print("| domains | computed, s | rendered, s | size, MB | loaded, s | drawn, s |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=_QUIET)
        for n_domains in options.domains:
            data, _ = dc.make_multi_domain(n_domains, max(20, ROWS // n_domains), random_state=0)
            start = time.perf_counter()
            with warnings.catch_warnings(action="ignore"):
                report = make_report(data, batch_size=20)
            computed = time.perf_counter() - start
            path = Path(folder, "report.html")
            start = time.perf_counter()
            report.save(path)
            rendered = time.perf_counter() - start
            best = min(load_seconds(browser, path) for _ in range(3))
            print(
                f"| {n_domains} | {computed:.1f} | {rendered:.2f} | "
                f"{path.stat().st_size / 1e6:.2f} | {best[0]:.2f} | {best[1]:.2f} |",
                flush=True,
            )
        browser.close()


if __name__ == "__main__":
    main()

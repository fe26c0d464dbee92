"""Make the pages in docs/pages, and the picture of the first one in the README.

``python tools/example_pages.py OUT --data FOLDER [--tiny ROWS]``, where FOLDER holds
``wisdm/wisdm_watch_accel.csv.gz`` (see examples/wisdm.py). OUT/digits-c.html is the page of
``domaincal demo``; OUT/wisdm.html has five random people without labels; OUT/tiny-imagenet-c.html
is about ROWS, which ``python -m benchmarks.accuracy.tiny_networks`` writes. Pictures of the pages,
1280 pixels wide, are written beside them.
"""

import argparse
import importlib.util
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import sync_playwright

import domaincal as dc
from domaincal.experiments.demo import (
    DEMO_TITLE,
    corruption_report,
    demo_data,
    demo_experiment,
)
from domaincal.report import Report, make_report

_CHROMIUM = "/usr/bin/chromium"
_NEW_PEOPLE = 5


def digits_page() -> Report:
    """Page that ends ``domaincal demo``."""
    experiment = demo_experiment(random_state=0, repeats=1, heads=False, binning=False)
    with tempfile.TemporaryDirectory() as folder:
        data = demo_data(experiment, Path(folder))
    return corruption_report(data, title=DEMO_TITLE, command="domaincal demo")


def people_page(folder: Path) -> Report:
    """Page of 30 people, and of five whose labels are taken away."""
    place = Path(__file__).parents[1] / "examples" / "wisdm.py"
    spec = importlib.util.spec_from_file_location("wisdm", place)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    data = example.load(folder, random_state=0)
    people = np.random.default_rng(0).choice(data.domain_names, _NEW_PEOPLE, replace=False)
    known, new = dc.split_domains(data, sorted(people.tolist()))
    unlabelled = dc.CalibrationData(new.logits, features=new.features, domains=new.domains)
    return make_report(
        known, unlabelled=unlabelled, batch_size=20, title="WISDM: activities by a smartwatch"
    )


def tiny_imagenet_page(rows: Path) -> Report:
    """Page of a small network on Tiny-ImageNet-C."""
    title = f"Tiny-ImageNet-C: {rows.stem.removeprefix('tiny-')}, trained on a CPU"
    return corruption_report(dc.read(rows), title=title)


def take_picture(browser: Any, page: Path, *, height: int) -> None:
    """Picture of the top of a page."""
    opened = browser.new_page(viewport={"width": 1280, "height": height}, color_scheme="light")
    opened.goto(page.as_uri())
    opened.locator("#overview").scroll_into_view_if_needed()
    while not opened.evaluate("Boolean(document.querySelector('#overview .plot')?.data)"):
        opened.wait_for_timeout(20)
    opened.evaluate("scrollTo(0, 0)")
    opened.wait_for_timeout(500)
    opened.screenshot(path=page.with_suffix(".png"))
    opened.close()


def main() -> None:
    """Write the pages and the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--tiny", type=Path, metavar="ROWS")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    pages = {"digits-c": digits_page(), "wisdm": people_page(options.data)}
    if options.tiny is not None:
        pages["tiny-imagenet-c"] = tiny_imagenet_page(options.tiny)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_CHROMIUM, args=["--no-sandbox"])
        for name, report in pages.items():
            report.save(options.out / f"{name}.html")
            print(f"{name}: {report.contents['verdict']['headline']}")
            take_picture(browser, (options.out / f"{name}.html").resolve(), height=1100)
        browser.close()


if __name__ == "__main__":
    main()

"""The blocks of the pages: commands print what is shown, Python blocks run."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import domaincal as dc
from domaincal import calibrators
from domaincal.calibrators.files.registry import METHODS

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "docs/command-line.md",
        "docs/experiments.md",
        "docs/monitor.md",
        "docs/onnx.md",
        "docs/report.md",
        "docs/sites.md",
    ],
)
def test_console_blocks_show_what_the_commands_print(page):
    done = subprocess.run(
        [sys.executable, ROOT / "tools/console_docs.py", ROOT / page], capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("page", "n", "said"),
    [
        ("files.md", 6, "CalibrationData(3000 rows, 10 classes, 16 features, 6 domains)"),
        ("experiments.md", 3, "oracle"),
        ("methods.md", 4, "pooled_error"),
        ("report.md", 1, "on the average unseen domain"),
        ("scores.md", 2, "p_calibrated"),
        ("sites.md", 1, "1800 rows of 3 sites, sha256"),
    ],
)
def test_python_blocks_run(page, n, said, capsys):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text(), re.DOTALL)
    assert len(blocks) == n
    for block in blocks:
        exec(compile(block, page, "exec"), {"__name__": "docs"})
    assert said in capsys.readouterr().out


def test_the_page_of_methods_has_every_method_and_warning():
    page = (ROOT / "docs/methods.md").read_text()
    needs = page[page.index("## What each method needs") : page.index("## For all domains")]
    for name, cls in METHODS.items():
        assert f"`{name}`" in needs
        assert f"`{cls.__name__}`" in needs
    described = set(re.findall(r"\*\*`(\w+)", page))
    assert described == set(calibrators.__all__) - {"load"}
    warnings = [
        name for name, cls in vars(dc.errors).items()
        if isinstance(cls, type) and issubclass(cls, dc.DomaincalWarning)
    ]  # fmt: skip
    assert set(re.findall(r"^\| `(\w+Warning)`", page, re.MULTILINE)) == {
        name for name in warnings if name != "DomaincalWarning"
    }


def test_links_of_the_pages_lead_to_files():
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")):
        text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
        for link in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
            if not link.startswith("http"):
                assert (page.parent / link).exists(), (page, link)

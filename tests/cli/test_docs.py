"""The blocks of the pages: commands print what is shown, Python blocks run."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("page", ["README.md", "docs/command-line.md", "docs/experiments.md"])
def test_console_blocks_show_what_the_commands_print(page):
    done = subprocess.run(
        [sys.executable, ROOT / "tools/console_docs.py", ROOT / page], capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("page", "n", "said"),
    [
        ("files.md", 2, "CalibrationData(3000 rows, 10 classes, 16 features, 6 domains)"),
        ("experiments.md", 3, "oracle"),
    ],
)
def test_python_blocks_run(page, n, said, capsys):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text(), re.DOTALL)
    assert len(blocks) == n
    for block in blocks:
        exec(compile(block, page, "exec"), {"__name__": "docs"})
    assert said in capsys.readouterr().out

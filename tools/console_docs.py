"""Run the commands in the ``console`` blocks of a page and compare their output with the page.

``python tools/console_docs.py docs/command-line.md`` prints the differences and fails if there are
any; with ``--write`` it writes the output of the commands into the page.
"""

import argparse
import difflib
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

_BLOCK = re.compile(r"(?<=```console\n).*?(?=```)", re.DOTALL)
# A block whose first line is a comment with a file name is written to that file.
_FILE = re.compile(r"```(?:toml|python)\n(# ([\w.-]+\.\w+)\n.*?)```", re.DOTALL)


def rendered(page: str, folder: str) -> str:
    """Page with the current output of its commands."""
    for content, name in _FILE.findall(page):
        Path(folder, name).write_text(content)
    return _BLOCK.sub(lambda block: _run_block(block.group(), folder), page)


def _run_block(block: str, folder: str) -> str:
    commands = [line for line in block.splitlines() if line.startswith("$ ")]
    return "".join(f"{command}\n{_output(command[2:], folder)}" for command in commands)


def _output(command: str, folder: str) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, text=True, check=False, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, "PATH": path, "OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip
    return "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines())


def main() -> int:
    """Compare or rewrite one page; returns 1 if they differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    old = options.page.read_text()
    with tempfile.TemporaryDirectory() as folder:
        new = rendered(old, folder)
    if options.write:
        options.page.write_text(new)
        return 0
    sys.stdout.writelines(difflib.unified_diff(old.splitlines(True), new.splitlines(True)))
    return int(old != new)


if __name__ == "__main__":
    sys.exit(main())

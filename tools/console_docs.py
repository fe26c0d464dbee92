"""Run the commands in the ``console`` blocks of a page and compare their output with the page.

``python tools/console_docs.py docs/command-line.md`` prints the differences and fails if there are
any; with ``--write`` it writes the output of the commands into the page.
"""

import argparse
import difflib
import importlib
import os
import re
import shlex
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

# Imported before the first fork, so that no command spends time on it.
_PRELOADED = ("domaincal.cli", "domaincal.evaluation", "domaincal.kernels.numba_sums")
_BLOCK = re.compile(r"(?<=```console\n).*?(?=```)", re.DOTALL)
# Words and quoted strings, up to the first operator of the shell.
_WORDS = r"""(?:[^'"|;&<>]|'[^']*'|"[^"]*")"""
# A block whose first line is a comment with a file name is written to that file.
_FILE = re.compile(r"```(?:toml|python)\n(# ([\w.-]+\.\w+)\n.*?)```", re.DOTALL)
# The last digits of a number, and with them the size of a csv, differ between processors.
_DIGITS = re.compile(r"(?<=\.\d{9})\d+")
_SIZE = re.compile(r"\([\d.]+ [kM]?B\)")


def comparable(page: str) -> list[str]:
    """Lines of a page without what differs between processors."""
    return _SIZE.sub("(size)", _DIGITS.sub("", page)).splitlines(True)


def rendered(page: str, folder: str) -> str:
    """Page with the current output of its commands, run in a folder beside the examples."""
    Path(folder, "examples").symlink_to(Path(__file__).parents[1] / "examples")
    for content, name in _FILE.findall(page):
        Path(folder, name).write_text(content)
    return _BLOCK.sub(lambda block: _run_block(block.group(), folder), page)


def _run_block(block: str, folder: str) -> str:
    commands = [line for line in block.splitlines() if line.startswith("$ ")]
    return "".join(f"{command}\n{_output(command[2:], folder)}" for command in commands)


def _output(command: str, folder: str) -> str:
    """Standard output and error of a shell command.

    A leading ``domaincal`` runs in a fork of this process, which has imported the library. The
    shell gets its output and exit status, and runs the rest of the command (``| tail -n 2``).
    """
    first, rest = re.fullmatch(rf"({_WORDS}*)(.*)", command, re.DOTALL).groups()
    if first.startswith("domaincal "):
        status = _run_in_fork(shlex.split(first)[1:], folder)
        command = f"(cat .stdout; cat .stderr >&2; exit {status}) {rest}"
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, text=True, check=False, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, "PATH": path},
    )  # fmt: skip
    return "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines())


def _run_in_fork(arguments: list[str], folder: str) -> int:
    """Exit status of ``domaincal``; its output is in the files .stdout and .stderr."""
    from domaincal.cli import main as domaincal

    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os.chdir(folder)
        for descriptor, name in enumerate([os.devnull, ".stdout", ".stderr"]):
            os.dup2(os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC), descriptor)
        status = 1
        try:
            domaincal(arguments, prog_name="domaincal")
        except SystemExit as exit_:
            status = exit_.code if isinstance(exit_.code, int) else int(exit_.code is not None)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main() -> int:
    """Compare or rewrite one page; returns 1 if they differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # read when numpy is imported
    os.environ.update(COLUMNS="80", LC_ALL="C.UTF-8")  # the same output on every machine
    for module in _PRELOADED:
        importlib.import_module(module)
    old = options.page.read_text()
    with tempfile.TemporaryDirectory() as folder:
        new = rendered(old, folder)
    if options.write:
        options.page.write_text(new)
        return 0
    old_lines, new_lines = comparable(old), comparable(new)
    sys.stdout.writelines(difflib.unified_diff(old_lines, new_lines))
    return int(old_lines != new_lines)


if __name__ == "__main__":
    sys.exit(main())

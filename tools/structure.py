"""Measure the structure of the package: ``python tools/structure.py [SRC]``.

Prints files, lines and code lines of each part, public names, the longest chain of imports, frames
from a verb to the kernel, long functions, long signatures, and evaluations of the head in apply.
SRC is the folder of the package, by default ``src`` of this checkout.
"""

import ast
import io
import subprocess
import sys
import tokenize
from collections import defaultdict
from functools import cache
from pathlib import Path

PARTS = {
    "core": (
        "kernels", "statistics", "data", "calibrators", "metrics", "io", "plots", "datasets",
        "evaluation", "selection",
    ),
    "vision": ("vision", "extract"),
    "experiments": ("experiments",),
    "cli": ("cli",),
}  # fmt: skip
# Modules of datasets/ that were not about images, before vision/ was a folder.
NOT_IMAGES = ("__init__.py", "synthetic.py", "domain_table.py")
LONG = 40


def code_lines(source: str) -> int:
    """Lines that hold code: neither blank, nor comments, nor docstrings."""
    kept = set()
    previous = tokenize.NEWLINE
    skipped = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
               tokenize.ENCODING, tokenize.ENDMARKER)  # fmt: skip
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        docstring = token.type == tokenize.STRING and previous in (
            tokenize.NEWLINE, tokenize.INDENT, tokenize.NL,
        )  # fmt: skip
        if token.type not in skipped and not docstring:
            kept.update(range(token.start[0], token.end[0] + 1))
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            previous = token.type
    return len(kept)


def part_of(path: Path, package: Path) -> str:
    """Name of the part that a file belongs to."""
    first = path.relative_to(package).parts[0]
    if first == "datasets" and not (package / "vision").exists() and path.name not in NOT_IMAGES:
        return "vision"
    return next((part for part, rooms in PARTS.items() if first in rooms), "shared")


def sizes(package: Path) -> dict[str, list[int]]:
    """Files, lines and code lines of each part."""
    found: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for path in sorted(package.rglob("*.py")):
        source = path.read_text()
        numbers = (1, len(source.splitlines()), code_lines(source))
        for name in (part_of(path, package), "all"):
            found[name] = [a + b for a, b in zip(found[name], numbers, strict=True)]
    return found


def long_functions(package: Path) -> list[tuple[int, str]]:
    """Functions with more than 40 lines after the docstring, longest first."""
    found = []
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                body = node.body[1:] if ast.get_docstring(node) is not None else node.body
                lines = node.end_lineno - body[0].lineno + 1 if body else 0
                if lines > LONG:
                    found.append((lines, f"{path.relative_to(package)}:{node.name}"))
    return sorted(found, reverse=True)


def longest_chain(source: Path) -> list[str]:
    """The longest chain of modules in which each imports the next, cycles left out."""
    sys.path.insert(0, str(source))
    import grimp

    graph = grimp.build_graph("domaincal", cache_dir=None)
    busy = set()

    @cache
    def chain(module: str) -> tuple[str, ...]:
        busy.add(module)
        below = [m for m in graph.find_modules_directly_imported_by(module) if m not in busy]
        longest = max((chain(m) for m in below), key=len, default=())
        busy.discard(module)
        return (module, *longest)

    return list(max((chain(m) for m in sorted(graph.modules)), key=len))


def run_inside(source: Path, code: str) -> str:
    """Output of a script that uses the package in ``source``."""
    script = f"import sys; sys.path.insert(0, {str(source)!r})\n{code}"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, check=True
    )
    return done.stdout.strip().splitlines()[-1]


PUBLIC = "import domaincal as dc; print(len(dc.__all__))"
SIGNATURES = """
import inspect, domaincal as dc
things = [getattr(dc, name) for name in dc.__all__]
members = [m for t in things if inspect.isclass(t) for n, m in vars(t).items()
           if not n.startswith("_") and inspect.isfunction(m)]
functions = [f for f in (*things, *members) if callable(f)]
def length(f):
    try:
        return len(str(inspect.signature(f)))
    except (TypeError, ValueError):
        return 0
print(max(map(length, functions)))
"""
PREPARED = """
import os, tempfile, contextlib, io
import numpy as np, domaincal as dc
from domaincal.cli import main
folder = tempfile.mkdtemp(); os.chdir(folder)
data, _ = dc.make_multi_domain(6, 60, 5, 4)
dc.write(data, "scores.csv")
def run(*words):
    with contextlib.redirect_stdout(io.StringIO()):
        main(list(words), standalone_mode=False)
"""
FRAMES = (
    PREPARED
    + """
import importlib
for name in ("numpy_kernels", "plain"):
    try:
        kernels = importlib.import_module(f"domaincal.kernels.{name}")
        break
    except ImportError:
        pass
import sys
depths = []
original = kernels.temperature_sums
def spy(*given, **named):
    frame, depth = sys._getframe(1), 1
    while frame is not None and not (
        frame.f_code.co_name == "evaluate" and "/cli/" in frame.f_code.co_filename
    ):
        depth += "/domaincal/" in frame.f_code.co_filename
        frame = frame.f_back
    depths.append(depth)
    return original(*given, **named)
kernels.temperature_sums = spy
run("evaluate", "scores.csv", "--methods", "md-ts")
print(max(depths))
"""
)
HEADS = (
    PREPARED
    + """
from domaincal.statistics import LinearMap
run("fit", "scores.csv", "-o", "model.safetensors", "--method", "md-ts")
calls = []
original = LinearMap.__call__
LinearMap.__call__ = lambda self, x: calls.append(len(x)) or original(self, x)
run("apply", "model.safetensors", "scores.csv", "-o", "out.csv")
print(sum(n == len(data) for n in calls))
"""
)


def main(source: Path) -> None:
    """Print all measurements."""
    package = source / "domaincal"
    print(f"{'part':12} {'files':>6} {'lines':>7} {'code':>7}")
    for part, numbers in sizes(package).items():
        print(f"{part:12} {numbers[0]:6} {numbers[1]:7} {numbers[2]:7}")
    print("public names:", run_inside(source, PUBLIC))
    print("longest signature, characters:", run_inside(source, SIGNATURES))
    chain = longest_chain(source)
    print(f"longest import chain: {len(chain)} modules ({' > '.join(chain)})")
    print("frames from cli.evaluate to the kernel:", run_inside(source, FRAMES))
    print("head evaluations of all rows in apply:", run_inside(source, HEADS))
    functions = long_functions(package)
    print(f"functions above {LONG} lines: {len(functions)}")
    for lines, name in functions[:8]:
        print(f"  {lines} {name}")


if __name__ == "__main__":
    given = sys.argv[1:] or [str(Path(__file__).parents[1] / "src")]
    main(Path(given[0]).resolve())

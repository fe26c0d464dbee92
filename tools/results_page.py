"""Make a page of docs/results from the folder that ``domaincal reproduce`` wrote.

``python tools/results_page.py OUT docs/results/wisdm.md "WISDM: people" "domaincal reproduce ..."``
puts the tables of OUT into the page, under the command that made them, and copies its figures and
tables to a folder beside it. What the page says above the mark is kept.
"""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

from domaincal.experiments.targets import TARGETS

_MARK = "<!-- made by tools/results_page.py from here on -->"


def page(out: Path, target: Path, title: str, command: str) -> str:
    """The text of the page."""
    before = f"# {title}\n\n"
    if target.exists() and _MARK in target.read_text():
        before = target.read_text().split(_MARK)[0]
    known = json.loads((out / "provenance.json").read_text())
    versions = ", ".join(f"{name} {number}" for name, number in known[0]["versions"].items())
    parts = [f"```sh\n{command}\n```\n", f"Tables by Python {known[0]['python']}, {versions}.\n"]
    parts += _networks(known)
    folder = target.with_suffix("")
    folder.mkdir(exist_ok=True)
    copied = ["means"]
    for name in TARGETS:
        if (out / f"{name}.md").exists():
            parts.append((out / f"{name}.md").read_text())
            copied.append(name)
        elif (out / f"{name}.png").exists():
            shutil.copyfile(out / f"{name}.png", folder / f"{name}.png")
            about = f"{name}: {TARGETS[name].about}"
            parts.append(f"![{about}]({folder.name}/{name}.png)\n\n*{about}*\n")
    for name in copied:
        shutil.copyfile(out / f"{name}.csv", folder / f"{name}.csv")
    links = ", ".join(f"[{name}.csv]({folder.name}/{name}.csv)" for name in copied)
    parts.append(f"The same numbers as files: {links}.\n")
    return before + _MARK + "\n\n" + "\n".join(parts)


def _networks(known: list[dict[str, Any]]) -> list[str]:
    """A table of the networks that were trained for it, if any."""
    lines = []
    for experiment in known:
        for name, rows in experiment["rows"].items():
            for own in rows:
                if "network epochs" not in own:
                    continue
                said = {key.removeprefix("network "): value for key, value in own.items()}
                made, accuracy = said["versions"], said["accuracy"]
                lines.append(
                    f"| {experiment['experiment']}, {name} | {said['timm']} "
                    f"| {'-' if accuracy is None else f'{100 * accuracy:.1f}%'} "
                    f"| {said['epochs']} | {said['seconds']:.0f} s "
                    f"| {said['device']}, torch {made['torch']}, timm {made['timm']} |"
                )
    if not lines:
        return []
    return ["\n".join([
        "**Networks**\n",
        "| network | timm | clean accuracy | epochs | training | where |",
        "| --- | --- | ---: | ---: | ---: | --- |",
        *lines,
        "",
    ])]  # fmt: skip


if __name__ == "__main__":
    _out, _target = Path(sys.argv[1]), Path(sys.argv[2])
    _target.parent.mkdir(parents=True, exist_ok=True)
    _target.write_text(page(_out, _target, *sys.argv[3:5]))

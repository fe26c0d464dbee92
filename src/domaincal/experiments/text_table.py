"""Text tables: plain text, Markdown or LaTeX."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_LATEX = str.maketrans({
    "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}",
    "±": r"$\pm$", "|": r"\textbar{}", "<": r"\textless{}", ">": r"\textgreater{}",
})  # fmt: skip


@dataclass(frozen=True)
class Line:
    """A name and its numbers; ``best`` is the index of the number to mark."""

    name: str
    numbers: tuple[str, ...]
    best: int | None = None


@dataclass(frozen=True)
class Block:
    """Lines under a heading."""

    heading: str
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class TextTable:
    """A table of blocks of lines; a line is a name and one number for each column.

    Attributes
    ----------
    title, name_column : str
    columns : tuple of str
    blocks : tuple of Block
    best : str
        Legend of the marked numbers.
    notes : tuple of str
        Paragraphs below the table.
    """

    title: str
    name_column: str
    columns: tuple[str, ...]
    blocks: tuple[Block, ...]
    best: str = "the lowest"
    notes: tuple[str, ...] = ()

    def text(self) -> str:
        """The table as plain text; the best number of a line has a star."""
        rows = {
            line: [line.name, *_marked(line, "", "*")]
            for block in self.blocks
            for line in block.lines
        }
        header = [self.name_column, *self.columns]
        widths = [max(map(len, column)) for column in zip(header, *rows.values(), strict=True)]

        def joined(values: Sequence[str]) -> str:
            first, *others = values
            parts = [v.rjust(w) for v, w in zip(others, widths[1:], strict=True)]
            return "  ".join([first.ljust(widths[0]), *parts]).rstrip()

        rule = "-" * (sum(widths) + 2 * (len(widths) - 1))
        lines = [self.title, "", joined(header)]
        for block in self.blocks:
            lines += [rule, block.heading, *(joined(rows[line]) for line in block.lines)]
        return "\n".join([*lines, rule, f"*: {self.best}.", *self.notes]) + "\n"

    def markdown(self) -> str:
        """The table in Markdown; the best number of a line is bold."""
        empty = [""] * len(self.columns)
        rows = [[self.name_column, *self.columns], ["---", *(["---:"] * len(self.columns))]]
        for block in self.blocks:
            rows.append([f"*{block.heading}*", *empty])
            rows += [[line.name, *_marked(line, "**", "**")] for line in block.lines]
        lines = ["| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |" for row in rows]
        notes = [f"\n{note}" for note in (f"Bold: {self.best}.", *self.notes)]
        return "\n".join([f"**{self.title}**", "", *lines, *notes]) + "\n"

    def latex(self) -> str:
        """The table in LaTeX, for the package booktabs; the best number of a line is bold."""
        body = []
        for block in self.blocks:
            heading = block.heading.translate(_LATEX)
            body += [r"\midrule", rf"\multicolumn{{{1 + len(self.columns)}}}{{l}}{{{heading}}} \\"]
            for line in block.lines:
                numbers = [number.translate(_LATEX) for number in line.numbers]
                if line.best is not None:
                    numbers[line.best] = rf"\textbf{{{numbers[line.best]}}}"
                body.append(" & ".join([line.name.translate(_LATEX), *numbers]) + r" \\")
        head = " & ".join(name.translate(_LATEX) for name in (self.name_column, *self.columns))
        texts = (f"{self.title}.", f"Bold: {self.best}.", *self.notes)
        caption = " ".join(text.translate(_LATEX) for text in texts)
        return "\n".join([
            r"\begin{table}", r"\centering", rf"\caption{{{caption}}}",
            rf"\begin{{tabular}}{{l{'r' * len(self.columns)}}}", r"\toprule", head + r" \\", *body,
            r"\bottomrule", r"\end{tabular}", r"\end{table}", "",
        ])  # fmt: skip


def _marked(line: Line, before: str, after: str) -> list[str]:
    """Numbers of a line, with signs around the best one."""
    return [
        f"{before}{number}{after}" if k == line.best else number
        for k, number in enumerate(line.numbers)
    ]

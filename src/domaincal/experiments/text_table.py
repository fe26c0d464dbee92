"""Text tables: plain text, Markdown or LaTeX."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence
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
        """The table as plain text, with its legend; the best number of a line has a star."""
        return "\n".join([*self.text_lines(), *self.legend()]) + "\n"

    def legend(self) -> tuple[str, ...]:
        """Paragraphs below a table in plain text."""
        return (f"*: {self.best}.", *self.notes)

    def text_lines(self, width: int | None = None, shown: Callable[[str], str] = str) -> list[str]:
        """Lines of the table in plain text, without its legend.

        Columns that do not fit into ``width`` characters, even with smaller gaps, follow below.
        ``shown`` replaces signs that the output cannot show.
        """
        rows = {
            line: [shown(cell) for cell in (line.name, *_marked(line, "", "*"))]
            for block in self.blocks
            for line in block.lines
        }
        header = [shown(name) for name in (self.name_column, *self.columns)]
        widths = [max(map(len, column)) for column in zip(header, *rows.values(), strict=True)]
        is_narrow = width is not None and sum(widths) + 2 * (len(widths) - 1) > width
        gap = " " if is_narrow else "  "
        lines = [*_wrapped(shown(self.title), width), ""]
        for part in _fitting_columns(widths, len(gap), width):

            def joined(values: Sequence[str], part: Sequence[int] = part) -> str:
                cells = [values[k].rjust(widths[k]) for k in part]
                return gap.join([values[0].ljust(widths[0]), *cells]).rstrip()

            rule = "-" * (widths[0] + sum(len(gap) + widths[k] for k in part))
            lines.append(joined(header))
            for block in self.blocks:
                lines += [rule, *_wrapped(shown(block.heading), width)]
                lines += [joined(rows[line]) for line in block.lines]
            lines.append(rule)
        return lines

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


def _fitting_columns(widths: Sequence[int], gap: int, width: int | None) -> Iterator[list[int]]:
    """Columns that fit beside the first one, part by part; a part has at least one column."""
    part: list[int] = []
    for k in range(1, len(widths)):
        used = widths[0] + sum(gap + widths[j] for j in [*part, k])
        if part and width is not None and used > width:
            yield part
            part = []
        part.append(k)
    yield part


def _wrapped(text: str, width: int | None) -> list[str]:
    return [text] if width is None else textwrap.wrap(text, width, break_long_words=False)

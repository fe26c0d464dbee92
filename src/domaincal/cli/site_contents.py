"""Contents of files of sites, as text and as JSON documents."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from domaincal.cli.console import print_json, records, say
from domaincal.cli.table_layout import Section, print_numbers
from domaincal.cli.tables import percent

if TYPE_CHECKING:
    import pandas as pd

    from domaincal.distributed import SiteAnswers, SiteSums

# Of more domains, only the first are printed; --json has all.
_SHOWN_DOMAINS = 60


def inspect_site_file(path: Path, *, as_json: bool) -> None:
    """Print what a file of sums, of a plan or of answers holds, and what it is for."""
    from domaincal.distributed import SiteAnswers, SitePlan, SiteSums, load_site

    found = load_site(path)
    kind = {SiteSums: "sums", SitePlan: "plan", SiteAnswers: "answers"}[type(found)]
    table = found.table() if isinstance(found, SiteSums) else None
    if as_json:
        content = {
            "path": str(path), "content": kind, **vars(found.rows),
            "domains": found.rows.domains.tolist(),
            "n_rows": None if isinstance(found, SitePlan) else int(found.n_rows.sum()),
            "arrays": None if isinstance(found, SitePlan) else records(found.contents()),
            "table": None if table is None else records(table),
        }  # fmt: skip
        print_json("site file", content)
        return
    _print_head(found, path)
    if table is not None:
        print_domains(table, "Domains of the site, before calibration")
    if not isinstance(found, SitePlan):
        print_arrays(found)
        say("It goes to domaincal site combine, with the files of all other sites.")


def print_arrays(found: SiteSums | SiteAnswers) -> None:
    """Print each array of a file with its size and its meaning."""
    contents = found.contents()
    name, size = (int(contents[column].str.len().max()) for column in ("array", "size"))
    for row in contents.itertuples():
        line = f"  {row.array:{name}}  {row.size:>{size}}  {row.meaning}"
        say(line, indent=" " * (name + size + 6))


def print_domains(domains: pd.DataFrame, title: str) -> None:
    """Print accuracy, confidence and ECE of each domain before calibration, and its temperature."""
    rows = [
        [
            str(row["domain"]), str(row["n"]), percent(row["accuracy"]),
            percent(row["mean_confidence"]), percent(row["ece"]), f"{row['temperature']:.3g}",
        ]
        for row in records(domains.head(_SHOWN_DOMAINS))
    ]  # fmt: skip
    columns = ["domain", "n", "accuracy %", "confidence %", "ECE %", "T"]
    print_numbers(title, columns, [Section("", rows)])
    if len(domains) > _SHOWN_DOMAINS:
        say(f"and {len(domains) - _SHOWN_DOMAINS} more domains; --json prints all.")


def _print_head(found: Any, path: Path) -> None:
    from domaincal.distributed import SiteAnswers, SitePlan

    rows = found.rows
    domains = f"{len(rows.domains)} domain{'s' if len(rows.domains) > 1 else ''}"
    if isinstance(found, SitePlan):
        say(f"{path} (plan of a second round): {rows.n_classes} classes, {domains} of all sites")
        say(f"Every site answers it: domaincal site summarize DATA --given {path} -o FILE.")
        return
    kind = "answers of a site to a plan" if isinstance(found, SiteAnswers) else "sums of a site"
    say(f"{path} ({kind}): {int(found.n_rows.sum())} rows, {rows.n_classes} classes, {domains}")
    say(f"fingerprint: {rows.fingerprint}")

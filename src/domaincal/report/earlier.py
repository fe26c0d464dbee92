"""Contents of an earlier page, and what has changed since."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np
import pandas as pd

from domaincal._files import open_file
from domaincal._wording import few
from domaincal.errors import FileFormatError
from domaincal.metrics import compare_methods
from domaincal.report.plain_values import array, number, signed, text

#: What every page says about its contents.
FORMAT, VERSION = "domaincal report", 1
#: Tags around the contents in a page.
CONTENTS_START = '<script type="application/json" id="report-contents">'
CONTENTS_END = "</script>"
# Larger files are no pages of ours.
_MOST_BYTES = 1 << 28
_MAKE = "give a page that domaincal report has written"
_MOST_ROWS = 500
_COLUMNS = ("n", "accuracy", "ece")


def read_contents(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Contents of a page that ``domaincal report`` has written.

    Parameters
    ----------
    path : path of an ``.html`` file

    Examples
    --------
    >>> import domaincal.report
    >>> contents = read_contents("earlier.html")  # doctest: +SKIP
    """
    with open_file(path) as file:
        page = file.read(_MOST_BYTES).decode("utf-8", "replace")
    start = page.find(CONTENTS_START)
    if start < 0:
        raise FileFormatError(f"{path} has no contents of a report in it; {_MAKE}.")
    start += len(CONTENTS_START)
    end = page.find(CONTENTS_END, start)
    try:
        contents = json.loads(page[start:end] if end >= 0 else "")
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{path} is truncated or damaged; {_MAKE}.") from error
    if not isinstance(contents, dict) or contents.get("format") != FORMAT:
        raise FileFormatError(f"{path} holds the contents of something else; {_MAKE}.")
    version = contents.get("version")
    if not isinstance(version, int) or version > VERSION:
        raise FileFormatError(
            f"{path} has version {version!r} of the contents, newer than {VERSION}, which this "
            "version of domaincal reads; install a newer domaincal."
        )
    try:
        _results(contents)
        _ = contents["title"], contents["names"]["after"], contents["run"]["made"]
    except (KeyError, TypeError, ValueError) as error:
        raise FileFormatError(f"{path} is damaged ({error!r}); {_MAKE}.") from error
    return contents


def change_since(earlier: dict[str, Any], contents: dict[str, Any]) -> dict[str, Any]:
    """Section ``change``: the calibrated method in the domains of both pages."""
    before, now = _results(earlier), _results(contents)
    both = before.add_suffix("_before").join(now.add_suffix("_after"), how="inner")
    sentences = _sentences(before, now, both)
    first, second = (one["names"]["after"] for one in (earlier, contents))
    if first != second:
        sentences.append(f"The calibration was: {text(first)}; it is: {second}.")
    largest = (
        (both["ece_after"] - both["ece_before"]).abs().sort_values(ascending=False, kind="stable")
    )
    return {
        "since": text(earlier["run"]["made"]),
        "title": text(earlier["title"]),
        "sentences": sentences,
        "rows": [
            {"name": name, **{str(key): _plain(str(key), value) for key, value in row.items()}}
            for name, row in both.loc[largest.index[:_MOST_ROWS]].to_dict("index").items()
        ],
    }


def _plain(key: str, value: float) -> float | int | None:
    return int(value) if key.startswith("n_") and value == value else number(value)


def _results(contents: dict[str, Any]) -> pd.DataFrame:
    """Number of rows, accuracy and calibrated ECE of each domain, by name."""
    domains = contents["domains"]
    if domains is None:
        return pd.DataFrame(columns=list(_COLUMNS), dtype=np.float64)
    names = domains["name"]
    if not all(isinstance(name, str) for name in names):
        raise ValueError("names that are no text")
    columns = {"n": domains["n"], "accuracy": domains["accuracy"], "ece": domains["after"]["ece"]}
    found = {name: array(values) for name, values in columns.items()}
    if any(values.shape != (len(names),) for values in found.values()):
        raise ValueError("columns of other lengths")
    table = pd.DataFrame(found, index=pd.Index(names, dtype=object))
    # Long names that were shortened to the same text cannot be told apart.
    return table[~table.index.duplicated(keep=False)]


def _sentences(before: pd.DataFrame, now: pd.DataFrame, both: pd.DataFrame) -> list[str]:
    sentences = []
    if len(both) == 0:
        sentences.append("The pages have no labelled domain in common.")
    else:
        sentences += _compared(both)
    for what, table, other in (("new", now, before), ("no longer there", before, now)):
        names = [name for name in table.index if name not in other.index]
        if names:
            listed = few([name[:60] for name in names], 5)
            plural = "domain is" if len(names) == 1 else "domains are"
            sentences.append(f"{len(names)} {plural} {what}: {listed}.")
    return sentences


def _compared(both: pd.DataFrame) -> list[str]:
    """Mean change of ECE and accuracy over the domains of both pages."""
    known = both[["ece_before", "ece_after"]].dropna()
    if not len(known):
        return []
    parts = [
        pd.DataFrame({"method": name, "domain": known.index, "ece": known[f"ece_{name}"]})
        for name in ("before", "after")
    ]
    found = compare_methods(pd.concat(parts), "after", "before")
    plural = "domain" if len(known) == 1 else "domains"
    text_of_change = (
        f"In the {len(known)} {plural} of both pages, the mean calibration error (ECE) after "
        f"calibration was {100 * found.second:.1f}% and is {100 * found.first:.1f}%"
    )
    if len(known) > 1:
        text_of_change += (
            f" ({signed(100 * found.difference)} points, 95% interval {signed(100 * found.low)} to "
            f"{signed(100 * found.high)}"
        )
        text_of_change += ")" if found.is_clear else ", not a clear change)"
    accuracy = both["accuracy_after"].mean() - both["accuracy_before"].mean()
    return [
        f"{text_of_change}.",
        f"Their mean accuracy was {100 * both['accuracy_before'].mean():.1f}% and is "
        f"{100 * both['accuracy_after'].mean():.1f}% ({signed(100 * accuracy)} points).",
    ]

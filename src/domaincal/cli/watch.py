"""``domaincal watch``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from domaincal.cli.column_options import column_options
from domaincal.cli.options import DATA_HELP, data_argument, json_option, max_memory_option

if TYPE_CHECKING:
    import pandas as pd

    from domaincal.cli.options import InputData
    from domaincal.data import CalibrationData
    from domaincal.data.column_choice import ColumnChoice
    from domaincal.deploy import TemperatureMonitor
    from domaincal.shift import ConfidenceEstimator

_NUMBERS = ("rows", "temperature", "accuracy", "interval", "verdict")
# Reasons of verdicts that are printed; --json has all.
_SHOWN_REASONS = 3


@click.command(short_help="Follow the accuracy of unlabelled rows in order.", epilog=DATA_HELP)
@click.argument("model", type=click.Path(path_type=Path))
@data_argument
@click.option(
    "--by", metavar="COLUMN",
    help="Column of DATA with times or numbers, the order of the rows. [default: as in DATA]",
)  # fmt: skip
@click.option(
    "--every", type=click.IntRange(min=1), default=500, show_default=True, metavar="N",
    help="Print the state after each N rows of DATA.",
)  # fmt: skip
@click.option(
    "--window", type=click.IntRange(min=1), metavar="N",
    help="The last N rows of each domain count. [default: 1000]",
)  # fmt: skip
@click.option(
    "--half-life", type=click.FloatRange(min=0, min_open=True), metavar="N",
    help="All rows count; the weight of a row halves with each N later rows of its domain.",
)  # fmt: skip
@column_options
@max_memory_option
@json_option
def watch(
    model: Path,
    data: Path,
    by: str | None,
    every: int,
    window: int | None,
    half_life: float | None,
    columns: ColumnChoice,
    max_memory: int | None,
    as_json: bool,
) -> None:
    """Follow the predicted accuracy of the rows of DATA, which need no labels, in their order.

    After each N rows, for each domain that got rows: the number of its last rows that count; the
    temperature of these rows, plus or minus its standard error; the accuracy that the classifier
    is expected to have on them, and an interval for it; and a verdict: whether the scores look
    like those of a domain of the fit (inside), unlike most of them (edge) or unlike all of them
    (outside: do not rely on the estimate).

    MODEL is a file that domaincal fit has written from at least three domains. In Python,
    TemperatureMonitor does the same for rows as they come.

    \b
    Examples:
      domaincal watch model.safetensors day.csv --by time
      domaincal watch model.safetensors day.csv --by time --domain camera --every 200
      domaincal watch model.safetensors day.npz --half-life 300
    """
    from domaincal.cli.console import working
    from domaincal.cli.method_options import require_prediction_inputs
    from domaincal.cli.model_floor import with_floor_of_fit
    from domaincal.cli.options import read_input
    from domaincal.deploy import TemperatureMonitor
    from domaincal.io.formats import is_table
    from domaincal.shift import load_estimator

    if window is not None and half_life is not None:
        raise click.UsageError("--window and --half-life exclude each other; give one of them.")
    if by is not None and not is_table(data):
        raise click.UsageError(
            "--by names a column of a table; use .csv, .csv.gz or .parquet for DATA, or leave it "
            "out: the rows are taken in the order of DATA."
        )
    estimator = load_estimator(model)
    monitor = TemperatureMonitor(estimator, window=window, half_life=half_life)
    columns = with_floor_of_fit(columns, [model])
    source = read_input(data, columns, max_memory=max_memory, keep="none" if by is None else "all")
    require_prediction_inputs(estimator.calibrator_, model, source)
    if source.data.domains is None:
        source.warn_of_no_domains("all rows count as one domain")
    rows, values = source.data, None
    if by is not None:
        column = _column(source, by)
        order = _order(column, source.path)
        rows, values = rows.select(order), column.iloc[order]
    with working(f"watching {source.path}"):
        table = _states(monitor, rows, values, every)
    if as_json:
        given = {"every": every, "by": by, **monitor.parameters()}
        _print_document(model, source, table, estimator, given)
    else:
        _print_table(table, estimator, source, by)


def _states(
    monitor: TemperatureMonitor, rows: CalibrationData, values: pd.Series | None, every: int
) -> pd.DataFrame:
    """State of each domain that got rows, after each ``every`` rows.

    The columns: those of the monitor after ``rows``, the number of rows so far, and ``at``, the
    text of the last value by which the rows are ordered, or None.
    """
    import numpy as np
    import pandas as pd

    states = []
    for start in range(0, len(rows), every):
        block = rows[start : start + every]
        monitor.update(block)
        state = monitor.status()
        if block.domains is not None:
            state = state[state["domain"].isin(np.unique(block.domains).tolist())]
        n = start + len(block)
        state.insert(0, "rows", n)
        state.insert(1, "at", None if values is None else str(values.iloc[n - 1]))
        states.append(state)
    return pd.concat(states, ignore_index=True)


def _column(source: InputData, name: str) -> pd.Series:
    from domaincal._wording import few
    from domaincal.errors import InputError

    if source.kept is None or name not in source.kept:
        others = few(map(repr, source.ignored), 12)
        raise InputError(
            f"{source.path} has no column {name!r} to order the rows by"
            f"{f' (other columns: {others})' if others else ''}; name another one with --by, or "
            "leave it out."
        )
    return source.kept[name].reset_index(drop=True)


def _order(values: pd.Series, path: Path) -> Any:
    """Numbers of the rows in ascending order of their values; rows of equal value keep theirs."""
    import numpy as np
    import pandas as pd
    from pandas.api import types

    from domaincal.errors import InputError

    keys = values
    if not (types.is_numeric_dtype(values) or types.is_datetime64_any_dtype(values)):
        texts = values.astype(str)
        parsed = [
            pd.to_numeric(texts, errors="coerce"),
            pd.to_datetime(texts, format="ISO8601", utc=True, errors="coerce"),
        ]
        keys = min(parsed, key=lambda series: series.isna().sum())
    if keys.isna().any():
        row = int(np.argmax(keys.isna()))
        raise InputError(
            f"row {row + 1} of {path} has {str(values[row])!r} in the column {values.name!r}, "
            "which is neither a number nor a time such as 2026-03-01 12:30; give another column "
            "with --by, or leave it out."
        )
    return keys.sort_values(kind="stable").index.to_numpy()


def _print_document(
    model: Path,
    source: InputData,
    table: pd.DataFrame,
    estimator: ConfidenceEstimator,
    given: dict[str, Any],
) -> None:
    from domaincal.cli.console import print_json, records
    from domaincal.cli.options import described

    content = {
        "model": str(model),
        "coverage": estimator.coverage,
        "n_domains_of_fit": estimator.n_domains_,
        **given,
        "states": records(table),
        "data": described(source),
    }
    print_json("watch", content)


def _print_table(
    table: pd.DataFrame, estimator: ConfidenceEstimator, source: InputData, by: str | None
) -> None:
    from domaincal.cli.console import records, say
    from domaincal.cli.table_layout import Section, print_numbers
    from domaincal.shift.conformal import needed_domains

    order = "" if by is None else f", in the order of {by}"
    title, numbers = f"Predicted accuracy in %{order}", [*_NUMBERS]
    states: dict[str, list[list[str]]] = {}
    for row in records(table):
        after = f"{row['rows']} rows" + ("" if by is None else f", {row['at']}")
        states.setdefault(after, []).append([str(row["domain"]), *_cells(row)])
    if source.data.domains is None:
        rows = [[after, *cells] for after, ((_, *cells),) in states.items()]
        print_numbers(title, ["after", *numbers], [Section("", rows)])
    else:
        sections = [Section(f"after {after}", rows) for after, rows in states.items()]
        print_numbers(title, ["domain", *numbers], sections)
    needed = needed_domains(estimator.coverage)
    if estimator.residuals_.n_domains < needed:
        say(
            f"There are no intervals: one that holds for {100 * estimator.coverage:g}% of new "
            f"domains needs a fit to {needed} domains, and this one had {estimator.n_domains_}."
        )
    last = table.drop_duplicates("domain", keep="last")
    far = records(last[last["verdict"] != "inside"])
    for row in far[:_SHOWN_REASONS]:
        say(f"{row['domain']} is now {row['verdict']}. {row['reason']}")
    if len(far) > _SHOWN_REASONS:
        say(f"and {len(far) - _SHOWN_REASONS} more domains that are not inside; --json prints all.")


def _cells(row: dict[str, Any]) -> list[str]:
    """Cells of the columns of numbers."""
    temperature, error = f"{row['temperature']:.3g}", row["temperature_error"]
    if error == error:  # NaN, if the fit had fewer than three domains
        temperature += f" ± {100 * error:.0f}%"
    accuracy, low, high = (f"{100 * row[key]:.1f}" for key in ("predicted_accuracy", "low", "high"))
    return [str(row["n"]), temperature, accuracy, f"{low} to {high}", row["verdict"]]

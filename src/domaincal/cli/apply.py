"""``domaincal apply``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from domaincal.cli.column_options import column_options
from domaincal.cli.options import (
    DATA_HELP,
    data_argument,
    force_option,
    json_option,
    max_memory_option,
    output_option,
)

if TYPE_CHECKING:
    import pandas as pd

    from domaincal.cli.options import InputData
    from domaincal.data.column_choice import ColumnChoice
    from domaincal.io.kept_columns import Keep


@click.command(short_help="Write calibrated probabilities of new rows.", epilog=DATA_HELP)
@click.argument("model", type=click.Path(path_type=Path))
@data_argument
@output_option(required=True, text="Table of the predictions: .parquet, .csv, .csv.gz or .npz.")
@click.option(
    "--keep", type=click.Choice(["all", "none"]),
    help="Repeat all columns of DATA but the scores, or none but those of id, label, domain and "
    "group. [default: all, if DATA and the output are tables]",
)  # fmt: skip
@column_options
@max_memory_option
@force_option
@json_option
def apply(
    model: Path,
    data: Path,
    output: Path,
    keep: Literal["all", "none"] | None,
    columns: ColumnChoice,
    max_memory: int | None,
    force: bool,
    as_json: bool,
) -> None:
    """Write the calibrated probabilities that MODEL gives to the rows of DATA.

    If MODEL predicts batches (fit --batch), the rows of each domain of DATA are one batch; without
    domains, all rows are one batch.

    If DATA is a table (.csv, .csv.gz, .parquet), its columns come first, as they are, without the
    scores; with --keep none, and for other files, label, domain and group, if DATA has them. Then
    come predicted, confidence, temperature (if the method has one) and prob_* of each class. Every
    verb can read the output as DATA.

    \b
    Examples:
      domaincal apply model.safetensors new.npz -o probabilities.parquet
      domaincal apply m.safetensors cases.csv -o p.csv --logits 'z_*' --id case
    """
    from domaincal.calibrators import load
    from domaincal.cli.console import print_json, say
    from domaincal.cli.method_options import require_prediction_inputs
    from domaincal.cli.model_floor import with_floor_of_fit
    from domaincal.cli.options import claimed, described, opened_input, read_input, size_of
    from domaincal.data import BlockedRows
    from domaincal.io.conversion import streams
    from domaincal.io.prediction_files import require_table_format

    require_table_format(output)
    kept = _columns_to_keep(keep, data, output)
    with claimed(output, force=force), ExitStack() as stack:
        calibrator = load(model)
        columns = with_floor_of_fit(columns, [model])
        if streams(data, output):
            opened = opened_input(data, columns, max_memory=max_memory, keep=kept)
            source = stack.enter_context(opened)
        else:
            source = read_input(data, columns, max_memory=max_memory, keep=kept)
        require_prediction_inputs(calibrator, model, source)
        if source.data.domains is None and calibrator.predicts_batches():
            source.warn_of_no_domains("all rows count as one batch from one place")
        write = _write_blocks if isinstance(source.data, BlockedRows) else _write
        written = write(source, calibrator, model, output, kept)
        facts = described(source)
    confidence = written.confidence / written.n_rows
    if as_json:
        content = {"model": str(model), "output": str(output), "mean_confidence": confidence}
        print_json("application", {**content, "data": facts})
        return
    temperature = ""
    if written.temperatures is not None:
        low, high = written.temperatures
        temperature = f", temperatures {low:.3g} to {high:.3g}"
        if low == high:
            temperature = f", temperature {low:.3g}"
    say(
        f"{written.n_rows} rows: mean confidence {100 * confidence:.2f}%{temperature}; written to "
        f"{output} ({size_of(output)})"
    )


@dataclass
class _Written:
    """Sums over the rows of a table of predictions."""

    n_rows: int = 0
    confidence: float = 0.0
    temperatures: tuple[float, float] | None = None

    def add(self, table: pd.DataFrame) -> None:
        """Add the rows of a part of the table."""
        self.n_rows += len(table)
        self.confidence += float(table["confidence"].sum())
        if "temperature" in table:
            low, high = float(table["temperature"].min()), float(table["temperature"].max())
            known = self.temperatures or (low, high)
            self.temperatures = min(low, known[0]), max(high, known[1])


def _write(source: InputData, calibrator: Any, model: Path, output: Path, kept: Keep) -> _Written:
    """Write the predictions of rows in memory."""
    from domaincal.cli.console import working
    from domaincal.evaluation import prediction_table
    from domaincal.io.prediction_files import write_table

    with working(f"applying {model}"):
        shown = source.kept if kept == "all" else _ids_and_names(source, calibrator)
        table = prediction_table(calibrator, source.data, keep=shown)
    if kept == "all":
        _report_kept(source, [] if source.kept is None else source.kept.columns.tolist(), table)
    with working(f"writing {output}"):
        write_table(table, output)
    written = _Written()
    written.add(table)
    return written


def _write_blocks(
    source: InputData, calibrator: Any, model: Path, output: Path, kept: Keep
) -> _Written:
    """Write the predictions of rows that are read in blocks, block by block."""
    from domaincal.cli.console import reading
    from domaincal.evaluation.prediction_table import prediction_tables
    from domaincal.io.prediction_files import write_table_parts

    written = _Written()
    names: list[str] = []

    def kept_parts(n_rows: int) -> Iterator[pd.DataFrame]:
        for part in source.kept_parts(n_rows) if source.kept_parts is not None else ():
            names[:] = part.columns.tolist()
            yield part

    def noted(tables: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for table in tables:
            if not written.n_rows and kept == "all":
                _report_kept(source, names, table)
            written.add(table)
            yield table

    passes = 2 if calibrator.predicts_batches() else 1
    with reading(f"applying {model}", source.data, passes=passes) as rows:
        tables = prediction_tables(
            calibrator, rows, keep=None if source.kept_parts is None else kept_parts,
            keep_names=kept == "id",
        )  # fmt: skip
        write_table_parts(noted(tables), output, len(rows))
    return written


def _columns_to_keep(keep: Literal["all", "none"] | None, data: Path, output: Path) -> Keep:
    """Columns of DATA that the output repeats."""
    from domaincal.io.formats import is_table, suffix_of

    are_tables = is_table(data) and suffix_of(output) != ".npz"
    if keep == "all" and not are_tables:
        raise click.UsageError(
            "--keep all repeats the columns of a table in a table; use .csv, .csv.gz or .parquet "
            "for both DATA and the output, or leave it out."
        )
    return "all" if are_tables and keep != "none" else "id"


def _ids_and_names(source: InputData, calibrator: Any) -> pd.DataFrame | None:
    """The ids beside label, domain and group; None without ids."""
    import pandas as pd

    from domaincal.io.columns import single_columns

    if source.kept is None or not source.kept.shape[1]:
        return None
    names = source.data.class_names or calibrator.class_names_
    return pd.concat([source.kept, single_columns(source.data, names)], axis=1)


def _report_kept(source: InputData, names: list[str], table: pd.DataFrame) -> None:
    """Say which columns of the data have other names in the table, or are missing there."""
    from domaincal._wording import few
    from domaincal.cli.console import say

    renamed = [f"{a} to {b}" for a, b in zip(names, table.columns, strict=False) if a != b]
    if renamed:
        say(f"renamed, as predictions have these names: {few(renamed, 12)}", err=True)
    missing = [repr(name) for name in source.ignored if name not in names]
    if missing:
        say(f"warning: not kept, as they hold lists or bytes: {few(missing, 12)}", err=True)

"""``domaincal apply``."""

from __future__ import annotations

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
    from domaincal.cli.console import print_json, say, working
    from domaincal.cli.method_options import require_prediction_inputs
    from domaincal.cli.model_floor import with_floor_of_fit
    from domaincal.cli.options import claimed, described, read_input, size_of
    from domaincal.evaluation import prediction_table
    from domaincal.io.prediction_files import require_table_format, write_table

    require_table_format(output)
    kept = _columns_to_keep(keep, data, output)
    with claimed(output, force=force):
        calibrator = load(model)
        columns = with_floor_of_fit(columns, [model])
        source = read_input(data, columns, max_memory=max_memory, keep=kept)
        require_prediction_inputs(calibrator, model, source)
        if source.data.domains is None and calibrator.predicts_batches():
            source.warn_of_no_domains("all rows count as one batch from one place")
        with working(f"applying {model}"):
            shown = source.kept if kept == "all" else _ids_and_names(source, calibrator)
            table = prediction_table(calibrator, source.data, keep=shown)
        if kept == "all":
            _report_kept(source, table)
        with working(f"writing {output}"):
            write_table(table, output)
    confidence = float(table["confidence"].mean())
    if as_json:
        content = {"model": str(model), "output": str(output), "mean_confidence": confidence}
        print_json("application", {**content, "data": described(source)})
        return
    temperature = ""
    if "temperature" in table:
        low, high = table["temperature"].min(), table["temperature"].max()
        temperature = f", temperatures {low:.3g} to {high:.3g}"
        if low == high:
            temperature = f", temperature {low:.3g}"
    say(
        f"{len(table)} rows: mean confidence {100 * confidence:.2f}%{temperature}; written to "
        f"{output} ({size_of(output)})"
    )


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


def _report_kept(source: InputData, table: pd.DataFrame) -> None:
    """Say which columns of the data have other names in the table, or are missing there."""
    from domaincal._wording import few
    from domaincal.cli.console import say

    names = [] if source.kept is None else source.kept.columns.tolist()
    renamed = [f"{a} to {b}" for a, b in zip(names, table.columns, strict=False) if a != b]
    if renamed:
        say(f"renamed, as predictions have these names: {few(renamed, 12)}", err=True)
    missing = [repr(name) for name in source.ignored if name not in names]
    if missing:
        say(f"warning: not kept, as they hold lists or bytes: {few(missing, 12)}", err=True)

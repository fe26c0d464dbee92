"""``domaincal apply``."""

from __future__ import annotations

from pathlib import Path

import click

from domaincal.cli.options import (
    DATA_HELP,
    data_argument,
    force_option,
    json_option,
    max_memory_option,
    output_option,
    probabilities_option,
)


@click.command(short_help="Write calibrated probabilities of new rows.", epilog=DATA_HELP)
@click.argument("model", type=click.Path(path_type=Path))
@data_argument
@output_option(required=True, text="Table of the predictions: .parquet, .csv or .npz.")
@probabilities_option
@max_memory_option
@force_option
@json_option
def apply(
    model: Path,
    data: Path,
    output: Path,
    probabilities: bool,
    max_memory: int | None,
    force: bool,
    as_json: bool,
) -> None:
    """Write the calibrated probabilities that MODEL gives to the rows of DATA.

    If MODEL predicts batches (fit --batch), the rows of each domain of DATA are one batch; without
    domains, all rows are one batch.

    The table has the columns label, domain and group (if DATA has them), predicted, confidence,
    temperature (if the method has one) and prob_* of each class. Every verb can read it as DATA.

    \b
    Examples:
      domaincal apply model.safetensors new.npz -o probabilities.parquet
    """
    from domaincal.calibrators import load
    from domaincal.cli.console import print_json, say, working
    from domaincal.cli.options import claimed, described, read_input, size_of
    from domaincal.evaluation import prediction_table
    from domaincal.io.prediction_files import require_table_format, write_table

    require_table_format(output)
    with claimed(output, force=force):
        calibrator = load(model)
        source = read_input(data, probabilities=probabilities, max_memory=max_memory)
        if source.data.domains is None and calibrator.predicts_batches():
            source.warn_of_no_domains("all rows count as one batch from one place")
        with working(f"applying {model}"):
            table = prediction_table(calibrator, source.data)
        with working(f"writing {output}"):
            write_table(table, output)
    confidence = float(table["confidence"].mean())
    if as_json:
        content = {"model": str(model), "output": str(output), "mean_confidence": confidence}
        print_json("application", {**content, "data": described(data, source.data)})
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

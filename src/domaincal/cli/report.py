"""``domaincal report``."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from domaincal.cli.column_options import column_options
from domaincal.cli.options import (
    DATA_HELP,
    data_argument,
    force_option,
    json_option,
    max_memory_option,
    output_option,
    seed_option,
)

if TYPE_CHECKING:
    from domaincal.cli.options import InputData
    from domaincal.data.column_choice import ColumnChoice
    from domaincal.report import Report


@click.command(short_help="Write a page about the calibration of a file.", epilog=DATA_HELP)
@data_argument
@output_option(required=True, text="File of the page, .html.")
@click.option(
    "--model", type=click.Path(path_type=Path),
    help="Score this calibrator, from domaincal fit, on all rows.",
)  # fmt: skip
@click.option(
    "--ood", multiple=True,
    help="Domains that are unseen: a name, or a pattern such as 'night-*'. Half of the rows of the "
    "others are fitted, and the other half is scored. Can be given several times.",
)  # fmt: skip
@click.option(
    "--unlabelled", type=click.Path(path_type=Path), metavar="NEW",
    help="File of new domains, whose accuracy is predicted. It needs no labels.",
)  # fmt: skip
@click.option(
    "--batch", metavar="1|N|domain",
    help="Number of rows from one place that are predicted together: single rows, N rows, or all "
    "rows of a domain. [default: 1, or what the model was chosen for]",
)  # fmt: skip
@click.option(
    "--bins", type=click.IntRange(1, 100), default=15, show_default=True,
    help="Number of bins of the ECE.",
)  # fmt: skip
@seed_option
@click.option("--title", help="Name of the data on the page. [default: name of the file]")
@click.option(
    "--baseline", type=click.Path(path_type=Path), metavar="FILE",
    help="An earlier page; the new one shows what has changed.",
)  # fmt: skip
@column_options
@max_memory_option
@force_option
@json_option
@click.pass_context
def report(
    context: click.Context,
    data: Path,
    output: Path,
    model: Path | None,
    ood: tuple[str, ...],
    unlabelled: Path | None,
    batch: str | None,
    bins: int,
    seed: int,
    title: str | None,
    baseline: Path | None,
    columns: ColumnChoice,
    max_memory: int | None,
    force: bool,
    as_json: bool,
) -> None:
    """Write one HTML page about the calibration of DATA: a verdict in words, figures, tables.

    Every domain is scored as unseen, by a method that is fitted to the other domains and chosen by
    them; with --ood, the domains that it names are. With --model, a fitted calibrator is scored.
    The page is one file that opens offline and asks for nothing from the net. It needs the extra
    report.

    \b
    Examples:
      domaincal report scores.npz -o report.html
      domaincal report scores.npz --batch 50 --unlabelled new.npz -o report.html
      domaincal report scores.npz --ood 'night-*' -o report.html
      domaincal report new.csv --model model.safetensors -o report.html
      domaincal report scores.npz --baseline last-month.html -o report.html
    """
    from domaincal.cli.command_text import command_text
    from domaincal.cli.console import progress, working
    from domaincal.cli.method_options import auto_calibration
    from domaincal.cli.options import claimed, described, opened_input
    from domaincal.report.make_report import make_report, require_page

    batch_size = None if batch is None else auto_calibration(batch).batch_size
    require_page(output)
    with ExitStack() as stack:
        stack.enter_context(claimed(output, force=force))
        columns = _columns_of_model(columns, model)
        source = stack.enter_context(opened_input(data, columns, max_memory=max_memory))
        rows = described(source)
        _require_arrays(source, model, ood)
        new = None
        if unlabelled is not None:
            # The labels of new domains are not used: their column may be missing.
            new = stack.enter_context(
                opened_input(unlabelled, replace(columns, label=None), max_memory=max_memory)
            )
        if model is not None:
            _require_inputs_of_model(model, source, new)
        with progress("scoring left-out domains") as track:
            made = make_report(
                source.data, model, ood, None if new is None else new.data, batch_size, bins,
                source.path.name if title is None else title, baseline, seed,
                command=command_text(context), track=track,
            )  # fmt: skip
        with working(f"writing {output}"):
            made.save(output)
    _print(made, output, rows, as_json=as_json)


def _columns_of_model(columns: ColumnChoice, model: Path | None) -> ColumnChoice:
    """The columns, with the floor of the fit of the model."""
    from domaincal.cli.model_floor import with_floor_of_fit

    return columns if model is None else with_floor_of_fit(columns, [model])


def _require_arrays(source: InputData, model: Path | None, ood: tuple[str, ...]) -> None:
    """Raise an error if the file does not have what the options need."""
    from domaincal.data.splits import matching_domains

    if model is None:
        source.require(
            "labels", needed_by="report",
            alternative="pass --model, from domaincal fit, to predict the accuracy without labels",
        )  # fmt: skip
    if ood:
        source.require("domains", needed_by="--ood")
        matching_domains(source.data, ood, argument="--ood")
    elif source.data.domains is None:
        source.warn_of_no_domains(
            "all rows count as one domain, and the page tells nothing about unseen ones"
        )


def _require_inputs_of_model(model: Path, source: InputData, new: InputData | None) -> None:
    """Raise an error if a file does not have the classes and features of the fit."""
    from domaincal.calibrators import load
    from domaincal.cli.method_options import require_prediction_inputs
    from domaincal.cli.model_estimator import stored_estimator

    if source.data.labels is not None:
        require_prediction_inputs(load(model), model, source)
    else:
        new = source
    estimator = stored_estimator(model)
    if new is not None and estimator is not None:
        require_prediction_inputs(estimator.calibrator_, model, new)


def _print(made: Report, output: Path, rows: dict[str, Any], *, as_json: bool) -> None:
    """Print the verdict, and the name of the page."""
    from domaincal.cli.console import print_json, say
    from domaincal.cli.options import size_of

    contents = made.contents
    if as_json:
        keys = ("verdict", "names", "protocol", "means", "methods", "unlabelled", "change",
                "missing")  # fmt: skip
        shown = {key: contents[key] for key in keys}
        print_json("report", {"output": str(output), **shown, "data": rows})
        return
    say(contents["verdict"]["headline"])
    for sentence in contents["verdict"]["sentences"]:
        say(sentence)
    if contents["change"] is not None:
        for sentence in contents["change"]["sentences"]:
            say(sentence)
    say(f"page written to {output} ({size_of(output)})")

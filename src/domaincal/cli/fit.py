"""``domaincal fit``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from domaincal.cli.cluster_options import cluster_options
from domaincal.cli.column_options import column_options
from domaincal.cli.method_options import METHODS_HELP
from domaincal.cli.options import (
    DATA_HELP,
    data_argument,
    force_option,
    json_option,
    max_memory_option,
    output_option,
)

if TYPE_CHECKING:
    from domaincal.cli.cluster_options import ClusterChoice
    from domaincal.cli.options import InputData
    from domaincal.data.column_choice import ColumnChoice


@click.command(short_help="Fit a calibrator and save it.", epilog=f"{METHODS_HELP} {DATA_HELP}")
@data_argument
@output_option(required=True, text="File of the calibrator, .safetensors.")
@click.option("--method", help="Method to fit. [default: chosen by left-out domains, or ts]")
@click.option(
    "--batch", metavar="1|N|domain",
    help="Number of rows from one place that are predicted together, for the choice of the method: "
    "single rows, N rows, or all rows of a domain. [default: 1]",
)  # fmt: skip
@click.option("--head", help="Head of md-ts: ols, ridge, huber, krr or knn.")
@column_options
@max_memory_option
@cluster_options
@force_option
@json_option
def fit(
    data: Path,
    output: Path,
    method: str | None,
    batch: str | None,
    head: str | None,
    columns: ColumnChoice,
    max_memory: int | None,
    cluster: ClusterChoice,
    force: bool,
    as_json: bool,
) -> None:
    """Fit a calibrator on all rows of DATA and save it.

    Without --method, the method is chosen by its scores on domains of DATA that are left out of the
    fit: batch, unless it is worse than temperature scaling (ts) there, or another method that is
    surely better. The method of the paper is --method md-ts.

    From three domains on, the file also holds what domaincal estimate and domaincal watch need.

    \b
    Examples:
      domaincal fit scores.npz -o model.safetensors
      domaincal fit scores.npz -o model.safetensors --batch 100
      domaincal fit scores.npz -o model.safetensors --method md-ts --head ols
      domaincal fit scores.csv -o model.safetensors --method ts
      domaincal fit cases.csv -o m.safetensors --probabilities 'p_*' --domain site
      domaincal fit scores.npz -o model.safetensors --method md-ts:target=log
    """
    from domaincal.calibrators.files.model_file import save_calibrator
    from domaincal.cli.console import print_json, reading, say
    from domaincal.cli.inspect import model_facts
    from domaincal.cli.method_options import (
        auto_calibration,
        default_method,
        parse_method,
        require_inputs,
    )
    from domaincal.cli.model_estimator import estimator_sections, fit_estimator
    from domaincal.cli.model_floor import floor_section
    from domaincal.cli.options import claimed, described, opened_input, size_of
    from domaincal.cli.tables import print_model
    from domaincal.errors import InputError

    _check_method(method, batch, head)
    if output.suffix != ".safetensors":
        raise InputError(f"{output} must end in .safetensors, the format of calibrators.")
    with (
        claimed(output, force=force),
        opened_input(data, columns, max_memory=max_memory, cluster=cluster) as source,
    ):
        rows = described(source)
        source.require("labels", needed_by="fit")
        is_chosen = method is None and head is None
        if is_chosen:
            calibrator = auto_calibration(batch)
            title = "choosing a method by left-out domains"
        else:
            method = method or default_method(source.data)
            method += "" if head is None else f":head={head}"
            calibrator = parse_method(method)
            require_inputs(calibrator, method, source)
            title = f"fitting {method}"
        with reading(title, source.data) as read, _file_named_in_warnings(source):
            calibrator.fit(read)
        calibrator = getattr(calibrator, "best_", calibrator)
        with reading("leaving domains out, for domaincal estimate", source.data) as read:
            estimator = fit_estimator(calibrator, read)
        sections = {**floor_section(source.floor), **estimator_sections(estimator)}
        save_calibrator(calibrator, output, sections)
    if as_json:
        facts = model_facts(calibrator, source.floor, estimator)
        print_json("fit", {"output": str(output), "calibrator": facts, "data": rows})
        return
    print_model(calibrator, source.floor, estimator)
    if is_chosen and batch is None and len(calibrator.provenance_.table):
        say("chosen for single rows; if rows come from one domain at a time, pass --batch N")
    say(f"written to {output} ({size_of(output)})")


@contextmanager
def _file_named_in_warnings(source: InputData) -> Iterator[None]:
    """Say which column of the file could be the domain, if the fit misses domains."""
    from domaincal._warnings import handle_warnings, warn_caller
    from domaincal.errors import SmallDomainWarning

    def warn(message: str, category: type[Warning]) -> None:
        if source.data.domains is None and issubclass(category, SmallDomainWarning):
            source.warn_of_no_domains(
                "one temperature is fitted for all rows, and nothing can be known about new domains"
            )
        else:
            warn_caller(message, category)

    with handle_warnings(warn):
        yield


def _check_method(method: str | None, batch: str | None, head: str | None) -> None:
    """Raise an error for wrong options before the data are read."""
    from domaincal._specs import Spec
    from domaincal.cli.method_options import auto_calibration, parse_method

    if batch is not None and (method is not None or head is not None):
        raise click.UsageError(
            "--batch is for the choice of the method; leave out --method and --head, or --batch."
        )
    auto_calibration(batch)
    spec = Spec.parse(method or "md-ts")
    if head is not None and spec.name != "md-ts":
        raise click.UsageError("--head is an option of md-ts; leave it out, or use --method md-ts.")
    if head is not None and "head" in spec.keys(()):
        raise click.UsageError("--method names a head already; leave out --head.")
    parse_method((method or "md-ts") + ("" if head is None else f":head={head}"))

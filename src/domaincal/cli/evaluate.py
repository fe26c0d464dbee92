"""``domaincal evaluate``."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from domaincal.cli.cluster_options import cluster_options
from domaincal.cli.column_options import column_options
from domaincal.cli.figure_option import figure_option
from domaincal.cli.gate_options import GateOptions, fraction
from domaincal.cli.method_options import METHODS_HELP
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
    import pandas as pd

    from domaincal.cli.baseline import Baseline
    from domaincal.cli.cluster_options import ClusterChoice
    from domaincal.data.column_choice import ColumnChoice

#: Exit status of a failed gate.
GATE_FAILED = 3


@click.command(
    short_help="Compare methods, domain by domain.", epilog=f"{METHODS_HELP} {DATA_HELP}"
)
@data_argument
@click.option(
    "--methods", help="Methods to fit, separated by commas. [default: msp,ts,md-ts,batch]"
)
@click.option(
    "--model", "models", multiple=True, type=click.Path(path_type=Path),
    help="Fitted calibrator to score on all rows, instead of methods. Can be given several times.",
)  # fmt: skip
@click.option(
    "--ood", multiple=True,
    help="Domains to leave out of the fit: a name, or a pattern such as 'night-*'. Can be given "
    "several times.",
)  # fmt: skip
@click.option(
    "--leave-one-domain-out", is_flag=True,
    help="Score each domain with methods fitted on all other domains.",
)  # fmt: skip
@click.option(
    "--folds", type=click.IntRange(min=2), metavar="K",
    help="With --leave-one-domain-out: deal the domains at random into K folds, and leave out one "
    "fold at a time. Faster if there are many domains. [default: a fold for each domain]",
)  # fmt: skip
@click.option(
    "--split", type=click.Choice(["row", "group"]),
    help="Fit on half of the rows, or on half of the groups, so that no group is both fitted and "
    "scored. [default: group if DATA has groups, else row]",
)  # fmt: skip
@click.option(
    "--bins", type=click.IntRange(1, 10_000), default=15, show_default=True,
    help="Number of bins of the ECE.",
)  # fmt: skip
@seed_option
@click.option(
    "--fail-above", callback=fraction, metavar="FRACTION",
    help="Gate: exit with status 3 if the score of the last method is above this (0.05 or 5%).",
)  # fmt: skip
@click.option(
    "--baseline", type=click.Path(path_type=Path), metavar="FILE",
    help="Compare the score of the last method with FILE, which an earlier evaluate --json has "
    "printed, over the domains of both.",
)  # fmt: skip
@click.option(
    "--fail-worse", callback=fraction, metavar="FRACTION",
    help="Gate: exit with status 3 if the score is above that of --baseline by more than this "
    "(0.005 or 0.5% for half a point).",
)  # fmt: skip
@click.option(
    "--fail-on", type=click.Choice(["excess", "ece", "gap"]),
    help="Score of the gates. [default: excess]",
)  # fmt: skip
@click.option("--worst", is_flag=True, help="Gate on the worst domain instead of the mean.")
@output_option(
    required=False,
    text="Write the table of all scores, one row for each method and domain: .csv, .parquet or "
    ".json.",
)
@figure_option("Draw the ECE of every domain: .png, .svg or .pdf (extra plots).")
@column_options
@max_memory_option
@cluster_options
@force_option
@click.option(
    "--markdown", is_flag=True,
    help="Print a summary in GitHub's Markdown instead of tables, for pages of CI.",
)  # fmt: skip
@json_option
def evaluate(
    data: Path,
    methods: str | None,
    models: tuple[Path, ...],
    ood: tuple[str, ...],
    leave_one_domain_out: bool,
    folds: int | None,
    split: str | None,
    bins: int,
    seed: int,
    fail_above: float | None,
    baseline: Path | None,
    fail_worse: float | None,
    fail_on: str | None,
    worst: bool,
    output: Path | None,
    figure: Path | None,
    columns: ColumnChoice,
    max_memory: int | None,
    cluster: ClusterChoice,
    force: bool,
    markdown: bool,
    as_json: bool,
) -> None:
    """Fit methods on one part of DATA and score them, domain by domain, on the rest.

    The methods are fitted on a random half of every domain. They are scored on the other half, and
    on all rows of the domains that --ood leaves out of the fit (OOD domains). Methods that predict
    batches, such as batch, get all scored rows of a domain as one batch, without labels. The gates
    compare the score of the last method, over OOD domains if there are any, else over InD domains.

    \b
    Examples:
      domaincal evaluate scores.csv
      domaincal evaluate scores.npz --methods ts,md-ts --ood 'night-*' --bins 20
      domaincal evaluate scores.npz --leave-one-domain-out --folds 10
      domaincal evaluate scores.npz -o table.csv --plot domains.png
      domaincal evaluate new.npz --model model.safetensors --fail-above 2% --worst
      domaincal evaluate scores.npz --baseline earlier.json --fail-worse 0.5%
    """
    from domaincal.cli.evaluation_methods import load_models, prepare_methods, require_arrays
    from domaincal.cli.model_floor import with_floor_of_fit
    from domaincal.cli.options import claimed, described, opened_input

    gates = GateOptions(fail_above, baseline, fail_worse, fail_on, worst)
    _check_methods(methods, models, ood, split, leave_one_domain_out, folds)
    if markdown and as_json:
        raise click.UsageError("--markdown and --json are two forms of the output; choose one.")
    _require_formats(output, figure)
    with ExitStack() as outputs:
        for path in (output, figure):
            if path is not None:
                outputs.enter_context(claimed(path, force=force))
        earlier = gates.read_baseline()
        columns = with_floor_of_fit(columns, models)
        source = outputs.enter_context(
            opened_input(data, columns, max_memory=max_memory, cluster=cluster)
        )
        rows = described(source)
        require_arrays(source, ood=ood, leave_one_domain_out=leave_one_domain_out, split=split)
        if source.data.domains is None:
            left_out = "" if methods or models else ", and md-ts and batch are left out"
            source.warn_of_no_domains(f"all rows count as one domain{left_out}")
        protocol: dict[str, Any] = {"n_bins": bins, "ood": list(ood)}
        if models:
            score = load_models(source, protocol, models)
        else:
            score = prepare_methods(
                source, protocol, methods=methods, leave_one_domain_out=leave_one_domain_out,
                folds=folds, split=split, seed=seed,
            )  # fmt: skip
        if earlier is not None:
            earlier.require(rows, protocol, protocol["methods"][-1])
        table = score()
        _write_files(table, output, figure)
    _print_and_exit(
        rows, protocol, table, gates, earlier, output=output, figure=figure, markdown=markdown,
        as_json=as_json,
    )  # fmt: skip


def _check_methods(
    methods: str | None,
    models: Sequence[Path],
    ood: Sequence[str],
    split: str | None,
    leave_one_domain_out: bool,
    folds: int | None,
) -> None:
    """Refuse options of fits that contradict each other."""
    if models and (methods or leave_one_domain_out or split or folds):
        raise click.UsageError(
            "--model scores fitted calibrators; leave out --methods, --leave-one-domain-out, "
            "--folds and --split."
        )
    if leave_one_domain_out and ood:
        raise click.UsageError(
            "--leave-one-domain-out leaves out every domain in turn; leave out --ood."
        )
    if folds is not None and not leave_one_domain_out:
        raise click.UsageError("--folds are those of left-out domains; add --leave-one-domain-out.")


def _require_formats(output: Path | None, figure: Path | None) -> None:
    """Refuse files that cannot be written, before anything is fitted."""
    if output is not None:
        from domaincal.evaluation.result_files import require_results_format

        require_results_format(output)
    if figure is not None:
        from domaincal.plots.figure_files import require_figure_format

        require_figure_format(figure)


def _write_files(table: pd.DataFrame, output: Path | None, figure: Path | None) -> None:
    """Write the results table and the figure of the ECE of every domain."""
    from domaincal.cli.console import working

    if output is not None:
        from domaincal.evaluation.result_files import write_results

        with working(f"writing {output}"):
            write_results(table, output)
    if figure is not None:
        from domaincal.cli.figure_option import draw_to_file
        from domaincal.plots import plot_domain_errors

        draw_to_file(figure, lambda: plot_domain_errors(table))


def _print_and_exit(
    rows: dict[str, Any],
    protocol: dict[str, Any],
    table: pd.DataFrame,
    gates: GateOptions,
    earlier: Baseline | None,
    *,
    output: Path | None,
    figure: Path | None,
    markdown: bool,
    as_json: bool,
) -> None:
    """Check the gates and print the results; exit with status 3 if a gate has failed."""
    from domaincal.cli import evaluation_result
    from domaincal.cli.evaluation_markdown import print_evaluation_markdown

    gate, change = gates.check(table), gates.check_change(table, earlier)
    result = evaluation_result.EvaluationResult(rows, protocol, table, gate, change, output, figure)
    if as_json:
        evaluation_result.print_evaluation_document(result)
    elif markdown:
        print_evaluation_markdown(result)
    else:
        evaluation_result.print_evaluation_tables(result)
    if any(found is not None and not found.holds for found in (gate, change)):
        raise SystemExit(GATE_FAILED)

"""``domaincal evaluate``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from domaincal.cli.column_options import column_options
from domaincal.cli.method_options import METHODS_HELP
from domaincal.cli.options import (
    DATA_HELP,
    data_argument,
    json_option,
    max_memory_option,
    seed_option,
)

if TYPE_CHECKING:
    import pandas as pd

    from domaincal.cli.options import InputData
    from domaincal.data.column_choice import ColumnChoice
    from domaincal.evaluation.gate import Gate

#: Exit status of a failed gate.
GATE_FAILED = 3


def _fraction(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """Fraction, or percentage with its sign; without the sign, 5 would be a limit of 500%."""
    if value is None:
        return None
    text = value.strip()
    try:
        limit = float(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)
    except ValueError as error:
        raise click.BadParameter(f"{value!r} is not a number; write 0.05 or 5%.") from error
    if not -1.0 <= limit <= 1.0:
        raise click.BadParameter(f"{value!r} is not a fraction; write 0.05 or 5% for five percent.")
    return limit


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
    "--fail-above", callback=_fraction, metavar="FRACTION",
    help="Gate: exit with status 3 if the score of the last method is above this (0.05 or 5%).",
)  # fmt: skip
@click.option(
    "--fail-on", type=click.Choice(["excess", "ece", "gap"]),
    help="Score of the gate. [default: excess]",
)  # fmt: skip
@click.option("--worst", is_flag=True, help="Gate on the worst domain instead of the mean.")
@column_options
@max_memory_option
@json_option
def evaluate(
    data: Path,
    methods: str | None,
    models: tuple[Path, ...],
    ood: tuple[str, ...],
    leave_one_domain_out: bool,
    split: str | None,
    bins: int,
    seed: int,
    fail_above: float | None,
    fail_on: str | None,
    worst: bool,
    columns: ColumnChoice,
    max_memory: int | None,
    as_json: bool,
) -> None:
    """Fit methods on one part of DATA and score them, domain by domain, on the rest.

    The methods are fitted on a random half of every domain. They are scored on the other half, and
    on all rows of the domains that --ood leaves out of the fit (OOD domains). Methods that predict
    batches, such as batch, get all scored rows of a domain as one batch, without labels. The gate
    is the score of the last method, over OOD domains if there are any, else over InD domains.

    \b
    Examples:
      domaincal evaluate scores.csv
      domaincal evaluate scores.npz --methods msp,ts,md-ts --ood 'night-*' --bins 20
      domaincal evaluate scores.npz --leave-one-domain-out
      domaincal evaluate new.npz --model model.safetensors --fail-above 2% --worst
    """
    from domaincal.cli.options import read_input
    from domaincal.evaluation import check_gate

    _check_options(methods, models, ood, leave_one_domain_out, split, fail_above, fail_on, worst)
    source = read_input(data, columns, max_memory=max_memory)
    _require_arrays(source, ood=ood, leave_one_domain_out=leave_one_domain_out, split=split)
    if source.data.domains is None:
        left_out = "" if methods or models else ", and md-ts and batch are left out"
        source.warn_of_no_domains(f"all rows count as one domain{left_out}")
    protocol: dict[str, Any] = {"n_bins": bins, "ood": list(ood)}
    if models:
        table = _score_models(source, protocol, models)
    else:
        table = _fit_and_score(
            source, protocol, methods=methods, leave_one_domain_out=leave_one_domain_out,
            split=split, seed=seed,
        )  # fmt: skip
    gate = None
    if fail_above is not None:
        gate = check_gate(table, fail_above, score=fail_on or "excess", worst=worst)
    _print_results(source, protocol, table, gate, as_json=as_json)
    if gate is not None and not gate.holds:
        raise SystemExit(GATE_FAILED)


def _check_options(
    methods: str | None,
    models: Sequence[Path],
    ood: Sequence[str],
    leave_one_domain_out: bool,
    split: str | None,
    fail_above: float | None,
    fail_on: str | None,
    worst: bool,
) -> None:
    """Refuse options that contradict each other."""
    if models and (methods or leave_one_domain_out or split):
        raise click.UsageError(
            "--model scores fitted calibrators; leave out --methods, --leave-one-domain-out and "
            "--split."
        )
    if leave_one_domain_out and ood:
        raise click.UsageError(
            "--leave-one-domain-out leaves out every domain in turn; leave out --ood."
        )
    if (worst or fail_on) and fail_above is None:
        raise click.UsageError("--worst and --fail-on need a limit; add --fail-above.")


def _require_arrays(
    source: InputData, *, ood: Sequence[str], leave_one_domain_out: bool, split: str | None
) -> None:
    """Raise an error if the file does not have the arrays that the options need."""
    source.require("labels", needed_by="evaluate")
    if ood:
        source.require("domains", needed_by="--ood")
    if leave_one_domain_out:
        source.require("domains", needed_by="--leave-one-domain-out")
    if split == "group":
        source.require("groups", needed_by="--split group")


def _fit_and_score(
    source: InputData,
    protocol: dict[str, Any],
    *,
    methods: str | None,
    leave_one_domain_out: bool,
    split: Any,
    seed: int,
) -> pd.DataFrame:
    """Results table of methods that are fitted on a part of the data; completes ``protocol``."""
    from domaincal.cli.console import progress
    from domaincal.cli.method_options import (
        default_methods,
        parse_methods,
        require_inputs,
    )
    from domaincal.data.splits import resolve_split
    from domaincal.evaluation import evaluate_leave_one_domain_out, evaluate_split

    calibrators = parse_methods(methods or default_methods(source.data))
    for method, calibrator in calibrators.items():
        require_inputs(calibrator, method, source)
    protocol.update(
        protocol="leave one domain out" if leave_one_domain_out else "halves",
        methods=list(calibrators), split=resolve_split(source.data, split), seed=seed,
        batch_methods=[name for name, one in calibrators.items() if one.predicts_batches()],
    )  # fmt: skip
    options: dict[str, Any] = {
        "by": protocol["split"], "n_bins": protocol["n_bins"], "random_state": seed,
    }  # fmt: skip
    with progress("fitting and scoring") as track:
        if leave_one_domain_out:
            return evaluate_leave_one_domain_out(calibrators, source.data, **options, track=track)
        return evaluate_split(calibrators, source.data, ood=protocol["ood"], **options, track=track)


def _score_models(
    source: InputData, protocol: dict[str, Any], models: Sequence[Path]
) -> pd.DataFrame:
    """Results table of fitted calibrators; completes ``protocol``."""
    from domaincal.calibrators import load
    from domaincal.cli.console import say
    from domaincal.cli.method_options import require_prediction_inputs
    from domaincal.evaluation.protocols import evaluate_fitted

    protocol.update(protocol="models", models=[str(path) for path in models])
    fitted: dict[str, Any] = {}
    for path in models:
        name = path.stem if path.stem not in fitted else str(path)
        fitted[name] = load(path)
        require_prediction_inputs(fitted[name], path, source)
        if fitted[name].data_fingerprint_ == source.data.fingerprint():
            say(f"warning: {path} was fitted on these rows; its scores are too optimistic.",
                err=True)  # fmt: skip
    protocol["batch_methods"] = [name for name, one in fitted.items() if one.predicts_batches()]
    return evaluate_fitted(fitted, source.data, ood=protocol["ood"], n_bins=protocol["n_bins"])


def _print_results(
    source: InputData,
    protocol: dict[str, Any],
    table: pd.DataFrame,
    gate: Gate | None,
    *,
    as_json: bool,
) -> None:
    """Print the results table, means over domains, comparisons of methods and the gate."""
    from dataclasses import asdict

    from domaincal.cli.console import print_json, records
    from domaincal.cli.options import described
    from domaincal.cli.tables import print_evaluation
    from domaincal.evaluation import summary_table
    from domaincal.metrics import compare_last

    means = summary_table(table)
    comparisons = compare_last(table)
    if not as_json:
        sentence = _protocol_sentence(protocol, has_domains=source.data.domains is not None)
        # With few rows in a domain, the floor is most of the ECE and hides a difference.
        others = [compare_last(table, score=score) for score in ("excess", "nll")]
        by_scores = [
            (kind, [found, *(other for _, other in more)])
            for (kind, found), *more in zip(comparisons, *others, strict=True)
        ]
        print_evaluation(sentence, table, means, by_scores, gate, n_bins=protocol["n_bins"])
        return
    content = {
        "data": described(source),
        "protocol": protocol,
        "table": records(table),
        "means": records(means),
        "comparisons": [{"kind": kind, **found._asdict()} for kind, found in comparisons],
        "gate": None if gate is None else {**asdict(gate), "holds": gate.holds},
    }
    print_json("evaluation", content)


def _protocol_sentence(protocol: dict[str, Any], *, has_domains: bool) -> str:
    """Sentences that say which rows were fitted and scored, and in which batches."""
    from domaincal._wording import few

    sentence = _rows_sentence(protocol, has_domains=has_domains)
    methods = protocol["batch_methods"]
    if methods:
        rows = "of a domain " if has_domains else ""
        sentence += f" All scored rows {rows}are one batch for {few(methods, 4)}."
    return sentence


def _rows_sentence(protocol: dict[str, Any], *, has_domains: bool) -> str:
    """Sentence that says which rows were fitted and which were scored."""
    if protocol["protocol"] == "models":
        return "Scored on all rows."
    by_group, ood = protocol["split"] == "group", protocol["ood"]
    if protocol["protocol"] == "leave one domain out":
        groups = ", on groups that were not fitted" if by_group else ""
        return f"Each domain was scored with methods fitted on all other domains{groups}."
    if by_group:
        where = "InD domains" if ood else "all domains"
        others = ", in InD and OOD domains" if ood else ""
        return (
            f"Fitted on a random half of the groups, in {where}; scored on the other half{others}."
        )
    if not has_domains:
        return "Fitted on a random half of the rows; scored on the other half."
    where = "InD domain" if ood else "domain"
    others = " and on the OOD domains" if ood else ""
    return f"Fitted on a random half of every {where}; scored on the other half{others}."

"""``domaincal evaluate``."""

from pathlib import Path

import click

from domaincal.cli.methods import METHODS_HELP
from domaincal.cli.options import (
    DATA_HELP,
    data_argument,
    json_option,
    probabilities_option,
    seed_option,
)

GATE_FAILED = 3


def _fraction(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """A fraction, or a percentage with its sign: a bare 5 would be a gate that never shuts."""
    if value is None:
        return None
    text = value.strip()
    try:
        limit = float(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)
    except ValueError as error:
        raise click.BadParameter(f"{value!r} is no number; write 0.05 or 5%.") from error
    if not -1.0 <= limit <= 1.0:
        raise click.BadParameter(f"{value!r} is no fraction; write 0.05 or 5% for five percent.")
    return limit


@click.command(
    short_help="Compare methods, domain by domain; gate.", epilog=f"{METHODS_HELP} {DATA_HELP}"
)
@data_argument
@click.option("--methods", help="Methods to fit, separated by commas. [default: msp,ts,md-ts]")
@click.option(
    "--model", "models", multiple=True, type=click.Path(path_type=Path),
    help="Score this calibrator as it is, on all rows; nothing is fitted. Can be repeated.",
)  # fmt: skip
@click.option(
    "--ood", multiple=True,
    help="Domains to keep from the fit: a name or a pattern such as 'night-*'. Can be repeated.",
)  # fmt: skip
@click.option(
    "--leave-one-domain-out", is_flag=True,
    help="Score each domain with methods fitted on all others.",
)  # fmt: skip
@click.option(
    "--split", type=click.Choice(["row", "group"]),
    help="Halves of rows, or of groups, so that no group is both fitted and scored. "
    "[default: group where DATA has groups]",
)  # fmt: skip
@click.option("--bins", type=click.IntRange(1, 10_000), default=15, show_default=True, help="Bins.")
@seed_option
@click.option(
    "--fail-above", callback=_fraction, metavar="FRACTION",
    help="Gate: exit with 3 if the last method's score is above this (0.05 or 5%).",
)  # fmt: skip
@click.option(
    "--fail-on", type=click.Choice(["excess", "ece", "gap"]),
    help="Score of the gate. [default: excess]",
)  # fmt: skip
@click.option("--worst", is_flag=True, help="The gate looks at the worst domain, not the mean.")
@probabilities_option
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
    probabilities: bool,
    as_json: bool,
) -> None:
    """Fit methods on one part of DATA and score them, domain by domain, on the other.

    A random half of every domain is fitted and the other half scored, and all of the domains named
    by --ood, which nobody has seen. The gate looks at the last method, over OOD domains, or InD
    ones if there are no others.

    \b
    Examples:
      domaincal evaluate scores.csv
      domaincal evaluate scores.npz --methods msp,ts,md-ts --ood 'night-*' --bins 20
      domaincal evaluate scores.npz --leave-one-domain-out
      domaincal evaluate new.npz --model model.safetensors --fail-above 2% --worst
    """
    from dataclasses import asdict

    from domaincal.cli.console import print_json, records
    from domaincal.cli.options import described, read_rows
    from domaincal.cli.running import compare_last, run
    from domaincal.cli.tables import print_evaluation
    from domaincal.selection import check_gate

    if models and (methods or leave_one_domain_out or split):
        raise click.UsageError("--model scores without a fit; leave out the options of fits.")
    if leave_one_domain_out and ood:
        raise click.UsageError("--leave-one-domain-out leaves out all in turn; leave out --ood.")
    if (worst or fail_on) and fail_above is None:
        raise click.UsageError("--worst and --fail-on are for a gate; give --fail-above too.")
    rows = read_rows(data, probabilities=probabilities)
    result = run(
        rows, methods=methods, models=models, ood=ood, leave_one_out=leave_one_domain_out,
        split=split, bins=bins, seed=seed,
    )  # fmt: skip
    verdict = None
    if fail_above is not None:
        verdict = check_gate(result.table, fail_above, score=fail_on or "excess", worst=worst)
    comparisons = compare_last(result.table)
    if as_json:
        print_json(
            "evaluation",
            {
                "data": described(data, rows.data),
                "protocol": result.protocol,
                "table": records(result.table),
                "means": records(result.means),
                "comparisons": comparisons,
                "gate": None if verdict is None else {**asdict(verdict), "holds": verdict.holds},
            },
        )
    else:
        print_evaluation(result, comparisons, verdict)
    if verdict is not None and not verdict.holds:
        raise SystemExit(GATE_FAILED)

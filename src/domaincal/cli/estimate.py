"""``domaincal estimate``."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from domaincal.cli.column_options import column_options
from domaincal.cli.evaluate import GATE_FAILED
from domaincal.cli.figure_option import figure_option
from domaincal.cli.gate_options import fraction
from domaincal.cli.options import (
    DATA_HELP,
    data_argument,
    force_option,
    json_option,
    max_memory_option,
)

if TYPE_CHECKING:
    import pandas as pd

    from domaincal.data.column_choice import ColumnChoice
    from domaincal.shift import ConfidenceEstimator

# Of more domains, those with the lowest limits are printed; --json has all.
_SHOWN_DOMAINS = 60
# Reasons that are printed.
_SHOWN_REASONS = 3


@click.command(short_help="Predict the accuracy in unlabelled domains.", epilog=DATA_HELP)
@click.argument("model", type=click.Path(path_type=Path))
@data_argument
@click.option(
    "--fail-below", callback=fraction, metavar="FRACTION",
    help="Gate: exit with status 3 if the lower limit (not the prediction) of the accuracy of a "
    "domain is below this (0.8 or 80%). Without an interval, the lower limit is 0.",
)  # fmt: skip
@figure_option("Draw the accuracy of every domain with its interval: .png, .svg or .pdf (extra "
               "plots).")  # fmt: skip
@column_options
@max_memory_option
@force_option
@json_option
def estimate(
    model: Path,
    data: Path,
    fail_below: float | None,
    figure: Path | None,
    columns: ColumnChoice,
    max_memory: int | None,
    force: bool,
    as_json: bool,
) -> None:
    """Predict how accurate the classifier is on the rows of DATA, which need no labels.

    For each domain of DATA: its accuracy, which calibration does not change; an interval for it;
    and a verdict: whether the scores look like those of a domain of the fit (inside), unlike most
    of them (edge) or unlike all of them (outside: do not rely on the prediction). The accuracy is
    that of all rows of the domain, of which DATA has all or a random sample. Labels of DATA are not
    used.

    MODEL is a file that domaincal fit has written from at least three domains. It holds histograms
    of the scores in these domains, and the errors of such estimates for domains that were left out.
    Intervals hold for 90% of new domains, if they are like further draws of those of the fit; they
    need nine domains. The verdict looks at the scores, not at the features.

    \b
    Examples:
      domaincal estimate model.safetensors new.npz
      domaincal estimate model.safetensors new.csv --domain site --fail-below 80%
      domaincal estimate model.safetensors new.npz --plot accuracy.png
    """
    from domaincal.cli.console import reading, say
    from domaincal.cli.method_options import require_prediction_inputs
    from domaincal.cli.model_floor import with_floor_of_fit
    from domaincal.cli.options import claimed, described, opened_input
    from domaincal.shift import load_estimator

    if figure is not None:
        from domaincal.plots.figure_files import require_figure_format

        require_figure_format(figure)
    with ExitStack() as stack:
        if figure is not None:
            stack.enter_context(claimed(figure, force=force))
        estimator = load_estimator(model)
        columns = with_floor_of_fit(columns, [model])
        source = stack.enter_context(opened_input(data, columns, max_memory=max_memory))
        rows = described(source)
        require_prediction_inputs(estimator.calibrator_, model, source)
        if source.data.domains is None:
            source.warn_of_no_domains("all rows count as one domain")
        if source.data.labels is not None:
            say("labels are not used; to compare with them: domaincal evaluate --model", err=True)
        with reading(f"estimating with {model}", source.data) as read:
            table = estimator.predict(read)
        # Domains without a lower limit, such as those outside, come first.
        table = table.sort_values(["low", "predicted_accuracy"], ignore_index=True)
        if figure is not None:
            from domaincal.cli.figure_option import draw_to_file
            from domaincal.plots import plot_predicted_accuracy

            draw_to_file(figure, lambda: plot_predicted_accuracy(table))
    gate = None if fail_below is None else _gate(table, fail_below)
    if as_json:
        _print_document(model, rows, table, estimator, gate, figure)
    else:
        _print_tables(table, estimator, gate, figure)
    if gate is not None and not gate["holds"]:
        raise SystemExit(GATE_FAILED)


def _gate(table: pd.DataFrame, limit: float) -> dict[str, Any]:
    """The domain with the lowest limit, compared with the gate."""
    worst = table.iloc[int(table["low"].argmin())]
    return {
        "fail_below": limit,
        "domain": worst["domain"],
        "low": float(worst["low"]),
        "n_below": int((table["low"] < limit).sum()),
        "holds": bool(worst["low"] >= limit),
    }


def _print_document(
    model: Path,
    data: dict[str, Any],
    table: pd.DataFrame,
    estimator: ConfidenceEstimator,
    gate: dict[str, Any] | None,
    figure: Path | None,
) -> None:
    from domaincal.cli.console import print_json, records

    content = {
        "model": str(model),
        "coverage": estimator.coverage,
        "n_domains_of_fit": estimator.n_domains_,
        "domains": records(table),
        "gate": gate,
        "figure": None if figure is None else str(figure),
        "data": data,
    }
    print_json("estimate", content)


def _print_tables(
    table: pd.DataFrame,
    estimator: ConfidenceEstimator,
    gate: dict[str, Any] | None,
    figure: Path | None,
) -> None:
    from domaincal.cli.console import records, say
    from domaincal.cli.table_layout import Section, print_numbers

    rows = [
        [str(row["domain"]), str(row["n"]), *(_percent(row[key]) for key in
         ("predicted_accuracy", "low", "high")), row["verdict"]]
        for row in records(table.head(_SHOWN_DOMAINS))
    ]  # fmt: skip
    names = ["domain", "rows", "predicted accuracy %", "low %", "high %", "verdict"]
    print_numbers("Predicted accuracy, worst first (by low)", names, [Section("", rows)])
    if len(table) > _SHOWN_DOMAINS:
        say(f"and {len(table) - _SHOWN_DOMAINS} more domains; --json prints all.")
    for sentence in _sentences(table, estimator):
        say(sentence)
    if gate is not None:
        count = f"{gate['n_below']} of {len(table)}" if gate["n_below"] else "no"
        say(
            f"gate {'holds' if gate['holds'] else 'fails'}: low is below "
            f"{_percent(gate['fail_below'])}% in {count} domains; the lowest is "
            f"{_percent(gate['low'])}% ({gate['domain']})"
        )
    if figure is not None:
        say(f"figure written to {figure}")


def _sentences(table: pd.DataFrame, estimator: ConfidenceEstimator) -> list[str]:
    """What the table says, in words."""
    from domaincal.shift.conformal import needed_domains

    coverage, known = f"{100 * estimator.coverage:g}%", estimator.n_domains_
    needed = needed_domains(estimator.coverage)
    worst = table.iloc[int(table["predicted_accuracy"].argmin())]
    accuracies = estimator.domain_accuracies_
    lowest, highest = (f"{100 * value:.0f}" for value in (accuracies.min(), accuracies.max()))
    sentences = [
        f"Lowest: in {worst['domain']}, about {100 * worst['predicted_accuracy']:.0f} of 100 rows "
        f"are predicted to be classified right. In the {known} domains of the fit, it is {lowest} "
        f"to {highest}."
    ]
    if known < needed:
        sentences.append(
            f"There are no intervals (low is 0, high is 100): one that holds for {coverage} of new "
            f"domains needs a fit to {needed} domains, and this one had {known}."
        )
    else:
        sentences.append(
            f"The accuracy of all rows of a domain is between low and high for {coverage} of new "
            f"domains, if they are like further draws of the {known} of the fit."
        )
    return [*sentences, *_verdicts(table, estimator)]


def _verdicts(table: pd.DataFrame, estimator: ConfidenceEstimator) -> list[str]:
    """The verdicts in words, with the reasons of the worst ones."""
    from domaincal._wording import few

    counts = table["verdict"].value_counts()
    meanings = {
        "inside": "inside: the scores look like those of the domains of the fit. This is no proof: "
        "labels of another meaning or swapped columns cannot be seen",
        "edge": "edge: the scores look unlike those of most domains of the fit",
        "outside": "outside: the scores look unlike those of all domains of the fit; do not rely "
        "on the prediction",
        "unknown": f"unknown: {estimator.n_domains_} domains of the fit are too few to compare",
    }
    sentences = [
        f"{meaning} ({counts[verdict]} of {len(table)} domains)."
        for verdict, meaning in meanings.items()
        if verdict in counts
    ]
    is_coarse = estimator.covered_.is_coarse(table["n"])
    coarse = table.loc[is_coarse & (table["verdict"] == "inside"), "domain"]
    if len(coarse):
        names = few(map(str, coarse), 8)
        sentences.append(f"Few rows, so that only large differences would show: {names}.")
    far = [table[table["verdict"] == verdict] for verdict in ("outside", "edge")]
    reasons = [
        f"{row.domain}: {row.reason}" for part in far for row in part.itertuples(index=False)
    ]
    if reasons:
        sentences.append(
            "Distances of scores are from 0 to 1, by the histograms in the model file:"
        )
    return [*sentences, *reasons[:_SHOWN_REASONS]]


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"

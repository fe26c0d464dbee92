"""Results as tables on a terminal."""

from rich.console import Console
from rich.table import Table

from domaincal.experiments.demo import DemoResult


def print_demo(result: DemoResult) -> None:
    """ECE of each domain and method, the means, and the result in words."""
    methods = result.table["method"].unique().tolist()
    table = Table(
        title="ECE in %, 20 bins",
        caption=(
            "InD: other rows of the domains that calibrated. OOD: domains never seen. MSP: softmax "
            "as it is. TS: one temperature. MD-TS: a temperature for each row, predicted from its "
            "features. Floor: mean ECE of a calibrated model with MD-TS's confidences."
        ),
        caption_justify="left",
    )
    table.add_column("domain", no_wrap=True)
    for column in ("n", "true T", *methods, "floor"):
        table.add_column(column, justify="right", no_wrap=True)
    for kind in ("InD", "OOD"):
        rows = result.table[result.table["kind"] == kind]
        for domain, part in rows.groupby("domain"):
            scores = part.set_index("method")
            table.add_row(
                f"{kind} {domain}",
                str(part["n"].iloc[0]),
                f"{part['true_temperature'].iloc[0]:.2f}",
                *(_percent(scores.loc[method, "ece"]) for method in methods),
                _percent(scores.loc[methods[-1], "floor"]),
            )
        means = [result.mean_ece(method, kind) for method in methods]
        over = f"{kind} mean of {means[0].n_domains}"
        floor = rows.loc[rows["method"] == methods[-1], "floor"].mean()
        mean = [_percent(m.mean) for m in means]
        table.add_row(over, "", "", *mean, _percent(floor), style="bold")
        errors = (_percent(m.standard_error) for m in means)
        table.add_row("standard error", "", "", *errors, "", end_section=True)
    console = Console()
    console.print(table)
    console.print(result.sentence())


def _percent(value: object) -> str:
    return f"{100 * float(value):.2f}"  # type: ignore[arg-type]

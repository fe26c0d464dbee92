"""Results as tables on a terminal."""

from rich.console import Console
from rich.table import Table

from domaincal.experiments.demo import DemoResult

_KINDS = {"InD": "seen in calibration, other rows", "OOD": "never seen"}


def print_demo(result: DemoResult) -> None:
    """ECE of each domain and method, all scores over domains, and the result in words."""
    console = Console()
    console.print(_ece_table(result))
    console.print(_summary(result))
    console.print(result.sentence())


def _ece_table(result: DemoResult) -> Table:
    methods = result.table["method"].unique().tolist()
    table = _table("ECE of each domain in %, 20 bins", "domain", "n", "true T", *methods)
    for kind, meaning in _KINDS.items():
        table.add_row(f"[bold]{kind}: {meaning}[/]")
        for domain, part in result.table[result.table["kind"] == kind].groupby("domain"):
            ece = part.set_index("method")["ece"]
            table.add_row(
                str(domain),
                str(part["n"].iloc[0]),
                f"{part['true_temperature'].iloc[0]:.2f}",
                *(_percent(ece[method]) for method in methods),
            )
        table.add_section()
    return table


def _summary(result: DemoResult) -> Table:
    scores = ("ece", "floor", "excess", "gap", "nll")
    columns = ("domains", "ECE %", "floor", "excess", "gap", "NLL")
    table = _table("Mean over domains ± standard error", "", *columns)
    for kind in _KINDS:
        for method in result.table["method"].unique():
            mean = {score: result.mean(score, method, kind) for score in scores}
            ece = mean["ece"]
            table.add_row(
                f"{kind} {method}",
                str(ece.n_domains),
                f"{_percent(ece.mean)} ± {_percent(ece.standard_error)}",
                *(_percent(mean[score].mean) for score in ("floor", "excess", "gap")),
                f"{mean['nll'].mean:.3f}",
            )
        table.add_section()
    table.caption = (
        "MSP: softmax as it is. TS: one temperature. MD-TS: one for each row, predicted from its "
        "features. Floor: ECE that a calibrated model would have; excess: ECE less floor; gap: "
        "|mean confidence - accuracy|, in %."
    )
    return table


def _table(title: str, first: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", caption_justify="left")
    table.add_column(first)
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def _percent(value: float) -> str:
    return f"{100 * value:.2f}"

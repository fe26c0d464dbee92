"""``domaincal site``: fits to the sums of sites that may not share rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

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
    import pandas as pd

    from domaincal.data.column_choice import ColumnChoice
    from domaincal.distributed import SiteAnswers, SiteSums

# Written in full here, because --help imports no library: distributed.site_summary.MIN_ROWS.
_MIN_ROWS = 50


class _InOrder(click.Group):
    """Group of verbs in the order of use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


@click.group(cls=_InOrder, short_help="Fit to sums of sites that may not share rows.")
def site() -> None:
    """Fit a calibrator to sites that may not share rows.

    Every site writes sums over its rows (summarize), and one place fits a calibrator to all of them
    (combine), as if the rows were together. No row leaves a site.

    \b
    Examples:
      domaincal site summarize north.npz -o north.safetensors
      domaincal site combine *.safetensors -o model.safetensors
    """


@site.command(short_help="Write sums over the rows of a site.", epilog=DATA_HELP)
@data_argument
@output_option(required=True, text="File of the sums, .safetensors.")
@click.option(
    "--shift", default="0", show_default=True, metavar="FILE|0",
    help="Vector that is subtracted from the features, the same for all sites: a .npy file, or the "
    "mean of the features in a file of sums. It keeps fits with an intercept accurate.",
)  # fmt: skip
@click.option(
    "--min-rows", type=click.IntRange(min=1), default=_MIN_ROWS, show_default=True,
    help="Domains with fewer rows are refused, and features that differ from their most common "
    "value in fewer rows of a domain.",
)  # fmt: skip
@click.option(
    "--sorted-logits",
    is_flag=True,
    help="Sum the sorted logits in place of the features, for md-ts:features=logits.",
)
@click.option(
    "--no-features", is_flag=True, help="Leave the features out, for methods that need none."
)
@click.option(
    "--search",
    is_flag=True,
    help="Also sum the products of features of each domain, for ridge without alpha.",
)
@click.option(
    "--given", type=click.Path(path_type=Path), metavar="PLAN",
    help="Second round: the plan that combine --plan has written.",
)  # fmt: skip
@column_options
@max_memory_option
@force_option
@json_option
def summarize(
    data: Path,
    output: Path,
    shift: str,
    min_rows: int,
    sorted_logits: bool,
    no_features: bool,
    search: bool,
    given: Path | None,
    columns: ColumnChoice,
    max_memory: int | None,
    force: bool,
    as_json: bool,
) -> None:
    """Write sums over the rows of DATA, and print what leaves the building.

    DATA needs labels and domains, and features for md-ts. A domain lies in one site. Stores and
    large files are read in blocks.

    \b
    Examples:
      domaincal site summarize north.npz -o north.safetensors
      domaincal site summarize north.csv -o north.safetensors --domain ward
      domaincal site summarize north.npz --shift mean.npy -o north.safetensors
      domaincal site summarize north.npz --given plan.safetensors -o n.safetensors
    """
    from domaincal.cli.console import reading
    from domaincal.cli.options import claimed, opened_input
    from domaincal.distributed import answer_plan, summarize_site
    from domaincal.distributed.site_summary import load_shift
    from domaincal.errors import InputError

    options = {
        "--shift": shift != "0", "--sorted-logits": sorted_logits, "--no-features": no_features,
        "--search": search,
    }  # fmt: skip
    _check_options(options, given)
    if output.suffix != ".safetensors":
        raise InputError(f"{output} must end in .safetensors, the format of files of sites.")
    plan = None if given is None else _load_plan(given)
    subtracted = load_shift(shift)
    found: SiteSums | SiteAnswers
    with (
        claimed(output, force=force),
        opened_input(data, columns, max_memory=max_memory) as source,
    ):
        for array in ("labels", "domains"):
            source.require(array, needed_by="site summarize")
        with reading(f"summing {data}", source.data) as rows:
            if plan is None:
                found = summarize_site(
                    rows, shift=subtracted, min_rows=min_rows, search=search,
                    features="logits" if sorted_logits else "none" if no_features else "given",
                )  # fmt: skip
            else:
                found = answer_plan(rows, plan, min_rows=min_rows)
        replace(found, rows=replace(found.rows, floor=source.floor)).save(output)
    _print_contents(found, output, as_json=as_json)


@site.command(short_help="Fit a calibrator to the sums of all sites.", epilog=METHODS_HELP)
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@output_option(required=False, text="File of the calibrator, .safetensors.")
@click.option(
    "--plan", type=click.Path(path_type=Path), metavar="FILE",
    help="Write what the second round must ask of the sites, in place of a calibrator.",
)  # fmt: skip
@click.option(
    "--method", default="md-ts", show_default=True,
    help="Method to fit: md-ts with the head ols or ridge, batch, ts, or domain-ts.",
)  # fmt: skip
@force_option
@json_option
def combine(
    files: tuple[Path, ...],
    output: Path | None,
    plan: Path | None,
    method: str,
    force: bool,
    as_json: bool,
) -> None:
    """Fit a calibrator to the sums of all sites, in any order.

    md-ts with the head ols, or ridge with alpha, needs one round. ts, domain-ts, batch and ridge
    without alpha need a second one: write a plan, let every site answer it (summarize --given), and
    give the files of both rounds.

    \b
    Examples:
      domaincal site combine *.safetensors -o model.safetensors
      domaincal site combine *.safetensors -o m.safetensors --method batch
      domaincal site combine *.safetensors --plan plan.safetensors --method ts
    """
    from domaincal.cli.console import working
    from domaincal.cli.method_options import parse_method
    from domaincal.cli.options import claimed
    from domaincal.errors import InputError

    if (output is None) == (plan is None):
        raise click.UsageError("give -o for a calibrator, or --plan for a second round.")
    calibrator = parse_method(method)
    target = output or plan
    assert target is not None
    if target.suffix != ".safetensors":
        raise InputError(f"{target} must end in .safetensors.")
    with claimed(target, force=force), working(f"combining {len(files)} files"):
        if plan is not None:
            from domaincal.distributed import plan_second_round

            plan_second_round(files, calibrator).save(plan)
        else:
            fitted, floor, domains = _combined(files, calibrator, target)
    if plan is not None:
        _print_plan(plan, method, as_json=as_json)
    else:
        _print_model(fitted, floor, domains, target, files, as_json=as_json)


def _check_options(first: dict[str, bool], given: Path | None) -> None:
    """Raise UsageError for options of the first round in the second, or that exclude each other."""
    if first["--sorted-logits"] and first["--no-features"]:
        raise click.UsageError("--sorted-logits and --no-features exclude each other; give one.")
    wrong = [option for option, is_given in first.items() if is_given]
    if given is not None and wrong:
        raise click.UsageError(f"{wrong[0]} is for the first round; leave it out with --given.")


def _load_plan(path: Path) -> Any:
    from domaincal.distributed import SitePlan, load_site
    from domaincal.errors import InputError

    plan = load_site(path)
    if not isinstance(plan, SitePlan):
        raise InputError(f"{path} is no plan; give the file of domaincal site combine --plan.")
    return plan


def _combined(
    files: tuple[Path, ...], calibrator: Any, output: Path
) -> tuple[Any, float | None, pd.DataFrame]:
    """Fitted calibrator, which is saved, the floor of the probabilities, and a table of domains."""
    from domaincal.calibrators.files.model_file import save_calibrator
    from domaincal.cli.model_floor import floor_section
    from domaincal.distributed import SiteSums, combine_sites, load_site
    from domaincal.distributed.site_merge import merge_sites

    loaded: list[Any] = [load_site(path) for path in files]
    fitted = combine_sites(loaded, calibrator)
    floor = loaded[0].rows.floor
    save_calibrator(fitted, output, floor_section(floor))
    sums = merge_sites([one for one in loaded if isinstance(one, SiteSums)])
    return fitted, floor, sums.table()


def _print_contents(found: SiteSums | SiteAnswers, output: Path, *, as_json: bool) -> None:
    """Print what leaves the building."""
    from domaincal.cli.console import print_json, records, say
    from domaincal.cli.options import size_of
    from domaincal.cli.site_contents import print_arrays

    n, n_domains = int(found.n_rows.sum()), len(found.n_rows)
    if as_json:
        print_json(
            "site summarize",
            {
                "output": str(output), "n_rows": n, "n_domains": n_domains,
                "arrays": records(found.contents()), "remarks": found.remarks(),
            },
        )  # fmt: skip
        return
    domains = f"{n_domains} domain{'s' if n_domains > 1 else ''}"
    say(f"sums over {n} rows of {domains} written to {output} ({size_of(output)})")
    say("What leaves the building:")
    print_arrays(found)
    for remark in found.remarks():
        say(remark)


def _print_plan(plan: Path, method: str, *, as_json: bool) -> None:
    from domaincal.cli.console import print_json, say

    if as_json:
        print_json("site combine", {"plan": str(plan), "method": method})
        return
    say(
        f"plan written to {plan}, not yet a calibrator. Next, every site runs domaincal site "
        f"summarize DATA --given {plan} -o FILE; then combine the files of both rounds with "
        f"--method {method} and -o."
    )


def _print_model(
    fitted: Any,
    floor: float | None,
    domains: pd.DataFrame,
    output: Path,
    files: tuple[Path, ...],
    *,
    as_json: bool,
) -> None:
    """Print the domains of all sites, and what the calibrator has learned."""
    from domaincal.cli.console import print_json, records, say
    from domaincal.cli.inspect import model_facts
    from domaincal.cli.options import size_of
    from domaincal.cli.site_contents import print_domains
    from domaincal.cli.tables import print_model

    if as_json:
        content = {
            "output": str(output), "files": [str(path) for path in files],
            "calibrator": model_facts(fitted, floor, None), "domains": records(domains),
        }  # fmt: skip
        print_json("site combine", content)
        return
    print_domains(domains, "Domains of all sites, before calibration")
    print_model(fitted, floor, None)
    say(f"written to {output} ({size_of(output)})")

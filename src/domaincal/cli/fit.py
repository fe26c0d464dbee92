"""``domaincal fit``."""

from pathlib import Path

import click

from domaincal.cli.method_options import METHODS_HELP
from domaincal.cli.options import (
    DATA_HELP,
    data_argument,
    force_option,
    json_option,
    output_option,
    probabilities_option,
)


@click.command(short_help="Fit a calibrator and save it.", epilog=f"{METHODS_HELP} {DATA_HELP}")
@data_argument
@output_option(required=True, text="File of the calibrator, .safetensors.")
@click.option(
    "--method",
    help="What to fit. [default: md-ts; md-ts:features=logits where DATA has no features]",
)
@click.option("--head", help="Head of md-ts: ols, ridge, huber, krr or knn.")
@probabilities_option
@force_option
@json_option
def fit(
    data: Path,
    output: Path,
    method: str | None,
    head: str | None,
    probabilities: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Fit a calibrator on all rows of DATA and save it.

    \b
    Examples:
      domaincal fit scores.npz -o model.safetensors --method md-ts --head ols
      domaincal fit scores.csv -o model.safetensors --method ts
      domaincal fit scores.npz -o model.safetensors --method md-ts:target=log:fit_intercept=true
    """
    from domaincal._specs import Spec
    from domaincal.cli.console import print_json, say, working
    from domaincal.cli.inspect import model_facts
    from domaincal.cli.method_options import default_method, parse_method, require_needs
    from domaincal.cli.options import described, read_input, require_output, size_of
    from domaincal.cli.tables import print_model
    from domaincal.errors import InputError
    from domaincal.evaluation.fitting import fitted_to

    if head is not None:
        spec = Spec.parse(method or "md-ts")
        if spec.name != "md-ts" or "head" in spec.keys(()):
            raise click.UsageError("--head is for --method md-ts, and is given once.")
    elif method is not None:
        parse_method(method)  # what is wrong with it, before the data are read
    if output.suffix != ".safetensors":
        raise InputError(f"{output} must end in .safetensors, the format of calibrators.")
    require_output(output, force=force)
    source = read_input(data, probabilities=probabilities)
    source.require("labels", why="from which a calibrator learns")
    written = method or default_method(source.data)
    written += "" if head is None else f":head={head}"
    calibrator = parse_method(written)
    require_needs(calibrator, written, source)
    with working(f"fitting {written}"):
        fitted = fitted_to(calibrator, source.data)
    fitted.save(output)
    if as_json:
        content = {"output": str(output), "calibrator": model_facts(fitted)}
        print_json("fit", {**content, "data": described(data, source.data)})
        return
    print_model(fitted)
    say(f"written to {output} ({size_of(output)})")

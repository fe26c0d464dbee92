"""``domaincal export``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from domaincal.cli.options import force_option, json_option, output_option

if TYPE_CHECKING:
    from domaincal.deploy import OnnxExport


@click.command(short_help="Write a calibrator as an ONNX graph.")
@click.argument("model", type=click.Path(path_type=Path))
@output_option(required=True, text="File of the graph, .onnx.")
@click.option(
    "--dtype", type=click.Choice(["float32", "float16"]),
    help="Type of the inputs logits and features. [default: float32]",
)  # fmt: skip
@click.option(
    "--attach", "classifier", type=click.Path(path_type=Path), metavar="CLASSIFIER",
    help="Append the calibrator to the graph in this .onnx file.",
)  # fmt: skip
@click.option(
    "--logits", metavar="NAME",
    help="Tensor of the logits in CLASSIFIER: an output, or a result inside of the graph. "
    "[default: the output, if there is one only]",
)  # fmt: skip
@click.option("--features", metavar="NAME", help="Tensor of the features in CLASSIFIER.")
@click.option(
    "--prefix", metavar="TEXT",
    help="Beginning of the names of the new outputs, if CLASSIFIER has such names.",
)  # fmt: skip
@force_option
@json_option
def export(
    model: Path,
    output: Path,
    dtype: Literal["float32", "float16"] | None,
    classifier: Path | None,
    logits: str | None,
    features: str | None,
    prefix: str | None,
    force: bool,
    as_json: bool,
) -> None:
    """Write MODEL, from domaincal fit, as an ONNX graph, which other programs can run.

    Its inputs are logits, features and domains, as far as the method uses them; its outputs
    probabilities, confidence and temperature (if the method has one). It takes any number of rows.
    If MODEL predicts batches (fit --batch), rows with the same number in domains are one batch;
    without domains, all rows are one batch.

    With --attach, the output is the graph of CLASSIFIER with the calibrator in it. It needs the
    extra onnx.

    \b
    Examples:
      domaincal export model.safetensors -o calibrator.onnx
      domaincal export model.safetensors -o calibrated.onnx \\
          --attach classifier.onnx --logits logits --features embedding
    """
    from domaincal.calibrators import load
    from domaincal.cli.console import print_json, working
    from domaincal.cli.options import claimed
    from domaincal.deploy import attach_onnx, export_onnx
    from domaincal.deploy.onnx.export import require_onnx_suffix
    from domaincal.deploy.onnx.protobuf import require_onnx

    _check_usage(classifier, dtype, {"logits": logits, "features": features, "prefix": prefix})
    require_onnx("domaincal export")
    require_onnx_suffix(output)
    with claimed(output, force=force), working(f"writing {output}"):
        calibrator = load(model)
        _warn_of_floor(model)
        if classifier is None:
            written = export_onnx(calibrator, output, dtype=dtype or "float32")
        else:
            written = attach_onnx(
                calibrator, classifier, output, logits=logits, features=features,
                prefix=prefix or "",
            )  # fmt: skip
    if as_json:
        print_json("export", _content(written, model, output, classifier))
        return
    _print(written, output, classifier)


def _check_usage(
    classifier: Path | None, dtype: str | None, of_classifier: dict[str, str | None]
) -> None:
    """Raise UsageError for options that are not used."""
    given = [f"--{name}" for name, value in of_classifier.items() if value is not None]
    if classifier is None and given:
        raise click.UsageError(
            f"{given[0]} is about a classifier; pass --attach CLASSIFIER, or leave out {given[0]}."
        )
    if classifier is not None and dtype is not None:
        raise click.UsageError(
            "--attach takes the types of the classifier; leave out --dtype or --attach."
        )


def _warn_of_floor(model: Path) -> None:
    """Say that logits are logarithms, if the calibrator was fitted to probabilities."""
    from domaincal.cli.console import say
    from domaincal.cli.model_floor import stored_floor

    floor = stored_floor(model)
    if floor is not None:
        say(
            f"warning: {model} was fitted to probabilities: the logits of the graph are their "
            f"natural logarithms, those of probabilities below {floor:g} that of {floor:g}.",
            err=True,
        )


def _content(
    written: OnnxExport, model: Path, output: Path, classifier: Path | None
) -> dict[str, Any]:
    return {
        "model": str(model),
        "output": str(output),
        "classifier": None if classifier is None else str(classifier),
        "method": written.method,
        "n_nodes": written.n_nodes,
        "inputs": written.inputs,
        "outputs": written.outputs,
    }


def _print(written: OnnxExport, output: Path, classifier: Path | None) -> None:
    """Print what was written."""
    from domaincal.cli.console import say
    from domaincal.cli.options import size_of

    attached = "" if classifier is None else f", attached to {classifier}"
    say(
        f"{written.method}, {written.n_nodes} nodes{attached}: written to {output} "
        f"({size_of(output)})"
    )
    for name, ports in (("inputs", written.inputs), ("outputs", written.outputs)):
        say(f"{name}: " + "; ".join(f"{port} {kind}" for port, kind in ports.items()))

"""``domaincal inspect``."""

from pathlib import Path
from typing import Any

import click

from domaincal.cli.options import DATA_HELP, json_option, probabilities_option

# What was learned that a document can hold; heads and maps are in the file.
_NUMBERS = (
    "temperature_", "standard_error_", "domain_temperatures_", "domain_standard_errors_",
    "clip_", "head_parameters_", "head_rows_",
)  # fmt: skip


@click.command(short_help="What is in a file, and what is odd about it.", epilog=DATA_HELP)
@click.argument("path", type=click.Path(path_type=Path))
@probabilities_option
@click.option("--verify", is_flag=True, help="Compare checksums (of a store, of .parquet).")
@json_option
def inspect(path: Path, probabilities: bool, verify: bool, as_json: bool) -> None:
    """Say what is in a file, domain by domain, and what is odd about it.

    PATH is a file of rows, of a calibrator (domaincal fit) or of a network (domaincal train).

    \b
    Examples:
      domaincal inspect scores.npz
      domaincal inspect scores --verify
      domaincal inspect model.safetensors
      domaincal inspect network.safetensors
    """
    from dataclasses import asdict

    from domaincal import io
    from domaincal.cli.console import print_json, records, working
    from domaincal.cli.tables import print_inspection, print_model, print_network
    from domaincal.vision.networks.header import NetworkHeader, is_network

    texts = _texts(path)
    if is_network(texts):
        network = NetworkHeader.from_texts(texts, path)
        if as_json:
            content = {"path": str(path), "n_classes": network.n_classes, **asdict(network)}
            print_json("network", content)
        else:
            print_network(path, network)
        return
    if "domaincal" in texts:
        from domaincal.calibrators import load

        calibrator = load(path)
        if as_json:
            print_json("calibrator", {"path": str(path), **model_facts(calibrator)})
        else:
            print_model(calibrator)
        return
    with working(f"reading {path}"):
        found = io.inspect(path, probabilities=probabilities, verify=verify)
    if as_json:
        domains = records(found.domains)
        print_json("inspection", {**asdict(found), "domains": domains})
    else:
        print_inspection(found)


def model_facts(calibrator: Any) -> dict[str, Any]:
    """The calibrator of a document."""
    return {
        "class": type(calibrator).__name__,
        "parameters": calibrator.get_params(deep=False),
        "n_classes": calibrator.n_classes_,
        "class_names": calibrator.class_names_,
        "fitted_on": calibrator.data_fingerprint_,
        "learned": {
            name.removesuffix("_"): value.to_dict() if hasattr(value, "to_dict") else value
            for name, value in ((name, getattr(calibrator, name)) for name in calibrator._learned)
            if name in _NUMBERS
        },
    }


def _texts(path: Path) -> dict[str, str]:
    """What tells the kinds of ``.safetensors`` files apart."""
    if path.suffix != ".safetensors" or not path.is_file():
        return {}
    from domaincal._files import read_tensor_metadata

    return read_tensor_metadata(path)

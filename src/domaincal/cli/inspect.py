"""``domaincal inspect``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from domaincal.cli.column_options import column_options
from domaincal.cli.options import (
    DATA_HELP,
    json_option,
    max_memory_option,
)

if TYPE_CHECKING:
    from domaincal.data.column_choice import ColumnChoice

# Learned attributes for JSON documents; heads, maps and arrays of coefficients are too large.
_LEARNED = (
    "temperature_", "standard_error_", "domain_temperatures_", "domain_standard_errors_",
    "clip_", "head_parameters_", "head_rows_", "batch_errors_", "penalty_", "penalty_search_",
    "posterior_search_", "em_steps_", "accuracy_", "limits_", "n_rows_", "n_neighbors_",
)  # fmt: skip


@click.command(short_help="Describe a file and list possible problems.", epilog=DATA_HELP)
@click.argument("path", type=click.Path(path_type=Path))
@column_options
@click.option("--verify", is_flag=True, help="Compare the checksums of a store or a .parquet file.")
@max_memory_option
@json_option
def inspect(
    path: Path, columns: ColumnChoice, verify: bool, max_memory: int | None, as_json: bool
) -> None:
    """Describe a file, domain by domain, and list possible problems.

    PATH is a data file, a calibrator (from domaincal fit), a network (from domaincal train), a
    file of a site (from domaincal site) or an .onnx file (from domaincal export).

    \b
    Examples:
      domaincal inspect scores.npz
      domaincal inspect scores --verify
      domaincal inspect cases.csv --probabilities 'p_*' --label y --domain site
      domaincal inspect model.safetensors
      domaincal inspect network.safetensors
      domaincal inspect calibrator.onnx
    """
    from domaincal._tensor_files import SITE_ENTRY
    from domaincal.vision.networks.header import is_network

    metadata = _metadata(path)
    if is_network(metadata):
        _inspect_network(path, metadata, as_json=as_json)
    elif "domaincal" in metadata:
        _inspect_calibrator(path, as_json=as_json)
    elif SITE_ENTRY in metadata:
        from domaincal.cli.site_contents import inspect_site_file

        inspect_site_file(path, as_json=as_json)
    elif path.suffix.lower() == ".onnx" and not path.is_dir():
        from domaincal.cli.onnx_contents import inspect_onnx_file

        inspect_onnx_file(path, as_json=as_json)
    else:
        _inspect_data(path, columns, as_json=as_json, verify=verify, max_memory=max_memory)


def model_facts(calibrator: Any, floor: float | None, estimator: Any) -> dict[str, Any]:
    """Parameters, learned numbers, floor and estimator of a calibrator, for JSON documents."""
    from domaincal.cli.model_estimator import estimator_facts

    selection = calibrator.provenance_
    learned = {name: getattr(calibrator, name) for name in _LEARNED if hasattr(calibrator, name)}
    return {
        "class": type(calibrator).__name__,
        "parameters": calibrator.get_params(deep=False),
        "n_classes": calibrator.n_classes_,
        "class_names": calibrator.class_names_,
        "fitted_on": calibrator.data_fingerprint_,
        "floor": floor,
        "estimator": estimator_facts(estimator),
        "summary": calibrator.summary(),
        "learned": {name.removesuffix("_"): _plain(value) for name, value in learned.items()},
        "selection": None if selection is None else _selection_facts(selection),
    }


def _plain(value: Any) -> Any:
    """Tables as lists of rows, series as dictionaries, anything else unchanged."""
    from domaincal.cli.console import records

    if hasattr(value, "columns"):
        return records(value)
    return value.to_dict() if hasattr(value, "to_dict") else value


def _selection_facts(selection: Any) -> dict[str, Any]:
    from domaincal.cli.console import records

    return {"batch_size": selection.batch_size, "candidates": records(selection.table)}


def _inspect_network(path: Path, metadata: dict[str, str], *, as_json: bool) -> None:
    from dataclasses import asdict

    from domaincal.cli.console import print_json
    from domaincal.cli.tables import print_network
    from domaincal.vision.networks.header import NetworkHeader

    network = NetworkHeader.from_texts(metadata, path)
    if as_json:
        content = {"path": str(path), "n_classes": network.n_classes, **asdict(network)}
        print_json("network", content)
    else:
        print_network(path, network)


def _inspect_calibrator(path: Path, *, as_json: bool) -> None:
    from domaincal.calibrators import load
    from domaincal.cli.console import print_json
    from domaincal.cli.model_estimator import stored_estimator
    from domaincal.cli.model_floor import stored_floor
    from domaincal.cli.tables import print_model

    calibrator, floor, estimator = load(path), stored_floor(path), stored_estimator(path)
    if as_json:
        print_json("calibrator", {"path": str(path), **model_facts(calibrator, floor, estimator)})
    else:
        print_model(calibrator, floor, estimator)


def _inspect_data(path: Path, columns: ColumnChoice, *, as_json: bool, **options: Any) -> None:
    from dataclasses import asdict, replace

    from domaincal.cli.column_options import in_words_of_options, print_columns
    from domaincal.cli.console import print_json, records, working
    from domaincal.cli.tables import print_inspection
    from domaincal.io.inspection import inspect_chosen

    with working(f"reading {path}"):
        found = inspect_chosen(path, columns, **options)
    print_columns(columns, found.columns)
    found = replace(found, findings=tuple(map(in_words_of_options, found.findings)))
    if as_json:
        print_json("inspection", {**asdict(found), "domains": records(found.domains)})
    else:
        print_inspection(found)


def _metadata(path: Path) -> dict[str, str]:
    """Metadata of a ``.safetensors`` file, which tell its content; empty for other files."""
    if path.suffix != ".safetensors" or not path.is_file():
        return {}
    from domaincal._tensor_files import read_tensor_metadata

    return read_tensor_metadata(path)

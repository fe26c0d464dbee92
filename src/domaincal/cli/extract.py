"""``domaincal extract``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from domaincal.cli.image_options import (
    DATASET_HELP,
    dataset_argument,
    device_options,
    path_argument,
)
from domaincal.cli.options import json_option, seed_option

if TYPE_CHECKING:
    from domaincal.vision.corruptions.catalogue import Constants
    from domaincal.vision.extraction.mixed_precision import Precision


@click.command(short_help="Write a network's logits and features of images.", epilog=DATASET_HELP)
@dataset_argument
@path_argument
@click.argument("output", type=click.Path(path_type=Path))
@click.option(
    "--network", required=True,
    help="File of domaincal train, or the name of a network with pretrained weights in timm: "
    "resnet-50, efficientnet-b1, bit-m-r50, vit-base and so on.",
)  # fmt: skip
@click.option(
    "--split",
    help="Split of the data set: val, train, test, ...; for rxrx1 also val,test. "
    "[default: the one for evaluation]",
)
@click.option(
    "--corrupt", "constants", type=click.Choice(["imagenet", "tiny-imagenet", "cifar"]),
    help="Show every image in 76 domains: clean, and under 15 corruptions at 5 severities, with "
    "the constants published for images of 224, 64 or 32 px.",
)  # fmt: skip
@click.option(
    "--batch-size", type=click.IntRange(min=1),
    help="Number of images in a batch. [default: 256 on a GPU, 16 on the CPU]",
)  # fmt: skip
@click.option(
    "--precision", type=click.Choice(["float32", "float16", "bfloat16"]),
    help="Precision of all layers except the last. [default: float16 on a GPU, float32 on the "
    "CPU]",
)  # fmt: skip
@device_options
@seed_option
@json_option
def extract(
    dataset: str,
    path: Path,
    output: Path,
    network: str,
    split: str | None,
    constants: Constants | None,
    batch_size: int | None,
    precision: Precision | None,
    device: str,
    jobs: int | None,
    seed: int,
    as_json: bool,
) -> None:
    """Show the images of a data set to a network, and write its logits and features to OUTPUT.

    DATASET and PATH name the images. OUTPUT is a store, a folder. If the command is interrupted,
    run it again to resume. --seed is the seed of --corrupt.

    \b
    Examples:
      domaincal extract imagenet-c:clean=val imagenet-c rows --network resnet-50
      domaincal extract tiny-imagenet tiny-imagenet-200 rows \\
          --network mine.safetensors --corrupt tiny-imagenet
      domaincal extract table:label=species photos.csv rows \\
          --network mine.safetensors
      domaincal extract table:label=null new.csv new --network mine.safetensors
    """
    from domaincal.cli.console import print_json, progress, say
    from domaincal.cli.image_options import parse_dataset
    from domaincal.cli.options import require_output, size_of
    from domaincal.vision import Corruptions, create_network, load_network
    from domaincal.vision.extraction.extract import extract as extract_rows

    named = parse_dataset(dataset)
    require_output(output, force=False, grows=True)
    images = named.open(path, split)
    is_file = Path(network).suffix == ".safetensors"
    opened = load_network(network) if is_file else create_network(network, pretrained=True)
    with progress("extracting", unit="images") as track:
        extraction = extract_rows(
            opened, images, output, batch_size=batch_size, precision=precision, device=device,
            corruptions=None if constants is None else Corruptions(constants, random_state=seed),
            n_jobs=jobs, track=track,
        )  # fmt: skip
    n_rows, n_kept = extraction.n_rows, extraction.n_kept
    if as_json:
        print_json(
            "extraction",
            {
                "output": str(output), "n_rows": n_rows, "n_kept": n_kept,
                "seconds": extraction.seconds, "images_per_second": extraction.rate,
                "device": extraction.device, "precision": extraction.precision,
                "provenance": extraction.store.provenance,
            },
        )  # fmt: skip
        return
    if n_kept == n_rows:
        say(f"{output} already has all {n_rows} rows")
        return
    kept = f", {n_kept} already existed" if n_kept else ""
    say(
        f"{n_rows - n_kept} images in {extraction.seconds:.1f} s ({extraction.rate:.0f} images/s, "
        f"{extraction.precision} on {extraction.device}){kept}; {output} has {n_rows} rows, "
        f"{size_of(output)}"
    )

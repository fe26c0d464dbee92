"""``domaincal extract``."""

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
    from domaincal.vision.corruptions.corruption_set import Constants
    from domaincal.vision.extraction.mixed_precision import Precision


@click.command(short_help="Logits and features of images, by a network.", epilog=DATASET_HELP)
@dataset_argument
@path_argument
@click.argument("store", type=click.Path(path_type=Path))
@click.option(
    "--network", required=True,
    help="A file of domaincal train; or the name of a network whose weights timm has: resnet-50, "
    "efficientnet-b1, bit-m-r50, vit-base and so on.",
)  # fmt: skip
@click.option(
    "--split", help="Of the data set: val, train, test, ...; of rxrx1 also val,test. "
    "[default: the one for evaluation]",
)  # fmt: skip
@click.option(
    "--corrupt", "constants", type=click.Choice(["imagenet", "tiny-imagenet", "cifar"]),
    help="Show every image in 76 domains: clean, and under 15 corruptions at 5 severities, with "
    "the constants that were published for images of 224, 64 or 32 px.",
)  # fmt: skip
@click.option(
    "--batch-size", type=click.IntRange(min=1),
    help="Images that the network sees at a time. [default: 256 on a GPU, 16 elsewhere]",
)  # fmt: skip
@click.option(
    "--precision", type=click.Choice(["float32", "float16", "bfloat16"]),
    help="Of all layers but the last. [default: float16 on a GPU, float32 elsewhere]",
)  # fmt: skip
@device_options
@seed_option
@json_option
def extract(
    dataset: str,
    path: Path,
    store: Path,
    network: str,
    split: str | None,
    constants: "Constants | None",
    batch_size: int | None,
    precision: "Precision | None",
    device: str,
    jobs: int | None,
    seed: int,
    as_json: bool,
) -> None:
    """Show the images of a data set to a network; its logits and features become a STORE.

    DATASET and PATH name the images. If it is cut off, the same command goes on. --seed is that of
    --corrupt.

    \b
    Examples:
      domaincal extract imagenet-c:clean=val imagenet-c rows --network resnet-50
      domaincal extract tiny-imagenet tiny-imagenet-200 rows --network mine.safetensors \\
          --corrupt tiny-imagenet
      domaincal extract table:label=species photos.csv rows --network mine.safetensors
      domaincal extract table:label=null new.csv new --network mine.safetensors
    """
    from domaincal.cli.console import print_json, progress, say
    from domaincal.cli.image_options import parse_dataset
    from domaincal.cli.options import require_output, size_of
    from domaincal.vision import Corruptions, create_network, load_network
    from domaincal.vision.extraction.extract import extract as extract_rows

    named = parse_dataset(dataset)
    require_output(store, force=False, grows=True)
    images = named.open(path, split)
    shown = load_network(network) if Path(network).suffix == ".safetensors" else None
    shown = create_network(network, pretrained=True) if shown is None else shown
    with progress("extracting", unit="images") as track:
        done = extract_rows(
            shown, images, store, batch_size=batch_size, precision=precision, device=device,
            corruptions=None if constants is None else Corruptions(constants, seed=seed),
            n_jobs=jobs, track=track,
        )  # fmt: skip
    if as_json:
        print_json(
            "extraction",
            {
                "output": str(store), "n_rows": done.n_rows, "n_kept": done.n_kept,
                "seconds": done.seconds, "images_per_second": done.rate, "device": done.device,
                "precision": done.precision, "provenance": done.store.provenance,
            },
        )  # fmt: skip
        return
    if done.n_kept == done.n_rows:
        say(f"{store} has all {done.n_rows} rows already")
        return
    kept = f", {done.n_kept} were there" if done.n_kept else ""
    say(
        f"{done.n_rows - done.n_kept} images in {done.seconds:.1f} s ({done.rate:.0f} images/s, "
        f"{done.precision} on {done.device}){kept}; {store} has {done.n_rows} rows, "
        f"{size_of(store)}"
    )

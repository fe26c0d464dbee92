"""``domaincal train``."""

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
from domaincal.cli.options import force_option, json_option, seed_option

if TYPE_CHECKING:
    from domaincal.vision.networks.create_network import Stem
    from domaincal.vision.training.learning_rates import Schedule


@click.command(short_help="Train or fine-tune a network on images.", epilog=DATASET_HELP)
@dataset_argument
@path_argument
@click.argument("output", type=click.Path(path_type=Path))
@click.option(
    "--network", required=True,
    help="resnet-50, resnext-50, densenet-121, bit-m-r50, efficientnet-b1, vit-small, vit-base, or "
    "the name of another network of timm.",
)  # fmt: skip
@click.option(
    "--pretrained", is_flag=True, help="Start from timm's pretrained weights, not random ones."
)
@click.option("--split", help="Split to train on. [default: train, if the data set has splits]")
@click.option(
    "--validation-split",
    help="Split on which the accuracy is measured after each epoch. [default: none]",
)
@click.option(
    "--side", type=click.IntRange(min=1), help="Side of the images in px. [default: the network's]"
)
@click.option(
    "--stem", type=click.Choice(["standard", "small"]), default="standard", show_default=True,
    help="First layer of the network; small is for images of 32 to 96 px.",
)  # fmt: skip
@click.option(
    "--epochs", type=click.IntRange(min=1), default=25, show_default=True,
    help="Number of passes over the images.",
)  # fmt: skip
@click.option(
    "--batch-size", type=click.IntRange(min=2), default=256, show_default=True,
    help="Number of images in a step.",
)  # fmt: skip
@click.option(
    "--learning-rate", type=float, default=0.1, show_default=True, help="Largest learning rate."
)
@click.option(
    "--schedule", type=click.Choice(["one-cycle", "cosine"]), default="one-cycle",
    show_default=True, help="Schedule of the learning rate: both end at 0, one-cycle rises first.",
)  # fmt: skip
@click.option(
    "--weight-decay", type=float, default=5e-4, show_default=True,
    help="Weight decay of matrices and kernels.",
)  # fmt: skip
@click.option("--clip-norm", type=float, help="Largest norm of the gradient. [default: none]")
@click.option(
    "--compile", "compiled", is_flag=True,
    help="Compile the network with torch: takes a minute, and may speed up epochs on a GPU.",
)  # fmt: skip
@device_options
@seed_option
@force_option
@json_option
def train(
    dataset: str,
    path: Path,
    output: Path,
    network: str,
    pretrained: bool,
    split: str | None,
    validation_split: str | None,
    side: int | None,
    stem: Stem,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    schedule: Schedule,
    weight_decay: float,
    clip_norm: float | None,
    compiled: bool,
    device: str,
    jobs: int | None,
    seed: int,
    force: bool,
    as_json: bool,
) -> None:
    """Train a network on the images of a data set, and save it to OUTPUT, a .safetensors file.

    DATASET and PATH name the images. Training uses stochastic gradient descent with random crops
    and flips, in bfloat16 on a GPU. The file records all parameters.

    \b
    Examples:
      domaincal train tiny-imagenet tiny-imagenet-200 resnet.safetensors \\
          --network resnet-50 --side 64 --stem small --validation-split val
      domaincal train rxrx1 rxrx1_v1.0 cells.safetensors --network resnet-50 \\
          --pretrained --learning-rate 0.01 --schedule cosine
      domaincal train table:label=species:domain=site photos.csv \\
          mine.safetensors --network resnet-50 --pretrained
    """
    from domaincal.cli.console import print_json, progress, records, say
    from domaincal.cli.image_options import parse_dataset
    from domaincal.cli.options import require_output, size_of
    from domaincal.vision import create_network
    from domaincal.vision.training.train import train as train_network
    from domaincal.vision.training.training_images import labels_and_classes

    named = parse_dataset(dataset)
    require_output(output, force=force)
    if split is None and named.splits:
        split = "train"
    images = named.open(path, split)
    validation = None if validation_split is None else named.open(path, validation_split)
    created = create_network(
        network, class_names=labels_and_classes(images)[1], side=side, stem=stem,
        pretrained=pretrained, random_state=seed,
    )  # fmt: skip
    with progress("training") as track:
        training = train_network(
            created, images, output, validation=validation, epochs=epochs, batch_size=batch_size,
            learning_rate=learning_rate, schedule=schedule, weight_decay=weight_decay,
            clip_norm=clip_norm, compiled=compiled, device=device, n_jobs=jobs,
            random_state=seed, track=track,
        )  # fmt: skip
    history = training.history
    if as_json:
        provenance = training.network.provenance
        print_json(
            "training",
            {"output": str(output), "provenance": provenance, "history": records(history)},
        )
        return
    accuracy = f", accuracy {100 * training.accuracy:.1f}%" if validation is not None else ""
    say(
        f"{network}: {epochs} epochs of {len(images)} images in {history['seconds'].sum():.0f} s, "
        f"loss {history['loss'].iloc[-1]:.3f}{accuracy}; {output} has {size_of(output)}"
    )

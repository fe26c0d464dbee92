"""``domaincal train``."""

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
    from domaincal.vision.training.train import Schedule


@click.command(short_help="Train or fine-tune a network on images.", epilog=DATASET_HELP)
@dataset_argument
@path_argument
@click.argument("output", type=click.Path(path_type=Path))
@click.option(
    "--network", required=True,
    help="resnet-50, resnext-50, densenet-121, bit-m-r50, efficientnet-b1, vit-small, vit-base, or "
    "a name of timm's.",
)  # fmt: skip
@click.option(
    "--pretrained", is_flag=True, help="Start from the weights that timm has, not at random."
)
@click.option("--split", help="Of the data set, to learn. [default: train, where there are splits]")
@click.option(
    "--validation-split",
    help="Of the data set, to measure the accuracy after each epoch. [default: none]",
)  # fmt: skip
@click.option(
    "--side", type=click.IntRange(min=1), help="Of images in px. [default: the network's]"
)
@click.option(
    "--stem", type=click.Choice(["standard", "small"]), default="standard", show_default=True,
    help="small: for images of 32 to 96 px.",
)  # fmt: skip
@click.option(
    "--epochs", type=click.IntRange(min=1), default=25, show_default=True,
    help="How often every image is seen.",
)  # fmt: skip
@click.option(
    "--batch-size", type=click.IntRange(min=2), default=256, show_default=True,
    help="Images of a step.",
)  # fmt: skip
@click.option("--learning-rate", type=float, default=0.1, show_default=True, help="The largest.")
@click.option(
    "--schedule", type=click.Choice(["one-cycle", "cosine"]), default="one-cycle",
    show_default=True, help="How the learning rate falls to 0; one-cycle rises before.",
)  # fmt: skip
@click.option(
    "--weight-decay", type=float, default=5e-4, show_default=True,
    help="Of matrices and kernels.",
)  # fmt: skip
@click.option("--clip-norm", type=float, help="Shorten longer gradients to this.")
@click.option(
    "--compile", "compiled", is_flag=True,
    help="Let torch compile the network: a minute at first, then perhaps faster epochs.",
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
    stem: "Stem",
    epochs: int,
    batch_size: int,
    learning_rate: float,
    schedule: "Schedule",
    weight_decay: float,
    clip_norm: float | None,
    compiled: bool,
    device: str,
    jobs: int | None,
    seed: int,
    force: bool,
    as_json: bool,
) -> None:
    """Train a network on the images of a data set, into OUTPUT, a .safetensors file.

    DATASET and PATH name the images. Stochastic gradient descent, bfloat16 on a GPU, random crops
    and reflections; the file says how it was trained.

    \b
    Examples:
      domaincal train tiny-imagenet tiny-imagenet-200 resnet.safetensors --network resnet-50 \\
          --side 64 --stem small --validation-split val
      domaincal train rxrx1 rxrx1_v1.0 cells.safetensors --network resnet-50 --pretrained \\
          --learning-rate 0.01 --schedule cosine
      domaincal train table:label=species:domain=site photos.csv mine.safetensors \\
          --network resnet-50 --pretrained
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
    made = create_network(
        network, class_names=labels_and_classes(images)[1], side=side, stem=stem,
        pretrained=pretrained, seed=seed,
    )  # fmt: skip
    with progress("training") as track:
        done = train_network(
            made, images, output, validation=validation, epochs=epochs, batch_size=batch_size,
            learning_rate=learning_rate, schedule=schedule, weight_decay=weight_decay,
            clip_norm=clip_norm, compiled=compiled, device=device, n_jobs=jobs, seed=seed,
            track=track,
        )  # fmt: skip
    if as_json:
        history = records(done.history)
        provenance = done.network.provenance
        print_json(
            "training", {"output": str(output), "provenance": provenance, "history": history}
        )
        return
    last = done.history.iloc[-1]
    measured = f", accuracy {100 * done.accuracy:.1f}%" if validation is not None else ""
    say(
        f"{network}: {epochs} epochs of {len(images)} images in "
        f"{done.history['seconds'].sum():.0f} s, loss {last['loss']:.3f}{measured}; {output} has "
        f"{size_of(output)}"
    )

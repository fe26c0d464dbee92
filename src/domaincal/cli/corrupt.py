"""``domaincal corrupt``."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from domaincal.cli.options import jobs_option, json_option, seed_option

if TYPE_CHECKING:
    from domaincal.vision.corruptions.catalogue import Constants


@click.command(short_help="Corrupt a folder of images: 75 domains.")
@click.argument("source", type=click.Path(path_type=Path))
@click.argument("destination", type=click.Path(path_type=Path))
@click.option(
    "--name", "names", multiple=True,
    help="Corruption, such as fog. Can be repeated. [default: all 15]",
)  # fmt: skip
@click.option(
    "--severity", "severities", multiple=True, type=click.IntRange(1, 5),
    help="Severity. Can be repeated. [default: 1 to 5]",
)  # fmt: skip
@click.option(
    "--constants", type=click.Choice(["imagenet", "tiny-imagenet", "cifar"]), default="imagenet",
    show_default=True,
    help="How strong a severity is, as published for 224, 64 or 32 px; the last two need torch.",
)  # fmt: skip
@seed_option
@jobs_option
@json_option
def corrupt(
    source: Path,
    destination: Path,
    names: tuple[str, ...],
    severities: tuple[int, ...],
    constants: "Constants",
    seed: int,
    jobs: int | None,
    as_json: bool,
) -> None:
    """Corrupt the images of SOURCE as ImageNet-C does, into DESTINATION/<name>/<severity>/.

    Images have sides of at least 32 px and 8 bits; names and formats stay, all become RGB. The same
    seed gives the same images, whatever the number of processes. If it is cut off, the same command
    goes on.

    \b
    Examples:
      domaincal corrupt photos photos-c
      domaincal corrupt photos photos-c --name fog --name snow --severity 3
      domaincal corrupt thumbnails thumbnails-c --constants tiny-imagenet
    """
    from dataclasses import asdict

    from domaincal.cli.console import print_json, progress, say
    from domaincal.cli.options import size_of
    from domaincal.vision.corruptions.catalogue import CORRUPTIONS, SEVERITIES
    from domaincal.vision.corruptions.corrupted_folder import corrupt_folder

    with progress("corrupting") as track:
        done = corrupt_folder(
            source, destination, names=names or CORRUPTIONS, severities=severities or SEVERITIES,
            seed=seed, constants=constants, n_jobs=jobs or -1, track=track,
        )  # fmt: skip
    if as_json:
        made_with = {"seed": seed, "constants": constants, "output": str(destination)}
        print_json("corruption", {**asdict(done), **made_with})
        return
    kept = f", {done.n_kept} were there" if done.n_kept else ""
    say(
        f"{done.n_images} images in {done.n_domains} domains: {done.n_written} files written"
        f"{kept}; {destination} has {size_of(destination)}"
    )
    if done.n_left_out:
        say(
            f"warning: {done.n_left_out} files of {source} are of no format that is read.", err=True
        )

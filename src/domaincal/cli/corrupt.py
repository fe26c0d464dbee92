"""``domaincal corrupt``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from domaincal.cli.options import jobs_option, json_option, seed_option

if TYPE_CHECKING:
    from domaincal.vision.corruptions.catalogue import Constants


@click.command(short_help="Corrupt a folder of images into 75 domains.")
@click.argument("source", type=click.Path(path_type=Path))
@click.argument("output", type=click.Path(path_type=Path))
@click.option(
    "--name", "names", multiple=True,
    help="Name of a corruption, such as fog. Can be repeated. [default: all 15]",
)  # fmt: skip
@click.option(
    "--severity", "severities", multiple=True, type=click.IntRange(1, 5),
    help="Severity. Can be repeated. [default: 1 to 5]",
)  # fmt: skip
@click.option(
    "--constants", type=click.Choice(["imagenet", "tiny-imagenet", "cifar"]), default="imagenet",
    show_default=True,
    help="Table of constants, published for images of 224, 64 or 32 px; the last two need torch.",
)  # fmt: skip
@seed_option
@jobs_option
@json_option
def corrupt(
    source: Path,
    output: Path,
    names: tuple[str, ...],
    severities: tuple[int, ...],
    constants: Constants,
    seed: int,
    jobs: int | None,
    as_json: bool,
) -> None:
    """Corrupt the images of SOURCE as in ImageNet-C, into OUTPUT/<name>/<severity>/.

    Images need sides of at least 32 px and 8 bits per channel. Files keep their names and formats;
    all images become RGB. The images depend on the seed, but not on the number of processes. If the
    command is interrupted, run it again to resume.

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
        summary = corrupt_folder(
            source, output, names=names or CORRUPTIONS, severities=severities or SEVERITIES,
            random_state=seed, constants=constants, n_jobs=jobs or -1, track=track,
        )  # fmt: skip
    if as_json:
        parameters = {"seed": seed, "constants": constants, "output": str(output)}
        print_json("corruption", {**asdict(summary), **parameters})
        return
    kept = f", {summary.n_kept} already existed" if summary.n_kept else ""
    say(
        f"{summary.n_images} images in {summary.n_domains} domains: {summary.n_written} files "
        f"written{kept}; {output} has {size_of(output)}"
    )
    if summary.n_left_out:
        say(
            f"warning: {summary.n_left_out} files of {source} have a format that is not supported.",
            err=True,
        )

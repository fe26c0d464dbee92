"""A folder of images, corrupted into one folder for each domain."""

import contextlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from domaincal._files import atomic_file
from domaincal._optional import require
from domaincal._typing import Track
from domaincal._validation import check_count, check_option
from domaincal.errors import FileFormatError, InputError
from domaincal.vision.corruptions.catalogue import (
    CONSTANTS,
    CORRUPTIONS,
    SEVERITIES,
    SMALLEST_SIDE,
    Constants,
    check_corruption,
)
from domaincal.vision.corruptions.corrupt import corrupt
from domaincal.vision.processes import in_processes

SUFFIXES = (".bmp", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp")
#: Says how the images of a folder came about, so that work that was cut off can go on.
RECIPE = "corruptions.json"

# As the published ImageNet-C is stored.
_JPEG_QUALITY = 85
# Images that one process takes at a time: enough to forget the way to it.
_CHUNK = 64


@dataclass(frozen=True)
class CorruptedFolder:
    """What :func:`corrupt_folder` did.

    Attributes
    ----------
    n_images, n_domains : int
        Images of the source, and (corruption, severity) pairs.
    n_written, n_kept : int
        Files that were written, and that were there from an earlier call.
    n_left_out : int
        Files of the source that are of none of the formats.
    """

    n_images: int
    n_domains: int
    n_written: int
    n_kept: int
    n_left_out: int


def corrupt_folder(
    source: str | os.PathLike[str],
    destination: str | os.PathLike[str],
    *,
    names: Sequence[str] = CORRUPTIONS,
    severities: Sequence[int] = SEVERITIES,
    seed: int = 0,
    constants: Constants = "imagenet",
    n_jobs: int = 1,
    track: Track = iter,
) -> CorruptedFolder:
    """Corrupt every image of a folder: ``destination/<corruption>/<severity>/<as in source>``.

    That is the layout of ImageNet-C; the images of the source are the clean domain. Files keep
    their names and formats (JPEG with quality 85, as there) and become RGB of 8 bits. Files that an
    earlier call with the same seed and constants wrote are kept: what was cut off goes on.

    Parameters
    ----------
    source : path
        A folder, searched with all that is below it, for .bmp, .jpeg, .jpg, .png, .ppm, .tif,
        .tiff and .webp.
    destination : path
        A new folder, or that of an earlier call.
    names : sequence of str, default all 15
    severities : sequence of int, default 1 to 5
    seed : int, default 0
    constants : {"imagenet", "tiny-imagenet", "cifar"}, default "imagenet"
        How strong a severity is, see :func:`corrupt`; but for "imagenet" this needs torch.
    n_jobs : int, default 1
        Processes; -1: one for each core. The images do not depend on it.
    track : callable, optional
        Wraps the list of steps, to show progress, e.g. ``tqdm.tqdm``.

    Returns
    -------
    CorruptedFolder

    Examples
    --------
    >>> import tempfile, numpy as np, domaincal as dc
    >>> from pathlib import Path
    >>> from PIL import Image
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     (Path(folder) / "photos").mkdir()
    ...     Image.fromarray(np.zeros((40, 40, 3), np.uint8)).save(folder + "/photos/night.png")
    ...     source, target = folder + "/photos", folder + "/corrupted"
    ...     done = dc.vision.corrupt_folder(source, target, names=["fog"])
    ...     (Path(folder) / "corrupted/fog/3/night.png").exists(), done.n_written
    (True, 5)
    """
    require("imagecorruptions", extra="corruptions", purpose="corrupting images")
    source, destination = Path(source), Path(destination)
    check_count(seed, "seed", minimum=0)
    check_option(constants, "constants", CONSTANTS)
    if constants != "imagenet":
        require("torch", extra="torch", purpose=f"corrupting with the constants of {constants}")
    pairs = list(dict.fromkeys((name, severity) for name in names for severity in severities))
    if not pairs:
        raise InputError("names or severities is empty; name at least one of each.")
    for pair in pairs:
        check_corruption(*pair)
    images, left_out = _images(source)
    _require_new_or_own(source, destination, seed, constants)
    wanted = [
        (image, destination / name / str(severity) / image.relative_to(source), name, severity)
        for name, severity in pairs
        for image in images
    ]
    missing = [task for task in wanted if not _is_newer(task[1], source=task[0])]
    for folder in sorted({target.parent for _, target, _, _ in missing}):
        folder.mkdir(parents=True, exist_ok=True)
    chunks = [(missing[k : k + _CHUNK], seed, constants) for k in range(0, len(missing), _CHUNK)]
    for _ in in_processes(_corrupt_files, chunks, n_jobs=n_jobs, track=track):
        pass
    return CorruptedFolder(
        n_images=len(images), n_domains=len(pairs), n_written=len(missing),
        n_kept=len(wanted) - len(missing), n_left_out=left_out,
    )  # fmt: skip


def _images(source: Path) -> tuple[list[Path], int]:
    """The images of a folder, all of which can be corrupted, and how many other files there are."""
    if not source.is_dir():
        raise InputError(f"source={str(source)!r} is no folder; give the folder of the images.")
    files = [path for path in source.rglob("*") if path.is_file()]
    images = sorted(path for path in files if path.suffix.lower() in SUFFIXES)
    if not images:
        raise InputError(f"there is no image in {source}; looked for {', '.join(SUFFIXES)}.")
    for path in images:
        with _opened(path) as image:
            width, height = image.size
            mode = image.mode
        if mode.startswith(("I", "F")):  # PIL would clip it, not scale it
            raise InputError(
                f"{path} has more than 8 bits a channel (mode {mode}); bring the images to 8 bits "
                "first."
            )
        if min(width, height) < SMALLEST_SIDE:
            raise InputError(
                f"{path} is {width} x {height} px; corruptions need sides of at least "
                f"{SMALLEST_SIDE} px: enlarge the images first."
            )
    return images, len(files) - len(images)


def _require_new_or_own(source: Path, destination: Path, seed: int, constants: str) -> None:
    """Refuse to mix what does not belong together, and to corrupt what is corrupted."""
    inside, outside = destination.resolve(), source.resolve()
    if inside == outside or outside in inside.parents:
        raise InputError(
            f"destination={str(destination)!r} is in the source {source}; choose a folder outside."
        )
    if inside in outside.parents:
        raise InputError(
            f"source={str(source)!r} is in the destination {destination}; choose a folder outside."
        )
    recipe = {
        "seed": seed,
        "source": str(outside),
        "imagecorruptions-imaug": version("imagecorruptions-imaug"),
        "constants": constants,
    }
    known = destination / RECIPE
    if destination.exists() and not destination.is_dir():
        raise InputError(f"destination={str(destination)!r} is no folder; choose another name.")
    if not known.exists() and destination.is_dir() and any(destination.iterdir()):
        raise InputError(f"{destination} holds other files; choose a new or empty folder.")
    if known.exists():
        try:
            found = json.loads(known.read_text())
        except ValueError as error:
            raise FileFormatError(f"{known} cannot be read ({error}); remove it.") from error
        found.setdefault("constants", "imagenet")  # of before there was a choice
        if found != recipe:
            raise InputError(
                f"{destination} was made with {_words(found)}, not with {_words(recipe)}; choose "
                "another folder."
            )
        return
    destination.mkdir(parents=True, exist_ok=True)
    with atomic_file(known) as file:
        file.write(json.dumps(recipe, indent=1).encode())


def _is_newer(made: Path, *, source: Path) -> bool:
    """Whether an image was made of the source as it is."""
    return made.exists() and made.stat().st_mtime_ns >= source.stat().st_mtime_ns


def _words(recipe: dict[str, Any]) -> str:
    return " and ".join(f"{name} {value}" for name, value in recipe.items())


def _corrupt_files(
    tasks: list[tuple[Path, Path, str, int]], seed: int, constants: Constants
) -> None:
    module = require("PIL.Image", extra="corruptions", purpose="reading images")
    for source, target, name, severity in tasks:
        with _opened(source) as image:
            try:
                pixels = np.asarray(image.convert("RGB"))
            except (OSError, SyntaxError) as error:  # the header was good, the rest is not
                raise FileFormatError(
                    f"{source} cannot be decoded ({error}); mend or remove it, and go on."
                ) from error
        with _one_thread(constants):
            made = corrupt(pixels[None], name, severity, seed, constants=constants)
        result = module.fromarray(made[0])
        jpeg = target.suffix.lower() in (".jpg", ".jpeg")
        options = {"quality": _JPEG_QUALITY} if jpeg else {}
        with atomic_file(target) as file:
            result.save(
                file, format=module.registered_extensions()[target.suffix.lower()], **options
            )


@contextlib.contextmanager
def _one_thread(constants: str) -> Iterator[None]:
    """Keep torch, where it is used, to one thread: processes own the cores."""
    if constants == "imagenet":
        yield
        return
    torch = require("torch", extra="torch", purpose="corrupting")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _opened(path: Path) -> Any:
    module = require("PIL.Image", extra="corruptions", purpose="reading images")
    try:
        return module.open(path)
    except module.UnidentifiedImageError as error:
        raise FileFormatError(f"{path} is no image that can be read; remove or mend it.") from error

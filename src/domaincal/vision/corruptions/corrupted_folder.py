"""Corrupt a folder of images into one folder for each domain."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from domaincal._files import atomic_file, decoding, open_file
from domaincal._optional import require
from domaincal._shared_context import SharedContext
from domaincal._typing import Track
from domaincal._validation import check_count, check_option
from domaincal.errors import InputError
from domaincal.vision.corruptions.catalogue import (
    CONSTANTS,
    CORRUPTIONS,
    SEVERITIES,
    SMALLEST_SIDE,
    Constants,
    check_corruption,
)
from domaincal.vision.corruptions.corrupt import corrupt
from domaincal.vision.image_decoding import open_image, read_image
from domaincal.vision.processes import run_in_processes

SUFFIXES = (".bmp", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp")
#: File in the output folder with the parameters of the call, so that interrupted work can resume.
RECIPE = "corruptions.json"

# Quality of the published ImageNet-C.
_JPEG_QUALITY = 85
# Longest recipe in bytes; paths have at most 4 kB.
_MAX_RECIPE = 1 << 16
# Images that a process takes at a time: large enough to amortise the call.
_CHUNK = 64


@dataclass(frozen=True)
class CorruptedFolder:
    """Summary of a call of :func:`corrupt_folder`.

    Attributes
    ----------
    n_images, n_domains : int
        Number of images in the source, and of (corruption, severity) pairs.
    n_written, n_kept : int
        Number of files that this call has written, and of files that an earlier call had written.
    n_left_out : int
        Number of files in the source that have another format.
    """

    n_images: int
    n_domains: int
    n_written: int
    n_kept: int
    n_left_out: int


def corrupt_folder(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    names: Sequence[str] = CORRUPTIONS,
    severities: Sequence[int] = SEVERITIES,
    random_state: int = 0,
    constants: Constants = "imagenet",
    n_jobs: int = 1,
    track: Track = iter,
) -> CorruptedFolder:
    """Corrupt every image of a folder, into ``output/<corruption>/<severity>/<path in source>``.

    That is the layout of ImageNet-C; the source is the clean domain. Files keep their names and
    formats (JPEG with quality 85, as in ImageNet-C) and become RGB of 8 bits. Files that an earlier
    call with the same parameters has written are kept, so that interrupted work can resume.

    Parameters
    ----------
    source : path
        Folder that is searched, with its subfolders, for .bmp, .jpeg, .jpg, .png, .ppm, .tif,
        .tiff and .webp files.
    output : path
        A new folder, or the output of an earlier call.
    names : sequence of str, default all 15
        Names of the corruptions; see :func:`corrupt`.
    severities : sequence of int, default 1 to 5
    random_state : int, default 0
        Seed of the random numbers.
    constants : {"imagenet", "tiny-imagenet", "cifar"}, default "imagenet"
        Table of constants that says how strong a severity is; see :func:`corrupt`. The last two
        need torch.
    n_jobs : int, default 1
        Number of processes; -1 means one per core. It does not change the images.
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
    ...     source, output = folder + "/photos", folder + "/corrupted"
    ...     summary = dc.vision.corrupt_folder(source, output, names=["fog"])
    ...     (Path(folder) / "corrupted/fog/3/night.png").exists(), summary.n_written
    (True, 5)
    """
    require("imagecorruptions", extra="corruptions", purpose="corrupting images")
    source, output = Path(source), Path(output)
    check_count(random_state, "random_state", minimum=0)
    check_option(constants, "constants", CONSTANTS)
    if constants != "imagenet":
        require("torch", extra="torch", purpose=f"corrupting with the constants of {constants}")
    pairs = _checked_pairs(names, severities)
    images, n_left_out = _find_images(source)
    _require_separate_folders(source, output)
    _check_or_write_recipe(source, output, random_state, constants)
    tasks = [
        _Task(image, output / name / str(severity) / image.relative_to(source), name, severity)
        for name, severity in pairs
        for image in images
    ]
    missing = [task for task in tasks if not _is_up_to_date(task)]
    for folder in sorted({task.target.parent for task in missing}):
        folder.mkdir(parents=True, exist_ok=True)
    starts = range(0, len(missing), _CHUNK)
    chunks = [(missing[start : start + _CHUNK], random_state, constants) for start in starts]
    for _ in run_in_processes(_corrupt_files, chunks, n_jobs=n_jobs, track=track):
        pass
    return CorruptedFolder(
        n_images=len(images), n_domains=len(pairs), n_written=len(missing),
        n_kept=len(tasks) - len(missing), n_left_out=n_left_out,
    )  # fmt: skip


class _Task(NamedTuple):
    """One image under one corruption."""

    source: Path
    target: Path
    name: str
    severity: int


def _checked_pairs(names: Sequence[str], severities: Sequence[int]) -> list[tuple[str, int]]:
    """All pairs of a corruption and a severity, without duplicates."""
    pairs = list(dict.fromkeys((name, severity) for name in names for severity in severities))
    if not pairs:
        raise InputError("names or severities is empty; name at least one of each.")
    for pair in pairs:
        check_corruption(*pair)
    return pairs


def _find_images(source: Path) -> tuple[list[Path], int]:
    """Images of a folder, after a check of each, and the number of its other files."""
    if not source.is_dir():
        raise InputError(f"source={str(source)!r} is not a folder; give the folder of the images.")
    files = [path for path in source.rglob("*") if path.is_file()]
    images = sorted(path for path in files if path.suffix.lower() in SUFFIXES)
    if not images:
        raise InputError(f"there is no image in {source}; looked for {', '.join(SUFFIXES)}.")
    for path in images:
        with open_image(path) as image:
            width, height = image.size
        if min(width, height) < SMALLEST_SIDE:
            raise InputError(
                f"{path} is {width} x {height} px, but corruptions need sides of at least "
                f"{SMALLEST_SIDE} px; enlarge the images first."
            )
    return images, len(files) - len(images)


def _require_separate_folders(source: Path, output: Path) -> None:
    """Raise an error if one folder contains the other, or if the output is a file."""
    output_path, source_path = output.resolve(), source.resolve()
    if output_path == source_path or source_path in output_path.parents:
        raise InputError(
            f"output={str(output)!r} is inside the source {source}; choose a folder outside."
        )
    if output_path in source_path.parents:
        raise InputError(
            f"source={str(source)!r} is inside the output {output}; choose a folder outside."
        )
    if output.exists() and not output.is_dir():
        raise InputError(f"output={str(output)!r} is not a folder; choose another name.")


def _check_or_write_recipe(source: Path, output: Path, random_state: int, constants: str) -> None:
    """Compare this call with an earlier one into the same folder, or record it in a new folder."""
    recipe: dict[str, str | int] = {
        "seed": random_state,
        "source": str(source.resolve()),
        "imagecorruptions-imaug": version("imagecorruptions-imaug"),
        "constants": constants,
    }
    path = output / RECIPE
    if not path.exists():
        if output.is_dir() and any(output.iterdir()):
            raise InputError(f"{output} contains other files; choose a new or empty folder.")
        output.mkdir(parents=True, exist_ok=True)
        with atomic_file(path) as file:
            file.write(json.dumps(recipe, indent=1).encode())
        return
    earlier = _read_recipe(path)
    earlier.setdefault("constants", "imagenet")  # early versions had no choice of constants
    if earlier != recipe:
        raise InputError(
            f"{output} was made with {_described(earlier)}, not with {_described(recipe)}; choose "
            "another folder."
        )


def _read_recipe(path: Path) -> dict[str, str | int]:
    """Parameters of an earlier call."""
    with open_file(path) as file, decoding(path, "remove it, or choose another folder"):
        found = json.loads(file.read(_MAX_RECIPE))
        if not isinstance(found, Mapping) or not all(
            isinstance(value, str | int) for value in found.values()
        ):
            raise ValueError("it is not an object of texts and numbers")
        return dict(found)


def _described(recipe: Mapping[str, Any]) -> str:
    return " and ".join(f"{name} {value}" for name, value in recipe.items())


def _is_up_to_date(task: _Task) -> bool:
    """Whether the corrupted image exists and is not older than its source."""
    source, target = task.source, task.target
    return target.exists() and target.stat().st_mtime_ns >= source.stat().st_mtime_ns


def _corrupt_files(tasks: list[_Task], random_state: int, constants: Constants) -> None:
    module = require("PIL.Image", extra="corruptions", purpose="reading images")
    for source, target, name, severity in tasks:
        pixels = read_image(source)
        with nullcontext() if constants == "imagenet" else _one_torch_thread.entered():
            corrupted = corrupt(pixels[None], name, severity, random_state, constants=constants)
        result = module.fromarray(corrupted[0])
        suffix = target.suffix.lower()
        options = {"quality": _JPEG_QUALITY} if suffix in (".jpg", ".jpeg") else {}
        with atomic_file(target) as file:
            result.save(file, format=module.registered_extensions()[suffix], **options)


@SharedContext
@contextmanager
def _one_torch_thread() -> Iterator[None]:
    """Limit torch to one thread: the worker processes already use all cores."""
    torch = require("torch", extra="torch", purpose="corrupting")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)

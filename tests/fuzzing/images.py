"""Attacks on images, on zip files of images and on the tables of image data sets."""

import functools
import io
import random
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import domaincal as dc
import trees
from fuzzing.damage import damaged, name, number
from fuzzing.target import Target, check_names, replace_by_other_kind, require, write_files
from fuzzing.zips import altered_zip, zip_bytes

_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP", "PPM", "ICO", "TGA", "PCX", "EPS", "PDF")
_MODES = ("RGB", "L", "RGBA", "P", "1", "I;16", "CMYK", "LA", "I", "F")


@functools.cache
def _image(file_format: str, mode: str) -> bytes | None:
    """An image of 12 x 9 px; None if the format does not have the mode."""
    pixels = np.random.default_rng(0).integers(0, 256, (9, 12, 3), dtype=np.uint8)
    picture, file = Image.fromarray(pixels), io.BytesIO()
    try:
        picture = picture.convert("I").convert(mode) if mode == "I;16" else picture.convert(mode)
        picture.save(file, file_format)
    except (OSError, KeyError, ValueError):
        return None
    return file.getvalue()


def _png(width: int, height: int, n_bytes: int) -> bytes:
    """A PNG file that says its size, with so many bytes of zeros."""
    out = b"\x89PNG\r\n\x1a\n"
    for kind, content in (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),
        (b"tEXt", b"Comment\0" + b"x" * 100),
        (b"IDAT", zlib.compress(bytes(n_bytes))),
        (b"IEND", b""),
    ):
        check = zlib.crc32(kind + content)
        out += struct.pack(">I", len(content)) + kind + content + struct.pack(">I", check)
    return out


def _hostile_image(rng: random.Random) -> bytes:
    if rng.random() < 0.03:
        sides = (0, 1, 12, 30_000, 65_535, 2**31 - 1)
        return _png(rng.choice(sides), rng.choice(sides), rng.choice((0, 100, 10**6)))
    content = _image(rng.choice(_FORMATS), rng.choice(_MODES)) or _png(12, 9, 9 * 37)
    return damaged(rng, content) if rng.random() < 0.9 else content


def _make_image(rng: random.Random, folder: Path) -> Path:
    path = folder / "image.png"
    if rng.random() < 0.01:
        replace_by_other_kind(rng, path)
    else:
        path.write_bytes(_hostile_image(rng))
    return path


def _check_image(path: Path) -> None:
    _check_pixels(dc.vision.ImageFiles(path.parent, [path.name])[0])


def _check_pixels(image: Any) -> None:
    require(
        image.dtype == np.uint8 and image.ndim == 3 and image.shape[2] == 3, "not RGB of 8 bits"
    )


# zip files


@dataclass(frozen=True)
class _ZipCase:
    path: Path
    reader: int
    split: str


@functools.cache
def _tiny() -> dict[str, bytes]:
    files = trees.tiny_imagenet(picture=lambda value: trees.encoded(value, side=16))
    return {k: v.encode() if isinstance(v, str) else v for k, v in files.items()}


def _altered_member(rng: random.Random, key: str, content: bytes) -> bytes:
    if key.endswith(".txt") and rng.random() < 0.5:
        words = content.decode().split()
        words[rng.randrange(len(words))] = rng.choice((name(rng), "n00000000", "../x.JPEG"))
        return rng.choice(("\n", " ", "\t")).join(words).encode("utf-8", "surrogatepass")
    return _hostile_image(rng) if key.endswith("JPEG") else damaged(rng, content)


def _make_zip(rng: random.Random, folder: Path) -> _ZipCase:
    path = folder / "images.zip"
    if rng.random() < 0.01:
        replace_by_other_kind(rng, path)
    elif rng.random() < 0.5:
        path.write_bytes(damaged(rng, zip_bytes(_tiny(), rng.choice((0, 8)))))
    else:
        path.write_bytes(altered_zip(rng, _tiny(), _altered_member))
    return _ZipCase(path, rng.randrange(2), rng.choice(("val", "train")))


def _check_zip(case: _ZipCase) -> None:
    if case.reader == 0:
        members = [(0, key) for key in _tiny() if key.endswith("JPEG")]
        images = dc.vision.ZippedImages([case.path], members)
        for k in range(len(images)):
            _check_pixels(images[k])
    else:
        data = dc.vision.TinyImageNet(case.path, case.split)
        _check_set(data)
        for k in range(len(data)):
            _check_pixels(data.images[k])


def _check_set(data: Any) -> None:
    n = len(data.images)
    require(data.labels is None or len(data.labels) == n, "labels of another length")
    if data.labels is not None and n:
        top = len(data.class_names)
        require(0 <= np.min(data.labels) <= np.max(data.labels) < top, "labels out of range")
    for array in ("class_names", "domains", "groups"):
        values = getattr(data, array)
        if values is not None and len(values):
            check_names(np.asarray(values).tolist(), array)


# folders of data sets


@functools.cache
def _trees() -> dict[str, tuple[Any, dict[str, bytes]]]:
    """Readers and files of the data sets."""
    picture = functools.partial(trees.encoded, side=8)
    found: dict[str, tuple[Any, dict[str, Any]]] = {
        "table": (
            lambda folder: dc.vision.ImageTable(folder / "images.csv"),
            {
                "images.csv": "path,label,domain,group\n"
                + "".join(f"{k}.png,{'ab'[k % 2]},day,{k}\n" for k in range(6)),
                **{f"{k}.png": picture(k, format="PNG") for k in range(6)},
            },
        ),
        "tiny-imagenet": (dc.vision.TinyImageNet, trees.tiny_imagenet(picture=picture)),
        "cifar-10": (dc.vision.Cifar10, trees.cifar10()[0]),
        "rxrx1": (
            dc.vision.RxRx1,
            trees.rxrx1(picture=functools.partial(picture, format="PNG")),
        ),
        "imagenet-c": (
            lambda folder: dc.vision.ImageNetC(folder, classes="all", domains=["clean", "fog-3"]),
            trees.imagenet_c(["clean", "fog-3"], picture=picture),
        ),
        "gldv2": (
            lambda folder: dc.vision.GoogleLandmarks(
                folder, training_clients=1, min_rows=1, n_ind=1
            ),
            trees.google_landmarks({"a": 4, "b": 4, "c": 4}),
        ),
    }
    return {
        key: (reader, {k: v.encode() if isinstance(v, str) else v for k, v in files.items()})
        for key, (reader, files) in found.items()
    }


def _make_set(rng: random.Random, folder: Path) -> tuple[str, Path]:
    data_set = rng.choice(("table", "table", *_trees()))
    files = _trees()[data_set][1]
    write_files(folder, files)
    lists = [key for key in files if key.endswith((".csv", ".txt", ".bin"))] or list(files)
    key = rng.choice(lists) if rng.random() < 0.8 else rng.choice(list(files))
    action = rng.random()
    if action < 0.02:
        replace_by_other_kind(rng, folder / key)
    elif action < 0.5 or not key.endswith((".csv", ".txt")):
        (folder / key).write_bytes(damaged(rng, files[key]))
    else:
        (folder / key).write_bytes(_altered_list(rng, files[key].decode()))
    return data_set, folder


def _altered_list(rng: random.Random, text: str) -> bytes:
    """Hostile cells in a table or list."""
    lines = [line.replace("\t", ",").split(",") for line in text.splitlines()]
    for _ in range(rng.choice((1, 1, 3))):
        line = rng.choice(lines)
        at = rng.randrange(len(line))
        cell = (name(rng), str(number(rng)), "../../x.png", "/etc/passwd", "9" * 5000, "1" * 18)
        line[at] = rng.choice(cell)
        if rng.random() < 0.1:
            line.append("surplus")
    joint = "\t" if "\t" in text else ","
    return "\n".join(joint.join(cells) for cells in lines).encode("utf-8", "surrogatepass")


def _check_folder(case: tuple[str, Path]) -> None:
    data_set, folder = case
    data = _trees()[data_set][0](folder)
    _check_set(data)
    if data_set != "gldv2":
        for k in range(min(len(data), 4)):
            _check_pixels(data.images[k])
        data.fingerprint()


TARGETS = (
    Target("image", _make_image, _check_image),
    Target("image-zip", _make_zip, _check_zip),
    Target("image-set", _make_set, _check_folder),
)

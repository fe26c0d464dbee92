"""Small made-up trees of the exact layout of data sets."""

import io
import zipfile
from pathlib import Path

import numpy as np


def encoded(value: int, *, format: str = "JPEG", side: int = 8) -> bytes:
    """A grey picture; needs Pillow."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(np.full((side, side, 3), value, np.uint8)).save(file, format, quality=95)
    return file.getvalue()


def write_tree(folder: Path, files: dict[str, bytes | str]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def write_zip(path: Path, files: dict[str, bytes | str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


#: Not in the order of the alphabet, as in the official file.
TINY_WNIDS = ("n02124075", "n01443537", "n04067472")


def tiny_imagenet(*, picture=lambda value: b"no picture", per_class: int = 2) -> dict:
    """Greys: 40 k + i in training image i of class k, 200 + i mod 50 in validation image i."""
    root = "tiny-imagenet-200/"
    files = {root + "wnids.txt": "\n".join(TINY_WNIDS) + "\n", root + "words.txt": "n01443537\tx\n"}
    for k, wnid in enumerate(TINY_WNIDS):
        files[f"{root}train/{wnid}/{wnid}_boxes.txt"] = "0 0 62 62\n"
        for i in range(per_class):
            files[f"{root}train/{wnid}/images/{wnid}_{i}.JPEG"] = picture(40 * k + i)
    lines = [
        f"val_{i}.JPEG\t{TINY_WNIDS[(2 * i) % 3]}\t0\t0\t62\t62\n" for i in range(3 * per_class)
    ]
    files[root + "val/val_annotations.txt"] = "".join(lines)
    for i in range(len(lines)):
        files[f"{root}val/images/val_{i}.JPEG"] = picture(200 + i % 50)
    return files

"""Small synthetic folders with the exact layout of the data sets."""

import io
import zipfile
from pathlib import Path

import numpy as np


def encoded(value: int, *, format: str = "JPEG", side: int = 8) -> bytes:
    """Content of a file with a grey image; needs Pillow."""
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


#: Not in alphabetical order, as in the official file.
TINY_WNIDS = ("n02124075", "n01443537", "n04067472")


def tiny_imagenet(*, picture=lambda value: b"no picture", per_class: int = 2) -> dict:
    """Files of Tiny-ImageNet.

    Training image i of class k has the grey level 40 k + i, validation image i 200 + i mod 50.
    """
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


def cifar10(*, per_file: int = 2) -> tuple[dict, np.ndarray, np.ndarray]:
    """Files of CIFAR-10, and the pixels (height, width, channel) and labels of all records."""
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (6 * per_file, 32, 32, 3), dtype=np.uint8)
    labels = rng.integers(0, 10, 6 * per_file)
    records = [
        bytes([label]) + b"".join(image[..., c].tobytes() for c in range(3))
        for image, label in zip(pixels, labels, strict=True)
    ]
    names = [
        "airplane",
        "automobile",
        "bird",
        "cat",
        "deer",
        "dog",
        "frog",
        "horse",
        "ship",
        "truck",
    ]
    files: dict = {"cifar-10-batches-bin/batches.meta.txt": "\n".join(names) + "\n\n"}
    for k in range(6):
        name = f"data_batch_{k + 1}.bin" if k < 5 else "test_batch.bin"
        content = b"".join(records[k * per_file : (k + 1) * per_file])
        files[f"cifar-10-batches-bin/{name}"] = content
    return files, pixels, labels


#: Three classes of ImageNet; ImageNet-R has the first and the last.
IMAGENET_WNIDS = ("n01440764", "n01443537", "n15075141")


def imagenet_c(domains: list[str], *, by_family: bool = False, picture=lambda value: b"") -> dict:
    """Files of ImageNet-C: image k of domain d has the grey level 3 d + k.

    With ``by_family``, corruptions are in the folders of their families, as in the tar files.
    """
    from domaincal.vision.corruptions.catalogue import FAMILIES

    files = {}
    for d, domain in enumerate(domains):
        name, _, severity = domain.rpartition("-")
        folder = f"{name}/{severity}" if name else domain
        family = next((family for family, names in FAMILIES.items() if name in names), "")
        for k, wnid in enumerate(IMAGENET_WNIDS):
            image = f"{wnid}/ILSVRC2012_val_{k:08}.JPEG"
            prefix = f"{family}/" if by_family and family else ""
            files[f"{prefix}{folder}/{image}"] = picture(3 * d + k)
    return files


#: Experiments and their values in the column dataset of metadata.csv.
RXRX1_EXPERIMENTS = {
    "HEPG2-01": "train", "RPE-01": "train", "HEPG2-08": "val", "HUVEC-17": "val",
    "RPE-08": "val", "U2OS-04": "val", "HEPG2-09": "test", "U2OS-05": "test",
}  # fmt: skip


def rxrx1(*, picture=lambda value: b"") -> dict:
    """Files of RxRx1: two sites of a well in two plates of each experiment."""
    rows = ["site_id,well_id,cell_type,dataset,experiment,plate,well,site,well_type,sirna,sirna_id"]
    files = {}
    for k, (experiment, split) in enumerate(RXRX1_EXPERIMENTS.items()):
        for plate in (1, 2):
            for site in (1, 2):
                well = f"{experiment}_{plate}_B02"
                cell = experiment.split("-")[0]
                rows.append(
                    f"{well}_{site},{well},{cell},{split},{experiment},{plate},B02,{site},"
                    f"treatment,s{k},{1138 - k}"
                )
                name = f"images/{experiment}/Plate{plate}/B02_s{site}.png"
                files[name] = picture(10 * k + 2 * plate + site)
    files["metadata.csv"] = "\n".join(rows) + "\n"
    return files


def google_landmarks(counts: dict[str, int], *, table: str = "federated_train.csv") -> dict:
    """Files of GLDv2 in the official folders; ``counts`` is the number of images of each client."""
    rows, files = ["user_id,image_id,class"], {}
    for client, n in counts.items():
        for k in range(n):
            name = f"{len(rows):04x}{client:0>12}"[::-1]
            rows.append(f"{client},{name},{k % 5}")
            files[f"train/{name[0]}/{name[1]}/{name[2]}/{name}.jpg"] = b""
    files[table] = "\n".join(rows) + "\n"
    return files

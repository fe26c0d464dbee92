"""Google Landmarks v2, with photographers as domains."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import pandas as pd

from domaincal._validation import check_count, check_option
from domaincal.data.splits import draw_names
from domaincal.errors import InputError
from domaincal.io.text_columns import read_texts, whole_numbers
from domaincal.vision.datasets.folder_layout import (
    incomplete,
    require_files,
    require_folder,
    require_plain_names,
)
from domaincal.vision.datasets.image_files import ImageFiles
from domaincal.vision.datasets.image_set import ImageSet

_COLUMNS = ("user_id", "image_id", "class")
# File name of the table of each variant, and its path as unpacked by the distributors.
_TABLES = {
    "gld160k": ("federated_train.csv", "landmarks-user-160k/federated_train.csv"),
    "gld23k": ("mini_gld_train_split.csv", "datasets/mini_gld_train_split.csv"),
}


class GoogleLandmarks(ImageSet):
    r"""Google Landmarks v2 in its federated form: photos of landmarks by many photographers.

    Input
        Colour photos of many sizes, JPEG.
    Label
        Column ``class``: a landmark.
    Domain
        Column ``user_id``: the client (photographer) who took the photo.
    Group
        Id of the image.
    Size
        ``gld160k``: 164,172 images, 2,028 classes, 1,262 clients; ``gld23k``: 23,080 images, 203
        classes, 233 clients, as TensorFlow Federated states. The paper counts 823 clients, and 44
        after screening, but does not say how, so that counts are not checked here.
    Layout
        ``federated_train.csv`` (or, for ``gld23k``, ``mini_gld_train_split.csv``) with the columns
        user_id, image_id, class; images in ``train/``, in ``images/`` or in the folder itself.
        There they are in the official subfolders ``a/b/c/abc0123456789def.jpg``, named by the first
        three letters of the id, or all in one folder, as in TensorFlow Federated.
    Licence
        Annotations CC BY 4.0; images CC BY without restrictions on derivatives, as the
        distributors state. Their ``train_attribution.csv`` has the licence of each image.
    Citation
        T. Weyand et al., "Google Landmarks Dataset v2", CVPR 2020; T.-M. H. Hsu et al., "Federated
        Visual Classification with Real-World Data Distribution", ECCV 2020.

    Parameters
    ----------
    folder : path
        Folder with the table and the images.
    split : {"validation", "train"}, default "validation"
        ``"train"``: all images of the training clients; ``"validation"``: the images of the other
        clients that have at least ``min_rows`` images.
    variant : {"gld160k", "gld23k"}, default "gld160k"
    training_clients : int, default 500
        Number of clients, drawn at random, whose images train the network. The small variant has
        fewer clients than the default.
    min_rows : int, default 300
        Smallest number of images of a validation client.
    n_ind : int, default 30
        Number of validation clients, drawn at random, that are InD (``ind_domains``). The others
        are OOD (``ood_domains``).
    random_state : int, default 0
        Seed of both draws. Use the same seed for both splits, so that they share no client.

    Attributes
    ----------
    ind_domains, ood_domains : tuple of str
        InD and OOD clients of the validation split; empty for the training split.

    Examples
    --------
    >>> import tempfile, domaincal as dc
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rows = ["user_id,image_id,class"]
    ...     (Path(folder) / "train/a/b/c").mkdir(parents=True)
    ...     for k in range(6):
    ...         _ = (Path(folder) / f"train/a/b/c/abc{k}.jpg").write_bytes(b"...")
    ...         rows.append(f"{k // 2},abc{k},{k}")
    ...     _ = (Path(folder) / "federated_train.csv").write_text("\n".join(rows))
    ...     images = dc.vision.GoogleLandmarks(folder, training_clients=1, min_rows=2, n_ind=1)
    >>> images, images.ind_domains, images.ood_domains
    (GoogleLandmarks(4 images, 6 classes, 2 domains, 4 groups), ('0',), ('1',))
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        split: Literal["validation", "train"] = "validation",
        *,
        variant: Literal["gld160k", "gld23k"] = "gld160k",
        training_clients: int = 500,
        min_rows: int = 300,
        n_ind: int = 30,
        random_state: int = 0,
    ) -> None:
        check_option(split, "split", ("validation", "train"))
        check_option(variant, "variant", tuple(_TABLES))
        check_count(training_clients, "training_clients")
        check_count(min_rows, "min_rows")
        check_count(n_ind, "n_ind")
        check_count(random_state, "random_state", minimum=0)
        root = require_folder(folder, "the folder of the table and the images")
        table = _find_table(root, variant)
        rows = read_texts(table, _COLUMNS)
        landmarks, classes = pd.factorize(whole_numbers(rows, "class", table), sort=True)
        require_plain_names(rows["image_id"], "image_id", str(table))
        clients = rows["user_id"]
        training, others = _draw_training_clients(clients, training_clients, table, random_state)
        selected = training
        self.ind_domains: tuple[str, ...] = ()
        self.ood_domains: tuple[str, ...] = ()
        if split == "validation":
            selected = _validation_clients(clients, others, min_rows, n_ind)
            ind, ood = draw_names(selected, n_ind, random_state)
            self.ind_domains, self.ood_domains = tuple(ind), tuple(ood)
        inside = clients.isin(selected).to_numpy()
        ids = rows["image_id"][inside].tolist()
        image_folder, names = _find_images(root, ids)
        require_files(image_folder, names, table.name)
        super().__init__(
            ImageFiles(image_folder, names),
            landmarks[inside],
            class_names=[str(name) for name in classes],
            domains=clients[inside].tolist(),
            groups=ids,
            provenance={
                "data set": f"GLDv2 ({variant})", "split": split, "seed": random_state,
                "training clients": training_clients,
            },
        )  # fmt: skip


def _find_table(root: Path, variant: str) -> Path:
    for name in _TABLES[variant]:
        if (root / name).is_file():
            return root / name
    other = next(name for name in _TABLES if name != variant)
    exists = any((root / name).is_file() for name in _TABLES[other])
    cure = f"it has the table of {other!r}: pass variant={other!r}" if exists else ""
    raise incomplete(root, _TABLES[variant][0], cure)


def _draw_training_clients(
    clients: pd.Series[str], n: int, table: Path, random_state: int
) -> tuple[list[str], list[str]]:
    """Training clients, drawn at random, and all other clients."""
    known = sorted(set(clients))
    if n >= len(known):
        raise InputError(
            f"training_clients={n}, but {table} has {len(known)} clients; lower it, so that some "
            "are left for the validation."
        )
    return draw_names(known, n, random_state)


def _validation_clients(
    clients: pd.Series[str], others: list[str], min_rows: int, n_ind: int
) -> list[str]:
    """Clients with at least ``min_rows`` images; raise an error unless they exceed ``n_ind``."""
    counts = clients[clients.isin(others)].value_counts()
    enough = sorted(counts.index[counts >= min_rows])
    if len(enough) <= n_ind:
        raise InputError(
            f"n_ind={n_ind}, but only {len(enough)} of the {len(others)} clients that are not "
            f"used for training have min_rows={min_rows} images; lower n_ind, min_rows or "
            "training_clients, so that at least one client is OOD."
        )
    return enough


def _find_images(root: Path, ids: list[str]) -> tuple[Path, list[str]]:
    """Folder of the images, and the path of each image in it."""
    folders = [folder for folder in (root / "train", root / "images", root) if folder.is_dir()]
    for folder in folders:
        if (folder / ids[0][:1] / ids[0][1:2]).is_dir():
            return folder, [f"{name[:1]}/{name[1:2]}/{name[2:3]}/{name}.jpg" for name in ids]
    for folder in folders:
        if os.path.isfile(folder / f"{ids[0]}.jpg"):  # False for names that are too long
            return folder, [f"{name}.jpg" for name in ids]
    first = f"{ids[0][:1]}/{ids[0][1:2]}/{ids[0][2:3]}/{ids[0]}.jpg"
    raise incomplete(
        root, f"images such as train/{first}, images/{first}, {first} or images/{ids[0]}.jpg"
    )

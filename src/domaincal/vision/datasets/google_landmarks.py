"""Google Landmarks v2, by photographer."""

import os
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from domaincal._typing import Array
from domaincal._validation import check_count, check_option
from domaincal.data.splits import drawn
from domaincal.datasets.text_columns import read_texts, whole_numbers
from domaincal.errors import InputError
from domaincal.vision.datasets.folder_layout import incomplete, require_files, require_folder
from domaincal.vision.datasets.image_set import ImageFiles, ImageSet

_COLUMNS = ("user_id", "image_id", "class")
#: The table of each variant, and where its distributors unpack it.
_TABLES = {
    "gld160k": ("federated_train.csv", "landmarks-user-160k/federated_train.csv"),
    "gld23k": ("mini_gld_train_split.csv", "datasets/mini_gld_train_split.csv"),
}


class GoogleLandmarks(ImageSet):
    r"""Google Landmarks v2 in its federated form: landmarks, each photo of one photographer.

    Input
        Colour photos of many sizes, JPEG.
    Label
        Column ``class``: a landmark.
    Domain
        Column ``user_id``: a client, who took the photos.
    Group
        The image's id.
    Size
        ``gld160k``: 164,172 images, 2,028 classes, 1,262 clients; ``gld23k``: 23,080 images, 203
        classes, 233 clients, as TensorFlow Federated states. The paper counts 823 clients, and 44
        after screening, without saying how: no count is asserted here.
    Layout
        ``federated_train.csv`` (or, for ``gld23k``, ``mini_gld_train_split.csv``) with the columns
        user_id, image_id, class; images under ``train/``, ``images/`` or beside it, in the official
        folders ``a/b/c/abc0123456789def.jpg`` named by the first three letters of the id, or all in
        one folder, as TensorFlow Federated puts them.
    Licence
        Annotations CC BY 4.0, images CC BY without the restriction to derivatives, as their
        distributors state; each image's own licence is in their ``train_attribution.csv``.
    Citation
        T. Weyand et al., "Google Landmarks Dataset v2", CVPR 2020; T.-M. H. Hsu et al., "Federated
        Visual Classification with Real-World Data Distribution", ECCV 2020.

    Parameters
    ----------
    folder : path
        With the table and the images.
    split : {"validation", "train"}, default "validation"
        ``"train"``: all images of the training clients; ``"validation"``: those of the other
        clients that have enough of them.
    variant : {"gld160k", "gld23k"}, default "gld160k"
    training_clients : int, default 500
        How many clients, drawn at random, train the network. The small variant has fewer.
    min_rows : int, default 300
        Images that a client needs for the validation.
    n_ind : int, default 30
        Clients of the validation that are InD, drawn at random: ``ind_domains``; the others are
        ``ood_domains``.
    seed : int, default 0
        Of both draws. The splits of one seed belong together.

    Attributes
    ----------
    ind_domains, ood_domains : tuple of str
        Of the validation; empty for the training.

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
        seed: int = 0,
    ) -> None:
        check_option(split, "split", ("validation", "train"))
        check_option(variant, "variant", tuple(_TABLES))
        check_count(training_clients, "training_clients")
        check_count(min_rows, "min_rows")
        check_count(n_ind, "n_ind")
        check_count(seed, "seed", minimum=0)
        place = require_folder(folder, "the folder of the table and the images")
        path = _table(place, variant)
        rows = read_texts(path, _COLUMNS)
        landmarks, classes = pd.factorize(whole_numbers(rows, "class", path), sort=True)
        clients = rows["user_id"].to_numpy(str)
        training, others = _clients(clients, training_clients, path, seed)
        chosen = training
        self.ind_domains: tuple[str, ...] = ()
        self.ood_domains: tuple[str, ...] = ()
        if split == "validation":
            chosen = _screened(clients, others, min_rows, n_ind)
            ind, ood = drawn(chosen, n_ind, seed)
            self.ind_domains, self.ood_domains = tuple(ind), tuple(ood)
        inside = np.isin(clients, chosen)
        ids = rows["image_id"][inside].tolist()
        root, names = _files(place, ids)
        require_files(root, names, path.name)
        super().__init__(
            ImageFiles(root, names),
            landmarks[inside],
            class_names=[str(name) for name in classes],
            domains=clients[inside],
            groups=np.array(ids),
            provenance={
                "data set": f"GLDv2 ({variant})", "split": split, "seed": seed,
                "training clients": training_clients,
            },
        )  # fmt: skip


def _table(place: Path, variant: str) -> Path:
    for name in _TABLES[variant]:
        if (place / name).is_file():
            return place / name
    other = next(name for name in _TABLES if name != variant)
    there = any((place / name).is_file() for name in _TABLES[other])
    cure = f"there is the table of {other!r}: pass variant={other!r}" if there else ""
    raise incomplete(place, _TABLES[variant][0], cure)


def _clients(clients: Array, n: int, path: Path, seed: int) -> tuple[list[str], list[str]]:
    """Training clients, and all others."""
    known = sorted(set(clients.tolist()))
    if n >= len(known):
        raise InputError(
            f"training_clients={n}, but {path} has {len(known)} clients; lower it, so that some "
            "are left for the validation."
        )
    return drawn(known, n, seed)


def _screened(clients: Array, others: list[str], min_rows: int, n_ind: int) -> list[str]:
    """Clients with enough images, which must be enough to be InD and OOD."""
    names, counts = np.unique(clients[np.isin(clients, others)], return_counts=True)
    enough: list[str] = names[counts >= min_rows].tolist()
    if len(enough) <= n_ind:
        raise InputError(
            f"n_ind={n_ind}, but of the {len(others)} clients that do not train only "
            f"{len(enough)} have min_rows={min_rows} images; lower n_ind, min_rows or "
            "training_clients, so that one is left as OOD."
        )
    return enough


def _files(place: Path, ids: list[str]) -> tuple[Path, list[str]]:
    """Where the images are, and the name of each there."""
    roots = [root for root in (place / "train", place / "images", place) if root.is_dir()]
    for root in roots:
        if (root / ids[0][:1] / ids[0][1:2]).is_dir():
            return root, [f"{name[:1]}/{name[1:2]}/{name[2:3]}/{name}.jpg" for name in ids]
    for root in roots:
        if (root / f"{ids[0]}.jpg").is_file():
            return root, [f"{name}.jpg" for name in ids]
    first = f"{ids[0][:1]}/{ids[0][1:2]}/{ids[0][2:3]}/{ids[0]}.jpg"
    raise incomplete(
        place, f"images such as train/{first}, images/{first}, {first} or images/{ids[0]}.jpg"
    )

"""Images that a csv file lists with their labels and domains."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from domaincal._typing import Array
from domaincal.errors import InputError
from domaincal.io.text_columns import are_whole, read_texts
from domaincal.vision.datasets.folder_layout import (
    missing_path,
    require_files,
    require_inside,
)
from domaincal.vision.datasets.image_files import ImageFiles
from domaincal.vision.datasets.image_set import ImageSet

# Numbers above need class_names: one row with the number 999,999,999 would make as many names.
_MAX_CLASSES = 1_000_000
_CURE = (
    "pass the names of your columns as path=..., label=..., domain=... or group=...; all except "
    "path can be None (null on the command line)"
)


class ImageTable(ImageSet):
    r"""Images of any folder, listed in a csv file with a row for each image.

    Parameters
    ----------
    csv : path
        File with a header, separated by commas, in UTF-8.
    folder : path, optional
        Folder that the paths are relative to; by default the folder of the csv file.
    path, label, domain, group : str
        Names of the columns. Paths have forward slashes and stay inside the folder: absolute paths
        and ``..`` are refused. Labels are names, or whole numbers from 0.
        The column ``group`` is optional. With ``label=None``, ``domain=None`` or ``group=None``
        the column is not read.
    class_names : sequence of str, optional
        Names of the classes, in the order of the network's outputs. By default the sorted names in
        the table, or the numbers from 0 to the largest. Without labels, the classes of the network.

    Examples
    --------
    >>> import tempfile, domaincal as dc
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("cat.png", "dog.png"):
    ...         _ = (Path(folder) / name).write_bytes(b"...")
    ...     table = Path(folder) / "images.csv"
    ...     _ = table.write_text("path,label,domain\ncat.png,cat,day\ndog.png,dog,night\n")
    ...     images = dc.vision.ImageTable(table)
    >>> images, images.class_names, images.domains.tolist()
    (ImageTable(2 images, 2 classes, 2 domains), ('cat', 'dog'), ['day', 'night'])

    A new site without labels:

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "new.png").write_bytes(b"...")
    ...     table = Path(folder) / "images.csv"
    ...     _ = table.write_text("path,domain\nnew.png,dawn\n")
    ...     dc.vision.ImageTable(table, label=None)
    ImageTable(1 images, 1 domains, no labels)
    """

    def __init__(
        self,
        csv: str | os.PathLike[str],
        folder: str | os.PathLike[str] | None = None,
        *,
        path: str = "path",
        label: str | None = "label",
        domain: str | None = "domain",
        group: str | None = "group",
        class_names: Sequence[str] | None = None,
    ) -> None:
        table = Path(csv)
        needed = [path, *(name for name in (label, domain) if name)]
        if not table.is_file():
            raise InputError(
                f"csv={str(csv)!r} {missing_path(table)}; give a .csv file with the columns "
                f"{', '.join(needed)}."
            )
        image_folder = table.parent if folder is None else Path(folder)
        if not image_folder.is_dir():
            raise InputError(
                f"folder={str(folder)!r} is not a folder; give the folder of the images."
            )
        is_optional = group == "group"  # the default: read only if it is there
        if group and not is_optional:
            needed.append(group)
        rows = read_texts(table, needed, ["group"] if is_optional else [], cure=_CURE)
        labels, names = _classes(rows[label], class_names, table) if label else (None, class_names)
        files = rows[path].tolist()
        require_inside(files, table.name)
        require_files(image_folder, files, table.name)
        super().__init__(
            ImageFiles(image_folder, files),
            labels,
            class_names=names,
            domains=rows[domain].tolist() if domain else None,
            groups=rows[group].tolist() if group in rows else None,
            provenance={"data set": table.name},
        )


def _classes(
    labels: pd.Series[str], class_names: Sequence[str] | None, table: Path
) -> tuple[Array, Sequence[str]]:
    """Class index of each row, and the names of the classes."""
    negative = labels.str.fullmatch("-[0-9]+")
    if class_names is None and negative.any() and labels.str.fullmatch("-?[0-9]+").all():
        raise InputError(
            f"the label in row {int(np.argmax(negative))} of {table} is "
            f"{labels[negative].iloc[0]}, but class numbers start at 0; drop rows without a class, "
            "or use names."
        )
    long = labels.str.fullmatch("[0-9]{10,}")
    if class_names is None and long.any() and labels.str.fullmatch("[0-9]+").all():
        raise _too_many_classes(int(np.argmax(long)), labels[long].iloc[0], table)
    if class_names is None and not are_whole(labels):
        numbers, found = pd.factorize(labels, sort=True)
        return numbers, found.tolist()
    names = list(class_names) if class_names is not None else []
    if set(labels) <= set(names):  # a name may be a number, such as '3'
        return pd.Index(names).get_indexer(pd.Index(labels)), names
    if not are_whole(labels):
        row = int(np.argmin(labels.isin(names)))
        raise InputError(
            f"the label {labels.iloc[row]!r} in row {row} of {table} is not in class_names; add "
            "it, or correct the row."
        )
    numbers = labels.to_numpy(str).astype(np.int64)
    if not names:
        if numbers.max() >= _MAX_CLASSES:
            row = int(np.argmax(numbers))
            raise _too_many_classes(row, numbers[row], table)
        names = [str(k) for k in range(int(numbers.max()) + 1)]
    if numbers.max() >= len(names):
        raise InputError(
            f"{table} has the label {numbers.max()}, but class_names has {len(names)} names; add "
            "the missing names."
        )
    return numbers, names


def _too_many_classes(row: int, label: object, table: Path) -> InputError:
    return InputError(
        f"the label in row {row} of {table} is {label}, but numbers of classes are below "
        f"{_MAX_CLASSES}; use names, or pass class_names=..."
    )

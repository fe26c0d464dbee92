"""Any images with a csv file of their paths, labels and domains."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from domaincal._typing import Array
from domaincal.datasets.text_columns import are_whole, read_texts
from domaincal.errors import InputError
from domaincal.vision.datasets.folder_layout import require_files
from domaincal.vision.datasets.image_set import ImageFiles, ImageSet

_CURE = (
    "name yours with path=..., label=..., domain=... or group=...; all but path can be None (in a "
    "command null)"
)


class ImageTable(ImageSet):
    r"""Images of any folder, described by a csv file with a row for each.

    Parameters
    ----------
    csv : path
        With a header, commas and UTF-8.
    folder : path, optional
        To which the paths are relative; by default the folder of the csv file.
    path, label, domain, group : str
        Names of columns. Paths have forward slashes. Labels are whole numbers from 0, or names.
        Without a column ``group`` there are no groups; with ``label=None``, ``domain=None`` or
        ``group=None`` that column is not read.
    class_names : sequence of str, optional
        In the order of the network's outputs. By default the names that occur, sorted; or the
        numbers from 0 to the largest; or, without labels, whichever the network knows.

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

    A new site, which nobody has labelled:

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
            kind = "a folder" if table.is_dir() else "not there"
            raise InputError(
                f"csv={str(csv)!r} is {kind}; give a .csv file with the columns "
                f"{', '.join(needed)}."
            )
        place = table.parent if folder is None else Path(folder)
        if not place.is_dir():
            raise InputError(f"folder={str(folder)!r} is no folder; give that of the images.")
        by_default = group == "group"  # not asked for
        if group and not by_default:
            needed.append(group)
        rows = read_texts(table, needed, ["group"] if by_default else [], cure=_CURE)
        labels, names = _classes(rows[label], class_names, table) if label else (None, class_names)
        files = rows[path].tolist()
        require_files(place, files, table.name)
        super().__init__(
            ImageFiles(place, files),
            labels,
            class_names=names,
            domains=rows[domain].to_numpy(str) if domain else None,
            groups=rows[group].to_numpy(str) if group in rows else None,
            provenance={"data set": table.name},
        )


def _classes(
    labels: "pd.Series[str]", class_names: Sequence[str] | None, table: Path
) -> tuple[Array, Sequence[str]]:
    """Number of each row's class, and the names of the classes."""
    below = labels.str.fullmatch("-[0-9]+")
    if class_names is None and below.any() and labels.str.fullmatch("-?[0-9]+").all():
        raise InputError(
            f"the label in row {int(np.argmax(below))} of {table} is {labels[below].iloc[0]}; "
            "numbers of classes begin with 0: drop rows without a class, or name the classes."
        )
    if class_names is None and not are_whole(labels):
        numbers, found = pd.factorize(labels.to_numpy(str), sort=True)
        return numbers, found.tolist()
    names = list(class_names) if class_names is not None else []
    if set(labels) <= set(names):  # a class may be called 3
        return pd.Index(names).get_indexer(pd.Index(labels)), names
    if not are_whole(labels):
        row = int(np.argmin(labels.isin(names)))
        raise InputError(
            f"the label {labels.iloc[row]!r} in row {row} of {table} is none of class_names; add "
            "it, or mend the row."
        )
    numbers = labels.to_numpy(str).astype(np.int64)
    names = names or [str(k) for k in range(int(numbers.max()) + 1)]
    if numbers.max() >= len(names):
        raise InputError(
            f"{table} has the label {numbers.max()}, but class_names has {len(names)} names; add "
            "the others."
        )
    return numbers, names

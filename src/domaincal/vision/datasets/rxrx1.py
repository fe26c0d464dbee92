"""RxRx1, as distributed by WILDS."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from domaincal._typing import Array
from domaincal._validation import check_option
from domaincal._wording import few
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

SPLITS = ("train", "id_test", "val", "test")
_N_CLASSES = 1139
_PATH_COLUMNS = ("experiment", "plate", "well", "site")
_COLUMNS = ("dataset", *_PATH_COLUMNS, "sirna_id")


class RxRx1(ImageSet):
    r"""RxRx1-WILDS: cells under a microscope, treated with one of 1,139 siRNAs.

    Input
        Fluorescence microscopy, three channels, PNG.
    Label
        Column ``sirna_id``: 0 to 1107 are treatments, 1108 to 1137 positive controls, 1138 is the
        negative control.
    Domain
        Column ``experiment``: an experimental batch such as ``HEPG2-08``, a cell type and a number.
    Group
        The well, such as ``HEPG2-08/1/B02``; its two sites show the same culture.
    Size
        125,510 images of 51 experiments. ``train``: 40,612, site 1 of 33 experiments; ``id_test``:
        40,612, site 2 of the same experiments; ``val``: 9,854 of 4 others; ``test``: 34,432 of 14
        others.
    Layout
        ``rxrx1_v1.0/`` with ``metadata.csv`` (columns dataset, experiment, plate, well, site,
        sirna_id) and ``images/<experiment>/Plate<plate>/<well>_s<site>.png``.
    Licence
        CC BY-NC-SA 4.0, according to WILDS.
    Citation
        J. Taylor et al., "RxRx1: An Image Set for Cellular Morphological Variation Across Many
        Experimental Batches", ICLR 2019 workshop AI for Social Good; P. W. Koh et al., "WILDS: A
        Benchmark of in-the-Wild Distribution Shifts", ICML 2021.

    Parameters
    ----------
    folder : path
        Folder with ``metadata.csv``, or the parent of ``rxrx1_v1.0``.
    split : {"train", "id_test", "val", "test"} or a list of them, default "val"
        Official splits. The paper evaluates on ``["val", "test"]``: the 4 experiments of ``val``
        are InD and the 14 of ``test`` are OOD, or 4 of all 18 are drawn at random, see
        :meth:`~domaincal.vision.ImageSet.draw_domains`.

    Examples
    --------
    >>> import tempfile, domaincal as dc
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     plate = Path(folder) / "images/HEPG2-08/Plate1"
    ...     plate.mkdir(parents=True)
    ...     _ = (plate / "B02_s1.png").write_bytes(b"...")
    ...     _ = (Path(folder) / "metadata.csv").write_text(
    ...         "dataset,experiment,plate,well,site,sirna_id\nval,HEPG2-08,1,B02,1,1138\n"
    ...     )
    ...     images = dc.vision.RxRx1(folder, "val")
    >>> images, images.domains.tolist()
    (RxRx1(1 images, 1139 classes, 1 domains, 1 groups), ['HEPG2-08'])
    """

    def __init__(self, folder: str | os.PathLike[str], split: str | Sequence[str] = "val") -> None:
        wanted = (split,) if isinstance(split, str) else tuple(split)
        for name in wanted or (split,):
            check_option(name, "split", SPLITS)
        root = _find_root(folder)
        table = root / "metadata.csv"
        rows = read_texts(table, _COLUMNS)
        labels = whole_numbers(rows, "sirna_id", table)
        if labels.max() >= _N_CLASSES:
            raise InputError(
                f"the column 'sirna_id' of {table} contains {labels.max()}; expected 0 to "
                f"{_N_CLASSES - 1}."
            )
        for name in _PATH_COLUMNS:
            require_plain_names(rows[name], name, str(table))
        inside = _rows_of_splits(rows, wanted, table)
        rows = rows[inside]
        experiment, plate, well = rows["experiment"], rows["plate"], rows["well"]
        names = experiment + "/Plate" + plate + "/" + well + "_s" + rows["site"] + ".png"
        require_files(root / "images", names, table.name)
        super().__init__(
            ImageFiles(root / "images", names.tolist()),
            labels[inside],
            class_names=[str(k) for k in range(_N_CLASSES)],
            domains=experiment.tolist(),
            groups=(experiment + "/" + plate + "/" + well).tolist(),
            provenance={"data set": "RxRx1-WILDS", "split": "+".join(wanted)},
        )


def _find_root(folder: str | os.PathLike[str]) -> Path:
    """Folder that contains metadata.csv and images."""
    root = require_folder(folder, "the folder of RxRx1 with metadata.csv and images")
    if not (root / "metadata.csv").is_file() and (root / "rxrx1_v1.0").is_dir():
        root = root / "rxrx1_v1.0"
    if not (root / "metadata.csv").is_file() or not (root / "images").is_dir():
        raise incomplete(root, "metadata.csv and images/", "unpack RxRx1 of WILDS there")
    return root


def _rows_of_splits(rows: pd.DataFrame, wanted: Sequence[str], table: Path) -> Array:
    """Boolean mask of the rows of the given splits."""
    unknown = sorted(set(rows["dataset"]) - {"train", "val", "test"})
    if unknown:
        raise InputError(
            f"the column 'dataset' of {table} contains {few(unknown)}; expected train, val, test."
        )
    is_id_test = (rows["dataset"] == "train") & (rows["site"] == "2")
    splits = rows["dataset"].mask(is_id_test, "id_test")
    missing = [name for name in wanted if not (splits == name).any()]
    if missing:
        raise InputError(f"{table} has no rows of the split {missing[0]!r}; get the whole file.")
    return splits.isin(wanted).to_numpy()

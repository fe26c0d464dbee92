"""RxRx1 as WILDS distributes it."""

import os
from collections.abc import Sequence

import numpy as np

from domaincal._validation import check_option
from domaincal._wording import few
from domaincal.datasets.text_columns import read_texts, whole_numbers
from domaincal.errors import InputError
from domaincal.vision.datasets.folder_layout import incomplete, require_files, require_folder
from domaincal.vision.datasets.image_set import ImageFiles, ImageSet

SPLITS = ("train", "id_test", "val", "test")
_N_CLASSES = 1139
_COLUMNS = ("dataset", "experiment", "plate", "well", "site", "sirna_id")


class RxRx1(ImageSet):
    r"""RxRx1-WILDS: cells under a microscope, treated with one of 1,139 siRNAs.

    Input
        Fluorescence microscopy, three channels, PNG.
    Label
        Column ``sirna_id``: 0 to 1107 treatments, 1108 to 1137 positive controls, 1138 the
        negative control.
    Domain
        Column ``experiment``, a batch, such as ``HEPG2-08``: a cell type and a number.
    Group
        The well, such as ``HEPG2-08/1/B02``: its two sites show the same culture.
    Size
        125,510 images of 51 experiments. ``train``: 40,612, site 1 of 33 experiments; ``id_test``:
        40,612, site 2 of the same; ``val``: 9,854 of 4 others; ``test``: 34,432 of 14 others.
    Layout
        ``rxrx1_v1.0/`` with ``metadata.csv`` (columns dataset, experiment, plate, well, site,
        sirna_id) and ``images/<experiment>/Plate<plate>/<well>_s<site>.png``.
    Licence
        CC BY-NC-SA 4.0, as WILDS states it.
    Citation
        J. Taylor et al., "RxRx1: An Image Set for Cellular Morphological Variation Across Many
        Experimental Batches", ICLR 2019 workshop AI for Social Good; P. W. Koh et al., "WILDS: A
        Benchmark of in-the-Wild Distribution Shifts", ICML 2021.

    Parameters
    ----------
    folder : path
        With ``metadata.csv``, or the folder in which ``rxrx1_v1.0`` is.
    split : {"train", "id_test", "val", "test"} or a list of them, default "val"
        The official ones. The paper evaluates on ``["val", "test"]``: the 4 experiments of the
        first are InD and the 14 of the second OOD, or 4 of all 18 drawn by
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
        place = require_folder(folder, "the folder of RxRx1 with metadata.csv and images")
        if not (place / "metadata.csv").is_file() and (place / "rxrx1_v1.0").is_dir():
            place = place / "rxrx1_v1.0"
        if not (place / "metadata.csv").is_file() or not (place / "images").is_dir():
            raise incomplete(place, "metadata.csv and images/", "unpack RxRx1 of WILDS there")
        path = place / "metadata.csv"
        rows = read_texts(path, _COLUMNS)
        labels = whole_numbers(rows, "sirna_id", path)
        if labels.max() >= _N_CLASSES:
            raise InputError(
                f"the column 'sirna_id' of {path} holds {labels.max()}; expected 0 to "
                f"{_N_CLASSES - 1}."
            )
        unknown = sorted(set(rows["dataset"]) - {"train", "val", "test"})
        if unknown:
            raise InputError(
                f"the column 'dataset' of {path} holds {few(unknown)}; expected train, val, test."
            )
        split_of = rows["dataset"].mask(
            (rows["dataset"] == "train") & (rows["site"] == "2"), "id_test"
        )
        inside = split_of.isin(wanted).to_numpy()
        absent = [name for name in wanted if not (split_of == name).any()]
        if absent:
            raise InputError(f"{path} has no rows of the split {absent[0]!r}; get the whole file.")
        rows = rows[inside]
        names = (
            rows["experiment"] + "/Plate" + rows["plate"] + "/" + rows["well"] + "_s" + rows["site"]
            + ".png"
        ).tolist()  # fmt: skip
        require_files(place / "images", names, "metadata.csv")
        super().__init__(
            ImageFiles(place / "images", names),
            labels[inside],
            class_names=[str(k) for k in range(_N_CLASSES)],
            domains=rows["experiment"].to_numpy(str),
            groups=np.array(
                (rows["experiment"] + "/" + rows["plate"] + "/" + rows["well"]).tolist()
            ),
            provenance={"data set": "RxRx1-WILDS", "split": "+".join(wanted)},
        )

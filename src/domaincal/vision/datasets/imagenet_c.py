"""ImageNet-C, from the official folders, with the clean validation images."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from domaincal._typing import Array
from domaincal._validation import check_option
from domaincal._wording import few
from domaincal.errors import InputError, MissingDependencyError
from domaincal.vision.corruptions.catalogue import CLEAN, FAMILIES, SEVERITIES, domain_name
from domaincal.vision.datasets.folder_layout import incomplete, list_folder, require_folder
from domaincal.vision.datasets.image_files import ImageFiles
from domaincal.vision.datasets.image_set import ImageSet

# Folder of each corrupted domain, and the folder of its family, which may contain it.
_CORRUPTED = {
    domain_name(name, severity): (f"{name}/{severity}", family)
    for family, names in FAMILIES.items()
    for name in names
    for severity in SEVERITIES
}
#: Names of all 76 domains.
DOMAINS = (CLEAN, *_CORRUPTED)


class ImageNetC(ImageSet):
    """ImageNet-C: the validation images of ImageNet, clean and under 75 corruptions.

    Input
        Colour photos, JPEG; the corrupted ones of 224 x 224 px, the clean ones of many sizes.
    Label
        The 200 classes of ImageNet-R, as in the paper; ``columns`` are their indices among the
        1000 outputs of an ImageNet network, which are in the order of the WordNet ids. With
        ``classes="all"``, all 1000 classes.
    Domain
        76: ``clean``, and 15 corruptions at 5 severities, such as ``fog-3``. The four further
        corruptions of the release (speckle_noise, gaussian_blur, spatter, saturate) are left out.
    Group
        Name of the image file, the same in all domains.
    Size
        50 images of each class in each domain: 10,000 images of 200 classes, 50,000 of all.
    Layout
        ``<corruption>/<severity>/<wnid>/*.JPEG``; a corruption may also be in the folder of its
        family, as in ``blur/defocus_blur/1``. The clean images are in ``<clean>/<wnid>/*.JPEG``.
    Licence
        The terms of ImageNet.
    Citation
        D. Hendrycks and T. Dietterich, "Benchmarking Neural Network Robustness to Common
        Corruptions and Perturbations", ICLR 2019; for the 200 classes D. Hendrycks et al., "The
        Many Faces of Robustness", ICCV 2021.

    Parameters
    ----------
    folder : path
        Folder that contains the folders of the corruptions.
    clean : path, optional
        Folder of the clean validation images, with a subfolder for each class; by default
        ``clean`` in ``folder``.
    classes : {"imagenet-r", "all"}, default "imagenet-r"
        Classes to read. The lists of the classes come with timm.
    domains : sequence of str, optional
        Domains to read, e.g. ``["clean", "fog-3"]``; by default all 76. They must have the same
        images.

    Examples
    --------
    >>> import domaincal as dc
    >>> dc.vision.ImageNetC("imagenet-c", clean="val")  # doctest: +SKIP
    ImageNetC(760000 images, 200 classes, 76 domains, 10000 groups)
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        clean: str | os.PathLike[str] | None = None,
        classes: Literal["imagenet-r", "all"] = "imagenet-r",
        domains: Sequence[str] | None = None,
    ) -> None:
        check_option(classes, "classes", ("imagenet-r", "all"))
        wanted = _checked_domains(domains)
        every = read_synsets("imagenet_synsets.txt")
        selected = every if classes == "all" else read_synsets("imagenet_r_synsets.txt")
        root = require_folder(folder, "the folder that contains the folders of the corruptions")
        folders = _find_folders(root, Path(clean) if clean is not None else None, wanted)
        images = _common_images(folders, selected)
        number = {wnid: k for k, wnid in enumerate(selected)}
        labels = np.array([number[name.partition("/")[0]] for name in images])
        super().__init__(
            _ImagesByFolder(folders, images),
            np.tile(labels, len(folders)),
            class_names=selected,
            domains=np.repeat(np.array(wanted, object), len(images)),
            groups=[name.partition("/")[2] for name in images] * len(folders),
            columns=None if classes == "all" else [every.index(wnid) for wnid in selected],
            provenance={"data set": "ImageNet-C", "classes": classes},
        )


class _ImagesByFolder:
    """Files of the same names in several folders: all of the first folder, then the second, ..."""

    def __init__(self, folders: Sequence[Path], names: Sequence[str]) -> None:
        self._images = [ImageFiles(folder, names) for folder in folders]
        self._n = len(names)

    def __len__(self) -> int:
        return len(self._images) * self._n

    def __getitem__(self, index: int) -> Array:
        folder, image = divmod(index, self._n)
        return self._images[folder][image]


def _checked_domains(domains: Sequence[str] | None) -> Sequence[str]:
    wanted = DOMAINS if domains is None else tuple(dict.fromkeys(domains))
    unknown = [name for name in wanted if name not in DOMAINS]
    if unknown or not wanted or isinstance(domains, str):
        raise InputError(
            "domains must be a list of domains such as 'clean' and 'fog-3', got "
            f"{unknown[0] if unknown and not isinstance(domains, str) else domains!r}."
        )
    return wanted


def read_synsets(name: str) -> list[str]:
    """Words of a text file in timm's package, which is not imported because that loads torch."""
    found = importlib.util.find_spec("timm")
    if found is None or found.origin is None:
        raise MissingDependencyError(
            "the lists of ImageNet's classes come with the package 'timm', which is not installed; "
            "install it with: pip install 'domaincal[torch]'"
        )
    path = Path(found.origin).parent / "data" / "_info" / name
    if not path.is_file():
        raise MissingDependencyError(
            f"the installed package 'timm' has no file {name}; install timm >= 1.0."
        )
    return path.read_text().split()


def _find_folders(root: Path, clean: Path | None, wanted: Sequence[str]) -> list[Path]:
    """Folder of each domain."""
    found: dict[str, Path] = {}
    for domain in wanted:
        if domain == CLEAN:
            path = root / CLEAN if clean is None else clean
            if path.is_dir():
                found[domain] = path
        else:
            name, family = _CORRUPTED[domain]
            options = [path for path in (root / name, root / family / name) if path.is_dir()]
            if options:
                found[domain] = options[0]
    missing = [name for name in wanted if name not in found]
    if CLEAN in missing:
        raise InputError(
            f"expected the clean validation images in {clean or root / CLEAN}, but that folder "
            "does not exist; pass clean=..., or domains=... without 'clean'."
        )
    if missing:
        lacking = few(_CORRUPTED[name][0] for name in missing)
        raise incomplete(
            root,
            f"<corruption>/<severity> for all {len(wanted)} domains, directly or within "
            f"{', '.join(FAMILIES)},",
            f"{len(missing)} are missing: {lacking}; get them, or select others with domains=[...]",
        )
    return [found[name] for name in wanted]


def _common_images(folders: Sequence[Path], classes: Sequence[str]) -> list[str]:
    """Paths ``<wnid>/<file>`` of the images; raise an error if they differ between domains."""
    images: list[str] = []
    for folder in folders:
        here = [
            f"{wnid}/{name}"
            for wnid in classes
            if (folder / wnid).is_dir()
            for name in list_folder(folder / wnid)[1]
            if re.search(r"\.jpe?g$", name, re.IGNORECASE)
        ]
        lacking = set(classes) - {name.partition("/")[0] for name in here}
        if lacking:
            raise incomplete(
                folder,
                f"a folder of .JPEG images for each of {len(classes)} classes, named by WordNet id",
                f"{len(lacking)} are missing: {few(sorted(lacking))}",
            )
        images = images or here
        if images != here:
            different = sorted(set(images) ^ set(here))
            raise InputError(
                f"{len(different)} images are only in one of {folders[0]} and {folder}: "
                f"{few(different)}; every domain must have the same images: unpack them again."
            )
    return images

"""ImageNet-C, from its official folders, with the clean validation images."""

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
from domaincal.vision.datasets.folder_layout import entries, incomplete, require_folder
from domaincal.vision.datasets.image_set import ImageFiles, ImageSet

#: Folder of each corrupted domain, and the kind that may stand before it.
_CORRUPTED = {
    domain_name(name, severity): (f"{name}/{severity}", kind)
    for kind, names in FAMILIES.items()
    for name in names
    for severity in SEVERITIES
}
_DOMAINS = (CLEAN, *_CORRUPTED)


class ImageNetC(ImageSet):
    """ImageNet-C: the validation images of ImageNet, clean and under 75 corruptions.

    Input
        Colour photos, JPEG; the corrupted ones of 224 x 224 px, the clean ones as they are.
    Label
        The 200 classes of ImageNet-R, as in the paper; ``columns`` are their places among the
        1000 outputs of a network of ImageNet, whose classes are numbered in the order of their
        WordNet ids. With ``classes="all"``, all 1000.
    Domain
        76: ``clean``, and 15 corruptions at 5 severities, such as ``fog-3``. The four further
        corruptions of the release (speckle_noise, gaussian_blur, spatter, saturate) are left out.
    Group
        The name of the image's file, the same in all domains.
    Size
        50 images of each class in each domain: 10,000 of the 200 classes, 50,000 of all.
    Layout
        ``<corruption>/<severity>/<wnid>/*.JPEG``; a corruption may also be in the folder of its
        kind, as in ``blur/defocus_blur/1``. The clean images are in ``<clean>/<wnid>/*.JPEG``.
    Licence
        The terms of ImageNet hold for the images.
    Citation
        D. Hendrycks and T. Dietterich, "Benchmarking Neural Network Robustness to Common
        Corruptions and Perturbations", ICLR 2019; for the 200 classes D. Hendrycks et al., "The
        Many Faces of Robustness", ICCV 2021.

    Parameters
    ----------
    folder : path
        In which the folders of the corruptions are.
    clean : path, optional
        The clean validation images, in a folder for each class; by default ``clean`` in `folder`.
    classes : {"imagenet-r", "all"}, default "imagenet-r"
        Their lists come with timm.
    domains : sequence of str, optional
        Which ones to read, e.g. ``["clean", "fog-3"]``; by default all 76. All of them must have
        the same images.

    Examples
    --------
    The files must be there; see the layout above.

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
        wanted = _wanted(domains)
        every = _synsets("imagenet_synsets.txt")
        chosen = every if classes == "all" else _synsets("imagenet_r_synsets.txt")
        place = require_folder(folder, "the folder in which the folders of the corruptions are")
        folders = _folders(place, Path(clean) if clean is not None else None, wanted)
        images = _common_images(folders, chosen)
        number = {wnid: k for k, wnid in enumerate(chosen)}
        labels = np.array([number[name.partition("/")[0]] for name in images])
        super().__init__(
            _InFolders(folders, images),
            np.tile(labels, len(folders)),
            class_names=chosen,
            domains=np.repeat(np.array(wanted), len(images)),
            groups=np.tile(np.array([name.partition("/")[2] for name in images]), len(folders)),
            columns=None if classes == "all" else [every.index(wnid) for wnid in chosen],
            provenance={"data set": "ImageNet-C", "classes": classes},
        )


class _InFolders:
    """The same names in several folders: all of the first, then all of the second, ..."""

    def __init__(self, folders: Sequence[Path], names: Sequence[str]) -> None:
        self._images = [ImageFiles(folder, names) for folder in folders]
        self._n = len(names)

    def __len__(self) -> int:
        return len(self._images) * self._n

    def __getitem__(self, index: int) -> Array:
        folder, image = divmod(index, self._n)
        return self._images[folder][image]


def _wanted(domains: Sequence[str] | None) -> Sequence[str]:
    wanted = _DOMAINS if domains is None else tuple(dict.fromkeys(domains))
    unknown = [name for name in wanted if name not in _DOMAINS]
    if unknown or not wanted or isinstance(domains, str):
        raise InputError(
            "domains must be a list of some of 'clean' and the 75 such as 'fog-3', got "
            f"{unknown[0] if unknown and not isinstance(domains, str) else domains!r}."
        )
    return wanted


def _synsets(name: str) -> list[str]:
    """A list of classes from the files of timm, which is not imported: it loads torch."""
    found = importlib.util.find_spec("timm")
    if found is None or found.origin is None:
        raise MissingDependencyError(
            "the classes of ImageNet come with the package 'timm', which cannot be imported; "
            "install it with: pip install 'domaincal[torch]'"
        )
    path = Path(found.origin).parent / "data" / "_info" / name
    if not path.is_file():
        raise MissingDependencyError(
            f"the package 'timm' that is installed has no {name}; install timm >= 1.0."
        )
    return path.read_text().split()


def _folders(place: Path, clean: Path | None, wanted: Sequence[str]) -> list[Path]:
    """Where the images of each domain are."""
    found: dict[str, Path] = {}
    for domain in wanted:
        if domain == CLEAN:
            path = place / CLEAN if clean is None else clean
            if path.is_dir():
                found[domain] = path
        else:
            name, kind = _CORRUPTED[domain]
            options = [path for path in (place / name, place / kind / name) if path.is_dir()]
            if options:
                found[domain] = options[0]
    missing = [name for name in wanted if name not in found]
    if CLEAN in missing:
        raise InputError(
            f"expected the clean validation images in {clean or place / CLEAN}, in a folder for "
            "each class, and found no such folder; pass clean=..., or domains=... without 'clean'."
        )
    if missing:
        lacking = few(_CORRUPTED[name][0] for name in missing)
        raise incomplete(
            place,
            f"<corruption>/<severity> for all {len(wanted)} domains, without or within "
            f"{', '.join(FAMILIES)},",
            f"{len(missing)} are not there: {lacking}; get them, or name those that are there with "
            "domains=[...]",
        )
    return [found[name] for name in wanted]


def _common_images(folders: Sequence[Path], classes: Sequence[str]) -> list[str]:
    """``<wnid>/<file>`` of all images, which must be the same in every domain."""
    images: list[str] = []
    for folder in folders:
        here = [
            f"{wnid}/{name}"
            for wnid in classes
            if (folder / wnid).is_dir()
            for name in entries(folder / wnid)[1]
            if re.search(r"\.jpe?g$", name, re.IGNORECASE)
        ]
        lacking = set(classes) - {name.partition("/")[0] for name in here}
        if lacking:
            raise incomplete(
                folder,
                f"a folder of .JPEG images for each of {len(classes)} classes, named by WordNet id",
                f"{len(lacking)} have none: {few(sorted(lacking))}",
            )
        images = images or here
        if images != here:
            different = sorted(set(images) ^ set(here))
            raise InputError(
                f"{len(different)} images are only in one of {folders[0]} and {folder}: "
                f"{few(different)}; every domain must have the same ones: unpack again."
            )
    return images

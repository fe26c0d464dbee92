"""Data sets: synthetic domains, corruptions of images, and the digits of the embedded benchmark."""

from domaincal.datasets.corruptions import corrupt
from domaincal.datasets.digits import load_digits_c
from domaincal.datasets.image_folders import CorruptedFolder, corrupt_folder
from domaincal.datasets.image_sets import ImageFiles, ImageSet, ZippedImages
from domaincal.datasets.synthetic import make_multi_domain
from domaincal.datasets.tiny_imagenet import TinyImageNet

__all__ = [
    "CorruptedFolder",
    "ImageFiles",
    "ImageSet",
    "TinyImageNet",
    "ZippedImages",
    "corrupt",
    "corrupt_folder",
    "load_digits_c",
    "make_multi_domain",
]

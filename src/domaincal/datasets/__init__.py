"""Data sets: images and tables with domains, synthetic domains, corruptions, digits."""

from domaincal.datasets.cifar import Cifar10, Cifar100
from domaincal.datasets.corruptions import corrupt
from domaincal.datasets.digits import load_digits_c
from domaincal.datasets.domain_table import DomainTable, read_domain_table
from domaincal.datasets.google_landmarks import GoogleLandmarks
from domaincal.datasets.image_folders import CorruptedFolder, corrupt_folder
from domaincal.datasets.image_sets import ImageFiles, ImageSet, ZippedImages
from domaincal.datasets.image_table import ImageTable
from domaincal.datasets.imagenet_c import ImageNetC
from domaincal.datasets.rxrx1 import RxRx1
from domaincal.datasets.synthetic import make_multi_domain
from domaincal.datasets.tiny_imagenet import TinyImageNet

__all__ = [
    "Cifar10",
    "Cifar100",
    "CorruptedFolder",
    "DomainTable",
    "GoogleLandmarks",
    "ImageFiles",
    "ImageNetC",
    "ImageSet",
    "ImageTable",
    "RxRx1",
    "TinyImageNet",
    "ZippedImages",
    "corrupt",
    "corrupt_folder",
    "load_digits_c",
    "make_multi_domain",
    "read_domain_table",
]

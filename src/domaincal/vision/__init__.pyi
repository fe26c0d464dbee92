from .corruptions.corrupt import corrupt as corrupt
from .corruptions.corrupted_folder import (
    CorruptedFolder as CorruptedFolder,
    corrupt_folder as corrupt_folder,
)
from .corruptions.corruption_set import Corruptions as Corruptions
from .datasets.cifar import Cifar10 as Cifar10, Cifar100 as Cifar100
from .datasets.google_landmarks import GoogleLandmarks as GoogleLandmarks
from .datasets.image_files import ImageFiles as ImageFiles, ZippedImages as ZippedImages
from .datasets.image_set import ImageSet as ImageSet
from .datasets.image_table import ImageTable as ImageTable
from .datasets.imagenet_c import ImageNetC as ImageNetC
from .datasets.rxrx1 import RxRx1 as RxRx1
from .datasets.tiny_imagenet import TinyImageNet as TinyImageNet
from .digits_c import load_digits_c as load_digits_c
from .extraction.extract import Extraction as Extraction, extract as extract
from .networks.create_network import (
    ARCHITECTURES as ARCHITECTURES,
    create_network as create_network,
)
from .networks.network import Network as Network
from .networks.network_file import load_network as load_network, save_network as save_network
from .networks.preprocessing import Preprocessing as Preprocessing
from .training.train import Training as Training, train as train

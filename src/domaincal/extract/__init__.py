"""Networks: training, and the logits and features of images, by torch."""

from domaincal._optional import require

require("torch", extra="torch", purpose="domaincal.extract")

from domaincal.extract.corruptions import Corruptions
from domaincal.extract.extraction import Extraction, extract
from domaincal.extract.network_files import load_network, save_network
from domaincal.extract.networks import ARCHITECTURES, Network, create_network
from domaincal.extract.preprocessing import Preprocessing
from domaincal.extract.training import Training, train

__all__ = [
    "ARCHITECTURES",
    "Corruptions",
    "Extraction",
    "Network",
    "Preprocessing",
    "Training",
    "create_network",
    "extract",
    "load_network",
    "save_network",
    "train",
]

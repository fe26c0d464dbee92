"""Everything about images: data sets, corruptions, networks, training, extraction, Digits-C.

Imports without torch: names are loaded at first use (``__init__.pyi`` lists them), and only those
that work with networks need it.
"""

from typing import Any

import lazy_loader

from domaincal._optional import require

_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

_NEED_TORCH = (
    "ARCHITECTURES", "Extraction", "Network", "Preprocessing", "Training", "create_network",
    "extract", "load_network", "save_network", "train",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _NEED_TORCH:
        require("torch", extra="torch", purpose=f"domaincal.vision.{name}")
    return _load(name)

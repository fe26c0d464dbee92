"""Everything about images: data sets, corruptions, networks, training, extraction, Digits-C.

The names are loaded at first use (``__init__.pyi`` lists them). The package can be imported without
torch; only the names that work with networks need it.
"""

from __future__ import annotations

from typing import Any

import lazy_loader

from domaincal._optional import require

_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    try:
        return _load(name)
    except ModuleNotFoundError as error:
        if error.name == "torch":
            require("torch", extra="torch", purpose=f"domaincal.vision.{name}")
        raise

"""Import of packages that only the extras install."""

from __future__ import annotations

import importlib
from types import ModuleType

from domaincal.errors import MissingDependencyError


def require(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import an optional package, or raise an error that names the extra to install.

    Parameters
    ----------
    module : str
        Name to import, e.g. ``"matplotlib.pyplot"``.
    extra : str
        Extra of domaincal that installs the package.
    purpose : str
        What needs the package; the error starts with it.

    Examples
    --------
    >>> require("json", extra="none", purpose="an example").__name__
    'json'
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingDependencyError(
            f"{purpose} needs the package {module!r}, which cannot be imported ({error}); "
            f"install it with: pip install 'domaincal[{extra}]'"
        ) from error
    except Exception as error:  # e.g. a torchvision built for another version of torch
        raise MissingDependencyError(
            f"{purpose} needs the package {module!r}, which is installed but fails on import "
            f"({type(error).__name__}: {error}); it conflicts with another installed package: "
            "install them again together, in a new environment."
        ) from error

"""The one door for packages that a bare install does not have."""

import importlib
from types import ModuleType

from domaincal.errors import MissingDependencyError


def require(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import ``module`` or say which extra brings it.

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
    except Exception as error:  # e.g. a torchvision that was built for another torch
        raise MissingDependencyError(
            f"{purpose} needs the package {module!r}, which is there but fails when it is imported "
            f"({type(error).__name__}: {error}); it, or one that it imports, does not suit the "
            "others that are installed: install them again together, in an environment of their "
            "own."
        ) from error

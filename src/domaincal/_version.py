"""Versions of domaincal and of other installed packages."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

__version__ = version("domaincal")


def versions(*packages: str) -> dict[str, str]:
    """Version of each package that is installed, for the provenance of results.

    Examples
    --------
    >>> list(versions("numpy", "no-such-package"))
    ['numpy']
    """
    found = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found

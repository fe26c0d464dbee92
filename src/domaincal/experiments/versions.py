"""Versions of installed packages, for the provenance of results."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def versions(*packages: str) -> dict[str, str]:
    """Version of each package that is installed.

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

"""Versions of packages, for provenance."""

from importlib.metadata import PackageNotFoundError, version


def versions(*packages: str) -> dict[str, str]:
    """Versions of those packages that are installed.

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

"""Errors and warnings of domaincal.

The message of an error names the argument, its value and the cure.
"""

from __future__ import annotations


class DomaincalError(Exception):
    """Base class of the errors of domaincal."""


class InputError(DomaincalError, ValueError):
    """An argument is invalid."""


class FileFormatError(DomaincalError, ValueError):
    """A file cannot be read: it is damaged, has another format, or a newer format version."""


class MissingDependencyError(DomaincalError, ImportError):
    """An optional package is missing or cannot be imported."""


class DomaincalWarning(UserWarning):
    """Base class of the warnings of domaincal."""


class BoundaryWarning(DomaincalWarning):
    """A fitted temperature is at a bound, because the rows do not determine it."""


class PoorHeadWarning(DomaincalWarning):
    """Predicted temperatures fit the calibration rows worse than a single temperature does."""


class SmallDomainWarning(DomaincalWarning):
    """A domain has too few rows for its temperature to be used."""


class SubsampleWarning(DomaincalWarning):
    """A head is fitted on a subsample of the rows."""


class UnseenDomainWarning(DomaincalWarning):
    """A domain at prediction was not in the calibration rows; it gets the pooled temperature."""

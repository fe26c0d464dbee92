"""Every error and warning of the package.

The message of an error names the argument, the value and the cure.
"""


class DomaincalError(Exception):
    """Base class of all errors raised on purpose by domaincal."""


class InputError(DomaincalError, ValueError):
    """An argument cannot be used as it is."""


class FileFormatError(DomaincalError, ValueError):
    """A file cannot be read: broken, of another kind, or newer than this package."""


class MissingDependencyError(DomaincalError, ImportError):
    """An optional package is needed and not installed."""


class DomaincalWarning(UserWarning):
    """Base class of all warnings of domaincal."""


class BoundaryWarning(DomaincalWarning):
    """The temperature lies at a bound: the rows do not determine one."""


class PoorHeadWarning(DomaincalWarning):
    """Predicted temperatures suit the calibration rows worse than one temperature for all."""


class SmallDomainWarning(DomaincalWarning):
    """A domain has too few rows for its temperature to be used."""


class SubsampleWarning(DomaincalWarning):
    """A head has learned from some of the rows only."""


class UnseenDomainWarning(DomaincalWarning):
    """A domain at prediction was not seen in the fit; the pooled temperature is used."""

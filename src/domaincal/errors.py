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


class ClusterError(DomaincalError):
    """A cluster cannot be reached, was lost, or cannot read the rows."""


class DomaincalWarning(UserWarning):
    """Base class of the warnings of domaincal."""


class BoundaryWarning(DomaincalWarning):
    """A fitted temperature is at a bound, because the rows do not determine it."""


class ClippedTemperatureWarning(DomaincalWarning):
    """More than a tenth of the rows are so unlike those of the fit that T is held back.

    Their temperatures are at a limit, or a batch is so far away that its temperature tends to the
    pooled one. Likely reasons are other features than in the fit, features on another scale, rows
    from a domain unlike all domains of the fit, or a poor head. Temperatures at a limit are
    reported for 20 rows or more.
    """


class FewClassesWarning(DomaincalWarning):
    """More than a tenth of the rows are in batches of far fewer classes than those of the fit.

    Batches of consecutive rows can be such: the method for batches takes them for a domain in which
    the model predicts few classes, and their temperatures are wrong.
    """


class PoorHeadWarning(DomaincalWarning):
    """Predicted temperatures have a higher NLL than one temperature for all rows.

    From 3 domains on, both are compared on domains that are left out of the fit; with fewer, on
    the calibration rows.
    """


class ProbabilitiesWarning(DomaincalWarning):
    """Values that look like probabilities were passed as logits; they are used unchanged.

    Convert probabilities with :func:`domaincal.logits_from_probabilities` first.
    """


class RoundedProbabilitiesWarning(DomaincalWarning):
    """Probabilities of exactly 0 stand beside others that are rounded, or shares of votes.

    A zero counts as 1e-12, far less than the model means; ``floor`` sets another value.
    """


class SmallDomainWarning(DomaincalWarning):
    """A domain has too few rows for its temperature to be used."""


class SubsampleWarning(DomaincalWarning):
    """A head is fitted on a subsample of the rows."""


class UnseenDomainWarning(DomaincalWarning):
    """A domain at prediction was not in the calibration rows; it gets the pooled temperature."""

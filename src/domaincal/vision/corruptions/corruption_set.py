"""A set of corruptions, under each of which every image is shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from domaincal._validation import check_count, check_option
from domaincal.errors import InputError
from domaincal.vision.corruptions.catalogue import (
    CLEAN,
    CONSTANTS,
    CORRUPTIONS,
    SEVERITIES,
    Constants,
    check_corruption,
    domain_name,
)
from domaincal.vision.corruptions.corrupt import corrupt

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Corruptions:
    """Corruptions under which every image is shown; each of them is a domain.

    The first domain is ``clean``, the uncorrupted images.

    Attributes
    ----------
    constants : {"imagenet", "tiny-imagenet", "cifar"}
        Table of constants: published for images of 224, 64 or 32 px.
    names : sequence of str, default all 15
        Names of the corruptions; see :func:`corrupt`.
    severities : sequence of int, default 1 to 5
    random_state : int, default 0
        Seed of the random numbers.

    Examples
    --------
    >>> from domaincal.vision import Corruptions
    >>> Corruptions("cifar", names=["fog"], severities=[1, 3]).domains
    ('clean', 'fog-1', 'fog-3')
    """

    constants: Constants
    names: Sequence[str] = CORRUPTIONS
    severities: Sequence[int] = SEVERITIES
    random_state: int = 0

    def __post_init__(self) -> None:
        check_option(self.constants, "constants", CONSTANTS)
        check_count(self.random_state, "random_state", minimum=0)
        if isinstance(self.names, str):
            raise InputError(
                f"names must be a list, got {self.names!r}; pass names=[{self.names!r}]."
            )
        if len(set(self._pairs())) < len(self._pairs()):
            raise InputError(
                f"names={list(self.names)} or severities={list(self.severities)} contains a value "
                "twice; remove the duplicate."
            )
        if not self._pairs():
            raise InputError("names or severities is empty; name at least one of each.")
        for name, severity in self._pairs():
            check_corruption(name, severity)

    @property
    def domains(self) -> tuple[str, ...]:
        """Names of the domains, in order."""
        return (CLEAN, *(domain_name(*pair) for pair in self._pairs()))

    def apply(self, images: Tensor, domain: int) -> Tensor:
        """Images, uint8 of shape (n, height, width, 3), in the domain of the given number."""
        if domain == 0:
            return images
        name, severity = self._pairs()[domain - 1]
        return corrupt(images, name, severity, self.random_state, constants=self.constants)

    def to_dict(self) -> dict[str, Any]:
        """Parameters as JSON values. The seed has the key ``seed`` in all stores."""
        return {
            "constants": self.constants, "names": list(self.names),
            "severities": list(self.severities), "seed": self.random_state,
        }  # fmt: skip

    def _pairs(self) -> list[tuple[str, int]]:
        return [(name, severity) for name in self.names for severity in self.severities]

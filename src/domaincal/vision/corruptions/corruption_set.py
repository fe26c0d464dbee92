"""The corruptions under which every image of a set is shown."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from domaincal._validation import check_count, check_option
from domaincal.errors import InputError
from domaincal.vision.corruptions.catalogue import (
    CLEAN,
    CORRUPTIONS,
    SEVERITIES,
    check_corruption,
    domain_name,
)
from domaincal.vision.corruptions.corrupt import corrupt

Constants = Literal["imagenet", "tiny-imagenet", "cifar"]


@dataclass(frozen=True)
class Corruptions:
    """Corruptions under which every image is shown, each a domain of its own.

    The domain ``clean``, the images as they are, comes first.

    Attributes
    ----------
    constants : {"imagenet", "tiny-imagenet", "cifar"}
        Whose severities: meant for images of 224, 64 and 32 px.
    names : sequence of str, default all 15
    severities : sequence of int, default 1 to 5
    seed : int, default 0

    Examples
    --------
    >>> from domaincal.vision import Corruptions
    >>> Corruptions("cifar", names=["fog"], severities=[1, 3]).domains
    ('clean', 'fog-1', 'fog-3')
    """

    constants: Constants
    names: Sequence[str] = CORRUPTIONS
    severities: Sequence[int] = SEVERITIES
    seed: int = 0

    def __post_init__(self) -> None:
        check_option(self.constants, "constants", ("imagenet", "tiny-imagenet", "cifar"))
        check_count(self.seed, "seed", minimum=0)
        if isinstance(self.names, str):
            raise InputError(f"names={self.names!r}; give a list, names=[{self.names!r}].")
        if len(set(self._pairs())) < len(self._pairs()):
            raise InputError(
                f"names={list(self.names)} or severities={list(self.severities)} holds something "
                "twice; name each once."
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
        """Images, uint8 of shape (n, height, width, 3), as the domain of that number shows them."""
        if domain == 0:
            return images
        name, severity = self._pairs()[domain - 1]
        seen: Any = corrupt(images, name, severity, self.seed, constants=self.constants)
        return seen  # type: ignore[no-any-return]

    def to_dict(self) -> dict[str, Any]:
        """For a file."""
        return {
            "constants": self.constants, "names": list(self.names),
            "severities": list(self.severities), "seed": self.seed,
        }  # fmt: skip

    def _pairs(self) -> list[tuple[str, int]]:
        return [(name, severity) for name in self.names for severity in self.severities]

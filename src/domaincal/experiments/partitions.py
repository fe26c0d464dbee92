"""Which domains calibrate (InD) and which are kept from it (OOD)."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from domaincal._validation import check_count
from domaincal.data.splits import drawn, named_by
from domaincal.errors import InputError
from domaincal.vision.corruptions.catalogue import CLEAN, FAMILIES


@dataclass(frozen=True)
class Partition:
    """A rule that makes domains InD or OOD.

    Parameters
    ----------
    name : str
    title : str, optional
        For tables and figures; by default the name.
    ind : tuple of str, optional
        Names or patterns such as ``"fog-*"``; by default all domains that are not OOD.
    ood : tuple of str, optional
        Names or patterns; by default none. A domain that both name is InD, one that neither names
        is left out.
    random_ind : int, optional
        So many domains, drawn at random, are InD and the others OOD.
    min_rows : int, default 1
        Domains with fewer rows are left out.
    seed : int, optional
        Of ``random_ind``; by default every repeat draws its own.

    Examples
    --------
    >>> partition = Partition("night", ood=("night-*",))
    >>> partition.choose({"day-1": 90, "night-1": 80}, seed=0)
    (['day-1'], ['night-1'])
    """

    name: str
    title: str = ""
    ind: tuple[str, ...] = ()
    ood: tuple[str, ...] = ()
    random_ind: int | None = None
    min_rows: int = 1
    seed: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise InputError(f"the name of a partition must be a word, got {self.name!r}.")
        for key in ("ind", "ood"):
            given = getattr(self, key)
            listed = isinstance(given, list | tuple)
            patterns = tuple(given) if listed else (given,)
            if not all(isinstance(pattern, str) for pattern in patterns):
                raise InputError(f"{key} of {self.name!r} must list names, got {given!r}.")
            object.__setattr__(self, key, patterns)
        object.__setattr__(self, "title", str(self.title or self.name))
        check_count(self.min_rows, "min_rows", minimum=1)
        for key, minimum in (("random_ind", 1), ("seed", 0)):
            if getattr(self, key) is not None:
                check_count(getattr(self, key), key, minimum=minimum)
        if self.random_ind is not None and (self.ind or self.ood):
            raise InputError(
                f"the partition {self.name!r} has both random_ind and names; keep one of them."
            )

    def choose(self, counts: Mapping[Any, int], *, seed: int) -> tuple[list[Any], list[Any]]:
        """InD and OOD domains among those with the given numbers of rows, sorted."""
        known = sorted(name for name, n in counts.items() if n >= self.min_rows)
        if not known:
            raise InputError(
                f"no domain has the {self.min_rows} rows that the partition {self.name!r} wants; "
                "lower min_rows."
            )
        if self.random_ind is not None:
            return self._draw(known, self.seed if self.seed is not None else seed)
        ood = self._matching(self.ood, known, "ood")
        ind = self._matching(self.ind, known, "ind") if self.ind else set(known) - ood
        if not ind:
            raise InputError(f"the partition {self.name!r} leaves no InD domain; change its ood.")
        return sorted(ind), sorted(ood - ind)

    def definition(self) -> dict[str, Any]:
        """What decides the domains: all but the title."""
        return {key: value for key, value in asdict(self).items() if key != "title"}

    def _draw(self, known: list[Any], seed: int) -> tuple[list[Any], list[Any]]:
        wanted = self.random_ind or 0
        if wanted > len(known):
            raise InputError(
                f"the partition {self.name!r} wants {wanted} InD domains, but only {len(known)} "
                f"have {self.min_rows} rows or more."
            )
        return drawn(known, wanted, seed)

    def _matching(self, patterns: Sequence[str], known: list[Any], key: str) -> set[Any]:
        found = set()
        for pattern in patterns:
            same = {known[k] for k in np.flatnonzero(named_by(pattern, known))}
            if not same:
                raise InputError(
                    f"{key} of the partition {self.name!r} names {pattern!r}, which is no domain "
                    f"of the data; there are {', '.join(map(str, known[:5]))}, ..."
                )
            found |= same
        return found


def _types(*kinds: str) -> tuple[str, ...]:
    return tuple(f"{name}-*" for kind in kinds for name in FAMILIES[kind])


_EIGHT = ("gaussian_noise", "shot_noise", "defocus_blur", "glass_blur", "snow", "frost",
          "pixelate", "jpeg_compression")  # fmt: skip

#: The paper's partitions of corrupted images, and ours by type; by name.
CORRUPTION_PARTITIONS = {
    partition.name: partition
    for partition in (
        Partition("unseen-severities", "severities 2, 3, 4 unseen", ood=("*-[234]",)),
        Partition("unseen-severity-5", "severity 5 unseen", ood=("*-5",)),
        Partition("unseen-types", "noise and blur unseen", ood=_types("noise", "blur")),
        Partition(
            "eight-corruptions",
            "8 corruptions, all seen",
            ind=(CLEAN, *(f"{name}-*" for name in _EIGHT)),
        ),
        Partition("all", "all domains seen"),
        *(
            Partition(f"random-4-{seed}", f"4 random domains seen, seed {seed}",
                      random_ind=4, seed=seed)
            for seed in (1, 2, 3)
        ),
    )
}  # fmt: skip

PARTITION_KEYS = tuple(field.name for field in fields(Partition))

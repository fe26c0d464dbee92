"""Partitions of the domains into InD and OOD domains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from domaincal._validation import check_count
from domaincal._wording import few
from domaincal.data.splits import draw_names, match_names
from domaincal.errors import InputError
from domaincal.vision.corruptions.catalogue import CLEAN, FAMILIES


@dataclass(frozen=True)
class Partition:
    """A rule that assigns domains to InD (for calibration) or OOD (never seen).

    Parameters
    ----------
    name : str
    title : str, optional
        Title in tables and figures. Default: the name.
    ind : tuple of str, optional
        Names of the InD domains, or patterns such as ``"fog-*"``. Default: all domains that are
        not OOD.
    ood : tuple of str, optional
        Names or patterns of the OOD domains. Default: none. A domain that matches both ``ind``
        and ``ood`` is InD. A domain that matches neither is left out.
    random_ind : int, optional
        Number of InD domains to draw at random; the others are OOD.
    min_rows : int, default 1
        Domains with fewer rows are left out.
    random_state : int, optional
        Seed of ``random_ind``. Default: the seed of the repeat, so that each repeat draws its own
        domains.

    Examples
    --------
    >>> partition = Partition("night", ood=("night-*",))
    >>> partition.choose({"day-1": 90, "night-1": 80}, random_state=0)
    (['day-1'], ['night-1'])
    """

    name: str
    title: str = ""
    ind: tuple[str, ...] = ()
    ood: tuple[str, ...] = ()
    random_ind: int | None = None
    min_rows: int = 1
    random_state: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise InputError(
                f"the name of a partition must be a non-empty string, got {self.name!r}."
            )
        for key in ("ind", "ood"):
            given = getattr(self, key)
            patterns = tuple(given) if isinstance(given, list | tuple) else (given,)
            if not all(isinstance(pattern, str) for pattern in patterns):
                raise InputError(
                    f"{key} of the partition {self.name!r} must be a list of strings, got "
                    f"{given!r}."
                )
            object.__setattr__(self, key, patterns)
        object.__setattr__(self, "title", str(self.title or self.name))
        check_count(self.min_rows, "min_rows", minimum=1)
        for key, minimum in (("random_ind", 1), ("random_state", 0)):
            if getattr(self, key) is not None:
                check_count(getattr(self, key), key, minimum=minimum)
        if self.random_ind is not None and (self.ind or self.ood):
            raise InputError(
                f"the partition {self.name!r} has random_ind together with ind or ood; keep one of "
                "them."
            )

    def choose(
        self, counts: Mapping[Any, int], *, random_state: int
    ) -> tuple[list[Any], list[Any]]:
        """InD and OOD domains, each sorted.

        Parameters
        ----------
        counts : mapping from domains to numbers of rows
        random_state : int
            Seed of ``random_ind``, unless the partition has its own.
        """
        known = sorted(name for name, n in counts.items() if n >= self.min_rows)
        if not known:
            raise InputError(
                f"no domain has the {self.min_rows} rows that the partition {self.name!r} needs; "
                "lower min_rows."
            )
        if self.random_ind is not None:
            own = self.random_state
            return self._draw(known, random_state if own is None else own)
        ood = self._matching(self.ood, known, "ood")
        ind = self._matching(self.ind, known, "ind") if self.ind else set(known) - ood
        if not ind:
            raise InputError(f"the partition {self.name!r} leaves no InD domain; change its ood.")
        return sorted(ind), sorted(ood - ind)

    def definition(self) -> dict[str, Any]:
        """Everything that decides the choice of domains: all parameters but the title."""
        return {key: value for key, value in asdict(self).items() if key != "title"}

    def _draw(self, known: list[Any], random_state: int) -> tuple[list[Any], list[Any]]:
        wanted = self.random_ind or 0
        if wanted > len(known):
            raise InputError(
                f"the partition {self.name!r} needs {wanted} InD domains, but only {len(known)} "
                f"have {self.min_rows} rows or more; lower random_ind or min_rows."
            )
        return draw_names(known, wanted, random_state)

    def _matching(self, patterns: Sequence[str], known: list[Any], key: str) -> set[Any]:
        found = set()
        for pattern in patterns:
            same = {known[k] for k in np.flatnonzero(match_names(pattern, known))}
            if not same:
                raise InputError(
                    f"{key} of the partition {self.name!r} has {pattern!r}, which matches no "
                    f"domain of the data ({few(map(str, known))}); correct or remove it."
                )
            found |= same
        return found


def _patterns(*families: str) -> tuple[str, ...]:
    return tuple(f"{name}-*" for family in families for name in FAMILIES[family])


# The clean images and the paper's eight corruptions: two of each family.
_EIGHT_SEEN = (
    CLEAN, "gaussian_noise-*", "shot_noise-*", "defocus_blur-*", "glass_blur-*", "snow-*",
    "frost-*", "pixelate-*", "jpeg_compression-*",
)  # fmt: skip

#: Partitions of corrupted images by name. Those by kind of corruption are ours: the paper has none.
CORRUPTION_PARTITIONS = {
    partition.name: partition
    for partition in (
        Partition("unseen-severities", "severities 2, 3, 4 unseen", ood=("*-[234]",)),
        Partition("unseen-severity-5", "severity 5 unseen", ood=("*-5",)),
        Partition("unseen-types", "noise and blur unseen", ood=_patterns("noise", "blur")),
        Partition("unseen-kinds", "7 kinds unseen, 2 kinds of each family seen",
                  ind=_EIGHT_SEEN, ood=("*",)),
        *(
            Partition(f"unseen-{family}", f"{family} unseen", ood=_patterns(family))
            for family in FAMILIES
        ),
        Partition("eight-corruptions", "8 corruptions, all seen", ind=_EIGHT_SEEN),
        Partition("all", "all domains seen"),
        *(
            Partition(f"random-4-{seed}", f"4 random domains seen, seed {seed}",
                      random_ind=4, random_state=seed)
            for seed in (1, 2, 3)
        ),
    )
}  # fmt: skip

#: Keys of a partition in a TOML file.
PARTITION_KEYS = tuple(field.name for field in fields(Partition))

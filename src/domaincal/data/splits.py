"""Seeded splits of a data set by rows, by groups and by domains."""

from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal

import numpy as np

from domaincal._typing import Array, ArrayLike
from domaincal._validation import check_option, random_generator
from domaincal._wording import few
from domaincal.data.calibration_data import CalibrationData
from domaincal.errors import InputError

SplitBy = Literal["row", "group"]


def split_halves(
    data: CalibrationData,
    *,
    by: SplitBy | None = None,
    random_state: int | np.random.Generator = 0,
) -> tuple[CalibrationData, CalibrationData]:
    """A random half of every domain, and the other half; without domains, of all rows.

    Parameters
    ----------
    data : CalibrationData
    by : {"row", "group"}, optional
        ``"group"``: whole groups, taken in random order, go to the half that has fewer rows of
        their domains, so that no group is on both sides. By default so where the data have groups.
    random_state : int or Generator, default 0

    Examples
    --------
    >>> from domaincal import make_multi_domain, split_halves
    >>> data, _ = make_multi_domain(n_domains=2, n_rows=100, random_state=0)
    >>> [len(half) for half in split_halves(data)]
    [100, 100]
    """
    first = half_mask(data, by=resolve_split(data, by), random_state=random_state)
    return data.select(first), data.select(~first)


def half_mask(
    data: CalibrationData, *, by: SplitBy, random_state: int | np.random.Generator
) -> Array:
    """Mask of the rows of the first half; see :func:`split_halves`."""
    rng = random_generator(random_state)
    first = np.zeros(len(data), bool)
    if by == "group":
        if data.groups is None:
            raise InputError(
                "by='group' needs groups; pass CalibrationData(..., groups=...), or use by='row'."
            )
        return _balanced_groups(data, rng)
    codes = np.zeros(len(data), int)
    if data.domains is not None:
        codes, _ = data.domain_codes
    for k in range(codes.max() + 1):
        rows = rng.permutation(np.flatnonzero(codes == k))
        first[rows[: (len(rows) + 1) // 2]] = True
    if first.all():
        raise InputError("every domain has a single row; a half needs at least two.")
    return first


def _balanced_groups(data: CalibrationData, rng: np.random.Generator) -> Array:
    """Rows of the groups of the first half: of every domain as nearly half as its groups allow."""
    group, groups = data.group_codes
    if len(groups) < 2:
        raise InputError("all rows are of one group; by='group' needs at least two.")
    domain, domains = data.domain_codes
    n_domains = len(domains)
    cells, counts = np.unique(group * n_domains + domain, return_counts=True)
    starts = np.searchsorted(cells, np.arange(len(groups) + 1) * n_domains)
    surplus = np.zeros(n_domains)  # rows of the first half less those of the second
    first = np.zeros(len(groups), bool)
    for k in rng.permutation(len(groups)):
        own = slice(starts[k], starts[k + 1])
        places, rows = cells[own] - k * n_domains, counts[own]
        first[k] = surplus[places] @ rows <= 0
        surplus[places] += rows if first[k] else -rows
    if first.all():
        first[rng.integers(len(groups))] = False
    return np.asarray(first[group])


def resolve_split(data: CalibrationData, by: SplitBy | None) -> SplitBy:
    """How to split: as asked; by default by groups where there are any, so that none leaks."""
    if by is None:
        return "row" if data.groups is None else "group"
    check_option(by, "by", ("row", "group"))
    return by


def split_domains(
    data: CalibrationData, ood: str | Iterable[Any]
) -> tuple[CalibrationData, CalibrationData]:
    """Rows of the other domains (InD), and rows of the domains named in ``ood``.

    Parameters
    ----------
    data : CalibrationData
    ood : domain, pattern, or list of them
        A name, or a pattern such as ``"night-*"`` (``*``, ``?``, ``[abc]``), which also matches
        integers as they are written.

    Examples
    --------
    >>> from domaincal import make_multi_domain, split_domains
    >>> data, _ = make_multi_domain(n_domains=3, random_state=0)
    >>> ind, ood = split_domains(data, ["domain-1"])
    >>> ind.domain_names.tolist()
    ['domain-0', 'domain-2']
    >>> split_domains(data, "*-[12]")[1].domain_names.tolist()
    ['domain-1', 'domain-2']
    """
    outside = rows_of(data, matching_domains(data, ood))
    return data.select(~outside), data.select(outside)


def rows_of(data: CalibrationData, domains: ArrayLike) -> Array:
    """Which rows are of one of the domains."""
    codes, names = data.domain_codes
    return np.asarray(np.isin(names, domains)[codes])


def matching_domains(data: CalibrationData, ood: str | Iterable[Any]) -> Array:
    """Domains of the data that ``ood`` names; at least one is named and one is not."""
    if not isinstance(ood, Iterable):
        raise InputError(f"ood must be a domain, a pattern or a list, got {ood!r}; pass [{ood!r}].")
    names = data.domain_names
    chosen = np.zeros(len(names), bool)
    for asked in [ood] if isinstance(ood, str) else list(ood):
        same = named_by(asked, names.tolist())
        if not same.any():
            raise InputError(
                f"ood names {asked!r}, which is no domain of the data; its domains are "
                f"{few(map(str, names), 8)}."
            )
        chosen |= same
    if chosen.all() or not chosen.any():
        raise InputError(
            f"ood names {'all' if chosen.all() else 'none'} of the {len(names)} domains; leave "
            "at least one on each side."
        )
    return names[chosen]


def named_by(asked: Any, names: list[Any]) -> Array:
    """Which names are meant: the very one, or those that match a pattern."""
    same = np.array([name == asked for name in names], bool)
    if not same.any() and isinstance(asked, str):
        same = np.array([fnmatchcase(str(name), asked) for name in names], bool)
    return same


def drawn(names: Sequence[Any], n: int, seed: int) -> tuple[list[Any], list[Any]]:
    """So many of the sorted names at random, and the others; both in their order."""
    chosen = set(np.random.default_rng(seed).permutation(len(names))[:n].tolist())
    return (
        [name for k, name in enumerate(names) if k in chosen],
        [name for k, name in enumerate(names) if k not in chosen],
    )


def leave_one_domain_out(
    data: CalibrationData,
) -> Iterator[tuple[Any, CalibrationData, CalibrationData]]:
    """For each domain: its name, the rows of all others, and its own rows.

    Examples
    --------
    >>> from domaincal import leave_one_domain_out, make_multi_domain
    >>> data, _ = make_multi_domain(n_domains=3, n_rows=50, random_state=0)
    >>> for name, others, rows in leave_one_domain_out(data):
    ...     print(name, len(others), len(rows))
    domain-0 100 50
    domain-1 100 50
    domain-2 100 50
    """
    for name in domains_to_leave_out(data):
        inside = data.domains == name
        yield name, data.select(~inside), data.select(inside)


def domains_to_leave_out(data: CalibrationData) -> list[Any]:
    """Names of the domains, of which there are at least two."""
    names: list[Any] = data.domain_names.tolist()
    if len(names) < 2:
        raise InputError(f"leaving a domain out needs at least two, the data have only {names[0]}.")
    return names

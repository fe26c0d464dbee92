"""Splits of a data set by rows, groups and domains."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal

import numpy as np

from domaincal._typing import Array, ArrayLike
from domaincal._validation import check_option, check_random_state
from domaincal._wording import few
from domaincal.data.blocked_rows import AnyRows
from domaincal.data.calibration_data import CalibrationData
from domaincal.errors import InputError
from domaincal.kernels.row_groups import rows_of_codes

SplitBy = Literal["row", "group"]


def split_halves(
    data: CalibrationData,
    *,
    by: SplitBy | None = None,
    random_state: int | np.random.Generator = 0,
) -> tuple[CalibrationData, CalibrationData]:
    """Split every domain into two random halves; without domains, split all rows.

    Parameters
    ----------
    data : CalibrationData
    by : {"row", "group"}, optional
        ``"group"`` keeps each group in one half: groups are taken in random order, and each goes
        to the half that has fewer rows of its domains. The default is ``"group"`` if the data have
        groups, else ``"row"``.
    random_state : int or Generator, default 0

    Returns
    -------
    first, second : CalibrationData

    Examples
    --------
    >>> from domaincal import make_multi_domain, split_halves
    >>> data, _ = make_multi_domain(n_domains=2, n_rows=100, random_state=0)
    >>> [len(half) for half in split_halves(data)]
    [100, 100]
    """
    first = half_mask(data, by=resolve_split(data, by), random_state=random_state)
    return data.select(first), data.select(~first)


def half_mask(data: AnyRows, *, by: SplitBy, random_state: int | np.random.Generator) -> Array:
    """Mask of the rows in the first half of :func:`split_halves`."""
    rng = check_random_state(random_state)
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
    for own in rows_of_codes(codes, codes.max() + 1):
        rows = rng.permutation(own)
        first[rows[: (len(rows) + 1) // 2]] = True
    if first.all():
        raise InputError("every domain has a single row; halves need a domain with at least two.")
    return first


def _balanced_groups(data: AnyRows, rng: np.random.Generator) -> Array:
    """Mask of the rows in the first half, which has whole groups and about half of each domain."""
    group, groups = data.group_codes
    if len(groups) < 2:
        raise InputError(
            "all rows are in one group, and halves of whole groups need two; split by row instead."
        )
    domain, domains = data.domain_codes
    n_domains = len(domains)
    # Pairs of a group and a domain, sorted by group, with their numbers of rows.
    pairs, counts = np.unique(group * n_domains + domain, return_counts=True)
    starts = np.searchsorted(pairs, np.arange(len(groups) + 1) * n_domains)
    surplus = np.zeros(n_domains)  # rows of the first half minus rows of the second half
    first = np.zeros(len(groups), bool)
    for k in rng.permutation(len(groups)):
        own = slice(starts[k], starts[k + 1])
        own_domains, rows = pairs[own] - k * n_domains, counts[own]
        first[k] = surplus[own_domains] @ rows <= 0
        surplus[own_domains] += rows if first[k] else -rows
    if first.all():
        first[rng.integers(len(groups))] = False
    return np.asarray(first[group])


def resolve_split(data: AnyRows, by: SplitBy | None) -> SplitBy:
    """Resolve the default: ``"group"`` if the data have groups, else ``"row"``."""
    if by is None:
        return "row" if data.groups is None else "group"
    check_option(by, "by", ("row", "group"))
    return by


def split_domains(
    data: CalibrationData, ood: str | Iterable[Any]
) -> tuple[CalibrationData, CalibrationData]:
    """Split by domains into InD and OOD rows.

    Parameters
    ----------
    data : CalibrationData
    ood : domain, pattern, or list of them
        Names of the OOD domains, or patterns such as ``"night-*"`` (``*``, ``?``, ``[abc]``). A
        pattern is compared with the decimal digits of an integer domain.

    Returns
    -------
    ind, ood : CalibrationData
        Rows of the other domains, and rows of the OOD domains.

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
    outside = rows_in_domains(data, matching_domains(data, ood))
    return data.select(~outside), data.select(outside)


def rows_in_domains(data: AnyRows, domains: ArrayLike) -> Array:
    """Mask of the rows in the given domains."""
    codes, names = data.domain_codes
    if names.dtype.kind != "O":
        return np.asarray(np.isin(names, domains)[codes])
    # numpy would compare every name with every domain.
    wanted = set(np.asarray(domains).tolist())
    return np.array([name in wanted for name in names], bool)[codes]


def matching_domains(data: AnyRows, ood: str | Iterable[Any], *, argument: str = "ood") -> Array:
    """Domains that ``ood`` names or matches; at least one domain must match and one must not.

    Errors name the ``argument``.
    """
    if not isinstance(ood, Iterable):
        raise InputError(
            f"{argument} must be a pattern or a list of domains, got {ood!r}; pass [{ood!r}]."
        )
    names = data.domain_names
    place = {name: k for k, name in enumerate(names.tolist())}
    chosen = np.zeros(len(names), bool)
    for asked in [ood] if isinstance(ood, str) else list(ood):
        if isinstance(asked, str | int | np.integer) and asked in place:
            chosen[place[asked]] = True
            continue
        same = match_names(asked, list(place))
        if not same.any():
            each = ""
            if isinstance(asked, str) and "," in asked:
                each = (
                    f" Commas do not separate patterns: pass each on its own ({argument}=[...], "
                    "or the option several times)."
                )
            raise InputError(
                f"{argument} contains {asked!r}, which matches no domain of the data; the domains "
                f"are {few(map(str, names), 8)}.{each}"
            )
        chosen |= same
    if chosen.all() or not chosen.any():
        raise InputError(
            f"{argument} matches {'all' if chosen.all() else 'none'} of the {len(names)} domains; "
            "leave at least one domain on each side."
        )
    return names[chosen]


def match_names(asked: Any, names: list[Any]) -> Array:
    """Mask of the names equal to ``asked``; if there are none, of those that match the pattern."""
    same = np.array([name == asked for name in names], bool)
    if not same.any() and isinstance(asked, str):
        same = np.array([fnmatchcase(str(name), asked) for name in names], bool)
    return same


def draw_names(names: Sequence[Any], n: int, random_state: int) -> tuple[list[Any], list[Any]]:
    """Draw ``n`` names at random; the drawn and the other names keep their order."""
    chosen = set(np.random.default_rng(random_state).permutation(len(names))[:n].tolist())
    return (
        [name for k, name in enumerate(names) if k in chosen],
        [name for k, name in enumerate(names) if k not in chosen],
    )


def leave_one_domain_out(
    data: CalibrationData,
) -> Iterator[tuple[Any, CalibrationData, CalibrationData]]:
    """Iterate over the domains: name, rows of all other domains, rows of the domain.

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
    codes, _ = data.domain_codes
    for k, name in enumerate(domains_to_leave_out(data)):
        inside = codes == k
        yield name, data.select(~inside), data.select(inside)


def domains_to_leave_out(data: AnyRows) -> list[Any]:
    """Names of the domains; raises an InputError if there is only one."""
    names: list[Any] = data.domain_names.tolist()
    if len(names) < 2:
        raise InputError(
            f"leaving a domain out needs at least two domains, but the data have only {names[0]!r}."
        )
    return names

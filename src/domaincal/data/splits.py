"""Seeded splits of a data set by rows and by domains."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from domaincal._errors import InputError
from domaincal._validation import random_generator
from domaincal.data.container import CalibrationData


def split_halves(
    data: CalibrationData, *, random_state: int | np.random.Generator = 0
) -> tuple[CalibrationData, CalibrationData]:
    """A random half of every domain, and the other half.

    Examples
    --------
    >>> from domaincal import make_multi_domain, split_halves
    >>> data, _ = make_multi_domain(n_domains=2, n_rows=100, random_state=0)
    >>> [len(half) for half in split_halves(data)]
    [100, 100]
    """
    rng = random_generator(random_state)
    first = np.zeros(len(data), bool)
    for name in data.domain_names:
        rows = rng.permutation(np.flatnonzero(data.domains == name))
        first[rows[: (len(rows) + 1) // 2]] = True
    if first.all():
        raise InputError("every domain has a single row; a half needs at least two.")
    return data.select(first), data.select(~first)


def split_domains(
    data: CalibrationData, ood: Iterable[Any]
) -> tuple[CalibrationData, CalibrationData]:
    """Rows of the other domains (InD), and rows of the domains named in ``ood``.

    Examples
    --------
    >>> from domaincal import make_multi_domain, split_domains
    >>> data, _ = make_multi_domain(n_domains=3, random_state=0)
    >>> ind, ood = split_domains(data, ["domain-1"])
    >>> ind.domain_names.tolist()
    ['domain-0', 'domain-2']
    """
    if isinstance(ood, str) or not isinstance(ood, Iterable):
        raise InputError(f"ood must be a list of domains, got {ood!r}; pass [{ood!r}].")
    ood = list(ood)
    names = data.domain_names
    unknown = [name for name in ood if name not in names]
    if unknown:
        raise InputError(
            f"ood names {unknown[0]!r}, which is no domain of the data; its domains are "
            f"{', '.join(map(str, names[:20]))}{', ...' if len(names) > 20 else ''}."
        )
    outside = pd.Series(data.domains).isin(ood).to_numpy()
    if outside.all() or not outside.any():
        raise InputError(
            f"ood names {'all' if outside.all() else 'none'} of the {len(names)} domains; leave "
            "at least one on each side."
        )
    return data.select(~outside), data.select(outside)

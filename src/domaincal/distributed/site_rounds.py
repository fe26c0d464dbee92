"""Files of both rounds: loaded, checked, and matched with each other."""

# Short signatures in help(): annotations stay text.
from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from domaincal.distributed.site_file import ANSWERS, PLAN, decode_sums, read_site_file
from domaincal.distributed.site_merge import digest_of, merge_sites, require_same_columns
from domaincal.distributed.site_plan import SiteAnswers, SitePlan
from domaincal.distributed.site_plan_file import decode_answers, decode_plan
from domaincal.distributed.site_sums import SiteSums
from domaincal.errors import InputError

#: Sums or answers of a site, or the file of either.
Site: TypeAlias = SiteSums | SiteAnswers | str | os.PathLike[str]

_SECOND_ROUND = (
    "{what} needs a second round: write a plan with plan_second_round() (domaincal site combine "
    "--plan), let every site answer it with answer_plan() (domaincal site summarize --given), and "
    "give the files of both rounds."
)


@dataclass(frozen=True, eq=False)
class Rounds:
    """Sums of the sites, and their answers of the second round, if there are any."""

    sites: list[SiteSums]
    answers: list[SiteAnswers]

    def merged(self) -> SiteSums:
        """Sums over the rows of all sites."""
        return merge_sites(self.sites)

    def identity(self, calibrator: Any) -> str:
        """Digest of the sums of the first round and of the method."""
        digests = sorted(map(digest_of, self.sites))
        method = f"{type(calibrator).__name__} {sorted(calibrator.get_params().items())!r}"
        return hashlib.sha256("\n".join([method, *digests]).encode()).hexdigest()

    def refuse_answers(self) -> None:
        """Raise InputError if there are answers, for methods that need one round."""
        for answer in self.answers:
            raise InputError(
                f"{answer.source} is of a second round, which this method does not need; leave it "
                "out."
            )

    def require_array(self, name: str, shape: Callable[[int], tuple[int, ...]]) -> None:
        """Raise InputError unless the answers have this array; ``shape`` is for n domains."""
        for answer in self.answers:
            found, expected = answer.arrays().get(name), shape(len(answer.n_rows))
            if found is None or found.shape != expected:
                size = "is missing" if found is None else f"has the shape {found.shape}"
                raise InputError(
                    f"{name} of {answer.source} {size}, but the plan asked for {expected}; answer "
                    "the plan again."
                )

    def require_answers(self, calibrator: Any, what: str) -> None:
        """Raise InputError unless each site has answered the plan of this method."""
        if not self.answers:
            raise InputError(_SECOND_ROUND.format(what=what))
        identity = self.identity(calibrator)
        by_data: dict[str, SiteAnswers] = {}
        for answer in self.answers:
            if answer.identity != identity:
                raise InputError(
                    f"{answer.source} answers another plan: that of another method, other "
                    "parameters, or other files of the first round; answer the plan of these."
                )
            before = by_data.setdefault(_key(answer), answer)
            if before is not answer:
                raise InputError(
                    f"{before.source} and {answer.source} hold the answers of the same site; leave "
                    "one of them out."
                )
        for site in self.sites:
            found = by_data.pop(_key(site), None)
            if found is None:
                raise InputError(
                    f"{site.source} has no answers of the second round; give those of the same "
                    f"data ({site.rows.fingerprint})."
                )
            if not np.array_equal(found.n_rows, site.n_rows):
                raise InputError(f"n_rows of {found.source} differ from those of {site.source}.")
            require_same_columns(site.rows, found.rows, site.source, found.source)
        for answer in by_data.values():
            raise InputError(f"{answer.source} answers for a site whose sums are not given.")


def load_site(path: str | os.PathLike[str]) -> SiteSums | SiteAnswers | SitePlan:
    """Load a file that a site, or :func:`plan_second_round`, has written; its content is checked.

    Parameters
    ----------
    path : path of a ``.safetensors`` file

    Returns
    -------
    SiteSums, SiteAnswers or SitePlan

    Examples
    --------
    >>> import tempfile, domaincal as dc
    >>> from domaincal.distributed import load_site, summarize_site
    >>> data, _ = dc.make_multi_domain(n_domains=3, n_rows=100, random_state=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     summarize_site(data).save(folder + "/site.safetensors")
    ...     load_site(folder + "/site.safetensors").n_rows.tolist()
    [100, 100, 100]
    """
    header, tensors = read_site_file(path)
    if header["content"] == PLAN:
        return decode_plan(header, tensors, path)
    if header["content"] == ANSWERS:
        return decode_answers(header, tensors, path)
    return decode_sums(header, tensors, path)


def load_rounds(sites: Sequence[Site]) -> Rounds:
    """Sums and answers of the sites, loaded from their files and matched."""
    if isinstance(sites, str | os.PathLike) or not len(sites):
        raise InputError("sites must be a list of at least one file or summary of a site.")
    loaded: list[Any] = []
    for k, site in enumerate(sites):
        if isinstance(site, SiteSums | SiteAnswers):
            named = {**vars(site), "source": f"site {k + 1}"}
            loaded.append(type(site)(**named) if site.source == "the site" else site)
        elif isinstance(site, SitePlan):
            loaded.append(site)
        elif isinstance(site, str | os.PathLike):
            loaded.append(load_site(site))
        else:
            raise InputError(
                f"sites holds a {type(site).__name__}; give the results of summarize_site, or "
                "paths of their files."
            )
    for one in loaded:
        if isinstance(one, SitePlan):
            raise InputError(
                f"{one.source} is the plan of a second round, not sums of a site; leave it out."
            )
    sums = [one for one in loaded if isinstance(one, SiteSums)]
    answers = [one for one in loaded if isinstance(one, SiteAnswers)]
    if not sums:
        raise InputError(
            f"{answers[0].source} is of the second round; give the sums of the first round as well."
        )
    return Rounds(sums, answers)


def _key(site: SiteSums | SiteAnswers) -> str:
    return f"{site.rows.fingerprint} {site.rows.domains.tolist()!r}"

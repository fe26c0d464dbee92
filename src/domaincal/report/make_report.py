"""Make the page of a data set: its contents as numbers, and the HTML file."""

# Short signatures in help(): annotations stay text.
from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from domaincal._files import atomic_file
from domaincal._optional import require
from domaincal._typing import Track
from domaincal._validation import check_n_bins, check_random_state
from domaincal._version import __version__, versions
from domaincal.calibrators import load
from domaincal.calibrators.blocked_fits import SAMPLE_BYTES
from domaincal.calibrators.files.model_file import load_with_sections
from domaincal.calibrators.row_sample import draw_rows
from domaincal.data import BlockedRows, CalibrationData
from domaincal.data.batches import BatchSize, check_batch_size
from domaincal.data.blocked_rows import AnyData, AnyRows, as_rows
from domaincal.errors import InputError
from domaincal.evaluation.fitting import calibrators_by_name
from domaincal.report.answered_rows import answered_rows
from domaincal.report.domain_results import DomainResults
from domaincal.report.earlier import FORMAT, VERSION, change_since, read_contents
from domaincal.report.new_domains import fit_estimator, new_domains
from domaincal.report.plain_values import numbers, text
from domaincal.report.scored_rows import (
    BEFORE,
    ScoredRows,
    score_left_out,
    score_model,
    score_split,
)
from domaincal.report.verdict import verdict
from domaincal.shift import AccuracyEstimator, load_estimator
from domaincal.shift.accuracy.estimator_file import SECTION

#: Most rows that are scored; of more, a sample is.
MOST_ROWS = 1_000_000
# More bins would make pages too large.
_MOST_BINS = 100
_NO_LABELS = "The rows have no labels; add the class of each row to see this."
_CITE = (
    f"domaincal {__version__} (software). MD-TS: Y. Yu, S. Bates, Y. Ma, M. I. Jordan, Robust "
    "Calibration with Multi-domain Temperature Scaling, NeurIPS 2022, arXiv:2206.02757."
)
_PACKAGES = ("domaincal", "numpy", "scipy", "scikit-learn", "pandas", "plotly")


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """The page of a data set.

    Attributes
    ----------
    contents : dict
        Everything that the page shows, in values that JSON supports.

    Examples
    --------
    >>> import domaincal as dc
    >>> from domaincal.report import make_report
    >>> data, _ = dc.make_multi_domain(n_domains=4, n_rows=100, random_state=0)
    >>> report = make_report(data)
    >>> report
    Report(data: 4 unseen domains)
    >>> report.contents["domains"]["name"][:2]
    ['domain-0', 'domain-1']
    """

    contents: dict[str, Any]

    def __repr__(self) -> str:
        means = self.contents["means"] or {}
        counts = [f"{one['n_domains']} {kind}" for kind, one in means.items() if one is not None]
        found = f"{' and '.join(counts)} domains" if counts else "no labels"
        return f"Report({self.contents['title']}: {found})"

    def html(self) -> str:
        """The page as text (extra ``report``)."""
        from domaincal.report.page import render

        return render(self.contents)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page to an ``.html`` file, atomically (extra ``report``)."""
        require_page(path)
        page = self.html().encode()
        with atomic_file(path) as file:
            file.write(page)


def require_page(path: str | os.PathLike[str]) -> None:
    """Refuse a path that is not an .html file, or if the packages of the page are missing."""
    if Path(path).suffix.lower() != ".html":
        raise InputError(f"{path} must end in .html, the format of the page.")
    for package in ("plotly", "jinja2"):
        require(package, extra="report", purpose=f"{path}, a page,")


def make_report(
    data: AnyData,
    model: Any = None,
    ood: str | Sequence[Any] = (),
    unlabelled: AnyData | None = None,
    batch_size: BatchSize | None = None,
    n_bins: int = 15,
    title: str | None = None,
    baseline: str | os.PathLike[str] | None = None,
    random_state: int = 0,
    *,
    command: str | None = None,
    track: Track = iter,
) -> Report:
    """Compute the results that a page about the calibration of a data set shows.

    Without ``model`` and ``ood``, every domain is scored as unseen: by methods fitted to the other
    domains, of which the method is taken that those other domains choose. ``before`` is no
    calibration.

    Parameters
    ----------
    data : CalibrationData or Store
        Rows with labels and domains. Without labels, a model is needed, and the page has only its
        predictions. Of more than 1,000,000 rows, or of a store that takes more than 256 MiB,
        equally many rows of each domain are used.
    model : path of a model file or fitted calibrator, optional
        Score this calibrator on all rows.
    ood : domain, pattern or list of them, default none
        Domains that are unseen; see :func:`domaincal.split_domains`. The others are known: half of
        their rows are fitted, the other half is scored.
    unlabelled : CalibrationData or Store, optional
        Rows of new domains, whose accuracy is predicted. Their labels are not used.
    batch_size : int or "domain", optional
        Number of rows of one domain that are predicted together; see :class:`AutoCalibration`. The
        default is 1, or what the model was chosen for.
    n_bins : int, default 15
        Number of bins of the calibration errors, at most 100.
    title : str, optional
        Name of the data on the page.
    baseline : path, optional
        An earlier page; the new one shows what has changed.
    random_state : int, default 0
        Seed of the folds, halves, batches and samples.
    command : str, optional
        Command line to show on the page.
    track : callable, optional
        Wraps the list of folds to show progress, e.g. ``tqdm.tqdm``.

    Returns
    -------
    Report

    Examples
    --------
    >>> import domaincal as dc
    >>> data, _ = dc.make_multi_domain(n_domains=12, n_rows=100, random_state=0)
    >>> known, new = dc.split_domains(data, ["domain-03"])
    >>> report = make_report(known, unlabelled=new)
    >>> report.contents["unlabelled"]["name"]
    ['domain-03']
    >>> report.save("report.html")  # doctest: +SKIP
    """
    check_n_bins(n_bins)
    if n_bins > _MOST_BINS:
        raise InputError(f"n_bins must be at most {_MOST_BINS} for a page, got {n_bins}.")
    check_random_state(random_state)
    if batch_size is not None:
        check_batch_size(batch_size)
    earlier = None if baseline is None else read_contents(baseline)
    given = _checked(data, "data")
    new = None if unlabelled is None else _checked(unlabelled, "unlabelled")
    if given.labels is None:
        given, new = _without_labels(given, new, model)
    elif new is not None:
        _require_classes(new, given.logits.shape[1])
    fitted, estimator = _load_model(model)
    contents: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "title": text(title) if title is not None else "data",
        "verdict": None,
        "names": {"before": BEFORE, "after": "none"},
        "protocol": "The rows have no labels: accuracies are predicted, by errors in the labelled "
        "domains to which the model was fitted.",
        "missing": {},
        **dict.fromkeys(("domains", "means", "reliability", "methods", "unlabelled", "risk")),
        "change": None,
    }
    fingerprint, own = given.fingerprint(), False
    rows: CalibrationData | None = None
    if given.labels is not None:
        rows, sample = _sampled(given, random_state)
        batch = _batch_size(fitted, batch_size)
        if fitted is not None:
            own = getattr(fitted, "data_fingerprint_", None) == fingerprint
            scored = score_model(
                rows, fitted, ood=ood, batch_size=batch, random_state=random_state, own_rows=own
            )
        elif len(ood) or rows.domains is None or len(rows.domain_names) < 2:
            scored = score_split(
                rows, ood=ood, batch_size=batch, n_bins=n_bins, random_state=random_state
            )
        else:
            scored = score_left_out(
                rows, batch_size=batch, n_bins=n_bins, random_state=random_state, track=track
            )
        _add_scored(contents, scored, n_bins)
        contents["protocol"] += sample
    else:
        for section in ("domains", "overview", "reliability", "methods", "temperatures", "risk"):
            contents["missing"][section] = _NO_LABELS
    _add_new_domains(contents, rows, new, estimator, random_state)
    contents["run"] = _run(given, new, fitted, fingerprint, random_state, command)
    if earlier is not None:
        contents["change"] = change_since(earlier, contents)
    contents["verdict"] = verdict(contents, own_rows=own)
    return Report(contents)


def _checked(data: Any, argument: str) -> AnyRows:
    found = as_rows(data)
    if not isinstance(found, CalibrationData | BlockedRows):
        raise InputError(
            f"{argument} must be CalibrationData or a Store, got {type(found).__name__}; make it "
            "with domaincal.read(path)."
        )
    return found.numpy() if isinstance(found, CalibrationData) else found


def _without_labels(data: AnyRows, new: AnyRows | None, model: Any) -> tuple[AnyRows, AnyRows]:
    """Rows without labels are new domains; they need a model."""
    if new is not None:
        raise InputError(
            "data has no labels, and unlabelled=... (--unlabelled) was given as well; give "
            "labelled rows as data, or leave out the other rows."
        )
    if model is None:
        raise InputError(
            "data has no labels; add them, or pass model=... (--model), a file that domaincal fit "
            "has written, to predict the accuracy without labels."
        )
    return data, data


def _require_classes(new: AnyRows, n_classes: int) -> None:
    """New rows have the classes of the labelled ones."""
    if new.logits.shape[1] != n_classes:
        raise InputError(
            f"unlabelled (--unlabelled) has scores of {new.logits.shape[1]:,} classes, but data "
            f"has {n_classes:,}; give scores of the same classes, in the same order."
        )


def _load_model(model: Any) -> tuple[Any, AccuracyEstimator | None]:
    """Fitted calibrator, and the estimator in its file, if there is one."""
    if model is None:
        return None, None
    if not isinstance(model, str | os.PathLike):
        (fitted,) = calibrators_by_name([model]).values()
        return fitted, None
    estimator = load_estimator(model) if SECTION in load_with_sections(model)[1] else None
    return load(model), estimator


def _batch_size(fitted: Any, given: BatchSize | None) -> BatchSize:
    """The batches that were given, that the model was chosen for, or that it needs."""
    if given is not None:
        return given
    selection = getattr(fitted, "provenance_", None)
    if selection is not None:
        chosen_for: BatchSize = selection.batch_size
        return chosen_for
    return "domain" if getattr(fitted, "predicts_batches", bool)() else 1


def _sampled(data: AnyRows, random_state: int) -> tuple[CalibrationData, str]:
    """Rows in memory, or a sample with equally many of each domain; and a sentence about it."""
    most = MOST_ROWS
    if isinstance(data, BlockedRows):
        row_bytes = sum(array.row_bytes for array in (data.logits, data.features) if array)
        most = min(most, max(1, SAMPLE_BYTES // row_bytes))
    if len(data) <= most:
        return data if isinstance(data, CalibrationData) else data.select(slice(None)), ""
    codes, names = data.domain_codes
    used = np.ones(len(names), bool)
    chosen, n_rows = draw_rows(codes, used, None, max_rows=most, random_state=random_state)
    return data.select(chosen), (
        f" A random sample of {len(chosen):,} of {n_rows:,} rows was used, with equally many of "
        "each domain."
    )


def _add_scored(contents: dict[str, Any], scored: ScoredRows, n_bins: int) -> None:
    """Add what follows from the scores of labelled rows."""
    results = DomainResults(scored, n_bins)
    missing = contents["missing"]
    contents["names"]["after"] = scored.name
    contents["protocol"] = scored.protocol
    contents["domains"] = results.domains()
    contents["means"] = results.means()
    contents["reliability"] = results.reliability()
    contents["risk"] = answered_rows(scored, results.chosen_domains())
    if not contents["risk"]["targets"]:
        contents["risk"] = None
        missing["risk"] = "Nearly all rows are right: there is no higher accuracy to aim at."
    if scored.methods is None:
        missing["methods"] = scored.missing
    else:
        contents["methods"] = _methods(scored)
    if contents["domains"]["temperature"] is None:
        missing["temperatures"] = f"The calibration ({scored.name}) has no temperatures."


def _methods(scored: ScoredRows) -> dict[str, Any]:
    """Section ``methods``."""
    assert scored.methods is not None
    rows = []
    for one in scored.methods.table.to_dict("records"):
        values = numbers(one[key] for key in ("ece", "excess", "nll", "difference", "low", "high"))
        keys = ("ece", "excess", "nll", "difference", "low", "high")
        rows.append({
            "method": text(one["method"]), "n_domains": int(one["n_domains"]),
            **dict(zip(keys, values, strict=True)), "chosen": bool(one["chosen"]),
        })  # fmt: skip
    return {"rows": rows, "sentence": f"{scored.methods.lines()[-1]}."}


def _add_new_domains(
    contents: dict[str, Any],
    rows: CalibrationData | None,
    new: AnyRows | None,
    estimator: AccuracyEstimator | None,
    random_state: int,
) -> None:
    """Add the predicted accuracy of domains without labels."""
    if new is None:
        contents["missing"]["unlabelled"] = (
            "No rows without labels were given; add rows of a new domain (--unlabelled FILE) to "
            "see what accuracy to expect there."
        )
        return
    if estimator is None and rows is not None:
        estimator = fit_estimator(rows, new, random_state)
    if estimator is None:
        contents["missing"]["unlabelled"] = (
            "Accuracy in new domains can be predicted from at least three labelled domains; add "
            "labelled rows of more domains, or a model that domaincal fit has fitted to them."
        )
        return
    contents["unlabelled"] = new_domains(estimator, new)


def _run(
    data: AnyRows,
    new: AnyRows | None,
    fitted: Any,
    fingerprint: str,
    random_state: int,
    command: str | None,
) -> dict[str, Any]:
    """Section ``run``."""
    described = [["Rows", _described(data)]]
    if new is not None and new is not data:
        described.append(["New rows", _described(replace(new, labels=None))])
    if fitted is not None:
        described.append(["Model", repr(fitted)])
        described.append(["Rows of the model's fit", getattr(fitted, "data_fingerprint_", "")])
    return {
        "made": datetime.now().astimezone().strftime("%Y-%m-%d %H:%M"),
        "data": [[label, text(value)] for label, value in described],
        "fingerprint": fingerprint,
        "versions": {"python": platform.python_version(), **versions(*_PACKAGES)},
        "seed": random_state,
        "command": None if command is None else text(command),
        "cite": _CITE,
    }


def _described(data: AnyRows) -> str:
    """Size of a data set in words."""
    n_classes = data.logits.shape[1]
    parts = [f"{len(data):,} rows", f"{n_classes:,} classes"]
    if data.features is not None:
        parts.append(f"{data.features.shape[1]:,} features")
    if data.domains is not None:
        parts.append(f"{len(data.domain_names):,} domains")
    parts.append("with labels" if data.labels is not None else "without labels")
    return ", ".join(parts)

"""Methods and models that ``domaincal evaluate`` scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from domaincal.cli.options import InputData


def require_arrays(
    source: InputData, *, ood: Sequence[str], leave_one_domain_out: bool, split: str | None
) -> None:
    """Raise an error if the file does not have the arrays or domains that the options need."""
    from domaincal.data.splits import matching_domains

    source.require("labels", needed_by="evaluate")
    if ood:
        source.require("domains", needed_by="--ood")
        matching_domains(source.data, ood, argument="--ood")
    if leave_one_domain_out:
        source.require("domains", needed_by="--leave-one-domain-out")
    if split == "group":
        source.require("groups", needed_by="--split group")


def prepare_methods(
    source: InputData,
    protocol: dict[str, Any],
    *,
    methods: str | None,
    leave_one_domain_out: bool,
    folds: int | None,
    split: Any,
    seed: int,
) -> Callable[[], pd.DataFrame]:
    """Complete ``protocol``; returns a function that fits and scores the methods."""
    from domaincal.cli.console import progress
    from domaincal.cli.method_options import (
        default_methods,
        parse_methods,
        require_inputs,
    )
    from domaincal.data.splits import resolve_split
    from domaincal.evaluation import evaluate_leave_one_domain_out, evaluate_split

    calibrators = parse_methods(methods or default_methods(source.data))
    for method, calibrator in calibrators.items():
        require_inputs(calibrator, method, source)
    protocol.update(
        protocol="leave one domain out" if leave_one_domain_out else "halves", folds=folds,
        methods=list(calibrators), split=resolve_split(source.data, split), seed=seed,
        batch_methods=[name for name, one in calibrators.items() if one.predicts_batches()],
    )  # fmt: skip
    options: dict[str, Any] = {
        "by": protocol["split"], "n_bins": protocol["n_bins"], "random_state": seed,
    }  # fmt: skip

    def score() -> pd.DataFrame:
        with progress("fitting and scoring") as track:
            options["track"] = track
            if leave_one_domain_out:
                return evaluate_leave_one_domain_out(
                    calibrators, source.data, n_folds=folds, **options
                )
            return evaluate_split(calibrators, source.data, ood=protocol["ood"], **options)

    return score


def load_models(
    source: InputData, protocol: dict[str, Any], models: Sequence[Path]
) -> Callable[[], pd.DataFrame]:
    """Complete ``protocol``; returns a function that scores the fitted calibrators."""
    from domaincal.calibrators import load
    from domaincal.cli.console import say
    from domaincal.cli.method_options import require_prediction_inputs
    from domaincal.evaluation.protocols import evaluate_fitted

    fitted: dict[str, Any] = {}
    for path in models:
        name = path.stem if path.stem not in fitted else str(path)
        fitted[name] = load(path)
        require_prediction_inputs(fitted[name], path, source)
        if fitted[name].data_fingerprint_ == source.data.fingerprint():
            say(f"warning: {path} was fitted on these rows; its scores are too optimistic.",
                err=True)  # fmt: skip
    protocol.update(
        protocol="models", models=[str(path) for path in models], methods=list(fitted),
        batch_methods=[name for name, one in fitted.items() if one.predicts_batches()],
        chosen_for=_chosen_for(fitted),
    )  # fmt: skip
    return lambda: evaluate_fitted(
        fitted, source.data, ood=protocol["ood"], n_bins=protocol["n_bins"]
    )


def _chosen_for(fitted: dict[str, Any]) -> dict[str, int]:
    """Rows of the batches for which ``fit --batch`` chose a model, for models that need batches."""
    sizes = {
        name: getattr(one.provenance_, "batch_size", "domain")
        for name, one in fitted.items()
        if one.predicts_batches()
    }
    return {name: size for name, size in sizes.items() if isinstance(size, int)}

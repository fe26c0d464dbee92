"""Undamaged rows, and attacks on files of rows."""

import functools
import random
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import domaincal as dc
from domaincal.io.formats import is_table, read_rows
from fuzzing.damage import damaged
from fuzzing.target import (
    Target,
    check_data,
    check_same,
    files_of,
    replace_by_other_kind,
    require,
    run_verb,
)


@functools.cache
def rows() -> dc.CalibrationData:
    """The undamaged rows."""
    data, _ = dc.make_multi_domain(3, 14, 3, 2, random_state=0)
    return dc.CalibrationData(
        data.logits, labels=data.labels, features=data.features, domains=data.domains,
        groups=[f"image {k % 9}" for k in range(len(data))], class_names=("cat", "dog", "emu"),
        provenance={"network": "mlp", "seed": 3},
    )  # fmt: skip


@functools.cache
def written(suffix: str) -> dict[str, bytes]:
    """Files of the undamaged rows in a format."""
    with tempfile.TemporaryDirectory() as folder:
        dc.write(rows(), Path(folder, f"rows{suffix}"))
        found = files_of(Path(folder))
    return {k: v for k, v in found.items() if not k.startswith(".") and not k.endswith(".lock")}


@dataclass(frozen=True)
class Case:
    """A hostile file or folder. ``same``: it is read as the undamaged rows, or refused."""

    path: Path
    same: dc.CalibrationData | None
    reader: int


def check_rows(case: Case) -> None:
    """Read the rows in one of the ways there are."""
    if case.same is not None:
        data = dc.read(case.path, verify=True)
        check_data(data)
        expected = case.same
        if case.path.suffix == ".parquet" and not data.provenance:
            # Damage to the list of the metadata can hide all of them: their checksum is one.
            expected = replace(expected, provenance={})
        check_same(data, expected)
    elif case.reader == 0:
        run_verb("inspect", case.path)
    elif case.reader == 1:
        check_data(dc.read(case.path, probabilities=("logits", "logit_*")[is_table(case.path)]))
    elif case.reader == 2:
        raw, data = read_rows(case.path, keep="all")
        check_data(data)
        require(raw.kept is None or len(raw.kept) == len(data), "kept columns of another length")
    else:
        check_data(dc.read(case.path, verify=case.reader == 3))


def file_target(
    suffix: str,
    content: Callable[[], bytes],
    craft: Callable[[random.Random], bytes],
    *,
    has_checksum: bool = False,
    share: float = 1.0,
) -> Target:
    """Attack on a format of one file: damaged bytes, crafted contents, things that are no file."""

    def make(rng: random.Random, folder: Path) -> Case:
        path, action, same = folder / f"rows{suffix}", rng.random(), None
        if action < 0.01:
            replace_by_other_kind(rng, path)
        elif action < 0.5:
            path.write_bytes(damaged(rng, content()))
            same = rows() if has_checksum and rng.random() < 0.7 else None
        else:
            path.write_bytes(craft(rng))
        return Case(path, same, rng.randrange(6))

    return Target(suffix.removeprefix("."), make, check_rows, share)

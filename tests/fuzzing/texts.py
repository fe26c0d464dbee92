"""Attacks on texts: experiment files, methods and names of data sets."""

import functools
import random
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import domaincal as dc
import support
import trees
from fuzzing.damage import RAW, damaged, name, number
from fuzzing.target import (
    Target,
    check_between,
    check_predictions,
    files_of,
    replace_by_other_kind,
    require,
    write_files,
)

_TOML = """
name = "mine"
n_bins = 10
repeats = 1
random_state = 0
splits = ["row"]
partitions = [{name = "new", ood = ["domain-3"], min_rows = 2}, "all"]
[data]
mlp = "rows.npz"
[methods]
MSP = "msp"
TS = "ts"
"MD-TS" = "md-ts:features=logits"
oracle = "oracle"
"""
_CODE = """
from pathlib import Path
Path(__file__).with_name("executed").touch()
import domaincal as dc
def load(random_state=0): return dc.make_multi_domain(2, 10, random_state=0)[0]
class Mine(dc.TemperatureScaling): pass
"""
#: Lines that replace one of the file; %s is a hostile value.
_LINES = (
    "name = %s", "n_bins = %s", "repeats = %s", "random_state = %s", "splits = %s", "splits = [%s]",
    "partitions = %s", "partitions = [%s]", "partitions = [{name = %s}]", "bins = %s",
    "partitions = [{name = 'a', ood = %s}]", "partitions = [{name = 'a', ind = [%s]}]",
    "partitions = [{name = 'a', random_ind = %s}]", "partitions = [{name = 'a', min_rows = %s}]",
    "partitions = [{name = 'a', title = %s}]", "mlp = %s", "mlp = {source = %s}",
    "mlp = {source = 'digits-c', n_jobs = %s}", "mlp = {source = 'tiny-imagenet-c', folder = %s}",
    "mlp = {source = 'mine.py:load', x = %s}", "TS = %s", "%s = 'ts'", "[%s]", "[[data]]\\na = %s",
    "TS = 'mine.py:Mine:clip=%s'", "x = %s",
)  # fmt: skip
_CODE_NAMES = (
    "mine.py:load", "mine.py:Mine", "./mine.py:Mine", "../mine.py:load", "/tmp/mine.py:load",
    "subprocess.py:getoutput", "mine.py:__builtins__", "mine.py", "mine.py:", ":mine.py",
    "os:system",
)  # fmt: skip


def _toml_value(rng: random.Random) -> str:
    kind = rng.randrange(5)
    if kind == 0:
        return '"' + name(rng).encode("unicode_escape").decode().replace('"', "'") + '"'
    if kind == 1:
        return str(number(rng)).lower()
    if kind == 2:
        return rng.choice((*RAW, "[]", "{}", "1979-05-27", "'''x'''", "[" * 200, "2000000000"))
    if kind == 3:
        return f'"{_method(rng)}"'.replace("\\", "")
    return f'"{rng.choice(_CODE_NAMES)}"'


def _toml(rng: random.Random, changes: int) -> bytes:
    lines = _TOML.splitlines()
    for _ in range(changes):
        at = rng.randrange(len(lines))
        line = rng.choice(_LINES).replace("%s", _toml_value(rng))
        if rng.random() < 0.7:  # in place of a line that sets the same key
            key = line.split("=")[0].strip()
            at = next((k for k, old in enumerate(lines) if old.startswith(f"{key} ")), at)
            lines[at] = line
        else:
            lines.insert(at, line)
    return "\n".join(lines).encode("utf-8", "surrogatepass")


@functools.cache
def _experiment_files() -> dict[str, bytes]:
    """Rows, and Python files that leave a trace where they are executed."""
    data = support.small_domains(n_domains=4, n_rows=12, n_classes=3, n_features=2)
    with tempfile.TemporaryDirectory() as folder:
        dc.write(data, Path(folder, "rows.npz"))
        return {**files_of(Path(folder)), "mine.py": _CODE.encode()}


def _make_toml(rng: random.Random, folder: Path) -> Path:
    content = _toml(rng, rng.choice((1, 1, 2, 3)))
    return _write_experiment(rng, folder, damaged(rng, content) if rng.random() < 0.3 else content)


def _make_run(rng: random.Random, folder: Path) -> Path:
    """Files that are valid more often: hostile methods, at most one other change."""
    content = _toml(rng, rng.choice((0, 0, 1)))
    text = _method(rng).encode("utf-8", "replace").replace(b'"', b"'").replace(b"\\", b"/")
    return _write_experiment(rng, folder, content.replace(b'"msp"', b'"%s"' % text))


def _write_experiment(rng: random.Random, folder: Path, content: bytes) -> Path:
    path = folder / "inner" / "mine.toml"
    write_files(path.parent, _experiment_files())
    write_files(folder, {"mine.py": _CODE.encode()})
    if rng.random() < 0.005:
        replace_by_other_kind(rng, path)
    else:
        path.write_bytes(content)
    return path


def _check_toml(path: Path) -> None:
    try:
        experiment = dc.experiments.read_experiment(path)
        require(1 <= experiment.repeats <= 10**6 and 1 <= experiment.n_bins <= 10**6, "no bound")
        repr(experiment)
    finally:
        _require_nothing_executed(path)


def _check_run(path: Path) -> None:
    """Run the experiments that are small enough."""
    try:
        experiment = dc.experiments.read_experiment(path)
        n = experiment.repeats * len(experiment.methods) * len(experiment.partitions)
        is_file = all(source.path is not None for source in experiment.sources)
        if n * len(experiment.splits) > 12 or not is_file:  # the shipped sources train networks
            return
        results = dc.experiments.run_experiment(experiment, path.parent / "out")
        check_between(results.means()["ece"].dropna(), 0, 1, "ece")
    finally:
        _require_nothing_executed(path)


def _require_nothing_executed(path: Path) -> None:
    for folder in (path.parent, path.parent.parent):
        require(not (folder / "executed").exists(), "the experiment file ran code")


# methods

_PARAMETERS = {
    "msp": {},
    "ts": {},
    "domain-ts": {},
    "md-ts": {
        "head": "ridge", "features": "logits", "target": "log", "fit_intercept": "true",
        "domain_weight": "equal", "clip": "[0.5,4]", "alpha": "0.5", "max_rows": "50",
        "nystroem": "10", "random_state": "1",
    },
    "histogram": {"n_bins": "5", "strategy": "quantile", "scheme": "one-vs-rest"},
    "isotonic": {"scheme": "one-vs-rest"},
    "bbq": {"scheme": "top"},
}  # fmt: skip
_HEADS = ("ols", "ridge", "huber", "krr", "knn")


def _method(rng: random.Random) -> str:
    """The text of a method, with hostile parameters."""
    method = rng.choice((*_PARAMETERS, "md-ts", "md-ts"))
    parts = [method]
    known = _PARAMETERS[method]
    for _ in range(rng.choice((0, 1, 1, 2, 3))):
        key = rng.choice((*known, *known, *known, "x", name(rng))) if known else name(rng)
        usual = rng.choice(_HEADS) if key == "head" else known.get(key, "1")
        hostile = rng.choice((
            str(number(rng)), name(rng), rng.choice(("null", "true", "[]", "[1]", "[2,1]", "[0,0]",
            "[NaN,1]", "[null,3]", "{}", "[1,[2]]", "[-1,1e400]", "[1e-320,1e308]")), "9" * 5000,
            "[" * 3000 + "]" * 3000,
        ))  # fmt: skip
        parts.append(f"{key}={usual if rng.random() < 0.4 else hostile}")
    text = ":".join(parts)
    if rng.random() < 0.1:
        text = damaged(rng, text.encode("utf-8", "replace")).decode("utf-8", "replace")
    return text


@functools.cache
def _rows() -> dc.CalibrationData:
    return support.small_domains(n_domains=4, n_rows=12, n_classes=3, n_features=3)


def _make_method(rng: random.Random, folder: Path) -> tuple[str, bool]:
    text = _method(rng)
    (folder / "method.txt").write_text(text, errors="replace")
    return text, rng.random() < 0.3


def _check_method(case: tuple[str, bool]) -> None:
    from domaincal._specs import Spec, split_specs
    from domaincal.calibrators.files.registry import calibrator_from_spec
    from domaincal.experiments.methods import Method

    text, is_experiment = case
    data = _rows()
    split_specs(text)
    if is_experiment:
        method = Method("x", text)
        repr((method.ind_only, method.needs_features, method.head, method.definition()))
    calibrator = calibrator_from_spec(Spec.parse(text))
    repr(calibrator)
    calibrator.fit(data)
    check_predictions(calibrator, data.logits, features=data.features, domains=data.domains)


# names of data sets

_DATA_SETS = {
    "tiny-imagenet": (), "cifar-10": (), "cifar-100": (),
    "imagenet-c": ("clean", "classes", "domains"), "rxrx1": (),
    "gldv2": ("variant", "training_clients", "min_rows", "n_ind", "random_state"),
    "table": ("folder", "path", "label", "domain", "group", "class_names"),
}  # fmt: skip


@functools.cache
def _tree() -> dict[str, bytes]:
    files: dict[str, Any] = {
        **trees.tiny_imagenet(), **trees.cifar10()[0], **trees.rxrx1(),
        **trees.imagenet_c(["clean", "fog-3"]), **trees.google_landmarks({"a": 3, "b": 3}),
        "images.csv": "path,label,domain\nclean/x,a,b\n",
    }  # fmt: skip
    return {k: v.encode() if isinstance(v, str) else v for k, v in files.items()}


def _make_spec(rng: random.Random, folder: Path) -> tuple[Path, str, str | None]:
    write_files(folder, _tree())
    data_set = rng.choice(list(_DATA_SETS))
    keys = (*_DATA_SETS[data_set], *_DATA_SETS[data_set], "split", name(rng))
    text = ":".join((
        data_set,
        *(f"{rng.choice(keys)}={rng.choice((name(rng), str(number(rng)), 'null', 'all', 'clean'))}"
          for _ in range(rng.choice((0, 1, 2)))),
    ))  # fmt: skip
    split = rng.choice((None, None, "val", "train", "test", "val,test", name(rng)))
    return folder / "images.csv" if data_set == "table" else folder, text, split


def _check_spec(case: tuple[Path, str, str | None]) -> None:
    from domaincal.vision.datasets.catalogue import data_set_from_spec

    path, text, split = case
    images = data_set_from_spec(text).open(path, split)
    require(len(images) >= 0, "no length")
    if images.labels is not None and len(images):
        require(
            0 <= np.min(images.labels) <= np.max(images.labels) < len(images.class_names), "label"
        )


TARGETS = (
    Target("toml", _make_toml, _check_toml),
    Target("experiment", _make_run, _check_run),
    Target("method", _make_method, _check_method, 1.5),
    Target("data-set-spec", _make_spec, _check_spec, 0.5),
)

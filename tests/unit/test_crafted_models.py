"""Model files made to do harm, with a correct checksum: refused, or their predictions are valid."""

import json
import os
import subprocess
import sys
import warnings
from dataclasses import fields
from itertools import islice

import numpy as np
import pytest
from safetensors.numpy import save_file

import domaincal as dc
from crafted_models import altered_models, read_model, write_model
from domaincal.calibrators.base import Calibrator
from domaincal.calibrators.files import learned_state
from domaincal.calibrators.heads.kernel_ridge import GaussianKernel, KernelMap
from domaincal.calibrators.score_maps import LineMap
from support import CALIBRATORS, fit, fitted_model, small_domains

DATA = small_domains(n_domains=3, n_rows=15, n_classes=3, n_features=2)
# Learned values that are altered; None for all. Several files hold the same values: once is enough.
SWEEPS = {
    "msp": None,
    "ts": None,
    "domain-ts": None,
    "md-ts-log": ("clip_", "feature_columns_", "_temperature_target", "head_", "_n_features"),
    "md-ts-logits": ("n_classes_", "_uses_logits", "_n_features"),
    "md-ts-ridge": ("head_search_", "head_parameters_"),
    "md-ts-krr": ("head_",),
    "md-ts-knn": ("head_",),
    "histogram": None,
    "isotonic-rest": ("maps_",),
    "bbq": ("maps_",),
    "mixture": ("posterior_", "posterior_search_", "used_domains_", "_n_features"),
    "shift-weighted": ("posterior_", "slope_table_", "em_steps_"),
    "feature-ts": None,
    "transcal": None,
    "cpcs": ("_logits", "_labels", "limits_"),
    "dac": ("intercept_", "coef_", "_distance"),
    "vector": ("coef_", "intercept_"),
    "batch": ("batch_map_", "feature_directions_", "_n_features", "feature_columns_"),
    "batch-row": ("_single_rows", "batch_errors_", "feature_directions_"),
    "batch-logits": ("batch_map_", "feature_directions_", "_n_features"),
    "chosen": ("provenance_",),
}


def _saved(name, path, data=DATA):
    """Header and tensors of the saved calibrator of this name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dc.DomaincalWarning)
        fitted_model(name, data).save(path)
    return read_model(path)


def _check_predictions(model, what):
    """Predictions of random rows, in both precisions, are in range; nothing is raised."""
    rng = np.random.default_rng(0)
    domains = None
    if hasattr(model, "domain_temperatures_"):
        domains = rng.choice(model.domain_temperatures_.index.to_numpy(), 5)
    for dtype in (np.float32, np.float64):
        logits = rng.normal(0, 3, size=(5, model.n_classes_)).astype(dtype)
        # A model that uses no features ignores how many there were in its fit.
        n_features = min(getattr(model, "_n_features", 2), 100)
        features = rng.normal(size=(5, n_features)).astype(dtype)
        found = model.predict_all(logits, features=features, domains=domains)
        for values in (found.confidence, found.probabilities):
            assert ((values >= 0) & (values <= 1)).all(), what
        np.testing.assert_allclose(found.probabilities.sum(axis=1), 1.0, rtol=1e-5, err_msg=what)
        if found.temperature is not None:
            assert (np.isfinite(found.temperature) & (found.temperature > 0)).all(), what
        if hasattr(model, "predict_temperature_error"):
            errors = model.predict_temperature_error(logits, features=features, domains=domains)
            assert not ((errors < 0) | np.isinf(errors)).any(), what
    assert model.summary()
    assert model._repr_html_()
    if model.provenance_ is not None:
        assert all(isinstance(line, str) for line in model.provenance_.lines()), what


@pytest.mark.parametrize("name", SWEEPS)
@pytest.mark.filterwarnings("ignore::domaincal.errors.ClippedTemperatureWarning")
def test_every_altered_value_is_refused_or_gives_valid_predictions(name, tmp_path):
    path = tmp_path / "model.safetensors"
    header, tensors = _saved(name, path)
    n_refused = 0
    # Every third: tests/fuzz.py takes all of them.
    for what, *content in islice(altered_models(header, tensors, SWEEPS[name]), 0, None, 3):
        write_model(path, *content)
        try:
            model = dc.load(path)
        except dc.errors.FileFormatError:
            n_refused += 1
            continue
        if model.n_classes_ < 100:
            _check_predictions(model, what)
    assert n_refused > 20


@pytest.mark.parametrize(
    ("name", "attribute", "value"),
    [
        ("ts", "temperature_", -1.0),
        ("ts", "n_classes_", 2.5),
        ("ts", "class_names_", ("a", "b", "b")),
        ("histogram", "n_bins", 0),
    ],
)
def test_what_could_not_be_loaded_is_not_saved(name, attribute, value, tmp_path):
    calibrator = fit(CALIBRATORS[name](), DATA)
    setattr(calibrator, attribute, value)
    with pytest.raises(dc.errors.InputError, match=attribute):
        calibrator.save(tmp_path / "model.safetensors")
    assert not list(tmp_path.iterdir())


def test_the_table_has_a_line_for_every_field_of_a_part():
    for cls in learned_state.TABLE:
        if not issubclass(cls, Calibrator):
            assert set(learned_state.learned_values(cls)) == {f.name for f in fields(cls)}


_HUGE = 10**9
_BOMBS = {
    "features": ("md-ts", lambda h, t: h["learned"].update(_n_features=_HUGE)),
    "classes and sorted logits": (
        "md-ts-logits",
        lambda h, t: h["learned"].update(_n_features=_HUGE, n_classes_=_HUGE),
    ),
    "maps": ("isotonic-rest", lambda h, t: h["learned"].update(n_classes_=_HUGE)),
    "neighbours": (
        "md-ts-knn",
        lambda h, t: h["learned"]["head_"]["fields"].update(n_neighbors=_HUGE),
    ),
    "one tensor named many times": (
        "md-ts",
        lambda h, t: (
            t.update(big=np.zeros(10**5)),
            h["learned"].update(
                head_search_={"frame": {f"c{k}": {"tensor": "big"} for k in range(10**4)}}
            ),
        ),
    ),
    "a number for every row": (
        "md-ts",
        lambda h, t: (
            t.update(big=np.zeros(10**5)),
            h["learned"].update(
                head_search_={
                    "frame": {"c": {"tensor": "big"}, **{f"c{k}": 1.0 for k in range(10**4)}}
                }
            ),
        ),
    ),
    "a long name": (
        "domain-ts",
        lambda h, t: h["learned"].update(
            used_domains_={"texts": ["x" * 10**6, *map(str, range(10**4))]}
        ),
    ),
}
# The address space that is in use after the imports, and 500 MB.
_LOAD_IN_LITTLE_MEMORY = """
import resource, sys
import domaincal as dc
import domaincal.calibrators.files.model_file
dc.load(sys.argv[1])  # all imports
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize() + 500 * 10**6
resource.setrlimit(resource.RLIMIT_AS, (size, size))
for path in sys.argv[2:]:
    try:
        dc.load(path)
    except dc.errors.FileFormatError:
        print("refused")
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs /proc")
def test_a_small_file_cannot_claim_much_memory(tmp_path):
    good = tmp_path / "good.safetensors"
    _saved("ts", good)
    paths = []
    for k, (name, change) in enumerate(_BOMBS.values()):
        paths.append(tmp_path / f"{k}.safetensors")
        header, tensors = _saved(name, paths[-1])
        change(header, tensors)
        write_model(paths[-1], header, tensors)
        assert paths[-1].stat().st_size < 2 * 10**6
    found = subprocess.run(
        [sys.executable, "-c", _LOAD_IN_LITTLE_MEMORY, good, *paths],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert found.stdout.split() == ["refused"] * len(paths), found.stderr


def test_a_number_of_classes_costs_nothing(tmp_path):
    path = tmp_path / "model.safetensors"
    header, tensors = _saved("ts", path)
    header["learned"]["n_classes_"] = _HUGE
    write_model(path, header, tensors)
    with pytest.raises(dc.errors.InputError, match=f"fitted with {_HUGE}"):
        dc.load(path).predict_confidence(DATA.logits)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 10**5 + "]" * 10**5, "recursion"),
        ('{"part":' * 10**5 + "1" + "}" * 10**5, "recursion"),
        ('{"format": "domaincal calibrator", "version": ' + "1" * 5000 + "}", "digits"),
        ('{"format": "a", "format": "domaincal calibrator"}', "'format' occurs twice"),
        ("1", "cannot be read"),
        ("null", "cannot be read"),
        ("{}", "format"),
        ("{", "cannot be read"),
    ],
)
def test_a_hostile_header_is_one_error(text, message, tmp_path):
    path = tmp_path / "model.safetensors"
    save_file({}, path, {"domaincal": text})
    with pytest.raises(dc.errors.FileFormatError, match=message) as caught:
        dc.load(path)
    assert str(path) in str(caught.value)


def test_deep_nesting_of_a_learned_value_is_one_error(tmp_path):
    """The header is parsed by C code, which allows more depth than Python functions."""
    path = tmp_path / "model.safetensors"
    header, tensors = _saved("ts", path)
    for depth in (300, 600, 900):
        header["learned"]["temperature_"] = json.loads("[" * depth + "]" * depth)
        try:
            write_model(path, header, tensors)
        except RecursionError:
            continue
        with pytest.raises(dc.errors.FileFormatError):
            dc.load(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_a_pipe_is_refused_at_once(tmp_path):
    path = tmp_path / "model.safetensors"
    os.mkfifo(path)
    code = """
import sys
import domaincal as dc
for read in (dc.load, dc.inspect):
    try:
        read(sys.argv[1])
    except dc.errors.InputError as error:
        print(error)
"""
    command = [sys.executable, "-c", code, path]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert found.stdout.count("is not a regular file") == 2, found


def test_names_are_restored_as_shared_texts(tmp_path):
    """An array of fixed width would take 4 bytes for each character of the longest name."""
    path = tmp_path / "model.safetensors"
    _saved("domain-ts", path)
    assert dc.load(path).used_domains_.dtype == object


def _odd_fits():
    """Keyword arguments of fits whose learned values are unusual."""
    rng = np.random.default_rng(0)
    logits, labels = DATA.logits, DATA.labels
    names = np.array(["", "x" * 1000, "π\n\t"], object)[np.arange(45) % 3]
    usual = {"logits": logits, "y": labels, "features": DATA.features, "domains": DATA.domains}
    changes = {
        "odd names": {"domains": names},
        "large integers": {"domains": np.array([2**64 - 1, 0], "u8")[np.arange(45) % 2]},
        "negative integers": {"domains": -(np.arange(45) % 2)},
        "one domain": {"domains": np.zeros(45, int)},
        "small domains": {"domains": np.arange(45) % 9},
        "constant logits": {"logits": np.zeros_like(logits)},
        "all correct": {"y": logits.argmax(axis=1)},
        "all wrong": {"y": logits.argmin(axis=1)},
        "large logits": {"logits": logits * 1e140},
        "tiny logits": {"logits": logits * 1e-140},
        "large features": {"features": DATA.features * 1e140},
        "tiny features": {"features": DATA.features * 1e-140},
        "tiniest features": {"features": DATA.features * 1e-160},
        "constant features": {"features": np.ones((45, 2))},
        "zero features": {"features": np.zeros((45, 2))},
        "one row": {key: values[:1] for key, values in usual.items()},
        "float16": {"logits": logits.astype("f2"), "features": DATA.features.astype("f2")},
        "large weights": {"sample_weight": rng.uniform(size=45) * 1e89},
        "tiny weights": {"sample_weight": rng.uniform(size=45) * 1e-100},
        "few weights": {"sample_weight": (np.arange(45) < 15) + 1e-12},
    }
    return {name: {**usual, **change} for name, change in changes.items()}


_ODD = _odd_fits()


@pytest.mark.filterwarnings("ignore::domaincal.errors.DomaincalWarning")
@pytest.mark.parametrize("problem", _ODD)
def test_what_a_fit_learns_can_be_saved_and_loaded(problem, tmp_path):
    path = tmp_path / "model.safetensors"
    methods = ["ts", "domain-ts", "md-ts-intercept", "md-ts-letter", "bbq-rest", "isotonic-rest"]
    methods += ["mixture", "shift-weighted", "feature-ts", "transcal", "cpcs", "dac", "vector"]
    methods += ["batch"]
    if "features" in problem:  # these heads are slow
        methods += ["md-ts-inverse", "md-ts-knn", "md-ts-krr"]
    n_saved = 0
    for name in methods:
        rows = dict(_ODD[problem])
        try:
            calibrator = CALIBRATORS[name]().fit(rows.pop("logits"), rows.pop("y"), **rows)
        except dc.errors.InputError:
            continue
        n_saved += 1
        calibrator.save(path)
        logits = _ODD[problem]["logits"]
        given = {"features": rows["features"], "domains": rows["domains"]}
        expected, found = (
            model.predict_proba(logits, **given) for model in (calibrator, dc.load(path))
        )
        np.testing.assert_array_equal(found, expected, err_msg=name)
        assert ((found >= 0) & (found <= 1)).all(), name
    assert n_saved >= 4


@pytest.mark.parametrize("name", ["zero \0", "half \ud800", "x" * 1001])
@pytest.mark.parametrize("kind", ["domains", "features", "classes"])
def test_names_that_no_file_can_hold_are_refused_by_the_fit(name, kind):
    import pandas as pd

    rows = {"logits": DATA.logits, "features": DATA.features, "domains": DATA.domains}
    if kind == "domains":
        rows["domains"] = np.array(["a", name], object)[np.arange(45) % 2]
    elif kind == "features":
        rows["features"] = pd.DataFrame(DATA.features, columns=pd.Index(["a", name], dtype=object))
    else:
        columns = pd.Index(["a", "b", name], dtype=object)
        rows["logits"] = pd.DataFrame(DATA.logits, columns=columns)
    with pytest.raises(dc.errors.InputError, match=r"characters|zero character"):
        dc.MultiDomainTemperatureScaling().fit(y=DATA.labels, **rows)


@pytest.mark.parametrize("clip", [(1e-320, 1.0), (1.0, 1e300), (True, "2"), (1j, 2.0)])
def test_limits_of_the_temperature_are_numbers_that_a_file_can_hold(clip):
    with pytest.raises(dc.errors.InputError, match="clip must be"):
        fit(dc.MultiDomainTemperatureScaling(clip=clip), DATA)


def test_a_tiny_temperature_gives_the_predicted_class_probability_one():
    """1 / T is more than the largest float32."""
    calibrator = dc.TemperatureScaling().fit(np.float32(DATA.logits), DATA.labels)
    calibrator.temperature_ = 1e-200
    found = calibrator.predict_all(np.float32(DATA.logits))
    np.testing.assert_array_equal(found.confidence, 1.0)
    np.testing.assert_array_equal(found.probabilities.max(axis=1), 1.0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [1.0, 1e10, 1e18, 1e30])
@pytest.mark.parametrize("gamma", [1e-300, 1.0, 1e20, 1e300])
def test_the_gaussian_kernel_is_between_0_and_1(dtype, scale, gamma):
    rng = np.random.default_rng(0)
    rows = (rng.normal(size=(6, 3)) * scale).astype(dtype)
    x = np.concatenate([rows, rng.normal(size=(4, 3)).astype(dtype)])
    kernel = GaussianKernel(rows, gamma)(x)
    assert ((kernel >= 0) & (kernel <= 1)).all()
    values = KernelMap(rows, rng.normal(size=6), gamma, 2.0)(x)
    assert np.isfinite(values).all()


def test_a_line_map_stays_between_0_and_1():
    """The slope between two points can be infinite, and its product rounded above 1."""
    steep = LineMap(np.array([0.0, 1e-310, 0.3, 0.9]), np.array([0.0, 1.0, 0.1, 1.0]))
    scores = np.array([0.0, 1e-320, 1e-310, 0.2, np.nextafter(0.9, 0), 1.0])
    values = steep(scores)
    assert ((values >= 0) & (values <= 1)).all()

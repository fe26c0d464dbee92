"""Model files: a loaded calibrator predicts the same; invalid files are refused."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings, strategies as st
from safetensors import safe_open
from safetensors.numpy import save_file
from sklearn.base import clone

import domaincal as dc
from crafted_models import read_model, write_model
from support import CALIBRATORS, SLOW_TO_FIT, fit, probabilities, small_domains

DATA = small_domains()
SAVED = [name for name in CALIBRATORS if name != "md-ts-instance"]


@pytest.fixture(scope="module")
def fitted():
    """Function from the name of a calibrator to the fitted calibrator, which is fitted once."""
    found = {}

    def get(name):
        if name not in found:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", dc.DomaincalWarning)
                found[name] = fit(CALIBRATORS[name](), DATA)
        return found[name]

    return get


@pytest.mark.parametrize("method", SAVED)
def test_a_loaded_calibrator_equals_the_saved_one(fitted, method, tmp_path):
    saved = fitted(method)
    saved.save(tmp_path / "model.safetensors")
    again = dc.load(tmp_path / "model.safetensors")
    assert type(again) is type(saved)
    assert repr(again) == repr(saved)
    np.testing.assert_array_equal(probabilities(again, DATA), probabilities(saved, DATA))
    assert again._repr_html_() == saved._repr_html_()
    assert vars(again).keys() == vars(saved).keys()
    for name, value in vars(saved).items():
        _assert_equal(getattr(again, name), value)
    again.save(tmp_path / "again.safetensors")
    contents = [(tmp_path / f"{n}.safetensors").read_bytes() for n in ("model", "again")]
    assert contents[0] == contents[1]
    if method not in SLOW_TO_FIT:
        fit(clone(again), DATA)


def _assert_equal(a, b):
    if isinstance(b, pd.Series):
        pd.testing.assert_series_equal(a, b, check_index_type=False)
    elif isinstance(b, pd.DataFrame):
        pd.testing.assert_frame_equal(a, b, check_dtype=False, check_column_type=False)
    elif isinstance(b, np.ndarray):
        np.testing.assert_array_equal(a, b)
    elif isinstance(b, list):
        for x, y in zip(a, b, strict=True):
            _assert_equal(x, y)
    elif hasattr(b, "__dataclass_fields__"):
        assert type(a) is type(b)
        for name in b.__dataclass_fields__:
            _assert_equal(getattr(a, name), getattr(b, name))
    elif isinstance(b, dict):
        assert a.keys() == b.keys()
        assert all(a[key] == b[key] for key in b)
    else:
        assert a == b or (a != a and b != b)
        assert type(a) is type(b)


@pytest.mark.parametrize("domains", [np.arange(480) % 6, np.arange(480) % 3 * 10])
def test_integer_domains_are_restored_as_integers(domains, tmp_path):
    calibrator = dc.DomainTemperatureScaling().fit(DATA.logits, DATA.labels, domains=domains)
    calibrator.save(tmp_path / "model.safetensors")
    again = dc.load(tmp_path / "model.safetensors")
    assert again.domain_temperatures_.index.tolist() == np.unique(domains).tolist()
    t = again.predict_temperature(DATA.logits, domains=domains)
    np.testing.assert_array_equal(t, calibrator.predict_temperature(DATA.logits, domains=domains))


def test_a_calibrator_without_usable_domains_can_be_saved(tmp_path):
    tiny = dc.CalibrationData(np.eye(4) * 9, labels=np.arange(4), domains=list("aabb"))
    with pytest.warns(dc.DomaincalWarning):
        saved = dc.MultiDomainTemperatureScaling(features="logits").fit(tiny)
    saved.save(tmp_path / "model.safetensors")
    again = dc.load(tmp_path / "model.safetensors")
    assert len(again.used_domains_) == 0
    assert again.domain_standard_errors_.isna().all()
    np.testing.assert_array_equal(
        again.predict_temperature(tiny.logits), saved.predict_temperature(tiny.logits)
    )


def test_the_header_holds_format_version_class_and_parameters(fitted, tmp_path):
    fitted("md-ts-ridge").save(tmp_path / "model.safetensors")
    with safe_open(tmp_path / "model.safetensors", framework="np") as file:
        header = json.loads(file.metadata()["domaincal"])
        assert "head_.coef" in file.keys()  # noqa: SIM118
    assert header["format"] == "domaincal calibrator"
    assert header["version"] == 4
    assert header["written_by"] == f"domaincal {dc.__version__}"
    assert header["class"] == "MultiDomainTemperatureScaling"
    assert header["parameters"]["head"] == "ridge"
    assert header["learned"]["data_fingerprint_"] == DATA.fingerprint()


def test_calibrators_that_no_file_can_hold_are_refused(fitted, tmp_path):
    path = tmp_path / "model.safetensors"
    with pytest.raises(dc.errors.InputError, match="cannot be saved: model files hold numbers"):
        fitted("md-ts-instance").save(path)
    with pytest.raises(dc.errors.InputError, match=r"must end in \.safetensors"):
        fitted("ts").save(tmp_path / "model.pkl")
    with pytest.raises(ValueError, match="not fitted"):
        dc.TemperatureScaling().save(path)

    class Mine(dc.TemperatureScaling):
        pass

    for name in ("Mine", "TemperatureScaling"):
        Mine.__name__ = name
        with pytest.raises(dc.errors.InputError, match=f"{name} is not a calibrator of domaincal"):
            Mine().fit(DATA.logits, DATA.labels).save(path)
    generator = dc.MultiDomainTemperatureScaling(random_state=np.random.default_rng(0))
    with pytest.raises(dc.errors.InputError, match=r"random_state=.*cannot be saved"):
        fit(generator, DATA).save(path)
    assert not list(tmp_path.iterdir())


def _rewrite(path, change):
    """Rewrite the file with a changed header and a correct checksum."""
    header, tensors = read_model(path)
    change(header, tensors)
    write_model(path, header, tensors)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda h, t: h.update(version=5),
            r"has format version 5 .*reads versions up to 4; upgrade domaincal",
        ),
        (lambda h, t: h.update(version="x"), "version 'x'"),
        (lambda h, t: h.update(version=0), "version 0"),
        (lambda h, t: h.update(version=True), "version True"),
        (lambda h, t: h["parameters"].update(clip="x"), "clip must be 'auto', None or a pair"),
        (
            lambda h, t: h["learned"].update(class_names_={"tuple": ["a"]}),
            "class_names_ has 1 different names, but n_classes is 5",
        ),
        (
            lambda h, t: h["learned"].update(temperature_=-1.0),
            "temperature_ is -1, which is out of range",
        ),
        (lambda h, t: t.update({"head_.coef": np.ones(2)}), r"head_ coef has the shape \(2,\)"),
        (lambda h, t: t.update({"head_.coef": np.full(4, np.nan)}), "head_ coef is nan"),
        (lambda h, t: h.update(format="other"), "format 'other'"),
        (lambda h, t: h.update({"class": "os.system"}), "unknown class 'os.system'"),
        (lambda h, t: h.update({"class": "RidgeCV"}), "unknown class"),
        (lambda h, t: h["parameters"].update(shell="rm"), "no parameter 'shell'"),
        (
            lambda h, t: h["learned"].update(predict_proba=1),
            "predict_proba is missing, or is not an attr",
        ),
        (lambda h, t: h["learned"].pop("clip_"), "clip_ is missing"),
        (lambda h, t: h["learned"].update(temperature_="hot"), "temperature_ is of type str"),
        (lambda h, t: h["learned"].update(head_={"part": "Popen", "fields": {}}), "Popen"),
        (lambda h, t: h["learned"].update(head_={"eval": "1"}), "unknown content 'eval'"),
        (lambda h, t: h["learned"].update(head_={"tensor": "nowhere"}), "nowhere"),
        (lambda h, t: h["learned"]["head_"]["fields"].pop("coef"), "incomplete LinearMap"),
        (lambda h, t: h.pop("learned"), "learned"),
    ],
)
def test_the_error_names_a_file_with_an_invalid_header(fitted, tmp_path, change, message):
    path = tmp_path / "model.safetensors"
    fitted("md-ts").save(path)
    _rewrite(path, lambda header, tensors: None)
    dc.load(path)
    _rewrite(path, change)
    with pytest.raises(dc.errors.FileFormatError, match=message) as caught:
        dc.load(path)
    assert str(path) in str(caught.value)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4)
    | st.sampled_from(["head_.coef", "LinearMap", "part", "tensor", "texts"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["part", "fields", "tensor", "texts", "series", "frame", "tuple", "float"])
        | st.text(max_size=3), inner, max_size=3,
    ),
    max_leaves=6,
)  # fmt: skip


@settings(max_examples=150)
@given(draws=st.data())
def test_a_header_with_any_content_is_loaded_or_refused(fitted, tmp_path_factory, draws):
    """The checksum is correct, so that the content itself is checked."""
    path = tmp_path_factory.mktemp("m") / "model.safetensors"
    fitted("md-ts").save(path)

    def change(header, tensors):
        place = header
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            key = draws.draw(st.sampled_from(keys))
            if isinstance(place[key], dict | list) and place[key] and draws.draw(st.booleans()):
                place = place[key]
                continue
            place[key] = draws.draw(_JSON)
            return

    try:
        _rewrite(path, change)
    except ValueError:  # JSON has no NaN
        assume(False)
    message = path.name
    try:
        dc.load(path)
    except dc.DomaincalError as error:
        message = str(error)
    assert path.name in message


def test_missing_parameters_get_their_defaults(fitted, tmp_path):
    path = tmp_path / "model.safetensors"
    fitted("md-ts").save(path)
    _rewrite(path, lambda header, tensors: header["parameters"].pop("nystroem"))
    assert dc.load(path).nystroem is None


def test_files_that_hold_no_calibrator_are_refused(tmp_path):
    path = tmp_path / "model.safetensors"
    save_file({"logits": np.eye(2)}, path)
    with pytest.raises(dc.errors.FileFormatError, match="holds no calibrator of domaincal"):
        dc.load(path)
    path.write_bytes(b"")
    with pytest.raises(dc.errors.FileFormatError, match=r"header too small.*it may be truncated"):
        dc.load(path)
    with pytest.raises(dc.errors.InputError, match="is a folder"):
        dc.load(tmp_path)
    calibrator = dc.TemperatureScaling().fit(DATA.logits, DATA.labels)
    calibrator.save(path)
    with pytest.raises(
        dc.errors.FileFormatError, match=r"holds a calibrator, not rows.*domaincal\.load"
    ):
        dc.read(path)


def test_evaluate_refuses_classes_in_another_order():
    names = tuple("abcde")
    data = dc.CalibrationData(DATA.logits, labels=DATA.labels, class_names=names)
    table = dc.evaluate(dc.TemperatureScaling(), train=data, test=data)
    assert len(table) == 1
    other = dc.CalibrationData(DATA.logits, labels=DATA.labels, class_names=names[::-1])
    with pytest.raises(dc.errors.InputError, match=r"another order, e.g. 'e' in place of 'a'"):
        dc.evaluate(dc.TemperatureScaling(), train=data, test=other)
    dc.evaluate(dc.TemperatureScaling(), train=data, test=DATA)


def test_a_fit_without_class_names_removes_those_of_the_last_fit():
    calibrator = dc.TemperatureScaling().fit(DATA.logits, DATA.labels)
    calibrator.class_names_ = tuple("abcde")
    assert calibrator.fit(DATA.logits, DATA.labels).class_names_ is None
    assert probabilities(calibrator, DATA).shape == (480, 5)

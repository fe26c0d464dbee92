"""Specs of the form name:key=value, as in commands and TOML files."""

import re

import pytest

import domaincal as dc
from domaincal._specs import Spec, json_value, split_specs

KNOWN = ("head", "alpha", "path")


@pytest.mark.parametrize(
    ("text", "name", "parameters"),
    [
        ("ts", "ts", {}),
        ("  ts ", "ts", {}),
        ("md-ts:head=ridge", "md-ts", {"head": "ridge"}),
        ("md-ts:head=ridge:alpha=0.5", "md-ts", {"head": "ridge", "alpha": "0.5"}),
        ("md-ts:head=ridge:head=krr", "md-ts", {"head": "krr"}),
        ("md-ts:head=a=b", "md-ts", {"head": "a=b"}),
    ],
)
def test_a_spec_is_a_name_and_its_parameters(text, name, parameters):
    spec = Spec.parse(text)
    assert spec.name == name
    assert spec.parameters(KNOWN) == parameters
    assert not spec.is_code


@pytest.mark.parametrize(
    "value", [r"C:\data\val", "at:10/val", "/at/10:30", "a:b:c", "a:head", "[0.5,4]", "0.1:2"]
)
def test_a_value_may_contain_colons_and_commas(value):
    for text in (f"x:path={value}:alpha=1", f"x:alpha=1:path={value}:head=ols"):
        found = Spec.parse(text).parameters(KNOWN)
        assert found["path"] == value
        assert found["alpha"] == "1"


@pytest.mark.parametrize(
    ("text", "name", "parameters"),
    [
        ("mine.py:Mine", "mine.py:Mine", {}),
        ("mine.py:Mine:factor=2", "mine.py:Mine", {"factor": "2"}),
        ("x/mine.py:Mine:factor=2:path=a:b", "x/mine.py:Mine", {"factor": "2", "path": "a:b"}),
        ("mine.py", "mine.py", {}),
    ],
)  # fmt: skip
def test_the_name_of_an_object_in_a_python_file_includes_the_file(text, name, parameters):
    spec = Spec.parse(text)
    assert spec.name == name
    assert spec.is_code
    assert spec.parameters(["factor", "path"]) == parameters


@pytest.mark.parametrize(
    ("text", "known", "message"),
    [
        ("md-ts:haed=ols", KNOWN, "md-ts has no parameter 'haed'; choose from head, alpha, path."),
        ("md-ts:", KNOWN, "md-ts has no parameter ''; choose from head, alpha, path."),
        ("md-ts: head=ols", KNOWN, "md-ts has no parameter ' head'; choose"),
        ("msp:head=ols", (), "msp has no parameter 'head'; it has none."),
        ("md-ts:head", KNOWN, "md-ts needs a value for 'head'; write head=VALUE."),
        ("md-ts:head=", KNOWN, "md-ts needs a value for 'head'; write head=VALUE."),
        ("md-ts:head=ols:alpha", KNOWN, "md-ts needs a value for 'alpha'; write alpha=VALUE."),
        ("mine.py:Mine:x=1", (), "mine.py:Mine has no parameter 'x'; it has none."),
    ],
)
def test_unknown_parameters_and_missing_values_are_refused(text, known, message):
    with pytest.raises(dc.errors.InputError, match=re.escape(message)):
        Spec.parse(text).parameters(known)


def test_keys_include_unknown_parameters():
    assert Spec.parse("x:path=a:b:split=val").keys(["path"]) == ["path", "split"]
    assert Spec.parse("x:split").keys([]) == ["split"]
    assert Spec.parse("x").keys(["path"]) == []


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("ts", ["ts"]),
        ("ts, md-ts:clip=[0.5,4],msp", ["ts", "md-ts:clip=[0.5,4]", "msp"]),
        ("a:x=[1,2],b:y=[3,4]", ["a:x=[1,2]", "b:y=[3,4]"]),
        (",ts,,", ["ts"]),
        ("", []),
    ],
)
def test_commas_separate_specs_except_in_brackets(text, parts):
    assert split_specs(text) == parts


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.5", 0.5), ("3", 3), ("true", True), ("null", None), ("[0.5,4]", (0.5, 4)),
        ('"0.5"', "0.5"), ("ridge", "ridge"), ("0.5x", "0.5x"), ("", ""),
        pytest.param("[" * 5000 + "]" * 5000, "[" * 5000 + "]" * 5000, id="nested too deeply"),
        pytest.param("9" * 5000, "9" * 5000, id="too many digits"),
    ],
)  # fmt: skip
def test_a_value_is_json_or_plain_text(text, value):
    found = json_value(text)
    assert found == value
    assert type(found) is type(value)


def test_constants_as_python_writes_them():
    assert [json_value(text) for text in ("True", "False", "None")] == [True, False, None]

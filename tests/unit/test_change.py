"""The gate on change against an earlier results table."""

import numpy as np
import pandas as pd
import pytest

import domaincal as dc
from support import small_domains

DATA = small_domains()
METHODS = {"TS": dc.TemperatureScaling(), "MD-TS": dc.MultiDomainTemperatureScaling()}
TABLE = dc.evaluate_split(METHODS, DATA, ood="domain-[24]")
OTHER = dc.evaluate_split(METHODS, DATA, ood="domain-[24]", random_state=1)


@pytest.mark.parametrize("worst", [False, True])
@pytest.mark.parametrize("score", ["excess", "ece", "gap"])
def test_a_change_is_the_difference_of_two_gates(score, worst):
    options = {"score": score, "worst": worst}
    found = dc.check_change(TABLE, OTHER, **options)
    now, before = dc.check_gate(TABLE, 1.0, **options), dc.check_gate(OTHER, 1.0, **options)
    assert (found.value, found.before) == (now.value, before.value)
    assert (found.method, found.kind, found.n_domains) == ("MD-TS", "OOD", 2)
    assert found.limit is None
    assert found.holds
    limit = found.difference
    assert dc.check_change(TABLE, OTHER, limit, **options).holds
    assert not dc.check_change(TABLE, OTHER, limit - 1e-6, **options).holds
    back = dc.check_change(OTHER, TABLE, **options)
    assert back.difference == -found.difference


def test_nothing_has_changed_against_the_same_table():
    assert dc.check_change(TABLE, TABLE, 0.0).difference == 0.0
    assert dc.check_change(TABLE, TABLE, 0.0).holds


def test_only_domains_of_both_tables_count():
    now = TABLE[TABLE["domain"] != "domain-1"]
    before = OTHER[OTHER["domain"] != "domain-3"]
    ind = [rows[rows["kind"] == "InD"] for rows in (now, before)]
    found = dc.check_change(*ind, score="ece")
    assert (found.added, found.removed, found.n_domains) == (("domain-3",), ("domain-1",), 2)
    common = [rows[rows["domain"].isin(["domain-0", "domain-5"])] for rows in ind]
    expected = dc.check_change(*common, score="ece")
    assert found.difference == expected.difference
    sentence = found.sentence_of_other_domains()
    assert "only now: 'domain-3'; only in the baseline: 'domain-1'" in sentence
    assert expected.sentence_of_other_domains() == ""


def test_the_sentence_says_whether_the_gate_holds():
    now = pd.DataFrame({"method": "TS", "domain": [1, 2], "ece": [0.02, 0.04]})
    before = pd.DataFrame({"method": "TS", "domain": ["1", "2"], "ece": [0.02, 0.03]})
    start = "the mean ece of TS over 2 domains is 3.00%, in the baseline 2.50% (difference +0.50 "
    for limit, sentence in (
        (None, f"Change: {start}points)."),
        (0.006, f"Gate on change holds: {start}points, the limit +0.60)."),
        (0.004, f"Gate on change FAILED: {start}points, the limit +0.40)."),
    ):
        assert dc.check_change(now, before, limit, score="ece").sentence() == sentence


def test_a_change_does_not_hold_for_nan():
    broken = TABLE.copy()
    broken.loc[broken.index[-1], "ece"] = np.nan
    for worst in (False, True):
        assert not dc.check_change(broken, TABLE, 1.0, score="ece", worst=worst).holds
        assert not dc.check_change(TABLE, broken, 1.0, score="ece", worst=worst).holds


@pytest.mark.parametrize(
    ("now", "before", "options", "message"),
    [
        (TABLE, TABLE[TABLE["method"] == "TS"], {}, "the baseline has no method 'MD-TS'"),
        (TABLE, TABLE[TABLE["kind"] == "InD"], {}, "the baseline has no OOD domains of 'MD-TS'"),
        (TABLE, TABLE.drop(columns="kind"), {}, "the baseline has no OOD domains"),
        (TABLE, TABLE.assign(domain="x" + TABLE["domain"]), {}, "has none of the domains domain-2"),
        (TABLE, pd.concat([TABLE, TABLE]), {}, "baseline has the domain 'domain-2' twice"),
        (pd.concat([TABLE, TABLE]), TABLE, {}, "table has the domain 'domain-2' twice"),
        (TABLE[:0], TABLE, {}, "table is empty"),
        (TABLE, 3, {}, "baseline must be a results table"),
        (TABLE, TABLE, {"score": "nll"}, "score must be one of 'excess', 'ece', 'gap'"),
        (TABLE, TABLE, {"limit": 5}, "limit must be a fraction"),
    ],
)  # fmt: skip
def test_tables_that_cannot_be_compared_are_refused(now, before, options, message):
    with pytest.raises(dc.errors.InputError, match=message):
        dc.check_change(now, before, **options)

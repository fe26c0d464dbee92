"""The verdict of the report in words, for made-up results."""

import numpy as np
import pytest

from domaincal.report.verdict import verdict

RNG = np.random.default_rng(0)


def contents(before, after, *, kind="unseen", n=10_000, clear=True, unlabelled=None):
    """Domains of accuracy 70% whose confidence is off by so many points."""
    k = len(before)
    scores = [
        {"confidence": [0.7 + one / 100 for one in gaps], "low": [0.01 if clear else 0.0] * k}
        for gaps in (before, after)
    ]
    kinds = [kind] * k if isinstance(kind, str) else kind
    domains = {
        "name": [f"site {j}" for j in range(k)], "kind": kinds, "n": [n] * k,
        "accuracy": [0.7] * k, "before": scores[0], "after": scores[1],
    }  # fmt: skip
    return {"domains": domains, "unlabelled": unlabelled}


def new(*rows):
    """Section of new domains: name, predicted, low, high, verdict."""
    names, predicted, low, high, verdicts = zip(*rows, strict=True)
    return {"coverage": 0.9, "name": list(names), "predicted": list(predicted), "low": list(low),
            "high": list(high), "verdict": list(verdicts)}  # fmt: skip


@pytest.mark.parametrize(("before", "after", "state", "headline"), [
    ([5, 6, 6, 7, 5], [1, 1.5, 1, 1.5, 1], "good",
     "Confidence is off by 5.8 points on the average unseen domain; calibration brings it to 1.2."),
    ([15, 16, 14, -15, 15], [6, -7, 6, 5, 6], "partly", "calibration brings it to 6.0."),
    ([2, 2.1, 1.9, 2, 2], [3, 3.2, 2.9, 3.1, 3], "poor", "calibration makes it worse: 3.0."),
    ([8, 8, 8, 8, 8], [1, 15, 2, 14, 6], "poor", "changes it to 7.6, which may be chance."),
    ([0.5, 0.6, 0.5, 0.6, 0.5], [0.4, 0.5, 0.6, 0.5, 0.5], "good", "hardly anything to gain"),
    ([0.5, 0.6, 0.5, 0.6, 0.5], [2, 2, 2.1, 2, 2], "poor", "calibration makes it worse, 2.0."),
    ([6, 6], [1, 1], "unknown", "2 domains are too few to say more."),
    ([6], [1], "unknown", "on the only unseen domain, and by 1.0 after calibration; 1 domain is"),
    ([6, 6, 6], [6, 6, 6], "poor", "calibration does not change that."),
])  # fmt: skip
def test_the_headline_and_the_state(before, after, state, headline):
    found = verdict(contents(before, after))
    assert headline in found["headline"]
    assert found["state"] == state


def test_improvements_that_may_be_chance_are_not_claimed():
    found = verdict(contents([8, 8, 8, 8], [9, 1, 12, 1]))
    assert "brings" not in found["headline"]
    assert "which may be chance" in found["headline"]
    assert any("95% interval" in sentence for sentence in found["sentences"])


def test_the_worst_domain_is_named_with_what_chance_explains():
    sure = verdict(contents([5, 6, 7], [1, 9, -2]))["sentences"]
    (worst,) = [one for one in sure if one.startswith("Worst domain")]
    assert "site 1, where 70.0% of 10,000 rows are right, and mean confidence is 79.0%" in worst
    assert "chance" not in worst
    unsure = verdict(contents([5, 6, 7], [1, 9, -2], n=40, clear=False))["sentences"]
    assert any("that chance alone can explain" in sentence for sentence in unsure)


def test_an_unlikely_number_of_right_rows_is_not_called_chance():
    # 210 of 300 rows are right at a confidence of 62.5%: P = 0.007 by scipy.stats.binomtest.
    made = contents([5, 6], [0, -7.5], n=300, clear=False)
    assert "chance" not in worst_of(made)
    # One of 20 domains may be so far off.
    many = contents([5] * 20, [0] * 19 + [-7.5], n=300, clear=False)
    assert "chance alone can explain" in worst_of(many)


def test_a_domain_of_few_rows_is_not_the_worst():
    made = contents([5, 6, 7], [1, 2, 4], n=200)
    domains = made["domains"]
    domains["n"][2], domains["accuracy"][2] = 1, 0.0
    found = worst_of(made)
    assert found.startswith("Worst domain of at least 10 rows after calibration: site 1, where")
    domains["n"] = [1, 1, 1]
    domains["accuracy"] = [1.0, 1.0, 0.0]
    assert "site 2, where its only row is wrong, and mean confidence is 74.0%" in worst_of(made)


def test_the_change_is_told_in_words_with_its_interval():
    def change(before, after):
        sentences = verdict(contents(before, after))["sentences"]
        return next(one for one in sentences if "interval" in one and "Calibration " in one)

    start = "the average distance between confidence and accuracy by"
    better = change([6, 6, 6, 8], [1, 1, 1, 1])
    assert f"Calibration lowers {start} 5.5 points (95% interval 3.9 to 7.1)" in better
    worse = change([1, 1, 1, 1], [6, 6, 6, 8])
    assert f"Calibration raises {start} 5.5 points (95% interval 3.9 to 7.1)" in worse
    unsure = change([8, 8, 8, 8], [9, 1, 12, 1])
    assert f"Calibration changes {start} -2.2 points (95% interval -" in unsure
    assert ", which holds 0)" in unsure


def test_of_very_many_domains_numbers_have_commas():
    made = contents([20] * 1200, [0.1] * 1200, n=50)
    made["domains"]["after"]["low"] = [0.0] * 500 + [None] * 700
    sentences = " ".join(verdict(made)["sentences"])
    assert "too high in 1,200 of 1,200 domains" in sentences
    assert "in 1,200 of 1,200 domains before calibration, and in none of the worst 500" in sentences
    assert "averaged over 1,200 unseen domains" in sentences


def test_long_names_keep_their_ends():
    made = contents([5, 6, 7], [1, 2, 9])
    made["domains"]["name"] = [f"{'d' * 100}{k}" for k in range(3)]
    assert f": {'d' * 39}…{'d' * 19}2, where" in worst_of(made)


def worst_of(made):
    """The sentence about the worst domain."""
    (found,) = [one for one in verdict(made)["sentences"] if one.startswith("Worst domain")]
    return found


def test_the_part_of_chance_is_told_where_domains_have_few_rows():
    few = verdict(contents([5, 6, 7], [5, 6, 5], n=40))["sentences"][-1]
    assert "it would be 5.4 points by chance" in few
    many = verdict(contents([5, 6, 7], [5, 6, 5], n=100_000_000))["sentences"][-1]
    assert "chance" not in many


def test_small_errors_of_few_rows_are_hardly_anything_to_gain():
    found = verdict(contents([5, 6, -5], [5, -6, 5], n=40, clear=False))
    assert "hardly anything to gain" in found["headline"]
    assert found["state"] == "good"


def test_the_direction_is_told():
    above = verdict(contents([5, 6, 7, 6, 5], [1] * 5))["sentences"]
    assert "Before calibration, confidence is too high in 5 of 5 domains." in above
    mixed = verdict(contents([5, -6, 7, -6, 5], [1] * 5))["sentences"]
    assert "Before calibration, confidence is too high in 3 and too low in 2 of 5 domains." in mixed


def test_known_domains_are_not_called_unseen():
    found = verdict(contents([5, 6, 7], [1, 1, 1], kind="known"))
    assert "the average known domain" in found["headline"]
    assert found["state"] == "unknown"
    assert any("nothing here tells about unseen ones" in one for one in found["sentences"])
    own = verdict(contents([5, 6, 7], [1, 1, 1], kind="known"), own_rows=True)
    assert "errors look too small" in own["sentences"][0]
    both = verdict(contents([5, 6, 7, 3, 4], [1] * 5, kind=["unseen"] * 3 + ["known"] * 2))
    assert "off by 6.0 points on the average unseen domain" in both["headline"]
    assert any("In the 2 known domains, confidence is off by 3.5" in s for s in both["sentences"])


def test_limits_of_some_domains_only_say_at_least():
    made = contents([5, 6, 7], [1, 1, 1])
    made["domains"]["before"]["low"][2] = None
    sentences = verdict(made)["sentences"]
    assert any("in at least 2 of 3 domains before" in sentence for sentence in sentences)


def test_new_domains_are_told_with_their_intervals():
    found = verdict(contents([5, 6, 7], [1, 1, 1], unlabelled=new(
        ("Rome", 0.85, 0.81, 0.88, "inside"), ("Bern", 0.9, 0.85, 0.95, "edge"),
        ("Mars", 0.4, 0.0, 1.0, "outside"),
    )))["sentences"]  # fmt: skip
    assert "On the new domain Rome, expect 81% to 88% accuracy (90% interval)." in found
    assert any("Bern, expect 85% to 95% accuracy (90% interval), with care" in s for s in found)
    interval = next(k for k, one in enumerate(found) if "95% interval" in one)
    assert max(k for k, one in enumerate(found) if "new domain" in one) < interval
    (far,) = [s for s in found if "Mars" in s]
    assert far.startswith("Do not rely on the model in Mars: its scores")
    assert found.index(far) < min(k for k, one in enumerate(found) if "expect" in one)


def test_a_domain_that_has_labels_is_not_called_new():
    rows = ("a", 0.85, 0.81, 0.88, "inside"), ("Rome", 0.85, 0.82, 0.88, "inside")
    made = contents([5, 6, 7], [1, 1, 1], unlabelled=new(*rows))
    made["domains"]["name"][0] = "a"
    found = verdict(made)["sentences"]
    assert "In new rows of domain a, expect 81% to 88% accuracy (90% interval)." in found
    assert "On the new domain Rome, expect 82% to 88% accuracy (90% interval)." in found


def test_without_an_interval_none_is_told():
    found = verdict({"domains": None, "unlabelled": new(("Rome", 0.85, 0.0, 1.0, "unknown"))})
    assert found["headline"] == (
        "On the new domain Rome, about 85% accuracy is predicted, but there are too few known "
        "domains for an interval."
    )
    assert found["state"] == "unknown"


def test_without_labels_the_headline_is_what_can_be_expected():
    far = ("Mars", 0.4, 0.0, 1.0, "outside")
    found = verdict({"domains": None, "unlabelled": new(far, ("Rome", 0.85, 0.8, 0.9, "inside"))})
    assert found["headline"].startswith("On the new domain Rome, expect 80% to 90%")
    assert found["sentences"][0].startswith("Do not rely on the model in Mars")
    found = verdict({"domains": None, "unlabelled": new(far)})
    assert found["headline"].startswith("Do not rely on the model in Mars")


def test_of_many_new_domains_three_are_told():
    rows = [(f"n{k}", 0.8, 0.7, 0.9, "inside") for k in range(10)]
    found = verdict({"domains": None, "unlabelled": new(*rows)})
    assert "n0" in found["headline"]
    assert "7 more new domains are in the table below." in found["sentences"]
    assert sum("expect" in one for one in found["sentences"]) == 2


def test_calibration_that_changes_nothing_is_told_without_numbers():
    found = verdict(contents([5, -6, 5], [5, -6, 5], n=40, clear=False))
    assert found["headline"].endswith("anything to gain; calibration does not change that.")
    assert "Calibration changes the confidence of no domain." in found["sentences"]

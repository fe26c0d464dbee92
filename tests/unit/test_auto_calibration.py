"""AutoCalibration: the rule of the choice, left-out domains, arguments, files."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import domaincal as dc
from domaincal.calibrators.choice import auto_calibration
from domaincal.calibrators.choice.left_out_domains import LeftOutDomains
from domaincal.calibrators.choice.selection import COLUMNS, choose
from support import fit, given, small_domains

DATA = small_domains(n_domains=8)
# Candidates that are fitted fast, where it does not matter which ones.
FAST = (dc.MaxSoftmax(), dc.MultiDomainTemperatureScaling())
# It is surely better than TS on DATA, and uses features.
WINNER = dc.MultiDomainTemperatureScaling(fit_intercept=True)


def _replace(data, **arrays):
    names = ("logits", "labels", "features", "domains")
    return dc.CalibrationData(**{name: arrays.get(name, getattr(data, name)) for name in names})


@cache
def _chosen_for_batches():
    """BatchTemperatureScaling wins: the temperatures of the domains differ strongly."""
    return dc.AutoCalibration(batch_size=50).fit(DATA.logits, DATA.labels, domains=DATA.domains)


# the rule


def _scores(excess, nll=1.0):
    excess = np.asarray(excess, float)
    return pd.DataFrame({"ece": excess + 0.01, "excess": excess, "nll": nll})


TS = [0.10, 0.12, 0.08, 0.11]
_RULES = {
    "surely better": ({"a": _scores(np.array(TS) - 0.05)}, "a"),
    "better in the mean only": ({"a": _scores([0.0, 0.11, 0.09, 0.10])}, "ts"),
    "the interval touches 0": ({"a": _scores([0.0, 0.08, 0.08, 0.11])}, "ts"),
    "the interval is just below 0": ({"a": _scores([0.0, 0.02, 0.08, 0.11])}, "a"),
    "the same": ({"a": _scores(TS)}, "ts"),
    "worse": ({"a": _scores(np.array(TS) + 0.05)}, "ts"),
    "a higher NLL": ({"a": _scores(np.array(TS) - 0.05, 1.001)}, "ts"),
    "the same NLL": ({"a": _scores(np.array(TS) - 0.05, 1.0)}, "a"),
    "the lowest of several": (
        {"a": _scores(np.array(TS) - 0.03), "b": _scores(np.array(TS) - 0.05),
         "c": _scores(np.array(TS) - 0.01)}, "b",
    ),
    "the lowest is unsure, and no other is taken": (
        {"a": _scores(np.array(TS) - 0.03), "b": _scores([0.0, 0.0, 0.0, 0.2])}, "ts",
    ),
    "no candidates": ({}, "ts"),
}  # fmt: skip


@pytest.mark.parametrize("case", _RULES)
def test_the_lowest_excess_is_chosen_if_it_is_surely_better(case):
    candidates, expected = _RULES[case]
    table = choose({"ts": _scores(TS), **candidates}, "ts")
    assert table.loc[table["chosen"], "method"].tolist() == [expected]
    assert tuple(table.columns) == COLUMNS
    assert table["method"].tolist() == ["ts", *candidates]


_TRUSTED_RULES = {
    "the same": ({"batch": _scores(TS)}, "batch"),
    "worse in the mean, not surely": ({"batch": _scores([0.11, 0.11, 0.09, 0.10])}, "batch"),
    "worse": ({"batch": _scores([0.12, 0.13, 0.11, 0.12])}, "ts"),
    "a higher NLL in every domain": (
        {"batch": _scores(np.array(TS) - 0.05, [1.01, 1.02, 1.01, 1.02])}, "ts",
    ),
    "a higher NLL in one domain": (
        {"batch": _scores(np.array(TS) - 0.05, [0.99, 1.00, 1.05, 0.99])}, "batch",
    ),
    "another one is surely better than it": (
        {"batch": _scores(np.array(TS) - 0.02), "b": _scores(np.array(TS) - 0.05)}, "b",
    ),
    "another one is surely better than TS, but not than it": (
        {"batch": _scores([0.00, 0.07, 0.06, 0.00]), "b": _scores([0.03, 0.04, 0.01, 0.03])},
        "batch",
    ),
    "another one is better, with a higher NLL than it": (
        {"batch": _scores(np.array(TS) - 0.02, 0.9), "b": _scores(np.array(TS) - 0.05, 0.95)},
        "batch",
    ),
    "it is worse, and another one is better": (
        {"batch": _scores(np.array(TS) + 0.02), "b": _scores(np.array(TS) - 0.05)}, "b",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", _TRUSTED_RULES)
def test_a_trusted_candidate_is_taken_unless_it_is_worse(case):
    candidates, expected = _TRUSTED_RULES[case]
    table = choose({"ts": _scores(TS), **candidates}, "ts", "batch")
    assert table.loc[table["chosen"], "method"].tolist() == [expected]


def test_the_table_holds_means_and_a_t_interval():
    """By hand: differences -0.02, -0.04, -0.06, whose mean has a standard error of 0.02/sqrt(3)."""
    ts, other = _scores([0.1, 0.1, 0.1], [1.0, 2.0, 3.0]), _scores([0.08, 0.06, 0.04], 0.5)
    row = choose({"ts": ts, "a": other}, "ts").set_index("method").loc["a"]
    assert row["n_domains"] == 3
    assert row[["ece", "excess", "nll", "difference"]].tolist() == pytest.approx(
        [0.07, 0.06, 0.5, -0.04]
    )
    half = 1.8856180831641267 * 0.02 / np.sqrt(3)  # t quantile 0.9 with 2 degrees of freedom
    assert row[["low", "high"]].tolist() == pytest.approx([-0.04 - half, -0.04 + half])


def test_one_left_out_domain_decides_nothing():
    table = choose({"ts": _scores([0.5]), "a": _scores([0.0])}, "ts")
    assert table.loc[table["chosen"], "method"].tolist() == ["ts"]
    assert table["high"].tolist() == [np.inf, np.inf]


# the choice on data


@cache
def _nothing_differs():
    """Equal temperatures everywhere, and features that tell nothing."""
    data = small_domains(1, n_domains=5, temperatures=(1.5, 1.5))
    noise = np.random.default_rng(0).normal(size=data.features.shape)
    return _replace(data, features=noise)


@pytest.mark.parametrize("batch_size", [1, 20])
def test_nothing_is_invented_where_nothing_differs(batch_size):
    """The T_k differ by their standard errors only: so may the temperatures, at most."""
    data = _nothing_differs()
    # All default candidates are for single rows with features.
    features = {"features": data.features} if batch_size == 1 else {}
    chosen = dc.AutoCalibration(batch_size=batch_size).fit(
        data.logits, data.labels, domains=data.domains, **features
    )
    new = small_domains(2, n_domains=2, temperatures=(1.5, 1.5))
    t = chosen.predict_temperature(
        new.logits, features=data.features[: len(new)], domains=np.arange(len(new)) // 20
    )
    pooled = fit(dc.TemperatureScaling(), data).temperature_
    errors = fit(dc.DomainTemperatureScaling(), data).domain_standard_errors_
    assert np.sqrt(np.mean(np.log(t / pooled) ** 2)) < errors.mean()
    assert len(chosen.selection_) == (4 if batch_size == 1 else 2)


def test_ts_is_kept_where_nothing_differs():
    chosen = fit(dc.AutoCalibration(FAST), _nothing_differs())
    assert isinstance(chosen.best_, dc.TemperatureScaling)
    expected = fit(dc.TemperatureScaling(), _nothing_differs()).predict_proba(DATA.logits)
    found = chosen.predict_proba(DATA.logits, features=DATA.features)
    np.testing.assert_array_equal(found, expected)


def test_temperatures_that_differ_are_found():
    chosen = _chosen_for_batches()
    assert isinstance(chosen.best_, dc.BatchTemperatureScaling)
    table = chosen.selection_
    assert tuple(table.columns) == COLUMNS
    assert table["method"].tolist() == ["TemperatureScaling", "BatchTemperatureScaling"]
    assert table["chosen"].tolist() == [False, True]
    assert (table["n_domains"] == 8).all()
    assert table["high"][1] < 0
    assert table.loc[0, ["difference", "low", "high"]].tolist() == [0.0, 0.0, 0.0]


def test_the_winner_is_fitted_to_all_rows():
    expected = dc.BatchTemperatureScaling().fit(DATA.logits, DATA.labels, domains=DATA.domains)
    found = _chosen_for_batches()
    for name in ("predict_proba", "predict_confidence", "predict_temperature"):
        np.testing.assert_array_equal(
            getattr(found, name)(DATA.logits, domains=DATA.domains),
            getattr(expected, name)(DATA.logits, domains=DATA.domains),
        )
    assert found.summary()["chosen"] == "BatchTemperatureScaling"
    assert found._repr_html_()


def test_scores_are_those_of_calibrators_that_have_not_seen_the_domain():
    """Five domains are left out one by one, here by hand."""
    data = DATA.select(np.isin(DATA.domains, [f"domain-{k}" for k in range(5)]))
    found = fit(dc.AutoCalibration(FAST, batch_size="domain", n_bins=7), data).selection_
    for make in (dc.TemperatureScaling, dc.MaxSoftmax, dc.MultiDomainTemperatureScaling):
        scores = []
        for name in data.domain_names:
            new = data.select(data.domains == name)
            fitted = fit(make(), data.select(data.domains != name))
            p = fitted.predict_proba(new.logits, **given(new))
            scores.append(
                [dc.expected_calibration_error(p, new.labels, n_bins=7),
                 dc.excess_calibration_error(p, new.labels, n_bins=7),
                 dc.negative_log_likelihood(p, new.labels)]
            )  # fmt: skip
        row = found.set_index("method").loc[make.__name__]
        np.testing.assert_allclose(
            row[["ece", "excess", "nll"]].astype(float), np.mean(scores, axis=0), rtol=1e-6
        )


def test_a_left_out_domain_is_not_looked_up_by_its_number():
    """T_k of seen domains are of no use on left-out ones, whatever the batches are called."""
    for batch_size in (1, 7, "domain"):
        table = fit(
            dc.AutoCalibration([dc.DomainTemperatureScaling()], batch_size=batch_size), DATA
        ).selection_
        columns = ["ece", "excess", "nll"]
        np.testing.assert_array_equal(table.loc[0, columns], table.loc[1, columns])


def test_weights_count_in_the_fit_and_in_the_scores():
    times = np.random.default_rng(0).integers(1, 4, len(DATA))
    repeated = DATA.select(np.repeat(np.arange(len(DATA)), times))
    weighted = fit(dc.AutoCalibration(FAST, batch_size="domain"), DATA, sample_weight=times)
    expected = fit(dc.AutoCalibration(FAST, batch_size="domain"), repeated)
    columns = ["ece", "nll"]
    np.testing.assert_allclose(
        weighted.selection_[columns], expected.selection_[columns], rtol=1e-6
    )
    p, p_weighted = (m.predict_proba(DATA.logits, **given(DATA)) for m in (expected, weighted))
    np.testing.assert_allclose(p_weighted, p, rtol=1e-6)
    plain = fit(dc.AutoCalibration(FAST, batch_size="domain"), DATA).selection_
    assert not np.allclose(plain["nll"], weighted.selection_["nll"])


def test_rows_of_weight_0_do_not_count():
    weight = np.ones(len(DATA))
    weight[::2] = 0.0
    half = fit(dc.AutoCalibration(FAST), DATA, sample_weight=weight)
    expected = fit(dc.AutoCalibration(FAST), DATA.select(weight > 0))
    pd.testing.assert_frame_equal(half.selection_, expected.selection_)
    weight[np.flatnonzero(DATA.domains == "domain-0")[9:]] = 0.0  # too few rows to be left out
    table = fit(dc.AutoCalibration([dc.MaxSoftmax()]), DATA, sample_weight=weight).selection_
    assert (table["n_domains"] == 7).all()


def test_only_a_sample_is_compared_and_all_rows_are_fitted(monkeypatch):
    seen = []
    plain = LeftOutDomains.scores

    def spy(self, *arguments, **options):
        seen.append(self)
        return plain(self, *arguments, **options)

    monkeypatch.setattr(LeftOutDomains, "scores", spy)
    monkeypatch.setattr(auto_calibration, "_MOST_ROWS", 200)
    chosen = fit(dc.AutoCalibration([dc.MaxSoftmax()]), DATA)
    assert np.bincount(seen[0].codes).tolist() == [25] * 8
    expected = fit(type(chosen.best_)(), DATA).predict_proba(DATA.logits)
    np.testing.assert_array_equal(chosen.best_.predict_proba(DATA.logits), expected)


# few domains


@pytest.mark.parametrize(
    ("domains", "found"),
    [
        (None, "the rows have no domains, so"),
        (np.arange(len(DATA)) % 2, "2 domains with at least 10 rows: fewer than 3, so"),
        (np.arange(len(DATA)) // 9, "0 domains with at least 10 rows: fewer than 3, so"),
    ],
    ids=["none", "two", "small ones"],
)
def test_with_few_domains_nothing_is_known(domains, found, tmp_path):
    with pytest.warns(dc.errors.SmallDomainWarning, match=f"^{found} nothing can be known"):
        chosen = dc.AutoCalibration(batch_size=20).fit(DATA.logits, DATA.labels, domains=domains)
    assert isinstance(chosen.best_, dc.TemperatureScaling)
    assert chosen.selection_.empty
    assert tuple(chosen.selection_.columns) == COLUMNS
    chosen.save(tmp_path / "model.safetensors")
    loaded = dc.load(tmp_path / "model.safetensors")
    assert loaded.provenance_.table.empty
    assert loaded.provenance_.lines() == chosen.best_.provenance_.lines()
    np.testing.assert_array_equal(
        loaded.predict_proba(DATA.logits), chosen.predict_proba(DATA.logits)
    )


def test_small_domains_are_not_left_out():
    domains = DATA.domains.copy()
    domains[:5] = "small"
    table = fit(dc.AutoCalibration([dc.MaxSoftmax()]), _replace(DATA, domains=domains)).selection_
    assert (table["n_domains"] == 8).all()


# laws


def test_the_laws_of_temperatures_hold():
    """T(c z) = c T(z), constants added to rows change nothing, nor does the order of the rows."""
    z, y, domains = DATA.logits, DATA.labels, DATA.domains
    chosen = _chosen_for_batches()
    p = chosen.predict_proba(z, domains=domains)
    np.testing.assert_array_equal(p.argmax(axis=1), z.argmax(axis=1))
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
    moved = z + np.random.default_rng(0).normal(0, 10, size=(len(z), 1))
    scaled = dc.AutoCalibration(batch_size=50).fit(3.0 * moved, y, domains=domains)
    t = chosen.predict_temperature(z, domains=domains)
    np.testing.assert_allclose(
        scaled.predict_temperature(3.0 * moved, domains=domains), 3.0 * t, rtol=1e-6
    )
    np.testing.assert_allclose(
        chosen.predict_proba(z[::-1], domains=domains[::-1]), p[::-1], rtol=1e-9
    )


@pytest.mark.parametrize(
    "winner",
    [dc.BatchTemperatureScaling, dc.ShiftWeightedScaling, dc.DomainMixtureScaling],
)
def test_of_single_rows_none_depends_on_the_others(winner):
    """Whichever candidate wins; here the winner is set."""
    chosen = fit(dc.AutoCalibration([dc.MaxSoftmax()]), DATA)
    chosen.best_ = fit(winner(), DATA)
    whole = chosen.predict_proba(DATA.logits, **given(DATA))
    some = DATA.select(slice(None, None, 80))
    np.testing.assert_allclose(
        chosen.predict_proba(some.logits, **given(some)), whole[::80], rtol=1e-9
    )
    np.testing.assert_allclose(
        chosen.predict_proba(some.logits, features=some.features), whole[::80], rtol=1e-9
    )


def test_a_fit_is_deterministic_and_a_clone_is_the_same():
    one = dc.AutoCalibration(FAST, batch_size=10, n_bins=9, random_state=3)
    copy = clone(one)
    assert repr(copy) == repr(one)
    parameters = one.get_params(deep=False)
    assert parameters == {
        "candidates": FAST, "batch_size": 10, "n_bins": 9, "random_state": 3,
    }  # fmt: skip
    tables = [fit(model, DATA).selection_ for model in (one, copy, one)]
    pd.testing.assert_frame_equal(tables[0], tables[1])
    pd.testing.assert_frame_equal(tables[0], tables[2])
    assert not hasattr(FAST[0], "n_classes_")  # candidates are cloned
    assert not hasattr(FAST[1], "n_classes_")
    assert one.candidates is FAST


def test_batches_follow_the_size_of_the_fit():
    """A parameter that is changed after the fit decides nothing."""
    chosen = dc.AutoCalibration(FAST, batch_size=20).fit(DATA)
    chosen.best_ = _chosen_for_batches().best_
    before = chosen.predict_temperature(DATA.logits, domains=DATA.domains)
    chosen.set_params(batch_size=1)
    after = chosen.predict_temperature(DATA.logits, domains=DATA.domains)
    np.testing.assert_array_equal(after, before)


# arguments


@pytest.mark.parametrize("batch_size", [0, -1, 2.5, "all", True, None])
def test_bad_batch_sizes_are_refused(batch_size):
    with pytest.raises(dc.errors.InputError, match="batch_size must be"):
        fit(dc.AutoCalibration(batch_size=batch_size), DATA)


@pytest.mark.parametrize(
    ("candidates", "message"),
    [
        ([3], r"candidates contains 3; pass calibrators of domaincal"),
        ("batch", r"candidates contains 'b'; pass calibrators"),
        ([dc.BatchTemperatureScaling], r"candidates contains <class.*; pass calibrators"),
        ([dc.AutoCalibration()], r"candidates contains AutoCalibration\(\); pass calibrators"),
        ([dc.TemperatureScaling()], r"TemperatureScaling, with which all are compared anyway"),
        ({"TemperatureScaling": dc.MaxSoftmax()}, r"with which all are compared anyway"),
        ([dc.MaxSoftmax(), dc.MaxSoftmax()], r"candidates contains MaxSoftmax\(\) twice"),
        ([dc.BatchTemperatureScaling(batch="x")], r"batch must be one of 'domain', 'row'"),
        ({"a": None}, r"candidates contains None; pass calibrators"),
        ({1: dc.MaxSoftmax()}, r"candidates has the name 1; use text"),
        ({"a\0": dc.MaxSoftmax()}, r"candidates contains 'a\\x00', which has a zero character"),
    ],
    ids=str,
)
def test_bad_candidates_are_refused(candidates, message):
    with pytest.raises(dc.errors.InputError, match=message):
        fit(dc.AutoCalibration(candidates), DATA)


@pytest.mark.parametrize("options", [{"n_bins": 0}, {"random_state": -1}])
def test_bad_numbers_are_refused(options):
    with pytest.raises(dc.errors.InputError, match=f"{next(iter(options))} must be"):
        fit(dc.AutoCalibration(**options), DATA)


def test_bad_features_are_named():
    bad = DATA.features.copy()
    bad[3, 1] = np.nan
    with pytest.raises(dc.errors.InputError, match="features contains NaN"):
        fit(dc.AutoCalibration(FAST), _replace(DATA, features=bad))


def test_candidates_have_the_names_of_a_mapping_or_of_their_classes():
    few, many = dc.HistogramBinning(3), dc.HistogramBinning(6)
    for candidates, names in (
        ({"few": few, "many": many}, ["few", "many"]),
        ([few, many], ["HistogramBinning(n_bins=3)", "HistogramBinning(n_bins=6)"]),
        (few, ["HistogramBinning"]),
        ([], []),
    ):
        table = fit(dc.AutoCalibration(candidates), DATA).selection_
        assert table["method"].tolist() == ["TemperatureScaling", *names]


def test_default_candidates_that_need_features_are_left_out_without_them():
    few, more = (auto_calibration.default_candidates(1, has_features=has) for has in (False, True))
    assert [repr(one) for one in few] == ["BatchTemperatureScaling(batch='row')"]
    assert len(more) > len(few)
    for has in (False, True):
        (one,) = auto_calibration.default_candidates(20, has_features=has)
        assert repr(one) == "BatchTemperatureScaling()"


def test_a_winner_without_a_temperature_predicts_everything_else():
    chosen = fit(dc.AutoCalibration([dc.MaxSoftmax()]), DATA)
    chosen.best_ = fit(dc.VectorScaling(), DATA)
    found = chosen.predict_all(DATA.logits, **given(DATA))
    assert found.temperature is None
    assert chosen.score_rows(DATA).temperature is None
    with pytest.raises(
        dc.errors.InputError, match=r"the winner, VectorScaling, has no temperature"
    ):
        chosen.predict_temperature(DATA.logits, **given(DATA))


# files and names


def test_standard_errors_are_those_of_the_winner():
    chosen = _chosen_for_batches()
    assert isinstance(chosen.best_, dc.BatchTemperatureScaling)
    np.testing.assert_array_equal(
        chosen.predict_temperature_error(DATA), chosen.best_.predict_temperature_error(DATA)
    )
    ts = fit(dc.AutoCalibration([dc.MaxSoftmax()]), DATA)
    assert isinstance(ts.best_, dc.TemperatureScaling)
    with pytest.raises(dc.errors.InputError, match="TemperatureScaling, has no standard errors"):
        ts.predict_temperature_error(DATA)


def test_probabilities_are_reported_once():
    p = _chosen_for_batches().predict_proba(DATA)
    with pytest.warns(dc.errors.ProbabilitiesWarning) as caught:
        dc.AutoCalibration([dc.MaxSoftmax()]).fit(p, DATA.labels, domains=DATA.domains)
    assert len(caught) == 1


def test_a_printed_selection_is_its_lines():
    selection = _chosen_for_batches().best_.provenance_
    assert str(selection).split("\n") == selection.lines()


def test_a_file_holds_the_winner_and_how_it_was_chosen(tmp_path):
    chosen = _chosen_for_batches()
    chosen.save(tmp_path / "model.safetensors")
    loaded = dc.load(tmp_path / "model.safetensors")
    assert type(loaded) is dc.BatchTemperatureScaling
    for batches in (None, DATA.domains, np.arange(len(DATA)) // 50):
        np.testing.assert_array_equal(
            loaded.predict_proba(DATA.logits, domains=batches),
            chosen.predict_proba(DATA.logits, domains=batches),
        )
    assert loaded.provenance_.batch_size == 50
    pd.testing.assert_frame_equal(loaded.provenance_.table, chosen.selection_)
    lines = loaded.provenance_.lines()
    assert lines == chosen.best_.provenance_.lines()
    assert lines[0] == "left-out domains (8, batches of 50 rows):"
    assert len(lines) == 4
    assert lines[-1].startswith("BatchTemperatureScaling chosen")


def test_a_winner_that_is_fitted_again_was_not_chosen():
    again = clone(_chosen_for_batches().best_)
    assert again.fit(DATA).provenance_ is None


def test_a_choice_that_is_not_fitted_cannot_be_saved(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        dc.AutoCalibration().save(tmp_path / "model.safetensors")


@pytest.mark.parametrize("form", ["data frames", "CalibrationData"])
def test_names_of_classes_and_features_arrive_at_the_winner(form, tmp_path):
    classes, columns = ("a", "b", "c", "d", "e"), ["w", "x", "y", "z"]
    logits = pd.DataFrame(DATA.logits, columns=list(classes))
    features = pd.DataFrame(DATA.features, columns=columns)
    chosen = dc.AutoCalibration([WINNER])
    if form == "data frames":
        labels = np.array(classes)[DATA.labels]
        chosen.fit(logits, labels, features=features, domains=DATA.domains)
    else:
        named = dc.CalibrationData(
            DATA.logits, labels=DATA.labels, **given(DATA), class_names=classes,
            feature_names=tuple(columns),
        )  # fmt: skip
        chosen.fit(named)
    assert isinstance(chosen.best_, type(WINNER))
    assert chosen.class_names_ == chosen.best_.class_names_ == classes
    assert chosen.feature_columns_ == chosen.best_.feature_columns_ == tuple(columns)
    expected = chosen.predict_proba(logits, features=features)
    turned = chosen.predict_proba(logits, features=features[columns[::-1]])
    np.testing.assert_array_equal(turned, expected)
    with pytest.raises(dc.errors.InputError, match="class"):
        chosen.predict_proba(logits[list(classes[::-1])], features=features)
    chosen.save(tmp_path / "model.safetensors")
    loaded = dc.load(tmp_path / "model.safetensors")
    assert (loaded.class_names_, loaded.feature_columns_) == (classes, tuple(columns))
    np.testing.assert_array_equal(
        loaded.predict_proba(logits, features=features[columns[::-1]]), expected
    )


def test_tensors_give_the_choice_of_arrays(device):
    torch = pytest.importorskip("torch")
    z, x = (torch.tensor(values, device=device) for values in (DATA.logits, DATA.features))
    candidates = [WINNER, dc.MaxSoftmax()]
    arrays = fit(dc.AutoCalibration(candidates), DATA)
    tensors = dc.AutoCalibration(candidates).fit(z, DATA.labels, features=x, domains=DATA.domains)
    assert type(tensors.best_) is type(arrays.best_) is type(WINNER)
    np.testing.assert_allclose(
        tensors.selection_[["ece", "excess", "nll"]],
        arrays.selection_[["ece", "excess", "nll"]], rtol=1e-6,
    )  # fmt: skip
    found = tensors.predict_proba(z, features=x)
    assert isinstance(found, torch.Tensor)
    assert found.device.type == z.device.type
    expected = arrays.predict_proba(DATA.logits, features=DATA.features)
    np.testing.assert_allclose(found.cpu().numpy(), expected, rtol=1e-6)

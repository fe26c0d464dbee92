"""What a curious reader of the files of sites tries to compute: single rows of the data."""

import warnings

import numpy as np
import pytest

import domaincal as dc
from domaincal.calibrators.batch.batch_rows import domain_rows, row_values
from domaincal.calibrators.batch.batch_training import BATCHES
from domaincal.data.blocked_rows import as_rows
from domaincal.distributed import (
    answer_plan,
    combine_sites,
    load_site,
    plan_second_round,
    site_disclosure,
    summarize_site,
)
from domaincal.distributed.site_plan import SitePlan
from domaincal.errors import BoundaryWarning, FileFormatError, InputError
from domaincal.statistics import feature_products

MdTs = dc.MultiDomainTemperatureScaling
RIDGE = MdTs(head="ridge")
BATCH = dc.BatchTemperatureScaling()


def make_rows(sizes, *, n_features=6, n_classes=5, seed=0):
    """Domains a, b, ... of these sizes, with features that are all different."""
    random, n = np.random.default_rng(seed), sum(sizes)
    labels = random.integers(n_classes, size=n)
    logits = 2 * random.normal(size=(n, n_classes))
    logits[np.arange(n), labels] += 2.5
    return dc.CalibrationData(
        logits, labels=labels, features=random.normal(size=(n, n_features)),
        domains=np.repeat(list("abcdefgh")[: len(sizes)], sizes),
    )  # fmt: skip


def fitted(calibrator, rows):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return calibrator.fit(rows)


def with_values(rows, column, numbers, common, *, names=None):
    """The rows with a feature that differs from ``common`` in the rows of these numbers only."""
    features = rows.features.copy()
    features[:, column] = common
    features[numbers, column] = common + np.linspace(0.5, 0.9, len(numbers))
    return dc.CalibrationData(
        rows.logits, labels=rows.labels, features=features, domains=rows.domains,
        feature_names=names,
    )  # fmt: skip


def test_the_products_of_a_rare_feature_would_be_a_row():
    """The attack: an indicator that is 1 in one row makes its line of ``gram`` that row."""
    rows = with_values(make_rows([100, 100]), 3, [123], 0.0)
    with pytest.raises(InputError, match=r"the feature 3 \(1 row\) differs .* of domain 'b'"):
        summarize_site(rows)
    allowed = summarize_site(rows, min_rows=1).features
    found = allowed.gram[3] / allowed.moments[1, 3]
    np.testing.assert_allclose(found, rows.features[123])


@pytest.mark.parametrize("common", [0.0, -3.7])
@pytest.mark.parametrize("n", [1, 2, 30, 49])
def test_features_that_differ_in_few_rows_of_a_domain_are_refused_by_name(n, common):
    rows = make_rows([120, 300])
    names = tuple(f"x{j}" for j in range(6))
    random = np.random.default_rng(n)
    rare = with_values(rows, 2, 120 + random.permutation(300)[:n], common, names=names)
    with pytest.raises(InputError, match=rf"the feature 'x2' \({n} rows?\) differs .* domain 'b'"):
        summarize_site(rare)
    # Many rows of another domain do not hide those of this one.
    mixed = with_values(rows, 2, np.append(np.arange(60), 120 + np.arange(n)), common, names=names)
    with pytest.raises(InputError, match=r"feature 'x2' .* domain 'b'"):
        summarize_site(mixed)
    assert summarize_site(rare, features="none").features is None


def test_features_that_are_constant_or_vary_are_summed():
    rows = make_rows([120, 60])
    for numbers in (
        [],
        np.arange(120),
        np.arange(50),
        np.append(np.arange(50), np.arange(120, 150)),
    ):
        given = with_values(rows, 0, numbers, 0.0)
        found = combine_sites([summarize_site(given)], MdTs(head="ridge", alpha=1.0))
        expected = fitted(MdTs(head="ridge", alpha=1.0), given)
        np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-8)
    with pytest.raises(InputError, match=r"the feature 0 \(29 rows\) differs .* domain 'b'"):
        summarize_site(with_values(rows, 0, np.append(np.arange(50), np.arange(120, 149)), 0.0))
    # A domain that is not used has no sums.
    labels = np.where(rows.domains == "b", np.argmax(rows.logits, axis=1), rows.labels)
    right = dc.CalibrationData(
        rows.logits, labels=labels, domains=rows.domains,
        features=with_values(rows, 0, np.append(np.arange(60), 120), 0.0).features,
    )  # fmt: skip
    assert not summarize_site(right).features.moments[1].any()


@pytest.mark.parametrize("min_rows", [1, 2, 7, 40])
def test_counts_of_differing_rows_are_those_of_each_column(min_rows, monkeypatch, tmp_path):
    random = np.random.default_rng(min_rows)
    n, n_domains = 400, 4
    codes = random.choice(n_domains, n, p=[0.5, 0.3, 0.15, 0.05])
    share = random.uniform(0, 0.3, 30) ** 2
    x = np.where(random.random((n, 30)) < share, random.integers(1, 4, (n, 30)), 0)
    x = x + np.where(random.random(30) < 0.5, 0.0, 2.5) + codes[:, None] * (np.arange(30) % 3)
    n_rows = np.bincount(codes, minlength=n_domains).astype(float)
    fewest = np.minimum(min_rows, (n_rows.astype(int) + 1) // 2)
    expected = np.array(
        [
            [len(own) - np.unique(own, return_counts=True)[1].max() for own in x[codes == k].T]
            for k in range(n_domains)
        ]
    )
    rows = dc.CalibrationData(
        random.normal(size=(n, 3)), labels=codes % 3, features=x, domains=codes
    )
    store = dc.Store(tmp_path / "rows")
    store.write(rows)
    used = np.array([True, True, False, True])
    monkeypatch.setattr(feature_products, "BLAS_BLOCK_BYTES", 1 << 12)
    blocked = as_rows(store)
    blocks = blocked.features, blocked.domains.codes
    for features, domain in ((x, codes), blocks):
        found = site_disclosure.rows_that_differ(features, domain, n_rows, used, fewest)
        below = (expected < fewest[:, None]) & used[:, None]
        assert below.any()
        np.testing.assert_array_equal(found[below], expected[below])
        assert (found >= fewest[:, None])[~below].all()


def test_a_second_round_refuses_what_the_first_refuses():
    rows = make_rows([80, 90, 100, 120, 110])
    rare = with_values(rows, 1, [3], 0.0)
    sums = [summarize_site(rare, min_rows=1, search=True)]
    for method in (RIDGE, BATCH):
        plan = plan_second_round(sums, method)
        with pytest.raises(InputError, match=r"the feature 1 \(1 row\) differs"):
            answer_plan(rare, plan)
        answer_plan(rare, plan, min_rows=1)
    plan = plan_second_round([summarize_site(with_wrong(2), min_rows=1)], dc.TemperatureScaling())
    with pytest.raises(InputError, match="fewer than 5 rows are predicted wrong"):
        answer_plan(with_wrong(2), plan)


def with_wrong(n_wrong, n=60, n_classes=4):
    """A domain with this number of wrong rows, as a good classifier has."""
    random = np.random.default_rng(n_wrong)
    labels, logits = random.integers(n_classes, size=n), random.normal(size=(n, n_classes))
    logits[np.arange(n), labels] += 6
    logits[:n_wrong] = 1.5 * random.normal(size=(n_wrong, n_classes))
    labels[:n_wrong] = np.argsort(logits[:n_wrong], axis=1)[:, -2]
    return dc.CalibrationData(logits, labels=labels, domains=np.repeat("ward", n))


def margins(rows):
    own = rows.logits[np.arange(len(rows)), rows.labels]
    gaps = rows.logits.max(axis=1) - own
    return gaps[gaps > 0]


@pytest.mark.parametrize("n_wrong", [1, 2, 4])
def test_domains_with_few_wrong_rows_are_refused(n_wrong):
    """The attack: at low temperatures, the slope is the sum of the margins of the wrong rows."""
    rows = with_wrong(n_wrong)
    with pytest.raises(InputError, match="fewer than 5 rows are predicted wrong in domain 'ward'"):
        summarize_site(rows)
    assert len(margins(rows)) == n_wrong
    upside_down = dc.CalibrationData(
        -rows.logits[:, :2], domains=rows.domains,
        labels=np.where(np.arange(60) < n_wrong, np.argmin(rows.logits[:, :2], axis=1),
                        np.argmax(rows.logits[:, :2], axis=1)),
    )  # fmt: skip
    with pytest.raises(InputError, match="fewer than 5 rows are predicted right in domain 'ward'"):
        summarize_site(upside_down)


def test_sums_end_where_wrong_rows_are_not_yet_alone():
    for n_wrong in (5, 6, 9):
        rows = with_wrong(n_wrong)
        sums = summarize_site(rows)
        highest = -np.log(sums.fit.temperature.min()) + np.log(4)
        assert sums.curve.log_beta[-1] <= highest + 0.25
        total = margins(rows).sum()
        assert abs(sums.curve.sums[-1, 1] / total - 1) > 1e-3
        # The squares would give the margins of two wrong rows.
        assert abs(sums.curve.sums[-1, 3] / (margins(rows) ** 2).sum() - 1) > 1e-3


def test_the_log_loss_of_a_domain_without_wrong_rows_stays():
    """At its bound it would be that of the row with the smallest margin."""
    good = with_wrong(0)
    logits = good.logits.copy()
    best, second = np.argsort(-logits[0])[:2]
    logits[0, second] = logits[0, best] - 0.01
    rows = dc.CalibrationData(logits, labels=good.labels, domains=good.domains)
    expected = fitted(dc.TemperatureScaling(), rows)
    sums = summarize_site(rows)
    assert sums.fit.at_bound.all()
    assert sums.fit.temperature[0] == pytest.approx(expected.temperature_)
    assert np.log1p(np.exp(-0.01 / expected.temperature_)) / len(rows) > 1e-3
    assert sums.fit.nll.tolist() == [0.0]


def test_who_plans_the_batches_does_not_know_which_rows_are_in_them():
    """The attack: means of batches with known rows are linear equations in the rows."""
    rows = make_rows([60] * 4)
    n, sums = 60, summarize_site(rows)
    size = np.repeat(list(BATCHES), list(BATCHES.values()))
    batch = np.repeat(np.arange(len(size)), size)
    equations, means = [], []
    for seed in range(8):
        plan = plan_second_round([sums], dc.BatchTemperatureScaling(random_state=seed))
        answers = answer_plan(rows, plan)
        # The batches of a generator that only knows what the plan and the file hold.
        random = np.random.default_rng(seed)
        drawn = np.minimum((random.random(len(batch)) * n).astype(int), n - 1)
        for j, own in enumerate(BATCHES):
            of_size = drawn[np.isin(batch, np.flatnonzero(size == own))]
            equations.append(np.bincount(of_size, minlength=n) / len(of_size))
            means.append(answers.moments.batch_means[0, j])
    found = np.linalg.lstsq(np.array(equations), np.array(means), rcond=None)[0]
    batches = plan.batches
    chosen = domain_rows(rows.logits, rows.domain_codes[0], np.array([0]), None)[0]
    values = row_values(
        rows.logits, rows.features, chosen.rows, beta=float(np.exp(-batches.log_pooled)),
        directions=batches.directions,
    )  # fmt: skip
    true = values.sums(np.arange(n), n).statistics()
    spread = true.std(axis=0)
    error = np.sqrt(np.mean((found - true) ** 2, axis=0))
    assert (error > 0.5 * spread)[spread > 0].all()


def test_two_answers_to_a_plan_are_of_other_batches():
    rows = make_rows([60] * 4)
    plan = plan_second_round([summarize_site(rows)], BATCH)
    one, other = (answer_plan(rows, plan) for _ in range(2))
    np.testing.assert_array_equal(one.moments.profiles, other.moments.profiles)
    assert (one.moments.batch_means[:, 0, 0] != other.moments.batch_means[:, 0, 0]).all()
    assert "seed" not in plan.content()[0]
    assert "only this site knows which rows are in them" in " ".join(one.remarks())
    assert "every answered plan tells more" in " ".join(one.remarks())


@pytest.fixture(scope="module")
def planned():
    rows = make_rows([80, 90, 100, 120, 110])
    sums = [summarize_site(rows, search=True)]
    methods = {"points": dc.TemperatureScaling(), "search": RIDGE, "batches": BATCH}
    return rows, {name: plan_second_round(sums, method) for name, method in methods.items()}


def changed(plan, **arrays):
    header, known = plan.content()
    known |= {name: change(known[name]) for name, change in arrays.items()}
    return header, known


#: Plan, changed array, and what the error says.
FORGED = {
    "many points": ("points", {"log_beta": lambda u: np.linspace(-3, 3, 9)}, "three near points"),
    "wide points": ("points", {"log_beta": lambda u: u[1] + np.arange(3.0)}, "three near points"),
    "low temperature": ("points", {"log_beta": lambda u: u + 5}, "far from those of the domains"),
    "high temperature": ("points", {"log_beta": lambda u: u - 9}, "far from those of the domains"),
    "far folds": ("search", {"pooled": lambda t: t * 1e-3}, "far from those of the domains"),
    "coef": ("search", {"coef": lambda c: c * np.nan}, "coef is nan"),
    "candidates": (
        "search",
        {"coef": lambda c: np.tile(c, (1, 2, 1)), "intercept": lambda b: np.tile(b, (1, 2))},
        "coef is of 18 candidates",
    ),
    "far batches": ("batches", {"log_pooled": lambda u: u - 6}, "far from those of the domains"),
    "directions": ("batches", {"directions": lambda d: d * 1e9}, "directions are too long"),
    "many": ("batches", {"directions": lambda d: np.tile(d, (1, 2))}, "directions has 12 columns"),
    "scale": ("batches", {"scale": lambda s: -s}, "scale is -"),
}


@pytest.mark.parametrize("case", FORGED)
def test_plans_that_were_not_made_by_the_protocol_are_refused(case, planned, tmp_path):
    """As a file and as an object."""
    from domaincal.distributed.site_file import PLAN, write_site_file

    rows, plans = planned
    name, arrays, message = FORGED[case]
    plan = plans[name]
    answer_plan(rows, plan)
    path = tmp_path / "plan.safetensors"
    write_site_file(path, PLAN, *changed(plan, **arrays))
    with pytest.raises((InputError, FileFormatError), match=message):
        answer_plan(rows, load_site(path))
    forged = _forged(plan, **arrays)
    with pytest.raises((InputError, FileFormatError), match=message):
        answer_plan(rows, forged)


def _forged(plan, **arrays):
    """The same plan as an object, whose numbers no file has checked."""

    class Forged(SitePlan):
        def content(self):
            return changed(plan, **arrays)

    return Forged(plan.rows, plan.identity, plan.log_beta, plan.search, plan.batches)


def test_a_plan_at_the_bound_of_all_sites_is_answered():
    rows = with_wrong(0)
    sums = [summarize_site(rows)]
    plan = plan_second_round(sums, dc.TemperatureScaling())
    assert plan.log_beta[0] < sums[0].curve.log_beta[-1]
    with pytest.warns(BoundaryWarning):
        found = combine_sites([*sums, answer_plan(rows, plan)], dc.TemperatureScaling())
    with pytest.warns(BoundaryWarning):
        expected = dc.TemperatureScaling().fit(rows)
    assert found.temperature_ == pytest.approx(expected.temperature_, rel=1e-10)


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ([300, 300, 50], "The 50 rows of a domain are"),
        ([300, 20, 300, 30, 300], "The 50 rows of 2 domains are"),
        ([30, 30], "The 60 rows of the site are"),
        ([60, 60], None),
        ([100, 80, 70], None),
    ],
)
def test_products_of_few_rows_that_others_can_be_subtracted_from_are_named(sizes, said):
    """The attack: a multiple of gram_equal minus gram is without the domains of one size."""
    rows = make_rows(sizes, n_features=64)
    sums = summarize_site(rows, min_rows=20)
    remarks = [remark for remark in sums.remarks() if "rotation" in remark]
    assert len(remarks) == (said is not None)
    if said is not None:
        assert said in remarks[0]
        assert "not more than the 64 features" in remarks[0]
    if sizes == [300, 300, 50]:
        features = sums.features
        found = (300 * features.gram_equal - features.gram) / (300 / 50 - 1)
        own = rows.features[rows.domains == "c"]
        np.testing.assert_allclose(found, own.T @ own, atol=1e-9)


def masked(n, names, *, right, value, seed):
    """Rows with a class whose logit is ``value``, as of masked classes."""
    random = np.random.default_rng(seed)
    labels, logits = random.integers(6, size=n), 2 * random.normal(size=(n, 6))
    logits[np.arange(n), labels] += 20 if right else 2
    if value is not None:
        logits[np.arange(n), (labels + 1) % 6] = value
    return dc.CalibrationData(
        logits, labels=labels, features=random.normal(size=(n, 5)) + 1,
        domains=np.array(names)[np.arange(n) % len(names)],
    )  # fmt: skip


def test_md_ts_needs_no_pooled_temperature_if_a_domain_is_used(tmp_path):
    parts = [
        masked(800, list("abcd"), right=False, value=None, seed=0),
        masked(200, ["z"], right=True, value=-1e4, seed=1),
    ]
    rows = dc.CalibrationData(
        *(np.concatenate([getattr(p, name) for p in parts]) for name in ("logits",)),
        **{name: np.concatenate([getattr(p, name) for p in parts])
           for name in ("labels", "features", "domains")},
    )  # fmt: skip
    expected = fitted(MdTs(), rows)
    sums = [summarize_site(part) for part in parts]
    with pytest.warns(BoundaryWarning) as caught:
        found = combine_sites(sums, MdTs())
    said = [str(one.message) for one in caught]
    assert any("the pooled temperature is unknown (NaN)" in message for message in said)
    np.testing.assert_allclose(
        found.predict_temperature(rows), expected.predict_temperature(rows), rtol=1e-8
    )
    assert np.isnan(found.temperature_)
    found.save(tmp_path / "model.safetensors")
    loaded = dc.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(loaded.predict_temperature(rows), found.predict_temperature(rows))
    assert np.isnan(loaded.temperature_)
    page = loaded._repr_html_()
    assert "unknown" in page
    assert "nan" not in page
    with pytest.raises(InputError, match="no temperature of all rows was found"):
        plan_second_round(sums, dc.TemperatureScaling())

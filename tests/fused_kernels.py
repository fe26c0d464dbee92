"""Compare the fused kernels with the numpy kernels, on a GPU or in Triton's interpreter.

Run ``TRITON_INTERPRET=1 python tests/fused_kernels.py`` in its own process: Triton decides when it
defines a kernel whether it is interpreted.
"""

import itertools
import warnings

import numpy as np
import torch

from domaincal.kernels import (
    device_groups,
    numpy_kernels,
    triton_batches,
    triton_features,
    triton_kernels,
)
from domaincal.kernels.device_groups import RowGroups
from domaincal.statistics.batch_sums import RowStatistics


def compare(n: int, n_classes: int, n_domains: int, dtype: torch.dtype, device: str) -> None:
    draws = torch.Generator().manual_seed(n)
    logits = (3 * torch.randn(n, n_classes + 3, generator=draws)).to(dtype)[:, :n_classes]
    labels = torch.randint(0, n_classes, (n,), generator=draws)
    domains = torch.randint(0, n_domains, (n,), generator=draws)
    weights = torch.rand(n, generator=draws, dtype=torch.float64)
    each = torch.rand(n, generator=draws, dtype=torch.float64) + 0.2
    each[n // 2] = torch.nan
    exact = logits.double().numpy()
    for domain, weight, per_row, step in itertools.product(
        (None, domains), (None, weights), (False, True), (1, 3)
    ):
        many = 1 if domain is None else n_domains
        beta = each if per_row else torch.linspace(0.5, 1.5, many, dtype=torch.float64)
        groups = RowGroups(
            n, torch.device(device), None if domain is None else domain.to(device), many
        )
        found = triton_kernels.temperature_sums(
            logits.to(device), labels.to(device), beta.to(device), groups,
            weight=None if weight is None else weight.to(device), per_row=per_row, step=step,
        )  # fmt: skip
        some = np.arange(n) if domain is None else np.argsort(domains.numpy(), kind="stable")
        some = some[::step]
        of_rows = beta if per_row else beta[domains if domain is not None else 0].expand(n)
        expected = numpy_kernels.temperature_sums(
            exact[some], labels.numpy()[some], of_rows.numpy()[some],
            np.empty(0) if weight is None else weight.numpy()[some],
            np.empty(0, np.int64) if domain is None else domain.numpy()[some], many,
        )  # fmt: skip
        scale = np.abs(expected).max(axis=0)
        np.testing.assert_allclose(found.cpu() / scale, expected / scale, rtol=1e-5, atol=1e-6)
    each[n // 2] = 1.0
    for beta in (each, each[-1:]):
        top, classes = numpy_kernels.top_label(exact, beta.numpy())
        confidence, predicted, bad = triton_kernels.top_label(logits.to(device), beta.to(device))
        np.testing.assert_allclose(confidence.cpu(), top, rtol=1e-5)
        np.testing.assert_array_equal(predicted.cpu(), classes)
        assert not int(bad)
        p = np.empty(exact.shape)
        numpy_kernels.softmax(exact, beta.numpy(), p)
        found, bad = triton_kernels.softmax(logits.to(device), beta.to(device))
        np.testing.assert_allclose(found.cpu(), p, rtol=1e-4, atol=1e-6)
        assert not int(bad)


def a_group_without_a_temperature(device: str) -> None:
    """A group with NaN has converged: its sums are 0."""
    groups = RowGroups(4, torch.device(device), torch.tensor([0, 1, 0, 1], device=device), 2)
    beta = torch.tensor([torch.nan, 1.0], dtype=torch.float64, device=device)
    sums = triton_kernels.temperature_sums(
        torch.eye(4, device=device), torch.zeros(4, dtype=torch.long, device=device), beta, groups,
        weight=None, per_row=False, step=1,
    )  # fmt: skip
    assert sums[0].tolist() == [0.0] * 6
    assert sums[1, 0] == 2.0


def sums_of_features(
    n: int, n_features: int, n_domains: int, dtype: torch.dtype, device: str
) -> None:
    draws = torch.Generator().manual_seed(n)
    x = torch.randn(n, n_features + 3, generator=draws).to(dtype)[:, :n_features]
    domains = torch.randint(0, n_domains, (n,), generator=draws)
    weights = torch.rand(n, generator=draws, dtype=torch.float64)
    coef = torch.randn(n_features, generator=draws, dtype=torch.float64)
    exact = x.double()
    found = triton_features.linear_values(x.to(device), coef.to(device))
    np.testing.assert_allclose(found.cpu(), exact @ coef, rtol=1e-12, atol=1e-12)
    for domain, weight in itertools.product((None, domains), (None, weights)):
        many = 1 if domain is None else n_domains
        groups = RowGroups(
            n, torch.device(device), None if domain is None else domain.to(device), many
        )
        sent = None if weight is None else weight.to(device)
        sums = triton_features.feature_sums(x.to(device), groups, sent)
        terms = exact if weight is None else exact * weight[:, None]
        codes = torch.zeros(n, dtype=torch.long) if domain is None else domain
        expected = torch.zeros(many, n_features, dtype=torch.float64).index_add_(0, codes, terms)
        np.testing.assert_allclose(sums.cpu(), expected, rtol=1e-12, atol=1e-12)


def sums_of_batches(
    n: int, n_classes: int, n_batches: int, dtype: torch.dtype, device: str
) -> None:
    draws = torch.Generator().manual_seed(n)
    logits = (3 * torch.randn(n, n_classes + 3, generator=draws)).to(dtype)[:, :n_classes]
    logits[0] = 0  # the confidence is the edge of a bin for 10 classes
    logits[1, :2] = 40  # two classes are certain
    logits[2, 1:] = -6e4
    batch = torch.randint(0, n_batches, (n,), generator=draws)
    sums = triton_batches.batch_sums(
        logits.to(device), 0.7, RowGroups(n, torch.device(device), batch.to(device), n_batches), 100
    ).cpu()
    exact = RowStatistics.from_rows(logits.double().numpy(), 0.7).sums(batch.numpy(), n_batches)
    values, probabilities, histogram = sums.split([6, n_classes, 100], dim=1)
    scale = np.abs(exact.values).max(axis=0)
    np.testing.assert_allclose(values / scale, exact.values / scale, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(probabilities, exact.probabilities, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(histogram, exact.histogram)


def not_finite(device: str) -> None:
    one = torch.ones(1, dtype=torch.float64, device=device)
    for bad in (torch.nan, torch.inf, -torch.inf):
        logits = torch.randn(8, 5)
        logits[3, 2] = bad
        logits = logits.to(device)
        sums = triton_kernels.temperature_sums(
            logits, torch.zeros(8, dtype=torch.long, device=device), one,
            RowGroups(8, torch.device(device)), weight=None, per_row=False, step=1,
        )  # fmt: skip
        assert not sums[0, 2].isfinite()
        confidence, _, flag = triton_kernels.top_label(logits, one)
        assert int(flag)
        assert confidence.isnan().nonzero().tolist() == [[3]]
        assert int(triton_kernels.softmax(logits, one)[1])
        groups = RowGroups(8, torch.device(device), torch.arange(8, device=device), 8)
        assert triton_batches.batch_sums(logits, 1.0, groups, 100)[:, 0].isnan().tolist() == [
            row == 3 for row in range(8)
        ]


if __name__ == "__main__":
    warnings.simplefilter("ignore", RuntimeWarning)  # numpy warns of NaN in the interpreter
    # So that few rows give several runs.
    device_groups.MOST_RUN_ROWS, device_groups.LEAST_RUN_ROWS = 32, 8
    place = "cuda" if torch.cuda.is_available() else "cpu"
    for case in (
        (100, 10, 3, torch.float32),
        (37, 200, 5, torch.float16),
        (60, 40, 50, torch.bfloat16),
        (200, 20, 7, torch.float32),
        (9, 5000, 2, torch.float32),
        (3, 2, 1, torch.float32),
    ):
        compare(*case, place)
    for case in (
        (100, 10, 3, torch.float32),
        (37, 300, 5, torch.float16),
        (90, 40, 70, torch.bfloat16),
        (40, 20, 7, torch.float64),
    ):
        sums_of_features(*case, place)
    for case in (
        (100, 10, 3, torch.float32),
        (60, 200, 5, torch.float16),
        (40, 2, 30, torch.bfloat16),
        (9, 1500, 1, torch.float32),
    ):
        sums_of_batches(*case, place)
    a_group_without_a_temperature(place)
    not_finite(place)
    print("the fused kernels agree on", place)

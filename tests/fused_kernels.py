"""The fused kernels against the plain ones: on a GPU, or in Triton's interpreter without one.

``TRITON_INTERPRET=1 python tests/fused_kernels.py``, in a process of its own: Triton decides when
kernels are defined whether they are interpreted.
"""

import itertools
import warnings

import numpy as np
import torch

from domaincal.kernels import numpy_kernels, triton_kernels


def compare(n: int, n_classes: int, n_groups: int, dtype: torch.dtype, device: str) -> None:
    draws = torch.Generator().manual_seed(n)
    logits = (3 * torch.randn(n, n_classes + 3, generator=draws)).to(dtype)[:, :n_classes]
    labels = torch.randint(0, n_classes, (n,), generator=draws)
    groups = torch.randint(0, n_groups, (n,), generator=draws)
    weights = torch.rand(n, generator=draws, dtype=torch.float64)
    each = torch.rand(n, generator=draws, dtype=torch.float64) + 0.2
    each[n // 2] = torch.nan
    one = torch.tensor([0.7], dtype=torch.float64)
    for group, weight, beta in itertools.product((None, groups), (None, weights), (one, each)):
        many = 1 if group is None else n_groups
        found = triton_kernels.temperature_sums(
            logits.to(device),
            labels.to(device),
            beta.to(device),
            weight=None if weight is None else weight.to(device),
            group=None if group is None else group.to(device),
            n_groups=many,
        )
        expected = numpy_kernels.temperature_sums(
            logits.double().numpy(),
            labels.numpy(),
            beta.numpy(),
            np.empty(0) if weight is None else weight.numpy(),
            np.empty(0, np.int64) if group is None else group.numpy(),
            many,
        )
        scale = np.abs(expected).max(axis=0)
        np.testing.assert_allclose(found.cpu() / scale, expected / scale, rtol=1e-5, atol=1e-6)


def not_finite(device: str) -> None:
    for bad in (torch.nan, torch.inf, -torch.inf):
        logits = torch.randn(8, 5)
        logits[3, 2] = bad
        sums = triton_kernels.temperature_sums(
            logits.to(device), torch.zeros(8, dtype=torch.long, device=device),
            torch.ones(1, dtype=torch.float64, device=device), weight=None, group=None, n_groups=1,
        )  # fmt: skip
        assert not sums[0, 2].isfinite()


if __name__ == "__main__":
    warnings.simplefilter("ignore", RuntimeWarning)  # of the interpreter: numpy's, where NaN is met
    triton_kernels._SLAB_ROWS = 128  # several of them, also of few rows
    place = "cuda" if torch.cuda.is_available() else "cpu"
    for case in (
        (100, 10, 3, torch.float32),
        (37, 200, 5, torch.float16),
        (150, 1000, 130, torch.bfloat16),
        (700, 20, 7, torch.float32),
        (9, 5000, 2, torch.float32),
        (3, 2, 1, torch.float32),
    ):
        compare(*case, place)
    not_finite(place)
    print("the fused kernels agree on", place)

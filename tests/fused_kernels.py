"""Compare the fused kernels with the numpy kernels, on a GPU or in Triton's interpreter.

Run ``TRITON_INTERPRET=1 python tests/fused_kernels.py`` in its own process: Triton decides when it
defines a kernel whether it is interpreted.
"""

import itertools
import warnings

import numpy as np
import torch

from domaincal.kernels import numpy_kernels, triton_kernels


def compare(n: int, n_classes: int, n_domains: int, dtype: torch.dtype, device: str) -> None:
    draws = torch.Generator().manual_seed(n)
    logits = (3 * torch.randn(n, n_classes + 3, generator=draws)).to(dtype)[:, :n_classes]
    labels = torch.randint(0, n_classes, (n,), generator=draws)
    domains = torch.randint(0, n_domains, (n,), generator=draws)
    weights = torch.rand(n, generator=draws, dtype=torch.float64)
    each = torch.rand(n, generator=draws, dtype=torch.float64) + 0.2
    each[n // 2] = torch.nan
    one = torch.tensor([0.7], dtype=torch.float64)
    for domain, weight, beta in itertools.product((None, domains), (None, weights), (one, each)):
        many = 1 if domain is None else n_domains
        found = triton_kernels.temperature_sums(
            logits.to(device),
            labels.to(device),
            beta.to(device),
            weight=None if weight is None else weight.to(device),
            domain=None if domain is None else domain.to(device),
            n_domains=many,
        )
        expected = numpy_kernels.temperature_sums(
            logits.double().numpy(),
            labels.numpy(),
            beta.numpy(),
            np.empty(0) if weight is None else weight.numpy(),
            np.empty(0, np.int64) if domain is None else domain.numpy(),
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
            torch.ones(1, dtype=torch.float64, device=device),
            weight=None, domain=None, n_domains=1,
        )  # fmt: skip
        assert not sums[0, 2].isfinite()


if __name__ == "__main__":
    warnings.simplefilter("ignore", RuntimeWarning)  # numpy warns of NaN in the interpreter
    triton_kernels.SLAB_ROWS = 128  # so that few rows give several slabs
    place = "cuda" if torch.cuda.is_available() else "cpu"
    for case in (
        (100, 10, 3, torch.float32),
        (37, 200, 5, torch.float16),
        (150, 40, 130, torch.bfloat16),
        (700, 20, 7, torch.float32),
        (9, 5000, 2, torch.float32),
        (3, 2, 1, torch.float32),
    ):
        compare(*case, place)
    not_finite(place)
    print("the fused kernels agree on", place)

"""Half precision is accurate, and falls back to float32 where it overflows."""

import time

import numpy as np
import pytest
import torch

import domaincal as dc
from domaincal.vision import Network, extract
from networks.conftest import extract_rows, photos, small_network


def test_logits_that_are_not_finite_are_refused(tmp_path):
    network = small_network()
    with torch.no_grad():
        network.module[5].weight[0, 0] = torch.inf
    with pytest.raises(
        dc.errors.InputError, match="returns values that are not finite; check its weights"
    ):
        extract_rows(tmp_path, "rows", network)


def beyond_half_precision() -> tuple[Network, list[tuple[torch.Tensor, torch.Tensor]]]:
    """Network and three batches; the second batch overflows in float16."""
    network = small_network()
    with torch.no_grad():
        network.module[0].weight.mul_(1e4)
        network.module[0].bias.zero_()
        network.module[1].running_var.mul_(1e8)
    random = torch.Generator().manual_seed(0)
    labels = torch.tensor([0, 1, 0, 1])
    pixels = [scale * torch.randn(4, 3, 16, 16, generator=random) for scale in (1.0, 100.0, 1.0)]
    return network, [(images, labels) for images in pixels]


@pytest.mark.parametrize("shard_rows", [4, 100])
def test_batches_that_overflow_are_computed_again_in_float32(shard_rows, tmp_path):
    network, batches = beyond_half_precision()
    exact = extract_rows(tmp_path, "exact", network, batches)
    with pytest.warns(
        dc.DomaincalWarning, match="4 of 12 images were computed again in float32"
    ) as caught:
        data = extract_rows(
            tmp_path, "rows", network, batches, precision="float16", shard_rows=shard_rows
        )
    assert caught[0].filename.endswith("conftest.py")  # which calls extract
    np.testing.assert_array_equal(data.logits[4:8], exact.logits[4:8])
    assert not np.array_equal(
        data.logits, exact.logits
    )  # the other rows are computed in half precision
    np.testing.assert_allclose(data.logits, exact.logits, rtol=2e-3)
    np.testing.assert_allclose(data.features, exact.features, rtol=2e-3)
    assert data.features.dtype == np.float16


def test_loader_may_reuse_the_memory_of_its_images(tmp_path):
    """A batch that overflows is computed again before the next batch is loaded."""
    network, batches = beyond_half_precision()

    def loader():
        images = torch.empty(4, 3, 16, 16)
        for given, labels in batches:
            yield images.copy_(given), labels

    exact = extract_rows(tmp_path, "exact", network, batches)
    with pytest.warns(dc.DomaincalWarning, match="4 of 12 images"):
        data = extract_rows(tmp_path, "rows", network, loader(), precision="float16")
    np.testing.assert_array_equal(data.logits[4:8], exact.logits[4:8])


def test_features_that_overflow_in_float16_are_refused(tmp_path):
    network, batches = beyond_half_precision()
    with torch.no_grad():
        network.module[1].weight.fill_(1e4)
    with pytest.raises(
        dc.errors.InputError, match="in float16, in which they are stored; pass precision='fl"
    ):
        extract_rows(tmp_path, "rows", network, batches, precision="float16")
    assert len(dc.Store(tmp_path / "rows")) == 4  # the first batch


@pytest.mark.parametrize("bad", [1, 2])
def test_rows_before_values_that_are_not_finite_are_kept(bad, tmp_path):
    _, batches = beyond_half_precision()
    batches[bad][0][0] = torch.nan
    with pytest.raises(dc.errors.InputError, match="not finite"):
        extract_rows(tmp_path, "rows", images=batches)
    assert len(dc.Store(tmp_path / "rows")) == 4 * bad


def test_features_that_are_not_finite_are_refused(tmp_path):
    network = small_network()
    with torch.no_grad():
        network.module[5].weight.zero_()
        network.module[1].weight.fill_(1e30)
        network.module[0].weight.mul_(1e30)
    with pytest.raises(
        dc.errors.InputError, match="returns values that are not finite; check its weights"
    ):
        extract_rows(tmp_path, "rows", network)


def test_error_of_a_batch_is_raised_before_the_next_shard_is_full(tmp_path):
    shown = []

    def loader():
        for k in range(1000):
            shown.append(k)
            yield torch.full((1, 3, 16, 16), torch.nan if k == 0 else 1.0), torch.tensor([0])
            time.sleep(0.005)

    with pytest.raises(dc.errors.InputError, match="not finite"):
        extract(small_network(), loader(), tmp_path / "rows", device="cpu", shard_rows=500)
    assert len(shown) < 1000


def test_store_is_resumed_in_its_precision(tmp_path):
    batches = [(torch.randn(4, 3, 16, 16), torch.tensor([0, 1, 0, 1]))] * 2
    begun = extract_rows(tmp_path, "rows", images=batches[:1], precision="bfloat16")
    assert begun.features.dtype == np.float16
    assert begun.logits.dtype == np.float32
    done = extract(small_network(), batches, dc.Store(tmp_path / "rows"), device="cpu")
    assert (done.precision, done.n_rows, done.n_kept) == ("bfloat16", 8, 4)


@pytest.mark.parametrize(
    ("dtype", "precision", "other"),
    [("half", "float16", "bfloat16"), ("bfloat16", "bfloat16", "float32"),
     ("double", "float32", "float16")],
)  # fmt: skip
def test_modules_compute_in_the_type_of_their_weights(dtype, precision, other, tmp_path):
    network = small_network()
    exact = extract_rows(tmp_path, "exact", network)
    getattr(network.module, dtype)()
    done = extract(network, photos(), tmp_path / "rows", device="cpu", n_jobs=0)
    assert (done.precision, done.store.provenance["precision"]) == (precision, precision)
    np.testing.assert_allclose(done.store.read().logits, exact.logits, atol=0.05)
    with pytest.raises(
        dc.errors.InputError, match=rf"precision='{other}', but the weights .* leave out prec"
    ):
        extract_rows(tmp_path, "other", network, precision=other)
    with pytest.raises(dc.errors.InputError, match="exact differs in weights"):
        extract_rows(tmp_path, "exact", network)


def test_module_with_half_precision_weights_has_no_fallback(tmp_path):
    network, batches = beyond_half_precision()
    with pytest.raises(dc.errors.InputError, match=r"not finite; check .* call module.float\(\)"):
        extract_rows(tmp_path, "rows", Network(network.module.half(), "5"), batches)

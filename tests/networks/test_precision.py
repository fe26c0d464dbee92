"""Half precision: what it holds is near, what it cannot hold is shown in float32."""

import time

import numpy as np
import pytest
import torch

import domaincal as dc
from domaincal.vision import Network, extract
from networks.conftest import photos, rows, small_network


def test_values_that_are_not_finite(tmp_path):
    network = small_network()
    with torch.no_grad():
        network.module[5].weight[0, 0] = torch.inf
    with pytest.raises(
        dc.errors.InputError, match="gives values that are not finite; check its weights"
    ):
        rows(tmp_path, "rows", network)


def beyond_half_precision() -> tuple[Network, list[tuple[torch.Tensor, torch.Tensor]]]:
    """Three batches, of which the first and the last stay in the range of float16."""
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
def test_what_half_precision_cannot_hold_is_shown_in_float32(shard_rows, tmp_path):
    network, batches = beyond_half_precision()
    exact = rows(tmp_path, "exact", network, batches)
    with pytest.warns(dc.DomaincalWarning, match="4 of 12 images were shown again in float32"):
        data = rows(tmp_path, "rows", network, batches, precision="float16", shard_rows=shard_rows)
    np.testing.assert_array_equal(data.logits[4:8], exact.logits[4:8])
    assert not np.array_equal(data.logits, exact.logits)  # the others are of half precision
    np.testing.assert_allclose(data.logits, exact.logits, rtol=2e-3)
    np.testing.assert_allclose(data.features, exact.features, rtol=2e-3)
    assert data.features.dtype == np.float16


def test_a_loader_may_fill_its_images_anew(tmp_path):
    """What is shown again are the images that were shown."""
    network, batches = beyond_half_precision()

    def loader():
        images = torch.empty(4, 3, 16, 16)
        for given, labels in batches:
            yield images.copy_(given), labels

    exact = rows(tmp_path, "exact", network, batches)
    with pytest.warns(dc.DomaincalWarning, match="4 of 12 images"):
        data = rows(tmp_path, "rows", network, loader(), precision="float16")
    np.testing.assert_array_equal(data.logits[4:8], exact.logits[4:8])


def test_features_that_float16_cannot_hold(tmp_path):
    network, batches = beyond_half_precision()
    with torch.no_grad():
        network.module[1].weight.fill_(1e4)
    with pytest.raises(
        dc.errors.InputError, match="in float16, as they are stored; pass precision='fl"
    ):
        rows(tmp_path, "rows", network, batches, precision="float16")
    assert len(dc.Store(tmp_path / "rows")) == 4  # the batch before it


@pytest.mark.parametrize("bad", [1, 2])
def test_rows_before_values_that_are_not_finite_are_kept(bad, tmp_path):
    _, batches = beyond_half_precision()
    batches[bad][0][0] = torch.nan
    with pytest.raises(dc.errors.InputError, match="not finite"):
        rows(tmp_path, "rows", images=batches)
    assert len(dc.Store(tmp_path / "rows")) == 4 * bad


def test_infinite_features_are_noticed(tmp_path):
    network = small_network()
    with torch.no_grad():
        network.module[5].weight.zero_()
        network.module[1].weight.fill_(1e30)
        network.module[0].weight.mul_(1e30)
    with pytest.raises(
        dc.errors.InputError, match="gives values that are not finite; check its weights"
    ):
        rows(tmp_path, "rows", network)


def test_an_error_of_a_shard_is_raised_before_the_next_is_full(tmp_path):
    shown = []

    def loader():
        for k in range(1000):
            shown.append(k)
            yield torch.full((1, 3, 16, 16), torch.nan if k == 0 else 1.0), torch.tensor([0])
            time.sleep(0.005)

    with pytest.raises(dc.errors.InputError, match="not finite"):
        extract(small_network(), loader(), tmp_path / "rows", device="cpu", shard_rows=500)
    assert len(shown) < 1000


def test_a_store_goes_on_in_its_own_precision(tmp_path):
    batches = [(torch.randn(4, 3, 16, 16), torch.tensor([0, 1, 0, 1]))] * 2
    begun = rows(tmp_path, "rows", images=batches[:1], precision="bfloat16")
    assert begun.features.dtype == np.float16
    assert begun.logits.dtype == np.float32
    done = extract(small_network(), batches, dc.Store(tmp_path / "rows"), device="cpu")
    assert (done.precision, done.n_rows, done.n_kept) == ("bfloat16", 8, 4)


@pytest.mark.parametrize(
    ("kind", "precision", "other"),
    [("half", "float16", "bfloat16"), ("bfloat16", "bfloat16", "float32"),
     ("double", "float32", "float16")],
)  # fmt: skip
def test_modules_whose_weights_are_not_float32(kind, precision, other, tmp_path):
    network = small_network()
    exact = rows(tmp_path, "exact", network)
    getattr(network.module, kind)()
    done = extract(network, photos(), tmp_path / "rows", device="cpu", n_jobs=0)
    assert (done.precision, done.store.provenance["precision"]) == (precision, precision)
    np.testing.assert_allclose(done.store.read().logits, exact.logits, atol=0.05)
    with pytest.raises(
        dc.errors.InputError, match=rf"precision='{other}', but the weights .* leave prec"
    ):
        rows(tmp_path, "other", network, precision=other)
    with pytest.raises(dc.errors.InputError, match="exact differs in weights"):
        rows(tmp_path, "exact", network)


def test_half_precision_of_the_module_itself_cannot_be_left(tmp_path):
    network, batches = beyond_half_precision()
    with pytest.raises(dc.errors.InputError, match=r"not finite; check .* call module.float\(\)"):
        rows(tmp_path, "rows", Network(network.module.half(), "5"), batches)

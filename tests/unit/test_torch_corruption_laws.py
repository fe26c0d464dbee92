"""Corruptions in torch do not depend on the batch, and work with all tables of constants."""

import json
import sys

import numpy as np
import pytest
from click.testing import CliRunner

import domaincal as dc
from domaincal.cli import main
from domaincal.vision.corruptions.catalogue import CONSTANTS, CORRUPTIONS, SEVERITIES
from natural_images import corrupt_with_torch, natural_images

torch = pytest.importorskip("torch", reason="needs the extra torch")
pytest.importorskip("imagecorruptions", reason="needs the extra corruptions")
Image = pytest.importorskip("PIL.Image")

#: Corruptions without random numbers.
DETERMINISTIC = (
    "defocus_blur",
    "zoom_blur",
    "brightness",
    "contrast",
    "pixelate",
    "jpeg_compression",
)


@pytest.fixture(scope="module")
def images():
    return natural_images(16, 64, 64)


@pytest.mark.parametrize("table", CONSTANTS)
@pytest.mark.parametrize("name", CORRUPTIONS)
def test_every_severity_of_every_table_changes_images_and_keeps_shape_and_type(name, table):
    for size in [(32, 32), (64, 64), (37, 90)]:
        images = torch.from_numpy(natural_images(2, *size))
        before = images.clone()
        made = [dc.vision.corrupt(images, name, s, constants=table) for s in SEVERITIES]
        for one, other in zip(made, [images, *made], strict=False):
            assert (one.dtype, one.shape, one.device) == (torch.uint8, images.shape, images.device)
            assert (one != other).any()
        assert torch.equal(images, before)


@pytest.mark.parametrize("table", CONSTANTS[:2])
@pytest.mark.parametrize("name", CORRUPTIONS)
def test_result_does_not_depend_on_order_batch_or_chunks(name, table, images, monkeypatch):
    images = torch.from_numpy(images[:10].copy())
    images[3] = 128  # flat: the sums are integers, where rounding errors show
    for severity in (2, 5):
        made = dc.vision.corrupt(images, name, severity, random_state=1, constants=table)
        halves = [dc.vision.corrupt(part, name, severity, random_state=1, constants=table)
                  for part in (images[:3], images[3:4], images[4:])]  # fmt: skip
        assert torch.equal(torch.cat(halves), made)
        order = torch.randperm(10, generator=torch.Generator().manual_seed(0))
        assert torch.equal(
            dc.vision.corrupt(images[order], name, severity, 1, constants=table), made[order]
        )
        monkeypatch.setattr(
            "domaincal.vision.corruptions.torch_corruptions.CHUNK_VALUES",
            {"cpu": 3 * 64 * 64 * 3},
        )
        assert torch.equal(
            dc.vision.corrupt(images, name, severity, random_state=1, constants=table), made
        )
        monkeypatch.undo()
        other = dc.vision.corrupt(images, name, severity, random_state=2, constants=table)
        assert torch.equal(other, made) == (name in DETERMINISTIC)


def test_noise_of_nearly_equal_images_is_independent():
    grey = torch.full((2, 64, 64, 3), 128, dtype=torch.uint8)
    grey[1, 0, 0, 0] = 127
    noise = [dc.vision.corrupt(grey, "gaussian_noise", s).double().flatten(1) for s in (1, 2)]
    between = np.corrcoef(torch.cat(noise).numpy())
    assert np.abs(between - np.eye(4)).max() < 4 / np.sqrt(64 * 64 * 3)
    # It is also independent within an image, between neighbours and between channels.
    field = noise[0][0].reshape(64, 64, 3)
    for shifted in (field.roll(1, 0), field.roll(1, 1), field.roll(1, 2)):
        assert abs(np.corrcoef(field.ravel(), shifted.ravel())[0, 1]) < 4 / np.sqrt(64 * 64 * 3)


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_result_does_not_depend_on_settings_of_torch(name, images):
    images = torch.from_numpy(images[:4])
    made = dc.vision.corrupt(images, name, 3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(dc.vision.corrupt(images, name, 3), made)
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.equal(dc.vision.corrupt(images, name, 3), made)
    finally:
        torch.set_default_dtype(torch.float32)
    state = torch.get_rng_state()
    with torch.inference_mode():
        assert torch.equal(dc.vision.corrupt(images, name, 3), made)
    assert torch.equal(torch.get_rng_state(), state)


def test_arrays_and_tensors_of_any_layout_give_the_same_result(images):
    array = images[:3]
    made = dc.vision.corrupt(array, "fog", 2, constants="cifar")
    assert isinstance(made, np.ndarray)
    np.testing.assert_array_equal(made, corrupt_with_torch(array, "fog", 2, constants="cifar"))
    array = np.ascontiguousarray(array.transpose(0, 3, 1, 2)).transpose(0, 2, 3, 1)
    np.testing.assert_array_equal(dc.vision.corrupt(array, "fog", 2, constants="cifar"), made)
    array = images[:3].copy()
    array.flags.writeable = False
    np.testing.assert_array_equal(dc.vision.corrupt(array, "fog", 2, constants="cifar"), made)
    channels_first = torch.from_numpy(images[:3]).permute(0, 3, 1, 2).contiguous()
    tensor = dc.vision.corrupt(channels_first.permute(0, 2, 3, 1), "fog", 2, constants="cifar")
    np.testing.assert_array_equal(tensor, made)


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_black_white_and_empty_images(name):
    extremes = np.zeros((2, 32, 32, 3), np.uint8)
    extremes[1] = 255
    made = corrupt_with_torch(extremes, name, 3)
    package = dc.vision.corrupt(extremes, name, 3)
    assert np.abs(made.mean(axis=(1, 2, 3)) - package.mean(axis=(1, 2, 3))).max() < 128
    if name in DETERMINISTIC:
        assert np.abs(made.astype(int) - package).max() <= 1
    assert corrupt_with_torch(extremes[:0], name, 3).shape == (0, 32, 32, 3)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
@pytest.mark.parametrize("table", CONSTANTS)
@pytest.mark.parametrize("name", CORRUPTIONS)
def test_cuda_gives_the_result_of_the_cpu(name, table, images):
    images = torch.from_numpy(images)
    for severity in SEVERITIES:
        made = dc.vision.corrupt(images.cuda(), name, severity, constants=table)
        assert made.is_cuda
        cpu = dc.vision.corrupt(images, name, severity, constants=table)
        difference = (made.cpu().int() - cpu.int()).abs()
        # Logarithms and cosines may differ in the last bit, and so may the rounding.
        assert (difference > 0).float().mean() < 1e-3
        assert difference.float().mean() < 1e-2
        halves = [dc.vision.corrupt(part.cuda(), name, severity, constants=table)
                  for part in (images[:7], images[7:])]  # fmt: skip
        assert (torch.cat(halves) != made).float().mean() < 1e-5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"images": torch.zeros(1, 32, 32, 3)},
            r"uint8 .* got torch.float32 of shape \(1, 32, 32, 3",
        ),
        (
            {"images": torch.zeros(1, 3, 32, 32, dtype=torch.uint8)},
            "move the channels of a tensor last",
        ),
        ({"images": torch.zeros(1, 31, 40, 3, dtype=torch.uint8)}, "31 x 40 px, .* enlarge"),
        ({"images": torch.zeros(1, 32, 32, 3, dtype=torch.uint8, device="meta")}, "'meta'; move"),
        ({"name": "rain"}, "name must be one of"),
        ({"severity": 6}, "severity must be"),
        ({"random_state": -1}, "random_state must be"),
        ({"constants": "mnist"}, "constants must be one of"),
    ],
)
def test_invalid_arguments_are_refused(change, message):
    good = {"images": torch.zeros(1, 32, 32, 3, dtype=torch.uint8), "name": "fog", "severity": 1}
    with pytest.raises(dc.errors.InputError, match=message):
        dc.vision.corrupt(**{**good, **change})


def test_missing_torch_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    grey = np.full((1, 32, 32, 3), 128, np.uint8)
    with pytest.raises(
        dc.errors.MissingDependencyError, match=r"constants of cifar .*domaincal\[torch\]"
    ):
        dc.vision.corrupt(grey, "fog", 1, constants="cifar")
    assert dc.vision.corrupt(grey, "contrast", 1).shape == grey.shape


@pytest.fixture
def photos(tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    for k, image in enumerate(natural_images(3, 33, 40)):
        Image.fromarray(image).save(folder / f"{k}.png")
    return folder


def _pixels(path):
    with Image.open(path) as image:
        return np.asarray(image)


def test_folder_is_corrupted_with_the_constants_and_refuses_others(photos, tmp_path):
    options = {"names": ["fog", "elastic_transform"], "severities": [2], "constants": "cifar"}
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        dc.vision.corrupt_folder(photos, tmp_path / "out", **options)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
    clean = _pixels(photos / "1.png")[None]
    for name in options["names"]:
        expected = dc.vision.corrupt(clean, name, 2, constants="cifar")[0]
        np.testing.assert_array_equal(_pixels(tmp_path / f"out/{name}/2/1.png"), expected)
    dc.vision.corrupt_folder(photos, tmp_path / "two", **options, n_jobs=2)
    for made in (tmp_path / "out").rglob("*.png"):
        other = tmp_path / "two" / made.relative_to(tmp_path / "out")
        assert made.read_bytes() == other.read_bytes()
    with pytest.raises(
        dc.errors.InputError, match=r"made with .* constants cifar, not .* constants image"
    ):
        dc.vision.corrupt_folder(photos, tmp_path / "out", names=["fog"])
    with pytest.raises(dc.errors.InputError, match="constants must be one of"):
        dc.vision.corrupt_folder(photos, tmp_path / "other", constants="mnist")


def test_folders_of_early_versions_have_the_constants_of_imagenet(photos, tmp_path):
    options = {"names": ["contrast"], "severities": [1]}
    dc.vision.corrupt_folder(photos, tmp_path / "out", **options)
    recipe = tmp_path / "out/corruptions.json"
    known = json.loads(recipe.read_text())
    assert known.pop("constants") == "imagenet"
    recipe.write_text(json.dumps(known))
    assert dc.vision.corrupt_folder(photos, tmp_path / "out", **options).n_kept == 3
    with pytest.raises(dc.errors.InputError, match=r"constants imagenet, not .* constants cifar"):
        dc.vision.corrupt_folder(photos, tmp_path / "out", **options, constants="cifar")


def test_verb_passes_on_the_constants(photos, tmp_path):
    out = str(tmp_path / "out")
    arguments = ["corrupt", str(photos), out, "--name", "fog", "--severity", "1", "--jobs", "1"]
    result = CliRunner().invoke(main, [*arguments, "--constants", "tiny-imagenet", "--json"])
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert (document["n_written"], document["constants"]) == (3, "tiny-imagenet")
    expected = dc.vision.corrupt(
        _pixels(photos / "2.png")[None], "fog", 1, constants="tiny-imagenet"
    )[0]
    np.testing.assert_array_equal(_pixels(tmp_path / "out/fog/1/2.png"), expected)
    result = CliRunner().invoke(main, [*arguments, "--constants", "mnist"])
    assert result.exit_code == 2

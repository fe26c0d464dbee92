"""Corruptions in batches: the package's in distribution, and the same in any company."""

import io
import json
import sys

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import ndimage, stats

import domaincal as dc
from domaincal.cli import main
from domaincal.datasets.corruptions import CONSTANTS, CORRUPTIONS, SEVERITIES

torch = pytest.importorskip("torch", reason="needs the extra torch")
imagecorruptions = pytest.importorskip("imagecorruptions", reason="needs the extra corruptions")
Image = pytest.importorskip("PIL.Image")

from domaincal.datasets.batched import (  # noqa: E402
    blur,
    constants,
    digital,
    jpeg,
    linear,
    weather,
)
from domaincal.datasets.batched.random_numbers import Random  # noqa: E402

#: Without random numbers, so every pixel can be compared.
EXACT = ("defocus_blur", "zoom_blur", "brightness", "contrast", "pixelate")
RANDOM = tuple(name for name in CORRUPTIONS if name not in (*EXACT, "jpeg_compression"))


def natural_images(n, height, width, seed=0):
    """Spectrum 1/f as photographs have it, correlated channels, and an edge in each."""
    rng = np.random.default_rng(seed)
    frequency = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.fftfreq(width))
    frequency[0, 0] = np.inf
    field = np.fft.ifft2(np.fft.fft2(rng.normal(size=(n, 3, height, width))) / frequency).real
    field = 0.8 * field[:, :1] + 0.4 * field
    field /= field.std(axis=(1, 2, 3), keepdims=True)
    angle, offset = rng.uniform(0, np.pi, (n, 1, 1)), rng.uniform(-0.3, 0.3, (n, 1, 1))
    y, x = np.mgrid[-0.5 : 0.5 : height * 1j, -0.5 : 0.5 : width * 1j]
    edge = np.cos(angle) * x + np.sin(angle) * y > offset
    field += edge[:, None] * rng.normal(size=(n, 3, 1, 1))
    return np.clip(120 + 45 * field, 0, 255).astype(np.uint8).transpose(0, 2, 3, 1)


@pytest.fixture(scope="module")
def images():
    return natural_images(48, 64, 64)


def batched(images, *arguments, **options):
    return dc.corrupt(torch.from_numpy(images), *arguments, **options).numpy()


def levels(images):
    """As the functions take them."""
    return torch.from_numpy(images).permute(0, 3, 1, 2).to(torch.float32)


def statistics(made, clean):
    """Numbers of each image, shape (n, k)."""
    made, clean = made.astype(float), clean.astype(float)
    rough, clean_rough = (ndimage.laplace(a, axes=(1, 2)) for a in (made, clean))
    axes = (1, 2, 3)
    # How much of the clean image is left, where nothing was cut off: fine details, since there
    # nearly nothing is left to chance.
    whole = (made > 0) & (made < 255)
    whole = ndimage.minimum_filter(whole, footprint=np.ones((3, 3)), axes=(1, 2))
    kept = (whole * rough * clean_rough).sum(axis=axes) / (whole * clean_rough**2).sum(axis=axes)
    left = rough - kept[:, None, None, None] * clean_rough
    right, down = np.diff(made[:, 1:], axis=2), np.diff(made[:, :, 1:], axis=1)
    return np.column_stack([
        made.mean(axis=(1, 2)),
        made[..., 0].mean(axis=(1, 2)) - made[..., 2].mean(axis=(1, 2)),
        np.abs(right).mean(axis=axes),
        np.abs(down).mean(axis=axes),
        (right * down).mean(axis=axes),
        made.std(axis=axes),
        np.abs(made - clean).mean(axis=axes),
        np.abs(rough).mean(axis=axes),
        100 * kept,
        np.abs(left).mean(axis=axes),
        100 * (made == 0).mean(axis=axes),
        100 * (made == 255).mean(axis=axes),
    ])  # fmt: skip


def largest_score(a, b):
    """By how many standard errors statistics of the same images differ; 0.06 may be rounding."""
    difference = a - b
    error = difference.std(axis=0, ddof=1) / np.sqrt(len(difference))
    return (np.maximum(np.abs(difference.mean(axis=0)) - 0.06, 0) / (error + 1e-3)).max()


# 14 statistics of 45 pairs with 47 degrees of freedom: chance exceeds 5 in one seed of 190.
CHANCE = 5.0


@pytest.mark.parametrize("name", RANDOM)
def test_random_corruptions_have_the_packages_distribution(name, images):
    package = [statistics(dc.corrupt(images, name, s), images) for s in SEVERITIES]
    ours = [statistics(batched(images, name, s), images) for s in SEVERITIES]
    for severity in SEVERITIES:
        score = largest_score(ours[severity - 1], package[severity - 1])
        assert score < CHANCE, severity
    for milder in range(4):  # and it would be seen if a constant were that of the next severity
        assert largest_score(ours[milder + 1], package[milder]) > CHANCE, milder + 1
        assert largest_score(ours[milder], package[milder + 1]) > CHANCE, milder + 1


@pytest.mark.parametrize("name", RANDOM)
def test_sides_may_differ(name):
    images = natural_images(32, 40, 72, seed=1)
    package = statistics(dc.corrupt(images, name, 3), images)
    assert largest_score(statistics(batched(images, name, 3), images), package) < CHANCE


@pytest.mark.parametrize("size", [(64, 64), (32, 32), (45, 70), (224, 224)])
@pytest.mark.parametrize("name", EXACT)
def test_corruptions_without_chance_are_the_packages_to_one_grey_level(name, size):
    images = natural_images(2, *size)
    package = [dc.corrupt(images, name, s).astype(int) for s in SEVERITIES]
    ours = [batched(images, name, s) for s in SEVERITIES]
    for a, b in zip(ours, package, strict=True):
        assert np.abs(a - b).max() <= 1
        # Whole numbers fall to the one below where rounding took something away; seldom.
        assert (a != b).mean() < 0.06
    for milder in range(4):
        assert np.abs(ours[milder + 1] - package[milder]).mean() > 0.25


@pytest.mark.parametrize("size", [(64, 64), (33, 50), (50, 35), (224, 224)])
@pytest.mark.parametrize("quality", [7, 10, 25, 40, 50, 65, 80])
def test_jpeg_is_pillows(quality, size):
    images = natural_images(8 if size == (64, 64) else 2, *size)
    pillows = []
    for image in images:
        file = io.BytesIO()
        Image.fromarray(image).save(file, "JPEG", quality=quality)
        pillows.append(np.asarray(Image.open(file), int))
    made = jpeg.jpeg_compression(levels(images), None, quality).clamp(0, 255)
    difference = made.permute(0, 2, 3, 1).numpy() - np.stack(pillows)
    assert np.abs(difference).mean() < 0.4
    assert np.abs(difference.mean()) < 0.1


def test_jpeg_has_the_packages_qualities(images):
    package = [dc.corrupt(images[:8], "jpeg_compression", s).astype(int) for s in SEVERITIES]
    ours = [batched(images[:8], "jpeg_compression", s) for s in SEVERITIES]
    for severity in range(5):
        assert np.abs(ours[severity] - package[severity]).mean() < 0.4
        if severity:
            assert np.abs(ours[severity] - package[severity - 1]).mean() > 2


@pytest.mark.parametrize("table", CONSTANTS)
@pytest.mark.parametrize("severity", SEVERITIES)
def test_noise_has_its_distribution(table, severity):
    """Pearson's test of the grey levels that flat images get, against the exact probabilities."""
    values = np.array([0, 3, 40, 128, 230, 255])
    flat = np.broadcast_to(values[:, None, None, None], (6, 64, 64, 3)).astype(np.uint8)
    edges = np.arange(257.0)
    for name in ("gaussian_noise", "shot_noise", "impulse_noise"):
        (c,) = constants.constants_of(table, name, severity)
        made = batched(flat, name, severity, constants=table)
        for value, image in zip(values, made, strict=True):
            if name == "gaussian_noise":
                below = stats.norm.cdf(edges, value, 255 * c)
                below[0] = 0
                below[-2:] = below[255], 1
            elif name == "shot_noise":  # k counts give floor(255 k / c)
                below = stats.poisson.cdf(np.ceil(edges * c / 255 - 1e-9) - 1, c * value / 255)
                below[-1] = 1
            else:
                below = c / 2 * (edges > 0) + (1 - c) * (edges > value) + c / 2 * (edges > 255)
            expected = np.diff(below) * image.size
            found = np.bincount(image.ravel(), minlength=256)
            assert not found[expected == 0].any()
            often = expected >= 5
            pooled = [np.append(a[often], a[~often].sum()) for a in (found, expected)]
            score = ((pooled[0] - pooled[1]) ** 2 / np.maximum(pooled[1], 1)).sum()
            assert stats.chi2.sf(score, max(often.sum() - 1, 1)) > 1e-6, (name, value)


def test_the_tables_are_the_published_ones(shared_data):
    published = json.loads((shared_data.parent / "corruption-constants.json").read_text())
    for table in CONSTANTS:
        for name in CORRUPTIONS:
            if (table, name) == ("imagenet", "elastic_transform"):
                continue  # the package's own, as the file of constants says
            for severity in SEVERITIES:
                expected = np.atleast_1d(published[table][name][severity - 1])
                ours = constants.constants_of(table, name, severity)
                assert tuple(expected) == ours[: len(expected)]
                assert len(ours) == len(expected) + 2 * (name == "frost")


def _visited_one_by_one(pixels, down, right, reach):
    height, width = down.shape
    for h in range(height - reach, reach, -1):
        for w in range(width - reach, reach, -1):
            pixels[h, w] = pixels[h + down[h, w], w + right[h, w]]


@pytest.mark.parametrize(("height", "width", "reach"), [(20, 13, 1), (17, 24, 2), (40, 40, 4)])
def test_pixels_of_glass_come_from_where_one_visit_after_the_other_takes_them(height, width, reach):
    rng = np.random.default_rng(reach)
    down, right = rng.integers(-reach, reach, (2, 5, height, width))
    found = blur.sources(torch.from_numpy(down), torch.from_numpy(right), reach).numpy()
    for k in range(5):
        pixels = np.arange(height * width).reshape(height, width)
        _visited_one_by_one(pixels, down[k], right[k], reach)
        np.testing.assert_array_equal(found[k].reshape(height, width), pixels)


def test_long_chains_of_glass_are_followed_to_their_ends():
    """Each takes its right neighbour, or the one below at the end of a row: the longest chain."""
    down, right = np.zeros((2, 1, 30, 30), int)
    found = blur.sources(torch.from_numpy(down), torch.from_numpy(right + 1), 2).reshape(30, 30)
    assert (found[5, 3:29] == 5 * 30 + 29).all()


def test_glass_copies_as_the_packages_loop_does(monkeypatch):
    """Two pixels are not swapped there: what is read second was overwritten."""
    shifts = np.random.default_rng(0).integers(-2, 2, (2, 1, 16, 16))
    pixels = np.random.default_rng(1).integers(0, 256, (16, 16, 3), np.uint8)
    function = imagecorruptions.corruptions._shuffle_pixels_njit_glass_blur.py_func
    order = iter([(shifts[1, 0, h, w], shifts[0, 0, h, w])
                  for h in range(14, 2, -1) for w in range(14, 2, -1)])  # fmt: skip
    monkeypatch.setattr(np.random, "randint", lambda *_, size: next(order))
    monkeypatch.setattr(np.random, "seed", lambda _: None)
    package = function(16, 16, pixels.copy(), (0.9, 2, 1))
    source = blur.sources(torch.from_numpy(shifts[0]), torch.from_numpy(shifts[1]), 2)[0].numpy()
    np.testing.assert_array_equal(pixels.reshape(-1, 3)[source].reshape(16, 16, 3), package)


@pytest.mark.parametrize("size", [(64, 64), (32, 60)])
def test_motion_is_the_packages_for_an_angle(size):
    images = natural_images(6, *size)
    angles = np.array([-135.0, -90, -45, 0, 17, 45])
    for radius, sigma in [(10, 3), (20, 15), (12, 12)]:
        made = linear.motion_blur(levels(images), radius, sigma, torch.from_numpy(angles))
        for image, ours, angle in zip(images, made.permute(0, 2, 3, 1), angles, strict=True):
            package = imagecorruptions.corruptions._motion_blur(image, radius, sigma, angle)
            np.testing.assert_allclose(ours, package, atol=2e-3)


def test_pieces_of_frost_are_whole_and_from_anywhere(monkeypatch):
    """On pictures whose pixels say which picture, row and column they are."""
    sizes = [(70, 80), (100, 66), (90, 90)]
    pictures = [np.stack([np.full(size, k), *np.indices(size)], axis=-1).reshape(-1, 3)
                for k, size in enumerate(sizes)]  # fmt: skip
    table = torch.tensor([[0, 70, 80], [5600, 100, 66], [12200, 90, 90]])
    pixels = torch.from_numpy(np.concatenate(pictures).astype(np.uint8))
    monkeypatch.setattr(weather, "_pictures", lambda *_: (pixels, table))
    black = torch.zeros(3000, 32, 40, 3, dtype=torch.uint8)
    black[:, 0, 0, 0] = torch.arange(3000) % 256
    black[:, 0, 0, 1] = torch.arange(3000) // 256
    made = weather.frost(levels(black.numpy()), Random(black, 0), 0.0, 1.0, 1.1, 3).numpy()
    which, top, left = made[:, :, 0, 0].T
    assert (made[:, 0] == which[:, None, None]).all()
    assert (made[:, 1] == top[:, None, None] + np.arange(32)[:, None]).all()
    assert (made[:, 2] == left[:, None, None] + np.arange(40)).all()
    assert stats.chisquare(np.unique(which, return_counts=True)[1]).pvalue > 1e-4
    for k, (height, width) in enumerate(sizes):
        for found, places in ((top, height - 32), (left, width - 40)):
            counts = np.bincount(found[which == k].astype(int))
            assert len(counts) == places  # the last place is left out, as in the package
            assert stats.chisquare(counts).pvalue > 1e-4


@pytest.mark.parametrize("size", [(64, 64), (224, 500)])
def test_pictures_of_frost_are_those_of_the_package(size, monkeypatch):
    module = imagecorruptions.corruptions
    pixels, table = weather._pictures(*size, 1.1, 6, torch.device("cpu"))
    for k, (first, height, width) in enumerate(table.tolist()):
        draws = iter([k, 2, 1])
        monkeypatch.setattr(np.random, "randint", lambda *_, draws=draws: next(draws))
        package = module.frost(np.zeros((*size, 3), np.uint8), 5)
        ours = pixels[first : first + height * width].reshape(height, width, 3)
        ours = 0.75 * ours[2 : 2 + size[0], 1 : 1 + size[1]].numpy()
        np.testing.assert_array_equal(ours, package)


def test_reading_between_pixels_is_scipys():
    image = natural_images(2, 33, 40).astype(np.float32)[..., :1]
    rng = np.random.default_rng(0)
    y, x = rng.uniform(-40, 75, (2, 2, 33, 40)).astype(np.float32)
    places, x_places = torch.from_numpy(y), torch.from_numpy(x)
    ours = linear.read_between(levels(image), places, x_places, border="reflect")
    mirrored = linear.read_between(levels(image), places, x_places, border="reflect-101")
    for k in range(2):
        scipys = ndimage.map_coordinates(image[k, ..., 0], [y[k], x[k]], order=1, mode="reflect")
        np.testing.assert_allclose(ours[k, 0], scipys, atol=0.02)
        scipys = ndimage.map_coordinates(image[k, ..., 0], [y[k], x[k]], order=1, mode="mirror")
        np.testing.assert_allclose(mirrored[k, 0], scipys, atol=0.02)


def test_three_points_are_moved_as_opencv_does():
    cv2 = pytest.importorskip("cv2")
    smooth = ndimage.gaussian_filter(natural_images(4, 64, 64).astype(np.float32), (0, 3, 3, 0))
    moves = np.random.default_rng(0).uniform(-1, 1, (4, 3, 2)).astype(np.float32)
    made = digital._affine(levels(smooth), torch.from_numpy(moves), 5.0).permute(0, 2, 3, 1)
    before = np.float32([[53, 53], [53, 11], [11, 11]])  # 32 + 21 and 32 - 21
    for image, ours, move in zip(smooth, made, moves, strict=True):
        matrix = cv2.getAffineTransform(before, before + 5 * move)
        theirs = cv2.warpAffine(image, matrix, (64, 64), borderMode=cv2.BORDER_REFLECT_101)
        # OpenCV rounds places to 1/32 px.
        np.testing.assert_allclose(ours, theirs, atol=1)


@pytest.mark.parametrize("table", CONSTANTS)
@pytest.mark.parametrize("name", CORRUPTIONS)
def test_every_severity_of_every_table_changes_images_and_keeps_their_form(name, table):
    for size in [(32, 32), (64, 64), (37, 90)]:
        images = torch.from_numpy(natural_images(2, *size))
        before = images.clone()
        made = [dc.corrupt(images, name, s, constants=table) for s in SEVERITIES]
        for one, other in zip(made, [images, *made], strict=False):
            assert (one.dtype, one.shape, one.device) == (torch.uint8, images.shape, images.device)
            assert (one != other).any()
        assert torch.equal(images, before)


@pytest.mark.parametrize("table", CONSTANTS[:2])
@pytest.mark.parametrize("name", CORRUPTIONS)
def test_neither_order_nor_company_matter(name, table, images, monkeypatch):
    images = torch.from_numpy(images[:10].copy())
    images[3] = 128  # flat: where sums are whole numbers, rounding shows
    for severity in (2, 5):
        made = dc.corrupt(images, name, severity, seed=1, constants=table)
        halves = [dc.corrupt(part, name, severity, seed=1, constants=table)
                  for part in (images[:3], images[3:4], images[4:])]  # fmt: skip
        assert torch.equal(torch.cat(halves), made)
        order = torch.randperm(10, generator=torch.Generator().manual_seed(0))
        assert torch.equal(
            dc.corrupt(images[order], name, severity, 1, constants=table), made[order]
        )
        monkeypatch.setattr("domaincal.datasets.batched._VALUES", {"cpu": 3 * 64 * 64 * 3})
        assert torch.equal(dc.corrupt(images, name, severity, seed=1, constants=table), made)
        monkeypatch.undo()
        other = dc.corrupt(images, name, severity, seed=2, constants=table)
        assert torch.equal(other, made) == (name not in RANDOM)


def test_noise_of_nearly_the_same_images_is_independent():
    grey = torch.full((2, 64, 64, 3), 128, dtype=torch.uint8)
    grey[1, 0, 0, 0] = 127
    noise = [dc.corrupt(grey, "gaussian_noise", s).double().flatten(1) for s in (1, 2)]
    between = np.corrcoef(torch.cat(noise).numpy())
    assert np.abs(between - np.eye(4)).max() < 4 / np.sqrt(64 * 64 * 3)
    # Nor is it within an image, between neighbours or channels.
    field = noise[0][0].reshape(64, 64, 3)
    for shifted in (field.roll(1, 0), field.roll(1, 1), field.roll(1, 2)):
        assert abs(np.corrcoef(field.ravel(), shifted.ravel())[0, 1]) < 4 / np.sqrt(64 * 64 * 3)


@pytest.mark.parametrize("name", ["zoom_blur", "defocus_blur", "jpeg_compression", "snow", "frost"])
def test_settings_of_torch_do_not_matter(name, images):
    images = torch.from_numpy(images[:4])
    made = dc.corrupt(images, name, 3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(dc.corrupt(images, name, 3), made)
    state = torch.get_rng_state()
    with torch.inference_mode():
        assert torch.equal(dc.corrupt(images, name, 3), made)
    assert torch.equal(torch.get_rng_state(), state)


def test_arrays_and_tensors_of_any_layout_are_the_same(images):
    array = images[:3]
    made = dc.corrupt(array, "fog", 2, constants="cifar")
    assert isinstance(made, np.ndarray)
    np.testing.assert_array_equal(made, batched(array, "fog", 2, constants="cifar"))
    array = np.ascontiguousarray(array.transpose(0, 3, 1, 2)).transpose(0, 2, 3, 1)
    np.testing.assert_array_equal(dc.corrupt(array, "fog", 2, constants="cifar"), made)
    array = images[:3].copy()
    array.flags.writeable = False
    np.testing.assert_array_equal(dc.corrupt(array, "fog", 2, constants="cifar"), made)
    channels_first = torch.from_numpy(images[:3]).permute(0, 3, 1, 2).contiguous()
    tensor = dc.corrupt(channels_first.permute(0, 2, 3, 1), "fog", 2, constants="cifar")
    np.testing.assert_array_equal(tensor, made)


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_black_white_and_no_images(name):
    extremes = np.zeros((2, 32, 32, 3), np.uint8)
    extremes[1] = 255
    made = batched(extremes, name, 3)
    package = dc.corrupt(extremes, name, 3)
    assert np.abs(made.mean(axis=(1, 2, 3)) - package.mean(axis=(1, 2, 3))).max() < 128
    if name not in RANDOM:
        assert np.abs(made.astype(int) - package).max() <= 1
    assert batched(extremes[:0], name, 3).shape == (0, 32, 32, 3)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
@pytest.mark.parametrize("table", CONSTANTS)
@pytest.mark.parametrize("name", CORRUPTIONS)
def test_cuda_gives_what_the_cpu_gives(name, table, images):
    images = torch.from_numpy(images)
    for severity in SEVERITIES:
        made = dc.corrupt(images.cuda(), name, severity, constants=table)
        assert made.is_cuda
        cpu = dc.corrupt(images, name, severity, constants=table)
        difference = (made.cpu().int() - cpu.int()).abs()
        # Logarithms and cosines may differ in the last bit, and with it what is cut off.
        assert (difference > 0).float().mean() < 1e-3
        assert difference.float().mean() < 1e-2
        halves = [dc.corrupt(part.cuda(), name, severity, constants=table)
                  for part in (images[:7], images[7:])]  # fmt: skip
        assert (torch.cat(halves) != made).float().mean() < 1e-5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"images": torch.zeros(1, 32, 32, 3)},
            r"uint8 .* got torch.float32 of shape \(1, 32, 32, 3",
        ),
        ({"images": torch.zeros(1, 3, 32, 32, dtype=torch.uint8)}, "channels of a tensor last"),
        ({"images": torch.zeros(1, 31, 40, 3, dtype=torch.uint8)}, "31 x 40 px; .* enlarge"),
        ({"images": torch.zeros(1, 32, 32, 3, dtype=torch.uint8, device="meta")}, "'meta'; move"),
        ({"name": "rain"}, "name must be one of"),
        ({"severity": 6}, "severity must be"),
        ({"seed": -1}, "seed must be"),
        ({"constants": "mnist"}, "constants must be one of"),
    ],
)
def test_bad_input(change, message):
    good = {"images": torch.zeros(1, 32, 32, 3, dtype=torch.uint8), "name": "fog", "severity": 1}
    with pytest.raises(dc.InputError, match=message):
        dc.corrupt(**{**good, **change})


def test_without_torch_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    grey = np.full((1, 32, 32, 3), 128, np.uint8)
    with pytest.raises(dc.MissingDependencyError, match=r"constants of cifar .*domaincal\[torch\]"):
        dc.corrupt(grey, "fog", 1, constants="cifar")
    assert dc.corrupt(grey, "contrast", 1).shape == grey.shape


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


def test_a_folder_takes_the_constants_and_keeps_them(photos, tmp_path):
    options = {"names": ["fog", "elastic_transform"], "severities": [2], "constants": "cifar"}
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        dc.corrupt_folder(photos, tmp_path / "out", **options)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
    clean = _pixels(photos / "1.png")[None]
    for name in options["names"]:
        expected = dc.corrupt(clean, name, 2, constants="cifar")[0]
        np.testing.assert_array_equal(_pixels(tmp_path / f"out/{name}/2/1.png"), expected)
    dc.corrupt_folder(photos, tmp_path / "two", **options, n_jobs=2)
    for made in (tmp_path / "out").rglob("*.png"):
        other = tmp_path / "two" / made.relative_to(tmp_path / "out")
        assert made.read_bytes() == other.read_bytes()
    with pytest.raises(
        dc.InputError, match=r"made with .* constants cifar, not .* constants image"
    ):
        dc.corrupt_folder(photos, tmp_path / "out", names=["fog"])
    with pytest.raises(dc.InputError, match="constants must be one of"):
        dc.corrupt_folder(photos, tmp_path / "other", constants="mnist")


def test_folders_of_before_there_was_a_choice_are_of_imagenet(photos, tmp_path):
    options = {"names": ["contrast"], "severities": [1]}
    dc.corrupt_folder(photos, tmp_path / "out", **options)
    recipe = tmp_path / "out/corruptions.json"
    known = json.loads(recipe.read_text())
    assert known.pop("constants") == "imagenet"
    recipe.write_text(json.dumps(known))
    assert dc.corrupt_folder(photos, tmp_path / "out", **options).n_kept == 3
    with pytest.raises(dc.InputError, match=r"constants imagenet, not .* constants cifar"):
        dc.corrupt_folder(photos, tmp_path / "out", **options, constants="cifar")


def test_the_verb_takes_constants(photos, tmp_path):
    out = str(tmp_path / "out")
    arguments = ["corrupt", str(photos), out, "--name", "fog", "--severity", "1", "--jobs", "1"]
    result = CliRunner().invoke(main, [*arguments, "--constants", "tiny-imagenet", "--json"])
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert (document["n_written"], document["constants"]) == (3, "tiny-imagenet")
    expected = dc.corrupt(_pixels(photos / "2.png")[None], "fog", 1, constants="tiny-imagenet")[0]
    np.testing.assert_array_equal(_pixels(tmp_path / "out/fog/1/2.png"), expected)
    result = CliRunner().invoke(main, [*arguments, "--constants", "mnist"])
    assert result.exit_code == 2

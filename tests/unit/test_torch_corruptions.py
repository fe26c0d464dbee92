"""Corruptions in torch have the distribution of the package imagecorruptions and the formulas."""

import io
import json

import numpy as np
import pytest
from scipy import ndimage, stats

import domaincal as dc
from domaincal.vision.corruptions.catalogue import CONSTANTS, CORRUPTIONS, SEVERITIES
from natural_images import corrupt_with_torch, natural_images

torch = pytest.importorskip("torch", reason="needs the extra torch")
imagecorruptions = pytest.importorskip("imagecorruptions", reason="needs the extra corruptions")
Image = pytest.importorskip("PIL.Image")

from domaincal.vision.corruptions.torch_corruptions import (  # noqa: E402
    blur,
    constants,
    digital,
    jpeg,
    pixel_sampling,
    weather,
)
from domaincal.vision.corruptions.torch_corruptions.random_numbers import PerImageRandom  # noqa: E402

#: Corruptions without random numbers, of which every pixel can be compared.
EXACT = ("defocus_blur", "zoom_blur", "brightness", "contrast", "pixelate")
RANDOM = tuple(name for name in CORRUPTIONS if name not in (*EXACT, "jpeg_compression"))


@pytest.fixture(scope="module")
def images():
    return natural_images(48, 64, 64)


def levels(images):
    """Images in the form that the corruptions take."""
    return torch.from_numpy(images).permute(0, 3, 1, 2).to(torch.float32)


def statistics(made, clean):
    """Statistics of each image, shape (n, k)."""
    made, clean = made.astype(float), clean.astype(float)
    rough, clean_rough = (ndimage.laplace(a, axes=(1, 2)) for a in (made, clean))
    axes = (1, 2, 3)
    # How much of the clean image is kept, where no value is clipped: measured by fine details,
    # which vary least.
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
    """Largest difference of the mean statistics in standard errors; 0.06 may be rounding."""
    difference = a - b
    error = difference.std(axis=0, ddof=1) / np.sqrt(len(difference))
    return (np.maximum(np.abs(difference.mean(axis=0)) - 0.06, 0) / (error + 1e-3)).max()


# 14 statistics of 45 pairs with 47 degrees of freedom: by chance, one exceeds 5 for 1 of 190 seeds.
CHANCE = 5.0


@pytest.mark.parametrize("name", RANDOM)
def test_random_corruptions_have_the_distribution_of_the_package(name, images):
    package = [statistics(dc.vision.corrupt(images, name, s), images) for s in SEVERITIES]
    ours = [statistics(corrupt_with_torch(images, name, s), images) for s in SEVERITIES]
    for severity in SEVERITIES:
        score = largest_score(ours[severity - 1], package[severity - 1])
        assert score < CHANCE, severity
    for milder in range(4):  # a constant of the next severity would be noticed
        assert largest_score(ours[milder + 1], package[milder]) > CHANCE, milder + 1
        assert largest_score(ours[milder], package[milder + 1]) > CHANCE, milder + 1


@pytest.mark.parametrize("name", RANDOM)
def test_distribution_equals_the_packages_for_images_that_are_not_square(name):
    images = natural_images(32, 40, 72, random_state=1)
    package = statistics(dc.vision.corrupt(images, name, 3), images)
    assert largest_score(statistics(corrupt_with_torch(images, name, 3), images), package) < CHANCE


@pytest.mark.parametrize("size", [(64, 64), (32, 32), (45, 70), (224, 224)])
@pytest.mark.parametrize("name", EXACT)
def test_deterministic_corruptions_equal_the_packages_to_one_grey_level(name, size):
    images = natural_images(2, *size)
    package = [dc.vision.corrupt(images, name, s).astype(int) for s in SEVERITIES]
    ours = [corrupt_with_torch(images, name, s) for s in SEVERITIES]
    for a, b in zip(ours, package, strict=True):
        assert np.abs(a - b).max() <= 1
        # Rounding errors may move an integer to the next lower one, but rarely.
        assert (a != b).mean() < 0.06
    for milder in range(4):
        assert np.abs(ours[milder + 1] - package[milder]).mean() > 0.25


@pytest.mark.parametrize("size", [(64, 64), (33, 50), (50, 35), (224, 224)])
@pytest.mark.parametrize("quality", [7, 10, 25, 40, 50, 65, 80])
def test_jpeg_equals_pillows(quality, size):
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


def test_jpeg_has_the_qualities_of_the_package(images):
    package = [dc.vision.corrupt(images[:8], "jpeg_compression", s).astype(int) for s in SEVERITIES]
    ours = [corrupt_with_torch(images[:8], "jpeg_compression", s) for s in SEVERITIES]
    for severity in range(5):
        assert np.abs(ours[severity] - package[severity]).mean() < 0.4
        if severity:
            assert np.abs(ours[severity] - package[severity - 1]).mean() > 2


@pytest.mark.parametrize("table", CONSTANTS)
@pytest.mark.parametrize("severity", SEVERITIES)
def test_noise_has_the_exact_distribution(table, severity):
    """Pearson's chi-squared test of the grey levels of noisy flat images."""
    values = np.array([0, 3, 40, 128, 230, 255])
    flat = np.broadcast_to(values[:, None, None, None], (6, 64, 64, 3)).astype(np.uint8)
    edges = np.arange(257.0)
    for name in ("gaussian_noise", "shot_noise", "impulse_noise"):
        (c,) = constants.published_constants(table, name, severity)
        made = corrupt_with_torch(flat, name, severity, constants=table)
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


def test_constants_equal_the_published_ones(shared_data):
    published = json.loads((shared_data.parent / "corruption-constants.json").read_text())
    for table in CONSTANTS:
        for name in CORRUPTIONS:
            if (table, name) == ("imagenet", "elastic_transform"):
                continue  # that of the package, as constants.json says
            for severity in SEVERITIES:
                expected = np.atleast_1d(published[table][name][severity - 1])
                ours = constants.published_constants(table, name, severity)
                assert tuple(expected) == ours[: len(expected)]
                assert len(ours) == len(expected) + 2 * (name == "frost")


def _visited_one_by_one(pixels, down, right, reach):
    height, width = down.shape
    for h in range(height - reach, reach, -1):
        for w in range(width - reach, reach, -1):
            pixels[h, w] = pixels[h + down[h, w], w + right[h, w]]


@pytest.mark.parametrize(("height", "width", "reach"), [(20, 13, 1), (17, 24, 2), (40, 40, 4)])
def test_glass_sources_equal_those_of_a_sequential_loop(height, width, reach):
    rng = np.random.default_rng(reach)
    down, right = rng.integers(-reach, reach, (2, 5, height, width))
    found = blur.glass_sources(torch.from_numpy(down), torch.from_numpy(right), reach).numpy()
    for k in range(5):
        pixels = np.arange(height * width).reshape(height, width)
        _visited_one_by_one(pixels, down[k], right[k], reach)
        np.testing.assert_array_equal(found[k].reshape(height, width), pixels)


def test_long_chains_of_glass_are_followed_to_their_ends():
    """Every pixel is a copy of its right neighbour: the longest chain."""
    down, right = np.zeros((2, 1, 30, 30), int)
    found = blur.glass_sources(torch.from_numpy(down), torch.from_numpy(right + 1), 2).reshape(
        30, 30
    )
    assert (found[5, 3:29] == 5 * 30 + 29).all()


def test_glass_copies_pixels_as_the_packages_loop_does(monkeypatch):
    """The loop does not swap two pixels, because it overwrites one before it reads it."""
    shifts = np.random.default_rng(0).integers(-2, 2, (2, 1, 16, 16))
    pixels = np.random.default_rng(1).integers(0, 256, (16, 16, 3), np.uint8)
    function = imagecorruptions.corruptions._shuffle_pixels_njit_glass_blur.py_func
    order = iter([(shifts[1, 0, h, w], shifts[0, 0, h, w])
                  for h in range(14, 2, -1) for w in range(14, 2, -1)])  # fmt: skip
    monkeypatch.setattr(np.random, "randint", lambda *_, size: next(order))
    monkeypatch.setattr(np.random, "seed", lambda _: None)
    package = function(16, 16, pixels.copy(), (0.9, 2, 1))
    source = blur.glass_sources(torch.from_numpy(shifts[0]), torch.from_numpy(shifts[1]), 2)[
        0
    ].numpy()
    np.testing.assert_array_equal(pixels.reshape(-1, 3)[source].reshape(16, 16, 3), package)


@pytest.mark.parametrize("size", [(64, 64), (32, 60)])
def test_motion_blur_equals_the_packages_for_given_angles(size):
    images = natural_images(6, *size)
    angles = np.array([-135.0, -90, -45, 0, 17, 45])
    for radius, sigma in [(10, 3), (20, 15), (12, 12)]:
        made = pixel_sampling.motion_blur(levels(images), radius, sigma, torch.from_numpy(angles))
        for image, ours, angle in zip(images, made.permute(0, 2, 3, 1), angles, strict=True):
            package = imagecorruptions.corruptions._motion_blur(image, radius, sigma, angle)
            np.testing.assert_allclose(ours, package, atol=2e-3)


def test_crops_of_frost_are_contiguous_and_uniformly_distributed(monkeypatch):
    """Uses pictures whose pixels contain the number of the picture, the row and the column."""
    sizes = [(70, 80), (100, 66), (90, 90)]
    pictures = [np.stack([np.full(size, k), *np.indices(size)], axis=-1).reshape(-1, 3)
                for k, size in enumerate(sizes)]  # fmt: skip
    table = torch.tensor([[0, 70, 80], [5600, 100, 66], [12200, 90, 90]])
    pixels = torch.from_numpy(np.concatenate(pictures).astype(np.uint8))
    monkeypatch.setattr(weather, "frost_pictures", lambda *_: (pixels, table))
    black = torch.zeros(3000, 32, 40, 3, dtype=torch.uint8)
    black[:, 0, 0, 0] = torch.arange(3000) % 256
    black[:, 0, 0, 1] = torch.arange(3000) // 256
    made = weather.frost(levels(black.numpy()), PerImageRandom(black, 0), 0.0, 1.0, 1.1, 3).numpy()
    which, top, left = made[:, :, 0, 0].T
    assert (made[:, 0] == which[:, None, None]).all()
    assert (made[:, 1] == top[:, None, None] + np.arange(32)[:, None]).all()
    assert (made[:, 2] == left[:, None, None] + np.arange(40)).all()
    assert stats.chisquare(np.unique(which, return_counts=True)[1]).pvalue > 1e-4
    for k, (height, width) in enumerate(sizes):
        for found, places in ((top, height - 32), (left, width - 40)):
            counts = np.bincount(found[which == k].astype(int))
            assert len(counts) == places  # without the last position, as in the package
            assert stats.chisquare(counts).pvalue > 1e-4


@pytest.mark.parametrize("size", [(64, 64), (224, 500)])
def test_pictures_of_frost_equal_those_of_the_package(size, monkeypatch):
    module = imagecorruptions.corruptions
    pixels, table = weather.frost_pictures(*size, 1.1, 6, torch.device("cpu"))
    for k, (first, height, width) in enumerate(table.tolist()):
        draws = iter([k, 2, 1])
        monkeypatch.setattr(np.random, "randint", lambda *_, draws=draws: next(draws))
        package = module.frost(np.zeros((*size, 3), np.uint8), 5)
        ours = pixels[first : first + height * width].reshape(height, width, 3)
        ours = 0.75 * ours[2 : 2 + size[0], 1 : 1 + size[1]].numpy()
        np.testing.assert_array_equal(ours, package)


def test_interpolation_equals_scipys():
    image = natural_images(2, 33, 40).astype(np.float32)[..., :1]
    rng = np.random.default_rng(0)
    y, x = rng.uniform(-40, 75, (2, 2, 33, 40)).astype(np.float32)
    places, x_places = torch.from_numpy(y), torch.from_numpy(x)
    ours = pixel_sampling.interpolate(levels(image), places, x_places, border="reflect")
    mirrored = pixel_sampling.interpolate(levels(image), places, x_places, border="reflect-101")
    for k in range(2):
        scipys = ndimage.map_coordinates(image[k, ..., 0], [y[k], x[k]], order=1, mode="reflect")
        np.testing.assert_allclose(ours[k, 0], scipys, atol=0.02)
        scipys = ndimage.map_coordinates(image[k, ..., 0], [y[k], x[k]], order=1, mode="mirror")
        np.testing.assert_allclose(mirrored[k, 0], scipys, atol=0.02)


def test_affine_map_of_three_corners_equals_opencvs():
    cv2 = pytest.importorskip("cv2")
    smooth = ndimage.gaussian_filter(natural_images(4, 64, 64).astype(np.float32), (0, 3, 3, 0))
    moves = np.random.default_rng(0).uniform(-1, 1, (4, 3, 2)).astype(np.float32)
    made = digital.move_corners(levels(smooth), torch.from_numpy(moves), 5.0).permute(0, 2, 3, 1)
    before = np.float32([[53, 53], [53, 11], [11, 11]])  # 32 + 21 and 32 - 21
    for image, ours, move in zip(smooth, made, moves, strict=True):
        matrix = cv2.getAffineTransform(before, before + 5 * move)
        theirs = cv2.warpAffine(image, matrix, (64, 64), borderMode=cv2.BORDER_REFLECT_101)
        # OpenCV rounds positions to 1/32 px.
        np.testing.assert_allclose(ours, theirs, atol=1)

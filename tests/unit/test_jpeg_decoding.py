"""JPEG files have the pixels and the errors of Pillow, also where simplejpeg decodes them."""

import base64
import io
import itertools
import random
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import domaincal as dc
from domaincal.vision import ImageFiles, ImageSet, ZippedImages, image_decoding, jpeg_decoding
from trees import write_zip

Image = pytest.importorskip("PIL.Image")
simplejpeg = pytest.importorskip("simplejpeg")

SIZES = [(1, 1), (7, 5), (16, 16), (33, 31), (101, 67)]
# Files that Pillow cannot write, of libjpeg-turbo 3.2: a grey image of 32 x 32 px with arith_code,
# and images of 8 x 32 and 24 x 8 px with the sampling factors 1x4 and 3x1 of the first component.
ARITHMETIC = base64.b64decode(
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAA0JCgsKCA0LCgsODg0PEyAVExISEyccHhcgLikxMC4pLSwzOko+MzZGNywt"
    "QFdBRkxOUlNSMj5aYVpQYEpRUk//yQALCAAgACABAREA/8wABgAQEAX/2gAIAQEAAD8A/wCRsFsmQOSRxDyK8ZDQxdDp"
    "rhe7Ym7ZI+bnyHnGO6tmel+NN0SA/9k="
)
UNNAMED_SAMPLING = base64.b64decode(
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAFA3PEY8MlBGQUZaVVBfeMiCeG5uePWvuZHI////////////////////////"
    "////////////////////////////2wBDAVVaWnhpeOuCguv/////////////////////////////////////////////"
    "////////////////////////////wAARCAAgAAgDARQAAhEBAxEB/8QAFgABAQEAAAAAAAAAAAAAAAAAAgME/8QAFRAB"
    "AQAAAAAAAAAAAAAAAAAAAQD/xAAVAQEBAAAAAAAAAAAAAAAAAAABAv/EABURAQEAAAAAAAAAAAAAAAAAAAAR/9oADAMB"
    "AAIRAxEAPwDKEwqBMKaY/9k="
)
UNKNOWN_SAMPLING = base64.b64decode(
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAFA3PEY8MlBGQUZaVVBfeMiCeG5uePWvuZHI////////////////////////"
    "////////////////////////////2wBDAVVaWnhpeOuCguv/////////////////////////////////////////////"
    "////////////////////////////wAARCAAIABgDATEAAhEBAxEB/8QAFQABAQAAAAAAAAAAAAAAAAAAAgT/xAAVEAEB"
    "AAAAAAAAAAAAAAAAAAABAP/EABQBAQAAAAAAAAAAAAAAAAAAAAH/xAAVEQEBAAAAAAAAAAAAAAAAAAAAAf/aAAwDAQAC"
    "EQMRAD8AlCYTCYK//9k="
)


def _photo(size, mode="RGB"):
    """Smooth colours with some noise."""
    rng = np.random.default_rng(size)
    coarse = rng.integers(0, 256, (size[1] // 8 + 2, size[0] // 8 + 2, 3)).astype(np.uint8)
    smooth = np.asarray(Image.fromarray(coarse).resize(size), int)
    noisy = np.clip(smooth + rng.integers(-20, 20, smooth.shape), 0, 255)
    return Image.fromarray(noisy.astype(np.uint8)).convert(mode)


def _jpeg(image, **options):
    file = io.BytesIO()
    image.save(file, "JPEG", **options)
    return file.getvalue()


def _rotated(orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif


def _without_last_scans(content):
    """A progressive file without its last three scans."""
    for _ in range(3):
        content = content[: content.rindex(b"\xff\xda")]
    return content + b"\xff\xd9"


def _files():
    """JPEG files that simplejpeg decodes."""
    for size, mode, subsampling, progressive in itertools.product(
        SIZES, ("RGB", "L"), ("4:4:4", "4:2:2", "4:2:0"), (False, True)
    ):
        yield _jpeg(_photo(size, mode), subsampling=subsampling, progressive=progressive)
    for size, sampling in itertools.product(SIZES, ("440", "411")):
        yield simplejpeg.encode_jpeg(np.asarray(_photo(size)), colorsubsampling=sampling)
    photo = _photo((101, 67))
    yield from (_jpeg(photo, quality=quality) for quality in (1, 30, 100))
    yield _jpeg(photo, optimize=True)
    yield _jpeg(photo, restart_marker_blocks=3)
    yield _jpeg(photo, keep_rgb=True)
    yield _without_last_scans(_jpeg(photo, progressive=True))
    yield from (_jpeg(photo, exif=_rotated(k), icc_profile=bytes(99)) for k in (1, 3, 6))
    yield _jpeg(_photo((700, 500)), quality=95)  # Pillow decodes it in several blocks
    yield _jpeg(photo) + b"more"


FILES = list(_files())
# Pillow decodes these itself; the names say what simplejpeg would do.
LEFT_TO_PILLOW = {
    "other pixels": _jpeg(_photo((33, 31), "CMYK")),
    "no error for large files": ARITHMETIC,
    "a KeyError": UNNAMED_SAMPLING,
    "a ValueError": UNKNOWN_SAMPLING,
    "an error for surplus bytes": FILES[0].replace(b"\xff\xdb", bytes(9) + b"\xff\xdb", 1),
}


@pytest.fixture
def only_pillow(monkeypatch):
    """Function that makes simplejpeg unavailable."""

    def hide():
        monkeypatch.setitem(sys.modules, "simplejpeg", None)
        jpeg_decoding._simplejpeg.cache_clear()

    jpeg_decoding._simplejpeg.cache_clear()
    yield hide
    jpeg_decoding._simplejpeg.cache_clear()


@pytest.fixture
def by_pillow(monkeypatch):
    """List that gets an entry for each image whose pixels Pillow decodes."""
    decoded, original = [], image_decoding._pillow_pixels

    def recorded(image):
        pixels = original(image)
        decoded.append(image)
        return pixels

    monkeypatch.setattr(image_decoding, "_pillow_pixels", recorded)
    return decoded


def _outcome(content):
    """The pixels, or the error."""
    try:
        pixels = image_decoding.decode_image(content, "x.jpg", len(content))
    except dc.errors.DomaincalError as error:
        return type(error), str(error)
    return pixels.shape, pixels.tobytes()


def _pillows(content):
    return np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))


def test_simplejpeg_gives_the_pixels_of_pillow(by_pillow, tmp_path):
    names = [f"{k}.jpg" for k in range(len(FILES))]
    archive = write_zip(tmp_path / "x.zip", dict(zip(names, FILES, strict=True)))
    zipped = ZippedImages([archive], [(0, name) for name in names])
    for k, content in enumerate(FILES):
        (tmp_path / names[k]).write_bytes(content)
        for image in (ImageFiles(tmp_path, names)[k], zipped[k]):
            assert image.dtype == np.uint8
            np.testing.assert_array_equal(image, _pillows(content))
    assert not by_pillow


@pytest.mark.parametrize("content", LEFT_TO_PILLOW.values(), ids=LEFT_TO_PILLOW)
def test_pillow_decodes_what_simplejpeg_does_not_decode_alike(content, by_pillow):
    decoded = image_decoding.decode_image(content, "x.jpg", len(content))
    np.testing.assert_array_equal(decoded, _pillows(content))
    assert by_pillow


def test_large_files_with_arithmetic_coding_give_the_error_of_pillow():
    """The end of Pillow's first block of 64 KiB is in the scan, and the decoder cannot wait."""
    scan = ARITHMETIC.index(b"\xff\xda")
    comment = b"\xff\xfe" + (40_000).to_bytes(2, "big") + bytes(39_998)
    rest = (1 << 16) - len(comment) - scan - 40
    padding = comment + b"\xff\xfe" + (rest - 2).to_bytes(2, "big") + bytes(rest - 4)
    kind, message = _outcome(ARITHMETIC[:2] + padding + ARITHMETIC[2:])
    assert kind is dc.errors.FileFormatError
    assert message.startswith("x.jpg cannot be read (broken data stream")


def _damaged(content, rng):
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 8))):
        at = rng.randrange(len(changed))
        action = rng.randrange(4)
        if action <= 1:
            changed[at] ^= 1 << rng.randrange(8)
        elif action == 2:
            del changed[at : at + rng.randrange(1, 20)]
        else:
            changed[at:at] = rng.choice((rng.randbytes(2), b"\xff", b"\xff\xd0", b"\xff\xd9"))
    return bytes(changed) if rng.random() < 0.9 else bytes(changed[: rng.randrange(len(changed))])


@pytest.mark.filterwarnings("ignore")  # Pillow warns of some damage
def test_damaged_files_give_the_same_with_and_without_simplejpeg(by_pillow, only_pillow):
    rng = random.Random(0)
    small = [content for content in FILES if len(content) < 4000]
    contents = [_damaged(rng.choice(small), rng) for _ in range(2000)]
    outcomes = [_outcome(content) for content in contents]
    n_refused = sum(kind is dc.errors.FileFormatError for kind, _ in outcomes)
    assert min(n_refused, len(by_pillow), len(contents) - n_refused - len(by_pillow)) > 100
    only_pillow()
    assert [_outcome(content) for content in contents] == outcomes


def test_fingerprints_do_not_depend_on_simplejpeg(by_pillow, only_pillow, tmp_path):
    (tmp_path / "x.jpg").write_bytes(FILES[-1])

    def fingerprint():
        return ImageSet(ImageFiles(tmp_path, ["x.jpg"])).fingerprint()

    before = fingerprint()
    assert not by_pillow
    only_pillow()
    assert fingerprint() == before
    assert by_pillow


@pytest.mark.parametrize("version", [None, "2.1.5.1", "4.1.5"])  # the last one is of mozjpeg
def test_simplejpeg_needs_a_pillow_with_the_same_decoder(version, only_pillow, monkeypatch):
    monkeypatch.setattr("PIL.features.version_feature", {"libjpeg_turbo": version}.get)
    assert jpeg_decoding._simplejpeg() is None


@pytest.mark.parametrize(("size", "mode"), [((101, 66), "RGB"), ((101, 67), "L")])
def test_another_reading_of_the_header_is_not_decoded(size, mode):
    """The memory was checked for the size that Pillow has read."""
    content = _jpeg(_photo((101, 67)))
    assert jpeg_decoding.jpeg_pixels(content, SimpleNamespace(size=size, mode=mode)) is None

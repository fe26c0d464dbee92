"""Whatever bytes an image, a zip file or a list of a data set has: an image, or one error."""

import io
import os
import random
import signal
import struct
import tracemalloc
import zipfile
import zlib

import numpy as np
import pytest

import domaincal as dc
from domaincal.vision import ImageFiles, TinyImageNet, ZippedImages
from trees import cifar10, tiny_imagenet, write_tree, write_zip

Image = pytest.importorskip("PIL.Image")

FileFormatError = dc.errors.FileFormatError


def _saved(image, format, **options):
    file = io.BytesIO()
    image.save(file, format, **options)
    return file.getvalue()


_PIXELS = np.random.default_rng(0).integers(0, 255, (24, 20, 3), np.uint8)
_IMAGE = Image.fromarray(_PIXELS)
IMAGES = {
    "a.png": _saved(_IMAGE, "PNG"),
    "palette.png": _saved(_IMAGE.convert("P"), "PNG"),
    "a.jpg": _saved(_IMAGE, "JPEG"),
    "progressive.jpg": _saved(_IMAGE, "JPEG", progressive=True),
    "a.gif": _saved(_IMAGE, "GIF"),
    "a.bmp": _saved(_IMAGE, "BMP"),
    "a.tif": _saved(_IMAGE, "TIFF"),
    "packed.tif": _saved(_IMAGE, "TIFF", compression="tiff_lzw"),
    "a.webp": _saved(_IMAGE, "WEBP"),
    "a.ppm": _saved(_IMAGE, "PPM"),
    "text.ppm": b"P3 4 4 255 " + b" ".join(b"%d" % k for k in range(48)),
}
_NUMBERS = (b"\xff\xff\xff\xff", b"\0\0\0\0", b"\x7f\xff\xff\xff", b"\0\0\xff\xff", b"\xff\x7f\0\0")


def _damaged(content: bytes, rng: random.Random) -> bytes:
    """Content with flipped, removed, inserted and repeated bytes, or other numbers."""
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        at = rng.randrange(min(len(changed), rng.choice((64, 1 << 20))) or 1)
        length, other = rng.randrange(1, 20), rng.randrange(len(changed) or 1)
        action = rng.randrange(6)
        if action <= 1:
            changed[at : at + 1] = rng.randbytes(1)
        elif action == 2:
            changed[at : at + 4] = rng.choice(_NUMBERS)
        elif action == 3:
            del changed[at : at + length]
        elif action == 4:
            changed[at:at] = changed[other : other + length]
        else:
            del changed[rng.randrange(len(changed) + 1) :]
    return _with_right_checks(bytes(changed)) if rng.random() < 0.5 else bytes(changed)


def _with_right_checks(content: bytes) -> bytes:
    """Content of a PNG file with right checksums, so that damage reaches the decoder."""
    fixed, at = bytearray(content), 8
    while content.startswith(b"\x89PNG") and at + 12 <= len(fixed):
        end = at + 8 + int.from_bytes(fixed[at : at + 4], "big")
        if end + 4 > len(fixed):
            break
        fixed[end : end + 4] = zlib.crc32(fixed[at + 4 : end]).to_bytes(4, "big")
        at = end + 4
    return bytes(fixed)


def _zip_of(files, compression=zipfile.ZIP_DEFLATED, **options):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", compression, **options) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return content.getvalue()


def _tiny(**changes):
    """Files of a validation set; the names of changed ones begin in tiny-imagenet-200."""
    files = {
        name: content
        for name, content in tiny_imagenet(picture=lambda _: IMAGES["a.jpg"]).items()
        if "/train/" not in name
    }
    return {**files, **{f"tiny-imagenet-200/{name}": text for name, text in changes.items()}}


@pytest.mark.parametrize("name", IMAGES)
@pytest.mark.filterwarnings("ignore")  # Pillow warns of some damage
def test_damaged_images_give_an_image_or_one_error(name, tmp_path):
    rng = random.Random(name)
    path = tmp_path / name
    refused = []
    for _ in range(80):
        path.write_bytes(_damaged(IMAGES[name], rng))
        try:
            image = ImageFiles(tmp_path, [name])[0]
        except dc.errors.DomaincalError as error:
            refused.append(str(error))
        else:
            assert (image.dtype, image.shape[2]) == (np.uint8, 3)
    assert len(refused) > 8
    assert all(str(path) in message for message in refused)


@pytest.mark.parametrize("compression", ["stored", "deflated", "bzip2", "lzma"])
@pytest.mark.filterwarnings("ignore")
def test_damaged_zips_give_images_or_one_error(compression, tmp_path):
    rng = random.Random(compression)
    content = _zip_of(_tiny(), getattr(zipfile, f"ZIP_{compression.upper()}"))
    path = tmp_path / "x.zip"
    refused = []
    for _ in range(80):
        path.write_bytes(_damaged(content, rng))
        try:
            images = TinyImageNet(path)
            for k in range(len(images)):
                images.images[k]
        except dc.errors.DomaincalError as error:
            refused.append(str(error))
    assert len(refused) > 25
    assert all(str(tmp_path) in message for message in refused)


def test_formats_are_those_of_the_list(tmp_path):
    from domaincal.vision.image_decoding import FORMATS

    for format in FORMATS:
        (tmp_path / "x").write_bytes(_saved(_IMAGE, format))
        assert ImageFiles(tmp_path, ["x"])[0].shape == (24, 20, 3)
    for format in ("ICO", "PCX", "SGI", "TGA", "EPS"):
        (tmp_path / "x").write_bytes(_saved(_IMAGE, format))
        with pytest.raises(FileFormatError, match=r"x is not an image .*BMP, GIF, JPEG, PNG, PPM"):
            ImageFiles(tmp_path, ["x"])[0]


@pytest.mark.parametrize("mode", ["RGB", "L", "P", "1", "RGBA", "LA"])
def test_images_are_converted_in_strips_as_in_one_piece(mode, tmp_path, monkeypatch):
    monkeypatch.setattr("domaincal.vision.image_decoding._STRIP_PIXELS", 7 * 256)
    pixels = np.random.default_rng(1).integers(0, 255, (600, 7, 3), np.uint8)
    image = Image.fromarray(pixels).convert(mode)
    image.save(tmp_path / "x.png")
    np.testing.assert_array_equal(ImageFiles(tmp_path, ["x.png"])[0], image.convert("RGB"))


def _png(width, height, padding=0):
    """PNG file with a header for so many pixels, but hardly any of them."""
    chunks = {
        b"IHDR": struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0), b"npAD": bytes(padding),
        b"IDAT": zlib.compress(bytes(99)), b"IEND": b"",
    }  # fmt: skip
    parts = [struct.pack(">I", len(data)) + kind + data + bytes(4) for kind, data in chunks.items()]
    return _with_right_checks(b"\x89PNG\r\n\x1a\n" + b"".join(parts))


def _tiff(tile):
    """TIFF file of 10 x 10 px with one compressed tile of side ``tile``."""
    data = zlib.compress(bytes(1000))
    tags = [(256, 10), (257, 10), (258, 8), (259, 8), (262, 1), (277, 1), (322, tile), (323, tile),
            (324, 8), (325, len(data))]  # fmt: skip
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags)
    start = struct.pack("<2sHI", b"II", 42, 8 + len(data))
    return start + data + struct.pack("<H", len(tags)) + entries + bytes(4)


_TOO_MUCH = (
    r"x has .*, but reading it takes at least .* of memory, more than 671.1 MB; .* remove it"
)


@pytest.mark.parametrize(
    "content",
    [_png(9400, 9400), _png(2, 44_000_000), _tiff(40_000)],
    ids=["many pixels", "a long image", "a large tile"],
)
def test_an_image_cannot_name_its_memory(content, tmp_path):
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(FileFormatError, match=_TOO_MUCH):
        ImageFiles(tmp_path, ["x"])[0]
    path = write_zip(tmp_path / "a.zip", {"x": content})
    with pytest.raises(FileFormatError, match=r"a.zip:" + _TOO_MUCH):
        ZippedImages([path], [(0, "x")])[0]


def test_large_files_may_have_many_pixels(tmp_path):
    """An image may take 640 MiB, or 100 times the size of its file."""
    from domaincal.vision.image_decoding import open_image

    for side, padding, allowed in ((9100, 0, True), (9400, 0, False), (9400, 7_100_000, True)):
        (tmp_path / "x").write_bytes(_png(side, side, padding))
        if allowed:
            with open_image(tmp_path / "x") as image:
                assert image.size == (side, side)
        else:
            with pytest.raises(FileFormatError, match=_TOO_MUCH), open_image(tmp_path / "x"):
                pass


def _peak(action):
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_member_cannot_name_its_memory(tmp_path):
    path = tmp_path / "x.zip"
    content = _zip_of({"bomb.png": bytes(140_000_000)}, compresslevel=1)
    path.write_bytes(content)
    images = ZippedImages([path], [(0, "bomb.png")])

    def refused():
        with pytest.raises(FileFormatError, match=message):
            images[0]

    message = r"x.zip:bomb.png has .* takes at least 280.0 MB of memory"
    assert _peak(refused) < 5_000_000
    # A header that promises less: no more than that is unpacked.
    path.write_bytes(content.replace(struct.pack("<I", 140_000_000), struct.pack("<I", 1000)))
    images = ZippedImages([path], [(0, "bomb.png")])
    message = r"x.zip:bomb.png cannot be read \(Bad CRC-32"
    assert _peak(refused) < 5_000_000


def test_a_packed_text_cannot_name_its_memory(tmp_path):
    """Each word of a text becomes an object of 50 bytes and more."""
    path = tmp_path / "x.zip"
    path.write_bytes(_zip_of(_tiny(**{"wnids.txt": b"a " * 4_000_000})))
    with pytest.raises(FileFormatError, match=r"x.zip:.*wnids.txt has .* takes at least 320.0 MB"):
        TinyImageNet(path)


def test_encrypted_members_and_unknown_methods_are_refused(tmp_path):
    plain = _zip_of({"a.jpg": IMAGES["a.jpg"]}, zipfile.ZIP_STORED)
    header, entry = plain.index(b"PK\3\4"), plain.index(b"PK\1\2")
    changes = {
        r"x.zip:a.jpg is encrypted; unpack it": (6, 8, 1),
        r"x.zip:a.jpg is compressed by the method 14, .* pack it again": (8, 10, 14),
        r"x.zip:a.jpg is compressed by the method 99": (8, 10, 99),
        r"x.zip:a.jpg cannot be read \(compressed patched data": (6, 8, 0x20),
    }
    for message, (in_header, in_entry, value) in changes.items():
        content = bytearray(plain)
        content[header + in_header] = content[entry + in_entry] = value
        (tmp_path / "x.zip").write_bytes(content)
        with pytest.raises(FileFormatError, match=message):
            ZippedImages([tmp_path / "x.zip"], [(0, "a.jpg")])[0]
    with pytest.raises(FileFormatError, match=r"x.zip has no member b.jpg"):
        ZippedImages([tmp_path / "x.zip"], [(0, "b.jpg")])[0]


@pytest.mark.parametrize("name", ["wnids.txt", "val/val_annotations.txt"])
def test_lists_that_are_not_utf8_are_refused(name, tmp_path):
    files = _tiny(**{name: b"n01443537 \xff\xfe"})
    path = write_zip(tmp_path / "x.zip", files)
    with pytest.raises(FileFormatError, match=rf"x.zip:.*{name} cannot be read .*UTF-8"):
        TinyImageNet(path)
    with pytest.raises(FileFormatError, match=rf"{name} cannot be read .*UTF-8"):
        TinyImageNet(write_tree(tmp_path / "unpacked", files))


def test_names_of_classes_that_are_not_utf8_are_refused(tmp_path):
    files, _, _ = cifar10()
    files["cifar-10-batches-bin/batches.meta.txt"] = b"\xff" * 20
    with pytest.raises(FileFormatError, match=r"batches.meta.txt cannot be read .*UTF-8"):
        dc.vision.Cifar10(write_tree(tmp_path, files))


@pytest.fixture
def no_waiting():
    """End a test that waits for a pipe."""

    def give_up(*_):
        raise TimeoutError("waited for a pipe")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
@pytest.mark.parametrize(
    ("pipe", "read", "message"),
    [
        ("x.png", lambda f: ImageFiles(f, ["x.png"])[0], "x.png is not a regular file"),
        ("x.zip", lambda f: ZippedImages([f / "x.zip"], [(0, "a")])[0], "x.zip is not a regular"),
        ("x.zip", TinyImageNet, "x.zip is not a regular file"),
        ("x.zip", lambda f: TinyImageNet(f / "x.zip"), "x.zip' is not a regular file"),
        ("tiny-imagenet-200/wnids.txt", TinyImageNet, "wnids.txt is not a regular file"),
        ("test_batch.bin", dc.vision.Cifar10, "expected test_batch.bin"),
        ("x.csv", lambda f: dc.vision.ImageTable(f / "x.csv"), "x.csv' is not a regular file"),
        ("metadata.csv", dc.vision.RxRx1, "expected metadata.csv"),
    ],
)
def test_a_pipe_in_place_of_a_file_is_refused_at_once(pipe, read, message, tmp_path, no_waiting):
    if "wnids" in pipe:
        write_tree(tmp_path, _tiny())
        (tmp_path / pipe).unlink()
    os.mkfifo(tmp_path / pipe)
    with pytest.raises(dc.errors.InputError, match=message):
        read(tmp_path)

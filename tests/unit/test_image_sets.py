"""Image sets: images, labels, domains and groups stay aligned, and fingerprints differ."""

import hashlib
import pickle
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, strategies as st

import domaincal as dc
from domaincal.experiments.partitions import Partition
from domaincal.vision import ImageFiles
from trees import encoded, write_tree


def _greys(n=12):
    pixels = np.repeat(np.arange(n, dtype=np.uint8), 4 * 4 * 3).reshape(n, 4, 4, 3)
    return dc.vision.ImageSet(
        pixels, np.arange(n) % 3, class_names=["a", "b", "c"],
        domains=[f"d{k % 4}" for k in range(n)], groups=np.arange(n) // 2, columns=[5, 7, 9],
        provenance={"data set": "greys"},
    )  # fmt: skip


@given(st.lists(st.integers(-12, 11), min_size=1, max_size=20), st.data())
def test_selected_rows_stay_aligned(rows, data):
    images = _greys()
    some = images.select(rows)
    again = data.draw(st.lists(st.integers(0, len(some) - 1), min_size=1, max_size=20))
    both = some.select(again)
    number = np.array(rows)[again] % 12
    assert [int(both.images[k][0, 0, 0]) for k in range(len(both))] == number.tolist()
    for name in ("labels", "domains", "groups"):
        np.testing.assert_array_equal(getattr(both, name), getattr(images, name)[number])
    assert (both.class_names, both.provenance) == (images.class_names, images.provenance)
    np.testing.assert_array_equal(both.columns, [5, 7, 9])


def test_masks_and_slices_select_rows():
    images = _greys()
    assert images.select(images.domains == "d1").labels.tolist() == [1, 2, 0]
    assert images.select(slice(2, 5)).groups.tolist() == [1, 1, 2]
    assert images.select(slice(None)).images[-1][0, 0, 0] == 11
    with pytest.raises(dc.errors.InputError, match="images is empty; check the selection"):
        images.select(np.zeros(12, bool))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": [0, 3]}, "labels contains 3"),
        ({"labels": [0]}, "labels"),
        ({"domains": ["a"]}, "domains"),
        ({"groups": ["a", None]}, "groups has no value in row 1"),
        ({"columns": [1, 2, 3]}, r"columns has the shape \(3,\), but there are 2 classes"),
        ({"class_names": ["a", "a"]}, "class_names contains 'a' twice"),
        ({"class_names": None}, "class_names is None, but labels are given; pass the names"),
        (
            {"labels": None, "class_names": None, "columns": [1, 2]},
            "class_names is None, but columns are given; pass the names",
        ),
    ],
)
def test_inconsistent_arguments_are_refused(change, message):
    arguments = {"labels": [0, 1], "class_names": ["a", "b"], **change}
    labels = arguments.pop("labels")
    with pytest.raises(dc.errors.InputError, match=message):
        dc.vision.ImageSet(np.zeros((2, 4, 4, 3), np.uint8), labels, **arguments)


def test_files_are_decoded_to_rgb(tmp_path):
    image_module = pytest.importorskip("PIL.Image")
    image_module.new("L", (6, 4), 77).save(tmp_path / "grey.png")
    image_module.new("P", (6, 4)).save(tmp_path / "palette.png")
    files = pickle.loads(pickle.dumps(ImageFiles(tmp_path, ["grey.png", "palette.png"])))
    assert files[0].shape == files[1].shape == (4, 6, 3)
    assert files[0].dtype == np.uint8
    assert set(files[0].ravel()) == {77}


def test_errors_name_missing_and_damaged_files(tmp_path):
    pytest.importorskip("PIL")
    whole = encoded(9, side=64)
    write_tree(tmp_path, {"cut.jpg": whole[: len(whole) // 2], "text.jpg": "no picture"})
    files = ImageFiles(tmp_path, ["gone.jpg", "cut.jpg", "text.jpg"])
    with pytest.raises(dc.errors.InputError, match=r"the image .*gone.jpg does not exist"):
        files[0]
    with pytest.raises(dc.errors.FileFormatError, match=r"cut.jpg cannot be read \(.*; repair or"):
        files[1]
    with pytest.raises(
        dc.errors.FileFormatError, match=r"text.jpg is not an image that can be read \(BMP, GIF"
    ):
        files[2]


@pytest.mark.parametrize("seed", range(5))
def test_drawn_domains_equal_those_of_the_partition(seed):
    images = _greys()
    counts = dict(zip(*np.unique(images.domains, return_counts=True), strict=True))
    partition = Partition("random", random_ind=2)
    assert images.draw_domains(2, random_state=seed) == partition.choose(counts, random_state=seed)
    # Published numbers depend on this draw.
    order = np.random.default_rng(seed).permutation(4)
    assert images.draw_domains(2, random_state=seed)[0] == sorted(f"d{k}" for k in order[:2])
    ind, ood = images.draw_domains(1, random_state=seed)
    assert sorted(ind + ood) == ["d0", "d1", "d2", "d3"]


def test_drawing_too_many_domains_is_refused():
    with pytest.raises(dc.errors.InputError, match="n_ind=4, but there are 4 domains"):
        _greys().draw_domains(4, random_state=0)
    plain = dc.vision.ImageSet(np.zeros((1, 4, 4, 3), np.uint8), [0], class_names=["a"])
    with pytest.raises(dc.errors.InputError, match="there are 0 domains"):
        plain.draw_domains(1, random_state=0)


def test_images_of_16_bits_are_refused(tmp_path):
    image = pytest.importorskip("PIL.Image")
    image.fromarray(np.full((4, 4), 40000, np.uint16)).save(tmp_path / "x.png")
    with pytest.raises(dc.errors.InputError, match=r"more than 8 bits per channel \(mode I;16\)"):
        dc.vision.ImageFiles(tmp_path, ["x.png"])[0]


def test_fingerprints_depend_on_images_labels_and_domains():
    def made(value, labels=(0, 1), domains=("a", "b")):
        pixels = np.full((2, 4, 4, 3), value, np.uint8)
        return dc.vision.ImageSet(
            pixels, labels, class_names=["x", "y"], domains=domains
        ).fingerprint()

    assert made(1) == made(1)
    assert len({made(1), made(2), made(1, labels=(1, 1)), made(1, domains=("a", "c"))}) == 4


@pytest.mark.parametrize("class_names", [None, ["a", "b", "c"]])
def test_images_without_labels_can_be_selected_and_drawn(class_names):
    known = _greys()
    images = dc.vision.ImageSet(
        known.images, class_names=class_names, domains=known.domains, groups=known.groups,
        provenance=known.provenance,
    )  # fmt: skip
    assert images.labels is None
    assert images.class_names == (None if class_names is None else ("a", "b", "c"))
    classes = "" if class_names is None else "3 classes, "
    assert repr(images) == f"ImageSet(12 images, {classes}4 domains, 6 groups, no labels)"
    some = images.select([3, 1])
    assert (some.labels, some.class_names) == (None, images.class_names)
    assert some.domains.tolist() == ["d3", "d1"]
    assert [int(some.images[k][0, 0, 0]) for k in range(2)] == [3, 1]
    assert images.draw_domains(2, random_state=0) == known.draw_domains(2, random_state=0)
    assert images.fingerprint() == images.select(slice(None)).fingerprint()
    assert images.fingerprint() not in (known.fingerprint(), some.fingerprint())


def test_fingerprints_differ_for_labels_and_domains_of_the_same_values():
    pixels, names = np.zeros((2, 4, 4, 3), np.uint8), ["a", "b"]
    labelled = dc.vision.ImageSet(pixels, [0, 1], class_names=names)
    placed = dc.vision.ImageSet(pixels, class_names=names, domains=[0, 1])
    assert labelled.fingerprint() != placed.fingerprint()


def test_fingerprints_of_lists_and_arrays_of_names_are_equal():
    """Arrays of Python objects would be hashed by address."""
    pixels = np.zeros((2, 4, 4, 3), np.uint8)
    listed = dc.vision.ImageSet(pixels, domains=["day", "night"], groups=["x", "y"])
    arrays = dc.vision.ImageSet(
        pixels, domains=np.array(["day", "night"]), groups=np.array(["x", "y"])
    )
    assert listed.domains.dtype == listed.groups.dtype == object
    assert listed.fingerprint() == arrays.fingerprint()


def test_fingerprints_of_names_are_those_of_earlier_versions():
    """They are in stores and network files; the recipe of commit 26573bc."""
    pixels = np.arange(3 * 4 * 4 * 3, dtype=np.uint8).reshape(3, 4, 4, 3)
    images = dc.vision.ImageSet(
        pixels, [0, 1, 0], class_names=["a", "b"], domains=["day", "night", "day"],
        groups=["x", "\u00fc", "z"],
    )  # fmt: skip
    digest = hashlib.sha256(b"('a', 'b')")
    digest.update(b"labels" + np.array([0, 1, 0], np.int64).tobytes())
    digest.update(b"domains" + b"day\0night\0day" + b"groups" + "x\0\u00fc\0z".encode())
    for image in pixels:
        digest.update(b"(4, 4, 3)" + image.tobytes())
    assert images.fingerprint() == f"3 images, sha256 {digest.hexdigest()[:16]}"
    assert images.fingerprint() == "3 images, sha256 59b71fe7e192d088"


def test_a_long_name_takes_memory_once():
    """An array of numpy strings would pad the names of all rows to 4 kB."""
    pixels = np.zeros((20_000, 1, 1, 3), np.uint8)
    tracemalloc.start()
    images = dc.vision.ImageSet(pixels, domains=["day", "n" * 1000] * 10_000)
    taken = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert taken < 20_000_000
    assert images.select([1, 3]).domains.tolist() == ["n" * 1000] * 2
    for name in ("n" * 1001, "a\0", "\ud800"):
        with pytest.raises(dc.errors.InputError, match="groups"):
            dc.vision.ImageSet(pixels[:2], groups=["a", name])


def test_fingerprints_do_not_depend_on_the_dtype_of_names():
    pixels = np.zeros((3, 2, 2, 3), np.uint8)

    def made(**options):
        return dc.vision.ImageSet(pixels, **options).fingerprint()

    names = np.array(["a", "b", "c"])
    assert made(domains=names) == made(domains=names.astype("U20"))
    assert made(groups=np.arange(3)) == made(groups=np.arange(3, dtype=np.int16))
    assert len({made(), made(domains=names), made(groups=names), made(domains=names[::-1])}) == 4
    assert made(domains=["ab", "c", "d"]) != made(domains=["a", "bc", "d"])
    longer = dc.vision.ImageSet(pixels, domains=["a", "b", "longer"]).select([0, 1])
    assert longer.fingerprint() == dc.vision.ImageSet(pixels[:2], domains=["a", "b"]).fingerprint()

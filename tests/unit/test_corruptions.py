"""Corruptions depend on the seed and the image only, and have no side effects."""

import inspect
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.neural_network import MLPClassifier

import domaincal as dc
from domaincal._shared_context import SharedContext
from domaincal.cli import main
from domaincal.vision import digits_c
from domaincal.vision.corruptions.catalogue import CORRUPTIONS, FAMILIES, SEVERITIES
from domaincal.vision.corruptions.numpy_corruptions import image_seed
from domaincal.vision.processes import run_in_processes

imagecorruptions = pytest.importorskip("imagecorruptions", reason="needs the extra corruptions")
Image = pytest.importorskip("PIL.Image")


@pytest.fixture(scope="module")
def images():
    rng = np.random.default_rng(0)
    blocks = rng.uniform(0, 200, (3, 4, 4, 3)).repeat(8, axis=1).repeat(8, axis=2)
    return (blocks + np.arange(32)[:, None]).astype(np.uint8)


def test_names_and_families_equal_those_of_the_package():
    for family, names in FAMILIES.items():
        assert list(names) == imagecorruptions.get_corruption_names(family)
    assert list(CORRUPTIONS) == imagecorruptions.get_corruption_names("common")


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_each_corruption_equals_the_packages_and_depends_on_the_seed(name, images):
    made = dc.vision.corrupt(images, name, 3, random_state=5)
    assert made.dtype == np.uint8
    assert made.shape == images.shape
    assert (made != images).any()
    np.testing.assert_array_equal(made, dc.vision.corrupt(images, name, 3, random_state=5))
    function = imagecorruptions.corruption_dict[name]
    if name in ("impulse_noise", "glass_blur") or "np.random" in inspect.getsource(function):
        assert (made != dc.vision.corrupt(images, name, 3, random_state=6)).any()
    elif name not in ("snow", "fog"):  # whose helpers draw the numbers
        plain = imagecorruptions.corrupt(images[0], severity=3, corruption_name=name)
        np.testing.assert_array_equal(made[0], plain)


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_result_does_not_depend_on_order_or_batch(name, images):
    made = dc.vision.corrupt(images, name, 2, random_state=1)
    np.testing.assert_array_equal(
        dc.vision.corrupt(images[::-1], name, 2, random_state=1), made[::-1]
    )
    np.testing.assert_array_equal(
        dc.vision.corrupt(images[1:2], name, 2, random_state=1), made[1:2]
    )


def test_noise_differs_between_images_and_severities():
    grey = np.full((2, 32, 32, 3), 128, np.uint8)
    grey[1, 0, 0, 0] = 127  # nearly the same image
    noise = dc.vision.corrupt(grey, "gaussian_noise", 1).astype(int) - grey
    assert abs(np.corrcoef(noise[0].ravel(), noise[1].ravel())[0, 1]) < 0.1
    stronger = dc.vision.corrupt(grey[:1], "gaussian_noise", 2).astype(int) - grey[:1]
    assert abs(np.corrcoef(noise[0].ravel(), stronger.ravel())[0, 1]) < 0.1


def test_result_does_not_depend_on_the_number_of_processes(images):
    tasks = [(images, name, 4, 3) for name in ("glass_blur", "frost", "impulse_noise", "snow")]
    one = list(run_in_processes(dc.vision.corrupt, tasks, n_jobs=1))
    two = list(run_in_processes(dc.vision.corrupt, tasks, n_jobs=2))
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("name", ["gaussian_noise", "glass_blur", "impulse_noise", "frost"])
def test_global_random_states_are_restored(name, images):
    np.random.seed(3)  # noqa: NPY002
    random.seed(3)
    expected = np.random.random(3), random.random()  # noqa: NPY002
    np.random.seed(3)  # noqa: NPY002
    random.seed(3)
    dc.vision.corrupt(images, name, 5)
    np.testing.assert_array_equal(np.random.random(3), expected[0])  # noqa: NPY002
    assert random.random() == expected[1]


def test_package_is_restored_after_an_error(images, monkeypatch):
    module = imagecorruptions.corruptions
    cv2 = module.cv2

    def fail(*_, **__):
        raise RuntimeError("broken")

    state = np.random.get_state()[1].copy()  # noqa: NPY002
    monkeypatch.setitem(imagecorruptions.corruption_dict, "fog", fail)
    with pytest.raises(RuntimeError, match="broken"):
        dc.vision.corrupt(images, "fog", 1)
    assert module.cv2 is cv2
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002


def test_number_of_opencv_threads_is_restored(images):
    cv2 = imagecorruptions.corruptions.cv2
    before = cv2.getNumThreads()
    cv2.setNumThreads(3)
    try:
        dc.vision.corrupt(images, "frost", 1)
        assert cv2.getNumThreads() == 3
    finally:
        cv2.setNumThreads(before)


def test_output_of_the_package_is_suppressed(images, monkeypatch, capsys):
    module = imagecorruptions.corruptions
    exec("def talk(image, severity):\n    print('Exception')\n    return image", vars(module))
    monkeypatch.setitem(imagecorruptions.corruption_dict, "fog", vars(module).pop("talk"))
    dc.vision.corrupt(images, "fog", 1)
    assert capsys.readouterr().out == ""
    assert not hasattr(module, "print")


def test_frost_with_cached_pictures_equals_the_packages(images):
    np.random.seed(image_seed(images[0], "frost", 2, 9))  # noqa: NPY002
    expected = imagecorruptions.corrupt(images[0], severity=2, corruption_name="frost")
    np.testing.assert_array_equal(
        dc.vision.corrupt(images[:1], "frost", 2, random_state=9)[0], expected
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros((1, 32, 32, 3)), "fog", 1), "uint8 of shape"),
        ((np.zeros((32, 32, 3), np.uint8), "fog", 1), r"pass a single image as \[image\]"),
        ((np.zeros((1, 32, 32), np.uint8), "fog", 1), "repeat the channel"),
        ((np.zeros((1, 31, 40, 3), np.uint8), "fog", 1), "31 x 40 px, .* enlarge"),
        ((np.zeros((1, 32, 32, 3), np.uint8), "rain", 1), "name must be one of"),
        ((np.zeros((1, 32, 32, 3), np.uint8), "fog", 0), "severity must be 1, 2, 3, 4 or 5, got 0"),
        ((np.zeros((1, 32, 32, 3), np.uint8), "fog", True), "severity must be"),
        ((np.zeros((1, 32, 32, 3), np.uint8), "fog", 3.0), "severity must be"),
        ((np.zeros((1, 32, 32, 3), np.uint8), "fog", 1, -1), "random_state must be"),
    ],
)
def test_invalid_arguments_are_refused(arguments, message):
    with pytest.raises(dc.errors.InputError, match=message):
        dc.vision.corrupt(*arguments)


@pytest.fixture
def photos(tmp_path):
    folder = tmp_path / "photos"
    (folder / "cats").mkdir(parents=True)
    rng = np.random.default_rng(1)
    for name, mode in [("a.png", "RGB"), ("cats/b.JPEG", "RGB"), ("cats/c.png", "L")]:
        pixels = rng.integers(0, 255, (33, 40, 3), np.uint8)
        Image.fromarray(pixels).convert(mode).save(folder / name)
    (folder / "notes.txt").write_text("no image")
    return folder


def _pixels(path):
    with Image.open(path) as image:
        return np.asarray(image)


def _files(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_folder_has_the_layout_of_imagenet_c(photos, tmp_path):
    done = dc.vision.corrupt_folder(
        photos, tmp_path / "out", names=["fog", "contrast"], severities=[2, 5]
    )
    assert (done.n_images, done.n_domains, done.n_written, done.n_kept) == (3, 4, 12, 0)
    assert done.n_left_out == 1  # notes.txt
    files = _files(tmp_path / "out")
    assert {name for name in files if name.startswith("contrast/5")} == {
        "contrast/5/a.png", "contrast/5/cats/b.JPEG", "contrast/5/cats/c.png",
    }  # fmt: skip
    expected = dc.vision.corrupt(_pixels(photos / "a.png")[None], "fog", 2)[0]
    np.testing.assert_array_equal(_pixels(tmp_path / "out/fog/2/a.png"), expected)
    # JPEG has quality 85, as in the published ImageNet-C.
    expected = dc.vision.corrupt(_pixels(photos / "cats/b.JPEG")[None], "fog", 2)[0]
    Image.fromarray(expected).save(tmp_path / "b.jpg", quality=85)
    assert files["fog/2/cats/b.JPEG"] == (tmp_path / "b.jpg").read_bytes()


def test_folder_is_the_same_with_two_processes_and_after_an_interruption(photos, tmp_path):
    options = {"names": ["frost", "glass_blur"], "random_state": 4}
    dc.vision.corrupt_folder(photos, tmp_path / "one", **options)
    dc.vision.corrupt_folder(photos, tmp_path / "two", n_jobs=2, **options)
    whole = _files(tmp_path / "one")
    assert _files(tmp_path / "two") == whole
    for name in sorted(whole)[3::4]:
        os.unlink(tmp_path / "two" / name)
    done = dc.vision.corrupt_folder(photos, tmp_path / "two", **options)
    assert done.n_written + done.n_kept == 30
    assert done.n_written == len(sorted(whole)[3::4])
    assert _files(tmp_path / "two") == whole


def test_folder_with_other_parameters_or_files_is_refused(photos, tmp_path):
    dc.vision.corrupt_folder(photos, tmp_path / "out", names=["fog"], severities=[1])
    with pytest.raises(
        dc.errors.InputError, match=r"made with seed 0 and source .*, not with seed 1 and"
    ):
        dc.vision.corrupt_folder(
            photos, tmp_path / "out", names=["fog"], severities=[1], random_state=1
        )
    with pytest.raises(dc.errors.InputError, match="contains other files"):
        dc.vision.corrupt_folder(tmp_path / "out", photos, names=["fog"])
    with pytest.raises(dc.errors.InputError, match=r"made with .*photos.*, not with .*cats"):
        dc.vision.corrupt_folder(photos / "cats", tmp_path / "out", names=["fog"], severities=[1])
    with pytest.raises(dc.errors.InputError, match="is inside the output"):
        dc.vision.corrupt_folder(tmp_path / "out/fog", tmp_path / "out", names=["fog"])
    with pytest.raises(dc.errors.InputError, match="is inside the source"):
        dc.vision.corrupt_folder(photos, photos / "out")


@pytest.mark.parametrize(
    "recipe",
    [b"", b"[]", b"3", b"[" * 50_000, b'{"seed": %s}' % (b"1" * 5000), b'{"seed": [1]}', b"\xff",
     b'{"seed": null}'],
)  # fmt: skip
def test_damaged_recipes_are_refused(recipe, photos, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/corruptions.json").write_bytes(recipe)
    with pytest.raises(
        dc.errors.FileFormatError, match=r"corruptions.json cannot be read .*remove it, or choose"
    ):
        dc.vision.corrupt_folder(photos, tmp_path / "out", names=["fog"])


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_in_place_of_the_recipe_is_refused_at_once(photos, tmp_path):
    (tmp_path / "out").mkdir()
    os.mkfifo(tmp_path / "out/corruptions.json")
    signal.alarm(20)  # ends the process, if it waits
    try:
        with pytest.raises(dc.errors.InputError, match=r"corruptions.json is not a regular file"):
            dc.vision.corrupt_folder(photos, tmp_path / "out", names=["fog"])
    finally:
        signal.alarm(0)
    os.mkfifo(photos / "pipe.png")  # neither an image nor another file
    done = dc.vision.corrupt_folder(photos, tmp_path / "new", names=["fog"], severities=[1])
    assert (done.n_images, done.n_left_out) == (3, 1)


def test_an_image_that_names_its_memory_is_refused_before_any_is_written(photos, tmp_path):
    whole = bytearray((photos / "a.png").read_bytes())
    whole[16:24] = (9400).to_bytes(4, "big") * 2
    whole[29:33] = zlib.crc32(whole[12:29]).to_bytes(4, "big")
    (photos / "z.png").write_bytes(whole)
    with pytest.raises(
        dc.errors.FileFormatError, match=r"z.png has .* takes at least .* of memory"
    ):
        dc.vision.corrupt_folder(photos, tmp_path / "out", names=["fog"])
    assert not (tmp_path / "out").exists()


def test_threads_leave_the_package_and_stdout_as_they_were(images, monkeypatch):
    """One thread leaves before the other, as far as a lock lets both in."""
    module, cv2 = imagecorruptions.corruptions, imagecorruptions.corruptions.cv2
    inside, left = threading.Event(), threading.Event()

    def slow(image, severity):
        if severity == 1:  # the first thread waits for the second to enter
            inside.wait(0.3)
        else:  # and the second for the first to leave
            inside.set()
            left.wait(0.3)
        return image

    def run(severity):
        dc.vision.corrupt(images[:1], "fog", severity)
        if severity == 1:
            left.set()

    monkeypatch.setitem(imagecorruptions.corruption_dict, "fog", slow)
    stdout, threads = sys.stdout, cv2.getNumThreads()
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(run, (1, 2)))
    assert module.cv2 is cv2
    assert sys.stdout is stdout
    assert cv2.getNumThreads() == threads
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002


def test_the_last_thread_restores_a_shared_setting():
    values = {"threads": 4}

    @SharedContext
    @contextmanager
    def one():
        before, values["threads"] = values["threads"], 1
        yield
        values["threads"] = before

    first, second = one.entered(), one.entered()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert values["threads"] == 1
    second.__exit__(None, None, None)
    assert values["threads"] == 4


def test_changed_image_is_corrupted_again(photos, tmp_path):
    options = {"names": ["fog", "fog"], "severities": [1, 1]}
    assert dc.vision.corrupt_folder(photos, tmp_path / "out", **options).n_written == 3
    Image.fromarray(np.zeros((40, 40, 3), np.uint8)).save(photos / "a.png")
    done = dc.vision.corrupt_folder(photos, tmp_path / "out", **options)
    assert (done.n_written, done.n_kept, done.n_domains) == (1, 2, 1)
    assert _pixels(tmp_path / "out/fog/1/a.png").shape == (40, 40, 3)


def test_invalid_folders_and_images_are_refused(photos, tmp_path):
    with pytest.raises(dc.errors.InputError, match="is not a folder"):
        dc.vision.corrupt_folder(tmp_path / "nowhere", tmp_path / "out")
    (tmp_path / "empty").mkdir()
    with pytest.raises(dc.errors.InputError, match="there is no image"):
        dc.vision.corrupt_folder(tmp_path / "empty", tmp_path / "out")
    with pytest.raises(dc.errors.InputError, match="names or severities is empty"):
        dc.vision.corrupt_folder(photos, tmp_path / "out", names=[])
    Image.new("RGB", (20, 50)).save(photos / "small.png")
    with pytest.raises(dc.errors.InputError, match=r"small.png is 20 x 50 px"):
        dc.vision.corrupt_folder(photos, tmp_path / "out")
    Image.fromarray(np.full((50, 50), 40_000, np.uint16)).save(photos / "small.png")
    with pytest.raises(dc.errors.InputError, match=r"small.png has more than 8 bits per channel"):
        dc.vision.corrupt_folder(photos, tmp_path / "out")
    (photos / "small.png").write_bytes(b"nonsense")
    with pytest.raises(dc.errors.FileFormatError, match=r"small.png is not an image"):
        dc.vision.corrupt_folder(photos, tmp_path / "out")
    Image.new("RGB", (50, 50)).save(photos / "small.png")
    whole = (photos / "cats/b.JPEG").read_bytes()
    (photos / "cats/b.JPEG").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(dc.errors.FileFormatError, match=r"b.JPEG cannot be read"):
        dc.vision.corrupt_folder(photos, tmp_path / "out", names=["fog"], severities=[1])
    assert not (tmp_path / "out/fog/1/cats/b.JPEG").exists()


def test_verb_corrupts_a_folder_and_resumes(photos, tmp_path):
    out = str(tmp_path / "out")
    arguments = ["corrupt", str(photos), out, "--name", "fog", "--severity", "2", "--jobs", "1"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("3 images in 1 domains: 3 files written; ")
    assert "1 files of" in result.stderr
    result = CliRunner().invoke(main, [*arguments, "--json"])
    document = json.loads(result.stdout)
    assert (document["n_written"], document["n_kept"]) == (0, 3)
    result = CliRunner().invoke(main, ["corrupt", str(photos), out, "--name", "rain"])
    assert (result.exit_code, "name must be one of" in result.output) == (1, True)


@pytest.mark.parametrize("n_jobs", [0, -2, True, 1.5])
def test_invalid_number_of_processes_is_refused(n_jobs, images):
    with pytest.raises(dc.errors.InputError, match="n_jobs must be"):
        list(run_in_processes(dc.vision.corrupt, [(images, "fog", 1)], n_jobs=n_jobs))


def test_workers_end_when_their_parent_is_killed(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import os, signal, time\n"
        "from domaincal.vision.processes import run_in_processes\n"
        "def work(k):\n"
        "    open(f'{os.getpid()}.pid', 'w').close()\n"
        "    time.sleep(0.3)\n"
        "for k, _ in enumerate(run_in_processes(work, [(k,) for k in range(50)], n_jobs=2)):\n"
        "    if k == 3:\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run([sys.executable, script], cwd=tmp_path, check=False)
    assert killed.returncode == -signal.SIGKILL
    workers = [int(path.stem) for path in tmp_path.glob("*.pid")]
    assert len(workers) == 2
    for _ in range(100):
        alive = [pid for pid in workers if os.path.exists(f"/proc/{pid}")]
        if not alive:
            break
        time.sleep(0.1)
    assert not alive


def test_digits_c_shows_the_same_images_in_76_domains():
    data = dc.vision.load_digits_c(3, n_images=4)
    assert len(data.domain_names) == 76
    assert data.logits.shape == (304, 10)
    assert data.features.shape == (304, 100)
    for _, rows in data.by_domain():
        np.testing.assert_array_equal(rows.groups, data.groups[:4])
        np.testing.assert_array_equal(rows.labels, data.labels[:4])
    assert data.domains[0] == "clean"
    assert len(SEVERITIES) * len(CORRUPTIONS) == 75


@pytest.fixture
def networks(monkeypatch):
    """Options of the networks of Digits-C, which are trained for two epochs only."""
    made = []

    def make(**options):
        made.append(options)
        return MLPClassifier(**{**options, "max_iter": 2, "tol": 1.0})

    monkeypatch.setattr(digits_c, "MLPClassifier", make)
    return made


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_digits_c_depends_on_the_seed(networks, monkeypatch):
    monkeypatch.setattr(digits_c, "CORRUPTED_DOMAINS", (("fog", 1), ("impulse_noise", 2)))
    a, b = (dc.vision.load_digits_c(3, n_images=2) for _ in range(2))
    np.testing.assert_array_equal(a.logits, b.logits)
    other = dc.vision.load_digits_c(4, n_images=2)
    assert set(other.groups) != set(a.groups)


def test_outputs_of_digits_c_are_those_of_the_network():
    x = np.random.default_rng(0).normal(size=(60, 5)).astype(np.float32)
    network = MLPClassifier((7,), max_iter=20, tol=1.0, random_state=0).fit(x, np.arange(60) % 3)
    logits, features = digits_c.network_outputs(network, x)
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(p, network.predict_proba(x), atol=1e-5)
    assert features.shape == (60, 7)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_seed_of_digits_c_is_that_of_the_network(networks, monkeypatch):
    monkeypatch.setattr(digits_c, "CORRUPTED_DOMAINS", (("fog", 1),))
    for seed in (5, 6):
        dc.vision.load_digits_c(seed, n_images=1)
    assert [options["random_state"] for options in networks] == [5, 6]


def test_digits_are_enlarged_smoothly():
    images, _ = digits_c.enlarged_digits()
    assert images.shape == (1797, 32, 32)
    assert (images[:, 1::4] != images[:, 2::4]).mean() > 0.2  # no blocks of 4 px


def test_corrupted_digits_are_the_rounded_mean_of_the_channels(monkeypatch):
    colours = np.random.default_rng(0).integers(0, 256, (2, 32, 32, 3), np.uint8)
    monkeypatch.setattr(digits_c, "corrupt", lambda *_: colours)
    grey = digits_c.corrupt_grey(colours[..., 0], "fog", 1)
    np.testing.assert_array_equal(grey, np.round(colours.mean(axis=-1)))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_digits_c_with_fewer_images_is_a_part_of_the_whole(networks, monkeypatch):
    """The cached corrupted digits are the same as freshly corrupted ones."""
    monkeypatch.setattr(digits_c, "CORRUPTED_DOMAINS", (("fog", 1), ("impulse_noise", 2)))
    digits_c.all_corrupted_digits.cache_clear()
    try:
        whole, part = dc.vision.load_digits_c(1), dc.vision.load_digits_c(1, n_images=5)
    finally:
        digits_c.all_corrupted_digits.cache_clear()
    rows = np.isin(whole.groups, part.groups)
    np.testing.assert_array_equal(whole.logits[rows].shape, part.logits.shape)
    order = [np.flatnonzero((whole.groups == g) & (whole.domains == d))[0]
             for g, d in zip(part.groups, part.domains, strict=True)]  # fmt: skip
    np.testing.assert_allclose(whole.logits[order], part.logits, rtol=1e-5, atol=1e-5)
    with pytest.raises(dc.errors.InputError, match="n_images must be at most 899, got 900"):
        dc.vision.load_digits_c(n_images=900)


def test_script_without_a_main_guard_can_use_processes(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import numpy as np, domaincal as dc\n"
        "from domaincal.vision.processes import run_in_processes\n"
        "x = np.zeros((1, 32, 32, 3), np.uint8)\n"
        "tasks = [(x, 'fog', 1), (x, 'snow', 1)]\n"
        "print(len(list(run_in_processes(dc.vision.corrupt, tasks, n_jobs=2))))\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.stdout == "2\n", done.stderr

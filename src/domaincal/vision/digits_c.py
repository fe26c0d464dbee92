"""Digits-C: scikit-learn's handwritten digits under 75 corruptions, seen by a small network."""

import functools

import numpy as np
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier
from threadpoolctl import threadpool_limits

from domaincal._optional import require
from domaincal._typing import Array, FloatArray, Track
from domaincal._validation import check_count
from domaincal.data import CalibrationData
from domaincal.errors import InputError
from domaincal.vision.corruptions.catalogue import (
    CLEAN,
    CORRUPTIONS,
    SEVERITIES,
    SMALLEST_SIDE,
    domain_name,
)
from domaincal.vision.corruptions.corrupt import corrupt
from domaincal.vision.processes import in_processes

_PAIRS = tuple((name, severity) for name in CORRUPTIONS for severity in SEVERITIES)


def load_digits_c(
    seed: int = 0, *, n_images: int | None = None, n_jobs: int = 1, track: Track = iter
) -> CalibrationData:
    """Logits and features of a small network on corrupted digits: the embedded benchmark.

    Input: the 1797 handwritten digits that come with scikit-learn (8 x 8 px, a copy of the test
    set of UCI's Optical Recognition of Handwritten Digits, CC BY 4.0), enlarged to 32 x 32 px.
    Label: the digit. Domain: ``clean``, or one of 15 corruptions at one of 5 severities, e.g.
    ``fog-3``, with ImageNet-C's constants. Group: the image, the same in all domains. Size: 76
    domains x 899 rows, 10 classes, 100 features.

    A random half of the digits trains scikit-learn's ``MLPClassifier`` with its defaults (one
    hidden layer of 100), until it has converged; the other half is what the 76 domains show.

    Parameters
    ----------
    seed : int, default 0
        Of the halves and of the network. The noise of a corrupted image is the same for all seeds.
    n_images : int, optional
        Images in each domain, at most 899, which is also the default.
    n_jobs : int, default 1
        Processes that corrupt the images; -1: one for each core.
    track : callable, optional
        Wraps the list of corruptions, to show progress, e.g. ``tqdm.tqdm``.

    Examples
    --------
    >>> import domaincal as dc
    >>> dc.vision.load_digits_c(n_images=2)
    CalibrationData(152 rows, 10 classes, 100 features, 76 domains, 2 groups)
    """
    check_count(seed, "seed", minimum=0)
    images, labels = _enlarged_digits()
    order = np.random.default_rng(seed).permutation(len(images))
    train, kept = np.split(order, [len(order) // 2])
    if n_images is not None:
        check_count(n_images, "n_images", minimum=1)
        if n_images > len(kept):
            raise InputError(f"n_images must be at most {len(kept)}, got {n_images}.")
        corrupted = _corrupted(images[kept[:n_images]], n_jobs, track)
        kept = kept[:n_images]
    else:
        corrupted = _all_corrupted(n_jobs, track)[:, kept]
    network = MLPClassifier(max_iter=1000, random_state=seed)
    with threadpool_limits(1, "blas"):  # threads would cost such small matrices more than they give
        network.fit(_pixels(images[train]), labels[train])
        seen = np.concatenate([images[None, kept], corrupted])
        logits, features = _outputs(network, _pixels(seen.reshape(-1, *seen.shape[2:])))
    names = [CLEAN, *(domain_name(*pair) for pair in _PAIRS)]
    return CalibrationData(
        logits,
        labels=np.tile(labels[kept], len(names)),
        features=features,
        domains=np.repeat(names, len(kept)),
        groups=np.tile(kept, len(names)),
        provenance={"data": "Digits-C", "network": "MLP", "seed": seed},
    )


def _enlarged_digits() -> tuple[Array, Array]:
    """Grey images (n, 32, 32) of uint8, and their labels."""
    image = require("PIL.Image", extra="corruptions", purpose="enlarging images")
    digits = load_digits()
    size = (SMALLEST_SIDE, SMALLEST_SIDE)
    grey = np.round(digits.images * (255 / 16)).astype(np.uint8)
    enlarged = [image.fromarray(x).resize(size, image.Resampling.BICUBIC) for x in grey]
    return np.stack([np.asarray(x) for x in enlarged]), digits.target


@functools.lru_cache(maxsize=1)
def _all_corrupted(n_jobs: int, track: Track) -> Array:
    """All digits under all corruptions: whichever half a seed takes, they are the same."""
    return _corrupted(_enlarged_digits()[0], n_jobs, track)


def _corrupted(images: Array, n_jobs: int, track: Track) -> Array:
    """Grey images under each corruption, shape (75, n, 32, 32)."""
    require("imagecorruptions", extra="corruptions", purpose="corrupting images")
    tasks = [(images, name, severity) for name, severity in _PAIRS]
    return np.stack(list(in_processes(_corrupted_grey, tasks, n_jobs=n_jobs, track=track)))


def _corrupted_grey(images: Array, name: str, severity: int) -> Array:
    """Grey images under a corruption; what it colours is grey again: the mean, rounded."""
    coloured = corrupt(np.repeat(images[..., None], 3, axis=-1), name, severity)
    grey: Array = ((coloured.sum(axis=-1, dtype=np.uint16) + 1) // 3).astype(np.uint8)
    return grey


def _pixels(images: Array) -> FloatArray:
    return images.reshape(len(images), -1) / np.float32(255)


def _outputs(network: MLPClassifier, x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Logits, and the activations of the hidden layer below them."""
    hidden, last = (weights.astype(np.float32) for weights in network.coefs_)
    hidden_bias, last_bias = (bias.astype(np.float32) for bias in network.intercepts_)
    features = np.maximum(x @ hidden + hidden_bias, 0.0)
    return features @ last + last_bias, features

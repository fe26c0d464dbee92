"""Digits-C: scikit-learn's handwritten digits under 75 corruptions, classified by a small MLP."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

import numpy as np
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

from domaincal._optional import require
from domaincal._typing import Array, FloatArray, Track
from domaincal._validation import check_count
from domaincal.data import CalibrationData
from domaincal.errors import InputError
from domaincal.statistics.blas_threads import one_blas_thread
from domaincal.vision.corruptions.catalogue import (
    CLEAN,
    CORRUPTIONS,
    SEVERITIES,
    SMALLEST_SIDE,
    domain_name,
)
from domaincal.vision.corruptions.corrupt import corrupt
from domaincal.vision.processes import run_in_processes

#: Corruption and severity of each corrupted domain.
CORRUPTED_DOMAINS = tuple((name, severity) for name in CORRUPTIONS for severity in SEVERITIES)


def load_digits_c(
    random_state: int = 0, *, n_images: int | None = None, n_jobs: int = 1, track: Track = iter
) -> CalibrationData:
    """Load Digits-C: logits and features of a small network on corrupted digits.

    Input: the 1797 handwritten digits that come with scikit-learn (8 x 8 px, a copy of the test
    set of UCI's Optical Recognition of Handwritten Digits, CC BY 4.0), enlarged to 32 x 32 px.
    Label: the digit. Domain: ``clean``, or one of 15 corruptions at one of 5 severities, e.g.
    ``fog-3``, with ImageNet-C's constants. Group: the image, the same in all domains. Size: 76
    domains x 899 rows, 10 classes, 100 features.

    A random half of the digits trains scikit-learn's ``MLPClassifier`` with its default parameters
    (one hidden layer of 100 units) until it has converged. The other half is shown in the 76
    domains.

    Parameters
    ----------
    random_state : int, default 0
        Seed of the split into halves and of the network. The noise of a corrupted image does not
        depend on it.
    n_images : int, optional
        Number of images in each domain, at most 899, which is the default.
    n_jobs : int, default 1
        Number of processes that corrupt the images; -1 means one per core.
    track : callable, optional
        Wraps the list of corruptions, to show progress, e.g. ``tqdm.tqdm``.

    Returns
    -------
    CalibrationData

    Examples
    --------
    >>> import domaincal as dc
    >>> dc.vision.load_digits_c(n_images=2)
    CalibrationData(152 rows, 10 classes, 100 features, 76 domains, 2 groups)
    """
    check_count(random_state, "random_state", minimum=0)
    images, labels = enlarged_digits()
    order = np.random.default_rng(random_state).permutation(len(images))
    train, shown = np.split(order, [len(order) // 2])
    if n_images is not None:
        check_count(n_images, "n_images", minimum=1)
        if n_images > len(shown):
            raise InputError(f"n_images must be at most {len(shown)}, got {n_images}.")
        shown = shown[:n_images]
        corrupted = _corrupt_digits(images[shown], n_jobs, track)
    else:
        corrupted = all_corrupted_digits(n_jobs, _Shown(track))[:, shown]
    network = MLPClassifier(max_iter=1000, random_state=random_state)
    with one_blas_thread():  # threads slow down products of such small matrices
        network.fit(_pixel_rows(images[train]), labels[train])
        all_domains = np.concatenate([images[None, shown], corrupted])
        pixels = _pixel_rows(all_domains.reshape(-1, *images.shape[1:]))
        logits, features = network_outputs(network, pixels)
    names = [CLEAN, *(domain_name(*domain) for domain in CORRUPTED_DOMAINS)]
    return CalibrationData(
        logits,
        labels=np.tile(labels[shown], len(names)),
        features=features,
        domains=np.repeat(names, len(shown)),
        groups=np.tile(shown, len(names)),
        provenance={"data": "Digits-C", "network": "MLP", "seed": random_state},
    )


def enlarged_digits() -> tuple[Array, Array]:
    """Grey images, uint8 of shape (n, 32, 32), and their labels."""
    image = require("PIL.Image", extra="corruptions", purpose="enlarging images")
    digits = load_digits()
    size = (SMALLEST_SIDE, SMALLEST_SIDE)
    grey = np.round(digits.images * (255 / 16)).astype(np.uint8)
    enlarged = [image.fromarray(x).resize(size, image.Resampling.BICUBIC) for x in grey]
    return np.stack([np.asarray(x) for x in enlarged]), digits.target


@dataclass(frozen=True)
class _Shown:
    """How progress is shown; all are equal, so that the cache does not depend on it."""

    track: Track = field(compare=False)


@functools.lru_cache(maxsize=1)
def all_corrupted_digits(n_jobs: int, shown: _Shown) -> Array:
    """All digits under all corruptions; cached, because they do not depend on the seed."""
    return _corrupt_digits(enlarged_digits()[0], n_jobs, shown.track)


def _corrupt_digits(images: Array, n_jobs: int, track: Track) -> Array:
    """Grey images under each corruption, shape (75, n, 32, 32)."""
    require("imagecorruptions", extra="corruptions", purpose="corrupting images")
    tasks = [(images, name, severity) for name, severity in CORRUPTED_DOMAINS]
    return np.stack(list(run_in_processes(corrupt_grey, tasks, n_jobs=n_jobs, track=track)))


def corrupt_grey(images: Array, name: str, severity: int) -> Array:
    """Corrupt grey images, and average the channels of the result."""
    coloured = corrupt(np.repeat(images[..., None], 3, axis=-1), name, severity)
    grey: Array = ((coloured.sum(axis=-1, dtype=np.uint16) + 1) // 3).astype(np.uint8)
    return grey


def _pixel_rows(images: Array) -> FloatArray:
    """One row of pixels in [0, 1] for each image."""
    return images.reshape(len(images), -1) / np.float32(255)


def network_outputs(network: MLPClassifier, x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Logits, and the activations of the hidden layer."""
    hidden, last = (weights.astype(np.float32) for weights in network.coefs_)
    hidden_bias, last_bias = (bias.astype(np.float32) for bias in network.intercepts_)
    features = np.maximum(x @ hidden + hidden_bias, 0.0)
    return features @ last + last_bias, features

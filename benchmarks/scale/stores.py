"""Stores of any size, made block by block, and their pages in the cache of the system."""

import os
from pathlib import Path

import numpy as np

N_DOMAINS = 64
_CHUNK = 1 << 16


def make_store(folder: Path, n_rows: int, n_classes: int, n_features: int) -> None:
    """Rows whose temperature depends on the domain; the features tell the domain, with noise."""
    from domaincal import CalibrationData, Store

    random = np.random.default_rng(0)
    centres = random.normal(size=(N_DOMAINS, n_features)) + 1.0
    names = np.array([f"site-{k:02}" for k in range(N_DOMAINS)], dtype=object)
    store = Store(folder)
    for start in range(0, n_rows, _CHUNK):
        n = min(_CHUNK, n_rows - start)
        domain = random.integers(0, N_DOMAINS, n)
        labels = random.integers(0, n_classes, n)
        logits = random.standard_normal((n, n_classes), np.float32)
        logits[np.arange(n), labels] += 3.0
        logits *= (1.0 + domain / N_DOMAINS)[:, None].astype(np.float32)
        features = random.standard_normal((n, n_features), np.float32) + centres[domain]
        store.append(
            CalibrationData(
                logits.astype(np.float16),
                labels=labels.astype(np.int16),
                features=features.astype(np.float16),
                domains=names[domain],
            )
        )


def drop_cache(folder: Path) -> None:
    """Drop the pages of all files of a folder from the cache of the operating system."""
    for path in folder.rglob("*.npy"):
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

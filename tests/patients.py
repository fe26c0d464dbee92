"""Rows of six sites for tests of classifiers: X, string labels and the site of each row."""

import numpy as np


def patients(n_classes: int = 3, n_rows: int = 60, seed: int = 0):
    """Rows of six sites; labels are noisier the further a site is down the list."""
    rng = np.random.default_rng(seed)
    site = np.repeat(["bern", "genoa", "lyon", "porto", "turku", "ulm"], n_rows)
    X = rng.normal(size=(len(site), 3))
    noise = np.linspace(0.3, 3.0, 6).repeat(n_rows)
    weights = rng.normal(size=(3, n_classes))
    scores = 2.0 * X @ weights + noise[:, None] * rng.gumbel(size=(len(site), n_classes))
    X[:, 2] += noise  # the features tell the noise
    order = rng.permutation(len(site))
    labels = np.array([f"c{k}" for k in range(n_classes)])[scores.argmax(axis=1)]
    return X[order], labels[order], site[order]

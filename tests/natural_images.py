"""Synthetic images with the statistics of photographs, and corruption of arrays by torch."""

import numpy as np

import domaincal as dc


def natural_images(n, height, width, random_state=0):
    """Images with the 1/f spectrum of photographs, correlated channels, and an edge in each."""
    rng = np.random.default_rng(random_state)
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


def corrupt_with_torch(images, *arguments, **options):
    """Result of ``corrupt`` for the images as a tensor."""
    import torch

    return dc.vision.corrupt(torch.from_numpy(images), *arguments, **options).numpy()

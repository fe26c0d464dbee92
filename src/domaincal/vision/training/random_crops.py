"""Random crops and horizontal flips of a batch, on its device."""

from __future__ import annotations

import torch
import torch.nn.functional as functional
from torch import Tensor


def random_crops(images: Tensor, smallest: float, generator: torch.Generator) -> Tensor:
    """Crop each image at random, resize the crop to the size of the image, and flip half of them.

    Images have the shape (n, 3, side, side). The crops are squares with a fraction of the area
    between ``smallest`` and 1, resampled bilinearly.
    """
    n = len(images)
    draws = torch.rand((4, n), generator=generator, device=generator.device).to(images.device)
    scale = (smallest + (1.0 - smallest) * draws[0]).sqrt()
    flip = torch.where(draws[1] < 0.5, -1.0, 1.0)
    theta = torch.zeros((n, 2, 3), device=images.device)
    theta[:, 0, 0] = scale * flip
    theta[:, 1, 1] = scale
    theta[:, :, 2] = ((1.0 - scale) * (2.0 * draws[2:] - 1.0)).T
    grid = functional.affine_grid(theta, list(images.shape), align_corners=False)
    return functional.grid_sample(images, grid, padding_mode="reflection", align_corners=False)

"""Random crops and reflections of a batch, on its device."""

import torch
import torch.nn.functional as functional
from torch import Tensor


def random_crops(images: Tensor, smallest: float, generator: torch.Generator) -> Tensor:
    """A random part of each image at the size of the whole, every other one reflected.

    Of images (n, 3, side, side), the parts are squares of ``smallest`` to 1 of the area, anywhere
    inside, resampled bilinearly.
    """
    n = len(images)
    draws = torch.rand((4, n), generator=generator, device=generator.device).to(images.device)
    scale = (smallest + (1.0 - smallest) * draws[0]).sqrt()
    reflect = torch.where(draws[1] < 0.5, -1.0, 1.0)
    theta = torch.zeros((n, 2, 3), device=images.device)
    theta[:, 0, 0] = scale * reflect
    theta[:, 1, 1] = scale
    theta[:, :, 2] = ((1.0 - scale) * (2.0 * draws[2:] - 1.0)).T
    grid = functional.affine_grid(theta, list(images.shape), align_corners=False)
    return functional.grid_sample(images, grid, padding_mode="reflection", align_corners=False)

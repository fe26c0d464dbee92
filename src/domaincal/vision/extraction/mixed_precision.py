"""Half precision where its range suffices, float32 where it does not."""

import warnings
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from domaincal.errors import DomaincalWarning, InputError
from domaincal.vision.networks.network import Network

Precision = Literal["float32", "float16", "bfloat16"]


class Outputs(NamedTuple):
    """Of a batch, on the network's device; ``finite`` is a tensor: to read it is to wait for it."""

    logits: Tensor
    features: Tensor
    finite: Tensor


class MixedPrecision:
    """A network that works in half precision, or in float32.

    Attributes
    ----------
    n_again : int
        Images that were shown again in float32.
    """

    def __init__(self, network: Network, precision: Precision) -> None:
        self.network = network
        self.precision = precision
        self.n_again = 0

    def outputs(self, images: Tensor) -> Outputs:
        """Of all layers but the last in ``precision``; features as they are stored."""
        return self._outputs(images, self.precision)

    def again(self, images: Tensor) -> Outputs:
        """In float32, of images whose outputs are not finite; refuse those that stay so."""
        found = self._outputs(images, "float32")
        if not found.finite:
            half = self.network.dtype in (torch.float16, torch.bfloat16)
            narrow = self.precision != "float32" and not half and torch.isfinite(found.logits).all()
            raise InputError(
                "the network gives features that are not finite in float16, as they are stored; "
                "pass precision='float32'."
                if narrow
                else "the network gives values that are not finite; check its weights, and the "
                "images where they are floats"
                + (". In float32 they may be: call module.float()." if half else ".")
            )
        self.n_again += len(images)
        return found

    def warn(self, *, n_rows: int, stacklevel: int) -> None:
        """Say how many images were shown again."""
        if self.n_again:
            warnings.warn(
                f"{self.n_again} of {n_rows} images were shown again in float32: batches with some "
                f"value that is not finite in {self.precision}. precision='float32' shows all so.",
                DomaincalWarning,
                stacklevel=stacklevel + 1,
            )

    def _outputs(self, images: Tensor, precision: Precision) -> Outputs:
        logits, features = self.network.outputs(images, getattr(torch, precision))
        features = features.to(torch.float32 if self.precision == "float32" else torch.float16)
        finite = torch.isfinite(logits).all() & torch.isfinite(features).all()
        return Outputs(logits, features, finite)

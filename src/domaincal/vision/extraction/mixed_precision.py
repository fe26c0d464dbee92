"""Run a network in half precision, and in float32 where half precision overflows."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from domaincal._validation import check_option
from domaincal._warnings import warn_caller
from domaincal.errors import DomaincalWarning, InputError
from domaincal.vision.networks.network import Network

Precision = Literal["float32", "float16", "bfloat16"]


class Outputs(NamedTuple):
    """Outputs of a batch, on the network's device.

    ``finite`` is a boolean tensor: reading its value waits for the device.
    """

    logits: Tensor
    features: Tensor
    finite: Tensor


class MixedPrecision:
    """A network that computes in a given precision, and falls back to float32.

    Attributes
    ----------
    n_repeated : int
        Number of images that were computed again in float32.
    """

    def __init__(self, network: Network, precision: Precision) -> None:
        self.network = network
        self.precision = precision
        self.n_repeated = 0

    def outputs(self, images: Tensor) -> Outputs:
        """Outputs with all layers except the last in ``precision``; features as stored."""
        return self._outputs(images, self.precision)

    def float32_outputs(self, images: Tensor) -> Outputs:
        """Outputs in float32, for images whose outputs were not finite.

        Raises an error if they are not finite in float32 either.
        """
        outputs = self._outputs(images, "float32")
        if not outputs.finite:
            raise self._not_finite(outputs)
        self.n_repeated += len(images)
        return outputs

    def warn_if_repeated(self, *, n_rows: int) -> None:
        """Warn if images were computed again in float32, and say how many."""
        if self.n_repeated:
            warn_caller(
                f"{self.n_repeated} of {n_rows} images were computed again in float32, because "
                f"their batches had values that are not finite in {self.precision}; pass "
                "precision='float32' to compute all images in float32.",
                DomaincalWarning,
            )

    def _outputs(self, images: Tensor, precision: Precision) -> Outputs:
        logits, features = self.network.outputs(images, getattr(torch, precision))
        features = features.to(torch.float32 if self.precision == "float32" else torch.float16)
        finite = torch.isfinite(logits).all() & torch.isfinite(features).all()
        return Outputs(logits, features, finite)

    def _not_finite(self, outputs: Outputs) -> InputError:
        if self.network.dtype in (torch.float16, torch.bfloat16):
            return InputError(
                "the network returns values that are not finite; check its weights, and the images "
                "if they are floats. They may be finite in float32: call module.float()."
            )
        if self.precision != "float32" and torch.isfinite(outputs.logits).all():
            return InputError(
                "the network returns features that are not finite in float16, in which they are "
                "stored; pass precision='float32'."
            )
        return InputError(
            "the network returns values that are not finite; check its weights, and the images if "
            "they are floats."
        )


def choose_precision(
    precision: Precision | None, network: Network, device: torch.device
) -> Precision:
    """Requested precision, or the default for the device and the type of the weights.

    Weights of float64 compute in float64, and the outputs are stored as float32.
    """
    if precision is not None:
        check_option(precision, "precision", ("float32", "float16", "bfloat16"))
    if network.dtype == torch.float32:
        return precision or ("float16" if device.type == "cuda" else "float32")
    names: dict[torch.dtype, Precision] = {torch.float16: "float16", torch.bfloat16: "bfloat16"}
    weights = names.get(network.dtype, "float32")
    if precision not in (None, weights):
        raise InputError(
            f"precision={precision!r}, but the weights of the module are {network.dtype}; leave "
            "out precision, or call module.float() first."
        )
    return weights

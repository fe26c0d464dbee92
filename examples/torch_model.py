"""A small network of torch and its calibrator as one torch module.

    pip install '.[torch]'
    python examples/torch_model.py

The network learns handwritten digits (scikit-learn has them) from clean scans. The domains are
scanners with defects. The calibrator learns from labelled scans of nine; three others are new.
"""

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

import domaincal as dc
from domaincal.deploy import CalibratedModel


def scan(images: torch.Tensor, scanner: str, seed: int) -> torch.Tensor:
    """Images as a scanner reads them; its name is a defect and a strength."""
    defect, _, strength = scanner.partition("-")
    s = float(strength or 0)
    random = torch.Generator().manual_seed(seed)
    if defect == "noise":
        return images + s / 10 * torch.randn(images.shape, generator=random)
    if defect == "pale":
        return images * (1 - s / 10)
    if defect == "dust":
        return torch.where(torch.rand(images.shape, generator=random) < s / 20, 1.0, images)
    if defect == "blur":
        return torch.lerp(images, nn.functional.avg_pool2d(images, 3, 1, 1), s / 5)
    return images


def train(images: torch.Tensor, labels: torch.Tensor) -> nn.Sequential:
    """Network whose last layer is "7"; its features are the 32 inputs of this layer."""
    network = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.ReLU(),
        nn.Flatten(), nn.Linear(16 * 36, 32), nn.ReLU(), nn.Linear(32, 10),
    )  # fmt: skip
    optimiser = torch.optim.Adam(network.parameters(), lr=3e-3)
    for _ in range(10):
        for rows in torch.randperm(len(labels)).split(64):
            optimiser.zero_grad()
            nn.functional.cross_entropy(network(images[rows]), labels[rows]).backward()
            optimiser.step()
    return network.eval()


torch.manual_seed(0)
digits = load_digits()
images = torch.tensor(digits.images / 16, dtype=torch.float32)[:, None]
labels = torch.tensor(digits.target)
network = train(images[:800], labels[:800])

# Outputs of the network for labelled scans of known scanners.
known = ["clean", "noise-2", "noise-4", "pale-4", "pale-7", "dust-1", "dust-3", "blur-2", "blur-4"]
parts = []
for seed, scanner in enumerate(known):
    with torch.inference_mode():
        features = network[:-1](scan(images[800:1300], scanner, seed))
        logits = network[-1](features)
    domains = [scanner] * 500
    parts.append(
        dc.CalibrationData(logits, labels=labels[800:1300], features=features, domains=domains)
    )
data = dc.concatenate(parts)

# One temperature for the scans that are read together, also of a new scanner. The logits show it.
calibrator = dc.BatchTemperatureScaling().fit(data)

# One module: images in, calibrated probabilities out.
model = CalibratedModel(network, calibrator, layer="7")
torch.save(model.state_dict(), "calibrated.pt")

print(f"{'new scanner':12} accuracy   mean confidence before -> after   ECE before -> after")
for seed, scanner in enumerate(["noise-5", "pale-6", "dust-4"]):
    new, truth = scan(images[1300:], scanner, 100 + seed), labels[1300:].numpy()
    with torch.inference_mode():
        before, after = network(new).softmax(1).numpy(), model(new).probabilities.numpy()
    accuracy = np.mean(after.argmax(axis=1) == truth)
    ece = [dc.expected_calibration_error(p, truth) for p in (before, after)]
    confidence = [p.max(axis=1).mean() for p in (before, after)]
    print(
        f"{scanner:12} {accuracy:8.1%} {confidence[0]:22.1%} -> {confidence[1]:5.1%}"
        f" {ece[0]:16.1%} -> {ece[1]:5.1%}"
    )

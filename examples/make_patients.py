"""Write patients.csv: synthetic patients of 20 hospitals, and what a model predicts for them.

The columns are those of a file from practice: an id (``case``), the hospital (``site``), the label
(``outcome``), measurements (``x_*``) and the probabilities of a model (``p_*``). The devices of the
hospitals measure with different noise, which the model, trained in ten other hospitals, has not
seen: it is overconfident where they are noisy. ``x_quality`` is what a device says about itself.

    python examples/make_patients.py
"""

import sys

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier

CLASSES = np.array(["cold", "flu", "pneumonia"])
MEASUREMENTS = ["x_fever", "x_pulse", "x_oxygen", "x_cough", "x_quality"]


def make_hospitals(names: list[str], noise: np.ndarray, random: np.random.Generator):
    """200 patients of each hospital; ``noise`` is the standard deviation of its devices."""
    site = np.repeat(names, 200)
    outcome = random.integers(len(CLASSES), size=len(site))
    centres = np.array([[-1.5, -0.5, 1.0, 0.5], [1.5, 0.5, 0.5, 1.0], [0.5, 1.0, -1.5, -0.5]])
    sigma = np.repeat(noise, 200)[:, None]
    body = centres[outcome] + random.normal(size=(len(site), 4))
    measured = body + sigma * random.normal(size=body.shape)
    quality = 1.0 / (1.0 + sigma) + 0.05 * random.normal(size=sigma.shape)
    frame = pd.DataFrame(np.hstack([measured, quality]), columns=MEASUREMENTS).round(3)
    frame.insert(0, "outcome", CLASSES[outcome])
    frame.insert(0, "site", site)
    return frame


def main(path: str = "patients.csv") -> None:
    """Train a model in ten hospitals; write its predictions for twenty others."""
    random = np.random.default_rng(0)
    seen = make_hospitals([f"train-{k}" for k in range(10)], random.uniform(0.0, 0.5, 10), random)
    model = HistGradientBoostingClassifier(random_state=0).fit(seen[MEASUREMENTS], seen["outcome"])
    names = [f"site-{k:02}" for k in range(20)]
    frame = make_hospitals(names, random.uniform(0.0, 3.0, 20), random)
    frame.insert(0, "case", [f"{k:05}" for k in random.permutation(len(frame))])
    probabilities = model.predict_proba(frame[MEASUREMENTS])
    for name, column in zip(model.classes_, probabilities.T, strict=True):
        frame[f"p_{name}"] = column
    frame.to_csv(path, index=False, float_format="%.6g")


if __name__ == "__main__":
    main(*sys.argv[1:])

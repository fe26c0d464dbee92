"""Draw the picture of the README: ``python tools/readme_picture.py docs/before-after.png``.

It also prints how far the mean confidence is from the accuracy.

Digits under corruptions: seven kinds are unseen, two other kinds of each family are seen. Every
point is an unseen domain, whose rows are calibrated in batches of 20, without their labels.
"""

import sys

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import domaincal as dc
from domaincal.data.batches import shuffled_batches
from domaincal.experiments.partitions import CORRUPTION_PARTITIONS
from domaincal.plots import plot_accuracy_prediction

_ROWS = 20


def main(path: str) -> None:
    """Fit on the known domains, and draw accuracy against mean confidence in the others."""
    data = dc.vision.load_digits_c(0)
    counts = dict.fromkeys(data.domain_names.tolist(), 1)
    _, unseen = CORRUPTION_PARTITIONS["unseen-kinds"].choose(counts, random_state=0)
    known, new = dc.split_domains(data, unseen)
    batches = shuffled_batches(new.domain_codes[0], _ROWS, np.random.default_rng(0))
    calibrator = dc.AutoCalibration(batch_size=_ROWS).fit(known)
    confidences = {
        "before": dc.MaxSoftmax().fit(known).predict_confidence(new),
        f"after, from {_ROWS} unlabelled rows at a time": calibrator.predict_confidence(
            new.logits, features=new.features, domains=batches
        ),
    }
    hits = new.logits.argmax(axis=1) == new.labels
    figure = Figure(figsize=(8.4, 4.4), layout="constrained")
    for ax, (title, confidence) in zip(figure.subplots(1, 2), confidences.items(), strict=True):
        rows = pd.DataFrame(
            {"domain": new.domains, "accuracy": hits, "mean_confidence": confidence}
        )
        table = rows.groupby("domain", sort=False).mean().reset_index()
        gap = (table["mean_confidence"] - table["accuracy"]).abs()
        print(f"{title}: |mean confidence - accuracy| {100 * gap.mean():.1f} points on average")
        plot_accuracy_prediction(table.assign(method="confidence"), ax=ax)
        ax.set(title=title, xlabel="mean confidence in %", xlim=(0, 100), ylim=(0, 100))
        ax.legend().remove()
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    main(sys.argv[1])

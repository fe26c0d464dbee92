"""Write files of the current format versions: ``python tests/archives/make.py v2``.

Run it once for each new version of a format, with the next number: formats have versions of their
own, so that the number of a folder need not be the version of its files. Folders of earlier
versions are never written again.
``expected.npz`` holds the predictions of the code that wrote the models.
"""

import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import domaincal as dc


class Scores:
    """A classifier whose files are no matter of ours: its scores are sums of the columns of X."""

    classes_ = np.array(["ant", "bee", "cat"])

    def decision_function(self, X):
        """Three scores of each row of two columns."""
        return np.asarray(X, float) @ np.array([[1.0, -1.0, 0.0], [0.5, 0.5, -1.0]])


def animals():
    """X with names of columns, labels and domains, for a classifier with :class:`Scores`."""
    random = np.random.default_rng(0)
    X = pd.DataFrame(random.normal(size=(120, 2)), columns=["width", "height"])
    noise = np.repeat([0.3, 0.6, 1.2], 40)[:, None] * random.gumbel(size=(120, 3))
    y = Scores.classes_[np.argmax(Scores().decision_function(X) + noise, axis=1)]
    return X, y, np.repeat(["day", "dusk", "night"], 40)


_MD_TS = dc.MultiDomainTemperatureScaling
MODELS = {
    "msp": dc.MaxSoftmax(),
    "ts": dc.TemperatureScaling(),
    "domain-ts": dc.DomainTemperatureScaling(),
    "md-ts-ols": _MD_TS(clip=(0.5, 4.0)),
    "md-ts-ridge": _MD_TS("ridge", target="log", fit_intercept=True),
    "md-ts-huber": _MD_TS("huber", target="inverse", fit_intercept=True),
    "md-ts-krr": _MD_TS("krr", max_rows=12),
    "md-ts-knn": _MD_TS("knn", features="logits", max_rows=12),
    "histogram": dc.HistogramBinning(4),
    "isotonic": dc.IsotonicCalibration(scheme="one-vs-rest"),
    "bbq": dc.BayesianBinning(),
    "batch": dc.BatchTemperatureScaling(),
    "batch-row": dc.BatchTemperatureScaling(batch="row"),
    "mixture": dc.DomainMixtureScaling(),
    "shift-weighted": dc.ShiftWeightedScaling(),
    "feature-ts": dc.FeatureTemperatureScaling(),
    "transcal": dc.TransCal(),
    "cpcs": dc.CPCS(),
    "dac": dc.DAC(),
    "vector": dc.VectorScaling(),
    "chosen": dc.AutoCalibration(batch_size=20),  # the file holds the winner
}


def main(folder: Path) -> None:
    """Write data in all formats, all models, and the predictions of the models."""
    folder.mkdir()
    made, _ = dc.make_multi_domain(3, 40, 3, 2, random_state=0)
    data = dc.CalibrationData(
        made.logits, labels=made.labels, features=made.features, domains=made.domains,
        groups=np.arange(len(made)) % 40, class_names=("ant", "bee", "cat"),
        feature_names=("width", "height"),
        provenance={"made by": "tests/archives/make.py"},
    )  # fmt: skip
    for name in ("scores.npz", "scores.parquet", "scores.csv"):
        dc.write(data, folder / name)
    for _, part in data.by_domain():
        dc.Store(folder / "scores").append(part)
    expected = {}
    for name, model in MODELS.items():
        model.fit(data).save(folder / f"{name}.safetensors")
        expected[name] = model.predict_confidence(data)
    X, y, domains = animals()
    classifier = dc.CalibratedDomainClassifier(Scores(), _MD_TS(target="log"))
    classifier.fit(X, y, domains=domains)
    classifier.save(folder / "classifier.safetensors", estimator_file=folder / "scores.csv")
    expected["classifier"] = classifier.calibrator_.predict_confidence(data)
    np.savez(folder / "expected.npz", **expected)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(Path(__file__).parent / sys.argv[1])

"""WISDM: activities recorded by a smartwatch, of people that the network was not trained on.

Input
    91 features of a 10-second window of a smartwatch accelerometer: histograms of the three axes,
    means, peaks, deviations, cepstral coefficients, cosines and correlations between axes.
Label
    Column ``ACTIVITY``, 18 classes with the letters of the authors: A walking, B jogging,
    C stairs, D sitting, E standing, F typing, G brushing teeth, H soup, I chips, J pasta,
    K drinking, L sandwich, M kicking, O catch, P dribbling, Q writing, R clapping, S folding.
Domain
    Column ``subject``, a person. 15 random people train the network; the other 35 are the domains
    of the experiment.
Size
    18,211 windows of 50 people (1600 to 1650 without 1614), 300 to 803 of each. Five people lack
    one or two activities, all different, so that any 15 people together have all 18.
Known flaws
    1637 to 1640 have 2.5 times the windows of the others and gravity along another axis, as if
    recorded by another device; networks recognise little of them. Some people seem to wear the
    watch the other way round. All rows are kept.
Terms
    For research use; not to be redistributed with this project.
Source
    G. M. Weiss, "WISDM Smartphone and Smartwatch Activity and Biometrics Dataset", UCI Machine
    Learning Repository, doi:10.24432/C5HK59. ``wisdm_watch_accel.csv.gz`` is one table of its
    watch accelerometer features: columns ``subject``, ``ACTIVITY`` and the features.
"""

from pathlib import Path

import numpy as np
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

from domaincal import CalibrationData
from domaincal.datasets import DomainTable, read_domain_table
from domaincal.errors import InputError

_FILE = "wisdm/wisdm_watch_accel.csv.gz"
_N_FEATURES = 91
_N_TRAINING_PEOPLE = 15


def load(folder: Path, random_state: int) -> CalibrationData:
    """Train a network on 15 people; return its logits and hidden layer on the other 35.

    Parameters
    ----------
    folder : Path
        Folder that contains ``wisdm/wisdm_watch_accel.csv.gz``, or the same file unpacked.
    random_state : int
        Seed of the choice of the training people, and of the training.

    Returns
    -------
    CalibrationData
        18 classes, 100 features, 35 domains: the numbers of the people.

    Examples
    --------
    >>> load(Path("data"), random_state=0)  # doctest: +SKIP
    CalibrationData(12845 rows, 18 classes, 100 features, 35 domains)
    """
    table = _read(folder)
    people, inputs = table.domains, table.features

    rng = np.random.default_rng(random_state)
    chosen = np.sort(rng.choice(np.unique(people), size=_N_TRAINING_PEOPLE, replace=False))
    training = np.isin(people, chosen)

    scaler = StandardScaler().fit(inputs[training])
    # The default of 200 epochs is too short for convergence. With early stopping, a tenth of the
    # training rows decides when to stop.
    network = MLPClassifier(early_stopping=True, random_state=random_state)
    network.fit(scaler.transform(inputs[training]), table.labels[training])

    # The forward pass: scikit-learn returns probabilities only, which lose the scale of logits.
    rows = scaler.transform(inputs[~training])
    hidden = np.maximum(rows @ network.coefs_[0] + network.intercepts_[0], 0.0)
    logits = hidden @ network.coefs_[1] + network.intercepts_[1]
    return CalibrationData(
        logits=logits.astype(np.float32),
        labels=table.labels[~training],
        features=hidden.astype(np.float32),
        domains=people[~training],
        class_names=table.class_names,
        provenance={
            "network": "MLPClassifier, one hidden layer of 100, early stopping",
            "training domains": chosen.tolist(),
        },
    )


def _read(folder: Path) -> DomainTable:
    """The table, which must have exactly the columns of the docstring above."""
    path = folder / _FILE
    found = [p for p in (path, path.with_suffix("")) if p.is_file()]
    if not found:
        raise InputError(
            f"folder must contain {_FILE}, got {str(folder)!r}; the docstring of "
            "examples/wisdm.py says where to get it."
        )
    table = read_domain_table(found[0], label="ACTIVITY", domain="subject")
    if len(table.feature_names) != _N_FEATURES:
        raise InputError(
            f"{found[0].name} must have the columns subject, ACTIVITY and {_N_FEATURES} features, "
            f"got {len(table.feature_names)} others; remove the columns that are not features, so "
            "that nothing leaks into the input."
        )
    return table

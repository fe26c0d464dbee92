"""WISDM: the activity that a smartwatch feels, on people the network has never met.

Input
    91 features of a 10-second window of a smartwatch accelerometer: histograms of the three axes,
    means, peaks, deviations, cepstral coefficients, cosines and correlations between axes.
Label
    Column ``ACTIVITY``, 18 classes with the letters of the authors: A walking, B jogging,
    C stairs, D sitting, E standing, F typing, G brushing teeth, H soup, I chips, J pasta,
    K drinking, L sandwich, M kicking, O catch, P dribbling, Q writing, R clapping, S folding.
Domain
    Column ``subject``, a person. 15 people, drawn by the seed, train the network; the other 35
    are the domains.
Size
    18,211 windows of 50 people (1600 to 1650 without 1614), 300 to 803 of each. Five people lack
    one or two activities, never the same ones, so that any 15 people have done all 18.
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

from domaincal import CalibrationData, DomainTable, InputError, read_domain_table

_FILE = "wisdm/wisdm_watch_accel.csv.gz"
_N_FEATURES = 91
_N_TRAINING_PEOPLE = 15


def load(folder: Path, seed: int) -> CalibrationData:
    """Logits and hidden layer of a network on all windows of the people it was not trained on.

    Parameters
    ----------
    folder : Path
        Holds ``wisdm/wisdm_watch_accel.csv.gz``, or the same file unpacked.
    seed : int
        Decides the people of the training, the first weights and the order of the rows in it.

    Returns
    -------
    CalibrationData
        18 classes, 100 features, 35 domains named after the people.

    Examples
    --------
    >>> load(Path("data"), seed=0)  # doctest: +SKIP
    CalibrationData(12845 rows, 18 classes, 100 features, 35 domains)
    """
    table = _read(folder)
    people, inputs = table.domains, table.features

    rng = np.random.default_rng(seed)
    chosen = np.sort(rng.choice(np.unique(people), size=_N_TRAINING_PEOPLE, replace=False))
    training = np.isin(people, chosen)

    scaler = StandardScaler().fit(inputs[training])
    # 200 passes, the default, end before the loss has settled; with early stopping a tenth of the
    # training rows decides when to stop.
    network = MLPClassifier(early_stopping=True, random_state=seed)
    network.fit(scaler.transform(inputs[training]), table.labels[training])

    # The forward pass by hand: scikit-learn gives probabilities, which lose the scale of logits.
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
    """The table, with the columns that the card names and no others."""
    path = folder / _FILE
    found = [p for p in (path, path.with_suffix("")) if p.is_file()]
    if not found:
        raise InputError(
            f"folder must contain {_FILE}, got {str(folder)!r}; the top of examples/wisdm.py says "
            "where to get it."
        )
    table = read_domain_table(found[0], label="ACTIVITY", domain="subject")
    if len(table.feature_names) != _N_FEATURES:
        raise InputError(
            f"{found[0].name} must have the columns subject, ACTIVITY and {_N_FEATURES} features, "
            f"got {len(table.feature_names)} others; remove what is none, so that nothing leaks "
            "into the input."
        )
    return table

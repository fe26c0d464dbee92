"""FDU-MTL: positive and negative reviews of products that the classifier was not trained on.

Input
    An English review in lower case, its words separated by blanks; here tf-idf of the 5,000 most
    frequent words of the training domains.
Label
    0 negative, 1 positive, about half of each.
Domain
    The kind of product: 14 categories of Amazon, and films of IMDB and MR. 4 random domains train
    the classifier; the other 12 are the domains of the experiment.
Size
    31,780 reviews, 1,900 to 2,000 in each domain. The two files of a domain, ``.train`` and
    ``.test``, are joined, because the experiment splits by domain.
Known flaws
    Some reviews occur several times in a domain (577 of the 1,970 rows of magazines repeat
    another row; equal reviews have the same group), and 83 texts occur in both dvd and video. Most
    reviews of Amazon seem to lack their last character, and one is empty. A few lines, nearly all
    of MR, are not valid UTF-8. All rows are kept.
Terms
    For research use; not to be redistributed with this project.
Source
    P. Liu, X. Qiu and X. Huang, "Adversarial Multi-task Learning for Text Classification", ACL
    2017, doi:10.18653/v1/P17-1001, which gives the address http://nlp.fudan.edu.cn/data/.
    ``fdu-mtl.tar.xz`` holds its labelled files ``<domain>.task.train`` and ``<domain>.task.test``,
    with ``label<TAB>text`` in each line.
"""

import tarfile
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

from domaincal import CalibrationData
from domaincal.errors import InputError

_ARCHIVE = "fdu-mtl/fdu-mtl.tar.xz"
_N_TRAINING_DOMAINS = 4

_Array = NDArray[Any]


def load(
    folder: Path, random_state: int, *, network: Literal["mlp", "linear"] = "mlp"
) -> CalibrationData:
    """Train a classifier on 4 domains; return its logits and features on the other 12.

    Parameters
    ----------
    folder : Path
        Folder that contains ``fdu-mtl/fdu-mtl.tar.xz``.
    random_state : int
        Seed of the choice of the training domains, and of the training.
    network : {"mlp", "linear"}
        ``"mlp"`` has a hidden layer of 100 units, which are the features. ``"linear"`` is logistic
        regression; its features are the first 100 components of the tf-idf matrix.

    Returns
    -------
    CalibrationData
        2 classes, 100 features, 12 domains.

    Examples
    --------
    >>> load(Path("data"), random_state=0)  # doctest: +SKIP
    CalibrationData(23783 rows, 2 classes, 100 features, 12 domains, 22230 groups)
    """
    if network not in ("mlp", "linear"):
        raise InputError(f"network must be 'mlp' or 'linear', got {network!r}.")
    domains, labels, texts = _read(folder)
    rng = np.random.default_rng(random_state)
    chosen = np.sort(rng.choice(np.unique(domains), size=_N_TRAINING_DOMAINS, replace=False))
    training = np.isin(domains, chosen)

    # The training on all words, about 20,000, takes three times as long.
    words = TfidfVectorizer(sublinear_tf=True, min_df=2, max_features=5000)
    train = words.fit_transform(texts[training])
    rows = words.transform(texts[~training])
    outputs = _mlp if network == "mlp" else _linear
    score, features, name = outputs(train, labels[training], rows, random_state)
    return CalibrationData(
        # The score of a binary classifier is the logit of class 1 less that of class 0.
        logits=np.column_stack([np.zeros_like(score), score]).astype(np.float32),
        labels=labels[~training],
        features=features.astype(np.float32),
        domains=domains[~training],
        # Equal reviews are one group, so that no review is both fitted and scored.
        groups=np.unique(texts[~training], return_inverse=True)[1],
        class_names=("negative", "positive"),
        provenance={"network": name, "training domains": chosen.tolist()},
    )


def _mlp(train: Any, labels: _Array, rows: Any, random_state: int) -> tuple[_Array, _Array, str]:
    """Score before the logistic function, hidden layer, name of the network."""
    network = MLPClassifier(random_state=random_state).fit(train, labels)
    hidden = np.maximum(rows @ network.coefs_[0] + network.intercepts_[0], 0.0)
    score = (hidden @ network.coefs_[1] + network.intercepts_[1])[:, 0]
    return score, hidden, "MLPClassifier on tf-idf, one hidden layer of 100"


def _linear(train: Any, labels: _Array, rows: Any, random_state: int) -> tuple[_Array, _Array, str]:
    """Score before the logistic function, components of the rows, name of the network."""
    score = LogisticRegression().fit(train, labels).decision_function(rows)
    components = (
        TruncatedSVD(n_components=100, random_state=random_state).fit(train).transform(rows)
    )
    return score, components, "LogisticRegression on tf-idf, features by TruncatedSVD"


def _read(folder: Path) -> tuple[_Array, _Array, _Array]:
    """Domain, label and text of each review."""
    path = folder / _ARCHIVE
    if not path.is_file():
        raise InputError(
            f"folder must contain {_ARCHIVE}, got {str(folder)!r}; the docstring "
            "of examples/fdu_mtl.py says where to get it."
        )
    reviews = []
    with tarfile.open(path) as archive:
        for member in archive:
            domain, _, part = Path(member.name).name.partition(".task.")
            stream = archive.extractfile(member)
            if stream is None or part not in ("train", "test"):
                continue
            # Some bytes are not valid UTF-8: those characters are replaced. splitlines() would
            # also split the reviews of imdb at U+0085.
            for line in stream.read().decode("utf-8", errors="replace").split("\n"):
                if line:
                    label, _, text = line.partition("\t")
                    reviews.append((domain, int(label), text))
    domains, labels, texts = zip(*reviews, strict=True) if reviews else ((), (), ())
    if len(set(domains)) <= _N_TRAINING_DOMAINS:
        raise InputError(
            f"{path} has the domains {sorted(set(domains))}; it must hold <domain>.task.train and "
            f"<domain>.task.test of more than {_N_TRAINING_DOMAINS} domains."
        )
    # An array of objects: a numpy array of strings would pad all texts to the longest.
    return np.array(domains), np.array(labels), np.array(texts, dtype=object)

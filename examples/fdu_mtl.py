"""FDU-MTL: good and bad reviews, of kinds of goods the classifier has never read about.

Input
    An English review in lower case, its words split by blanks; here tf-idf of the 5,000 most
    frequent words of the training domains.
Label
    0 negative, 1 positive, about half of each.
Domain
    What is reviewed: 14 kinds of goods of Amazon, and films of IMDB and MR. 4 domains, drawn by
    the seed, train the classifier; the other 12 are the domains.
Size
    31,780 reviews, 1,900 to 2,000 of each domain. Both files of a domain, ``.train`` and
    ``.test``, are taken together, since it is the domains that are split here.
Known flaws
    Some reviews occur more than once in a domain (577 of the 1,970 rows of magazines repeat
    another; groups tell which are the same), and 83 texts occur in both dvd and video. Most
    reviews of Amazon seem to lack their last character, and one is empty. A few lines, nearly all
    of MR, are not UTF-8. All rows are kept.
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

from domaincal import CalibrationData, InputError

_ARCHIVE = "fdu-mtl/fdu-mtl.tar.xz"
_N_TRAINING_DOMAINS = 4

_Array = NDArray[Any]


def load(folder: Path, seed: int, *, network: Literal["mlp", "linear"] = "mlp") -> CalibrationData:
    """Logits and features of a classifier on all reviews of the domains it was not trained on.

    Parameters
    ----------
    folder : Path
        Holds ``fdu-mtl/fdu-mtl.tar.xz``.
    seed : int
        Decides the domains of the training, the first weights and the order of the rows in it.
    network : {"mlp", "linear"}
        ``"mlp"`` has a hidden layer of 100, which gives the features; ``"linear"`` is logistic
        regression, with the first 100 components of the tf-idf matrix as features.

    Returns
    -------
    CalibrationData
        2 classes, 100 features, 12 domains.

    Examples
    --------
    >>> load(Path("data"), seed=0)  # doctest: +SKIP
    CalibrationData(23783 rows, 2 classes, 100 features, 12 domains, 22230 groups)
    """
    if network not in ("mlp", "linear"):
        raise InputError(f"network must be 'mlp' or 'linear', got {network!r}.")
    domains, labels, texts = _read(folder)
    rng = np.random.default_rng(seed)
    chosen = np.sort(rng.choice(np.unique(domains), size=_N_TRAINING_DOMAINS, replace=False))
    training = np.isin(domains, chosen)

    # With all words, about 20,000, the training takes three times as long.
    words = TfidfVectorizer(sublinear_tf=True, min_df=2, max_features=5000)
    train = words.fit_transform(texts[training])
    rows = words.transform(texts[~training])
    outputs = _mlp if network == "mlp" else _linear
    score, features, name = outputs(train, labels[training], rows, seed)
    return CalibrationData(
        # The classifier has one score, the logit of class 1 when that of class 0 is 0.
        logits=np.column_stack([np.zeros_like(score), score]).astype(np.float32),
        labels=labels[~training],
        features=features.astype(np.float32),
        domains=domains[~training],
        # The same review is one group, so that halves can be disjoint in reviews.
        groups=np.unique(texts[~training], return_inverse=True)[1],
        class_names=("negative", "positive"),
        provenance={"network": name, "training domains": chosen.tolist()},
    )


def _mlp(train: Any, labels: _Array, rows: Any, seed: int) -> tuple[_Array, _Array, str]:
    """Score before the logistic function, hidden layer, name."""
    network = MLPClassifier(random_state=seed).fit(train, labels)
    hidden = np.maximum(rows @ network.coefs_[0] + network.intercepts_[0], 0.0)
    score = (hidden @ network.coefs_[1] + network.intercepts_[1])[:, 0]
    return score, hidden, "MLPClassifier on tf-idf, one hidden layer of 100"


def _linear(train: Any, labels: _Array, rows: Any, seed: int) -> tuple[_Array, _Array, str]:
    """Score before the logistic function, components of the rows, name."""
    score = LogisticRegression().fit(train, labels).decision_function(rows)
    components = TruncatedSVD(n_components=100, random_state=seed).fit(train).transform(rows)
    return score, components, "LogisticRegression on tf-idf, features by TruncatedSVD"


def _read(folder: Path) -> tuple[_Array, _Array, _Array]:
    """Domain, label and text of each review."""
    path = folder / _ARCHIVE
    if not path.is_file():
        raise InputError(
            f"folder must contain {_ARCHIVE}, got {str(folder)!r}; the top of examples/fdu_mtl.py "
            "says where to get it."
        )
    reviews = []
    with tarfile.open(path) as archive:
        for member in archive:
            domain, _, part = Path(member.name).name.partition(".task.")
            stream = archive.extractfile(member)
            if stream is None or part not in ("train", "test"):
                continue
            # Some bytes are not UTF-8 and cost a word its odd letter. No splitlines: it would
            # also break the reviews of imdb at U+0085.
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
    # Texts stay Python strings: numpy's own are all as long as the longest.
    return np.array(domains), np.array(labels), np.array(texts, dtype=object)

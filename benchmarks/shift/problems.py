"""Data sets, and their partitions into InD and OOD domains."""

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np

import domaincal as dc
from domaincal.experiments.partitions import CORRUPTION_PARTITIONS
from domaincal.vision.corruptions.catalogue import CLEAN, FAMILIES

EXAMPLES = Path(__file__).parents[2] / "examples"
SEEDS = range(5)
N_BINS, NETWORK_BINS = 20, 100
#: Data sets of the tables. "useless features" is in the random draws only.
DATA_SETS = ("Digits-C", "WISDM", "FDU-MTL")
#: Partition in which all domains are seen, and mixtures of their other halves are scored.
MIXTURES = "mixtures of seen domains"
N_MIXTURES = 20
#: Data sets of the random draws, with the numbers of InD domains.
DRAWS = {
    "Digits-C": range(3, 13),
    "WISDM": range(3, 13),
    "FDU-MTL": range(3, 10),  # of 12 domains, at least 3 are left
    "useless features": range(3, 13),
}
N_DRAWS = 50
#: Rows of each OOD domain that a random draw scores, and a partition of a network.
DRAW_ROWS, NETWORK_ROWS = 300, 5000


@dataclass(frozen=True)
class Cell:
    """One fit of every method: a data set, a seed, and a partition of its domains.

    With ``n_ind``, the partition is a random draw of so many InD domains, by the seed.
    """

    data: str
    seed: int
    partition: str
    n_ind: int | None = None
    is_network: bool = False

    @property
    def n_bins(self) -> int:
        """Number of bins, as in the experiment with these data."""
        return NETWORK_BINS if self.is_network else N_BINS

    @property
    def n_scored(self) -> int | None:
        """Rows that are scored of each OOD domain; None: all."""
        if self.n_ind is not None:
            return DRAW_ROWS
        return NETWORK_ROWS if self.is_network else None

    @property
    def name(self) -> str:
        """Name of the file of its results."""
        return f"{self.data}-{self.partition}-{self.seed}".lower().replace(" ", "-")


def partition_cells() -> Iterator[Cell]:
    """Cells of the tables."""
    for seed in SEEDS:
        for partition in ("severities 2-4", "severity 5", "noise and blur", "noise", "kinds"):
            yield Cell("Digits-C", seed, partition)
        yield Cell("Digits-C", seed, MIXTURES)
        yield Cell("WISDM", seed, "15 of 35 people")
        yield Cell("FDU-MTL", seed, "5 of 12 products")


def draw_cells() -> Iterator[Cell]:
    """Random draws of few InD domains."""
    for data, sizes in DRAWS.items():
        for draw in range(N_DRAWS):
            n_ind = sizes[draw % len(sizes)]
            yield Cell(data, draw, f"draw of {n_ind}", n_ind)


def data_rows(
    cell: Cell, folder: Path, cache: Path
) -> tuple[dc.CalibrationData, dc.CalibrationData]:
    """Rows of the fit and rows that are scored."""
    return split(cell, load(cell, folder, cache))


def load(cell: Cell, data_folder: Path, cache: Path) -> dc.CalibrationData:
    """Rows of the data set; the networks are trained once for each seed and kept in ``cache``."""
    seed = cell.seed % len(SEEDS) if cell.n_ind else cell.seed
    if cell.data == "useless features":
        return _useless_features(cell.seed)
    path = cache / f"{cell.data.lower()}-{seed}.npz"
    if not path.exists():
        cache.mkdir(parents=True, exist_ok=True)
        dc.write(_train(cell.data, seed, data_folder), path)
    return dc.read(path)


def split(cell: Cell, data: dc.CalibrationData) -> tuple[dc.CalibrationData, dc.CalibrationData]:
    """A random half of each InD domain, and all rows of the OOD domains."""
    names = [str(name) for name in data.domain_names]
    random = np.random.default_rng([cell.seed, cell.n_ind or 0])
    if cell.partition == MIXTURES:
        train, others = dc.split_halves(data, by="row", random_state=cell.seed)
        return train, mixtures(others, random)
    if cell.n_ind is not None:
        ind = set(random.permutation(names)[: cell.n_ind].tolist())
        ood = [name for name in names if name not in ind]
    else:
        ood = ood_domains(cell, names, random)
    known, new = dc.split_domains(data, ood)
    train, _ = dc.split_halves(known, by="row", random_state=cell.seed)
    if cell.n_scored is not None:
        new = new.select(some_rows(new, cell.n_scored, random))
    return train, new


def mixtures(data: dc.CalibrationData, random: np.random.Generator) -> dc.CalibrationData:
    """Domains made of the rows of two to four domains, in random proportions.

    A mixture has as many rows as a domain, and no row twice.
    """
    codes, names = data.domain_codes
    rows_of = [np.flatnonzero(codes == k) for k in range(len(names))]
    chosen, domains = [], []
    for k in range(N_MIXTURES):
        mixed = random.choice(len(names), size=random.integers(2, 5), replace=False)
        shares = random.dirichlet(np.ones(len(mixed)))
        for domain, share in zip(mixed, shares, strict=True):
            own = rows_of[domain]
            rows = random.choice(own, size=int(share * len(own)), replace=False)
            chosen.append(rows)
            domains.append(np.full(len(rows), f"mixture-{k + 1:02d}"))
    mixture = data.select(np.concatenate(chosen))
    return dc.CalibrationData(
        mixture.logits,
        labels=mixture.labels,
        features=mixture.features,
        domains=np.concatenate(domains),
    )


def ood_domains(cell: Cell, names: list[str], random: np.random.Generator) -> list[str]:
    if cell.partition in CORRUPTION_PARTITIONS:
        counts = dict.fromkeys(names, 1)
        return CORRUPTION_PARTITIONS[cell.partition].choose(counts, random_state=cell.seed)[1]
    if cell.data == "WISDM":
        return sorted(random.permutation(names)[20:].tolist())
    if cell.data == "FDU-MTL":
        return sorted(random.permutation(names)[7:].tolist())
    corrupted = [name for name in names if name != CLEAN]
    kind = {name: name.rsplit("-", 1)[0] for name in corrupted}
    severity = {name: int(name.rsplit("-", 1)[1]) for name in corrupted}
    seen = {family[k] for family in FAMILIES.values() for k in (0, 1)}
    chosen = {
        "severities 2-4": lambda name: severity[name] in (2, 3, 4),
        "severity 5": lambda name: severity[name] == 5,
        "noise and blur": lambda name: kind[name] in FAMILIES["noise"] + FAMILIES["blur"],
        "noise": lambda name: kind[name] in FAMILIES["noise"],
        "kinds": lambda name: kind[name] not in seen,
    }[cell.partition]
    return [name for name in corrupted if chosen(name)]


def _train(data: str, seed: int, folder: Path) -> dc.CalibrationData:
    if data == "Digits-C":
        return dc.vision.load_digits_c(random_state=seed)
    if data == "WISDM":
        return _example("wisdm").load(folder, seed)
    return _example("fdu_mtl").load(folder, seed)


def _example(name: str) -> ModuleType:
    """Module of the folder of examples."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _useless_features(seed: int) -> dc.CalibrationData:
    """20 domains whose temperatures differ, with features that tell nothing."""
    random = np.random.default_rng(seed)
    n_domains, n_rows, n_classes = 20, 600, 10
    domains = np.repeat(np.arange(n_domains), n_rows)
    z = 2.0 * random.normal(size=(len(domains), n_classes))
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    labels = (p.cumsum(axis=1) > random.random(len(z))[:, None]).argmax(axis=1)
    temperatures = np.exp(0.6 * random.normal(size=n_domains))
    return dc.CalibrationData(
        z * temperatures[domains, None],
        labels=labels,
        features=random.normal(size=(len(z), 50)),
        domains=domains,
    )


def some_rows(data: dc.CalibrationData, n_rows: int, random: np.random.Generator) -> np.ndarray:
    """At most ``n_rows`` random rows of each domain."""
    codes, _ = data.domain_codes
    shuffled = random.permutation(len(codes))
    order = shuffled[np.argsort(codes[shuffled], kind="stable")]
    rank = np.concatenate([np.arange(n) for n in np.bincount(codes)])
    return np.sort(order[rank < n_rows])

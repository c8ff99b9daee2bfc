"""Ten sets of classes and ten of numbers, on which learners are chosen.

Sets of files are real; the others are drawn, always the same. Where a real set has no
numbers to learn, one of its columns is the label and the others are the rows.
"""

import gzip
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..data.kept_items import thyroid_rows
from ..data.tables import load_adult, read_covtype, read_higgs, read_mnist
from ..places import data_folder

Rows = tuple[NDArray[np.float64], NDArray[Any]]
DRAWN = 20_000  # rows of a drawn set


class LearningSet(NamedTuple):
    """A set of rows with their labels: how it is read, and the folder of its files."""

    read: Callable[[Path], Rows]
    folder: str = ""


class Divided(NamedTuple):
    """Rows to learn from, and kept rows to judge by; each with its labels."""

    X: NDArray[np.float32]
    y: NDArray[Any]
    kept: NDArray[np.float32]
    kept_y: NDArray[Any]


def adult(folder: Path) -> Rows:
    """48,842 persons, 6 numbers and 8 categories as codes, 2 classes."""
    X, y, more, more_y = load_adult(folder)
    return np.concatenate([X, more]).astype(np.float64), np.concatenate([y, more_y])


def thyroid(folder: Path) -> Rows:
    """7,200 patients, 21 numbers, 3 classes, one of them with 93 %."""
    records = [record for part in ("train", "test") for record in thyroid_rows(part)]
    X = np.array([list(values.values()) for values, _, _ in records])
    return X, np.array([int(label) - 1 for _, label, _ in records])


def mails(folder: Path) -> Rows:
    """5,574 short messages as 128 hashed words, spam or not."""
    from sklearn.feature_extraction.text import HashingVectorizer

    lines = (folder / "sms_spam" / "SMSSpamCollection").read_bytes().splitlines()
    pairs = [line.decode("latin-1").split("\t", 1) for line in lines]
    hashing: Any = HashingVectorizer(n_features=128, alternate_sign=False)
    hashed = np.asarray(hashing.transform(text for _, text in pairs).toarray())
    return hashed, np.array([int(label == "spam") for label, _ in pairs])


def coarse_digits(folder: Path) -> Rows:
    """20,000 digits of mnist as 7 x 7 grey levels, 10 classes."""
    pixels, digits = read_mnist(folder, "train")
    coarse = pixels[:20_000].reshape(-1, 7, 4, 7, 4).mean((2, 4)) / 255
    return coarse.reshape(len(coarse), -1), digits[:20_000]


def songs(folder: Path) -> Rows:
    """6,724 songs, 12 numbers of their sound, and their years."""
    with gzip.open(folder / "millionsong" / "millionsong.txt.gz", "rt") as file:
        table = np.loadtxt(file, delimiter=",")
    return table[:, 1:], table[:, 0]


def column(read: Callable[[Path], Rows], label: int) -> Callable[[Path], Rows]:
    """One column of a set as the label; the others, and the set's label, are rows."""

    def load(folder: Path) -> Rows:
        X, y = read(folder)
        return np.column_stack([np.delete(X, label, axis=1), y]), X[:, label]

    return load


def made(name: str, **how: Any) -> Callable[[Path], Rows]:
    """Draw by a function of scikit-learn."""

    def load(folder: Path) -> Rows:
        from sklearn import datasets

        X, y, *_ = getattr(datasets, name)(n_samples=DRAWN, random_state=0, **how)
        return X, y

    return load


def drawn(draw: Callable[[np.random.Generator], Rows]) -> Callable[[Path], Rows]:
    """Draw by a function of a generator."""
    return lambda folder: draw(np.random.default_rng(0))


def rings(rng: np.random.Generator) -> Rows:
    """Three shells of equal size around 0, in 8 columns."""
    X = rng.normal(size=(DRAWN, 8))
    ranks = (X**2).sum(axis=1).argsort().argsort()
    return X, ranks * 3 // len(X)


def chessboard(rng: np.random.Generator) -> Rows:
    """The colours of a board of 4 x 4 fields, and 4 columns that mean nothing."""
    X = rng.random((DRAWN, 6))
    return X, np.floor(4 * X[:, :2]).sum(axis=1).astype(int) % 2


def normals(rng: np.random.Generator) -> Rows:
    """Two overlapping normal classes in 30 columns: a straight border is the best."""
    y = np.arange(DRAWN) % 2
    return rng.normal(size=(DRAWN, 30)) + 0.25 * y[:, None], y


higgs = partial(read_higgs, sas_first=True)

CLASSES = {
    "adult": LearningSet(adult, "adult"),
    "higgs": LearningSet(higgs, "higgs"),
    "covtype": LearningSet(read_covtype, "covtype20k"),
    "thyroid": LearningSet(thyroid, "ann_thyroid_costs"),
    "mails": LearningSet(mails, "sms_spam"),
    "mnist, 7 x 7": LearningSet(coarse_digits, "mnist"),
    "12 clusters": LearningSet(
        made(
            "make_classification",
            n_features=20,
            n_informative=10,
            n_classes=12,
            n_clusters_per_class=1,
        )
    ),
    "rings": LearningSet(drawn(rings)),
    "chessboard": LearningSet(drawn(chessboard)),
    "normals": LearningSet(drawn(normals)),
}
NUMBERS = {
    "songs' years": LearningSet(songs, "millionsong"),
    "adult's age": LearningSet(column(adult, 0), "adult"),
    "adult's hours": LearningSet(column(adult, 12), "adult"),
    "covtype's height": LearningSet(column(read_covtype, 0), "covtype20k"),
    "higgs' mass": LearningSet(column(higgs, 27), "higgs"),
    "friedman 1": LearningSet(made("make_friedman1", noise=1.0)),
    "friedman 2": LearningSet(made("make_friedman2", noise=125.0)),
    "friedman 3": LearningSet(made("make_friedman3", noise=0.1)),
    "a plane": LearningSet(
        made("make_regression", n_features=20, n_informative=8, noise=60.0)
    ),
    "few of many": LearningSet(made("make_sparse_uncorrelated", n_features=20)),
}
SETS = CLASSES | NUMBERS


def load(name: str, seed: int, rows: int) -> Divided:
    """Draw `rows` rows to learn from, half of all at most; keep the others."""
    X, y = SETS[name].read(data_folder())
    order = np.random.default_rng(seed).permutation(len(y))
    count = min(rows, len(y) // 2)
    first, rest = order[:count], order[count:]
    values = X.astype(np.float32)
    return Divided(values[first], y[first], values[rest], y[rest])

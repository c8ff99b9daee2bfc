"""Data sets on which learners are chosen, as rows and classes of whole numbers.

DAUB's, as far as they are to be had, and many small ones of different kinds, at most
12,000 rows, so that recording each takes about a minute. None of the small ones was
used to design a strategy alone: constants that were found on all but one are judged on
that one.
"""

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ..data.kept_items import films, thyroid_rows
from ..data.scenes import manifest
from ..data.tables import read_adult, read_covtype, read_higgs, read_mnist
from ..places import data_folder

Rows = tuple[NDArray[np.float64], NDArray[np.int64]]
Draw = Callable[[np.random.Generator], Rows]


def adult(folder: Path) -> Rows:
    """32,561 persons, 6 numbers and 8 categories as 0/1 columns, 2 classes."""
    table = np.array(read_adult(folder, "data"))
    numbers = [0, 2, 4, 10, 11, 12]
    columns = [table[:, numbers].astype(np.float64)]
    for k in (1, 3, 5, 6, 7, 8, 9, 13):
        columns.append(table[:, k, None] == np.unique(table[:, k]))
    return np.hstack(columns).astype(np.float64), (table[:, -1] == ">50K").astype(int)


def mnist(folder: Path) -> Rows:
    """60,000 digits of 28 x 28 pixels in 0..1, 10 classes."""
    pixels, digits = read_mnist(folder, "train")
    return pixels.reshape(-1, 784) / 255, digits


def parity(folder: Path) -> Rows:
    """DAUB's PARITY: 43,000 different rows of 16 bits, the class 5 of them decide."""
    rng = np.random.default_rng(0)
    codes = rng.permutation(2**16)[:43_000]
    bits = (codes[:, None] >> np.arange(16)) & 1
    relevant = rng.permutation(16)[:5]
    return bits.astype(np.float64), bits[:, relevant].sum(axis=1) % 2


def ready(loader: str) -> Callable[[Path], Rows]:
    """Read a set that comes with scikit-learn."""

    def load(folder: Path) -> Rows:
        from sklearn import datasets

        X, y = getattr(datasets, loader)(return_X_y=True)
        return X.astype(np.float64), y.astype(np.int64)

    return load


def thyroid(folder: Path) -> Rows:
    """7,200 patients, 21 numbers, 3 classes, one of them with 93 %."""
    records = [record for part in ("train", "test") for record in thyroid_rows(part)]
    X = np.array([list(values.values()) for values, _, _ in records])
    return X, np.array([int(label) - 1 for _, label, _ in records])


def mails(folder: Path) -> Rows:
    """5,574 short messages as 256 hashed words, spam or not."""
    lines = (folder / "sms_spam" / "SMSSpamCollection").read_bytes().splitlines()
    pairs = [line.decode("latin-1").split("\t", 1) for line in lines]
    hashed = hashed_words((text for _, text in pairs), 256)
    return hashed, np.array([int(label == "spam") for label, _ in pairs])


def reviews(folder: Path) -> Rows:
    """2,000 reviews of films as 512 hashed words, for or against."""
    items = list(films())
    hashed = hashed_words((str(text) for text, _, _ in items), 512)
    return hashed, np.array([int(label == "pos") for _, label, _ in items])


def hashed_words(texts: Iterable[str], width: int) -> NDArray[np.float64]:
    """Count words into so many columns, each row of length 1."""
    from sklearn.feature_extraction.text import HashingVectorizer

    hashing: Any = HashingVectorizer(n_features=width, alternate_sign=False)
    return np.asarray(hashing.transform(texts).toarray())


def scenes(folder: Path) -> Rows:
    """Every third of the scenes as 8 x 8 grey levels, 15 classes."""
    shown = list(manifest())[::3]
    X = []
    for path, _, _ in shown:
        with Image.open(path) as image:
            X.append(np.asarray(image.convert("L").resize((8, 8)), float).ravel() / 255)
    return np.array(X), np.unique(
        [label for _, label, _ in shown], return_inverse=True
    )[1]


def coarse_digits(folder: Path) -> Rows:
    """2,500 digits of mnist as 7 x 7 grey levels, 10 classes."""
    pixels, digits = read_mnist(folder, "train")
    coarse = pixels[:2500].reshape(-1, 7, 4, 7, 4).mean((2, 4)) / 255
    return coarse.reshape(len(coarse), -1), digits[:2500]


def drawn(draw: Draw) -> Callable[[Path], Rows]:
    """Draw a set, always the same."""
    return lambda folder: draw(np.random.default_rng(0))


def classification(rows: int, **how: Any) -> Callable[[Path], Rows]:
    """Draw by scikit-learn's `make_classification`."""

    def load(folder: Path) -> Rows:
        from sklearn.datasets import make_classification

        X, y = make_classification(rows, random_state=0, **how)
        return X, y

    return load


def hastie(rng: np.random.Generator) -> Rows:
    """10 normal columns; the class is whether they lie outside a sphere."""
    X = rng.normal(size=(12_000, 10))
    return X, ((X**2).sum(axis=1) > 9.34).astype(int)


def moons(rng: np.random.Generator) -> Rows:
    """Two noisy half circles."""
    turn, y = np.pi * rng.random(6000), np.arange(6000) % 2
    X = np.column_stack([np.cos(turn), np.sin(turn)])
    X[y == 1] = [1, 0.5] - X[y == 1]
    return X + 0.3 * rng.normal(size=X.shape), y


def friedman(rng: np.random.Generator) -> Rows:
    """Friedman's first function of 5 of 10 columns, noisy, above its median or not."""
    X = rng.random((6000, 10))
    value = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2
    value += 10 * X[:, 3] + 5 * X[:, 4] + rng.normal(size=len(X))
    return X, (value > np.median(value)).astype(int)


def rings(rng: np.random.Generator) -> Rows:
    """Three shells of equal size around 0, in 8 columns."""
    X = rng.normal(size=(4500, 8))
    ranks = (X**2).sum(axis=1).argsort().argsort()
    return X, ranks * 3 // len(X)


def normals(rng: np.random.Generator) -> Rows:
    """Two overlapping normal classes in 30 columns: a straight border is the best."""
    y = np.arange(4500) % 2
    return rng.normal(size=(4500, 30)) + 0.25 * y[:, None], y


def chessboard(rng: np.random.Generator) -> Rows:
    """The colours of a board of 4 x 4 fields, and 4 columns that mean nothing."""
    X = rng.random((6000, 6))
    return X, np.floor(4 * X[:, :2]).sum(axis=1).astype(int) % 2


def short_parity(rng: np.random.Generator) -> Rows:
    """6,000 of the rows of 14 bits, the class 4 of them decide."""
    codes = rng.permutation(2**14)[:6000]
    bits = (codes[:, None] >> np.arange(14)) & 1
    return bits.astype(np.float64), bits[:, :4].sum(axis=1) % 2


def chance(rng: np.random.Generator) -> Rows:
    """Nothing to be learnt: 60 % of one class, whatever the 10 columns say."""
    return rng.normal(size=(3000, 10)), (rng.random(3000) < 0.6).astype(int)


SETS: dict[str, Callable[[Path], Rows]] = {
    "higgs": partial(read_higgs, sas_first=True),
    "covtype": read_covtype,
    "adult": adult,
    "mnist": mnist,
    "parity": parity,
    "iris": ready("load_iris"),
    "wine": ready("load_wine"),
    "breast cancer": ready("load_breast_cancer"),
    "digits": ready("load_digits"),
    "thyroid": thyroid,
    "mails": mails,
    "reviews": reviews,
    "scenes": scenes,
    "coarse digits": coarse_digits,
    "separable": classification(6000, n_features=20, n_informative=8, class_sep=1.5),
    "noisy": classification(4500, n_features=20, n_informative=5, flip_y=0.4),
    "imbalanced": classification(
        6000, n_features=20, n_informative=6, weights=[0.95], flip_y=0.01
    ),
    "classes": classification(
        3000, n_features=20, n_informative=10, n_classes=12, n_clusters_per_class=1
    ),
    "wide": classification(800, n_features=500, n_informative=20),
    "hastie": drawn(hastie),
    "moons": drawn(moons),
    "friedman": drawn(friedman),
    "rings": drawn(rings),
    "normals": drawn(normals),
    "chessboard": drawn(chessboard),
    "short parity": drawn(short_parity),
    "chance": drawn(chance),
}

# where the files of a set are, if it is of files
FOLDERS = {
    "higgs": "higgs",
    "covtype": "covtype20k",
    "adult": "adult",
    "mnist": "mnist",
    "thyroid": "ann_thyroid_costs",
    "mails": "sms_spam",
    "reviews": "polarity",
    "scenes": "scene15",
    "coarse digits": "mnist",
}

# DAUB's own sizes where the data reach: 38,500 of 60,000; half of PARITY.
TRAINING_ROWS = {"mnist": 38_500, "parity": 21_500}


def load(name: str, seed: int, rows: int | None = None) -> dict[str, Any]:
    """Divide a set as the paper does: 70 % train, or the paper's number, 30 % validate.

    Parameters
    ----------
    rows
        Cuts the training rows to so many, and the validation rows in proportion.
    """
    X, y = SETS[name](data_folder())
    X = X.astype(np.float32).astype(np.float64)  # as an extractor's rows are
    order = np.random.default_rng(seed).permutation(len(y))
    train = TRAINING_ROWS.get(name, round(0.7 * len(y)))
    valid = len(y) - train
    if rows is not None and rows < train:
        train, valid = rows, max(round(valid * rows / train), 1)
    first, second = order[:train], order[train : train + valid]
    return {"X": X[first], "y": y[first], "validation": (X[second], y[second])}

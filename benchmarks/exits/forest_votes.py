"""Votes of random forests, as Optimal Sequential Testing has them.

All rows of a set are shuffled and divided 70/10/20, to train, to calibrate (no labels)
and to report on; a forest is scikit-learn's own with no option but the number of its
trees, and a tree votes for one class. Two classes: Adult's and Higgs's own, odd or even
digits, and Covertype's most common class or not.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier

from polydom.models.qwyc.augment import swap_columns

from ..data.tables import SETS, Codes, Rows, read_covtype, small_mnist

Floats = NDArray[np.float64]
Labelled = tuple[Rows, Codes]

COPIES = 15
FEW = 3  # of them
SHARES = 0.7, 0.8  # of the rows, before calibration rows and before test rows


@dataclass(frozen=True, slots=True, eq=False)
class Votes:
    """What each tree of a forest says of rows that it was not grown on.

    Attributes
    ----------
    fit, copies, test : (M, T), (16 M, T) and (N, T) int64
        Class that each tree votes for: calibration rows, the same with copies of them
        that have columns swapped, and test rows.
    shares : ((M, T), (N, T)) float64
        By how much the second class's share is above the first's, of calibration and
        test rows: what the forest itself adds up, where there are two classes.
    labels : (N,) int64
        Of the test rows.
    classes : int
        K.
    """

    fit: Codes
    copies: Codes
    test: Codes
    shares: tuple[Floats, Floats]
    labels: Codes
    classes: int

    def with_copies(self, copies: int) -> Codes:
        """Votes on calibration rows and on so many copies of each."""
        return self.copies[: (1 + copies) * len(self.fit)]

    def shuffled(self, times: int) -> Codes:
        """Votes on calibration rows, so many times over, each in another order."""
        draws = np.random.default_rng(0)
        return draws.permuted(np.tile(self.fit, (times, 1)), axis=1)

    def first(self, trees: int) -> "Votes":
        """Votes of the first trees alone, which are a forest too."""
        fit, copies, test = (v[:, :trees] for v in (self.fit, self.copies, self.test))
        shares = self.shares[0][:, :trees], self.shares[1][:, :trees]
        return Votes(fit, copies, test, shares, self.labels, self.classes)


def most_common_or_not(folder: Path) -> Labelled:
    """Covertype's first 20,000 rows: class 2, the most common of all, or not."""
    X, codes = read_covtype(folder)
    return X.astype(np.float32), (codes == np.bincount(codes).argmax()).astype(np.int64)


def all_rows(name: str) -> Callable[[Path], Labelled]:
    """Make the reader of a set's training and test rows together."""

    def read(folder: Path) -> Labelled:
        X, y, Xt, yt = SETS[name](folder)
        return np.concatenate([X, Xt]), np.concatenate([y, yt])

    return read


def seven_classes(folder: Path) -> Labelled:
    """Covertype's first 20,000 rows."""
    X, codes = read_covtype(folder)
    return X.astype(np.float32), codes


def ten_digits(folder: Path) -> Labelled:
    """20,000 and 10,000 digits."""
    X, y = small_mnist(folder, "train", 20_000)
    Xt, yt = small_mnist(folder, "t10k", 10_000)
    return np.concatenate([X, Xt]), np.concatenate([y, yt])


TWO: dict[str, Callable[[Path], Labelled]] = {
    "adult": all_rows("adult"),
    "covtype20k": most_common_or_not,
    "mnist": all_rows("mnist"),
    "higgs": all_rows("higgs"),
}
MANY: dict[str, Callable[[Path], Labelled]] = {
    "covtype20k": seven_classes,
    "mnist": ten_digits,
}


def divide(X: Rows, y: Codes, seed: int) -> tuple[Labelled, Labelled, Labelled]:
    """Rows to train, to calibrate and to report on, with their classes."""
    order = np.random.default_rng(seed).permutation(len(X))
    parts = np.split(order, [int(share * len(X)) for share in SHARES])
    train, fit, test = ((X[part], y[part]) for part in parts)
    return train, fit, test


def grow(rows: Labelled, trees: int, seed: int, **options: Any) -> Any:
    """Grow a forest on one core."""
    forest = RandomForestClassifier(trees, random_state=seed, n_jobs=1, **options)
    return forest.fit(*rows)


def cast(forest: Any, X: Rows) -> tuple[Codes, Floats]:
    """(N, T) votes, and by how much the second class's share is above the first's."""
    codes = np.empty((len(X), len(forest.estimators_)), np.int64)
    shares = np.empty(codes.shape)
    for t, tree in enumerate(forest.estimators_):
        leaves = tree.tree_.predict(X)
        codes[:, t] = leaves.argmax(axis=1)
        shares[:, t] = leaves[:, 1] - leaves[:, 0]
    return codes, shares


def vote(X: Rows, y: Codes, trees: int, seed: int) -> Votes:
    """Grow a forest on a division of the rows and let it vote on the others."""
    train, (fit, _), (test, labels) = divide(X, y, seed)
    forest = grow(train, trees, seed)
    mine, fresh = cast(forest, fit), cast(forest, test)
    copies, _ = cast(forest, swap_columns(fit, copies=COPIES))
    shares = mine[1], fresh[1]
    return Votes(mine[0], copies, fresh[0], shares, labels, len(forest.classes_))

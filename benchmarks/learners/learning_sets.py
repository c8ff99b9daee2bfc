"""The data sets on which learners are chosen, as (rows, classes) of whole numbers."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data.tables import read_adult, read_covtype, read_higgs, read_mnist
from ..places import DATA
from .small_sets import SMALL_SETS

Rows = tuple[NDArray[np.float64], NDArray[np.int64]]


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


SETS: dict[str, Callable[[Path], Rows]] = {
    "higgs": partial(read_higgs, sas_first=True),
    "covtype": read_covtype,
    "adult": adult,
    "mnist": mnist,
    "parity": parity,
    **SMALL_SETS,
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
    X, y = SETS[name](DATA)
    X = X.astype(np.float32).astype(np.float64)  # as an extractor's rows are
    order = np.random.default_rng(seed).permutation(len(y))
    train = TRAINING_ROWS.get(name, round(0.7 * len(y)))
    valid = len(y) - train
    if rows is not None and rows < train:
        train, valid = rows, max(round(valid * rows / train), 1)
    first, second = order[:train], order[train : train + valid]
    return {"X": X[first], "y": y[first], "validation": (X[second], y[second])}

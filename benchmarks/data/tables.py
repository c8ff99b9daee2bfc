"""The data sets of numbers, read from their files, and split for two classes."""

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float32]
Codes = NDArray[np.int64]
Split = tuple[Rows, Codes, Rows, Codes]  # training and test rows, each with classes


def read_adult(folder: Path, part: str) -> list[list[str]]:
    """Cells of each of Adult's lines, of "data" (to train on) or "test"."""
    lines = (folder / "adult" / f"adult.{part}").read_text().splitlines()
    return [
        [cell.strip() for cell in line.rstrip(".").split(",")]
        for line in lines
        if line.count(",") == 14
    ]


def read_covtype(folder: Path) -> tuple[NDArray[np.float64], Codes]:
    """Covertype's first 20,000 rows in the order of its file, 54 columns, 7 classes."""
    with gzip.open(folder / "covtype20k" / "covtype.20k.data.gz", "rt") as file:
        table = np.loadtxt(file, delimiter=",")
    return table[:, :-1], table[:, -1].astype(np.int64) - 1


def read_higgs(
    folder: Path, sas_first: bool = False
) -> tuple[NDArray[np.float64], Codes]:
    """18,484 simulated collisions of three files, 28 columns, 2 classes."""
    parts = []
    for name in ("train", "test"):
        with gzip.open(folder / "higgs" / f"lightgbm_binary.{name}.gz", "rt") as file:
            table = np.loadtxt(file)
        parts.append((table[:, 1:], table[:, 0]))
    with gzip.open(folder / "higgs" / "sas_higgs.csv.gz", "rt") as file:
        table = np.genfromtxt(file, delimiter=",")
    table = table[~np.isnan(table).any(axis=1)]  # the header
    parts.insert(0 if sas_first else 2, (table[:, :-1], table[:, -1]))
    X, y = (np.concatenate(side) for side in zip(*parts, strict=True))
    return X, y.astype(np.int64)


def read_mnist(folder: Path, stem: str) -> tuple[NDArray[np.uint8], Codes]:
    """Images (N, 28, 28) and digits of "train", 60,000, or "t10k", 10,000."""
    with gzip.open(folder / "mnist" / f"{stem}-images-idx3-ubyte.gz") as file:
        pixels = np.frombuffer(file.read(), np.uint8, offset=16)
    with gzip.open(folder / "mnist" / f"{stem}-labels-idx1-ubyte.gz") as file:
        digits = np.frombuffer(file.read(), np.uint8, offset=8)
    return pixels.reshape(-1, 28, 28), digits.astype(np.int64)


def small_mnist(folder: Path, stem: str, count: int) -> tuple[Rows, Codes]:
    """Read the first digits at 14 x 14 pixels, in rows."""
    pixels, digits = read_mnist(folder, stem)
    small = pixels[:count].reshape(-1, 14, 2, 14, 2).mean((2, 4))
    return small.reshape(len(small), -1).astype(np.float32), digits[:count]


def read_physionet(folder: Path) -> tuple[NDArray[np.float64], Codes]:
    """12,000 stays in intensive care, 41 columns with gaps; 1 for who died, 14 %."""
    with gzip.open(folder / "physionet" / "physionet.csv.gz", "rt") as file:
        table = np.genfromtxt(file, delimiter=",", skip_header=1)
    return table[:, :-1], table[:, -1].astype(np.int64)


def load_adult(folder: Path) -> Split:
    """Adult's own split; categories numbered in the order of the training part."""
    train, test = read_adult(folder, "data"), read_adult(folder, "test")
    columns = []
    for j in range(14):
        if train[0][j].isdigit():
            columns.append([[float(r[j]) for r in part] for part in (train, test)])
            continue
        codes = {v: i for i, v in enumerate(sorted({r[j] for r in train}))}
        columns.append(
            [[float(codes.get(r[j], 0)) for r in part] for part in (train, test)]
        )
    X, Xt = (np.array([c[k] for c in columns], np.float32).T.copy() for k in (0, 1))
    y, yt = (np.array([r[14] == ">50K" for r in p], np.int64) for p in (train, test))
    return X, y, Xt, yt


def load_higgs(folder: Path) -> Split:
    """All files of higgs together, 70/30."""
    X, y = read_higgs(folder)
    return split(X, y == 1)


def load_covtype(folder: Path) -> Split:
    """Covertype's class 2, about half of the rows, against the rest, 70/30."""
    X, codes = read_covtype(folder)
    return split(X, codes == 1)


def load_mnist(folder: Path) -> Split:
    """Odd against even digits; 20,000 training rows."""
    X, digits = small_mnist(folder, "train", 20_000)
    Xt, fresh = small_mnist(folder, "t10k", 10_000)
    return X, digits % 2, Xt, fresh % 2


def split(X: NDArray[np.float64], y: NDArray[np.bool_]) -> Split:
    """Shuffle, then 70 % for training."""
    p = np.random.default_rng(0).permutation(len(X))
    n = int(0.7 * len(X))
    rows, codes = X[p].astype(np.float32), y[p].astype(np.int64)
    return rows[:n], codes[:n], rows[n:], codes[n:]


SETS: dict[str, Callable[[Path], Split]] = {
    "adult": load_adult,
    "higgs": load_higgs,
    "covtype20k": load_covtype,
    "mnist": load_mnist,
}

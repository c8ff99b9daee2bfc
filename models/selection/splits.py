"""Split rows into training rows and validation rows.

Training on n examples uses the first n training rows, so every learner sees the same
rows. Among the first n rows, each class has the same share as among all training rows,
to within one row.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadInput

Rows = NDArray[np.int64]
Validation = (
    float | int | tuple[NDArray[Any], NDArray[Any]] | Sequence[tuple[Rows, Rows]]
)


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """One split of the data into training rows and validation rows."""

    # `X` and `y`: training rows, (N, D) and (N,), in the order of draws
    X: NDArray[Any]
    y: NDArray[Any]
    # `X_valid` and `y_valid`: validation rows, (M, D) and (M,), in the order of draws
    X_valid: NDArray[Any]
    y_valid: NDArray[Any]
    # Weights (N,) of training rows for fitting, and (M,) of validation rows for scores;
    # None if all rows count alike
    weights: NDArray[np.float64] | None = None
    counts: NDArray[np.float64] | None = None

    def first(self, train: int | None, valid: int | None) -> "Split":
        """Return a split with the first `train` training and `valid` validation rows.

        None means all rows.
        """
        return Split(
            self.X[:train],
            self.y[:train],
            self.X_valid[:valid],
            self.y_valid[:valid],
            None if self.weights is None else self.weights[:train],
            None if self.counts is None else self.counts[:valid],
        )


def nested_order(
    y: NDArray[Any], rng: np.random.Generator, *, labels: bool = True
) -> NDArray[np.int64]:
    """Return a random order of the rows (N,).

    If `labels`, y holds classes, and for every n, the first n rows of the order have
    the class proportions of y, to within one row.
    """
    order = rng.permutation(len(y))
    if not labels:
        return order
    rank, count = _within_class(y[order])
    return order[np.argsort(rank / count, kind="stable")]


def split(
    X: NDArray[Any],
    y: NDArray[Any],
    *,
    validation: Validation = 0.3,
    labels: bool = True,
    seed: int = 0,
    weights: NDArray[np.float64] | None = None,
    counts: NDArray[np.float64] | None = None,
) -> tuple[Split, ...]:
    """Split the data into training and validation rows: one split, or one per fold.

    `validation` is the share, in (0, 1), of each class to hold out; or the number of
    folds, at least 2; or a pair of validation rows and their targets; or a list of
    folds, each a pair of the positions of training rows and of validation rows. If
    `labels`, targets are classes. `weights` (N,) are the rows' weights for fitting, and
    `counts` (N,) for scores. Raises BadInput if there would be no training or no
    validation rows, if a class is only in the validation rows, or if `counts` come with
    validation rows of their own.
    """
    X, y = np.asarray(X), np.asarray(y)
    if len(X) != len(y):
        raise BadInput(f"X has {len(X)} rows and y has {len(y)}; they must be as many")
    classes = len(np.unique(y))
    if labels and classes < 2:
        raise BadInput(f"y holds {classes} class(es); at least 2 are needed")

    rng = np.random.default_rng(seed)
    valid_rows: list[Rows | None]
    if isinstance(validation, tuple):
        if counts is not None:
            raise BadInput("counts came with validation rows, which have none")
        X_valid, y_valid = (np.asarray(part) for part in validation)
        sides = [(np.arange(len(y)), X_valid, y_valid)]
        valid_rows = [None]
    else:
        if isinstance(validation, Sequence):
            pairs = [*validation]
        else:
            held = _held(y, validation, rng, labels)
            pairs = [(np.flatnonzero(~rows), np.flatnonzero(rows)) for rows in held]
        sides = [(train, X[valid], y[valid]) for train, valid in pairs]
        valid_rows = [valid for _, valid in pairs]
    splits = []
    for (train, X_valid, y_valid), valid in zip(sides, valid_rows, strict=True):
        rows = train[nested_order(y[train], rng, labels=labels)]
        part = Split(X[rows], y[rows], X_valid, y_valid)
        _check(part, labels)
        order = nested_order(y_valid, np.random.default_rng(seed), labels=labels)
        splits.append(
            Split(
                part.X,
                part.y,
                X_valid[order],
                y_valid[order],
                None if weights is None else weights[rows],
                None if counts is None or valid is None else counts[valid][order],
            )
        )
    return tuple(splits)


def _within_class(y: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rank of each row within its class, and the size of its class."""
    _, code, counts = np.unique(y, return_inverse=True, return_counts=True)
    grouped = np.argsort(code, kind="stable")
    rank = np.empty(len(y), dtype=np.int64)
    rank[grouped] = np.arange(len(y)) - np.repeat(np.cumsum(counts) - counts, counts)
    return rank, counts[code]


def _held(
    y: NDArray[Any], validation: float | int, rng: np.random.Generator, labels: bool
) -> list[NDArray[np.bool_]]:
    """Return a mask (N,) for each split: True for its validation rows."""
    order = rng.permutation(len(y))
    if isinstance(validation, int) and 2 <= validation <= len(y):
        if labels:  # rows are dealt class by class, so that folds are stratified
            order = order[np.argsort(y[order], kind="stable")]
        fold = np.empty(len(y), dtype=np.int64)
        fold[order] = np.arange(len(y)) % validation
        return [fold == k for k in range(validation)]
    if not 0 < validation < 1:
        raise BadInput(
            f"validation is {validation!r} for {len(y)} rows; a share in (0, 1), a "
            "number of folds from 2 to the rows, or validation rows are needed"
        )
    rank = np.empty(len(y), dtype=np.int64)
    rank[order] = _within_class(y[order])[0] if labels else np.arange(len(y))
    # The i-th row of a class is held out if i * share passes a whole number.
    return [np.floor((rank + 1) * validation) > np.floor(rank * validation)]


def _check(part: Split, labels: bool) -> None:
    if not len(part.X) or not len(part.X_valid):
        raise BadInput(
            f"{len(part.X)} training and {len(part.X_valid)} validation rows; "
            "at least 1 of each is needed"
        )
    if part.X_valid.shape[1:] != part.X.shape[1:]:
        raise BadInput(
            f"the validation rows have shape {part.X_valid.shape}, the training rows "
            f"{part.X.shape}; as many columns are needed"
        )
    if len(part.X_valid) != len(part.y_valid):
        raise BadInput(
            f"{len(part.X_valid)} validation rows have {len(part.y_valid)} targets"
        )
    unseen = np.setdiff1d(part.y_valid, part.y) if labels else np.empty(0)
    if unseen.size:
        raise BadInput(
            f"the validation rows hold class {unseen[0]!r}, which no training row has"
        )

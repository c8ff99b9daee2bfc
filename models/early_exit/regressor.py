"""Compiled regressors and rankers: one number per row, as a sum of trees."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadInput

from ..scoring.model import Rows
from ..scoring.rows import take_row, take_rows
from ..trees.trees import Link, Trees
from .remaining_scores import bound_remaining

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Regressor:
    """A sum of T trees, whose value is the answer.

    Immutable; safe to share between threads.

    Attributes
    ----------
    trees
        They give one raw score per row.
    link
        What the library makes of that sum when it predicts.
    """

    trees: Trees
    link: Link

    def __repr__(self) -> str:
        return f"Regressor({self.trees!r}, link={self.link!r})"

    @property
    def size(self) -> int:
        """T, the number of trees."""
        return self.trees.size

    def base_scores(self, X: Rows) -> Floats:
        """Give what each tree adds to the sum for the rows X (N, width): (N, T)."""
        scores: Floats = self.trees.base_scores(take_rows(X))[:, :, 0]
        return scores

    def decision_function(self, X: Rows) -> Floats:
        """(N,) sums, bit-equal to those of a library that adds in float64."""
        return self.trees.raw(take_rows(X))[:, 0]

    def predict(self, X: Rows) -> Floats:
        """(N,) what the original's `predict` gives."""
        return _linked(self.decision_function(X), self.link)

    def predict_one(self, row: Rows) -> float:
        """Prediction for one full row (width,)."""
        margin = self.trees.margin_one(row)
        if margin is None:
            raw = self.trees.raw(take_row(row)[None])[:, 0]
        else:
            raw = np.array([margin])
        return float(_linked(raw, self.link)[0])

    def within(self, tolerance: float) -> "Regressor":
        """Leave out trees that cannot move any row's sum by more than `tolerance`.

        Those that remain are the ones whose leaves lie farthest apart, and the middle
        of what the others could add is added for them. With tolerance 0 a tree that
        always gives the same is all that can be missing.

        Parameters
        ----------
        tolerance
            At least 0, in units of the sum: before `exp` and the like.

        Raises
        ------
        BadInput
            If the tolerance is negative or NaN.
        """
        remaining = bound_remaining(*(ends[:, 0] for ends in self.trees.bounds()))
        used, rest = remaining.enough(tolerance)
        if used == self.size:
            return self
        return self.part(np.sort(remaining.order[:used]), rest)

    def part(self, which: NDArray[Any], rest: float = 0.0) -> "Regressor":
        """Sum only the trees at the positions `which`, in that order, and add `rest`.

        Raises
        ------
        BadInput
            If `which` is empty, or a position does not exist.
        """
        which = np.asarray(which, np.int64)
        if not which.size or which.min() < 0 or which.max() >= self.size:
            raise BadInput(f"positions of trees must be some of 0 to {self.size - 1}")
        trees = self.trees
        roots = trees.roots
        sizes = np.diff(roots)[which]
        starts = np.append(0, np.cumsum(sizes))
        moved = roots[:-1][which] - starts[:-1]
        nodes = trees.nodes[np.arange(starts[-1]) + np.repeat(moved, sizes)]
        inner = nodes["column"] >= 0
        nodes["child"][inner] -= np.repeat(moved, sizes)[inner].astype(np.int32)
        leaves = trees.leaves[nodes["child"][~inner]]
        nodes["child"][~inner] = np.arange(len(leaves))
        kept = replace(
            trees,
            nodes=nodes,
            roots=starts,
            targets=trees.targets[which],
            leaves=leaves,
            bias=trees.bias + rest * trees.divisor,
            packed=None,
        )
        return Regressor(kept.with_packed(), self.link)


def _linked(raw: Floats, link: Link) -> Floats:
    if link == "exp":
        return np.exp(raw)
    if link == "logistic":
        return 1 / (1 + np.exp(-raw))
    if link == "signed square":
        return np.sign(raw) * raw * raw
    return raw

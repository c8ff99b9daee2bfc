"""Choose the inputs of each lattice, and the keypoints of each input."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..scoring.model import Floats

# Values are clipped to this magnitude, so that no gap between keypoints is infinite.
WIDEST = 1e300


def keypoints(values: NDArray[Any], count: int) -> Floats:
    """Return `count` keypoints, ascending: quantiles of one input's values (N,)."""
    known = np.clip(values[~np.isnan(values)], -WIDEST, WIDEST).astype(np.float64)
    found = np.unique(known) if len(known) else np.zeros(1)
    if len(found) > count:
        shares = np.linspace(0.0, 1.0, count)
        # Quantiles of the rows; if some coincide, quantiles of the distinct values.
        rows = np.unique(np.quantile(known, shares, method="nearest"))
        rest = np.quantile(found, shares, method="nearest")
        found = np.union1d(rows, rest[~np.isin(rest, rows)][: count - len(rows)])
    while len(found) < count:
        gaps = np.diff(found)
        widest = int(gaps.argmax()) if gaps.size else -1
        middle = found[widest] + 0.5 * gaps[widest] if gaps.size else found[-1]
        if gaps.size and found[widest] < middle < found[widest + 1]:
            found = np.insert(found, widest + 1, middle)
        else:
            found = np.append(found, found[-1] + max(1.0, abs(found[-1])))
    return found


def flatten_dull(
    calibrations: Floats, X: NDArray[Any], knots: Floats, inputs: NDArray[Any]
) -> None:
    """Change `calibrations` in place, so that constant inputs do not affect scores.

    A constant input has only one value in the rows X.
    """
    low, high = np.fmin.reduce(X), np.fmax.reduce(X)
    gaps = np.isnan(X).any(axis=0)
    for column in np.flatnonzero(~(low < high)).tolist():
        own = inputs == column
        seen = int(np.searchsorted(knots[column], low[column]))  # P if all are NaN
        kept = calibrations[own][:, -1:].copy()
        calibrations[own] = calibrations[own][:, seen : seen + 1]
        if gaps[column]:
            calibrations[own, -1] = kept[:, 0]


def pairs_tested(trees: Iterable[NDArray[Any]], d: int) -> Floats:
    """Count how often trees test two inputs on the same path from the root to a node.

    Returns a symmetric array (d, d). Its diagonal counts all tests of each input.
    """
    seen = np.zeros((d, d))
    for nodes in trees:
        unvisited: list[tuple[int, frozenset[int]]] = [(0, frozenset())]
        while unvisited:
            at, above = unvisited.pop()
            node = nodes[at]
            if node["is_leaf"]:
                continue
            column = int(node["feature_idx"])
            seen[column, column] += 1.0
            for other in above - {column}:
                seen[column, other] += 1.0
                seen[other, column] += 1.0
            below = above | {column}
            unvisited += (int(node["left"]), below), (int(node["right"]), below)
    return seen


def join_inputs(
    together: Floats, shape: tuple[int, int], rng: np.random.Generator
) -> Any:
    """Choose the S inputs of each of T lattices, such that they interact.

    `shape` is (T, S), also that of the result. `together` (d, d) counts how often trees
    test two inputs on one path. The first input of a lattice is drawn at random. Each
    further input is the one with the largest sum of counts with the lattice's inputs so
    far. The count of a pair is reduced if other lattices already have the pair.
    """
    T, S = shape
    d = len(together)
    weights = together + 1e-3 * rng.random((d, d))
    weights = 0.5 * (weights + weights.T)
    alone = np.diag(weights) / np.diag(weights).sum()
    np.fill_diagonal(weights, 0.0)
    given = np.zeros((d, d))
    out = np.empty(shape, np.int32)
    for t in range(T):
        own = [int(rng.choice(d, p=alone))]
        worth = weights / (1.0 + given)
        while len(own) < S:
            gain = worth[own].sum(axis=0)
            gain[own] = -1.0
            own.append(int(gain.argmax()))
        given[np.ix_(own, own)] += 1.0
        out[t] = own
    return out

"""Slow twins of orders of node steps: all of them, and rows walked one by one."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def shares_by_walking(tree: Any, row: Floats, steps: int) -> tuple[list[float], int]:
    """(class shares, steps taken) of one row after so many steps in one tree."""
    node = taken = 0
    while taken < steps and tree.children_left[node] >= 0:
        low = np.float32(row[tree.feature[node]]) <= tree.threshold[node]
        node = tree.children_left[node] if low else tree.children_right[node]
        taken += 1
    counts = tree.value[node][0]
    return [float(count / sum(counts)) for count in counts], taken


def mean_right(order: list[int], paths: list[Floats], y: list[int]) -> float:
    """Mean accuracy after each step, every sum made anew."""
    right = []
    for done in range(1, len(order) + 1):
        at = [order[:done].count(tree) for tree in range(len(paths))]
        right.append(right_at(at, paths, y))
    return sum(right) / len(right)


def right_at(at: list[int], paths: list[Floats], y: list[int]) -> float:
    """Accuracy after so many steps of each tree."""
    hits = 0
    for n, label in enumerate(y):
        sums = [
            sum(path[k][n][c] for path, k in zip(paths, at, strict=True))
            for c in range(paths[0].shape[2])
        ]
        hits += sums.index(max(sums)) == label
    return hits / len(y)


def all_orders(depths: list[int]) -> Iterator[list[int]]:
    """Every order of steps."""
    if not any(depths):
        yield []
    for tree, depth in enumerate(depths):
        if depth:
            left = [d - (t == tree) for t, d in enumerate(depths)]
            yield from ([tree, *rest] for rest in all_orders(left))


def greedy(paths: list[Floats], y: list[int], back: bool) -> list[int]:
    """One step after the other, or off the whole: the best, of equals the lowest."""
    depths = [len(path) - 1 for path in paths]
    at = list(depths) if back else [0] * len(depths)
    order = []
    for _ in range(sum(depths)):
        best = None
        for tree, steps in enumerate(at):
            if steps == (0 if back else depths[tree]):
                continue
            trial = list(at)
            trial[tree] += -1 if back else 1
            score = right_at(trial, paths, y)
            if best is None or score > best[0]:
                best = score, tree, trial
        assert best is not None
        _, tree, at = best
        order.append(tree)
    return order[::-1] if back else order

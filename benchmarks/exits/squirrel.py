"""Our reading of "Jump Like A Squirrel" (arXiv 2603.01588): forests, node by node.

A forest of two classes is evaluated in single steps from a node to its child. The order
of the steps is fixed beforehand, so that the answer after every step is good: backward
from the complete forest, the step is taken back that hurts the accuracy least.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier

Floats = NDArray[np.float32]


def node_shares(forest: RandomForestClassifier, X: Floats) -> tuple[Floats, Any]:
    """What each row knows of each tree after 0, 1, ... steps.

    Returns (T, D, N): the share of the second class less a half at the node that each
    of N rows is in after so many steps, D - 1 at most; and the steps until each row's
    leaf, (T, N).
    """
    trees = [one.tree_ for one in forest.estimators_]
    deepest = max(tree.max_depth for tree in trees)
    shares = np.empty((len(trees), deepest + 1, len(X)), np.float32)
    steps = np.zeros((len(trees), len(X)), np.int16)
    for t, tree in enumerate(trees):
        value = tree.value[:, 0]
        second = (value[:, 1] / value.sum(axis=1) - 0.5).astype(np.float32)
        node = np.zeros(len(X), np.int64)
        for d in range(deepest + 1):
            shares[t, d] = second[node]
            inner = tree.children_left[node] >= 0
            steps[t] += inner
            values = X[np.arange(len(X)), np.maximum(tree.feature[node], 0)]
            child = np.where(
                values <= tree.threshold[node],
                tree.children_left[node],
                tree.children_right[node],
            )
            node = np.where(inner, child, node)
    return shares, steps


def backward_order(shares: Floats, y: NDArray[Any], depths: NDArray[Any]) -> list[int]:
    """Return the trees in the order of their steps (sum of `depths`).

    `shares` (T, D, N) are those of N rows with the classes `y` (N,), which the forest
    was not trained on.
    """
    at, rows = depths.copy(), np.arange(len(depths))
    total = shares[rows, at].sum(axis=0)
    less = shares[rows, np.maximum(at - 1, 0)] - shares[rows, at]
    order = list[int]()
    positive = y == 1
    for _ in range(int(depths.sum())):
        right = ((total + less > 0) == positive).sum(axis=1)
        right[at == 0] = -1
        t = int(right.argmax())
        order.append(t)
        total += less[t]
        at[t] -= 1
        less[t] = shares[t, max(at[t] - 1, 0)] - shares[t, at[t]]
    return order[::-1]


def accuracies(
    shares: Floats,
    steps: NDArray[Any],
    y: NDArray[Any],
    order: list[int],
    visits: list[float],
) -> list[float]:
    """Accuracy on rows that visit so many nodes in the order, for each number.

    Steps at leaves are no visits.
    """
    at, total = np.zeros(len(shares), np.int64), shares[:, 0].sum(axis=0)
    used, right = np.zeros(len(y)), np.zeros((len(visits), len(y)), np.bool_)
    limits = np.array(visits)[:, None]
    for t in order:
        used += at[t] < steps[t]
        total += shares[t, at[t] + 1] - shares[t, at[t]]
        at[t] += 1
        np.copyto(right, (total > 0) == (y == 1), where=used <= limits)
    return [float(one.mean()) for one in right]

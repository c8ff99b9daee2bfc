"""Slow twins of boosting in stages."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def boost_in_stages(
    X: NDArray[Any],
    y: NDArray[Any],
    stages: Sequence[Sequence[int]],
    rounds: Sequence[int],
    depth: int,
    rate: float,
) -> NDArray[Any]:
    """Add up what each tree says, fitted to what is left on the columns so far.

    Gradient boosting of two classes, by its definition: (N, T), without the odds that
    it starts from.
    """
    from sklearn.tree import DecisionTreeRegressor

    seen: list[int] = []
    added: list[NDArray[Any]] = []
    raw = np.full(len(y), math.log(y.mean() / (1 - y.mean())))
    for columns, count in zip(stages, rounds, strict=True):
        seen += columns
        for _ in range(count):
            shares = 1 / (1 + np.exp(-raw))
            rest = y - shares
            tree = DecisionTreeRegressor(max_depth=depth, random_state=0)
            leaves = tree.fit(X[:, seen], rest).apply(X[:, seen])
            step = np.zeros(len(y))
            for leaf in set(leaves.tolist()):
                own = leaves == leaf
                step[own] = rest[own].sum() / (shares * (1 - shares))[own].sum()
            added.append(rate * step)
            raw = raw + added[-1]
    return np.column_stack(added)

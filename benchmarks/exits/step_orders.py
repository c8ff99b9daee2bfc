"""Jump Like A Squirrel (arXiv 2603.01588): a forest of which every node step counts.

A step takes one tree one node further down. An order of all steps is chosen once, so
that the forest, stopped after any of them, is right as often as can be. Nearly the
paper's: what is known of it is its abstract's "greedy, down or up the trees", the
optimum as a best path, and the mean accuracy over all steps as the aim; ties, the rows
to order on and the classes' distributions at inner nodes are ours.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
Paths = list[Floats]  # of each tree (depth + 1, N, K): class shares after k steps


def read_paths(forest: Any, X: NDArray[np.float32]) -> tuple[Paths, list[Codes]]:
    """Where rows are after each step of each tree of a scikit-learn forest.

    Returns
    -------
    paths
        Of each tree (depth + 1, N, K) class shares of the node each row is in after k
        steps; a row that has come to its leaf stays there.
    lengths
        Of each tree (N,) steps that each row takes: those at leaves are no work.
    """
    paths, lengths = [], []
    for tree in (estimator.tree_ for estimator in forest.estimators_):
        shares = tree.value[:, 0] / tree.value[:, 0].sum(axis=1, keepdims=True)
        nodes, rows = np.zeros(len(X), np.int64), np.arange(len(X))
        places, length = [nodes], np.zeros(len(X), np.int64)
        for _ in range(tree.max_depth):
            inner = tree.children_left[nodes] >= 0
            left = X[rows, tree.feature[nodes]] <= tree.threshold[nodes]
            below = np.where(
                left, tree.children_left[nodes], tree.children_right[nodes]
            )
            nodes = np.where(inner, below, nodes)
            places.append(nodes)
            length += inner
        paths.append(shares[np.array(places)])
        lengths.append(length)
    return paths, lengths


def depths_of(paths: Paths) -> list[int]:
    """Steps of each tree."""
    return [len(path) - 1 for path in paths]


def accuracy(sums: Floats, y: Codes) -> float:
    """Share of rows whose largest sum (N, K) is their class's."""
    return float(np.mean(sums.argmax(axis=1) == y))


def accuracies(order: Sequence[int], paths: Paths, y: Codes) -> Floats:
    """Accuracy after each step of an order: (steps,). An order names trees."""
    sums, at = sum_at(paths, [0] * len(paths)), [0] * len(paths)
    found = []
    for tree in order:
        sums = sums + paths[tree][at[tree] + 1] - paths[tree][at[tree]]
        at[tree] += 1
        found.append(accuracy(sums, y))
    return np.array(found)


def sum_at(paths: Paths, steps: Sequence[int]) -> Floats:
    """Class shares (N, K), added over trees, after so many steps of each."""
    total: Floats = np.sum([path[k] for path, k in zip(paths, steps, strict=True)], 0)
    return total


def forward(paths: Paths, y: Codes) -> list[int]:
    """Order steps from none on: each the one after which most rows are right."""
    depths, at = depths_of(paths), [0] * len(paths)
    sums, order = sum_at(paths, at), []
    for _ in range(sum(depths)):
        open_ = [t for t, depth in enumerate(depths) if at[t] < depth]
        trials = [sums + paths[t][at[t] + 1] - paths[t][at[t]] for t in open_]
        best = int(np.argmax([accuracy(trial, y) for trial in trials]))
        sums = trials[best]
        order.append(open_[best])
        at[open_[best]] += 1
    return order


def backward(paths: Paths, y: Codes) -> list[int]:
    """Order steps from the whole forest back: last the one that is missed least."""
    at = depths_of(paths)
    sums, order = sum_at(paths, at), []
    for _ in range(sum(at)):
        open_ = [t for t, steps in enumerate(at) if steps]
        trials = [sums + paths[t][at[t] - 1] - paths[t][at[t]] for t in open_]
        best = int(np.argmax([accuracy(trial, y) for trial in trials]))
        sums = trials[best]
        order.append(open_[best])
        at[open_[best]] -= 1
    return order[::-1]


def optimal(paths: Paths, y: Codes) -> list[int]:
    """Order of the largest mean accuracy, over all states: few and shallow trees."""
    depths = depths_of(paths)
    value: dict[tuple[int, ...], float] = {}
    came: dict[tuple[int, ...], int] = {}
    for state, sums in all_states(paths):
        before = [
            (value[(*state[:t], steps - 1, *state[t + 1 :])], -t)
            for t, steps in enumerate(state)
            if steps
        ]
        most, tree = max(before, default=(-accuracy(sums, y), 0))
        value[state], came[state] = most + accuracy(sums, y), -tree
    state, order = tuple(depths), []
    while any(state):
        tree = came[state]
        order.append(tree)
        state = (*state[:tree], state[tree] - 1, *state[tree + 1 :])
    return order[::-1]


def all_states(paths: Paths) -> Iterator[tuple[tuple[int, ...], Floats]]:
    """Every (steps of each tree, sums), none before those it comes from."""
    for head in product(*(range(len(path)) for path in paths[:-1])):
        sums = sum_at(paths[:-1], head) if head else 0.0
        for k, shares in enumerate(paths[-1]):
            yield (*head, k), sums + shares


def depth_first(depths: Sequence[int], trees: Sequence[int]) -> list[int]:
    """Order whole trees one after the other, as `trees` has them."""
    return [t for t in trees for _ in range(depths[t])]


def breadth_first(depths: Sequence[int]) -> list[int]:
    """Order level after level."""
    return [
        t for k in range(max(depths)) for t, depth in enumerate(depths) if k < depth
    ]


def at_random(depths: Sequence[int], seed: int) -> list[int]:
    """Order steps at random, a tree's own still from its root down."""
    steps = depth_first(depths, range(len(depths)))
    shuffled: list[int] = np.random.default_rng(seed).permutation(steps).tolist()
    return shuffled

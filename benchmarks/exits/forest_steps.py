"""Forests stopped after any node step: Jump Like A Squirrel beside our schedules.

A step takes one tree one node further down. Jump Like A Squirrel (arXiv 2603.01588)
chooses an order of all steps once, so that the forest, stopped after any of them, is
right as often as can be. Nearly the paper's: what is known of it is its abstract's
"greedy, down or up the trees", the optimum as a best path, and the mean accuracy over
all steps as the aim; ties, the rows to order on and the classes' distributions at inner
nodes are ours.

Orders are chosen on calibration rows and judged on test rows, as forests are divided in
`forest_votes`. A small forest has an optimum to compare with, a larger one has not. Our
own order is of whole trees: tree after tree as `fit_schedule` orders them. Where an
interrupt comes from outside, the mean accuracy over all steps tells; where what counts
is work, our schedule stops by itself, and is compared by nodes visited.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data.tables import Codes, Rows
from .forest_votes import MANY, TWO, divide, grow, rungs

Floats = NDArray[np.float64]
Paths = list[Floats]  # of each tree (depth + 1, N, K): class shares after k steps

SHAPES = ((5, 5), (25, 8))  # trees, depth
STATES = 10_000  # most of which the best order is looked for
OURS = "polydom's, tree after tree"
SETS = {"adult": TWO, "higgs": TWO, "covtype20k": MANY, "mnist": MANY}
FORESTS = 3
LOSS = 0.005  # of accuracy, at which work is compared


def read_paths(forest: Any, X: Rows) -> tuple[Paths, list[Codes]]:
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


def orders_of(paths: Paths, y: Codes, seed: int) -> Iterator[Any]:
    """(name, order) of all orders; the optimum only of small forests."""
    depths = depths_of(paths)
    if np.prod(np.array(depths) + 1.0) <= STATES:
        yield "optimal", optimal(paths, y)
    yield "backward squirrel", backward(paths, y)
    yield "forward squirrel", forward(paths, y)
    yield "depth first", depth_first(depths, range(len(depths)))
    yield "breadth first", breadth_first(depths)
    yield "random", at_random(depths, seed)
    schedule = next(rungs(scores_of(paths), 0.0))
    yield OURS, depth_first(depths, schedule.order.tolist())


def scores_of(paths: Paths) -> Floats:
    """What whole trees add: (N, T) for two classes, else (N, T, K)."""
    leaves = np.stack([path[-1] for path in paths], axis=1)
    return leaves[:, :, 1] - leaves[:, :, 0] if leaves.shape[2] == 2 else leaves


def visits(order: list[int], lengths: list[Codes]) -> Floats:
    """Mean nodes that rows have moved to after each step of an order: (steps,)."""
    at, moved = [0] * len(lengths), []
    for tree in order:
        moved.append(float(np.mean(lengths[tree] > at[tree])))
        at[tree] += 1
    return np.cumsum(moved)


def work_to(goal: float, right: Floats, work: Floats) -> float:
    """Work after which accuracy is the goal or more, and stays so."""
    under = np.flatnonzero(right < goal)
    return float(work[under[-1] + 1]) if len(under) else float(work[0])


def stopped_work(
    mine: Paths, fresh: Paths, lengths: list[Codes], y: Codes, goal: float
) -> float | None:
    """Fewest mean nodes visited under our schedules that are right often enough."""
    found, scores = [], scores_of(fresh)
    for schedule in rungs(scores_of(mine), 0.0):
        answers, used = schedule.evaluate(scores)
        moved = np.cumsum(np.array(lengths)[schedule.order], axis=0)
        if np.mean(answers == y) >= goal:
            found.append(float(moved[used - 1, np.arange(len(y))].mean()))
    return min(found, default=None)


def measure(
    X: Rows, y: Codes, trees: int, depth: int, forests: int = FORESTS
) -> list[dict[str, Any]]:
    """Every order's mean accuracy, and work, on one set: means over forests."""
    found: dict[str, list[Any]] = defaultdict(list)
    for seed in range(forests):
        train, fit, test = divide(X, y, seed)
        forest = grow(train, trees, seed, max_depth=depth)
        mine, _ = read_paths(forest, fit[0])
        fresh, lengths = read_paths(forest, test[0])
        for name, order in orders_of(mine, fit[1], seed):
            right = accuracies(order, fresh, test[1])
            goal, work = right[-1] - LOSS, visits(order, lengths)
            moved = np.diff(work, prepend=0.0)
            found[name].append(
                {
                    "mean accuracy": float(right.mean()),
                    "by visits": float(moved @ right / moved.sum()),
                    "whole": float(right[-1]),
                    "visits": float(work[-1]),
                    f"visits to {LOSS} less": work_to(goal, right, work),
                }
            )
        own = stopped_work(mine, fresh, lengths, test[1], goal)
        found["polydom, exits"].append({f"visits to {LOSS} less": own})
    return [{"order": name, **mean_of(points)} for name, points in found.items()]


def mean_of(points: list[dict[str, Any]]) -> dict[str, float | None]:
    """Means over forests, None where one is missing."""
    told: dict[str, float | None] = {}
    for key in points[0]:
        values = [point[key] for point in points]
        told[key] = None if None in values else float(np.mean(values))
    return told

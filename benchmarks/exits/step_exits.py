"""Forests stopped after any node step: Jump Like A Squirrel beside our schedules.

Orders are chosen on calibration rows and judged on test rows, as forests are divided in
`forest_votes`. A small forest has an optimum to compare with, a larger one has not. Our
own order is of whole trees: tree after tree as `fit_schedule` orders them. Where an
interrupt comes from outside, the mean accuracy over all steps tells; where what counts
is work, our schedule stops by itself, and is compared by nodes visited.
"""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..report import print_table
from .forest_votes import MANY, TWO, divide, grow
from .schedule_rungs import rungs
from .step_orders import (
    Paths,
    accuracies,
    at_random,
    backward,
    breadth_first,
    depth_first,
    depths_of,
    forward,
    optimal,
    read_paths,
)

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

SHAPES = {"small": (5, 5), "larger": (25, 8)}  # trees, depth
OURS = "polydom's, tree after tree"
SETS = {"adult": TWO, "higgs": TWO, "covtype20k": MANY, "mnist": MANY}
FORESTS = 3
LOSS = 0.005  # of accuracy, at which work is compared


def orders_of(paths: Paths, y: Codes, seed: int, whole: bool) -> Iterator[Any]:
    """(name, order) of all orders; the optimum only where `whole`."""
    depths = depths_of(paths)
    if whole:
        yield "optimal", optimal(paths, y)
    yield "backward squirrel", backward(paths, y)
    yield "forward squirrel", forward(paths, y)
    yield "depth first", depth_first(depths, range(len(depths)))
    yield "breadth first", breadth_first(depths)
    yield "random", at_random(depths, seed)
    _, schedule = next(rungs(scores_of(paths)))
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
    for _, schedule in rungs(scores_of(mine)):
        answers, used = schedule.evaluate(scores)
        moved = np.cumsum(np.array(lengths)[schedule.order], axis=0)
        if np.mean(answers == y) >= goal:
            found.append(float(moved[used - 1, np.arange(len(y))].mean()))
    return min(found, default=None)


def measure(name: str, folder: Path, shape: str) -> dict[str, Any]:
    """Every order's mean accuracy, and work, on one set: means over forests."""
    X, y = SETS[name][name](folder)
    trees, depth = SHAPES[shape]
    found: dict[str, list[Any]] = defaultdict(list)
    for seed in range(FORESTS):
        train, fit, test = divide(X, y, seed)
        forest = grow(train, trees, seed, max_depth=depth)
        mine, _ = read_paths(forest, fit[0])
        fresh, lengths = read_paths(forest, test[0])
        for order_name, order in orders_of(mine, fit[1], seed, shape == "small"):
            right = accuracies(order, fresh, test[1])
            goal, work = right[-1] - LOSS, visits(order, lengths)
            moved = np.diff(work, prepend=0.0)
            found[order_name].append(
                {
                    "mean_accuracy": float(right.mean()),
                    "by_visits": float(moved @ right / moved.sum()),
                    "whole": float(right[-1]),
                    "visits": float(work[-1]),
                    "visits_to_goal": work_to(goal, right, work),
                }
            )
        own = stopped_work(mine, fresh, lengths, test[1], goal)
        found["polydom, exits"].append({"visits_to_goal": own})
    return {order_name: mean_of(points) for order_name, points in found.items()}


def mean_of(points: list[dict[str, Any]]) -> dict[str, float | None]:
    """Means over forests, None where one is missing."""
    told: dict[str, float | None] = {}
    for key in points[0]:
        values = [point[key] for point in points]
        told[key] = None if None in values else float(np.mean(values))
    return told


def measure_shapes(name: str, folder: Path) -> dict[str, Any]:
    """Forests of both shapes."""
    return {shape: measure(name, folder, shape) for shape in SHAPES}


def show(name: str, result: dict[str, Any]) -> None:
    """Print one set's tables."""
    for shape, table in result.items():
        trees, depth = SHAPES[shape]
        print(f"\n{name}: {trees} trees of depth {depth}, any-time orders of steps")
        best = next(iter(table.values()))["mean_accuracy"]
        rows = []
        for order, point in table.items():
            mean = point.get("mean_accuracy")
            share = None if mean is None else mean / best
            rows.append({"order": order, **point, "of the first": share})
        print_table(rows)

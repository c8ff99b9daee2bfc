"""Slow twins of races between learners."""

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np


def daub_allocations(
    learners: Sequence[Callable[[int], float]],
    limit: int,
    granularity: int,
    ratio: int,
) -> tuple[int, list[tuple[int, int]]]:
    """DAUB's listing, line by line, for a whole ratio and no training scores."""
    scores: list[dict[int, float]] = [{} for _ in learners]
    bounds = [0.0] * len(learners)
    had = [0] * len(learners)
    log = []

    def train(i: int, n: int) -> None:
        log.append((i, n))
        scores[i][n] = learners[i](n)
        before = had[i]
        if before and scores[i][n] < scores[i][before]:
            scores[i][n] = scores[i][before] = (scores[i][n] + scores[i][before]) / 2
        had[i] = n
        points = sorted(scores[i])[-3:]
        rise = 0.0
        if len(points) > 1:
            rise = np.polyfit(points, [scores[i][p] for p in points], 1)[0]
        bounds[i] = scores[i][n] + (limit - n) * rise

    for k in range(3):
        for i in range(len(learners)):
            train(i, granularity * ratio**k)
    while max(had) < limit:
        j = bounds.index(max(bounds))
        train(j, min(ratio * had[j], limit))
    return had.index(limit), log


def knockout_on_table(
    scores: Sequence[Callable[[int], float]], rounds: Sequence[int]
) -> tuple[int, list[tuple[int, int]]]:
    """Who wins, and who trained on what, when a third of all goes on, four at least."""
    left, log = list(range(len(scores))), []
    for amount in rounds:
        log += [(i, amount) for i in left]
        better = {
            i: sum(scores[j](amount) > scores[i](amount) for j in left) for i in left
        }
        order = [i for place in range(len(left)) for i in left if better[i] == place]
        left = order[: max(4, -(-len(left) // 3))]
    return left[0], log


def successive_halving_on_table(losses: Sequence[Sequence[float]], budget: int) -> int:
    """Figure 3 of SH on a table: losses[i][k] is seen at arm i's k-th pull."""
    arms = list(range(len(losses)))
    rounds = max(math.ceil(math.log2(len(arms))), 1)
    had = 0
    for _ in range(rounds):
        had += math.floor(budget / (len(arms) * rounds))
        ranks = np.argsort([losses[i][had] for i in arms], kind="stable")
        arms = [arms[k] for k in ranks][: max(len(arms) // 2, 1)]
    return arms[0]


def coarse_grid_size(values: Sequence[float], slack: float) -> int:
    """Try every subset of classes, smallest first, against inequality (11) of OBMS."""
    for size in range(1, len(values) + 1):
        for picked in itertools.combinations(values, size):
            if all(any(v <= p <= (1 + slack) * v for p in picked) for v in values):
                return size
    raise AssertionError


def class_choices(
    risks: Sequence[Callable[[int], float]],
    rows: Sequence[int],
    penalties: Sequence[Callable[[float], float]],
    quanta: int,
    deviation: float,
) -> list[int]:
    """OBMS, Algorithm 1, term by term: the class queried in each round."""
    count = len(rows)
    chosen = list(range(count))
    for t in range(count + 1, quanta + 1):
        values = []
        for i in range(count):
            n = rows[i] * chosen.count(i)
            value = risks[i](n) - penalties[i](n)
            value = value - deviation * math.sqrt(math.log(count) / n)
            value = value + penalties[i](quanta * rows[i])
            values.append(value - deviation * math.sqrt(math.log(t) / n))
        chosen.append(values.index(min(values)))
    return chosen

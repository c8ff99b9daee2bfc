"""Slow twins of the rivals of successive halving."""

import math
from collections.abc import Sequence

import numpy as np


def successive_rejects_on_table(losses: Sequence[Sequence[float]], budget: int) -> int:
    """Audibert and Bubeck's phases on a table; the last of equals is rejected."""
    count = len(losses)
    arms = list(range(count))
    for k in range(1, count):
        spread = 0.5 + sum(1 / i for i in range(2, count + 1))
        had = math.ceil((budget - count) / (spread * (count + 1 - k)))
        worst = max(losses[i][had] for i in arms)
        arms.remove([i for i in arms if losses[i][had] == worst][-1])
    return arms[0]


def successive_elimination_on_table(
    losses: Sequence[Sequence[float]], budget: int, delta: float
) -> int:
    """Even-Dar's rule on a table, looking after 1, 2, 4 ... pulls each."""
    count, had, spent = len(losses), 1, len(losses)
    arms = list(range(count))
    while True:
        margin = 2 * math.sqrt(math.log(4 * count * had**2 / delta) / (2 * had))
        least = min(losses[i][had] for i in arms)
        arms = [i for i in arms if losses[i][had] <= least + margin]
        spent += had * len(arms)
        if len(arms) == 1 or spent > budget:
            return min(arms, key=lambda i: losses[i][had])
        had *= 2


def lucb_on_table(
    losses: Sequence[Sequence[float]], budget: int, delta: float
) -> tuple[int, list[int]]:
    """LUCB on a table; the arm named and the pulls of each."""
    count = len(losses)
    had = [1] * count
    while True:
        t = sum(had)
        now = [losses[i][had[i]] for i in range(count)]
        inner = math.log(1.25 * count * t**4 / delta)
        width = [math.sqrt(inner / (2 * n)) for n in had]
        h = now.index(min(now))
        lower = [now[i] - width[i] if i != h else math.inf for i in range(count)]
        u = lower.index(min(lower))
        if t + 2 > budget or now[h] + width[h] < lower[u]:
            return h, had
        had[h] += 1
        had[u] += 1


def lil_ucb_on_table(
    losses: Sequence[Sequence[float]], budget: int
) -> tuple[int, list[int]]:
    """lil'UCB on a table, its constants written out; the arm named, the pulls."""
    delta, beta, epsilon, variance = 0.05, 1.0, 0.01, 0.25
    count = len(losses)
    had = [1] * count
    while sum(had) < budget:
        if any(had[i] >= 1 + 9 * (sum(had) - had[i]) for i in range(count)):
            break
        lower = []
        for i, n in enumerate(had):
            inner = math.log(math.log((1 + epsilon) * n + 2) / delta)
            width = math.sqrt(2 * variance * (1 + epsilon) * inner / n)
            width *= (1 + beta) * (1 + math.sqrt(epsilon))
            lower.append(losses[i][n] - width)
        had[lower.index(min(lower))] += 1
    now = [losses[i][had[i]] for i in range(count)]
    return now.index(min(now)), had


def exp3_on_table(
    losses: Sequence[Sequence[float]], budget: int, seed: int
) -> tuple[int, list[int]]:
    """Exp3 on a table: weights multiplied as they are, one draw a pull."""
    count = len(losses)
    rng = np.random.default_rng(seed)
    share = min(1.0, math.sqrt(count * math.log(count) / ((math.e - 1) * budget)))
    weights, had = [1.0] * count, [0] * count
    for _ in range(budget):
        chances = [(1 - share) * w / sum(weights) + share / count for w in weights]
        point, i = rng.random(), 0
        while i + 1 < count and point >= sum(chances[: i + 1]):
            i += 1
        had[i] += 1
        gain = min(max(1 - losses[i][had[i]], 0.0), 1.0)
        weights[i] *= math.exp(share * gain / chances[i] / count)
    last = [losses[i][had[i]] if had[i] else math.inf for i in range(count)]
    return last.index(min(last)), had

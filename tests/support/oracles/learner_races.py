"""Slow twins of races between learners."""

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np

from polydom.models.selection.daub_seconds import cost_at as extrapolate
from polydom.models.selection.race import Allocation


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


def daub_rule_by_rule(
    score: Callable[[int, int], float],
    seconds: Callable[[int, int], float],
    learners: int,
    limit: int,
    worth: float,
    delta: float,
    growth: float,
    peer_factor: float,
    look_share: float,
) -> tuple[int, list[tuple[int, int]]]:
    """Its rules one after the other, for a chance of 0.5; who wins, and the log."""
    log: list[tuple[int, int]] = []
    had: list[list[int]] = [[] for _ in range(learners)]
    spent = looks = 0.0

    def error(i: int, n: int) -> float:
        return math.log(max(1 - score(i, n), 1e-4))

    def cost(i: int, n: int) -> float:
        lines = [Allocation("", m, m, 0.0, seconds=seconds(i, m)) for m in had[i]]
        return extrapolate(lines, n)

    def full_cost(i: int) -> float:
        n = had[i][0]
        once = seconds(i, n) * (limit / n) ** 0.7
        return cost(i, limit) if len(had[i]) > 1 else once

    def train(i: int, n: int) -> None:
        nonlocal spent
        log.append((i, n))
        had[i].append(n)
        spent += seconds(i, n)

    def asleep(value: float) -> bool:
        return value < 0.525

    def bound(i: int) -> float:
        n = had[i][-1]
        if n == limit or asleep(score(i, n)):
            return score(i, n) if n == limit else 1.0
        finished = [j for j in range(learners) if had[j][-1] == limit]
        falls = [math.inf]
        if len(finished) >= 8:
            drops = []
            for j in finished:
                known = np.interp(
                    math.log(n), np.log(had[j]), [error(j, m) for m in had[j]]
                )
                drops.append(float(known) - error(j, limit))
            falls.append(peer_factor * max(*drops, 0.0))
        if len(had[i]) > 1:
            last = had[i][-3:]
            rate = np.polyfit(np.log(last), [error(i, m) for m in last], 1)[0]
            falls.append(max(-float(rate), 0.0) * math.log(limit / n))
        return 1 - math.exp(error(i, n) - min(falls))

    def gain(i: int, best: float) -> float:
        """Over scores up to the bound, all alike: the part above, times its mean."""
        low, high = score(i, had[i][-1]), bound(i)
        if high <= best + delta:
            return 0.0
        above = (high - best - delta) / (high - low)
        if asleep(low):
            return (high - best - delta) / 4
        return above * (high - best - delta) / 2

    def step(i: int) -> int:
        n, payable = had[i][-1], growth * seconds(i, had[i][-1])
        paid = [m for m in range(n + 1, limit + 1) if cost(i, m) <= payable]
        amount = max([*paid, n + 1, math.ceil(1.5 * n)])
        return amount if amount < 0.6 * limit else limit

    for i in range(learners):
        train(i, max(math.ceil(limit / 1000), 50))
    while True:
        now = [score(i, had[i][-1]) for i in range(learners)]
        leader = now.index(max(now))
        going = [i for i in range(learners) if had[i][-1] < limit]
        prices = [worth * full_cost(i) / max(spent, 1.0) for i in range(learners)]
        rivals = [i for i in going if gain(i, max(now)) > prices[i]]
        if rivals:
            gains = [1.0 if asleep(max(now)) else gain(i, max(now)) for i in rivals]
            rates = [g / cost(i, step(i)) for g, i in zip(gains, rivals, strict=True)]
            chosen = rivals[rates.index(max(rates))]
            train(chosen, step(chosen))
        elif leader in going:
            train(leader, limit)
        else:
            costs = {str(i): cost(i, step(i)) for i in going}
            look = min(costs, key=lambda i: (costs[i], i), default="")
            if not look or costs[look] > look_share * spent - looks:
                return leader, log
            i, n = int(look), step(int(look))
            train(i, n)
            looks += seconds(i, n)


def cost_by_steps(points: Sequence[tuple[int, float]], amount: int) -> float:
    """Add up the marginal cost, example by example."""
    (n0, s0), (n1, s1), (n2, s2) = points[-3:]
    earlier = max((s1 - s0) / (n1 - n0), 0.1 * s1 / n1)
    later = max((s2 - s1) / (n2 - n1), 0.1 * s2 / n2)
    power = math.log(later / earlier) / math.log((n1 + n2) / (n0 + n1))
    power = min(max(power, -1.0), 1.0)
    steps = np.linspace(n2, amount, 20_001)
    middles = (steps[1:] + steps[:-1]) / 2
    marginal = later * (middles / ((n1 + n2) / 2)) ** power
    return float(s2 + (marginal * np.diff(steps)).sum())


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
            value = risks[i](n) - penalties[i](n) - math.sqrt(math.log(count) / n)
            value = value + penalties[i](quanta * rows[i])
            values.append(value - deviation * math.sqrt(math.log(t) / n))
        chosen.append(values.index(min(values)))
    return chosen

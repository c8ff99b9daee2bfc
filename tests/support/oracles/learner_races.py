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


def expected_gain(
    log_error: float, mean: float, deviation: float, best: float
) -> float:
    """Add up by how much a logistic log error comes below, then as much off `best`."""
    scale = deviation * math.sqrt(3) / math.pi
    levels = np.linspace(-40, 40, 8001)
    weights = np.exp(-np.abs(levels)) / (1 + np.exp(-np.abs(levels))) ** 2
    below = np.maximum(math.log(best) - (log_error - mean + scale * levels), 0)
    return best * (
        1 - math.exp(-float((below * weights).sum() * (levels[1] - levels[0])))
    )


def gain_rule_by_rule(
    score: Callable[[int, int], float],
    seconds: Callable[[int, int], float],
    families: Sequence[int],
    limit: int,
    worth: float,
    spread: float,
) -> tuple[int, list[tuple[int, int]]]:
    """Its rules one after the other; who wins, and the log. Families in any order."""
    count = len(families)
    log: list[tuple[int, int]] = []
    had: list[list[int]] = [[] for _ in range(count)]
    stands = [families.index(family) for family in families]

    def error(i: int, n: int) -> float:
        return math.log(max(1 - score(i, n), 1e-4))

    def alike(i: int) -> int:
        return i if had[i] else stands[i]

    def cost(i: int, n: int) -> float:
        amounts = had[alike(i)]
        known = [seconds(alike(i), m) for m in amounts]
        if n <= amounts[-1]:
            return float(np.interp(n, amounts, known))
        if len(amounts) == 1:
            return known[0] * float((n / amounts[0]) ** 0.5)
        slope = max((known[-1] - known[-2]) / (amounts[-1] - amounts[-2]), 0.0)
        return known[-1] + slope * (n - amounts[-1])

    def train(i: int, n: int) -> None:
        log.append((i, n))
        had[i].append(n)

    def step(i: int) -> int:
        n, last_s = had[i][-1], seconds(i, had[i][-1])
        m, s = (had[i][-2], seconds(i, had[i][-2])) if len(had[i]) > 1 else (0, 0.0)
        slope = max((last_s - s) / (n - m), 0.0)
        far = limit if len(had[i]) > 2 else min(8 * n, limit)
        amount = far if slope == 0 else n + 3 * last_s / slope
        amount = int(min(max(amount, 2 * n), far))
        return limit if far == limit and amount > limit / 2 else amount

    def fall(n: int) -> tuple[float, float] | None:
        done = [j for j in range(count) if limit in had[j] and had[j][0] <= n]
        if len(done) < min(5, math.ceil(count / 2)):
            return None
        falls = []
        for j in done:
            curve = [error(j, m) for m in had[j]]
            now = np.interp(math.log(n), np.log(had[j]), curve)
            falls.append(float(now) - error(j, limit))
        five = 5 * (spread * math.log(limit / n)) ** 2
        squares = sum((one - np.mean(falls)) ** 2 for one in falls)
        return float(np.mean(falls)), float((squares + five) / (len(falls) + 4)) ** 0.5

    def standing(i: int) -> float:
        n = had[alike(i)][-1]
        known = None if n == limit else fall(n)
        return error(alike(i), n) - (known[0] if known else 0.0)

    def halving_s() -> float:
        order, total_s = sorted(range(count), key=standing), 0.0
        rounds = next(r for r in range(1, 9) if 3**r > count)
        for r in range(rounds):
            amount = max(limit // 3 ** (rounds - 1 - r), 1)
            total_s += sum(cost(i, amount) for i in order)
            order = order[: math.ceil(len(order) / 3)]
        return total_s

    def candidates(begun: bool) -> list[tuple[float, int, int]]:
        found = []
        rest_s = 0.0 if limit in had[leader] else cost(leader, limit)
        allowed_s = max(0.9 * halving_s(), 3 * begin_s + rest_s, 1.0)
        unspent_s = allowed_s - sum(seconds(*line) for line in log) - rest_s
        for i in range(count):
            if bool(had[i]) != begun or limit in had[i] or had[alike(i)][0] == limit:
                continue
            n = max(m for m in had[alike(i)] if m < limit)
            amount = step(i) if begun else n
            known, gain = fall(n), 1e9
            if known:
                gain = expected_gain(error(alike(i), n), *known, best)
            time_s = cost(i, amount)
            if gain * begin_s > worth * cost(i, limit) and time_s <= unspent_s:
                found.append((gain / time_s, i, amount))
        return found

    for i in sorted(set(stands)):
        train(i, min(50, limit // 2))
    begin_s = sum(seconds(*line) for line in log)
    while True:
        now = [1 - score(i, had[i][-1]) if had[i] else math.inf for i in range(count)]
        leader = now.index(min(now))
        best = max(min(now), 1e-4)
        found = candidates(True)
        if not found and limit in had[leader]:
            found = candidates(False)
            if not found:
                return leader, log
        if found:
            rates = [rate for rate, _, _ in found]
            train(*found[rates.index(max(rates))][1:])
        else:
            train(leader, step(leader))


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

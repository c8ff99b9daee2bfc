"""Slow, obvious versions of the algorithms, to compare the fast ones with."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np


def expand_lattice(
    m: int, accuracies: Sequence[float], alpha: float, tolerance: float
) -> set[int]:
    """Layer by layer from both ends, compare each set with every expanded pair."""
    expanded: set[int] = set()
    for distance in range(m // 2 + 1):
        for size in (distance, m - distance):
            layer = [s for s in range(1 << m) if s.bit_count() == size]
            opened = {s for s in layer if s not in expanded}
            for lower, upper in itertools.product(expanded, repeat=2):
                if alpha * accuracies[lower] >= accuracies[upper] + tolerance:
                    opened -= {s for s in opened if lower & ~s == 0 == s & ~upper}
            expanded |= opened
    return expanded


def smallest_alpha(
    m: int, expanded: Mapping[int, float], tolerance: float
) -> float:
    """Largest ratio of worst superset to best subset over the unexpanded sets."""
    ratios = [1.0]
    for mask in set(range(1 << m)) - set(expanded):
        best = max(a for s, a in expanded.items() if s & ~mask == 0)
        worst = min(a for s, a in expanded.items() if mask & ~s == 0)
        if best < worst + tolerance:
            ratios.append((worst + tolerance) / best if best else math.inf)
    return max(ratios)


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


def cost_at(points: Sequence[tuple[int, float]], amount: int) -> float:
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

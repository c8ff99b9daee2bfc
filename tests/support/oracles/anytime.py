"""Slow twins of answers on the way to the best."""

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from polydom.indexer.index.package import Package
from tests.support.oracles.costs import feature_seconds


def seconds_to_a_better_answer(
    package: Package, accuracies: NDArray[np.float64], row: int, k: int
) -> Callable[[float], float]:
    """What it costs, feature by feature, to beat stopping after k features of `row`."""
    order = package.orders[row]

    def seconds(size: float) -> float:
        total = 0.0
        for done, cost_s in enumerate(feature_seconds(package.costs, order, size)):
            if done >= k:
                total += cost_s
                at_the_end = done + 1 == len(order)
                reached = row if at_the_end else package.fallbacks[row][done + 1]
                if accuracies[reached] > accuracies[package.fallbacks[row][k]]:
                    return float(total + package.model_s[reached])
        return np.inf

    return seconds


def expected_accuracy(
    order: Sequence[int],
    gains: Sequence[float],
    high_s: Callable[[int], float],
    steps_s: Callable[[int], dict[int, float]],
    now: tuple[int, float],
    left: float,
    share: float,
    careful: bool,
) -> float:
    """Accuracy at the deadline on the way along an order, one event after another.

    Typical times are `share` of the high ones, which are their 0.99 quantiles. Where
    care is taken, the chance that the first feature is late loses what there is now,
    and each later one is begun only if its high seconds fit into what is left then.
    """
    done, accuracy = now
    paid = {s for f in range(done.bit_length()) if done >> f & 1 for s in steps_s(f)}
    parts: list[float] = []
    expected, chance = accuracy, 1.0

    def likely(seconds: Sequence[float], within: float) -> float:
        typical = share * sum(seconds)
        excess = math.sqrt(sum(((1 - share) * part) ** 2 for part in seconds))
        if excess == 0:
            return float(typical <= within)
        spread = math.log(1 + excess / typical) / NormalDist().inv_cdf(0.99)
        return NormalDist().cdf(math.log(within / typical) / spread)

    begun = False
    for k, feature in enumerate(order):
        if not done >> feature & 1:
            fresh = {s: c for s, c in steps_s(feature).items() if s not in paid}
            paid |= set(fresh)
            own = [high_s(feature), *fresh.values()]
            high = share * sum(own) + math.sqrt(
                sum(((1 - share) * part) ** 2 for part in own)
            )
            if careful and not begun:
                if high > left:
                    break
                expected -= (1 - likely(own, left)) * now[1]
            elif careful:
                if high >= left:
                    break
                chance = min(chance, likely(parts, left - high))
            parts += own
            begun = True
        if gains[k + 1] > accuracy:
            chance = min(chance, likely(parts, left))
            if chance < (1e-3 if accuracy > now[1] else 0.5):
                break
            expected += (gains[k + 1] - accuracy) * chance
            accuracy = gains[k + 1]
    return expected

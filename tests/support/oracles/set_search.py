"""Slow twins of the search among sets of features."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray


def expand_lattice(
    m: int,
    accuracies: Sequence[float],
    alpha: float,
    tolerance: float,
    origin: float = 0.0,
) -> set[int]:
    """Layer by layer from both ends, compare each set with every expanded pair."""
    expanded: set[int] = set()
    for distance in range(m // 2 + 1):
        for size in (distance, m - distance):
            layer = [s for s in range(1 << m) if s.bit_count() == size]
            opened = {s for s in layer if s not in expanded}
            for lower, upper in itertools.product(expanded, repeat=2):
                low, high = accuracies[lower] - origin, accuracies[upper] - origin
                if alpha * low >= high + tolerance:
                    opened -= {s for s in opened if lower & ~s == 0 == s & ~upper}
            expanded |= opened
    return expanded


def count_open(
    expanded: Mapping[int, float], m: int, alpha: float, tolerance: float
) -> int:
    """How many sets are not expanded, and between no pair that says not to.

    Alpha is a factor of gains over the empty set.
    """
    gains = {mask: accuracy - expanded[0] for mask, accuracy in expanded.items()}
    pairs = [
        (lower, upper)
        for lower, upper in itertools.product(expanded, repeat=2)
        if alpha * gains[lower] >= gains[upper] + tolerance
    ]
    return sum(
        not any(lower & ~s == 0 == s & ~upper for lower, upper in pairs)
        for s in set(range(1 << m)) - set(expanded)
    )


def smallest_alpha(
    m: int, expanded: Mapping[int, float], tolerance: float, origin: float = 0.0
) -> float:
    """Largest ratio of worst superset to best subset over the unexpanded sets."""
    ratios = [1.0]
    gains = {mask: accuracy - origin for mask, accuracy in expanded.items()}
    for mask in set(range(1 << m)) - set(expanded):
        best = max(a for s, a in gains.items() if s & ~mask == 0)
        worst = min(a for s, a in gains.items() if mask & ~s == 0)
        if best < worst + tolerance:
            ratios.append((worst + tolerance) / best if best else math.inf)
    return max(ratios)


def greedy_sequence(
    m: int,
    accuracy: Callable[[int], float],
    cost: Callable[[int], float],
    price: float,
) -> tuple[int, ...]:
    """One sequence for one lambda: try every feature at every step."""
    mask, sequence = 0, list[int]()
    for _ in range(m):
        left = [f for f in range(m) if not mask >> f & 1]
        gains = {}
        for f in left:
            more = accuracy(mask | 1 << f) - accuracy(mask)
            dearer = cost(mask | 1 << f) - cost(mask)
            gains[f] = (more - price * dearer, -dearer, -f)
        chosen = max(left, key=lambda f: gains[f])
        sequence.append(chosen)
        mask |= 1 << chosen
    return tuple(sequence)


CostOf = Callable[[int], float]


def area_of_order(
    order: Sequence[int],
    masks: Sequence[int],
    accuracies: NDArray[np.float64],
    cost_of: CostOf,
) -> float:
    """Accuracy of the best answer at hand, summed over the cost of each feature."""
    area, done = 0.0, 0
    for feature in order:
        after = done | 1 << feature
        at_hand = max(
            a for m, a in zip(masks, accuracies, strict=True) if m & ~done == 0
        )
        area += (cost_of(after) - cost_of(done)) * at_hand
        done = after
    return area


def largest_chain_area(
    row: int,
    masks: Sequence[int],
    accuracies: NDArray[np.float64],
    cost_of: CostOf,
) -> float:
    """Try every chain of stored sets from the empty one up; count whole jumps only."""
    if masks[row] == 0:
        return 0.0
    best = -math.inf
    for other, mask in enumerate(masks):
        if mask != masks[row] and mask & ~masks[row] == 0:
            at_hand = max(
                a for m, a in zip(masks, accuracies, strict=True) if m & ~mask == 0
            )
            jump = (cost_of(masks[row]) - cost_of(mask)) * at_hand
            before = largest_chain_area(other, masks, accuracies, cost_of)
            best = max(best, before + jump)
    return best


def greedy_order(
    m: int,
    accuracy: Callable[[int], float],
    cost_of: Callable[[int], float],
    *,
    per_cost: bool,
) -> tuple[int, ...]:
    """Order features by what they gain, measuring all of them at every step."""
    order: list[int] = []
    done = 0
    while left := [f for f in range(m) if f not in order]:
        lines = []
        for feature in left:
            larger = done | 1 << feature
            gain = accuracy(larger) - accuracy(done)
            added = cost_of(larger) - cost_of(done)
            value = gain / (added + 1e-15) if per_cost else gain
            lines.append((value, -added, -feature, gain))
        _, _, last, gain = max(lines)
        if gain <= 0:
            break
        order.append(-last)
        done |= 1 << -last
    return tuple(order)


def open_at_total_costs(
    qualities: Mapping[int, float],
    totals: Mapping[int, float],
    least: Sequence[float],
    alpha: float,
    tolerance: float,
    origin: float,
) -> set[int]:
    """Compare each untrained set with each pair of trained sets around it."""
    opened = set(range(len(least))) - set(qualities)
    for lower, upper in itertools.product(qualities, repeat=2):
        low, high = qualities[lower] - origin, qualities[upper] - origin
        if alpha * low >= high + tolerance:
            opened -= {
                s
                for s in opened
                if lower & ~s == 0 == s & ~upper and totals[lower] <= least[s]
            }
    return opened

"""Slow twins of the fitting of early exits."""

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tests.support.oracles.early_exit import Numbers


def stop_most(
    sums: Sequence[float], positive: Sequence[bool], allowed: int, both: bool
) -> tuple[int, int, float, float]:
    """Every pair of thresholds between distinct sums: (stops, errors, lower, upper)."""
    values = sorted(set(sums))
    cuts = [(v + w) / 2 for v, w in itertools.pairwise(values)]
    lows = [-math.inf, *cuts, values[-1] + 1]
    highs = [values[0] - 1, *cuts, math.inf] if both else [math.inf]
    best = (1, 0, 0.0, 0.0)
    for lower, upper in itertools.product(lows, highs):
        low = [s < lower for s in sums]
        high = [s > upper for s in sums]
        sides = zip(low, high, positive, strict=True)
        errors = sum((a and p) or (b and not p) for a, b, p in sides)
        if lower <= upper and errors <= allowed:
            best = min(best, (-sum(low) - sum(high), errors, lower, upper))
    stops, errors, lower, upper = best
    return -stops, errors, lower, upper


def quit_when_you_can(
    scores: NDArray[np.float64],
    threshold: float,
    allowed: int,
    costs: Numbers,
    order: Sequence[int] | None,
    both: bool,
    features: Mapping[int, Mapping[str, float]] | None = None,
) -> tuple[list[int], list[float], list[float]]:
    """QWYC, Algorithm 1, or Algorithm 2 where an order is given.

    `features` names and prices what each model reads, which is paid for once.
    """
    positive = scores.sum(axis=1) >= threshold
    models = len(costs)
    active = list(range(len(scores)))
    sums = [0.0] * len(scores)
    left = list(range(models)) if order is None else list(order)
    chosen: list[int] = []
    lower, upper = [-math.inf] * models, [math.inf] * models
    paid: set[str] = set()
    while len(left) > 1 and active:
        tries = {}
        for k in left if order is None else left[:1]:
            reads = features[k] if features else {}
            cost = costs[k] + sum(c for name, c in reads.items() if name not in paid)
            tried = [sums[i] + scores[i, k] for i in active]
            found = stop_most(tried, [bool(positive[i]) for i in active], allowed, both)
            ratio = cost * len(active) / found[0] if found[0] else math.inf
            tries[k] = (ratio, found)
        k = min(tries, key=lambda k: tries[k][0])
        r = len(chosen)
        _, (_, errors, lower[r], upper[r]) = tries[k]
        allowed -= errors
        chosen.append(k)
        paid.update(features[k] if features else ())
        left.remove(k)
        for i in active:
            sums[i] += scores[i, k]
        active = [i for i in active if lower[r] <= sums[i] <= upper[r]]
    return chosen + left, lower, upper


def impurity_after(
    sums: Numbers,
    added: Numbers,
    final: Numbers,
    border: float,
    least: float,
    most: float,
    bins: int,
) -> float:
    """Sum n sqrt(q (1 - q)) over equal bins of the new sums.

    q is the share of rows that end at the border or above, among those of the bin and
    300 more: as many of these as normal numbers do, which begin in the bin's middle and
    gain what the rows in this bin and the two beside it do.
    """
    width = (most - least) / bins
    ends: dict[int, list[float]] = {b: [] for b in range(bins)}
    gains: dict[int, list[float]] = {b: [] for b in range(-1, bins + 1)}
    for s, f, end in zip(sums, added, final, strict=True):
        place = (s + f - least) * (bins / (most - least)) if most > least else 0.0
        place = int(min(max(place, 0), bins - 1))
        ends[place].append(end)
        gains[place].append(end - s - f)
    total = 0.0
    for b, here in ends.items():
        if not here:
            continue
        near = gains[b - 1] + gains[b] + gains[b + 1]
        end = least + (b + 0.5) * width + statistics.fmean(near)
        deviation = statistics.pstdev(near)
        if deviation > 0:
            likely = statistics.NormalDist(end, deviation).cdf(border)
        else:
            likely = float(end < border)
        above = sum(value >= border for value in here)
        q = (above + 300 * (1 - likely)) / (len(here) + 300)
        total += len(here) * math.sqrt(max(q * (1 - q), 0.0))
    return total


def margin_impurity(
    sums: NDArray[np.float64], chosen: Sequence[int], bins: int
) -> float:
    """Impurity as `measure_margin_impurity` has it, a row and a bin at a time."""
    margins = [sorted(row)[-1] - sorted(row)[-2] for row in sums.tolist()]
    leaders = [row.index(max(row)) for row in sums.tolist()]
    scale = bins / max(margins) if max(margins) > 0 else 0.0
    tally: dict[int, list[bool]] = {}
    for value, leader, final in zip(margins, leaders, chosen, strict=True):
        place = int(min(value * scale, bins - 1))
        tally.setdefault(place, []).append(leader != final)
    return sum(
        len(wrong) * math.sqrt((sum(wrong) + 0.5) / (len(wrong) + 1))
        for wrong in tally.values()
    )


def cheapest_stop(
    scores: NDArray[np.float64],
    threshold: float,
    costs: Numbers,
    price: float,
    both: bool,
) -> float:
    """Least whole cost of two models in their own order, by trying every pair."""
    positive = scores.sum(axis=1) >= threshold
    first = scores[:, 0]
    values = sorted(set(first))
    cuts = [(v + w) / 2 for v, w in itertools.pairwise(values)]
    lows = [-math.inf, *cuts, values[-1] + 1]
    highs = [values[0] - 1, *cuts, math.inf] if both else [math.inf]
    best = math.inf
    for lower, upper in itertools.product(lows, highs):
        if lower <= upper:
            low, high = first < lower, first > upper
            wrong = int((low & positive).sum() + (high & ~positive).sum())
            onward = int((~low & ~high).sum())
            best = min(best, len(first) * costs[0] + onward * costs[1] + price * wrong)
    return best


def chance_of_so_few(sizes: Sequence[int], changed: int, alpha: float) -> float:
    """Chance that at most so many rows change, at most, where a share alpha does."""
    count, rows, largest = len(sizes), sum(sizes), max(sizes)
    chance = alpha * rows / (count * largest)
    masses = [
        math.comb(count, k) * chance**k * (1 - chance) ** (count - k)
        for k in range(count + 1)
    ]
    if largest == 1:
        return sum(masses[: changed + 1])
    weight = changed / largest
    ratios = [
        sum(mass * max(a - k, 0) for k, mass in enumerate(masses)) / (a - weight)
        for a in range(math.floor(weight) + 1, count + 2)
    ]
    return min(1.0, *ratios)


def level_of(
    values: Numbers, final: Numbers, border: float, at: float, near: int
) -> float:
    """128 and 8 times the log odds of ending at the border, by the nearest in rank.

    Each neighbour's gain is blurred by 0.4 standard deviations of theirs.
    """
    lower = sum(v < at for v in values)
    first = max(0, min(lower - near // 2, len(values) - near))
    gains = [final[i] - values[i] for i in range(first, first + near)]
    spread = 0.4 * statistics.pstdev(gains)
    above = below = 0.0
    for gain in gains:
        if spread > 0:
            above += math.erfc((border - at - gain) / spread / math.sqrt(2))
            below += math.erfc((at + gain - border) / spread / math.sqrt(2))
        else:
            above += at + gain >= border
            below += at + gain < border
    odds = math.inf if not below else math.log(above / below) if above else -math.inf
    return min(max(128 + 8 * odds, 1.0), 254.0)


def changed_by_class(
    answers: Sequence[int], whole: Sequence[int], classes: int
) -> list[int]:
    """Numbers of rows of each whole decision that get another answer."""
    counts = [0] * classes
    for answer, decision in zip(answers, whole, strict=True):
        counts[decision] += answer != decision
    return counts


def last_kept(
    outcomes: Sequence[Sequence[int]],
    rows: Sequence[int],
    alphas: Sequence[float],
    confidences: Sequence[float],
) -> int | None:
    """Place of the last of a ladder's schedules that passes with all before it.

    `outcomes` has each schedule's changed rows by class. A class passes if so few
    changed rows are unlikely where more than its alpha change; a class of alpha 0
    passes if none changes.
    """
    kept = None
    for place, changed in enumerate(outcomes):
        for wrong, count, alpha, confidence in zip(
            changed, rows, alphas, confidences, strict=True
        ):
            likely = sum(
                math.comb(count, j) * alpha**j * (1 - alpha) ** (count - j)
                for j in range(wrong + 1)
            )
            tested = alpha > 0 and likely <= 1 - confidence
            if not tested and wrong:
                return kept
        kept = place
    return kept

"""Slow, obvious versions of the algorithms, to compare the fast ones with."""

import heapq
import itertools
import math
import statistics
import string
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cmp_to_key
from statistics import NormalDist, median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.features.feature import Feature, Step
from polydom.indexer.index.package import Package
from polydom.indexer.skyline.kernels.crossings import compare
from polydom.indexer.skyline.skylines import Skylines
from polydom.models.selection.daub_seconds import cost_at as extrapolate
from polydom.models.selection.race import Allocation
from polydom.models.trees.nodes import Tree


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


def count_open(
    expanded: Mapping[int, float], m: int, alpha: float, tolerance: float
) -> int:
    """How many sets are not expanded, and between no pair that says not to."""
    pairs = [
        (lower, upper)
        for lower, upper in itertools.product(expanded, repeat=2)
        if alpha * expanded[lower] >= expanded[upper] + tolerance
    ]
    return sum(
        not any(lower & ~s == 0 == s & ~upper for lower, upper in pairs)
        for s in set(range(1 << m)) - set(expanded)
    )


def smallest_alpha(m: int, expanded: Mapping[int, float], tolerance: float) -> float:
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


def daub_by_seconds(
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


def tree_value(tree: Tree, row: Sequence[float]) -> float:
    """Walk one tree from its root, one plain sentence of its rules at a time."""
    node = 0
    while tree.column[node] >= 0:
        value, flags = row[tree.column[node]], int(tree.flags[node])
        if math.isnan(value) and flags & 2:
            value = 0.0
        if math.isnan(value):
            left = bool(flags & 1)
        elif node in tree.sets:
            allowed = -1 < value < 2**31 and not (flags & 16 and value % 1)
            allowed = allowed and not (flags & 32 and value < 0)
            found = allowed and int(value) in tree.sets[node]
            left = found == bool(flags & 8)
        elif flags & 4 and abs(value) <= 1e-35:
            left = bool(flags & 1)
        else:
            left = value <= tree.threshold[node]
        node = int(tree.left[node] if left else tree.right[node])
    return float(tree.values[node, 0])


def best_accuracy(
    coefficients: NDArray[np.float64],
    accuracies: Sequence[float],
    size: float,
    budget: float,
) -> float | None:
    """Try every candidate; the highest accuracy that is affordable, None if none is."""
    affordable = [
        accuracy
        for polynomial, accuracy in zip(coefficients, accuracies, strict=True)
        if np.polynomial.polynomial.polyval(size, polynomial) <= budget
    ]
    return max(affordable, default=None)


def successive_halving(losses: Sequence[Sequence[float]], budget: int) -> int:
    """Figure 3 of SH on a table: losses[i][k] is seen at arm i's k-th pull."""
    arms = list(range(len(losses)))
    rounds = max(math.ceil(math.log2(len(arms))), 1)
    had = 0
    for _ in range(rounds):
        had += math.floor(budget / (len(arms) * rounds))
        ranks = np.argsort([losses[i][had] for i in arms], kind="stable")
        arms = [arms[k] for k in ranks][: max(len(arms) // 2, 1)]
    return arms[0]


def successive_rejects(losses: Sequence[Sequence[float]], budget: int) -> int:
    """Audibert and Bubeck's phases on a table; the last of equals is rejected."""
    count = len(losses)
    arms = list(range(count))
    for k in range(1, count):
        spread = 0.5 + sum(1 / i for i in range(2, count + 1))
        had = math.ceil((budget - count) / (spread * (count + 1 - k)))
        worst = max(losses[i][had] for i in arms)
        arms.remove([i for i in arms if losses[i][had] == worst][-1])
    return arms[0]


def successive_elimination(
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


def lucb(
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


def lil_ucb(losses: Sequence[Sequence[float]], budget: int) -> tuple[int, list[int]]:
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


def exp3(
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


def seconds_to_a_better_answer(
    package: Package, accuracies: NDArray[np.float64], row: int, k: int
) -> Callable[[float], float]:
    """What it costs, feature by feature, to beat stopping after k features of `row`."""
    order = package.orders[row]

    def seconds(size: float) -> float:
        total = 0.0
        for done, cost_s in enumerate(package.costs.feature_s(order, size)):
            if done >= k:
                total += cost_s
                at_the_end = done + 1 == len(order)
                reached = row if at_the_end else package.fallbacks[row][done + 1]
                if accuracies[reached] > accuracies[package.fallbacks[row][k]]:
                    return float(total + package.model_s[reached])
        return np.inf

    return seconds


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


def horner(coefficients: Sequence[float], n: float) -> float:
    """Cost in float64, in the order of arithmetic the look-up uses."""
    cost = 0.0
    for coefficient in reversed(coefficients):
        cost = cost * n + coefficient
    return cost


def exact_cost(coefficients: Sequence[float], n: float) -> Fraction:
    """Cost without rounding."""
    cost = Fraction(0)
    for coefficient in reversed(coefficients):
        cost = cost * Fraction(n) + Fraction(coefficient)
    return cost


def exact_skyline(
    coefficients: Sequence[Sequence[float]], accuracies: Sequence[float], n: float
) -> list[int]:
    """Sort by cost at n, then keep whoever is more accurate than all before."""
    rows = sorted(
        range(len(accuracies)),
        key=lambda row: (exact_cost(coefficients[row], n), -accuracies[row], row),
    )
    skyline: list[int] = []
    for row in rows:
        if not skyline or accuracies[row] > accuracies[skyline[-1]]:
            skyline.append(row)
    return skyline


class CostOrders:
    """Order by cost of each pair of curves, computed once, when first asked for."""

    def __init__(
        self, coefficients: NDArray[np.float64], sizes: tuple[float, float]
    ) -> None:
        self.coefficients = np.ascontiguousarray(coefficients)
        self.sizes = sizes
        self.runs: dict[tuple[int, int], tuple[list[float], list[int]]] = {}
        width = coefficients.shape[1]
        self._room = np.empty(width), np.empty(width, np.int64)

    def of(self, first: int, second: int) -> tuple[list[float], list[int]]:
        """Sizes from which on `first` costs less (-1) or more (1) than `second`."""
        if (first, second) not in self.runs:
            curves = self.coefficients[first], self.coefficients[second]
            count = compare(*curves, *self.sizes, *self._room)
            starts, signs = (room[:count].tolist() for room in self._room)
            self.runs[first, second] = starts, signs
            self.runs[second, first] = starts, [-sign for sign in signs]
        return self.runs[first, second]


class SizeSweep:
    """The curves in order of cost just above one size, which only grows.

    Curves that are equal throughout stay in order of accuracy, then of row.
    """

    def __init__(
        self,
        coefficients: NDArray[np.float64],
        accuracies: NDArray[np.float64],
        sizes: tuple[float, float],
    ) -> None:
        self.orders = CostOrders(coefficients, sizes)
        self.accuracies = accuracies.tolist()
        self.order = sorted(range(len(accuracies)), key=cmp_to_key(self._first_sign))
        self.position = {row: at for at, row in enumerate(self.order)}
        self.queue: list[tuple[float, int, int]] = []
        for lower, upper in zip(self.order, self.order[1:], strict=False):
            self._queue_crossing(sizes[0], lower, upper)

    def _first_sign(self, first: int, second: int) -> int:
        signs = self.orders.of(first, second)[1]
        if signs:
            return signs[0]
        if self.accuracies[first] == self.accuracies[second]:
            return first - second
        return 1 if self.accuracies[first] < self.accuracies[second] else -1

    def _queue_crossing(self, size: float, lower: int, upper: int) -> None:
        """Note the first size, from this one on, at which `lower` costs more."""
        starts, signs = self.orders.of(lower, upper)
        for k in range(len(starts)):
            ends = starts[k + 1] if k + 1 < len(starts) else np.inf
            if signs[k] > 0 and ends > size:
                heapq.heappush(self.queue, (max(starts[k], size), lower, upper))
                return

    def swaps(self) -> Iterator[tuple[float, int, int]]:
        """Go through all crossings of neighbours: size, riser, faller.

        When it is given, the two have changed places.
        """
        while self.queue:
            size, lower, upper = heapq.heappop(self.queue)
            at = self.position[lower]
            if self.position[upper] != at + 1:
                continue  # no longer neighbours; queued again when they are
            self.order[at : at + 2] = upper, lower
            self.position[upper], self.position[lower] = at, at + 1
            yield size, lower, upper
            self._queue_crossing(size, upper, lower)
            if at > 0:
                self._queue_crossing(size, self.order[at - 1], upper)
            if at + 2 < len(self.order):
                self._queue_crossing(size, lower, self.order[at + 2])

    def best_below(self, at: int) -> float:
        """Best accuracy among the curves that cost less than the one at a position."""
        return max((self.accuracies[row] for row in self.order[:at]), default=-1.0)


def skylines_by_sweep(
    coefficients: NDArray[np.float64],
    accuracies: NDArray[np.float64],
    sizes: tuple[float, float],
) -> Skylines:
    """Find the skylines of all sizes by visiting the crossings of neighbours.

    ICSP, algorithm 3, with theorem 3.13 telling the interesting crossings. Where
    several curves meet they change places pair by pair, all at one size, and only
    what is left of it afterwards counts. Curves of equal accuracy, which the theorem
    leaves out, follow from the same two scenarios: the cheaper one is on the skyline.
    """
    sweep = SizeSweep(coefficients, accuracies, sizes)
    since: dict[int, float] = {}  # on the skyline now, from which size on
    for at, row in enumerate(sweep.order):
        if sweep.accuracies[row] > sweep.best_below(at):
            since[row] = sizes[0]
    left: dict[int, float] = {}  # left at the present size, had come at
    stays: list[tuple[int, float, float]] = []
    present = sizes[0]
    for size, riser, faller in sweep.swaps():
        if size > present:
            stays += ((row, start, present) for row, start in left.items())
            left.clear()
            present = size
        entering, leaving = change_of_skyline(sweep, riser, faller, since)
        if leaving is not None:
            start = since.pop(leaving)
            if start < size:
                left[leaving] = start
        if entering is not None:
            since[entering] = left.pop(entering, size)
    stays += ((row, start, present) for row, start in left.items())
    stays += ((row, start, np.inf) for row, start in since.items())
    rows, starts, ends = zip(*sorted(stays), strict=True)
    return Skylines(np.array(rows), np.array(starts), np.array(ends), sizes)


def change_of_skyline(
    sweep: SizeSweep, riser: int, faller: int, since: dict[int, float]
) -> tuple[int | None, int | None]:
    """Who enters and who leaves the skyline when `faller` comes to cost less.

    Theorem 3.13, curve 1 being the faller and curve 2 the riser.
    """
    accuracies = sweep.accuracies
    if riser not in since:
        # Scenario 3: neither was on it, or the faller was and stays.
        return None, None
    leaving = riser if accuracies[faller] >= accuracies[riser] else None
    if faller in since:  # scenario 1
        return None, leaving
    # Scenario 2; that of the theorem's first case, which cannot occur where
    # accuracies differ, is the faller taking the place of an equally accurate riser.
    enters = sweep.best_below(sweep.position[faller]) < accuracies[faller]
    return faller if enters else None, leaving


def exact_crossings(
    coefficients: Sequence[Sequence[float]], sizes: tuple[float, float]
) -> set[float]:
    """Sizes in the range around which some pair of curves changes its order.

    Found by numpy's eigenvalues, so only nearly right: for choosing where to look.
    """
    crossings: set[float] = set()
    for first, second in itertools.combinations(coefficients, 2):
        difference = np.subtract(first, second)
        if np.any(difference[1:]):
            roots = np.polynomial.Polynomial(difference).trim().roots()
            crossings |= {float(root.real) for root in np.atleast_1d(roots)}
    return {n for n in crossings if sizes[0] <= n <= sizes[1]}


def dominates(
    first: Sequence[float], second: Sequence[float], sizes: tuple[float, float]
) -> bool:
    """Whether `first` never costs more: compare between and at all crossings."""
    ends = sorted({*sizes, *exact_crossings([first, second], sizes)})
    middles = [(a + b) / 2 for a, b in itertools.pairwise(ends)]
    return all(
        exact_cost(first, n) <= exact_cost(second, n) for n in [*middles, *sizes]
    )


def prune(
    coefficients: Sequence[Sequence[float]],
    accuracies: Sequence[float],
    sizes: tuple[float, float],
) -> list[int]:
    """Compare every candidate with every other."""
    rows = range(len(accuracies))

    def drops(i: int, j: int) -> bool:
        if accuracies[i] < accuracies[j]:
            return False
        if not dominates(coefficients[i], coefficients[j], sizes):
            return False
        alike = accuracies[i] == accuracies[j] and dominates(
            coefficients[j], coefficients[i], sizes
        )
        return i < j or not alike

    return [j for j in rows if not any(drops(i, j) for i in rows if i != j)]


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


def early_decision(
    scores: Sequence[float],
    order: Sequence[int],
    lower: Sequence[float],
    upper: Sequence[float],
    threshold: float,
) -> tuple[bool, int]:
    """Add base scores one by one; the decision, and how many it took."""
    total = 0.0
    for t, base in enumerate(order):
        total += scores[base]
        if total < lower[t]:
            return False, t + 1
        if total > upper[t]:
            return True, t + 1
    return add_up(scores) > threshold, len(order)


def add_up(scores: Sequence[float] | NDArray[np.float64], start: float = 0.0) -> float:
    """One after the other, as they stand; each addition rounds."""
    total = start
    for score in scores:
        total += float(score)
    return total


Numbers = Sequence[float] | NDArray[np.float64]


def walk_early(
    scores: NDArray[np.float64],
    order: Sequence[int],
    lower: Numbers,
    upper: Numbers,
    threshold: float,
) -> tuple[list[bool], list[int]]:
    """QWYC, section 3: add up in order, stop outside the thresholds."""
    decisions, used = [], []
    for row in scores:
        total = 0.0
        for r, model in enumerate(order):
            total += row[model]
            if total < lower[r] or total > upper[r]:
                decisions.append(bool(total > upper[r]))
                break
        else:
            decisions.append(bool(add_up(row) >= threshold))
        used.append(r + 1)
    return decisions, used


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
    positive: NDArray[np.bool_],
    least: float,
    most: float,
    bins: int,
) -> float:
    """Sum n sqrt(q (1 - q)) over equal bins of the new sums; empty bins count too."""
    tally: dict[int, list[int]] = {b: [0, 0] for b in range(bins)}
    for s, f, p in zip(sums, added, positive, strict=True):
        place = (s + f - least) * (bins / (most - least)) if most > least else 0.0
        tally[int(min(max(place, 0), bins - 1))][int(p)] += 1
    total = 0.0
    for negatives, positives in tally.values():
        n = negatives + positives
        q = (positives + 0.5) / (n + 1)
        total += n * math.sqrt(q * (1 - q))
    return total


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


def feature_value(feature: Feature, payload: object) -> list[float]:
    """Compute a feature by running its needs again each time, as float32."""

    def run(node: Feature | Step) -> Any:
        return node.function(*(map(run, node.needs) if node.needs else [payload]))

    return [float(np.float32(value)) for value in run(feature)]


def fan_early(
    fitted: NDArray[np.float64],
    scores: NDArray[np.float64],
    order: Sequence[int],
    width: float,
    spreads: float,
    threshold: float,
) -> tuple[list[bool], list[int]]:
    """Fan et al. (2002) as QWYC's appendix C tells it, with a hash map per position."""
    full = fitted.sum(axis=1)
    tables = []
    for r in range(len(order)):
        table: dict[int, list[float]] = {}
        for row, f in zip(fitted, full, strict=True):
            g = sum(row[k] for k in order[: r + 1])
            table.setdefault(round(g / width), []).append(f - g)
        tables.append(table)
    decisions, used = [], []
    for row in scores:
        g = 0.0
        for r, model in enumerate(order):
            g += row[model]
            rest = tables[r].get(round(g / width))
            if rest is None:
                continue
            mean = sum(rest) / len(rest)
            sigma = math.sqrt(sum((x - mean) ** 2 for x in rest) / len(rest))
            middle = threshold - mean
            if g < middle - spreads * sigma or g > middle + spreads * sigma:
                decisions.append(bool(g > middle + spreads * sigma))
                break
        else:
            decisions.append(bool(add_up(row) >= threshold))
        used.append(r + 1)
    return decisions, used


def pinball_loss(errors: NDArray[np.float64], quantile: float) -> float:
    """Sum of q e where a time lies above the curve, (1 - q) |e| where below."""
    above, below = errors[errors > 0], errors[errors <= 0]
    return quantile * float(above.sum()) - (1 - quantile) * float(below.sum())


def least_pinball_loss(
    sizes: NDArray[np.float64],
    seconds: NDArray[np.float64],
    scale: NDArray[np.float64],
    quantile: float,
    degree: int,
) -> float:
    """Least loss of a polynomial without negative coefficients, by trying all corners.

    Some corner is best: as many times hit exactly as there are coefficients not zero.
    """
    design = sizes[:, np.newaxis] ** np.arange(degree + 1) / scale[:, np.newaxis]
    times = seconds / scale
    best = pinball_loss(times, quantile)
    for count in range(1, degree + 2):
        for powers in itertools.combinations(range(degree + 1), count):
            for hit in itertools.combinations(range(len(sizes)), count):
                part = design[np.ix_(hit, powers)]
                if np.linalg.matrix_rank(part) == count:
                    found = np.linalg.solve(part, times[list(hit)])
                    if (found >= 0).all():
                        errors = times - design[:, powers] @ found
                        best = min(best, pinball_loss(errors, quantile))
    return best


def cost_of_set(
    features: Sequence[Sequence[float]],
    steps: Sequence[Sequence[float]],
    needs: Sequence[Sequence[int]],
    overhead: Sequence[float],
    chosen: Sequence[int],
) -> list[float]:
    """Add up the overhead, a set's features, and every step that one of them needs."""
    total = list(overhead)
    used = sorted({step for feature in chosen for step in needs[feature]})
    for row in [features[k] for k in sorted(chosen)] + [steps[k] for k in used]:
        total = [a + b for a, b in zip(total, row, strict=True)]
    return total


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


def means_of_bands(values: Sequence[float], count: int) -> list[float]:
    """Mean of each of `count` equal bands, every value cut into `count` parts."""
    parts = [value for value in values for _ in range(count)]
    width = len(values)
    return [sum(parts[k * width : (k + 1) * width]) / width for k in range(count)]


def contrast_of_pairs(levels: NDArray[np.uint8], distance: int) -> float:
    """Mean squared difference of pixels `distance` apart in a row."""
    pairs = [
        (int(row[x]) - int(row[x + distance])) ** 2
        for row in levels
        for x in range(len(row) - distance)
    ]
    return sum(pairs) / len(pairs)


def likeness_of_blocks(values: NDArray[np.float32], side: int) -> list[list[float]]:
    """Correlations of square blocks in 16 ranges: of all pairs, of nearest pairs."""
    height, width = (length // side for length in values.shape)
    blocks = []
    for y, x in itertools.product(range(height), range(width)):
        block = values[y * side : (y + 1) * side, x * side : (x + 1) * side]
        centred = block.astype(np.float64).ravel() - block.mean()
        blocks.append(centred / max(float(np.linalg.norm(centred)), 0.05))
    pairs, nearest = [0.0] * 16, [0.0] * 16
    for i, block in enumerate(blocks):
        alike = [
            -1.0 if i == j else float(block @ other) for j, other in enumerate(blocks)
        ]
        for value in alike:
            pairs[min(max(int((value + 1) * 8), 0), 15)] += 1 / len(blocks) ** 2
        nearest[min(max(int((max(alike) + 1) * 8), 0), 15)] += 1 / len(blocks)
    return [pairs, nearest]


def bag(hashes: Sequence[int], bits: int) -> list[float]:
    """Logarithms of how many hashes share their high bits, scaled to length 1."""
    weights = [0.0] * (1 << bits)
    for value in hashes:
        weights[value >> (32 - bits)] += 1
    weights = [math.log(1 + weight) for weight in weights]
    length = max(math.sqrt(sum(weight**2 for weight in weights)), 1.0)
    return [weight / length for weight in weights]


def mixed(value: int) -> int:
    """Two rounds of shift and multiply on 32 bits."""
    value = ((value ^ value >> 15) * 0x85EBCA6B) % 2**32
    return ((value ^ value >> 13) * 0xC2B2AE35) % 2**32


def hashes_of_runs(data: bytes, length: int) -> list[int]:
    """Hash every run of `length` bytes on its own."""
    found = []
    for start in range(len(data) - length + 1):
        value = 0
        for byte in data[start : start + length]:
            value = (value * 0x01000193 + byte) % 2**32
        found.append(mixed(value))
    return found


def casing(text: str) -> list[float]:
    """How ASCII letters are capitalised, letter by letter."""
    upper = [c in string.ascii_uppercase for c in text]
    letter = [c in string.ascii_letters for c in text]
    starts = [k for k in range(len(text)) if letter[k] and not (k and letter[k - 1])]
    inner = [k for k in range(1, len(text)) if upper[k] and letter[k - 1]]
    capital = [k for k in starts if upper[k]]
    second = [k for k in capital if k + 1 < len(text) and upper[k + 1]]
    letters, words = max(sum(letter), 1), max(len(starts), 1)
    return [
        sum(upper) / letters,
        len(capital) / words,
        len(second) / words,
        sum(not upper[k - 1] for k in inner) / letters,
        sum(letter) / (len(text.encode("utf-8", "surrogatepass")) + 2),
    ]


def type_token(words: Sequence[bytes]) -> list[float]:
    """How rich a vocabulary is, word by word."""
    total = max(len(words), 1)
    counts = sorted((words.count(word) for word in set(words)), reverse=True)
    mean = sum(map(len, words)) / total
    return [
        math.log(1 + len(words)),
        len(counts) / total,
        len(counts) / math.sqrt(total),
        counts.count(1) / total,
        sum(counts[:1]) / total,
        sum(counts[:5]) / total,
        -sum(count / total * math.log2(count / total) for count in counts),
        mean,
        math.sqrt(sum((len(word) - mean) ** 2 for word in words) / total),
        sum(len(word) > 6 for word in words) / total,
    ]


def knapsack(menus: Sequence[Sequence[tuple[int, float]]], budget: int) -> float:
    """Best sum of accuracies with one (whole cost, accuracy) of each menu (DP)."""
    best = {0: 0.0}
    for menu in menus:
        grown: dict[int, float] = {}
        for spent, value in best.items():
            for cost, accuracy in menu:
                total = spent + cost
                if total <= budget:
                    grown[total] = max(grown.get(total, 0.0), value + accuracy)
        best = grown
    return max(best.values(), default=-math.inf)


def concave_hull(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Points that some price per unit of cost makes the one best choice, or the ends.

    Whole numbers only: a point is left out if it is not above the line through some
    cheaper and some dearer one, or if one at most as dear is at least as good.
    """
    kept = []
    for x, y in sorted(set(points)):
        others = [p for p in set(points) if p != (x, y)]
        if any(u <= x and v >= y for u, v in others):
            continue
        if not any(
            (y - v) * (t - u) <= (w - v) * (x - u)
            for u, v in others
            for t, w in others
            if u < x < t
        ):
            kept.append((x, y))
    return kept


def drift(
    plans: Sequence[tuple[bool, float]],
    now_s: float,
    quantile: float,
    step: float,
    largest: float,
) -> float:
    """Multiply by e to the step's share after each plan, and keep within the bounds.

    What was learned holds for half a second after the last that exceeded, then less by
    and by until it is nothing at one second; of that an eighth is believed with each
    plan in time.
    """
    learned, last_s = 1.0, -math.inf

    def held(at_s: float) -> float:
        share = float(np.interp(at_s - last_s, [0.5, 1.0], [1.0, 0.0]))
        return math.exp(share * math.log(learned))

    for exceeded, at_s in plans:
        if exceeded:
            learned, last_s = learned * math.exp(step * quantile), at_s
        else:
            doubted = (learned / held(at_s)) ** 0.125
            learned /= max(math.exp(step * (1 - quantile)), doubted)
        learned = min(max(learned, 1.0), largest)
    return held(now_s)


def send_time(
    measured_s: Sequence[float],
    timed: Sequence[tuple[float, float]],
    now_s: float,
    chances: Sequence[float],
) -> tuple[float, list[float]]:
    """What is usual, and the quantiles of the last second's times, at most 200.

    The first ones were measured at 50 s. Where they are fewer than 20, as many others
    take twice what is usual: 5 % more or less after each that took longer or not.
    """
    usual = statistics.median(measured_s) if measured_s else 1e-4
    all_timed = [*((50.0, seconds) for seconds in measured_s), *timed]
    for k, (_, seconds) in enumerate(timed):
        if k == 0 and not measured_s:
            usual = seconds
        else:
            usual = usual * 1.05 if seconds > usual else usual / 1.05
    latest = [seconds for at_s, seconds in all_timed[-200:] if at_s >= now_s - 1.0]
    latest.sort()
    few = len(latest) < 20
    latest = sorted(latest + [2 * usual] * (20 - len(latest)))
    quantiles = [
        next(s for s in latest if sum(t <= s for t in latest) >= chance * len(latest))
        for chance in chances
    ]
    assert not few or quantiles[0] == latest[-1]
    return usual, quantiles


def right_in_time(
    levels: Sequence[tuple[float, float]], worths: Sequence[float]
) -> float:
    """The largest chance of a right answer in time, of all that may be kept."""
    return max(
        chance * worth for (chance, _), worth in zip(levels, worths, strict=True)
    )


def queue_order(
    dues_s: Sequence[float], late_s: Sequence[float], share: float
) -> list[tuple[str, int]]:
    """Order of work that all waits at 0 s: by deadline; late work has its own.

    That is when a share of the time would have done it and all late work before it.
    """
    order = [
        (sum(late_s[: number + 1]) / share, 0, ("late", number))
        for number in range(len(late_s))
    ]
    order += [(due_s, 1, ("timely", number)) for number, due_s in enumerate(dues_s)]
    return [name for *_, name in sorted(order)]


def exact_pair_cost(coefficients: Sequence[float], a: float, b: float) -> Fraction:
    """Cost in two numbers without rounding, term by term: 1, a, b, a^2, ab, b^2 ..."""
    cost, degree, left = Fraction(0), 0, list(coefficients)
    while left:
        for j in range(degree + 1):
            term = Fraction(a) ** (degree - j) * Fraction(b) ** j
            cost += Fraction(left.pop(0)) * term
        degree += 1
    return cost


def most_accurate_pairs(
    coefficients: Sequence[Sequence[float]],
    accuracies: Sequence[float],
    size: tuple[float, float],
    budget: Fraction,
) -> float:
    """Try every candidate without rounding; the best accuracy that fits, else -1."""
    return max(
        (
            accuracy
            for polynomial, accuracy in zip(coefficients, accuracies, strict=True)
            if exact_pair_cost(polynomial, *size) <= budget
        ),
        default=-1.0,
    )


def pair_skyline(
    coefficients: Sequence[Sequence[float]],
    accuracies: Sequence[float],
    size: tuple[float, float],
) -> list[float]:
    """Accuracies of the skyline at one size: sort by exact cost, keep who excels."""
    costs = [exact_pair_cost(polynomial, *size) for polynomial in coefficients]
    skyline: list[float] = []
    for row in sorted(range(len(costs)), key=lambda r: (costs[r], -accuracies[r])):
        if not skyline or accuracies[row] > skyline[-1]:
            skyline.append(accuracies[row])
    return skyline


def upper_median(values: Sequence[float], confidence: float) -> float:
    """Largest of all, or the first in order with that few chances to be too low."""
    count = len(values)
    for rank in range(1, count):
        heads = [math.comb(count, k) for k in range(rank, count + 1)]
        if Fraction(sum(heads), 2**count) <= 1 - Fraction(confidence):
            return sorted(values)[rank - 1]
    return max(values)


def walk_leads(
    scores: NDArray[np.float64], order: Sequence[int], margin: Numbers, bias: Numbers
) -> tuple[int, int]:
    """Add base models up, one class at a time, until one leads by enough."""
    sums = list(bias)
    for r, model in enumerate(order):
        sums = [total + float(scores[model, k]) for k, total in enumerate(sums)]
        best, second = sorted(sums, reverse=True)[:2]
        if best - second > margin[r]:
            return sums.index(best), r + 1
    sums = [add_up(scores[:, k], float(start)) for k, start in enumerate(bias)]
    return sums.index(max(sums)), len(order)


def margin_impurity(
    sums: NDArray[np.float64], chosen: Sequence[int], bins: int
) -> float:
    """Impurity as `measure_margin_impurity` has it, a row and a bin at a time."""
    leads = [sorted(row)[-1] - sorted(row)[-2] for row in sums.tolist()]
    leaders = [row.index(max(row)) for row in sums.tolist()]
    scale = bins / max(leads) if max(leads) > 0 else 0.0
    tally: dict[int, list[bool]] = {}
    for value, leader, final in zip(leads, leaders, chosen, strict=True):
        place = int(min(value * scale, bins - 1))
        tally.setdefault(place, []).append(leader != final)
    return sum(
        len(wrong) * math.sqrt((sum(wrong) + 0.5) / (len(wrong) + 1))
        for wrong in tally.values()
    )


def exit_of(
    leads: Sequence[float], choices: Sequence[int], margins: Sequence[float]
) -> tuple[int, int]:
    """Go past the checkpoints until one is sure: its choice, and which it was."""
    for k in range(len(leads) - 1):
        if leads[k] > margins[k]:
            return choices[k], k
    return choices[-1], len(leads) - 1


def out_of_sample(
    X: NDArray[np.float32],
    y: Sequence[int],
    splits: Sequence[tuple[NDArray[np.int64], NDArray[np.int64]]],
) -> tuple[list[float], list[int]]:
    """Ask a logistic regression trained on each split's first rows about its others.

    Leads of the likeliest class over the next, and that class; without columns the
    shares of the classes are all there is.
    """
    from sklearn.dummy import DummyClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    leads, choices = [], []
    for train, test in splits:
        learner: Any = DummyClassifier()
        if X.shape[1]:
            learner = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
        learner.fit(X[train].astype(np.float64), [y[i] for i in train])
        for i in test:
            shares = learner.predict_proba(X[i : i + 1].astype(np.float64))[0].tolist()
            second, best = sorted(shares)[-2:]
            leads.append(best - second)
            choices.append(shares.index(best))
    return leads, choices


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


def calibrated(value: float, knots: Sequence[float], outputs: Numbers) -> float:
    """A piecewise-linear calibrator; the last of `outputs` is a missing value's."""
    if math.isnan(value):
        return float(outputs[len(knots)])
    if value <= knots[0]:
        return float(outputs[0])
    for k, (low, high) in enumerate(itertools.pairwise(knots)):
        if value <= high:
            share = (value - low) / (high - low)
            return float(outputs[k] + share * (outputs[k + 1] - outputs[k]))
    return float(outputs[len(knots) - 1])


def interpolated(vertices: Numbers, inputs: Sequence[float]) -> float:
    """Multilinear interpolation: every vertex times the product of its weights."""
    total = 0.0
    for v, height in enumerate(vertices):
        weight = 1.0
        for s, x in enumerate(inputs):
            weight *= x if v >> s & 1 else 1.0 - x
        total += weight * height
    return total


def on_simplex(vertices: Sequence[int], inputs: Sequence[Fraction]) -> Fraction:
    """Lovasz's extension: the mean height of the vertices over all levels in 0..1.

    At a level the vertex is the one of the inputs that are above it.
    """
    levels = sorted({Fraction(0), Fraction(1), *inputs})
    total = Fraction(0)
    for low, high in itertools.pairwise(levels):
        v = sum(1 << s for s, x in enumerate(inputs) if x >= high)
        total += (high - low) * vertices[v]
    return total


def audit_alarm(
    seen: Sequence[bool], alpha: float, times: Sequence[float], quiet: float
) -> bool:
    """Whether `ExitAudit` has sounded: every bet from every beginning, anew."""
    if alpha == 0:
        return any(seen)
    rates = [min(factor * alpha, (1 + alpha) / 2) for factor in times]
    for n in range(1, len(seen) + 1):
        total = 0.0
        for rate in rates:
            for start in range(n):
                bet = 1.0
                for changed in seen[start:n]:
                    bet *= rate / alpha if changed else (1 - rate) / (1 - alpha)
                total += bet / len(rates)
        if total > quiet:
            return True
    return False


def write_ubj(value: Any) -> bytes:
    """Write plain data as Universal Binary JSON, in the longest of its forms.

    A list of whole numbers from 0 to 255 becomes an array of one type.
    """
    if value is None:
        return b"Z"
    if isinstance(value, bool):
        return b"T" if value else b"F"
    if isinstance(value, int):
        return b"L" + struct.pack(">q", value)
    if isinstance(value, float):
        return b"D" + struct.pack(">d", value)
    if isinstance(value, str):
        return b"S" + _write_text(value)
    if isinstance(value, dict):
        pairs = (_write_text(k) + write_ubj(v) for k, v in value.items())
        return b"{" + b"".join(pairs) + b"}"
    length = write_ubj(len(value))
    if value and all(type(v) is int and 0 <= v < 256 for v in value):
        return b"[$U#" + length + bytes(value)
    return b"[#" + length + b"".join(map(write_ubj, value))


def _write_text(text: str) -> bytes:
    raw = text.encode()
    return write_ubj(len(raw)) + raw


def boost_in_stages(
    X: NDArray[Any],
    y: NDArray[Any],
    stages: Sequence[Sequence[int]],
    rounds: Sequence[int],
    depth: int,
    rate: float,
) -> NDArray[Any]:
    """Add up what each tree says, fitted to what is left on the columns so far.

    Gradient boosting of two classes, by its definition: (N, T), without the odds that
    it starts from.
    """
    from sklearn.tree import DecisionTreeRegressor

    seen: list[int] = []
    added: list[NDArray[Any]] = []
    raw = np.full(len(y), math.log(y.mean() / (1 - y.mean())))
    for columns, count in zip(stages, rounds, strict=True):
        seen += columns
        for _ in range(count):
            shares = 1 / (1 + np.exp(-raw))
            rest = y - shares
            tree = DecisionTreeRegressor(max_depth=depth, random_state=0)
            leaves = tree.fit(X[:, seen], rest).apply(X[:, seen])
            step = np.zeros(len(y))
            for leaf in set(leaves.tolist()):
                own = leaves == leaf
                step[own] = rest[own].sum() / (shares * (1 - shares))[own].sum()
            added.append(rate * step)
            raw = raw + added[-1]
    return np.column_stack(added)


def deal(
    codes: Sequence[int], groups: Sequence[int], parts: int, seed: int
) -> list[int]:
    """Largest group first, each where its classes' shares are least so far."""
    names = sorted(set(groups))
    shuffled = np.random.default_rng(seed).permutation(len(names))
    total = Counter(codes)
    part_of: dict[int, int] = {}
    for name in sorted((names[i] for i in shuffled), key=lambda n: -groups.count(n)):
        scores = []
        for part in range(parts):
            held = Counter(
                c for c, g in zip(codes, groups, strict=True) if part_of.get(g) == part
            )
            own = Counter(c for c, g in zip(codes, groups, strict=True) if g == name)
            grows = sum(
                1 / float(total[c]) ** 2 * own[c] * held[c] for c in sorted(own)
            )
            scores.append((grows, held.total(), part))
        part_of[name] = min(scores)[2]
    return [part_of[group] for group in groups]


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


def strays(
    seconds: Sequence[float],
    usual_s: Sequence[float],
    quantile: float,
    items: Sequence[int] | None,
) -> list[bool]:
    """Each time against the ordered ratios of all to what their items take."""
    if max(seconds) <= 0:
        return [False] * len(seconds)
    ratios = []
    for place, (took, usually) in enumerate(zip(seconds, usual_s, strict=True)):
        level = max(usually, 1e-9 * max(seconds))
        if items is not None:
            own = [
                s
                for s, item in zip(seconds, items, strict=True)
                if item == items[place]
            ]
            if len(own) >= 3:
                level = max(level, median(own))
        ratios.append(took / level)
    share = max(0.5, 1 - 4 * (1 - quantile))
    most = sorted(ratios)[math.floor(share * (len(ratios) - 1))]
    return [ratio > 4 * max(most, 1) for ratio in ratios]


def count_entries(plain: Any) -> tuple[int, int]:
    """How many values, keys included, and how many lists and maps plain data have."""
    if isinstance(plain, dict):
        held = [*plain.keys(), *plain.values()]
    elif isinstance(plain, list):
        held = plain
    else:
        return 1, 0
    counts = [count_entries(one) for one in held]
    return 1 + sum(n for n, _ in counts), 1 + sum(n for _, n in counts)

"""Greedy searches for feature sets: few trainings, no guarantee.

`search_greedy` is ICSP's algorithm 4 (section 4), which the paper compares with
Poly-Dom. It adds features one by one, and does so for all weights of cost in one
search. `order_by_gain` is lazy greedy, CELF (Leskovec et al., *Cost-effective Outbreak
Detection in Networks*, KDD 2007). It finds an order of the features; the progressive
search first trains the sets along this order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import NamedTuple

from polydom.features.errors import BadInput

from .poly_dom import check_features, in_batches, train_each

MOST_SEQUENCES = 64
AT_ONCE = 4  # sets trained together, in as many processes
ROUNDING = 4  # units in the last place between computed crossings of one point
FREE = 1e-15  # a gain is divided by at least this cost


class Sequence(NamedTuple):
    """The features that greedy adds, in order, for each lambda in [low, high)."""

    low: float
    high: float
    features: tuple[int, ...]

    @property
    def mask(self) -> int:
        """Mask of all features in the sequence; bit i is feature i."""
        return sum(1 << feature for feature in self.features)


@dataclass(frozen=True, slots=True)
class GreedySearch:
    """The sequences that `search_greedy` found, and the sets that it trained."""

    # Sequences by ascending lambda: the first is Greedy-Acc, the last Greedy-Cost
    sequences: tuple[Sequence, ...]
    expanded: dict[int, float]  # Accuracy of every trained set, by mask


def search_greedy(
    m: int,
    accuracy: Callable[[int], float] | Callable[[list[int]], Iterable[float]],
    cost_s: Callable[[int], float],
    *,
    lambdas: tuple[float, float] = (0.0, math.inf),
    most: int = MOST_SEQUENCES,
    batch: bool = False,
    progress: Callable[[int, int | None], object] | None = None,
) -> GreedySearch:
    """Add the best feature again and again, for every lambda (ICSP, section 4).

    Lambda is the weight of cost. A step adds the feature with the largest (added
    accuracy) - lambda * (added cost); of equal features the cheapest, then the first.
    As lambda grows, the best feature changes at a few values of lambda. At each of
    these values, a sequence branches: one copy goes on for smaller lambdas, the other
    for larger ones. Once there are `most` sequences, none branches any more. Each then
    goes on with the best features for the middle of its own range of lambda.

    `accuracy` maps a set (a mask) to its accuracy in [0, 1]; with `batch` it maps a
    list of sets to their accuracies. The empty set is trained first. `cost_s` maps a
    set to seconds, at the item size to optimise for. `lambdas` is the range of lambda,
    per second: `(0, 0)` is Greedy-Acc, `(inf, inf)` Greedy-Cost. `progress` receives
    the number of trained sets, and the number of sets that remain to be trained, which
    is None if the range has more than one lambda.
    """
    low, high = lambdas
    check_features(m)
    if not 0 <= low <= high:
        raise BadInput(f"lambdas are {lambdas!r}; 0 <= low <= high is needed")
    if most < 1:
        raise BadInput(f"most is {most!r}; it must be at least 1 sequence")
    total = 1 + m * (m + 1) // 2 if low == high else None
    train, accuracies = in_batches(accuracy, batch), dict[int, float]()

    def expand(masks: list[int]) -> None:
        fresh = [mask for mask in dict.fromkeys(masks) if mask not in accuracies]
        for mask, value in train_each(train, fresh):
            accuracies[mask] = value
            if progress is not None:
                done = len(accuracies)
                progress(done, None if total is None else total - done)

    expand([0])
    sequences = [Sequence(low, high, ())]
    for _ in range(m):
        expand(
            [
                sequence.mask | 1 << feature
                for sequence in sequences
                for feature in range(m)
                if not sequence.mask >> feature & 1
            ]
        )
        sequences = _grow(sequences, m, accuracies, cost_s, most)
    return GreedySearch(tuple(sequences), accuracies)


def _grow(
    sequences: list[Sequence],
    m: int,
    accuracies: Mapping[int, float],
    cost_s: Callable[[int], float],
    most: int,
) -> list[Sequence]:
    """Add the best feature to each sequence.

    If the best feature depends on lambda, the sequence is split, unless this makes more
    than `most` sequences.
    """
    grown: list[Sequence] = []
    for position, (start, end, features) in enumerate(sequences):
        mask = sequences[position].mask
        base_s, base = cost_s(mask), accuracies[mask]
        larger = {f: mask | 1 << f for f in range(m) if not mask >> f & 1}
        lines = [
            (accuracies[other] - base, cost_s(other) - base_s, f)
            for f, other in larger.items()
        ]
        choices = list(_best_by_lambda(lines, start, end))
        waiting = len(sequences) - position - 1
        if len(grown) + waiting + len(choices) > most:
            middle = _middle(start, end)
            chosen = next(c for c in choices if c[1] > middle or c is choices[-1])
            choices = [(start, end, chosen[2])]
        grown += [Sequence(low, high, (*features, f)) for low, high, f in choices]
    return grown


def _best_by_lambda(
    lines: list[tuple[float, float, int]], low: float, high: float
) -> Iterable[tuple[float, float, int]]:
    """Yield (start, end, feature): the best feature for each lambda in [start, end).

    Each of `lines` is (gain, cost, feature); the value of its feature is gain - lambda
    * cost. The yielded ranges divide [low, high), and from each range to the next, the
    best feature gets cheaper.
    """
    while True:
        if math.isinf(low):
            best = min(lines, key=lambda line: (line[1], -line[0], line[2]))
        else:
            best = max(
                lines, key=lambda line: (line[0] - low * line[1], -line[1], -line[2])
            )
        cheaper = [line for line in lines if line[1] < best[1]]
        crossings = [(best[0] - line[0]) / (best[1] - line[1]) for line in cheaper]
        change = min(crossings, default=math.inf)
        if change >= high or low == high:
            yield low, high, best[2]
            return
        if change > low + ROUNDING * math.ulp(low):
            yield low, change, best[2]
            low = change
        lines = cheaper


def _middle(low: float, high: float) -> float:
    if math.isinf(high):
        return high if math.isinf(low) else 2 * low + 1.0
    return (low + high) / 2


def order_by_gain(
    m: int,
    train: Callable[[list[int]], Iterable[float]],
    cost_of: Callable[[int], float],
    *,
    known: MutableMapping[int, float],
    per_cost: bool,
    is_over: Callable[[], bool],
    on_trained: Callable[[], object],
) -> tuple[int, ...]:
    """Return an order of the features, each with the largest gain when it is added.

    A feature's gain is the accuracy that it adds to the features before it; if
    `per_cost` is true, divided by the cost that it adds. The order ends before the
    first feature without a gain. Lazy greedy reuses gains that were measured with fewer
    features before, and measures again only the largest of them. The result is exact if
    returns diminish, as they roughly do for learned models. When `is_over` returns
    True, the order goes on by the gains that were measured last, and ends with the
    features that were never measured. `known` maps trained sets (masks) to accuracies.
    It must have the empty set, and sets that are trained here are added to it.
    """
    check_features(m)
    order: list[int] = []
    done = 0
    # Before any training, every feature may gain all missing accuracy.
    gains = dict.fromkeys(range(m), 1.0 - known[0])
    tried: set[int] = set()

    def worth(feature: int) -> tuple[float, float, int]:
        added = max(cost_of(done | 1 << feature) - cost_of(done), 0.0)
        gain = gains[feature] / (added + FREE) if per_cost else gains[feature]
        return gain, -added, -feature

    while gains:
        measured: set[int] = set()
        while (best := max(gains, key=worth)) not in measured:
            if is_over():
                left = sorted(gains, key=lambda f: (f in tried, worth(f)), reverse=True)
                return (*order, *(f for f in left if gains[f] > 0.0))
            ranked = sorted(gains.keys() - measured, key=worth, reverse=True)
            asked = ranked[:AT_ONCE]
            missing = [s for f in asked if (s := done | 1 << f) not in known]
            for mask, accuracy in train_each(train, missing):
                known[mask] = accuracy
                on_trained()
            for feature in asked:
                gains[feature] = known[done | 1 << feature] - known[done]
            measured.update(asked)
            tried.update(asked)
        if gains.pop(best) <= 0.0:
            break
        order.append(best)
        done |= 1 << best
    return tuple(order)

"""Greedy searches of feature sets, which need few trainings and give no guarantee.

`search_greedy` is ICSP's algorithm 4 (section 4), the rival of Poly-Dom: sequences of
features for all weights of cost. `order_by_gain` is lazy greedy, CELF (Leskovec et al.,
*Cost-effective Outbreak Detection in Networks*, KDD 2007): one order of features, with
which the progressive search begins.
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
FREE = 1e-15  # a gain is divided by at least this cost


class Sequence(NamedTuple):
    """The order in which features are added for lambdas in [low, high)."""

    low: float
    high: float
    features: tuple[int, ...]

    @property
    def mask(self) -> int:
        """Set of the features, as a mask."""
        return sum(1 << feature for feature in self.features)


@dataclass(frozen=True, slots=True)
class GreedySearch:
    """The result of `search_greedy`."""

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
    """Add the feature with the best gain again and again, for every lambda (ICSP, 4).

    Each step adds the feature with the largest (gain in accuracy) - lambda * (gain in
    cost); of equals the cheaper, then the first. The best feature changes at a few
    values of lambda only. The search computes these values, and splits a sequence at
    each of them.

    `accuracy` maps a set (a mask) to its accuracy in [0, 1], or with `batch` a list of
    sets to their accuracies; the empty set comes first. `cost_s` maps a set to seconds
    at the size to optimise for. `lambdas` are a range, per second: `(0, 0)` is
    Greedy-Acc, `(inf, inf)` Greedy-Cost. Sequences beyond `most` are continued for the
    middle of their lambdas only. `progress` receives the numbers of trained sets and of
    trainings to come: None if unknown, for more than one lambda.
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
    """Add the best feature to each sequence; split a sequence if the best changes."""
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
    """Split [low, high) at each lambda where the best gain - lambda * cost changes.

    As lambda grows, the best line only gets cheaper (the upper envelope of lines).
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
        change = max(min(crossings, default=math.inf), math.nextafter(low, math.inf))
        if change >= high or low == high:
            yield low, high, best[2]
            return
        yield low, change, best[2]
        low, lines = change, cheaper


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
    """Order features by lazy greedy: add the feature with the largest gain, repeatedly.

    Of the gains of earlier steps, only the largest are measured again. If returns
    diminish, the order is that of plain greedy; learned models have diminishing returns
    only roughly. Features that gain nothing are left out. `known` takes new accuracies.
    When `is_over` returns True, the order ends.
    """
    check_features(m)
    order: list[int] = []
    done = 0
    # Before any training, every feature may gain all missing accuracy.
    gains = dict.fromkeys(range(m), 1.0 - known[0])

    def worth(feature: int) -> tuple[float, float, int]:
        """Return a feature's sort key: gain; of equals the cheaper, then the first."""
        added = max(cost_of(done | 1 << feature) - cost_of(done), 0.0)
        gain = gains[feature] / (added + FREE) if per_cost else gains[feature]
        return gain, -added, -feature

    while gains:
        measured: set[int] = set()
        while (best := max(gains, key=worth)) not in measured:
            if is_over():
                return tuple(order)
            ranked = sorted(gains.keys() - measured, key=worth, reverse=True)
            asked = ranked[:AT_ONCE]
            missing = [s for f in asked if (s := done | 1 << f) not in known]
            for mask, accuracy in train_each(train, missing):
                known[mask] = accuracy
                on_trained()
            for feature in asked:
                gains[feature] = known[done | 1 << feature] - known[done]
            measured.update(asked)
        if gains.pop(best) <= 0.0:
            break
        order.append(best)
        done |= 1 << best
    return tuple(order)

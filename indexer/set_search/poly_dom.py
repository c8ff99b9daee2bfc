"""Which feature sets to train: the bidirectional lattice search of ICSP.

A set that lies between a smaller expanded set and a larger one that is not much more
accurate cannot be worth its cost (the sandwich rule), so it is never trained. The rule
needs accuracy to grow with the set, give or take a tolerance; how far that held is
measured on what was trained.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np

from polydom.features.errors import BadInput

from .monotonicity import Violations, measure_violations
from .sandwich import Accuracies, Expanded, Masks, make_sandwich

MAX_FEATURES = 62
CHUNK = 1 << 16  # sets handed out at once: bounds memory, not the search
FIRST_ALPHA = 2.0
SMALLEST_STEP = 0.01
NOTHING: Mapping[int, float] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class SandwichPair:
    """Why a set needed no training: it lies between these two.

    `upper_accuracy` is the accuracy of `upper`, or, where the covering rule gave it
    (`covering`), only a bound on it that holds under diminishing returns.
    """

    lower: int
    upper: int
    lower_accuracy: float
    upper_accuracy: float
    covering: bool = False


@dataclass(frozen=True)
class PolyDomSearch:
    """What `search` found.

    Attributes
    ----------
    m : int
        Number of features.
    expanded : Expanded
        Accuracy of every trained set, by mask.
    alpha : float
        Bound proven: for every untrained set, some trained subset is within this
        factor of its accuracy, provided accuracy is monotone up to `tolerance`
        (and has diminishing returns, where `covering` was asked for). Infinite
        when the search was stopped before it proved any.
    tolerance : float
        Loss of accuracy a larger set was allowed to show.
    complete : bool
        Whether the alpha that was asked for is proven.
    """

    m: int
    expanded: Expanded
    alpha: float
    tolerance: float
    complete: bool
    _covers: tuple[Masks, Accuracies] = field(repr=False)

    def why(self, mask: int) -> SandwichPair | None:
        """Name the pair that made training `mask` unnecessary.

        Returns None for a set that an interrupted search left open.

        Raises
        ------
        BadInput
            If `mask` was trained or is no set of the m features.
        """
        if not 0 <= mask < 1 << self.m:
            raise BadInput(f"mask {mask} is no set of {self.m} features")
        if mask in self.expanded:
            raise BadInput(f"mask {mask} was trained: {self.expanded[mask]:g} accurate")
        pair = self._tightest(mask)
        needed = pair.upper_accuracy + self.tolerance
        closed = self.alpha * pair.lower_accuracy >= needed
        return pair if closed and self.alpha < math.inf else None

    def _tightest(self, mask: int) -> SandwichPair:
        masks, accuracies = self.expanded.masks, self.expanded.accuracies
        wanted = np.uint64(mask)
        lower = int(np.where(masks & wanted == masks, accuracies, -1.0).argmax())
        upper, upper_accuracy = _worst_above(masks, accuracies, wanted)
        cover, cover_accuracy = _worst_above(*self._covers, wanted)
        covering = cover_accuracy < upper_accuracy
        return SandwichPair(
            lower=int(masks[lower]),
            upper=cover if covering else upper,
            lower_accuracy=float(accuracies[lower]),
            upper_accuracy=min(cover_accuracy, upper_accuracy),
            covering=covering,
        )

    @cached_property
    def violations(self) -> Violations:
        """Where larger sets were less accurate, among those trained."""
        expanded = self.expanded
        return measure_violations(self.m, expanded.masks, expanded.accuracies)


class _Stopped(Exception):
    """The budget is used up."""


@dataclass
class _State:
    """One search under way."""

    m: int
    train: Callable[[list[int]], Iterable[float]]
    alpha: float
    tolerance: float
    covering: bool
    trainings_left: float
    deadline_s: float
    progress: Callable[[int, int | None], object] | None
    now: Callable[[], float]

    def __post_init__(self) -> None:
        self.sandwich = make_sandwich(self.m)
        self.count = 0
        self.cover_masks: list[Masks] = [np.empty(0, np.uint64)]
        self.cover_accuracies: list[Accuracies] = [np.empty(0)]

    def take_in(self, known: Mapping[int, float]) -> None:
        """Count sets as trained that others trained."""
        if not known:
            return
        if not {0, (1 << self.m) - 1} <= known.keys():
            raise BadInput(
                f"{len(known)} sets are known; the empty one and all features must be "
                "among them"
            )
        masks = np.array(sorted(known), np.uint64)
        accuracies = np.array([known[mask] for mask in masks.tolist()])
        self.sandwich.record(masks, accuracies)
        self.count = len(known)

    def run(self, alpha: float) -> None:
        """Expand, layer by layer from both ends, what is open at `alpha`."""
        for size in range(self.m // 2 + 1):
            self._expand_layer(size, alpha)
            if self.covering and size > 0:
                self._cover_layer(size - 1, alpha)
            if size < self.m - size:
                self._expand_layer(self.m - size, alpha)
            if self.sandwich.bound(self.tolerance) <= alpha:
                return

    def _expand_layer(self, size: int, alpha: float) -> None:
        # Sets of one size never sandwich each other, so parts of a layer can be
        # trained in any order and at the same time.
        while True:
            masks = self.sandwich.open_sets(size, alpha, self.tolerance)
            if masks.size == 0:
                return
            for start in range(0, masks.size, CHUNK):
                self._expand(masks[start : start + CHUNK])

    def _expand(self, masks: Masks) -> None:
        most = self._most_left() if self.progress is not None else None
        allowed = masks[: int(min(self.trainings_left, masks.size))].tolist()
        done: list[float] = []
        try:
            for _, accuracy in train_each(self.train, allowed):
                done.append(accuracy)
                if self.progress is not None:
                    left = None if most is None else most - len(done)
                    self.progress(self.count + len(done), left)
                if self.now() >= self.deadline_s and self.count + len(done) > 1:
                    raise _Stopped
        finally:
            self.sandwich.record(masks[: len(done)], np.array(done))
            self.count += len(done)
            self.trainings_left -= len(done)
        if len(allowed) < masks.size:
            raise _Stopped

    def _most_left(self) -> int | None:
        """How many trainings there can still be, None if nobody can tell."""
        still_open = self.sandwich.count_open(self.alpha, self.tolerance)
        most = min(self.trainings_left, math.inf if still_open is None else still_open)
        return None if most == math.inf else int(most)

    def _cover_layer(self, size: int, alpha: float) -> None:
        """Bound unions of extensions that add next to nothing, set by set.

        Under diminishing returns a(S + W) <= a(S) + the sum of what each feature of
        W adds to S alone. ICSP's rule (property 3.4) asks that each addition be
        dominated by S; with alpha > 1 that lets small gains add up unseen, so here
        their sum must be.
        """
        expanded = self.sandwich.expanded()
        chosen = np.bitwise_count(expanded.masks) == size
        bits = np.uint64(1) << np.arange(self.m, dtype=np.uint64)
        sets, accuracies = expanded.masks[chosen], expanded.accuracies[chosen]
        gains = self.sandwich.accuracy_of(sets[:, None] | bits) - accuracies[:, None]
        gains = np.where(np.isnan(gains), np.inf, np.maximum(gains, 0.0))
        order = np.argsort(gains, axis=1)
        bounds = accuracies[:, None] + np.cumsum(
            np.take_along_axis(gains, order, axis=1), axis=1
        )
        small = alpha * accuracies[:, None] >= bounds + self.tolerance
        covered = sets | np.bitwise_or.reduce(
            np.where(small, bits[order], np.uint64(0)), axis=1
        )
        useful = covered != sets
        last = np.maximum(small.sum(axis=1) - 1, 0)
        values = np.take_along_axis(bounds, last[:, None], axis=1)[:, 0]
        self.sandwich.record_covers(covered[useful], values[useful])
        self.cover_masks.append(covered[useful])
        self.cover_accuracies.append(values[useful])

    def result(self, alpha: float, complete: bool) -> PolyDomSearch:
        covers = np.concatenate(self.cover_masks), np.concatenate(self.cover_accuracies)
        expanded = self.sandwich.expanded()
        return PolyDomSearch(self.m, expanded, alpha, self.tolerance, complete, covers)


def search(
    m: int,
    accuracy: Callable[[int], float] | Callable[[list[int]], Iterable[float]],
    *,
    alpha: float = 1.0,
    tolerance: float = 0.0,
    covering: bool = False,
    budget: int | None = None,
    budget_s: float | None = None,
    batch: bool = False,
    known: Mapping[int, float] = NOTHING,
    progress: Callable[[int, int | None], object] | None = None,
    now: Callable[[], float] = time.monotonic,
) -> PolyDomSearch:
    """Train the feature sets that may be the best choice for some size and budget.

    ICSP, algorithm 2: layer by layer from the empty set up and from the full set
    down, skipping every set that is sandwiched. Unlike there, every open set of a
    layer is looked at, not only neighbours of expanded ones: those can miss a set
    all of whose neighbours are sandwiched by other pairs.

    With a budget the search is progressive: a large alpha first, then smaller and
    smaller, down to `alpha`, reusing every training. When the budget ends, or at
    KeyboardInterrupt, what was trained is returned with the bound it proves.

    Parameters
    ----------
    m
        Number of features, 1 to 62. Up to 24, memory is 24 * 2 ** m bytes and the
        search never takes long; beyond, both follow the number of trained sets.
    accuracy
        Accuracy in [0, 1] of the best model on a feature set (a mask; bit i is
        feature i). Called once per set; the empty set and all features come first.
    alpha
        At least 1: how far, as a factor, the best trained set may fall short.
    tolerance
        How much accuracy a larger set may lose against a smaller one, e of ICSP 3.10.
    covering
        Also use the covering rule (ICSP, property 3.4). Sound only if accuracy has
        diminishing returns: with labels f1 XOR f2 it overlooks {f1, f2}.
    budget, budget_s
        Trainings, and seconds, the search may take; None is no limit. A training
        under way when the time is up is finished. `budget_s=math.inf` makes a
        search progressive and interruptible without limiting it.
    batch
        `accuracy` takes a list of sets of one size and yields their accuracies in
        order, and does its own parallel work; what it yielded counts as trained.
    known
        Accuracies of sets that are trained already, by mask; if any, then also of the
        empty set and of all features.
    progress
        Called after every training with the number of sets trained so far and how many
        there can be to come at most, None where that is unknown: with more than 24
        features and no `budget`.
    now
        Monotonic clock, seconds.

    Raises
    ------
    BadInput
        If an argument is outside its range or an accuracy outside [0, 1].
    """
    _check_arguments(m, alpha, tolerance, budget, budget_s)
    progressive = budget is not None or budget_s is not None
    state = _State(
        m=m,
        train=in_batches(accuracy, batch),
        alpha=alpha,
        tolerance=tolerance,
        covering=covering,
        trainings_left=math.inf if budget is None else budget,
        deadline_s=math.inf if budget_s is None else now() + budget_s,
        progress=progress,
        now=now,
    )
    state.take_in(known)
    if not progressive:
        state.run(alpha)
        return state.result(alpha, complete=True)
    proven = math.inf
    try:
        for step in _steps(alpha, state):
            state.run(step)
            proven = step
    except (_Stopped, KeyboardInterrupt):
        if state.count < 2:  # nothing can be proven without both ends
            raise
        proven = min(proven, state.sandwich.bound(tolerance))
    return state.result(max(alpha, proven), complete=proven <= alpha)


def _steps(target: float, state: _State) -> Iterator[float]:
    """Alphas from large to `target`, halving the distance to what is proven so far."""
    alpha = max(FIRST_ALPHA, target)
    while alpha - target > SMALLEST_STEP:
        yield alpha
        proven = min(alpha, state.sandwich.bound(state.tolerance))
        alpha = target + (proven - target) / 2
    yield target


def in_batches(
    accuracy: Callable[..., Any], batch: bool
) -> Callable[[list[int]], Iterable[float]]:
    """Turn `accuracy` into a function of a list of sets."""
    return accuracy if batch else lambda masks: map(accuracy, masks)


def train_each(
    train: Callable[[list[int]], Iterable[float]], masks: list[int]
) -> Iterator[tuple[int, float]]:
    """Yield sets with their accuracies, as they come; refuse what is none."""
    left = iter(masks)
    for accuracy in train(masks):
        mask = next(left, None)
        if mask is None:
            raise BadInput(f"accuracy gave more values than the {len(masks)} asked for")
        if not 0.0 <= accuracy <= 1.0:
            raise BadInput(
                f"accuracy of set {mask} is {accuracy!r}; it must be in [0, 1]"
            )
        yield mask, float(accuracy)
    if (missing := next(left, None)) is not None:
        raise BadInput(f"accuracy gave no value for set {missing} of {len(masks)} sets")


def check_features(m: int) -> None:
    """Refuse a number of features that masks have no room for."""
    if not 1 <= m <= MAX_FEATURES:
        raise BadInput(f"m is {m!r}; it must be 1 to {MAX_FEATURES} features")


def _check_arguments(
    m: int, alpha: float, tolerance: float, budget: int | None, budget_s: float | None
) -> None:
    check_features(m)
    if not 1.0 <= alpha < math.inf:
        raise BadInput(f"alpha is {alpha!r}; it must be at least 1 and finite")
    if not 0.0 <= tolerance <= 1.0:
        raise BadInput(f"tolerance is {tolerance!r}; it must be in [0, 1]")
    if budget is not None and (budget < 2 or budget != int(budget)):
        raise BadInput(
            f"budget is {budget!r} trainings; it must be a whole number, at least 2: "
            "the empty and the full set come first"
        )
    if budget_s is not None and not budget_s > 0:
        raise BadInput(f"budget_s is {budget_s!r}; it must be greater than 0")


def _worst_above(
    masks: Masks, accuracies: Accuracies, mask: np.uint64
) -> tuple[int, float]:
    """Least accurate superset of `mask`; infinite if there is none."""
    above = np.where(masks & mask == mask, accuracies, np.inf)
    if above.size == 0:
        return 0, math.inf
    worst = int(above.argmin())
    return int(masks[worst]), float(above[worst])

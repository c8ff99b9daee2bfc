"""Poly-Dom (ICSP, algorithm 2): search for the feature sets that are worth training.

The sandwich rule: if a trained set and its trained superset are almost equally
accurate, the sets between the two are never trained, as none of them can be worth its
cost. The rule assumes that a superset is at least as accurate as its subset, up to a
tolerance. Violations of this assumption are counted on the trained sets.

By default, alpha is a factor of gains: of accuracies less the accuracy of the empty
set, the prior. ICSP's alpha is a factor of accuracies. Where one class has 88 % of the
items, an alpha of 1.14 would close all sets, since no accuracy is more than 1.14 times
the prior's. For the quality exp(-log loss), an alpha of gains also holds for gains of
the log loss itself, since exp is convex.

The proof is for the costs of features, which grow with the set. A model's own time need
not: a smaller set's forest may be deeper, and so dearer, than that of a larger set.
`slow_models` finds the sets that such a forest hides.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadInput

from ..index.quality import AlphaOf
from .monotonicity import Violations, measure_violations
from .sandwich import Expanded, Masks, make_sandwich

MAX_FEATURES = 62
CHUNK = 1 << 16  # sets trained at once, to bound memory; does not change the search
FIRST_ALPHA = 2.0
SMALLEST_STEP = 0.01
NOTHING: Mapping[int, float] = MappingProxyType({})


@dataclass(frozen=True)
class PolyDomSearch:
    """The result of `search`: the trained sets, and the alpha that they prove."""

    m: int  # Number of features
    expanded: Expanded  # Accuracy of every trained set, by mask
    # Proven factor, infinite if the search was stopped before it proved any. The gain
    # (or accuracy, by `alpha_of`) of an untrained set is at most alpha times that of
    # one of its trained subsets. The proof needs accuracy to be monotone up to
    # `tolerance`, and with `covering` to have diminishing returns.
    alpha: float
    alpha_of: AlphaOf
    tolerance: float  # Allowed loss of accuracy of a larger set
    complete: bool  # True if the requested alpha is proven

    @cached_property
    def violations(self) -> Violations:
        """Violations of monotonicity among the trained sets."""
        return measure_violations(self.expanded.masks, self.expanded.accuracies)


class _Stopped(Exception):
    """Raised when no training or no time is left in the budget."""


@dataclass
class _State:
    m: int
    train: Callable[[list[int]], Iterable[float]]
    alpha: float
    alpha_of: AlphaOf
    tolerance: float
    covering: bool
    trainings_left: float
    deadline_s: float
    progress: Callable[[int, int | None], object] | None
    now: Callable[[], float]

    def __post_init__(self) -> None:
        self.sandwich = make_sandwich(self.m)
        self.count = 0

    def take_in(self, known: Mapping[int, float]) -> None:
        """Add the accuracies of sets (masks) that were trained before this search."""
        if not known:
            return
        if not {0, (1 << self.m) - 1} <= known.keys():
            raise BadInput(
                f"{len(known)} sets are known; the empty one and all features must be "
                "among them"
            )
        masks = np.array(sorted(known), np.uint64)
        accuracies = np.array([known[mask] for mask in masks.tolist()])
        self._record(masks, accuracies)

    def _record(self, masks: Masks, accuracies: NDArray[np.float64]) -> None:
        """Record trained sets; the first of all is the empty set."""
        if self.count == 0 and masks.size and self.alpha_of == "gain":
            self.sandwich.origin = float(accuracies[0])
        self.sandwich.record(masks, accuracies)
        self.count += masks.size

    def run(self, alpha: float) -> None:
        """Train all sets that are open at `alpha`.

        They are trained layer by layer, the smallest and the largest sets first.
        """
        for size in range(self.m // 2 + 1):
            self._expand_layer(size, alpha)
            if self.covering and size > 0:
                self._cover_layer(size - 1, alpha)
            if size < self.m - size:
                self._expand_layer(self.m - size, alpha)
            if self.sandwich.bound(self.tolerance) <= alpha:
                return

    def _expand_layer(self, size: int, alpha: float) -> None:
        # Sets of one size do not sandwich each other, so they can be trained in any
        # order and in parallel.
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
            self._record(masks[: len(done)], np.array(done))
            self.trainings_left -= len(done)
        if len(allowed) < masks.size:
            raise _Stopped

    def _most_left(self) -> int | None:
        """Return the maximum number of trainings to come, or None if it is unknown."""
        still_open = self.sandwich.count_open(self.alpha, self.tolerance)
        most = min(self.trainings_left, math.inf if still_open is None else still_open)
        return None if most == math.inf else int(most)

    def _cover_layer(self, size: int, alpha: float) -> None:
        """Bound the accuracies of the supersets of trained sets with `size` features.

        Let a(S) be the accuracy of a set S. Under diminishing returns, a(S + W), for
        any further features W, is at most a(S) plus the sum of the gains a(S + w) -
        a(S) of the single features w in W. ICSP's rule (property 3.4) limits each
        single gain. But many small gains may together exceed alpha, so this function
        limits their sum.
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
        origin = self.sandwich.origin
        small = alpha * (accuracies[:, None] - origin) >= (
            bounds - origin + self.tolerance
        )
        covered = sets | np.bitwise_or.reduce(
            np.where(small, bits[order], np.uint64(0)), axis=1
        )
        useful = covered != sets
        last = np.maximum(small.sum(axis=1) - 1, 0)
        values = np.take_along_axis(bounds, last[:, None], axis=1)[:, 0]
        self.sandwich.record_covers(covered[useful], values[useful])

    def result(self, alpha: float, complete: bool) -> PolyDomSearch:
        expanded = self.sandwich.expanded()
        return PolyDomSearch(
            self.m, expanded, alpha, self.alpha_of, self.tolerance, complete
        )


def search(
    m: int,
    accuracy: Callable[[int], float] | Callable[[list[int]], Iterable[float]],
    *,
    alpha: float = 1.0,
    alpha_of: AlphaOf = "gain",
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

    A layer is all sets with the same number of features. The search goes layer by layer
    from the empty set up and from the full set down, and skips every set that the
    sandwich rule closes (ICSP, algorithm 2). Unlike in the paper, all open sets of a
    layer are trained, not only neighbours of trained sets: a set may be open while the
    rule closes all its neighbours.

    With a budget the search is progressive: it begins with a large alpha, and goes down
    to `alpha` in steps that reuse all trainings. If the budget ends, or the user
    interrupts the search (KeyboardInterrupt), the function returns the sets trained so
    far, and the smallest alpha that they prove.

    Parameters
    ----------
    m
        Number of features, 1 to 62. Up to 24 features, the search needs 24 * 2 ** m
        bytes, and little time in addition to the trainings. For more features, its
        memory and time grow with the number of trained sets.
    accuracy
        Function from a feature set (a mask; bit i is feature i) to the accuracy of the
        best model on this set, in [0, 1]. It is called once per set, first for the
        empty set and for all features.
    alpha
        Largest factor, >= 1, by which the gain of an untrained set may exceed the gain
        of the best trained set that costs no more. A gain is an accuracy less the
        accuracy of the empty set.
    alpha_of
        "gain", or "accuracy" for ICSP's own alpha: a factor of accuracies.
    tolerance
        Maximum by which a superset may be less accurate than its subset: e of ICSP,
        property 3.10.
    covering
        If True, also use the covering rule (ICSP, property 3.4). The rule is sound only
        if accuracy has diminishing returns: if labels are f1 XOR f2, the rule misses
        the set {f1, f2}.
    budget, budget_s
        Maximum number of trainings, and maximum seconds; None for no limit. When the
        time is up, the current training is still completed. `budget_s=math.inf` makes
        the search progressive and interruptible without a limit.
    batch
        If True, `accuracy` takes a list of sets, all with the same number of features,
        and yields their accuracies in order; it may train them in parallel. A set
        counts as trained once its accuracy is yielded.
    known
        Accuracies of sets trained before, by mask. If there are any, the empty set and
        the set of all features must be among them.
    progress
        Function called after every training with the number of trained sets so far, and
        the maximum number of trainings to come. The latter is None (unknown) for more
        than 24 features without a `budget`.
    now
        Monotonic clock, in seconds.

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
        alpha_of=alpha_of,
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
        if state.count < 2:  # without both ends nothing is proven
            raise
        proven = min(proven, state.sandwich.bound(tolerance))
    return state.result(max(alpha, proven), complete=proven <= alpha)


def _steps(target: float, state: _State) -> Iterator[float]:
    """Yield decreasing alphas, down to `target`.

    Each is halfway between `target` and the alpha that the search has proven so far.
    """
    alpha = max(FIRST_ALPHA, target)
    while alpha - target > SMALLEST_STEP:
        yield alpha
        proven = min(alpha, state.sandwich.bound(state.tolerance))
        alpha = target + (proven - target) / 2
    yield target


def in_batches(
    accuracy: Callable[..., Any], batch: bool
) -> Callable[[list[int]], Iterable[float]]:
    """Return a function that maps a list of sets to their accuracies.

    If `batch` is True, this is `accuracy` itself. Otherwise `accuracy` takes a single
    set, and the returned function calls it for each set.
    """
    return accuracy if batch else lambda masks: map(accuracy, masks)


def train_each(
    train: Callable[[list[int]], Iterable[float]], masks: list[int]
) -> Iterator[tuple[int, float]]:
    """Call `train` with sets (masks), and yield each set with its accuracy.

    Raises BadInput if an accuracy is outside [0, 1], or if the number of accuracies
    differs from the number of sets.
    """
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
    """Raise BadInput unless the number of features m is in 1 to 62."""
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

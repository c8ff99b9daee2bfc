"""QWYC's two algorithms: thresholds for a given order, and the joint greedy."""

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from .active_examples import ActiveExamples, over_columns
from .base_model_costs import ModelCosts
from .confidence_bound import RUNGS, Thresholds, widened
from .kernels.algorithm_1 import count_stops
from .running_sums import RunningSums, parted, spread_of, thresholds_at

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Rows = NDArray[np.int64]


def changes_allowed(alpha: float, rows: int) -> int:
    """Count the changed decisions that `alpha` allows among so many rows."""
    return math.floor(alpha * rows * (1 + 1e-12))  # 0.29 * 100 is just below 29


class Algorithm2:
    """Thresholds along one order by QWYC's Algorithm 2.

    Each position in turn stops as many of the rows still undecided as the errors still
    allowed permit: low, and with `both` also high.
    """

    def __init__(self, sums: RunningSums, *, both: bool) -> None:
        self.sums, self.both = sums, both

    def within(self, alpha: float) -> Thresholds:
        """Thresholds of the algorithm for `alpha`."""
        walk = self.sums.walk()
        allowed = changes_allowed(alpha, len(walk.rows))
        lower, upper = np.full(walk.count, -np.inf), np.full(walk.count, np.inf)
        for r, (values, positive) in zip(range(walk.count - 1), walk, strict=False):
            if not len(values):
                break
            lower[r], upper[r] = stop_most(values, positive, allowed, self.both)
            stays, errors = active_and_errors(values, positive, lower[r], upper[r])
            allowed -= errors
            walk.rows = walk.rows[stays]
        return lower, upper

    def ladder(self) -> Iterator[Thresholds]:
        """Thresholds for growing shares of changed decisions, for calibration."""
        yield from widened(*self.within(0.0), spread_of(self.sums))
        for share in np.linspace(0.0, 1.0, RUNGS, endpoint=False)[1:] ** 4:
            yield self.within(float(share))


def stop_most(
    sums: Floats, positive: Flags, allowed: int, both: bool
) -> tuple[float, float]:
    """Thresholds that stop most of the rows with at most `allowed` errors."""
    ascending = np.argsort(sums, kind="stable")
    values = sums[ascending]
    cuts = most_stops(values, positive[ascending], allowed, both)
    return thresholds_at(values, *cuts)


def most_stops(
    values: Floats, positive: Flags, allowed: int, both: bool
) -> tuple[int, int]:
    """Find the cuts (a, b) that stop most values with at most `allowed` errors.

    One step of QWYC's Algorithm 2. Of equally good cuts those with the fewest errors
    are taken, then the smallest a.
    """
    n = len(values)
    valid = parted(values)
    wrong_low = np.concatenate([[0], np.cumsum(positive)])
    wrong_high = np.concatenate([np.cumsum(~positive[::-1])[::-1], [0]])
    lows = np.flatnonzero(valid & (wrong_low <= allowed))
    highs = np.flatnonzero(valid) if both else np.array([n])
    # wrong_high falls with the cut: the first cut cheap enough stops the most.
    left = allowed - wrong_low[lows]
    first = len(highs) - np.searchsorted(wrong_high[highs][::-1], left, side="right")
    b = np.maximum(highs[first], lows)
    errors = wrong_low[lows] + wrong_high[b]
    best = np.lexsort((lows, errors, -(lows + n - b)))[0]
    return int(lows[best]), int(b[best])


def active_and_errors(
    sums: Floats, positive: Flags, lower: float, upper: float
) -> tuple[Flags, int]:
    """Find which rows go on, and how many of the others stop on the wrong side."""
    low, high = sums < lower, sums > upper
    errors = np.count_nonzero(low & positive) + np.count_nonzero(high & ~positive)
    return ~(low | high), int(errors)


def algorithm_1(
    scores: Floats,
    positive: Flags,
    alpha: float,
    *,
    costs: ModelCosts,
    both: bool = True,
    threads: int = 1,
) -> tuple[Rows, Floats, Floats]:
    """Choose order and thresholds together: order, lower and upper, (T,) each.

    QWYC, Algorithm 1 (QWYC*): at each position the base model k with the smallest
    J = c_k * undecided / newly stopped, the first of equals; a model that stops
    nothing has J infinite. Once every row is decided the rest keep their own order
    and stop nothing. c_k includes the features that no base model before k has read,
    which the paper leaves out.
    """
    left = ActiveExamples(scores, positive)
    count = len(left.models)
    lower, upper = np.full(count, -np.inf), np.full(count, np.inf)
    allowed = changes_allowed(alpha, len(scores))
    order, done = [], np.zeros(len(costs.features), np.bool_)
    for r in range(count - 1):
        if not len(left):
            break
        stopped = stops_each(left, allowed, both, threads)
        with np.errstate(divide="ignore"):
            ratio = costs.next(left.models, done) * len(left) / stopped
        order.append(left.take(int(np.argmin(ratio))))
        done |= costs.uses[order[-1]]
        lower[r], upper[r] = stop_most(left.sums, left.positive, allowed, both)
        stays, errors = active_and_errors(left.sums, left.positive, lower[r], upper[r])
        allowed -= errors
        left.keep(stays)
    return np.array([*order, *left.models]), lower, upper


def stops_each(left: ActiveExamples, allowed: int, both: bool, threads: int) -> Rows:
    """Count the rows that each unused base model could stop next."""

    def scan(columns: Rows) -> Rows:
        out = np.empty(len(columns), np.int64)
        rows = left.rows, left.sums, left.positives
        count_stops(left.scores, *rows, columns, allowed, both, out)
        return out

    return over_columns(scan, left.columns, threads)

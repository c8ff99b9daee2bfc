"""QWYC's published algorithms: 1 finds an order and thresholds, 2 only thresholds.

A row is what the paper calls an example. A row is active until a threshold stops it. It
is an error if a row stops with a decision other than the whole ensemble's.
"""

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from .active_examples import ActiveExamples, over_columns
from .base_model_costs import ModelCosts
from .fixed_sequence import RUNGS, Thresholds, widened
from .kernels.algorithm_1 import count_stops
from .running_sums import RunningSums, parted, spread_of, thresholds_at

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Rows = NDArray[np.int64]


def changes_allowed(alpha: float, rows: int) -> int:
    """Return the maximum number of changed decisions among `rows` rows.

    It is the share `alpha` of `rows`, rounded down.
    """
    return math.floor(alpha * rows * (1 + 1e-12))  # 0.29 * 100 is just below 29


class Algorithm2:
    """QWYC, Algorithm 2: thresholds for a given order of base models.

    Thresholds are set position by position. Each stops as many rows as possible. The
    total number of errors at all positions is limited.
    """

    def __init__(self, sums: RunningSums, *, both: bool) -> None:
        self.sums, self.both = sums, both

    def within(self, alphas: Floats) -> Thresholds:
        """Return thresholds that change at most a share of all decisions.

        The paper knows one share: the classes' shares `alphas` (K,) must be equal.
        """
        return self._within(float(alphas[0]))

    def _within(self, alpha: float) -> Thresholds:
        walk = self.sums.walk()
        allowed = changes_allowed(alpha, len(walk.rows))
        lower, upper = np.full(walk.count, -np.inf), np.full(walk.count, np.inf)
        for r, (values, positive) in zip(range(walk.count - 1), walk, strict=False):
            if not len(values):
                break
            lower[r], upper[r] = stop_most(values, positive, allowed, self.both)
            active, errors = active_and_errors(values, positive, lower[r], upper[r])
            allowed -= errors
            walk.rows = walk.rows[active]
        return lower, upper

    def ladder(self, _: Floats) -> Iterator[Thresholds]:
        """Yield thresholds to calibrate, by increasing number of changed decisions."""
        yield from widened(*self._within(0.0), spread_of(self.sums))
        for share in np.linspace(0.0, 1.0, RUNGS, endpoint=False)[1:] ** 4:
            yield self._within(float(share))


def stop_most(
    sums: Floats, positive: Flags, allowed: int, both: bool
) -> tuple[float, float]:
    """Return the thresholds (lower, upper) that stop the most rows.

    A row stops if its sum is below `lower` or, if `both`, above `upper`. At most
    `allowed` rows may stop as errors: positive rows below `lower`, other rows above
    `upper`.
    """
    ascending = np.argsort(sums, kind="stable")
    values = sums[ascending]
    cuts = most_stops(values, positive[ascending], allowed, both)
    return thresholds_at(values, *cuts)


def most_stops(
    values: Floats, positive: Flags, allowed: int, both: bool
) -> tuple[int, int]:
    """Return (a, b) such that as many rows as possible stop.

    `values` are the rows' sums, ascending. The rows of `values[:a]` stop as negative,
    those of `values[b:]` stop as positive, and the rest do not stop. At most `allowed`
    rows may stop as errors: positive rows in `values[:a]`, other rows in `values[b:]`.
    Unless `both`, b is the number of values.
    """
    n = len(values)
    valid = parted(values)
    wrong_low = np.concatenate([[0], np.cumsum(positive)])
    wrong_high = np.concatenate([np.cumsum(~positive[::-1])[::-1], [0]])
    lows = np.flatnonzero(valid & (wrong_low <= allowed))
    highs = np.flatnonzero(valid) if both else np.array([n])
    # wrong_high falls along the cuts: the first cut with few enough errors is the best.
    left = allowed - wrong_low[lows]
    first = len(highs) - np.searchsorted(wrong_high[highs][::-1], left, side="right")
    b = np.maximum(highs[first], lows)
    errors = wrong_low[lows] + wrong_high[b]
    best = np.lexsort((lows, errors, -(lows + n - b)))[0]
    return int(lows[best]), int(b[best])


def active_and_errors(
    sums: Floats, positive: Flags, lower: float, upper: float
) -> tuple[Flags, int]:
    """Return a mask of the rows that stay active, and the number of errors."""
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
    """QWYC, Algorithm 1 (QWYC*): return order, lower and upper thresholds, each (T,).

    At most the share `alpha` of decisions changes. Each position gets the base model k
    with the smallest J = c_k * (number of active rows) / (number of rows that k stops).
    If several have the same J, it gets the first of them. c_k is the cost of base model
    k. Unlike in the paper, c_k includes the cost of features that k would be the first
    to read. Once every row has stopped, the remaining base models follow in ascending
    order.
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
        active, errors = active_and_errors(left.sums, left.positive, lower[r], upper[r])
        allowed -= errors
        left.keep(active)
    return np.array([*order, *left.models]), lower, upper


def stops_each(left: ActiveExamples, allowed: int, both: bool, threads: int) -> Rows:
    """Return the number of rows that each unused base model could stop if used next."""

    def scan(columns: Rows) -> Rows:
        out = np.empty(len(columns), np.int64)
        rows = left.rows, left.sums, left.positives
        count_stops(left.scores, *rows, columns, allowed, both, out)
        return out

    return over_columns(scan, left.columns, threads)

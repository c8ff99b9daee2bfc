"""QWYC's two algorithms: thresholds for a given order, and the joint greedy."""

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ._scan_kernels import count_stops
from .calibrate import RUNGS, Thresholds, widened
from .cuts import most_stops, thresholds_at
from .model_costs import ModelCosts
from .pool import Pool, over_columns
from .track import SumTrack, spread_of

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Rows = NDArray[np.int64]


def errors_allowed(alpha: float, rows: int) -> int:
    """Count the changed decisions that `alpha` allows among so many rows."""
    return math.floor(alpha * rows * (1 + 1e-12))  # 0.29 * 100 is just below 29


def fit_thresholds(
    scores: Floats,
    order: Rows,
    positive: Flags,
    alpha: float,
    *,
    both: bool = True,
) -> Thresholds:
    """Find the thresholds that stop most rows, position by position.

    QWYC, Algorithm 2: each position of `order` (T,) in turn stops as many of the rows
    still undecided as the errors still allowed permit. `scores` are (N, T), `positive`
    (N,) the full decisions.
    """
    lower, upper = np.full(len(order), -np.inf), np.full(len(order), np.inf)
    allowed = errors_allowed(alpha, len(scores))
    rows, sums = np.arange(len(scores)), np.zeros(len(scores))
    for r, model in enumerate(order[:-1]):
        if not len(rows):
            break
        sums = sums + scores[rows, model]
        lower[r], upper[r] = stop_most(sums, positive[rows], allowed, both)
        stays, errors = stays_and_errors(sums, positive[rows], lower[r], upper[r])
        allowed -= errors
        rows, sums = rows[stays], sums[stays]
    return lower, upper


class QuitFitter:
    """Thresholds by Algorithm 2 along one order.

    Parameters
    ----------
    scores, order, positive, both
        As for `fit_thresholds`.
    """

    def __init__(
        self, scores: Floats, order: Rows, positive: Flags, *, both: bool
    ) -> None:
        self.scores, self.order, self.positive = scores, order, positive
        self.both = both

    def within(self, alpha: float) -> Thresholds:
        """Thresholds of the algorithm for `alpha`."""
        return fit_thresholds(
            self.scores, self.order, self.positive, alpha, both=self.both
        )

    def ladder(self) -> Iterator[Thresholds]:
        """Thresholds for growing shares of changed decisions, for calibration."""
        track = SumTrack(self.scores, self.order, self.positive)
        yield from widened(*self.within(0.0), spread_of(track))
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


def stays_and_errors(
    sums: Floats, positive: Flags, lower: float, upper: float
) -> tuple[Flags, int]:
    """Find which rows go on, and how many of the others stop on the wrong side."""
    low, high = sums < lower, sums > upper
    errors = np.count_nonzero(low & positive) + np.count_nonzero(high & ~positive)
    return ~(low | high), int(errors)


def fit_jointly(
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
    pool = Pool(scores, positive)
    count = len(pool.models)
    lower, upper = np.full(count, -np.inf), np.full(count, np.inf)
    allowed = errors_allowed(alpha, len(scores))
    order, done = [], np.zeros(len(costs.features), np.bool_)
    for r in range(count - 1):
        if not len(pool):
            break
        stopped = stops_each(pool, allowed, both, threads)
        with np.errstate(divide="ignore"):
            ratio = costs.next(pool.models, done) * len(pool) / stopped
        order.append(pool.take(int(np.argmin(ratio))))
        done |= costs.uses[order[-1]]
        lower[r], upper[r] = stop_most(pool.sums, pool.positive, allowed, both)
        stays, errors = stays_and_errors(pool.sums, pool.positive, lower[r], upper[r])
        allowed -= errors
        pool.keep(stays)
    return np.array([*order, *pool.models]), lower, upper


def stops_each(pool: Pool, allowed: int, both: bool, threads: int) -> Rows:
    """Count the rows that each unused base model could stop next."""

    def scan(columns: Rows) -> Rows:
        out = np.empty(len(columns), np.int64)
        count_stops(
            pool.scores,
            pool.rows,
            pool.sums,
            pool.positives,
            columns,
            allowed,
            both,
            out,
        )
        return out

    return over_columns(scan, pool.columns, threads)

"""Fit thresholds to a given order of base models by optimal stopping.

From the last base model back to the first, the cost of stopping a row is compared with
the cost of continuing. A wrong stop costs the same penalty at every position: the
smallest with which at most the share alpha of each class's decisions changes. A
decision of a class of which few may change costs more, in inverse proportion to their
number. The probability that a stop is wrong is estimated from rows with similar sums
(`log_odds`). Counting only whether the row's own stop is wrong would overfit.
"""

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from .algorithms import changes_allowed
from .fixed_sequence import RUNGS, Thresholds, widened
from .kernels.optimal_stopping import OWN, fill_levels, follow_cuts, improve_cuts
from .running_sums import RunningSums, list_entries, parted, spread_of, thresholds_at

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Rows = NDArray[np.int64]

SLACK = 0.25  # distance of cuts to the last wrong row, in standard deviations
PASSES = 3  # backward passes; more passes change nothing measurable
HALVINGS = 14  # steps of the binary search for the logarithm of the penalty


class Stopping:
    """A method to fit thresholds by optimal stopping, along one order of T base models.

    It keeps the rows sorted by number at each position, to find cuts for many
    penalties. "Number" and "cuts" are explained in `kernels/optimal_stopping.py`.
    `costs` (T,) are the costs of the positions. Unless `both`, rows stop low only.
    """

    def __init__(self, sums: RunningSums, *, costs: Floats, both: bool = True) -> None:
        self.sums, self.both = sums, both
        self.costs = np.ascontiguousarray(costs)
        self.rows = len(sums.final)
        self._list_rows()

    def _list_rows(self) -> None:
        """List the remaining rows of each position, sorted by number.

        The list of position r is `ids[starts[r]:starts[r + 1]]`, encoded by
        `list_entries`. A row is left out of later lists once it lies far beyond all
        rows that would stop wrongly: at least `SLACK` times the standard deviation of
        what later base models add. These are the rows outside the cuts `widest[:, r]`.
        Example:

            row       0      1      2      3      4
            number    -1     0.5    -1     3      -2
            positive  False  True   True   True   False

        The list is [4, 0, ~2, 1, 3], as rows 0 and 2 have equal numbers. A low stop of
        row 2 or a high stop of row 0 would be wrong. If the required distance is 0.3,
        rows 4, 1 and 3 lie far enough beyond both. So the widest cuts are (1, 3), and
        the next list has only rows 0 and 2.
        """
        last = len(self.costs)
        lists, flags, levels = [], [], []
        self.widest = np.zeros((2, last), np.int64)
        walk = self.sums.walk()
        for r, (values, positive) in enumerate(walk):
            ascending = np.argsort(values, kind="stable")
            rows, values = walk.rows[ascending], values[ascending]
            positive = positive[ascending]
            lists.append(list_entries(rows, values))
            flags.append(positive)
            a, b = 0, len(rows)
            if r < last - 1 and len(rows):
                slack = SLACK * float(np.std(self.sums.final[rows] - values))
                a, b = safe_cuts(values, positive, slack, self.both)
                self.widest[:, r] = a, b
            levels.append(self.likely(rows, values, positive, a, b))
            walk.rows = rows[a:b]
        self.ids, self.positive = np.concatenate(lists), np.concatenate(flags)
        self.levels = np.concatenate(levels)
        self.starts = np.cumsum([0, *map(len, lists)])

    def likely(
        self, rows: Rows, values: Floats, positive: Flags, a: int, b: int
    ) -> NDArray[np.uint8]:
        """Return the levels (n,) of listed rows: how likely each is to end positive.

        Of the rows outside [a, b), those that end positive have the level 255, others
        0.
        """
        levels = np.where(positive, np.uint8(255), np.uint8(0))
        if self.sums.border is not None and a < b:
            final = self.sums.final[rows]
            fill_levels(values, final, self.sums.border, a, b, levels)
        return levels

    def within(self, alphas: Floats) -> Thresholds:
        """Return thresholds that change at most the shares `alphas` of the decisions.

        `alphas` (K,) has a share for each class.
        """
        pairs = zip(alphas.tolist(), self._counts(alphas).tolist(), strict=True)
        allowed = np.array([changes_allowed(*pair) for pair in pairs])
        return self.thresholds(self.cheapest(allowed))

    def ladder(self, alphas: Floats) -> Iterator[Thresholds]:
        """Yield thresholds to calibrate, by increasing number of changed decisions."""
        weights = relative_prices(alphas * self._counts(alphas))
        careful, *bolder = self.penalties(RUNGS)
        first = self.thresholds(self.cuts(careful, weights))
        yield from widened(*first, spread_of(self.sums))
        for penalty in bolder:
            yield self.thresholds(self.cuts(penalty, weights))

    def _counts(self, alphas: Floats) -> Rows:
        return np.bincount(self.sums.decisions, minlength=len(alphas))

    def cuts(self, penalty: float, weights: Floats, passes: int = PASSES) -> Rows:
        """Return cuts (2, T) of low cost if wrong stops cost `penalty` times `weights`.

        `weights` (K,) are relative prices of changed decisions by class. The cuts begin
        as the widest cuts, and are improved in `passes` passes over all positions.
        """
        cuts = self.widest.copy()
        dearest = self.penalties(1)[0]
        prices = self.sums.prices(np.minimum(penalty * weights, dearest))
        for _ in range(passes):
            lists = self.ids, self.positive, self.levels, self.starts
            improve_cuts(*lists, self.costs, prices, self.both, self.widest, cuts)
        return cuts

    def outcome(self, cuts: Rows) -> tuple[float, Rows]:
        """Return (mean cost of a row, decisions of rows that stop wrong) under `cuts`.

        A decision is the position of the class that the whole ensemble chooses.
        """
        stop = np.empty(self.rows, np.int32)
        wrong = np.empty(self.rows, np.bool_)
        follow_cuts(self.ids, self.positive, self.starts, cuts, stop, wrong)
        return float(np.cumsum(self.costs)[stop].mean()), self.sums.decisions[wrong]

    def thresholds(self, cuts: Rows) -> Thresholds:
        """Return lower and upper thresholds, each (T,), that stop rows as `cuts` do."""
        last = len(self.costs)
        lower, upper = np.full(last, -np.inf), np.full(last, np.inf)
        walk = self.sums.walk()
        for r in range(last - 1):
            ids = self.ids[self.starts[r] : self.starts[r + 1]]
            walk.rows = np.where(ids >= 0, ids, ~ids)
            values, _ = next(walk)
            lower[r], upper[r] = thresholds_at(values, *cuts[:, r])
        return lower, upper

    def penalties(self, count: int) -> Floats:
        """Return `count` penalties to try, descending in equal ratios.

        The largest is more than any stop can save; the smallest is the cost of the
        cheapest position.
        """
        own = 1.0 if self.sums.border is None else OWN
        most = 2 * self.rows * self.costs.sum() / own
        return np.geomspace(most, self.costs.min(), count)

    def cheapest(self, allowed: Rows) -> Rows:
        """Return the cheapest cuts (2, T) found with at most `allowed` wrong stops.

        `allowed` (K,) are numbers of changed decisions by class. Only some penalties
        are tried, so cheaper cuts may exist.
        """
        weights = relative_prices(allowed.astype(np.float64))
        high, low = np.log(self.penalties(2))
        best = self.cuts(math.exp(high), weights)
        least, _ = self.outcome(best)
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            cuts = self.cuts(math.exp(middle), weights)
            mean, codes = self.outcome(cuts)
            if (np.bincount(codes, minlength=len(allowed)) > allowed).any():
                low = middle
            else:
                high = middle
                if mean < least:
                    best, least = cuts, mean
        return best


def relative_prices(allowed: Floats) -> Floats:
    """Return prices (K,) of changed decisions, in inverse proportion to `allowed` (K,).

    These are the numbers of decisions of each class that may change. The lowest price
    is 1, and the price is infinite if none may change, unless none of any class may.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(allowed.any(), allowed.max() / allowed, 1.0)


def safe_cuts(
    values: Floats, positive: Flags, slack: float, both: bool
) -> tuple[int, int]:
    """Return cuts (a, b) of ascending `values` (n,) with which no stop is wrong.

    `values[:a]` lie at least `slack` below all values that are `positive`, `values[b:]`
    at least `slack` above all others. Unless `both`, b is n.
    """
    lowest = values[positive].min(initial=np.inf) - slack
    highest = values[~positive].max(initial=-np.inf) + slack
    a = int(np.searchsorted(values, lowest))
    b = int(np.searchsorted(values, highest, side="right"))
    valid = np.flatnonzero(parted(values))
    a = int(valid[np.searchsorted(valid, a, side="right") - 1])
    b = int(valid[np.searchsorted(valid, b)])
    return a, b if both else len(values)

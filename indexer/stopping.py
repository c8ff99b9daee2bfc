"""Thresholds for a given order by optimal stopping: one price for every wrong stop.

QWYC's Algorithm 2 spends its errors first come, first served, and counts an exit as
one exit however many base models it saves. Here stopping a row is weighed against
what going on would truly cost that row, backwards from the last base model, and a
wrong stop costs the same `price` at every position. The price is then the least that
keeps the changed decisions within what is allowed.
"""

import math

import numpy as np
from numpy.typing import NDArray

from ._schedule_kernels import follow_cuts, improve_cuts
from .cuts import parted, thresholds_at

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

SLACK = 0.25  # of the residual's standard deviation, beyond the last wrong row
PASSES = 3  # backward passes; more change nothing measurable
HALVINGS = 14  # of the price's range of powers


class Stopping:
    """Where each row may stop along one order, kept sorted for many prices.

    A row is followed until it lies `SLACK` beyond every row that would stop wrongly
    there; later positions no longer see it, so the memory is 4 bytes for each row and
    position followed: at most half a score matrix.
    """

    def __init__(
        self,
        scores: Floats,
        order: Rows,
        positive: NDArray[np.bool_],
        *,
        costs: Floats,
        both: bool = True,
    ) -> None:
        self.scores, self.order = scores, order
        self.positive, self.both = positive, both
        self.costs = np.ascontiguousarray(costs[order])
        self.follow()

    def follow(self) -> None:
        """List the rows to consider at each position, by ascending running sum."""
        last = len(self.order)
        full = self.scores.sum(axis=1)
        lists, self.widest = [], np.zeros((2, last), np.int64)
        rows, sums = np.arange(len(full)), np.zeros(len(full))
        for r, model in enumerate(self.order):
            sums = sums + self.scores[rows, model]
            ascending = np.argsort(sums, kind="stable")
            rows, sums = rows[ascending], sums[ascending]
            lists.append(np.where(parted(sums)[:-1], rows, ~rows).astype(np.int32))
            if r < last - 1 and len(rows):
                slack = SLACK * float(np.std(full[rows] - sums))
                a, b = self.safe_cuts(sums, rows, slack)
                self.widest[:, r] = a, b
                rows, sums = rows[a:b], sums[a:b]
        self.ids = np.concatenate(lists)
        self.starts = np.cumsum([0, *map(len, lists)])

    def safe_cuts(self, sums: Floats, rows: Rows, slack: float) -> tuple[int, int]:
        """Cuts of ascending `sums` that lie `slack` beyond every wrong row."""
        positive = self.positive[rows]
        lowest = sums[positive].min(initial=np.inf) - slack
        highest = sums[~positive].max(initial=-np.inf) + slack
        a = int(np.searchsorted(sums, lowest))
        b = int(np.searchsorted(sums, highest, side="right"))
        valid = np.flatnonzero(parted(sums))
        a = int(valid[np.searchsorted(valid, a, side="right") - 1])
        b = int(valid[np.searchsorted(valid, b)])
        return a, b if self.both else len(sums)

    def cuts(self, price: float, passes: int = PASSES) -> Rows:
        """Cuts (2, T) that cost least when a wrong stop costs `price`."""
        cuts = self.widest.copy()
        for _ in range(passes):
            improve_cuts(
                self.ids,
                self.starts,
                self.positive,
                self.costs,
                price,
                self.both,
                self.widest,
                cuts,
            )
        return cuts

    def outcome(self, cuts: Rows) -> tuple[float, int]:
        """Mean cost per row, and the number of wrong stops, under `cuts`."""
        stop = np.empty(len(self.positive), np.int32)
        wrong = np.empty(len(self.positive), np.bool_)
        follow_cuts(self.ids, self.starts, self.positive, cuts, stop, wrong)
        return float(np.cumsum(self.costs)[stop].mean()), int(wrong.sum())

    def thresholds(self, cuts: Rows) -> tuple[Floats, Floats]:
        """Lower and upper thresholds (T,) that draw `cuts`."""
        last = len(self.order)
        lower, upper = np.full(last, -np.inf), np.full(last, np.inf)
        sums = np.zeros(len(self.positive))
        for r in range(last - 1):
            ids = self.ids[self.starts[r] : self.starts[r + 1]]
            rows = np.where(ids >= 0, ids, ~ids)
            sums[rows] += self.scores[rows, self.order[r]]
            lower[r], upper[r] = thresholds_at(sums[rows], *cuts[:, r])
        return lower, upper

    def prices(self, count: int) -> Floats:
        """Prices (count,), from where no wrong stop pays down to one base model's."""
        most = 2 * len(self.positive) * self.costs.sum()
        return np.geomspace(most, self.costs.min(), count)

    def cheapest(self, allowed: int) -> Rows:
        """Cuts that cost least among those with at most `allowed` wrong stops."""
        high, low = np.log(self.prices(2))
        best = self.cuts(math.exp(high))
        least, _ = self.outcome(best)
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            cuts = self.cuts(math.exp(middle))
            mean, errors = self.outcome(cuts)
            if errors > allowed:
                low = middle
            else:
                high = middle
                if mean < least:
                    best, least = cuts, mean
        return best

"""One budget for a stream of items, given out chunk by chunk."""

from collections.abc import Sequence

import numpy as np

from .knapsack import Menu, Solution, share_of, solve

SAMPLE = 512
SLACK = 1 + 1e-9
# Items expected for each of those seen, where nobody knows how many come. With more,
# longer streams end well, and short ones spend less.
LASTING = 2.0


class StreamBudget:
    """Gives every chunk of a stream its part of the budget for all of it.

    Those to come are taken to be like a sample of those seen, and as many as `count`
    says, or `LASTING` times as many as were seen. A chunk gets the share that it would
    have if all were solved at once. What it leaves is there for the next.

    Parameters
    ----------
    count
        How many items come in all; None where nobody knows.

    Attributes
    ----------
    seen
        Items that had their turn.
    """

    def __init__(self, count: int | None = None) -> None:
        self._count = count
        self._sample: list[Menu] = []
        self._random = np.random.default_rng(0)
        self.seen = 0

    def to_come(self, now: int = 0) -> float:
        """Return how many items are expected after those seen and `now` more."""
        if self._count is None:
            return LASTING * (self.seen + now)
        return max(self._count - self.seen - now, 0)

    def choose(self, menus: Sequence[Menu], left: float) -> Solution:
        """Choose the plans of the next items, by what is `left` for all to come."""
        if not menus:
            return solve(menus, left)
        self._remember(menus)
        share = share_of(menus, self._sample, self.to_come(len(menus)), left)
        self.seen += len(menus)
        # a share is a sum, and solving it adds the same costs in another order
        return solve(menus, min(share * SLACK, left))

    def _remember(self, menus: Sequence[Menu]) -> None:
        """Keep a uniform sample of all menus (Vitter's Algorithm R)."""
        for number, menu in enumerate(menus, self.seen):
            if len(self._sample) < SAMPLE:
                self._sample.append(menu)
                continue
            place = int(self._random.integers(number + 1))
            if place < SAMPLE:
                self._sample[place] = menu

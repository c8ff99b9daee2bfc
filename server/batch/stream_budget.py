"""One budget for a stream of items, given out chunk by chunk."""

from collections.abc import Sequence

import numpy as np

from .knapsack import Hull, Solution, share_of, solve

SAMPLE = 512
SLACK = 1 + 1e-9
# If the count is unknown: expected number of items to come for each item seen. A larger
# number saves more budget for the end of long streams, but short streams leave more of
# theirs unspent.
LASTING = 2.0


class StreamBudget:
    """Gives each chunk of a stream its share of the budget for the whole stream.

    Items to come are expected to be like a sample of the items seen. Their number
    follows from `count`, or is `LASTING` times the number seen. A chunk gets the share
    that it would have if the whole stream were solved at once; the next chunk can spend
    what this one leaves.
    """

    def __init__(self, count: int | None = None) -> None:
        self._count = count
        self._sample: list[Hull] = []
        self._random = np.random.default_rng(0)
        self.seen = 0

    def to_come(self, now: int = 0) -> float:
        """Return the number of items expected after the items seen and `now` more."""
        if self._count is None:
            return LASTING * (self.seen + now)
        return max(self._count - self.seen - now, 0)

    def choose(self, hulls: Sequence[Hull], left: float) -> Solution:
        """Choose the plans of the next items.

        `left` is the budget for these items and all items to come.
        """
        if not hulls:
            return solve(hulls, left)
        self._remember(hulls)
        share = share_of(hulls, self._sample, self.to_come(len(hulls)), left)
        self.seen += len(hulls)
        # `solve` adds the same costs in another order, so its sum may round differently
        return solve(hulls, min(share * SLACK, left))

    def _remember(self, hulls: Sequence[Hull]) -> None:
        """Keep a uniform sample of all hulls (Vitter's Algorithm R)."""
        for number, hull in enumerate(hulls, self.seen):
            if len(self._sample) < SAMPLE:
                self._sample.append(hull)
                continue
            place = int(self._random.integers(number + 1))
            if place < SAMPLE:
                self._sample[place] = hull

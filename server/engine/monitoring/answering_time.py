"""The answering time: what an answer takes besides its features and its model."""

import math

# Relative rise of the estimate after an answer that takes too long.
STEP = 0.05
# The first step is longer, so that a server soon knows its own machine; after SETTLING
# answers, steps are half as long, and after nine times as many, they are STEP.
FIRST_STEP = 0.5
SETTLING = 100
# Bounds of the estimate in seconds. Whatever slows the machine, a budget then still has
# time for some plans. The upper bound is `overhead_s` if that is more.
SHORTEST_S, LONGEST_S = 1e-7, 2e-4


class AnsweringTime:
    """Estimates the time to plan, to begin the work, and to fill in the answer.

    A build measures only the time to begin the work, `overhead_s`, which is the first
    estimate. An answer should take as long as its features and its model, by the cost
    curves, plus `more_s`: the estimate minus `overhead_s`, which may be negative.

    The estimate rises after every answer that takes longer, and falls after every other
    answer, so that a share 1 - `quantile` takes longer. This is the stochastic
    approximation of `CostDrift`, with two differences: the estimate is added to
    predictions, because it is the same for cheap and expensive plans, and it follows
    the wall clock. Of N answers, whatever their times are, the share that takes too
    long is at most `1 - quantile + (log(LONGEST_S / SHORTEST_S) + FIRST_STEP) / (STEP *
    N)`, unless the estimate was cut off at its upper bound.
    """

    __slots__ = (
        "_answers",
        "_late",
        "_longest_s",
        "_overhead_s",
        "_seconds",
        "more_s",
    )

    def __init__(self, overhead_s: float = 0.0, quantile: float = 0.99) -> None:
        self._overhead_s = self._seconds = overhead_s
        self._longest_s = max(LONGEST_S, overhead_s)
        self._late = 1 - quantile
        self._answers = 0
        # Seconds to add to a predicted cost, which includes `overhead_s`
        self.more_s = 0.0

    def add(self, exceeded: int, answers: int = 1) -> None:
        """Update the estimate: `exceeded` of so many `answers` took longer than it.

        If two threads call this at the same time, one update may be lost.
        """
        self._answers += answers
        step = max(STEP, FIRST_STEP / (1 + self._answers / SETTLING))
        factor = math.exp(step * (exceeded - self._late * answers))
        seconds = max(self._seconds, SHORTEST_S) * factor
        self._seconds = min(max(seconds, SHORTEST_S), self._longest_s)
        self.more_s = self._seconds - self._overhead_s

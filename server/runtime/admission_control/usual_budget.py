"""The budgets that most requests have, by which admission control lets them wait."""

import math

# The share of requests with a smaller budget, and the relative change per request.
SHARE, STEP = 0.1, 0.02


class UsualBudget:
    """A low quantile of the budgets of recent requests, in seconds.

    Only the event loop may use this object. `seconds` is at first `default_s`, the
    server's default budget. Each request moves it a little: up by `STEP * SHARE`, or
    down by `STEP * (1 - SHARE)`, so that about the share `SHARE` of the budgets is
    smaller (stochastic approximation of a quantile).
    """

    __slots__ = ("seconds",)

    def __init__(self, default_s: float) -> None:
        self.seconds = default_s

    def add(self, budget_s: float) -> None:
        """Follow a request's budget; those without a time limit do not count."""
        if budget_s > self.seconds:
            if budget_s < math.inf:
                self.seconds *= 1 + STEP * SHARE
        elif 0 < budget_s < self.seconds:
            self.seconds *= 1 - STEP * (1 - SHARE)

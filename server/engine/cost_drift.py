"""How much longer plans take than the cost curves say, followed while serving."""

import math
from threading import Lock

from polydom.features.errors import BadInput

# One plan that takes too long raises the factor by about so much: a machine that turns
# twice as slow is followed within log(2) / STEP = 14 plans, and a single stall, however
# long, costs 5 % of a budget.
STEP = 0.05
# Not more: whatever the cause is, a server that plans for less still answers something.
LARGEST = 4.0
# Cheaper plans are not judged: half of their time is the interpreter's, which no curve
# of a feature describes.
LEAST_S = 2e-4
# What was learned holds for so long after the last plan that took too long, and is then
# doubted until nothing of it is left: machines recover without a plan to tell it.
HOLD_S, FORGET_S = 0.5, 1.0
# Share of a doubt that one more plan in time confirms. Until then what was learned is
# remembered, so that the first plan that takes too long brings it back at once.
CONFIRMED = 0.125


class CostDrift:
    """A factor on every predicted time, so that 1 - q of the plans exceed it.

    The logarithm of the factor rises by `step * q` for every plan that took longer
    than predicted and falls by `step * (1 - q)` for every other one. That is the
    stochastic approximation of a quantile (Robbins and Monro, 1951) with a step that
    does not shrink, so that it goes on following (Gibbs and Candes, Adaptive Conformal
    Inference Under Distribution Shift, 2021). It also falls with time: from `HOLD_S`
    after the last plan that took too long until `FORGET_S`, when the factor is 1.

    Whatever the times are, among N plans in T seconds the share that exceeds is at most
    `1 - q + (log(largest) * (1 + T / HOLD_S) + step) / (step * N)` as long as
    `bound_hits` is 0. The factor is never below 1, and one for all features: what slows
    machines down slows all. Safe to share between threads.

    Parameters
    ----------
    quantile
        q, the share of plans that the curves should cover, between 0 and 1.
    step
        How fast to follow, above 0.
    largest
        Bound of the factor, above 1.

    Raises
    ------
    BadInput
        If the quantile is none.

    Attributes
    ----------
    factor
        What was learned, from 1 to `largest`, whenever that was; for now, see `at`.
    plans
        How many plans were learned from.
    bound_hits
        How often the factor would have risen above `largest`.
    """

    __slots__ = (
        "_fall",
        "_learned",
        "_lock",
        "_log_largest",
        "_rise",
        "bound_hits",
        "factor",
        "plans",
    )

    def __init__(
        self, quantile: float = 0.99, *, step: float = STEP, largest: float = LARGEST
    ) -> None:
        if not 0 < quantile < 1:
            raise BadInput(f"quantile is {quantile!r}; between 0 and 1 is needed")
        self._rise = step * quantile
        self._fall = step * (1 - quantile)
        # the logarithm, and when a plan last took too long; one value for all threads
        self._learned = 0.0, -math.inf
        self._log_largest = math.log(largest)
        self._lock = Lock()
        self.factor = 1.0
        self.plans = self.bound_hits = 0

    def at(self, now_s: float) -> float:
        """Return what to multiply predicted times with; from 1 to `largest`."""
        log, since_s = self._learned
        return math.exp(log * _kept(now_s - since_s)) if log else 1.0

    def add(self, exceeded: bool, now_s: float) -> None:
        """Learn from a plan that ended at `now_s`.

        `exceeded` says whether it took longer than was predicted, factor and all.
        """
        with self._lock:
            self.plans += 1
            log, since_s = self._learned
            if exceeded:
                log, since_s = log + self._rise, now_s
            elif log:
                doubt = log * (1 - _kept(now_s - since_s))
                log = max(log - max(self._fall, CONFIRMED * doubt), 0.0)
            else:
                return
            if log > self._log_largest:
                log = self._log_largest
                self.bound_hits += 1
            self._learned = log, since_s
            self.factor = math.exp(log)


def _kept(silence_s: float) -> float:
    """Share of what was learned that still holds so long after the last proof."""
    return min(max((FORGET_S - silence_s) / (FORGET_S - HOLD_S), 0.0), 1.0)

"""Track, while serving, the factor by which plans take longer than predicted."""

import math
from threading import Lock

from polydom.features.errors import BadInput

# Relative rise of the factor after one plan that takes too long. If a machine becomes
# twice as slow, the factor follows within log(2) / STEP = 14 plans. A single stall of
# any length costs 5 % of a budget.
STEP = 0.05
# Upper bound of the factor. Whatever slows the machine, the server then still has time
# for some plans, and answers.
LARGEST = 4.0
# Plans with shorter predictions are not timed: the interpreter takes half of their
# time, and no cost curve includes it.
LEAST_S = 2e-4
# After the last plan that took too long, the factor holds for HOLD_S, then falls to 1
# until FORGET_S. So it recovers even if no further plan is timed.
HOLD_S, FORGET_S = 0.5, 1.0
# Each plan in time makes this share of the fall permanent. Before that, the next plan
# that takes too long restores the factor at once.
CONFIRMED = 0.125


class CostDrift:
    """A factor for predicted times, so that only a share 1 - q of plans takes longer.

    The logarithm of the factor rises by `step * q` for every plan that took longer than
    predicted (with the factor), and falls by `step * (1 - q)` for every other plan.
    This is the stochastic approximation of a quantile (Robbins and Monro, 1951) with a
    step that does not shrink, so that the factor follows changes (Gibbs and Candes,
    Adaptive Conformal Inference Under Distribution Shift, 2021). The factor also falls
    without plans: from `HOLD_S` to `FORGET_S` seconds after the last plan that took too
    long, it falls to 1.

    Of N plans in T seconds, whatever their times are, the share that takes too long is
    at most `1 - q + (log(largest) * (1 + T / HOLD_S) + step) / (step * N)`, unless the
    factor was cut off at `largest` (`bound_hits` > 0). All features share one factor,
    because a slow machine slows all of them. Threads may share the object. `quantile`
    is q; BadInput is raised if q is not in (0, 1).
    """

    def __init__(
        self, quantile: float = 0.99, *, step: float = STEP, largest: float = LARGEST
    ) -> None:
        if not 0 < quantile < 1:
            raise BadInput(f"quantile is {quantile!r}; between 0 and 1 is needed")
        self._rise = step * quantile
        self._fall = step * (1 - quantile)
        # the factor's logarithm, and the time when a plan last took too long; one
        # tuple, so that threads never see a new value with an old one
        self._learned = 0.0, -math.inf
        self._log_largest = math.log(largest)
        self._lock = Lock()
        self.factor = 1.0  # factor after the last plan; `at` returns the current factor
        self.plans = 0  # number of plans that were timed
        # number of times that the factor would have exceeded `largest`
        self.bound_hits = 0

    def at(self, now_s: float) -> float:
        """Return the factor at `now_s`, a number from 1 to `largest`."""
        log, since_s = self._learned
        return math.exp(log * _kept(now_s - since_s)) if log else 1.0

    def add(self, exceeded: bool, now_s: float) -> None:
        """Update the factor after a plan that ended at `now_s`.

        `exceeded` is True if the plan took longer than its prediction times the factor.
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
    return min(max((FORGET_S - silence_s) / (FORGET_S - HOLD_S), 0.0), 1.0)

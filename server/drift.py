"""How much longer plans take than the cost curves say, followed while serving."""

import math

from ..features.errors import BadInput

# One plan that takes too long raises the factor by about so much: a machine that turns
# twice as slow is followed within log(2) / STEP = 14 plans, and a single stall, however
# long, costs 5 % of a budget.
STEP = 0.05
# Not more: whatever the cause is, a server that plans for less still answers something.
LARGEST = 4.0
# Cheaper plans are not judged: half of their time is the interpreter's, which no curve
# of a feature describes, and they would raise the factor for the dear ones.
LEAST_S = 2e-4


class Drift:
    """A factor on every predicted time, so that 1 - q of the plans exceed it.

    The logarithm of the factor rises by `step * q` for every plan that took longer
    than predicted and falls by `step * (1 - q)` for every other one. That is the
    stochastic approximation of a quantile (Robbins and Monro, 1951) with a step that
    does not shrink, so that it goes on following (Gibbs and Candes, Adaptive Conformal
    Inference Under Distribution Shift, 2021). Whatever the times are, among N plans
    the share that exceeds is at most `1 - q + (log(largest) + step) / (step * N)` as
    long as `bound_hits` is 0.

    The factor is never below 1: predictions do not fall below the measured curves.
    Not for several threads at once, but `factor` may be read from any.

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
        What to multiply predicted times with; from 1 to `largest`.
    bound_hits
        How often the factor would have risen above `largest`.
    """

    __slots__ = ("_fall", "_log", "_log_largest", "_rise", "bound_hits", "factor")

    def __init__(
        self, quantile: float = 0.99, *, step: float = STEP, largest: float = LARGEST
    ) -> None:
        if not 0 < quantile < 1:
            raise BadInput(f"quantile is {quantile!r}; between 0 and 1 is needed")
        self._rise = step * quantile
        self._fall = step * (1 - quantile)
        self._log = 0.0
        self._log_largest = math.log(largest)
        self.factor = 1.0
        self.bound_hits = 0

    def add(self, exceeded: bool) -> None:
        """Take one more plan into account.

        Parameters
        ----------
        exceeded
            Whether it took longer than was predicted with the factor of that time.
        """
        if exceeded:
            self._log += self._rise
        elif self._log:
            self._log = max(self._log - self._fall, 0.0)
        else:
            return
        if self._log > self._log_largest:
            self._log = self._log_largest
            self.bound_hits += 1
        self.factor = math.exp(self._log)

"""Which features to compute next, while a request's time runs: any-time Poly-Dom.

ICSP leaves this open (section 6.2). Here the time that is left is looked at after every
feature. Towards each stored set lies a sequence of features, and on the way lie
answers; each is reached in time with a chance that follows from what its features take
typically and at worst. The set with the largest expected quality at the deadline is
aimed at, one feature is computed, and all is asked again. So a dear set may be aimed
at, since what lies on the way secures an answer. But nothing is begun unless a better
answer than there is already will more likely than not come of it.
"""

from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from polydom.features.costs.curve import CostTable
from polydom.features.costs.polynomials import cost_at, monomials
from polydom.features.sizes import Size

from .kernels.expected_quality import best_within, most_promising
from .package import Package

Floats = NDArray[np.float64]


class NodeCosts(NamedTuple):
    """What features and steps take at one item's size.

    Attributes
    ----------
    feature_s : (2, m) float64
        Typical and high seconds.
    step_s : (2, s) float64
    """

    feature_s: Floats
    step_s: Floats


@dataclass(frozen=True, slots=True, eq=False)
class AnytimeRule:
    """Which feature to compute next, for one index; immutable.

    Attributes
    ----------
    costs
        High cost curves of features and steps.
    typical_features : (m,), typical_steps : (s,)
        Median time as a share of what the curve says.
    masks : (C,) int64
        Stored sets.
    qualities : (C,) float64
    orders : (C, K) int32
        Features of each set in the order to compute them, then -1.
    gains : (C, K + 1) float64
        Quality of what answers after each of them.
    needs : (m,) int64
        Masks of the steps that each feature needs.
    model_s : (C,) float64
    quantiles : float
        Standard deviations between the median and the quantile of the curves.
    """

    costs: CostTable
    typical_features: Floats
    typical_steps: Floats
    masks: NDArray[np.int64]
    qualities: Floats
    orders: NDArray[np.int32]
    gains: Floats
    needs: NDArray[np.int64]
    model_s: Floats
    quantiles: float

    @classmethod
    def of(cls, package: Package, qualities: Floats, quantile: float) -> Self:
        """Prepare the rule for a package, whose curves lie at `quantile` of the times.

        Where no typical times are known, all are taken to be as the curves say. A
        quantile at or below the median tells of no spread and counts as 0.99.
        """
        costs, orders = package.costs, package.orders
        m, longest = len(costs.needs), max(map(len, orders))
        table = np.full((len(orders), longest), -1, np.int32)
        gains = np.zeros((len(orders), longest + 1))
        for row, order in enumerate(orders):
            table[row, : len(order)] = order
            gains[row, : len(order) + 1] = qualities[list(package.fallbacks[row])]
        shares = package.typical
        if not len(shares):
            shares = np.ones(m + len(costs.step_coefficients))
        needs = [sum(1 << step for step in steps) for steps in costs.needs]
        return cls(
            costs,
            shares[:m],
            shares[m:],
            package.masks.astype(np.int64),
            np.ascontiguousarray(qualities),
            table,
            gains,
            np.array(needs, np.int64),
            np.ascontiguousarray(package.model_s),
            NormalDist().inv_cdf(quantile if quantile > 0.5 else 0.99),
        )

    def at(self, size: Size) -> NodeCosts:
        """Work out once per item what its features and steps take."""
        terms = monomials([size], len(self.costs.overhead))[0]
        feature_s = self.costs.feature_coefficients @ terms
        step_s = self.costs.step_coefficients @ terms
        return NodeCosts(
            np.array([feature_s * self.typical_features, feature_s]),
            np.array([step_s * self.typical_steps, step_s]),
        )

    def answer(self, done: int) -> int:
        """Row of the most accurate set within the features `done` (a mask)."""
        return int(best_within(self.masks, self.qualities, done))

    def target(
        self,
        at: NodeCosts,
        done: int,
        left: float,
        withheld: int = 0,
        *,
        careful: bool = True,
    ) -> int:
        """Row to go towards, -1 where stopping is best.

        Parameters
        ----------
        at
            From `at`.
        done
            Mask of the features that are computed; their steps are.
        left
            Seconds that remain.
        withheld
            Mask of the features that cannot be computed.
        careful
            Only begin what is done in time even if it takes its high seconds, now and
            at every feature after, and only if that promises more than the chance of
            being late all the same may lose.
            Without, the caller must be able to answer while a feature is computed.
        """
        quality = float(self.qualities[self.answer(done)])
        return int(
            most_promising(
                self.masks,
                self.orders,
                self.gains,
                self.model_s,
                self.needs,
                at.feature_s,
                at.step_s,
                withheld,
                done,
                quality,
                left,
                self.quantiles,
                careful,
            )
        )

    def next(self, row: int, done: int) -> int:
        """First feature of a row's order that is not done."""
        order: list[int] = self.orders[row].tolist()
        return next(feature for feature in order if not done >> feature & 1)

    def high_s(self, at: NodeCosts, done: int, feature: int) -> float:
        """High seconds of a feature, and of the steps that it is the first to need."""
        paid = 0
        for other in range(len(self.needs)):
            if done >> other & 1:
                paid |= int(self.needs[other])
        fresh = int(self.needs[feature]) & ~paid
        seconds = float(at.feature_s[1, feature])
        for step in range(at.step_s.shape[1]):
            if fresh >> step & 1:
                seconds += float(at.step_s[1, step])
        return seconds

    def overhead_s(self, size: Size) -> float:
        """High seconds of what every plan pays."""
        return cost_at(self.costs.overhead.tolist(), size)

"""Choice of the next feature to compute while a request's time runs: any-time Poly-Dom.

ICSP leaves this rule open (section 6.2). After each feature, the rule chooses the
stored set with the largest expected quality at the deadline, and then the first missing
feature of that set. On the way to the set, smaller sets can answer, too. Each of these
answers counts with the probability that it is ready in time, which is computed from the
median and the high times of features. So the rule may choose a set that is unlikely to
be ready in time, if smaller sets on the way are. No feature starts unless a better
answer is more likely than not.
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
    """Median and high times of features and steps, for an item of one size.

    High times are those of the cost curves, which follow a high quantile.
    """

    feature_s: Floats  # (2, m) float64: Typical and high seconds of each feature
    step_s: Floats  # (2, s) float64: Typical and high seconds of each step


@dataclass(frozen=True, slots=True, eq=False)
class AnytimeRule:
    """Chooses the next feature to compute for a request; immutable.

    A rule serves all requests to one index.
    """

    costs: CostTable  # High cost curves of features and steps
    # `typical_features` (m,) and `typical_steps` (s,): Median time as a share of the
    # high cost curve
    typical_features: Floats
    typical_steps: Floats
    masks: NDArray[np.int64]  # (C,) int64: Feature set of each candidate
    qualities: Floats  # (C,) float64: Quality of each candidate
    # (C, K) int32: Features of each candidate in the order of computing, then -1
    orders: NDArray[np.int32]
    # (C, K + 1) float64: Quality of the best answer after each feature of an order
    gains: Floats
    needs: NDArray[np.int64]  # (m,) int64: Steps that each feature needs, as masks
    model_s: Floats  # (C,) float64: Seconds of each candidate's model
    # Distance from the median to the quantile of the curves, in standard deviations
    deviations: float
    # In less than these seconds no feature surely ends, whatever the item's size
    least_s: float = 0.0

    @classmethod
    def of(cls, package: Package, qualities: Floats, quantile: float) -> Self:
        """Prepare the rule for a package whose candidates have `qualities` (C,).

        `quantile` is the quantile of measured times that the cost curves follow.
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
        fixed, steps_s = costs.feature_coefficients[:, 0], costs.step_coefficients[:, 0]
        least = [
            max([own, *steps_s[list(steps)]])
            for own, steps in zip(fixed, costs.needs, strict=True)
        ]
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
            float(min(least)),
        )

    def at(self, size: Size) -> NodeCosts:
        """Return the times of features and steps for an item of a size."""
        terms = monomials([size], len(self.costs.overhead))[0]
        feature_s = self.costs.feature_coefficients @ terms
        step_s = self.costs.step_coefficients @ terms
        return NodeCosts(
            np.array([feature_s * self.typical_features, feature_s]),
            np.array([step_s * self.typical_steps, step_s]),
        )

    def answer(self, done: int) -> int:
        """Return the row of the best candidate whose features are all computed.

        `done` is the mask of computed features.
        """
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
        """Return the row of the set to compute next; -1 if it is better to stop.

        `at` is the result of the method `at`. `done` is the mask of computed features,
        and `withheld` of features that cannot be computed. `left` is the time left in
        seconds. If `careful` is true, a feature starts only if its high time is left,
        and the expected gain must outweigh the risk of answering late. Pass False if
        the request can be answered while a feature is being computed.
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
                self.deviations,
                careful,
            )
        )

    def next(self, row: int, done: int) -> int:
        """Return the first feature in a row's order that is not in the mask `done`."""
        order: list[int] = self.orders[row].tolist()
        return next(feature for feature in order if not done >> feature & 1)

    def high_s(self, at: NodeCosts, done: int, feature: int) -> float:
        """Return a feature's high seconds, with those of its steps not yet computed.

        `done` is the mask of computed features, whose steps are computed, too.
        """
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
        """Return the high seconds that every plan takes in addition to its features."""
        return cost_at(self.costs.overhead.tolist(), size)

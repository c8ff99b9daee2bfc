"""The plan of a feature set, with checkpoints, and the choice of a plan."""

import math
import operator
from dataclasses import dataclass
from itertools import accumulate

import msgspec
import numpy as np

from polydom.features.costs.polynomials import cost_at
from polydom.features.sizes import Size
from polydom.indexer.index.index import Index
from polydom.indexer.index.package import Package

from ...schema.wire import Reason

Coefficients = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """The K features of one candidate of the index, in the order of their computation.

    Checkpoint k is the point before feature k; checkpoint K is after the last feature.
    """

    row: int  # Row of the candidate in the index
    features: tuple[int, ...]  # (K,): Positions of the features in the extractor
    # (K + 1,): Row whose model answers if the work stops at checkpoint k. It is the
    # most accurate row whose features are all computed.
    answers: tuple[int, ...]
    # (K + 1,): Cost polynomial, constant first, of the features before checkpoint k
    begun: tuple[Coefficients, ...]
    # (K,): Cost polynomial from checkpoint k to the next checkpoint with a better
    # answer; it includes the features between, and the model. None if no later answer
    # is better.
    ahead: tuple[Coefficients | None, ...]
    # (K + 1,): If the best class leads the second by more than this, the model of
    # checkpoint k answers early. Infinite without an exit there.
    margins: tuple[float, ...]
    exits: bool  # True if any margin is finite

    def worth_going_on(self, k: int, size: Size, left: float) -> bool:
        """Return True if a better answer than at checkpoint k costs at most `left`.

        k must be less than K. The cost is that of the work after checkpoint k, for an
        item of `size`.
        """
        ahead = self.ahead[k]
        return ahead is not None and cost_at(ahead, size) <= left


class Choice(msgspec.Struct, frozen=True):
    """A plan chosen for a request, with its cost and the reason for the choice."""

    plan: Plan  # Plan to carry out
    cost: float  # Predicted cost, multiplied by the drift at the time of the choice
    # None for the most accurate plan at this size. "budget" if a better plan does not
    # fit the budget; "waited" if it would fit, had the request not waited for others;
    # "pressure" if a cheaper plan was taken because others wait; "missing" if a better
    # plan needs columns that the record lacks; "infeasible" if no acceptable plan fits.
    reason: Reason | None
    drift: float = 1.0  # Correction factor that `cost` includes
    late: bool = False  # True if the plan is carried out although it exceeds the budget
    # Budget left at the choice; infinite if a larger budget would not change the choice
    left: float = math.inf


def make_plans(index: Index) -> tuple[Plan, ...]:
    """Return the plans of all candidates of an index, which must have a package."""
    package = index.package
    assert package is not None
    qualities = [float(quality) for quality in index.qualities]
    return tuple(
        _make_plan(package, qualities, row) for row in range(len(package.masks))
    )


def _make_plan(package: Package, qualities: list[float], row: int) -> Plan:
    order = package.orders[row]
    answers = (*package.fallbacks[row][:-1], row)
    gains = [qualities[answer] for answer in answers]
    never = (math.inf,) * len(answers)
    margins = package.margins[row] if package.margins else never
    done = accumulate((1 << feature for feature in order), operator.or_, initial=0)
    costs = package.costs.of_many(np.array([*done], np.uint64))
    ahead: list[Coefficients | None] = []
    for k in range(len(order)):
        better = next((j for j in range(k, len(gains)) if gains[j] > gains[k]), None)
        if better is None:
            ahead.append(None)
            continue
        # the difference counts shared steps only once
        between = costs[better] - costs[k]
        exits = [j for j in range(k + 1, better) if margins[j] < math.inf]
        checks_s = float(package.checked_s[[answers[j] for j in exits]].sum())
        between[0] += checks_s + float(package.model_s[answers[better]])
        ahead.append(tuple(between.tolist()))
    begun = tuple(map(tuple, costs.tolist()))
    exits_early = min(margins) < math.inf
    return Plan(row, order, answers, begun, tuple(ahead), margins, exits_early)

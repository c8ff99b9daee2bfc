"""What the server will do for a candidate: its features in order, with checkpoints."""

import math
import operator
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from polydom.features.costs.polynomials import cost_at
from polydom.features.sizes import Size
from polydom.indexer.index.index import Index
from polydom.indexer.index.package import Package

Coefficients = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """One candidate's features in the order to compute them; K of them.

    Before each feature, and after the last, there is a checkpoint k = 0 .. K.

    Attributes
    ----------
    row
        The candidate's row in the index.
    features : (K,)
        Positions of the features in the extractor.
    answers : (K + 1,)
        The row whose model answers if the work stops at checkpoint k: the most
        accurate one whose features are all computed by then.
    begun : (K + 1,)
        Cost polynomial, constant first, of the features before each checkpoint.
    ahead : (K,)
        Cost polynomial of what it takes from checkpoint k to the next answer that is
        better than stopping there: the features in between and that answer's model.
        None where no better answer lies ahead.
    margins : (K + 1,)
        Lead of the best class over the second beyond which the model of a checkpoint
        is sure enough to answer; infinite where work goes on.
    exits
        Whether any is finite.
    """

    row: int
    features: tuple[int, ...]
    answers: tuple[int, ...]
    begun: tuple[Coefficients, ...]
    ahead: tuple[Coefficients | None, ...]
    margins: tuple[float, ...]
    exits: bool

    def worth_going_on(self, k: int, size: Size, left: float) -> bool:
        """Say whether `left` still covers a better answer than stopping at k < K."""
        ahead = self.ahead[k]
        return ahead is not None and cost_at(ahead, size) <= left


def make_plans(index: Index) -> tuple[Plan, ...]:
    """Lay out the plan of every row of an index that has a package."""
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
        between = costs[better] - costs[k]  # steps that both need count once
        exits = [j for j in range(k + 1, better) if margins[j] < math.inf]
        checks_s = float(package.checked_s[[answers[j] for j in exits]].sum())
        between[0] += checks_s + float(package.model_s[answers[better]])
        ahead.append(tuple(between.tolist()))
    begun = tuple(map(tuple, costs.tolist()))
    exits_early = min(margins) < math.inf
    return Plan(row, order, answers, begun, tuple(ahead), margins, exits_early)

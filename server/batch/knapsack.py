"""Plans for many items under one budget: a multiple-choice knapsack.

Each item gets exactly one plan. The costs of all plans sum to at most the budget, and
the sum of expected qualities is to be as large as possible. A greedy algorithm on
concave hulls comes close (Dyer 1984; Zemel 1984; Kellerer, Pferschy, Pisinger:
*Knapsack Problems*, 2004, section 11.2): begin with the cheapest plan of every item,
then take steps to the next plan on each hull, in descending order of quality gained per
cost. The result misses the optimum by less than the gain of one step. The ICSP paper
does not solve this problem.

The quality gained per cost is the slope of a step. Since steps are taken in the order
of their slopes, a threshold describes the solution: all steps above one slope are
taken. That slope is the Lagrange multiplier of the budget. Given the slope, the plan of
each item depends on that item alone, on any machine and in any order.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from polydom.features.costs.polynomials import costs_at
from polydom.features.errors import BadInput
from polydom.features.items import Item
from polydom.features.sizes import Size
from polydom.indexer.index.index import Index
from polydom.indexer.index.package import mean_costs
from polydom.indexer.index.partial_lookup import PartialLookup

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Number of passes over the remaining steps that spend the rest of the budget.
PASSES = 16
KEPT_HULLS = 1 << 16
# Slopes within this relative distance count as equal. Two machines round costs
# differently, but must agree on which steps are worth exactly the threshold.
SAME = 1e-9


class Shape(NamedTuple):
    """The size of an item, and the features that cannot be computed for the item.

    The same plans are possible for items with equal shapes.
    """

    size: Size
    withheld: int = 0  # Mask of the features that cannot be computed for the item

    @classmethod
    def of(cls, item: Item) -> Self:
        """Return the shape of an item: its size and the features that it lacks."""
        return cls(item.size, item.withheld)


class Hull(NamedTuple):
    """The H plans of an item on the upper concave hull of quality over cost."""

    rows: Ints  # (H,) int64: Rows of the index
    # (H,) float64: Cost of each plan for this item, ascending, in the index's unit
    costs: Floats
    # (H,) float64: Expected quality of each plan, ascending; quality gained per cost
    # descends from step to step
    qualities: Floats

    @property
    def slopes(self) -> Floats:
        """Quality gained per cost by each step to the next plan, shape (H - 1,)."""
        slopes: Floats = np.diff(self.qualities) / np.diff(self.costs)
        return slopes


def make_hull(rows: Ints, costs: Floats, qualities: Floats) -> Hull:
    """Return the plans that lie on the upper concave hull of quality over cost.

    At least one plan is needed; plans may have any order. Of plans with equal quality,
    at most the cheapest is on the hull.
    """
    if len(rows) == 0:
        raise BadInput("an item without any plan cannot be answered")
    hull: list[int] = []
    slopes: list[float] = []
    cost, quality = costs.tolist(), qualities.tolist()
    for k in np.lexsort((-qualities, costs)).tolist():
        if hull and quality[k] <= quality[hull[-1]]:
            continue
        while hull:
            gap = cost[k] - cost[hull[-1]]
            slope = (quality[k] - quality[hull[-1]]) / gap if gap else np.inf
            if not slopes or slope < slopes[-1]:
                break
            hull.pop()
            slopes.pop()
        if hull:
            slopes.append(slope)
        hull.append(k)
    return Hull(rows[hull], costs[hull], qualities[hull])


class PlanCosts(NamedTuple):
    """Cost polynomials of an index's C candidates, with T coefficients each: (C, T)."""

    mean: Floats  # Average costs, which include the savings of early exits
    most: Floats  # Costs of plans that take no early exit


def plan_costs(index: Index, exact: bool = False) -> PlanCosts:
    """Return the mean costs and the largest costs of the plans of an index with models.

    If `exact`, every model is evaluated completely, so that all answers have scores.
    """
    package, most = index.package, index.coefficients
    assert package is not None
    if not (exact and package.early_exits):
        return PlanCosts(mean_costs(package, most), most)
    whole_model = most.copy()
    whole_model[:, 0] += package.checked_s - package.model_s
    if not package.ends:
        return PlanCosts(whole_model, whole_model)
    whole = replace(package, mean_s=package.checked_s)
    return PlanCosts(mean_costs(whole, most), whole_model)


class Hulls:
    """The hulls of all item shapes, each computed when it is first needed.

    A hull has those candidates of the index that are worth their cost at the shape.
    `costs` (C, T) are the candidates' cost polynomials, such as `PlanCosts.mean`.
    """

    def __init__(self, index: Index, costs: Floats) -> None:
        self._index = index
        self._costs = costs
        self._made: dict[Shape, Hull] = {}

    def of(self, shape: Shape) -> Hull:
        """Return the hull of an item with this shape; computed hulls are cached."""
        hull = self._made.get(shape)
        if hull is None:
            if len(self._made) >= KEPT_HULLS:
                self._made.clear()
            hull = self._made[shape] = self._make(shape)
        return hull

    def _make(self, shape: Shape) -> Hull:
        index, (size, withheld) = self._index, shape
        lookup = PartialLookup(index, withheld) if withheld else index.lookup
        rows = lookup.skyline(size)
        costs = costs_at(self._costs[rows], size)
        return make_hull(rows, costs, index.qualities[rows])


class Steps:
    """All T steps from one plan to the next plan on the hulls of N items."""

    def __init__(self, hulls: Sequence[Hull]) -> None:
        lengths = np.array([len(hull.rows) for hull in hulls], np.int64)
        starts = np.cumsum(lengths) - lengths
        costs = np.concatenate([hull.costs for hull in hulls])
        qualities = np.concatenate([hull.qualities for hull in hulls])
        is_step = np.ones(len(costs), bool)
        is_step[starts] = False
        at = np.flatnonzero(is_step)
        # (T,) int64: position of the item, and position on its hull after the step
        self.item = np.repeat(np.arange(len(hulls)), lengths - 1)
        self.place = at - starts[self.item]
        # (T,): cost of the step, and quality gained per cost
        self.costs = costs[at] - costs[at - 1]
        self.slopes = (qualities[at] - qualities[at - 1]) / self.costs
        rows = np.concatenate([hull.rows for hull in hulls])
        # (T,) int64: rows of the index before and after the step
        self.before, self.after = rows[at - 1], rows[at]
        # (N,): cost and row of each item's cheapest plan
        self.base_costs, self.base_rows = costs[starts], rows[starts]


class Threshold(NamedTuple):
    """The rule that decides which steps to costlier plans are worth their cost."""

    # Quality gained per cost at which the budget runs out. Steps above this slope are
    # taken, steps below are not; 0 takes every step, infinity takes none.
    slope: float
    share: float  # Share in [0, 1] of the steps with exactly this slope that are taken

    def taken(self, slopes: Floats) -> Floats:
        """Return the share, in [0, 1], of items that take each of T steps: shape (T,).

        The share is 1 for steps above the threshold's slope and 0 for steps below.
        """
        if not np.isfinite(self.slope):
            return np.zeros(len(slopes))
        tied = np.abs(slopes - self.slope) <= SAME * self.slope
        part: Floats = np.where(tied, self.share, slopes > self.slope)
        return part


def find_threshold(slopes: Floats, costs: Floats, left: float) -> Threshold:
    """Return the threshold at which all steps taken cost at most `left` together.

    `slopes` (T,), above 0, are the quality gained per cost by each step to a costlier
    plan. `costs` (T,) are the costs of the steps, each summed over the items for which
    the step stands.

    Examples
    --------
    Each of three steps costs 2. The best step is taken, and half of the other two,
    which have equal slopes:

    >>> find_threshold(np.array([0.1, 0.1, 0.3]), np.array([2.0, 2.0, 2.0]), left=4.0)
    Threshold(slope=0.1, share=0.5)
    """
    if left <= 0:
        return Threshold(np.inf, 0.0)
    order = np.argsort(-slopes, kind="stable")
    split = int(np.searchsorted(np.cumsum(costs[order]), left, side="right"))
    if split == len(order):
        return Threshold(0.0, 1.0)
    slope = float(slopes[order[split]])
    above = Threshold(slope, 0.0).taken(slopes)
    tied = Threshold(slope, 1.0).taken(slopes) - above
    share = (left - above @ costs) / (tied @ costs)
    return Threshold(slope, float(np.clip(share, 0.0, 1.0)))


class Solution(NamedTuple):
    """The plan chosen for each item, and the cost of all plans."""

    places: Ints  # (N,) int64: Position on each item's hull
    cost: float  # Cost of all plans together


def solve(hulls: Sequence[Hull], budget: float) -> Solution:
    """Choose a plan on each item's hull, so that the sum of qualities is large.

    The costs sum to at most `budget`. If even the cheapest plans cost more, every item
    gets its cheapest plan. The time is O(T log T) for T plans on all hulls.
    """
    if not hulls:
        return Solution(np.zeros(0, np.int64), 0.0)
    steps = Steps(hulls)
    left = budget - float(steps.base_costs.sum())
    order = np.argsort(-steps.slopes, kind="stable")
    spent = np.cumsum(steps.costs[order])
    count = int(np.searchsorted(spent, left, side="right")) if left > 0 else 0
    taken = np.zeros(len(order), bool)
    taken[order[:count]] = True
    if left > 0 and count < len(order):
        left -= float(spent[count - 1]) if count else 0.0
        _fill(steps, order, taken, left)
    places = np.bincount(steps.item[taken], minlength=len(hulls))
    cost = steps.base_costs.sum() + steps.costs[taken].sum()
    return Solution(places, float(cost))


def _fill(steps: Steps, order: Ints, taken: NDArray[np.bool_], left: float) -> None:
    """Take more steps, in the given `order`, that together cost at most `left`.

    Sets `taken` (T,) to True, in place, for each of these steps.
    """
    for _ in range(PASSES):
        too_dear = ~taken & (steps.costs > left)
        # no item may take a step after one of its steps that does not fit
        limit = np.full(len(steps.base_costs), np.iinfo(np.int64).max)
        np.minimum.at(limit, steps.item[too_dear], steps.place[too_dear])
        fits = ~taken & (steps.place < limit[steps.item])
        ahead = order[fits[order]]
        spent = np.cumsum(steps.costs[ahead])
        count = int(np.searchsorted(spent, left, side="right"))
        if count == 0:
            return
        taken[ahead[:count]] = True
        left -= float(spent[count - 1])


def share_of(
    hulls: Sequence[Hull], sample: Sequence[Hull], to_come: float, left: float
) -> float:
    """Return the part of the budget `left` that the items with these `hulls` get.

    The rest is for `to_come` more items; each hull of `sample` stands for an equal
    number of them. The budget is divided by solving the relaxed knapsack of all items,
    in which a step to a costlier plan can be taken in part. Of each step whose slope
    equals the threshold, the same part is taken.

    Examples
    --------
    One item has two plans, which cost 1 and 3, and three more like it are to come. Of
    a budget of 8, the four cheapest plans take 4. The four steps have equal slopes, so
    half of each step's cost of 2 is taken: 1 + 2 / 2 for each item.

    >>> hull = make_hull(np.arange(2), np.array([1.0, 3.0]), np.array([0.5, 0.9]))
    >>> share_of([hull], [hull], to_come=3, left=8.0)
    2.0
    """
    if to_come <= 0:
        return left
    steps = Steps([*hulls, *sample])
    # number of items that each hull stands for
    counts = np.ones(len(hulls) + len(sample))
    counts[len(hulls) :] = to_come / len(sample)
    cheapest = float(steps.base_costs[: len(hulls)].sum())
    left -= float(counts @ steps.base_costs)
    if left <= 0 or not len(steps.item):
        return cheapest
    costs = steps.costs * counts[steps.item]
    taken = find_threshold(steps.slopes, costs, left).taken(steps.slopes)
    own = steps.item < len(hulls)
    return cheapest + float(taken[own] @ steps.costs[own])

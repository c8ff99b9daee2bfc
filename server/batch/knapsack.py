"""Plans for many items under one budget: a multiple-choice knapsack.

Of every item exactly one plan is carried out; their costs add up to no more than the
budget, and their expected qualities to as much as possible. Solved by the greedy on
concave hulls (Dyer 1984; Zemel 1984; Kellerer, Pferschy, Pisinger: *Knapsack Problems*,
2004, section 11.2): start with everyone's cheapest plan and take the steps to the next
plan on each hull in the order of quality gained per cost. What it misses of the
optimum is less than the gain of one step. ICSP leaves this question open.
"""

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from polydom.features.costs.polynomials import costs_at
from polydom.features.errors import BadInput
from polydom.features.items import Item
from polydom.features.sizes import Size
from polydom.indexer.index.index import Index
from polydom.indexer.index.partial_lookup import PartialLookup

from .price import price_of

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Rounds in which what the greedy leaves is spent on steps further down.
ROUNDS = 16
KEPT_MENUS = 1 << 16


class Shape(NamedTuple):
    """All of an item that its menu depends on.

    Attributes
    ----------
    size
        Its size.
    withheld
        Mask of the features that cannot be computed of it.
    """

    size: Size
    withheld: int = 0

    @classmethod
    def of(cls, item: Item) -> Self:
        """Return that of an item."""
        return cls(item.size, item.withheld)


class Menu(NamedTuple):
    """The plans for one item that can be worth their cost under some price.

    Attributes
    ----------
    rows : (H,) int64
        Rows of the index.
    costs : (H,) float64
        What each costs on this item, ascending, in the index's unit.
    qualities : (H,) float64
        Expected qualities, ascending, and less and less so per cost.
    """

    rows: Ints
    costs: Floats
    qualities: Floats

    @property
    def slopes(self) -> Floats:
        """(H - 1,) quality per cost that each step to the next plan adds."""
        slopes: Floats = np.diff(self.qualities) / np.diff(self.costs)
        return slopes


class Solution(NamedTuple):
    """Which plan everyone gets.

    Attributes
    ----------
    places : (N,) int64
        Position in each item's menu.
    cost
        Of all items together.
    """

    places: Ints
    cost: float


def make_menu(rows: Ints, costs: Floats, qualities: Floats) -> Menu:
    """Keep of some plans those on the upper concave hull of quality over cost.

    Parameters
    ----------
    rows, costs, qualities : (K,)
        Plans in any order, at least one. Of equally accurate ones the cheapest counts.

    Raises
    ------
    BadInput
        If there is no plan.
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
    return Menu(rows[hull], costs[hull], qualities[hull])


class Menus:
    """The menus of an index by items' shapes, each made once.

    Parameters
    ----------
    index
        What is chosen from.
    costs : (C, T)
        Cost polynomials of its candidates: its own, or their means.
    """

    def __init__(self, index: Index, costs: Floats) -> None:
        self._index = index
        self._costs = costs
        self._made: dict[Shape, Menu] = {}

    def of(self, shape: Shape) -> Menu:
        """Return the menu for items of a shape."""
        menu = self._made.get(shape)
        if menu is None:
            if len(self._made) >= KEPT_MENUS:
                self._made.clear()
            menu = self._made[shape] = self._make(shape)
        return menu

    def _make(self, shape: Shape) -> Menu:
        index, (size, withheld) = self._index, shape
        lookup = PartialLookup(index, withheld) if withheld else index.lookup
        rows = lookup.skyline(size)
        costs = costs_at(self._costs[rows], size)
        return make_menu(rows, costs, index.qualities[rows])


class Steps:
    """All steps from a menu's plan to its next, of all items; T of them.

    Attributes
    ----------
    item, place : (T,) int64
        Whose step, and the position in the menu that it leads to.
    costs, slopes : (T,) float64
        What it adds to the cost, and to the quality per cost.
    before, after : (T,) int64
        Rows of the plans that it leads from and to.
    base_costs : (N,) float64
        Of the cheapest plans.
    base_rows : (N,) int64
        Theirs.
    """

    def __init__(self, menus: Sequence[Menu]) -> None:
        lengths = np.array([len(menu.rows) for menu in menus], np.int64)
        starts = np.cumsum(lengths) - lengths
        costs = np.concatenate([menu.costs for menu in menus])
        qualities = np.concatenate([menu.qualities for menu in menus])
        is_step = np.ones(len(costs), bool)
        is_step[starts] = False
        at = np.flatnonzero(is_step)
        self.item = np.repeat(np.arange(len(menus)), lengths - 1)
        self.place = at - starts[self.item]
        self.costs = costs[at] - costs[at - 1]
        self.slopes = (qualities[at] - qualities[at - 1]) / self.costs
        rows = np.concatenate([menu.rows for menu in menus])
        self.before, self.after = rows[at - 1], rows[at]
        self.base_costs, self.base_rows = costs[starts], rows[starts]


def solve(menus: Sequence[Menu], budget: float) -> Solution:
    """Choose everyone's plan so that together they are as accurate as `budget` allows.

    Where the budget is below the sum of all cheapest plans, those are what everyone
    gets, and `cost` is above it. O(T log T) for T plans on all menus, of which items
    may share some.
    """
    if not menus:
        return Solution(np.zeros(0, np.int64), 0.0)
    steps = Steps(menus)
    left = budget - float(steps.base_costs.sum())
    order = np.argsort(-steps.slopes, kind="stable")
    spent = np.cumsum(steps.costs[order])
    count = int(np.searchsorted(spent, left, side="right")) if left > 0 else 0
    taken = np.zeros(len(order), bool)
    taken[order[:count]] = True
    if left > 0 and count < len(order):
        left -= float(spent[count - 1]) if count else 0.0
        _fill(steps, order, taken, left)
    places = np.bincount(steps.item[taken], minlength=len(menus))
    cost = steps.base_costs.sum() + steps.costs[taken].sum()
    return Solution(places, float(cost))


def _fill(steps: Steps, order: Ints, taken: NDArray[np.bool_], left: float) -> None:
    """Spend what is left on later steps that fit, never skipping one of an item's."""
    for _ in range(ROUNDS):
        too_dear = ~taken & (steps.costs > left)
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
    menus: Sequence[Menu], sample: Sequence[Menu], to_come: float, left: float
) -> float:
    """Give some items their part in the relaxed optimum for them and all that come.

    Relaxed means that the last step may be taken in part; steps worth exactly the price
    at which the budget runs out are all taken to the same part, be they these items'
    or those to come.

    Examples
    --------
    One item of two plans, which cost 1 and 3, and three more like it to come: of a
    budget of 8, the cheapest plans take 4, and the steps, all worth the same, are taken
    to half of their 2 each.

    >>> menu = make_menu(np.arange(2), np.array([1.0, 3.0]), np.array([0.5, 0.9]))
    >>> share_of([menu], [menu], to_come=3, left=8.0)
    2.0

    Parameters
    ----------
    menus : (N,)
        Those of the items.
    sample : (S,)
        Menus that those to come are taken to have, in equal shares.
    to_come
        How many are to come.
    left
        The budget for all of them.
    """
    if to_come <= 0:
        return left
    steps = Steps([*menus, *sample])
    counts = np.ones(len(menus) + len(sample))  # how many items each menu stands for
    counts[len(menus) :] = to_come / len(sample)
    cheapest = float(steps.base_costs[: len(menus)].sum())
    left -= float(counts @ steps.base_costs)
    if left <= 0 or not len(steps.item):
        return cheapest
    costs = steps.costs * counts[steps.item]
    taken = price_of(steps.slopes, costs, left).taken(steps.slopes)
    own = steps.item < len(menus)
    return cheapest + float(taken[own] @ steps.costs[own])

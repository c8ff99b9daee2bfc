"""How a batch of any size is answered within one total, item by item.

A plan for a batch is a price. It is found from a sample of sizes, and fixes what every
item gets by that item alone: the same on a retry, on another machine, in another
division of the items.
"""

import hashlib
import math
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Self

import msgspec
import numpy as np

from polydom.features.errors import BadInput, PolydomError
from polydom.features.items import Item, ReadRecord
from polydom.features.sizes import Size, is_size, show_size
from polydom.indexer.index.column_needs import ColumnNeeds
from polydom.indexer.index.index import Index

from ..engine.loading import load_index, package_of
from ..engine.outcome import Outcome
from ..engine.planner import REMEMBERED, Planner
from .knapsack import Floats, Menu, Menus, Shape, Steps
from .ledger import Answered, Assignment, Failed, Numbered, Result, try_each
from .menu_costs import menu_costs
from .price import Price, price_of


class BatchPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which plan every item of a batch gets, as plain data.

    Costs are those of the index's own file: seconds of the machine that it was measured
    on (*reference seconds*), on average, or an amount in its unit.

    Attributes
    ----------
    price
        Quality per unit of cost below which no step of an item's menu is bought; None
        where the total buys but the cheapest plans.
    share
        Of the items whose step is worth exactly the price, those take it whose `ticket`
        is below this, in [0, 1].
    unit
        What the index's costs are counted in; "s" or a currency.
    index_version
        Checksum of the index's file.
    exact
        Whether models are evaluated whole, so that there are scores.
    expected_quality, expected_accuracy
        Of the sample, on average; no accuracy where answers are numbers.
    expected_cost
        Of one item, on average.

    Examples
    --------
    ```python
    plan = BatchPlan.of("my.pdx", sizes, count=10**8, total_cost_s=1.8e6)
    plan.expected_accuracy, plan.expected_cost
    ```
    """

    price: float | None
    share: float
    unit: str
    index_version: str
    exact: bool
    expected_quality: float
    expected_accuracy: float | None
    expected_cost: float

    @staticmethod
    def of(
        index: str | os.PathLike[str] | Index,
        sizes: Sequence[Size],
        *,
        count: int | None = None,
        total_cost_s: float | None = None,
        total_cost: float | None = None,
        columns: Collection[str] | None = None,
        exact: bool = False,
    ) -> "BatchPlan":
        """Find the price at which so many items come to a total.

        Parameters
        ----------
        index
            An index with models, or its file.
        sizes
            A sample of those of the items: 3,000 and more come within a percent.
        count
            How many items there are; by default as many as `sizes`.
        total_cost_s, total_cost
            What all may cost together: reference seconds, or an amount in the unit of
            an index that counts no time.
        columns
            Those that the items have, where these are records; by default all that the
            index knows. What a record lacks beyond that makes the total a rough one.
        exact
            Evaluate models whole.

        Raises
        ------
        BadInput
            If there is no size or one is none of the index's, or the total is missing
            or out of its range.
        BadIndexFile
            If the index cannot answer.
        """
        loaded = index if isinstance(index, Index) else load_index(index)[0]
        finder = PlanFinder(loaded, exact)
        total = amount_in(finder.unit, total_cost_s=total_cost_s, total_cost=total_cost)
        count = len(sizes) if count is None else count
        if not sizes or count < 1:
            raise BadInput(
                f"{len(sizes)} sizes of {count} items came; one is needed at least"
            )
        withheld = 0
        if columns is not None:
            needs = ColumnNeeds.of(package_of(loaded))
            withheld = needs.withheld(needs.empty_in(dict.fromkeys(columns, 0.0)))
        shapes = [Shape(size, withheld) for size in sizes]
        return finder.find(shapes, count / len(sizes), total)

    def check(self, version: str, exact: bool = False) -> None:
        """Refuse to answer by it with another index, or `exact` where it is not."""
        if self.index_version != version:
            raise BadInput(
                f"the plan is for index {self.index_version[:12]}, and this is "
                f"{version[:12]}"
            )
        if exact and not self.exact:
            raise BadInput(
                "the plan is for models that may stop early; make one with exact=True"
            )

    def to_json(self) -> bytes:
        """Write the plan."""
        return msgspec.json.encode(self)

    @classmethod
    def from_json(cls, data: bytes | str) -> Self:
        """Read a plan; BadInput if it is none."""
        try:
            return msgspec.json.decode(data, type=cls)
        except msgspec.DecodeError as error:
            raise BadInput(f"this is no plan for a batch: {error}") from error


def price_in(plan: BatchPlan) -> Price:
    """Return the price of a plan as a number; infinite where it buys nothing."""
    return Price(math.inf if plan.price is None else plan.price, plan.share)


class PlanFinder:
    """Finds prices for the items of one index.

    Parameters
    ----------
    index
        As it was built: with costs of the machine that it was measured on.
    exact
        Whether models are evaluated whole.

    Attributes
    ----------
    unit
        What costs are counted in.

    Raises
    ------
    BadIndexFile
        If the index has no models.
    """

    def __init__(self, index: Index, exact: bool = False) -> None:
        package = package_of(index)
        self.unit = str(package.meta.get("unit", "s"))
        self._index = index
        self._exact = exact
        self._menus = Menus(index, menu_costs(index, exact).means)
        self._accuracies = None
        if not package.numeric:
            rows = range(len(package.masks))
            self._accuracies = np.array([index.accuracy(row) for row in rows], float)

    def find(
        self, shapes: Sequence[Shape], counts: Floats | float, total: float
    ) -> BatchPlan:
        """Find the price at which items come to a total.

        Parameters
        ----------
        shapes : (S,)
            Of a sample, at least one.
        counts : (S,)
            How many items each of them stands for, above 0; or one number for all.
        total
            What all may cost together.

        Raises
        ------
        BadInput
            If a size is none of the index's.
        """
        menus = [self._menu(shape) for shape in shapes]
        weights = np.broadcast_to(np.asarray(counts, np.float64), len(menus))
        steps = Steps(menus)
        costs = steps.costs * weights[steps.item]
        price = price_of(steps.slopes, costs, total - weights @ steps.base_costs)
        taken = price.taken(steps.slopes)
        parts = taken * weights[steps.item]

        def mean(values: Floats) -> float:
            gains = values[steps.after] - values[steps.before]
            whole = weights @ values[steps.base_rows] + parts @ gains
            return float(whole / weights.sum())

        accuracies = self._accuracies
        return BatchPlan(
            price=price.slope if price.slope < math.inf else None,
            share=price.share,
            unit=self.unit,
            index_version=self._index.version,
            exact=self._exact,
            expected_quality=mean(self._index.qualities),
            expected_accuracy=None if accuracies is None else mean(accuracies),
            expected_cost=float(
                (weights @ steps.base_costs + taken @ costs) / weights.sum()
            ),
        )

    def mean_cost(self, plan: BatchPlan, shapes: Sequence[Shape]) -> float:
        """Say what a plan makes of items of some shapes, on average."""
        steps = Steps([self._menu(shape) for shape in shapes])
        taken = price_in(plan).taken(steps.slopes)
        whole = steps.base_costs.sum() + taken @ steps.costs
        return float(whole / len(shapes))

    def _menu(self, shape: Shape) -> Menu:
        if not is_size(shape.size, 1 + self._index.pairs):
            numbers = "two numbers" if self._index.pairs else "one number"
            raise BadInput(
                f"a size is {show_size(shape.size)}; items of this index have "
                f"{numbers} above 0"
            )
        return self._menus.of(shape)


class Assigner:
    """Gives every item what a plan for its batch says.

    Parameters
    ----------
    index
        As it was built, whatever machine this is.
    plan
        Made for that index.

    Raises
    ------
    BadInput
        If the plan is for another index.
    """

    def __init__(self, index: Index, plan: BatchPlan) -> None:
        plan.check(index.version)
        self._menus = Menus(index, menu_costs(index, plan.exact).means)
        self._exact = plan.exact
        price = price_in(plan)
        self._none, self._all = price._replace(share=0.0), price._replace(share=1.0)
        self._share = plan.share
        self._offers = lru_cache(REMEMBERED)(self._find_offers)

    def assign(self, item: Item) -> Assignment:
        """Say which row an item gets."""
        without, with_tie = self._offers(Shape.of(item))
        tied = without != with_tie and ticket(item) < self._share
        row, cost = with_tie if tied else without
        return Assignment(item, row, self._exact, cost)

    def _find_offers(self, shape: Shape) -> tuple[tuple[int, float], tuple[int, float]]:
        """Row and cost without a step worth exactly the price, and with it."""
        menu = self._menus.of(shape)
        slopes = menu.slopes
        first, last = (int(p.taken(slopes).sum()) for p in (self._none, self._all))
        rows, costs = menu.rows.tolist(), menu.costs.tolist()
        return (rows[first], costs[first]), (rows[last], costs[last])


def ticket(item: Item) -> float:
    """Return a number in [0, 1) by an item's content, the same everywhere."""
    payload = item.payload
    if isinstance(payload, ReadRecord):
        payload = payload.row.astype("<f4").tobytes()
    elif isinstance(payload, Mapping):
        payload = msgspec.json.encode(payload, order="deterministic")
    elif isinstance(payload, str):
        payload = payload.encode("utf-8", "surrogatepass")
    digest = hashlib.blake2b(payload, digest_size=8).digest()
    return (int.from_bytes(digest, "little") >> 11) / (1 << 53)


Book = Callable[[Assignment, Outcome | PolydomError, float], None]


def answer_by_plan(
    planner: Planner,
    assigner: Assigner,
    items: Iterable[Numbered],
    book: Book = lambda assignment, outcome, busy_s: None,
) -> Iterator[Result]:
    """Answer numbered items in their order, each with what it gets; errors stay.

    `book` is told what each item got, what became of it, and the seconds of a processor
    that this took.
    """
    for number, item in items:
        if isinstance(item, PolydomError):
            yield Failed(number, item)
            continue
        began_s, assignment = planner.busy(), assigner.assign(item)
        (outcome,) = try_each(planner, [assignment])
        book(assignment, outcome, planner.busy() - began_s)
        if isinstance(outcome, PolydomError):
            yield Failed(number, outcome)
        else:
            yield Answered(number, item, outcome)


def amount_in(unit: str, **amounts: float | None) -> float:
    """Take of two amounts, the first in seconds, the one in an index's unit.

    Raises
    ------
    BadInput
        If it is missing or out of its range, or the other is given.
    """
    (name, wanted), (_, other) = list(amounts.items())[:: 1 if unit == "s" else -1]
    if wanted is None or other is not None:
        raise BadInput(f"this index counts costs in {unit}: give {name}, and only that")
    if not 0 <= wanted < math.inf:
        raise BadInput(f"{name} is {wanted}; it must be a finite number, 0 or more")
    return wanted

"""A rule that chooses the plan of each item, so that a batch costs a given total.

The rule is a price: the smallest gain of quality per unit of cost that is worth paying.
It is the Lagrange multiplier of the total cost, and found from a sample of the items'
sizes. Given the price, the plan of an item depends on that item alone. So an item gets
the same plan on a retry, on another machine, or if the batch is divided differently.
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
from ..engine.planning.index_terms import REMEMBERED
from ..engine.planning.planner import Planner
from ..engine.request import Outcome
from .batch_budget import Answered, Assignment, Failed, Numbered, Result, try_each
from .knapsack import (
    Floats,
    Hull,
    Hulls,
    Shape,
    Steps,
    Threshold,
    find_threshold,
    plan_costs,
)


class BatchPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The rule that chooses the plan of each item of a batch; can be stored as JSON.

    Costs are mean costs from the index's file, in its unit. If the unit is seconds,
    they are *reference seconds*: seconds on the machine that measured the index's
    costs.

    Attributes
    ----------
    price
        Smallest gain of quality per unit of cost for which an item gets a costlier
        plan; None if the total only pays for the cheapest plans.
    share
        If the gain is exactly the price: share of items, in [0, 1], that get the
        costlier plan. These are the items with a `uniform_hash` below `share`.
    unit
        Unit of the index's costs: "s" or a currency.
    index_version
        Checksum of the index's file.
    exact
        True if models are evaluated completely, so that answers have scores.
    expected_quality, expected_accuracy
        Expected means over the sample; the accuracy is None if answers are numbers.
    expected_cost
        Expected mean cost of an item.

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
        """Return the rule under which `count` items are expected to cost a given total.

        Parameters
        ----------
        index
            An index with models, or its file.
        sizes
            Sizes of a sample of the items. With 3,000 sizes, the items cost the given
            total to within about 1 %.
        count
            Number of items; by default the number of `sizes`.
        total_cost_s, total_cost
            Cost of all items together: reference seconds, or an amount in the index's
            unit if that is not time.
        columns
            Columns that the items have, if items are records; by default all columns
            that the index knows. If records lack more columns, the cost differs.
        exact
            True to evaluate models completely, so that answers have scores.

        Raises
        ------
        BadInput
            If there is no size, a size does not suit the index, or the total is missing
            or out of its range.
        BadIndexFile
            If the index cannot answer.
        """
        loaded = index if isinstance(index, Index) else load_index(index)[0]
        finder = PlanFinder(loaded, exact)
        total = amount_in(
            finder.unit, ("total_cost_s", total_cost_s), ("total_cost", total_cost)
        )
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
        """Raise BadInput if the plan cannot be used with the index of this `version`.

        The plan must have been made for that index. If `exact`, it must have been made
        for models that are evaluated completely.
        """
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
        """Return the plan as JSON; `from_json` reads it."""
        return msgspec.json.encode(self)

    @classmethod
    def from_json(cls, data: bytes | str) -> Self:
        """Read a plan from JSON; raise BadInput if `data` is not a plan."""
        try:
            return msgspec.json.decode(data, type=cls)
        except msgspec.DecodeError as error:
            raise BadInput(f"this is no plan for a batch: {error}") from error


def threshold_of(plan: BatchPlan) -> Threshold:
    """Return a batch plan's rule as a `Threshold`; no price means to take no step."""
    return Threshold(math.inf if plan.price is None else plan.price, plan.share)


class PlanFinder:
    """Finds the price at which a batch costs a given total, for one index.

    The index must have the costs from its file, not those of another machine. If
    `exact`, models are evaluated completely.
    """

    def __init__(self, index: Index, exact: bool = False) -> None:
        package = package_of(index)
        self.unit = str(package.meta.get("unit", "s"))
        self._index = index
        self._exact = exact
        self._hulls = Hulls(index, plan_costs(index, exact).mean)
        self._accuracies = None
        if not package.numeric:
            rows = range(len(package.masks))
            self._accuracies = np.array([index.accuracy(row) for row in rows], float)

    def find(
        self, shapes: Sequence[Shape], counts: Floats | float, total: float
    ) -> BatchPlan:
        """Return the rule under which all items together are expected to cost `total`.

        `shapes` are the shapes of a sample of S > 0 items. `counts` is the number of
        items, above 0, that each sampled item stands for: an array (S,), or one number
        for all.
        """
        hulls = [self._hull(shape) for shape in shapes]
        weights = np.broadcast_to(np.asarray(counts, np.float64), len(hulls))
        steps = Steps(hulls)
        costs = steps.costs * weights[steps.item]
        left = total - weights @ steps.base_costs
        threshold = find_threshold(steps.slopes, costs, left)
        taken = threshold.taken(steps.slopes)
        parts = taken * weights[steps.item]

        def mean(values: Floats) -> float:
            gains = values[steps.after] - values[steps.before]
            whole = weights @ values[steps.base_rows] + parts @ gains
            return float(whole / weights.sum())

        accuracies = self._accuracies
        return BatchPlan(
            price=threshold.slope if threshold.slope < math.inf else None,
            share=threshold.share,
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
        """Return the mean predicted cost under `plan` of items with these `shapes`."""
        steps = Steps([self._hull(shape) for shape in shapes])
        taken = threshold_of(plan).taken(steps.slopes)
        whole = steps.base_costs.sum() + taken @ steps.costs
        return float(whole / len(shapes))

    def _hull(self, shape: Shape) -> Hull:
        if not is_size(shape.size, 1 + self._index.pairs):
            numbers = "two numbers" if self._index.pairs else "one number"
            raise BadInput(
                f"a size is {show_size(shape.size)}; items of this index have "
                f"{numbers} above 0"
            )
        return self._hulls.of(shape)


class Assigner:
    """Chooses the plan of each item by a batch plan.

    The index must have the costs from its file, not those of another machine. Raises
    BadInput if the batch plan was made for another index.
    """

    def __init__(self, index: Index, plan: BatchPlan) -> None:
        plan.check(index.version)
        self._hulls = Hulls(index, plan_costs(index, plan.exact).mean)
        self._exact = plan.exact
        threshold = threshold_of(plan)
        # either no item or every item takes the steps worth exactly the price
        self._none = threshold._replace(share=0.0)
        self._all = threshold._replace(share=1.0)
        self._share = plan.share
        self._offers = lru_cache(REMEMBERED)(self._find_offers)

    def assign(self, item: Item) -> Assignment:
        """Return an item's assignment: a row of the index, and the row's cost."""
        without, with_tie = self._offers(Shape.of(item))
        tied = without != with_tie and uniform_hash(item) < self._share
        row, cost = with_tie if tied else without
        return Assignment(item, row, self._exact, cost)

    def _find_offers(self, shape: Shape) -> tuple[tuple[int, float], tuple[int, float]]:
        """Return two plans, each as (row, cost), for items of a shape.

        The first plan takes only the steps that gain more quality per cost than the
        price; the second also takes the steps that gain exactly the price.
        """
        hull = self._hulls.of(shape)
        slopes = hull.slopes
        first, last = (int(t.taken(slopes).sum()) for t in (self._none, self._all))
        rows, costs = hull.rows.tolist(), hull.costs.tolist()
        return (rows[first], costs[first]), (rows[last], costs[last])


def uniform_hash(item: Item) -> float:
    """Return a number in [0, 1), computed from an item's content.

    All machines compute the same number for the same item.
    """
    payload = item.payload
    if isinstance(payload, ReadRecord):
        payload = payload.row.astype("<f4").tobytes()
    elif isinstance(payload, Mapping):
        payload = msgspec.json.encode(payload, order="deterministic")
    elif isinstance(payload, str):
        payload = payload.encode("utf-8", "surrogatepass")
    digest = hashlib.blake2b(payload, digest_size=8).digest()
    # a double holds 53 bits, so 11 of the 64 bits are dropped
    return (int.from_bytes(digest, "little") >> 11) / (1 << 53)


OnAnswer = Callable[[Assignment, Outcome | PolydomError, float], None]


def answer_by_plan(
    planner: Planner,
    assigner: Assigner,
    items: Iterable[Numbered],
    on_answer: OnAnswer = lambda assignment, outcome, busy_s: None,
) -> Iterator[Result]:
    """Answer numbered items in order, with the plans that `assigner` chooses.

    If an item is an error, or its plan fails, its result is a `Failed`. After each
    plan, `on_answer` is called with the assignment, the outcome or error, and the
    processor seconds that the plan took.
    """
    for number, item in items:
        if isinstance(item, PolydomError):
            yield Failed(number, item)
            continue
        began_s, assignment = planner.busy(), assigner.assign(item)
        (outcome,) = try_each(planner, [assignment])
        on_answer(assignment, outcome, planner.busy() - began_s)
        if isinstance(outcome, PolydomError):
            yield Failed(number, outcome)
        else:
            yield Answered(number, item, outcome)


def amount_in(
    unit: str, in_s: tuple[str, float | None], in_unit: tuple[str, float | None]
) -> float:
    """Return the one of two arguments that is in the index's `unit`; refuse the other.

    Each argument is (name, value): `in_s` in seconds, `in_unit` in any other unit.
    Raises BadInput if the needed value is missing or out of its range, or if the other
    value is not None.
    """
    (name, amount), (_, other) = (in_s, in_unit) if unit == "s" else (in_unit, in_s)
    if amount is None or other is not None:
        raise BadInput(f"this index counts costs in {unit}: give {name}, and only that")
    if not 0 <= amount < math.inf:
        raise BadInput(f"{name} is {amount}; it must be a finite number, 0 or more")
    return amount

"""Many items, one budget: which plan each gets, and what that leaves to the others."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from polydom.features.costs.polynomials import cost_at
from polydom.features.errors import BadFeature, BadItem, PolydomError, without_frames
from polydom.features.items import Item

from ..engine.budget import Allowance
from ..engine.execution import PlanExecution
from ..engine.outcome import Outcome
from ..engine.planner import Planner
from ..engine.request import Caller, Request
from ..schema.wire import Totals
from .knapsack import Menu, Menus, Shape, solve
from .menu_costs import menu_costs
from .stream_budget import StreamBudget

# Items that are planned together.
CHUNK = 64
# Weight of the latest chunk in what is believed of the timing.
LATEST = 0.3


class Assignment(NamedTuple):
    """An item, and the row of the index that it gets.

    `exact` says whether its scores are needed; `cost` is what its menu says.
    """

    item: Item
    row: int
    exact: bool = False
    cost: float = 0.0


class Answered(NamedTuple):
    """The item with this number, and what was answered."""

    number: int
    item: Item
    outcome: Outcome


class Failed(NamedTuple):
    """The item with this number has no answer."""

    number: int
    error: PolydomError


Result = Answered | Failed
Numbered = tuple[int, Item | PolydomError]


class PlanTiming:
    """How time really runs, beside what the plans were to take.

    Attributes
    ----------
    ratio
        Actual over predicted time of plans. Predictions are high quantiles, so it is
        mostly below 1, and an honest budget would go half unspent without it.
    overhead_s
        What an item takes beside its plan: reading it, and writing its answer.
    """

    def __init__(self) -> None:
        self.ratio = 1.0
        self.overhead_s = 0.0
        self._known = False

    def add(
        self, count: int, predicted_s: float, actual_s: float, all_s: float
    ) -> None:
        """Learn from a chunk of so many items; the seconds are sums over them."""
        ratio = min(max(actual_s / predicted_s, 0.05), 5.0) if predicted_s else 1.0
        overhead_s = max(all_s - actual_s, 0.0) / count
        part = LATEST if self._known else 1.0
        self.ratio += part * (ratio - self.ratio)
        self.overhead_s += part * (overhead_s - self.overhead_s)
        self._known = True


class Ledger:
    """What one budget for many items was spent on; for one thread at a time.

    Parameters
    ----------
    planner
        Of the index that answers.
    amount
        The whole budget: seconds from `started_s` on, or in an index's own unit.
    count
        How many items come; None where nobody knows.
    started_s
        When the budget began to run, on the planner's clock; by default now.
    workers
        How many plans are carried out at a time.
    exact
        Whether models are evaluated whole, so that there are scores.

    Attributes
    ----------
    menus
        What there is for items by shape, at what it costs on average.
    kept
        What chunks planned now have to leave of the budget.
    exact
        Whether chunks planned now get scores.
    """

    def __init__(
        self,
        planner: Planner,
        amount: float,
        *,
        count: int | None = None,
        started_s: float | None = None,
        workers: int = 1,
        exact: bool = False,
    ) -> None:
        self.planner = planner
        self.amount = amount
        self.exact = exact
        self.started_s = planner.now() if started_s is None else started_s
        self.kept = 0.0
        self.timing = PlanTiming()
        self.answered = self.errors = 0
        self._time_counts = planner.unit == "s"
        self._make_menus()
        self._stream_budget = StreamBudget(count)
        self._workers = workers
        self._spent = self._quality = self._accuracy = 0.0
        self._under_way = 0.0

    @property
    def due_s(self) -> float:
        """When all answers must be out; infinite where no time is counted."""
        return self.started_s + self.amount if self._time_counts else math.inf

    @property
    def spent(self) -> float:
        """What is spent of the budget by now."""
        if self._time_counts:
            return self.planner.now() - self.started_s
        return self._spent

    def need_scores(self) -> None:
        """Have whole models answer what is planned from now on, at what they cost."""
        self.exact = True
        self._make_menus()

    def _make_menus(self) -> None:
        index = self.planner.index
        means, most = menu_costs(index, self.exact)
        self.menus, self._most_menus = Menus(index, means), Menus(index, most)
        self._most_costs = most

    def left_for_plans(self, count: float) -> float:
        """Return what the plans of `count` items may be predicted to cost by now."""
        left = self.amount - self.kept - self.spent
        if not self._time_counts:
            return left - self._under_way
        left -= count * self.timing.overhead_s / self._workers
        return left * self._workers / self.timing.ratio

    def spent_by(self, cost: float, count: int) -> float:
        """Return what `count` plans predicted to cost so much together will spend."""
        if not self._time_counts:
            return cost
        return (
            cost * self.timing.ratio + count * self.timing.overhead_s
        ) / self._workers

    def plan(self, items: Sequence[Item]) -> "Chunk":
        """Choose a row for each of the next items."""
        planned_s = self.planner.now()
        come = len(items) + self._stream_budget.to_come(len(items))
        left = self.left_for_plans(come)
        menus = [self.menus.of(Shape.of(item)) for item in items]
        found = self._stream_budget.choose(menus, left)
        cost = found.cost
        if not self._time_counts:
            # time evens out; what is planned of money must be there if all is spent
            cost = sum(
                self._most_cost(int(menu.rows[place]), item)
                for item, menu, place in zip(items, menus, found.places, strict=True)
            )
            if cost > (most := self._left_beside_others(left, menus)):
                menus = [self._most_menus.of(Shape.of(item)) for item in items]
                found = solve(menus, most)
                cost = found.cost
        assignments = [
            Assignment(
                item, int(menu.rows[place]), self.exact, float(menu.costs[place])
            )
            for item, menu, place in zip(items, menus, found.places, strict=True)
        ]
        self._under_way += cost
        return Chunk(self, assignments, cost, planned_s)

    def _left_beside_others(self, left: float, menus: Sequence[Menu]) -> float:
        """Leave as much for each item to come as the cheapest plans here cost."""
        cheapest = sum(float(menu.costs[0]) for menu in menus) / max(len(menus), 1)
        return left - self._stream_budget.to_come() * cheapest

    def _most_cost(self, row: int, item: Item) -> float:
        """Cost of a plan that does not answer early; of whole models for scores."""
        return cost_at(self._most_costs[row].tolist(), item.size)

    def answers(
        self, items: Iterable[Numbered], caller: Caller | None = None
    ) -> Iterator[Result]:
        """Answer some numbered items in their order, planned together; errors stay.

        Raises
        ------
        Abandoned
            If the caller has gone.
        """
        given = list(items)
        chunk = self.plan([item for _, item in given if isinstance(item, Item)])
        outcomes = try_each(self.planner, chunk.assignments, caller)
        yield from chunk.results(given, outcomes)

    def enter(self, result: Outcome | PolydomError) -> None:
        """Book what became of an item."""
        if isinstance(result, PolydomError):
            self.errors += 1
            return
        self.answered += 1
        self.planner.audit.answered(result)
        self._spent += result.charged
        self._quality += result.quality
        self._accuracy += result.accuracy or 0.0

    def waste(self, assignment: Assignment) -> None:
        """Book all that the plan of an item that failed may have cost."""
        self._spent += self._most_cost(assignment.row, assignment.item)

    def improve(self, before: Outcome, after: Outcome) -> None:
        """Book a second, better answer to an item."""
        self.planner.audit.answered(after)
        self._spent += after.charged
        self._quality += after.quality - before.quality
        self._accuracy += (after.accuracy or 0.0) - (before.accuracy or 0.0)

    def close(self, chunk: "Chunk", all_s: float) -> None:
        """Learn how time runs from a chunk that took so long."""
        self._under_way -= chunk.cost
        if chunk.times and self._time_counts:
            predicted_s, actual_s = map(sum, zip(*chunk.times, strict=True))
            self.timing.add(len(chunk.times), predicted_s, actual_s, all_s)

    def totals(self) -> Totals:
        """Sum up."""
        spent, count = self.spent, self.answered
        has_accuracy = count and not self.planner.package.numeric
        totals = Totals(
            items=self.answered + self.errors,
            errors=self.errors,
            expected_quality=self._quality / count if count else None,
            expected_accuracy=self._accuracy / count if has_accuracy else None,
            budget_met=spent <= self.amount,
        )
        if self._time_counts:
            totals.budget_us = round(self.amount * 1e6, 1)
            totals.spent_us = round(spent * 1e6, 1)
        else:
            totals.budget, totals.spent = self.amount, spent
        return totals


@dataclass
class Chunk:
    """Items that were planned together, under way until all have been entered.

    In a `with` what became of each is entered.

    Attributes
    ----------
    assignments
        What each item gets.
    cost
        Of all together, by their menus; of money at most, should no plan answer early.
    times
        What its menu said, and actual seconds, of each plan that was carried out.
    all_s
        How long all of it took; None where that is since it was planned.
    """

    ledger: Ledger
    assignments: list[Assignment]
    cost: float
    planned_s: float
    times: list[tuple[float, float]] = field(default_factory=list)
    all_s: float | None = None

    def enter(
        self, result: Outcome | PolydomError, assignment: Assignment | None = None
    ) -> None:
        """Book what became of an item; None where it was not planned."""
        self.ledger.enter(result)
        if isinstance(result, Outcome) and assignment is not None:
            took_s = result.finished_s - result.started_s
            # menus are of the curves, and the timing is what corrects them here
            self.times.append((assignment.cost, took_s))

    def results(
        self, items: Iterable[Numbered], outcomes: Iterator[Outcome | PolydomError]
    ) -> Iterator[Result]:
        """Book what became of all items, in order; `outcomes` are of those planned."""
        ledger = self.ledger
        planned = zip(self.assignments, outcomes, strict=True)
        with self:
            for number, item in items:
                if isinstance(item, PolydomError):
                    self.enter(item)
                    yield Failed(number, item)
                    continue
                assignment, outcome = next(planned)
                self.enter(outcome, assignment)
                if isinstance(outcome, PolydomError):
                    ledger.waste(assignment)
                    yield Failed(number, outcome)
                else:
                    yield Answered(number, item, outcome)

    def __enter__(self) -> "Chunk":
        return self

    def __exit__(self, *_: object) -> None:
        all_s = self.all_s
        if all_s is None:
            all_s = self.ledger.planner.now() - self.planned_s
        self.ledger.close(self, all_s)


def carry_out(
    planner: Planner, assignment: Assignment, caller: Caller | None = None
) -> Outcome:
    """Answer an item with the row that it got, however long that takes.

    Raises
    ------
    BadFeature, BadItem, Abandoned
        As `Execution.run`.
    """
    now_s = planner.now()
    request = Request(
        assignment.item,
        Allowance(math.inf),
        caller=caller or Caller(),
        exact=assignment.exact,
    )
    choice = planner.choose_row(assignment.row, request, now_s)
    return PlanExecution(planner, request, choice, now_s).run()


def try_each(
    planner: Planner, assignments: Iterable[Assignment], caller: Caller | None = None
) -> Iterator[Outcome | PolydomError]:
    """Carry out all, one when it is asked for; an item that fails gets its error."""
    for assignment in assignments:
        try:
            outcome: Outcome | PolydomError = carry_out(planner, assignment, caller)
        except (BadFeature, BadItem) as error:
            outcome = without_frames(error)
        yield outcome

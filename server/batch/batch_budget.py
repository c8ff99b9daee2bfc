"""One budget for many items: choose a plan for each item, and track the spending."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from polydom.features.costs.polynomials import cost_at
from polydom.features.errors import BadFeature, BadItem, PolydomError, without_frames
from polydom.features.items import Item

from ..engine.budget import MoneyBudget
from ..engine.executions.plan_execution import PlanExecution
from ..engine.planning.planner import Planner
from ..engine.request import Caller, FetchOutcome, Outcome, Request
from ..schema.wire import Totals
from .knapsack import Hull, Hulls, Shape, Solution, plan_costs, share_of, solve

# Number of items that are planned together.
CHUNK = 64
# Weight of the latest chunk in the estimates of `PlanTiming`.
LATEST = 0.3
SAMPLE = 512  # number of hulls that represent the items to come
SLACK = 1 + 1e-9
# If the count is unknown: expected number of items to come for each item seen. A larger
# number saves more budget for the end of long streams, but short streams leave more of
# theirs unspent.
LASTING = 2.0


class Assignment(NamedTuple):
    """An item with the plan chosen for it."""

    item: Item
    row: int  # Row of the index whose plan the item gets
    exact: bool = False  # True if the answer must have scores
    cost: float = 0.0  # Predicted cost of the plan, in the index's unit


class Answered(NamedTuple):
    """An item that got an answer, with its number in the batch and the outcome."""

    number: int
    item: Item
    outcome: Outcome
    # What became of the index's fetches; None if the item lacked no column of a fetch
    fetches: FetchOutcome | None = None


class Failed(NamedTuple):
    """The number of an item that got no answer, and the error that is sent instead."""

    number: int
    error: PolydomError


Result = Answered | Failed
Numbered = tuple[int, Item | PolydomError]


class PlanTiming:
    """Running estimates of how a batch's measured times differ from predicted times.

    `ratio` is the measured time of plans divided by their predicted time. It is mostly
    below 1, because predictions are high quantiles; without this correction, half of
    the budget would remain unspent. `overhead_s` is the time per item in addition to
    its plan, in seconds: to read the item and to write its answer.
    """

    def __init__(self) -> None:
        self.ratio = 1.0
        self.overhead_s = 0.0
        self._known = False

    def add(
        self, count: int, predicted_s: float, actual_s: float, all_s: float
    ) -> None:
        """Update both estimates after a chunk of `count` items.

        `predicted_s` and `actual_s` are the predicted and the measured seconds of all
        plans of the chunk. `all_s` is the time from start to end of the chunk.
        """
        ratio = min(max(actual_s / predicted_s, 0.05), 5.0) if predicted_s else 1.0
        overhead_s = max(all_s - actual_s, 0.0) / count
        weight = LATEST if self._known else 1.0
        self.ratio += weight * (ratio - self.ratio)
        self.overhead_s += weight * (overhead_s - self.overhead_s)
        self._known = True


class StreamBudget:
    """Divides the budget of a whole stream of items among its chunks.

    A chunk gets as much as its items would get if one knapsack were solved for the
    whole stream. The items to come are assumed to be like a random sample of the items
    seen. `count` is the number of all items. If it is None, `LASTING` more items are
    expected for each item seen. Budget that a chunk leaves unspent goes to later
    chunks.
    """

    def __init__(self, count: int | None = None) -> None:
        self._count = count
        self._sample: list[Hull] = []
        self._random = np.random.default_rng(0)
        self.seen = 0

    def to_come(self, next_items: int = 0) -> float:
        """Return how many items are expected after those seen and `next_items` more."""
        if self._count is None:
            return LASTING * (self.seen + next_items)
        return max(self._count - self.seen - next_items, 0)

    def choose(self, hulls: Sequence[Hull], left: float) -> Solution:
        """Choose a plan for each of the next items, on its hull.

        `left` is the budget for the next items and all items to come.
        """
        if not hulls:
            return solve(hulls, left)
        self._remember(hulls)
        share = share_of(hulls, self._sample, self.to_come(len(hulls)), left)
        self.seen += len(hulls)
        # `solve` adds the same costs in another order, so its sum may round differently
        return solve(hulls, min(share * SLACK, left))

    def _remember(self, hulls: Sequence[Hull]) -> None:
        """Add hulls to the uniform sample of all hulls (Vitter's Algorithm R)."""
        for number, hull in enumerate(hulls, self.seen):
            later = number >= SAMPLE
            place = int(self._random.integers(number + 1)) if later else number
            if place < SAMPLE:
                self._sample[place : place + 1] = [hull]


class BatchBudget:
    """The budget of a batch: chooses plans chunk by chunk, and tracks the spending.

    Only one thread may use a budget at a time. If `reserved` is set, plans chosen later
    leave this amount of the budget unspent.

    The total budget `amount` is in seconds from `started_s` on, by default from now on,
    or in the index's unit. `count` is the number of items, None if unknown, and
    `workers` the number of plans that run at the same time. If `exact`, models are
    evaluated completely, so that every answer has scores.
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
        self.reserved = 0.0
        self.timing = PlanTiming()
        self.answered = self.errors = 0
        self._counts_time = planner.unit == "s"
        self._make_hulls()
        self._stream_budget = StreamBudget(count)
        self._workers = workers
        self._spent = self._quality = self._accuracy = 0.0
        self._under_way = 0.0
        # Running estimate of the seconds per item of waiting for fetches
        self._wait_s = 0.0

    @property
    def due_s(self) -> float:
        """Time when a time budget ends, on the planner's clock; infinite for money."""
        return self.started_s + self.amount if self._counts_time else math.inf

    @property
    def spent(self) -> float:
        """The spent part of the budget: elapsed seconds, or the plans' total cost."""
        if self._counts_time:
            return self.planner.now() - self.started_s
        return self._spent

    def need_scores(self) -> None:
        """Evaluate models completely from now on, so that all answers have scores."""
        self.exact = True
        self._make_hulls()

    def _make_hulls(self) -> None:
        index = self.planner.index
        mean, most = plan_costs(index, self.exact)
        self.hulls, self._most_hulls = Hulls(index, mean), Hulls(index, most)
        self._most_costs = most

    def left_for_plans(self, count: float, waits_s: float = 0.0) -> float:
        """Return the total predicted cost that the budget allows for `count` plans.

        Waiting for fetches is expected to take `waits_s` seconds of it.
        """
        left = self.amount - self.reserved - self.spent - waits_s
        if not self._counts_time:
            return left - self._under_way
        left -= count * self.timing.overhead_s / self._workers
        return left * self._workers / self.timing.ratio

    def part_of(self, count: int) -> float:
        """Return the part of the rest of the budget for the next `count` items.

        The part is even: later chunks get as much of what is left for each of their
        items. So a chunk that waits for fetches takes nothing from later chunks, and
        what it leaves of its part goes to them. Waiting costs time of the budget, as it
        passes, but no processor time.
        """
        to_come = self._stream_budget.to_come(count)
        left = max(self.amount - self.reserved - self.spent, 0.0)
        return left * count / (count + to_come)

    def waited(self, seconds: float, count: int) -> None:
        """Update the estimate of waiting after `count` items waited for fetches.

        Plans of a chunk leave time for the waits of later chunks.
        """
        weight = LATEST if self._wait_s else 1.0
        self._wait_s += weight * (seconds / count - self._wait_s)

    def spent_by(self, cost: float, count: int) -> float:
        """Return the part of the budget that `count` plans are expected to spend.

        `cost` is the total of the plans' predicted costs.
        """
        if not self._counts_time:
            return cost
        return (
            cost * self.timing.ratio + count * self.timing.overhead_s
        ) / self._workers

    def plan(self, items: Sequence[Item]) -> "Chunk":
        """Choose the plans of the next items, and return them as a chunk."""
        planned_s = self.planner.now()
        later = self._stream_budget.to_come(len(items))
        left = self.left_for_plans(len(items) + later, waits_s=later * self._wait_s)
        hulls = [self.hulls.of(Shape.of(item)) for item in items]
        found = self._stream_budget.choose(hulls, left)
        cost = found.cost
        if not self._counts_time:
            # measured times vary around their mean, but a sum of money must suffice
            # even if no plan exits early
            cost = sum(
                self._most_cost(int(hull.rows[place]), item)
                for item, hull, place in zip(items, hulls, found.places, strict=True)
            )
            # each item to come may need the cheapest plan's mean cost
            cheapest = sum(float(hull.costs[0]) for hull in hulls) / max(len(hulls), 1)
            most = left - self._stream_budget.to_come() * cheapest
            if cost > most:
                hulls = [self._most_hulls.of(Shape.of(item)) for item in items]
                found = solve(hulls, most)
                cost = found.cost
        assignments = [
            Assignment(
                item, int(hull.rows[place]), self.exact, float(hull.costs[place])
            )
            for item, hull, place in zip(items, hulls, found.places, strict=True)
        ]
        self._under_way += cost
        return Chunk(self, assignments, cost, planned_s)

    def _most_cost(self, row: int, item: Item) -> float:
        """Return the predicted cost of an item's plan without any early exit."""
        return cost_at(self._most_costs[row].tolist(), item.size)

    def answers(
        self, items: Iterable[Numbered], caller: Caller | None = None
    ) -> Iterator[Result]:
        """Choose plans for numbered items together, and yield their results in order.

        An item that is an error, or whose plan fails, gets a `Failed`.
        """
        given = list(items)
        chunk = self.plan([item for _, item in given if isinstance(item, Item)])
        outcomes = try_each(self.planner, chunk.assignments, caller)
        yield from chunk.results(given, outcomes)

    def record(self, result: Outcome | PolydomError) -> None:
        """Add one item to the totals: an answer's cost and quality, or an error."""
        if isinstance(result, PolydomError):
            self.errors += 1
            return
        self.answered += 1
        self.planner.audit.answered(result)
        self._spent += result.charged
        self._quality += result.quality
        self._accuracy += result.accuracy or 0.0

    def charge_failed(self, assignment: Assignment) -> None:
        """Charge the largest possible cost of a plan that failed."""
        self._spent += self._most_cost(assignment.row, assignment.item)

    def record_better(self, before: Outcome, after: Outcome) -> None:
        """Replace an item's first answer by a second, better answer in the totals.

        The costs of both answers are charged.
        """
        self.planner.audit.answered(after)
        self._spent += after.charged
        self._quality += after.quality - before.quality
        self._accuracy += (after.accuracy or 0.0) - (before.accuracy or 0.0)

    def end_chunk(
        self, chunk: "Chunk", times: Sequence[tuple[float, float]], all_s: float
    ) -> None:
        """End a chunk: update the estimates of `PlanTiming` with its measured times.

        `times` has the predicted and the measured seconds of each plan, and `all_s` is
        the time from start to end of the chunk.
        """
        self._under_way -= chunk.cost
        if times and self._counts_time:
            predicted_s, actual_s = map(sum, zip(*times, strict=True))
            self.timing.add(len(times), predicted_s, actual_s, all_s)

    def totals(self) -> Totals:
        """Return the batch's totals, the last entry of a response."""
        spent, count = self.spent, self.answered
        has_accuracy = count and not self.planner.package.numeric
        totals = Totals(
            items=self.answered + self.errors,
            errors=self.errors,
            expected_quality=self._quality / count if count else None,
            expected_accuracy=self._accuracy / count if has_accuracy else None,
            budget_met=spent <= self.amount,
        )
        if self._counts_time:
            totals.budget_us = round(self.amount * 1e6, 1)
            totals.spent_us = round(spent * 1e6, 1)
        else:
            totals.budget, totals.spent = self.amount, spent
        return totals


@dataclass
class Chunk:
    """A part of a batch: items whose plans were chosen together."""

    budget: BatchBudget
    assignments: list[Assignment]  # Plan of each item
    cost: float  # Predicted cost of all plans; if costs are money, without early exits
    planned_s: float  # Time at which the chunk was planned, on the planner's clock
    # Seconds that the whole chunk took; None to measure from `planned_s` on
    all_s: float | None = None

    def results(
        self, items: Iterable[Numbered], outcomes: Iterator[Outcome | PolydomError]
    ) -> Iterator[Result]:
        """Record and yield the result of each item, in order.

        `outcomes` has one outcome or error for each assignment. An item that is an
        error has no assignment.
        """
        budget, times = self.budget, list[tuple[float, float]]()
        planned = zip(self.assignments, outcomes, strict=True)
        try:
            for number, item in items:
                if isinstance(item, PolydomError):
                    budget.record(item)
                    yield Failed(number, item)
                    continue
                assignment, outcome = next(planned)
                budget.record(outcome)
                if isinstance(outcome, PolydomError):
                    budget.charge_failed(assignment)
                    yield Failed(number, outcome)
                else:
                    took_s = outcome.finished_s - outcome.started_s
                    # hulls hold uncorrected predictions; `PlanTiming` corrects them
                    times.append((assignment.cost, took_s))
                    yield Answered(number, item, outcome)
        finally:
            all_s = self.all_s
            if all_s is None:
                all_s = budget.planner.now() - self.planned_s
            budget.end_chunk(self, times, all_s)


def carry_out(
    planner: Planner, assignment: Assignment, caller: Caller | None = None
) -> Outcome:
    """Answer an item with its assigned plan; raise what `Execution.run` raises."""
    now_s = planner.now()
    request = Request(
        assignment.item,
        MoneyBudget(math.inf),
        caller=caller or Caller(),
        exact=assignment.exact,
    )
    choice = planner.choose_row(assignment.row, request, now_s)
    return PlanExecution(planner, request, choice, now_s).run()


def try_each(
    planner: Planner, assignments: Iterable[Assignment], caller: Caller | None = None
) -> Iterator[Outcome | PolydomError]:
    """Answer items one by one with their assigned plans.

    Yields an outcome or an error for each. A plan runs when its result is requested.
    """
    for assignment in assignments:
        try:
            outcome: Outcome | PolydomError = carry_out(planner, assignment, caller)
        except (BadFeature, BadItem) as error:
            outcome = without_frames(error)
        yield outcome

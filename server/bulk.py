"""Many items, one budget: which plan each gets, and what that leaves to the others."""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ..features.errors import BadFeature, PolydomError
from ..features.items import Gaps, Item
from .attempt import PlanExecution
from .batch_wire import Totals
from .budget import Allowance
from .engine import Engine
from .knapsack import Menus
from .outcome import Outcome
from .question import Caller, Question
from .ration import Ration

# Weight of the latest chunk in what is believed of the pace.
LATEST = 0.3


class Dish(NamedTuple):
    """One item and the row of the index that it gets."""

    item: Item
    row: int


class Result(NamedTuple):
    """What became of the item with this number, and what it lacked."""

    number: int
    outcome: Outcome | PolydomError
    gaps: Gaps | None = None


def gaps_of(item: Item | PolydomError) -> Gaps | None:
    """Return what an item lacks; of what is none, nothing is known."""
    return item.gaps if isinstance(item, Item) else None


class Pace:
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
        """Take a chunk into account: its items, and the sums over them."""
        ratio = min(max(actual_s / predicted_s, 0.05), 5.0) if predicted_s else 1.0
        overhead_s = max(all_s - actual_s, 0.0) / count
        part = LATEST if self._known else 1.0
        self.ratio += part * (ratio - self.ratio)
        self.overhead_s += part * (overhead_s - self.overhead_s)
        self._known = True


class Bulk:
    """The books of one budget for many items; for one thread at a time.

    Either call `answers` with one chunk after the other, or for each chunk `plan`, then
    `enter` what became of every item, then `close`.

    Parameters
    ----------
    engine
        Of the index that answers.
    amount
        The whole budget: seconds from `started_s` on where the index counts time, so
        that waiting counts too, else an amount in its unit.
    count
        How many items come; None where nobody knows.
    started_s
        When the budget began to run, on the engine's clock.
    workers
        How many plans are carried out at a time.

    Attributes
    ----------
    menus
        What there is for items by size.
    kept
        What chunks planned now have to leave of the budget.
    """

    def __init__(
        self,
        engine: Engine,
        amount: float,
        *,
        count: int | None = None,
        started_s: float | None = None,
        workers: int = 1,
    ) -> None:
        self.engine = engine
        self.amount = amount
        self.started_s = engine.now() if started_s is None else started_s
        self.kept = 0.0
        self.pace = Pace()
        self.answered = self.errors = 0
        self._time_counts = engine.unit == "s"
        self.menus = Menus(engine.index)
        self._ration = Ration(count)
        self._workers = workers
        self._spent = self._hoped = 0.0
        self._chunk: list[tuple[float, float]] = []
        self._chunk_s = 0.0

    @property
    def due_s(self) -> float:
        """When all answers must be out; infinite where no time is counted."""
        return self.started_s + self.amount if self._time_counts else math.inf

    @property
    def spent(self) -> float:
        """What is spent of the budget by now."""
        if self._time_counts:
            return self.engine.now() - self.started_s
        return self._spent

    def left_for_plans(self, count: float) -> float:
        """Return what the plans of `count` items may be predicted to cost by now."""
        left = self.amount - self.kept - self.spent
        if not self._time_counts:
            return left
        left -= count * self.pace.overhead_s / self._workers
        return left * self._workers / self.pace.ratio

    def spent_by(self, cost: float, count: int) -> float:
        """Return what `count` plans predicted to cost so much together will spend."""
        if not self._time_counts:
            return cost
        return (cost * self.pace.ratio + count * self.pace.overhead_s) / self._workers

    def plan(self, items: Sequence[Item]) -> list[Dish]:
        """Choose a row for each of the next items."""
        self._chunk.clear()
        self._chunk_s = self.engine.now()
        menus = [self.menus.of(item.size) for item in items]
        come = len(items) + self._ration.to_come(len(items))
        left = self.left_for_plans(come)
        places = self._ration.choose(menus, left).places.tolist()
        rows = [int(menu.rows[at]) for menu, at in zip(menus, places, strict=True)]
        return [Dish(item, row) for item, row in zip(items, rows, strict=True)]

    def answers(
        self,
        items: Iterable[tuple[int, Item | PolydomError]],
        caller: Caller | None = None,
    ) -> Iterator[Result]:
        """Answer a chunk of numbered items in its order; an error stays one.

        Raises
        ------
        Abandoned
            If the caller has gone.
        """
        chunk = list(items)
        dishes = iter(self.plan([item for _, item in chunk if isinstance(item, Item)]))
        for number, item in chunk:
            result: Outcome | PolydomError
            if isinstance(item, PolydomError):
                result = item
            else:
                try:
                    result = carry_out(self.engine, next(dishes), caller)
                except BadFeature as error:
                    result = error
            self.enter(result)
            yield Result(number, result, gaps_of(item))
        self.close()

    def enter(self, result: Outcome | PolydomError) -> None:
        """Book what became of an item."""
        if isinstance(result, PolydomError):
            self.errors += 1
            return
        self.answered += 1
        self.engine.audit.answered(result)
        self._spent += result.predicted
        self._hoped += result.accuracy
        took_s = result.finished_s - result.started_s
        # menus are of the curves, and the pace is what corrects them here
        self._chunk.append((result.predicted / result.drift, took_s))

    def improve(self, before: Outcome, after: Outcome) -> None:
        """Book a second, better answer to an item."""
        self.engine.audit.answered(after)
        self._spent += after.predicted
        self._hoped += after.accuracy - before.accuracy

    def cost_of(self, dish: Dish) -> float:
        """Return what a plan is predicted to cost, by the curves."""
        return self.engine.index.cost_s(dish.row, dish.item.size)

    def promise(self, cost: float) -> None:
        """Keep what plans will cost that others carry out; take it back when done.

        Where time is counted it runs anyway.
        """
        if not self._time_counts:
            self.kept += cost

    def close(self, all_s: float | None = None) -> None:
        """Learn from a chunk that is done how time runs.

        `all_s` is how long it took, by default since it was planned.
        """
        if self._chunk and self._time_counts:
            predicted_s, actual_s = (
                sum(sums) for sums in zip(*self._chunk, strict=True)
            )
            if all_s is None:
                all_s = self.engine.now() - self._chunk_s
            self.pace.add(len(self._chunk), predicted_s, actual_s, all_s)
        self._chunk.clear()

    def totals(self) -> Totals:
        """Sum up."""
        spent = self.spent
        totals = Totals(
            items=self.answered + self.errors,
            errors=self.errors,
            expected_accuracy=self._hoped / self.answered if self.answered else None,
            budget_met=spent <= self.amount,
        )
        if self._time_counts:
            totals.budget_us = round(self.amount * 1e6, 1)
            totals.spent_us = round(spent * 1e6, 1)
        else:
            totals.budget, totals.spent = self.amount, spent
        return totals


def carry_out(engine: Engine, dish: Dish, caller: Caller | None = None) -> Outcome:
    """Answer an item with the row that it got, however long that takes.

    What a plan saves or overruns is the other items', so it is neither stretched nor
    cut short.

    Raises
    ------
    BadFeature
        If a feature cannot be computed on this item.
    Abandoned
        If the caller has gone.
    """
    now_s = engine.now()
    choice = engine.choose_row(dish.row, dish.item.size, now_s)
    question = Question(dish.item, Allowance(math.inf), caller=caller or Caller())
    return PlanExecution(engine, question, choice, now_s).run()

"""From an item and what is left of its budget to an answer."""

import math
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Literal

import msgspec
import numpy as np

from ..features.errors import BadIndexFile
from ..features.extract import Extractor
from ..features.items import Item
from ..features.sizes import Size, costs_at
from ..indexer.index import Index
from ..indexer.package import Package
from .budget import Budget
from .course import Course, make_onward
from .drift import LEAST_S, Drift
from .errors import Abandoned, TooLittleLeft
from .plan import Plan, make_plans

OnInfeasible = Literal["prior", "cheapest", "error"]
Reason = Literal["budget", "waited", "pressure", "infeasible", "overrun", "sure"]
Clock = Callable[[], float]

# How much every waiting request raises the price of a second, in mean gains of
# accuracy per second of budget; chosen by simulation (tests/test_pressure.py).
PRESSURE = 0.2
# Sizes of which the most accurate row is remembered; records have one, and images of
# one camera few.
REMEMBERED = 1024


class Caller:
    """Who waits for an answer; `gone` turns true when the connection is lost."""

    __slots__ = ("gone",)

    def __init__(self) -> None:
        self.gone = False


class Question(msgspec.Struct, frozen=True):
    """One item to classify, and on what terms.

    Attributes
    ----------
    item
        What is to be classified.
    budget
        How much it may cost.
    on_infeasible
        What to answer when the budget buys nothing but the prior, or less than
        `min_accuracy`: the prior; the cheapest set that is good enough, late; or
        an error, before any work.
    min_accuracy
        Expected accuracy below which an answer is of no use, in [0, 1].
    caller
        Who waits; work stops at the next checkpoint when they are gone.
    """

    item: Item
    budget: Budget
    on_infeasible: OnInfeasible = "prior"
    min_accuracy: float = 0.0
    caller: Caller = msgspec.field(default_factory=Caller)


class Choice(msgspec.Struct, frozen=True):
    """A plan, what it should cost here, and why it is not the best there is.

    `reason` is None for the most accurate plan at this size; "budget" where the whole
    budget buys no better; "waited" where it would have, but too much of it had
    passed; "pressure" where others wait and a cheaper one was taken for their sake;
    "infeasible" where the whole budget buys nothing that was asked for. The whole
    budget is without the reserve for what follows the plan.

    `late` says that the plan does not fit and is to be carried out all the same.
    """

    plan: Plan
    cost: float
    reason: Reason | None
    late: bool = False


class Outcome(msgspec.Struct, frozen=True):
    """An answer and what it took.

    Attributes
    ----------
    label
        The class answered.
    scores
        The model's score for each of its classes.
    row
        The index's row whose model answered.
    predicted
        What the plan was to cost, in the unit of the index's costs.
    started_s, finished_s
        When work on the item started and ended, on the engine's clock.
    reason
        As in `Choice`, or "overrun" where the clock stopped the plan halfway, or
        "sure" where the plan's first features were enough.
    accuracy
        Expected, in [0, 1]: that of the row, or where it was sure that of the plan.
    charged
        What the curves say of all that was computed, in the unit of the costs.
    busy_s
        Processor seconds of the thread that computed; None where it was not the one
        that answered.
    """

    label: str
    scores: dict[str, float]
    row: int
    predicted: float
    started_s: float
    finished_s: float
    reason: Reason | None
    accuracy: float
    charged: float
    busy_s: float | None


class Engine:
    """Answers questions with one index; safe to share between threads.

    Parameters
    ----------
    index
        An index with a package.
    extractor
        The code of the package's features, in its order.
    now
        The monotonic clock.
    busy
        Clock of the seconds that the calling thread has had of a processor; where
        another `now` is given, that by default.

    Attributes
    ----------
    onward
        How to go on while time is left; None where plans are kept to.
    drift
        Corrects every predicted cost; stays 1 unless somebody gives outcomes to
        `follow`.

    Raises
    ------
    BadIndexFile
        If the index holds bare candidates, or no empty set.
    """

    def __init__(
        self,
        index: Index,
        extractor: Extractor,
        *,
        now: Clock = time.monotonic,
        busy: Clock | None = None,
    ) -> None:
        if index.package is None:
            raise BadIndexFile("this index holds candidates but no models to serve")
        self.extractor = extractor
        self.now = now
        self.busy = busy or (busy_clock() if now is time.monotonic else now)
        self.drift = Drift(float(index.package.meta.get("quantile", 0.99)))
        self.adopt(index, index.package)

    def adopt(self, index: Index, package: Package) -> None:
        """Plan with an index of the same candidates, before anything is asked."""
        self.index = index
        self.package = package
        self.plans = make_plans(index)
        unit = str(self.package.meta.get("unit", "s"))
        self.onward = make_onward(index, unit)
        self.prior = self.package.masks.tolist().index(0)
        self.accuracies = tuple(float(accuracy) for accuracy in index.accuracies)
        self._top = remember_tops(index)
        self._labels = tuple(
            tuple(self.package.labels[code] for code in model.classes)
            for model in self.package.models
        )

    def answer(self, question: Question) -> Outcome:
        """Choose a plan for what is left now, and carry it out.

        Raises
        ------
        TooLittleLeft
            If the question asks for an error rather than a poor or late answer.
        BadFeature
            If a feature cannot be computed on this item.
        Abandoned
            If the caller has gone.
        """
        return Attempt(self, question).run()

    def choose(self, question: Question, now_s: float, waiting: int = 0) -> Choice:
        """Pick the plan for what the question's budget still allows at `now_s`.

        Parameters
        ----------
        waiting
            How many other questions wait for this engine. The more, the higher the
            price of a second, and the plan is the one of best accuracy minus price
            times cost (drift plus penalty: Neely, Stochastic Network Optimization,
            2010, with the number that waits as the backlog).

        Raises
        ------
        TooLittleLeft
            If nothing that was asked for fits and the question wants an error then.
        """
        size, budget = question.item.size, question.budget
        # as much as the curves must fit into, which know of no drift
        drift = self.drift.factor
        left, in_all = budget.left(now_s) / drift, budget.whole / drift
        top, cost = self._top(size)
        if cost <= left > 0:
            row = top
            if not waiting and self.accuracies[top] >= question.min_accuracy:
                return Choice(self.plans[top], cost * drift, None)
        else:
            row = self._best(size, left)
        if not self._serves(row, question, top):
            return self._choose_infeasible(question, now_s)
        whole = self._best(size, in_all) if row != top or waiting else top
        if waiting:
            gain = self.accuracies[whole] - self.accuracies[self.prior]
            price = PRESSURE * waiting * gain / in_all
            worth = self._most_worth(question, left, price)
            if worth != row:
                return self._choice(worth, size, "pressure")
        if self.accuracies[row] == self.accuracies[top]:
            return self._choice(row, size, None)
        waited = self.accuracies[whole] > self.accuracies[row]
        return self._choice(row, size, "waited" if waited else "budget")

    def _serves(self, row: int, question: Question, top: int) -> bool:
        """Say whether a row is what was asked for: accurate enough, and no prior."""
        enough = self.accuracies[row] >= question.min_accuracy
        return enough and (row != self.prior or row == top)

    def _most_worth(self, question: Question, left: float, price: float) -> int:
        """Row of best accuracy minus price times cost that fits and is good enough."""
        rows, size = self.index.skyline(question.item.size), question.item.size
        costs = costs_at(self.index.coefficients[rows], size)
        accuracies = self.index.accuracies[rows]
        fits = (costs <= left) & (accuracies >= question.min_accuracy)
        worths = np.where(fits, accuracies - price * costs, -np.inf)
        return int(rows[worths.argmax()])

    def _best(self, size: Size, left: float) -> int:
        row = self.index.lookup.best(size, left) if left > 0 else -1
        return row if row >= 0 else self.prior

    def _choice(self, row: int, size: Size, reason: Reason | None) -> Choice:
        cost = self.index.cost_s(row, size) * self.drift.factor
        return Choice(self.plans[row], cost, reason)

    def _choose_infeasible(self, question: Question, now_s: float) -> Choice:
        size = question.item.size
        drift = self.drift.factor
        whole = self._best(size, question.budget.whole / drift)
        waited = self._serves(whole, question, self._top(size)[0])
        reason: Reason = "waited" if waited else "infeasible"
        if question.on_infeasible == "prior":
            return self._choice(self.prior, size, reason)
        cheapest = self._cheapest(size, question.min_accuracy)
        if question.on_infeasible == "error":
            if drift > 1:
                self.drift.add(False)  # as in `follow`: this may be held back too
            raise TooLittleLeft(
                left=max(question.budget.left(now_s), 0.0),
                amount=question.budget.amount,
                cheapest=self.index.cost_s(cheapest, size) * drift,
                size=size,
                unit=str(self.package.meta.get("unit", "s")),
            )
        choice = self._choice(cheapest, size, reason)
        return msgspec.structs.replace(choice, late=True)

    def follow(self, outcome: Outcome, question: Question | None = None) -> None:
        """Learn from a plan that was carried out whether the curves still hold.

        What counts is the processor's time for what was computed: a thread that had
        to wait for a processor is late however cheap its plan is, and the checkpoints
        see to that. The prior tells nothing: it has no features, and nothing is
        cheaper. But where a dearer plan was held back from `question` because of
        earlier ones, the correction falls as if it had held: else it would hold all
        back for ever.
        """
        tells = outcome.row != self.prior or outcome.reason == "overrun"
        if tells and outcome.busy_s is not None and outcome.charged >= LEAST_S:
            self.drift.add(outcome.busy_s > outcome.charged)
        elif question is not None and self._held_back(outcome, question):
            self.drift.add(False)

    def _held_back(self, outcome: Outcome, question: Question) -> bool:
        """Say whether the curves alone would have bought something better."""
        if self.drift.factor == 1 or outcome.reason == "pressure":
            return False
        left = question.budget.left(outcome.started_s)
        row = self._best(question.item.size, left)
        return self.accuracies[row] > self.accuracies[outcome.row]

    def _cheapest(self, size: Size, min_accuracy: float) -> int:
        """Cheapest row beyond the prior that is accurate enough, else the best."""
        rows = [int(row) for row in self.index.skyline(size)]
        for row in rows:
            if row != self.prior and self.accuracies[row] >= min_accuracy:
                return row
        return rows[-1]


def busy_clock() -> Clock:
    """Return the clock of a thread's processor time, if it ticks finely enough."""
    fine = time.get_clock_info("thread_time").resolution <= 1e-6
    return time.thread_time if fine else time.monotonic


def remember_tops(index: Index) -> Callable[[Size], tuple[int, float]]:
    """Look up the most accurate row at a size, and its cost, once for each size."""

    @lru_cache(REMEMBERED)
    def top(size: Size) -> tuple[int, float]:
        row = index.lookup.best(size, math.inf)
        return row, index.cost_s(row, size)

    return top


class Attempt:
    """One question being answered; its plan is chosen when this is made.

    One thread runs it. Others may `conclude` it at any time, from the features that
    are complete by then: the running one only writes columns that no model of an
    earlier checkpoint reads. Setting `stopped` ends it at its next checkpoint.
    """

    __slots__ = (
        "_course",
        "_done",
        "_engine",
        "_question",
        "_row",
        "_sure",
        "choice",
        "started_s",
        "stopped",
    )

    def __init__(self, engine: Engine, question: Question, waiting: int = 0) -> None:
        self._engine = engine
        self._question = question
        self._row = np.empty(engine.extractor.width, np.float32)
        self._done = 0
        self._sure = False
        self.stopped = False
        self.started_s = engine.now()
        self.choice = engine.choose(question, self.started_s, waiting)
        self._course = None if waiting else self._set_out()

    def _set_out(self) -> Course | None:
        """Steer by the time that is left, unless the best plan there is surely fits."""
        onward, question = self._engine.onward, self._question
        if onward is None or self.choice.late or self.choice.reason is None:
            return None
        if question.budget.due_s == math.inf:  # it would never run out
            return None
        course = Course(onward, question.item.size)
        return course if course.next(self._left()) >= 0 else None

    def _left(self) -> float:
        """Tell what may still be spent now, as the curves count."""
        engine = self._engine
        return self._question.budget.left(engine.now()) / engine.drift.factor

    @property
    def longest(self) -> float:
        """What it may come to cost: its plan, or all that is left where it steers."""
        cost = self.choice.cost
        return cost if self._course is None else max(cost, self._left())

    def run(self) -> Outcome:
        """Compute features while the budget lasts, and answer."""
        if self.longest < LEAST_S:
            self._compute()
            return self.conclude()
        busy = self._engine.busy
        began_s = busy()
        self._compute()
        outcome = self.conclude()
        return msgspec.structs.replace(outcome, busy_s=busy() - began_s)

    def _compute(self) -> None:
        if self._course is not None:
            self._steer(self._course)
        else:
            self._keep_to_plan()

    def _steer(self, course: Course) -> None:
        """Compute what promises most, as long as it is sure to be done in time."""
        question = self._question
        extraction = self._engine.extractor.begin(question.item, self._row)
        while (feature := course.next(self._left())) >= 0:
            if self.stopped or question.caller.gone:
                raise Abandoned("nobody waits for this answer any more")
            extraction.compute(feature)
            course.computed(feature)

    def _keep_to_plan(self) -> None:
        """Compute the plan's features while they lead to a better answer in time."""
        engine, question, plan = self._engine, self._question, self.choice.plan
        size, budget, drift = question.item.size, question.budget, engine.drift.factor
        extraction = engine.extractor.begin(question.item, self._row)
        for k, feature in enumerate(plan.features):
            if self.stopped or question.caller.gone:
                raise Abandoned("nobody waits for this answer any more")
            left = budget.left(engine.now()) / drift
            if not (self.choice.late or plan.worth_going_on(k, size, left)):
                break
            extraction.compute(feature)
            self._done = k + 1
            if self._sure_at(k + 1):
                break

    def _sure_at(self, k: int) -> bool:
        """Say whether the model of checkpoint k leads by enough to answer."""
        plan = self.choice.plan
        margin = plan.margins[k]
        if margin == math.inf:
            return False
        _, scores = self._engine.package.models[plan.answers[k]].answer(self._row)
        second, best = sorted(scores)[-2:]
        self._sure = best - second > margin
        return self._sure

    def conclude(self) -> Outcome:
        """Answer with the best model whose features are complete."""
        engine, plan, course = self._engine, self.choice.plan, self._course
        row = plan.answers[self._done] if course is None else course.answer
        model, labels = engine.package.models[row], engine._labels[row]
        code, scores = model.answer(self._row)
        return Outcome(
            label=labels[code],
            scores=dict(zip(labels, scores, strict=True)),
            row=row,
            predicted=self.choice.cost,
            started_s=self.started_s,
            finished_s=engine.now(),
            reason=self._reason(),
            accuracy=engine.accuracies[plan.row if self._sure else row],
            charged=self._charged(row),
            busy_s=None,
        )

    def _charged(self, row: int) -> float:
        """Sum up what the curves say of all that was computed, with drift."""
        engine, plan, course = self._engine, self.choice.plan, self._course
        if course is not None:
            features = course.charged
        elif self._done == len(plan.features):
            return self.choice.cost
        else:
            done = sum(1 << feature for feature in plan.features[: self._done])
            curve = engine.package.costs.of(done)
            features = float(costs_at(curve[None], self._question.item.size)[0])
        return (features + float(engine.package.model_s[row])) * engine.drift.factor

    def _reason(self) -> Reason | None:
        if self._sure:
            return "sure"
        if self._course is not None:
            return self._reason_of_course(self._course)
        overran = self._done < len(self.choice.plan.features)
        return "overrun" if overran else self.choice.reason

    def _reason_of_course(self, course: Course) -> Reason | None:
        """Compare what a course reached with what was chosen at its beginning."""
        engine, choice = self._engine, self.choice
        reached = engine.accuracies[course.answer]
        chosen = engine.accuracies[choice.plan.row]
        if reached <= chosen:
            return "overrun" if reached < chosen else choice.reason
        top, _ = engine._top(self._question.item.size)
        if reached >= engine.accuracies[top]:
            return None
        return "waited" if choice.reason == "waited" else "budget"

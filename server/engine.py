"""From an item and what is left of its budget to an answer."""

import math
import time
from collections.abc import Callable
from functools import lru_cache

import msgspec
import numpy as np

from ..features.errors import BadIndexFile
from ..features.extract import Extractor
from ..features.polynomials import costs_at
from ..features.sizes import Size
from ..features.stopwatch import busy_clock
from ..indexer.index import Index
from ..indexer.package import Package
from .attempt import Attempt
from .audit import Audit
from .course import make_onward
from .drift import LEAST_S, Drift
from .errors import TooLittleLeft
from .outcome import Outcome, Reason
from .plan import Plan, make_plans
from .question import Question

Clock = Callable[[], float]

# How much every waiting request raises the price of a second, in mean gains of
# accuracy per second of budget; chosen by simulation (tests/test_pressure.py).
PRESSURE = 0.2
# Sizes of which the most accurate row is remembered; records have one, and images of
# one camera few.
REMEMBERED = 1024


class Choice(msgspec.Struct, frozen=True):
    """A plan, what it should cost here, and why it is not the best there is.

    `reason` is None for the most accurate plan at this size; "budget" where what was
    left of the budget buys no better; "waited" where it would have, had the question
    not waited for others; "pressure" where others wait and a cheaper one was taken for
    their sake; "infeasible" where what was left buys nothing that was asked for. What
    was left is without the reserve for what follows the plan, and without the time that
    the request took to come in and to be read.

    `cost` is with the correction of that moment, `drift`. `late` says that the plan
    does not fit and is to be carried out all the same.
    """

    plan: Plan
    cost: float
    reason: Reason | None
    drift: float = 1.0
    late: bool = False


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
        Corrects every predicted cost by what plans turn out to take.
    corrects
        Whether it does; True by default where the costs are times.
    suspects
        Whether a plan too cheap to be judged seemed to take long.
    audit
        Which early exits to check; none unless its `share` is set.

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
        self.corrects = index.package.meta.get("unit", "s") == "s"
        self.suspects = False
        self.audit = Audit(promised_alpha(index))
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
        drift = self._drift_at(now_s)
        left = budget.left(now_s) / drift
        top, cost = self._top(size)
        if cost <= left > 0:
            row = top
            if not waiting and self.accuracies[top] >= question.min_accuracy:
                return Choice(self.plans[top], cost * drift, None, drift)
        else:
            row = self._best(size, left)
        if not self._serves(row, question, top):
            return self._choose_infeasible(question, now_s, drift)
        if waiting:
            worth = self._most_worth(
                question, left, self._price(question, waiting, drift)
            )
            if worth != row:
                return self._choice(worth, size, "pressure", drift)
        if self.accuracies[row] == self.accuracies[top]:
            return self._choice(row, size, None, drift)
        unhindered = self._unhindered(question, now_s, drift)
        waited = self.accuracies[unhindered] > self.accuracies[row]
        return self._choice(row, size, "waited" if waited else "budget", drift)

    def _price(self, question: Question, waiting: int, drift: float) -> float:
        """Accuracy that a second is worth to so many others."""
        in_all = question.budget.whole / drift
        row = self._best(question.item.size, in_all)
        gain = self.accuracies[row] - self.accuracies[self.prior]
        return PRESSURE * waiting * gain / in_all if gain > 0 else 0.0

    def _unhindered(self, question: Question, now_s: float, drift: float) -> int:
        """Row that would be bought if nobody else had been in the way."""
        begun_s = min(now_s, question.waits_since_s)
        return self._best(question.item.size, question.budget.left(begun_s) / drift)

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

    def accuracy_within(self, question: Question, left_s: float, now_s: float) -> float:
        """Return the accuracy that so much buys at `now_s`; 0 if that is of no use."""
        if not left_s > 0:
            return 0.0
        row = self._best(question.item.size, left_s / self._drift_at(now_s))
        accuracy = self.accuracies[row]
        return accuracy if accuracy >= question.min_accuracy else 0.0

    def _drift_at(self, now_s: float) -> float:
        return 1.0 if self.drift.factor == 1.0 else self.drift.at(now_s)

    def _choice(
        self, row: int, size: Size, reason: Reason | None, drift: float
    ) -> Choice:
        cost = self.index.cost_s(row, size) * drift
        return Choice(self.plans[row], cost, reason, drift)

    def _choose_infeasible(
        self, question: Question, now_s: float, drift: float
    ) -> Choice:
        size = question.item.size
        unhindered = self._unhindered(question, now_s, drift)
        waited = self._serves(unhindered, question, self._top(size)[0])
        reason: Reason = "waited" if waited else "infeasible"
        if question.on_infeasible == "prior":
            return self._choice(self.prior, size, reason, drift)
        cheapest = self._cheapest(size, question.min_accuracy)
        if question.on_infeasible == "error":
            raise TooLittleLeft(
                left=max(question.budget.left(now_s), 0.0),
                amount=question.budget.amount,
                cheapest=self.index.cost_s(cheapest, size) * drift,
                size=size,
                unit=str(self.package.meta.get("unit", "s")),
            )
        choice = self._choice(cheapest, size, reason, drift)
        return msgspec.structs.replace(choice, late=True)

    def learn(self, charged_s: float, busy_s: float) -> None:
        """Learn from what was computed whether the curves still hold.

        What counts is the processor's time: a thread that had to wait for a processor
        is late however cheap its plan is, and the checkpoints see to that.

        Parameters
        ----------
        charged_s
            What the curves say of it, with the correction it was begun with.
        busy_s
            What it took of a processor.
        """
        exceeded = busy_s > max(charged_s, LEAST_S)
        self.suspects = exceeded
        if self.corrects and (exceeded or charged_s >= LEAST_S):
            self.drift.add(exceeded, self.now())

    def _cheapest(self, size: Size, min_accuracy: float) -> int:
        """Cheapest row beyond the prior that is accurate enough, else the best."""
        rows = [int(row) for row in self.index.skyline(size)]
        for row in rows:
            if row != self.prior and self.accuracies[row] >= min_accuracy:
                return row
        return rows[-1]


def promised_alpha(index: Index) -> float | None:
    """Share of answers that the index's exits may change; None without exits."""
    facts = index.package.meta.get("exits") if index.package else None
    alpha = facts.get("alpha") if isinstance(facts, dict) else None
    return float(alpha) if isinstance(alpha, int | float) and 0 <= alpha < 1 else None


def remember_tops(index: Index) -> Callable[[Size], tuple[int, float]]:
    """Look up the most accurate row at a size, and its cost, once for each size."""

    @lru_cache(REMEMBERED)
    def top(size: Size) -> tuple[int, float]:
        row = index.lookup.best(size, math.inf)
        return row, index.cost_s(row, size)

    return top

"""One question being answered, feature by feature, against the clock."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..features.errors import BadFeature, BadItem, BadRow
from ..features.extract import Extraction
from ..features.sizes import costs_at
from .columns import gap_of
from .course import Course
from .drift import LEAST_S
from .errors import Abandoned
from .outcome import Outcome
from .question import Question
from .schema_predict import Reason

if TYPE_CHECKING:
    from .engine import Engine


class Reached(NamedTuple):
    """How far a plan's computing is, as one value that other threads may read.

    `done` features are complete, and their model is `sure` or not; `audit` is as in
    `Outcome`.
    """

    done: int = 0
    sure: bool = False
    audit: bool | None = None


NOTHING = Reached()


class Attempt:
    """One question being answered; its plan is chosen when this is made.

    `waiting` is how many others wait then, and `others` says how many do later, for
    whom what an any-time course would still spend is left.

    One thread runs it. Others may `conclude` it at any time, from the features that
    are complete by then: the running one only writes columns that no model of an
    earlier checkpoint reads. Setting `stopped` ends it at its next checkpoint.
    """

    __slots__ = (
        "_alone",
        "_course",
        "_cut_short",
        "_engine",
        "_others",
        "_passed",
        "_question",
        "_reached",
        "_row",
        "_yielded",
        "choice",
        "longest",
        "started_s",
        "stopped",
    )

    def __init__(
        self,
        engine: "Engine",
        question: Question,
        waiting: int = 0,
        others: Callable[[], int] = int,
    ) -> None:
        self._engine = engine
        self._question = question
        self._row = np.empty(engine.extractor.width, np.float32)
        self._reached = NOTHING
        self._passed = False
        self._cut_short = False  # an audit, so that more was computed than is charged
        self._others = others
        self._yielded = False  # to others that came while it spent what was left over
        self.stopped = False
        self.started_s = engine.now()
        self.choice = engine.choose(question, self.started_s, waiting)
        self._alone = not waiting
        # what it may come to cost: its plan, or all that is left where it steers
        self.longest = self.choice.cost
        self._course = None if waiting else self._set_out()

    def _set_out(self) -> Course | None:
        """Steer by the time that is left, unless the best plan there is surely fits."""
        onward, question = self._engine.onward, self._question
        if onward is None or self.choice.late or self.choice.reason is None:
            return None
        if question.budget.due_s == math.inf:  # it would never run out
            return None
        course, left = Course(onward, question.item.size), self._left()
        if course.next(left) < 0:
            return None
        self.longest = max(self.longest, left)
        return course

    def _left(self) -> float:
        """Tell what may still be spent now, as the curves count."""
        engine = self._engine
        return self._question.budget.left(engine.now()) / self.choice.drift

    def run(self) -> Outcome:
        """Compute features while the budget lasts, and answer.

        What that took is learned from here, so once, whoever has concluded meanwhile.
        """
        engine = self._engine
        if self.longest < LEAST_S and not engine.suspects:
            self._compute()
            outcome = self.conclude()
            if outcome.finished_s - outcome.started_s > LEAST_S:
                engine.suspects = True  # the next one is timed
            return outcome
        began_s = engine.busy()
        try:
            self._compute()
        except (Abandoned, BadFeature) as error:
            failed = isinstance(error, BadFeature)
            charged_s, busy_s = self._spent(failed=failed), engine.busy() - began_s
            # what failed may have done so at its very beginning
            if (charged_s and not failed) or busy_s > charged_s:
                engine.learn(charged_s, busy_s)
            raise
        outcome = self.conclude()
        done = self._reached.done if self._course is None else self._course.done
        if done and not self._cut_short:
            engine.learn(outcome.charged, engine.busy() - began_s)
        return outcome

    def _spent(self, *, failed: bool = False) -> float:
        """Sum up what the curves say of the features begun; 0 where none was."""
        features, drift = self.choice.plan.features, self.choice.drift
        if self._course is not None:
            return self._course.spent(failed=failed) * drift
        begun = features[: self._reached.done + failed]
        return self._features_s(begun) * drift if begun else 0.0

    def _features_s(self, features: tuple[int, ...]) -> float:
        curve = self._engine.package.costs.of(sum(1 << feature for feature in features))
        return float(costs_at(curve[None], self._question.item.size)[0])

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
            if self._others() and self._has_enough(course):
                self._yielded = True
                return
            extraction.compute(feature)
            course.computed(feature)

    def _has_enough(self, course: Course) -> bool:
        """Say whether the course has reached what was chosen at its beginning."""
        accuracies = self._engine.accuracies
        return accuracies[course.reached[0]] >= accuracies[self.choice.plan.row]

    def _keep_to_plan(self) -> None:
        """Compute the plan's features while they lead to a better answer in time."""
        engine, question, plan = self._engine, self._question, self.choice.plan
        size, budget, drift = question.item.size, question.budget, self.choice.drift
        extraction = engine.extractor.begin(question.item, self._row)
        for k, feature in enumerate(plan.features):
            if self.stopped or question.caller.gone:
                raise Abandoned("nobody waits for this answer any more")
            left = budget.left(engine.now()) / drift
            if not (self.choice.late or plan.worth_going_on(k, size, left)):
                break
            extraction.compute(feature)
            self._reached = Reached(k + 1)
            if self._sure_at(k + 1):
                self._reached = Reached(k + 1, sure=True)
                self._check_exit(k + 1, extraction)
                break
        else:
            exits = min(plan.margins) < math.inf
            self._passed = exits and self._alone and engine.audit.due()

    def _check_exit(self, done: int, extraction: Extraction) -> None:
        """Go on with some plans that are sure, where nobody waits and time is left.

        What is answered is the whole plan's then; where the time runs out after all,
        what was sure. A late plan that has no deadline is a batch's, which has set
        aside what the whole of it takes.
        """
        engine, question, plan = self._engine, self._question, self.choice.plan
        if not self._alone or not engine.audit.due():
            return
        size = question.item.size
        paid = self.choice.late and question.budget.due_s == math.inf
        for k in range(done, len(plan.features)):
            out = self.stopped or question.caller.gone or self._others()
            if out or not (paid or plan.worth_going_on(k, size, self._left())):
                self._cut_short = True
                return
            extraction.compute(plan.features[k])
        models = engine.package.models
        first, last = plan.answers[done], plan.row
        early, _ = self._ask(first)
        whole, _ = self._ask(last)
        classes = models[first].classes[early], models[last].classes[whole]
        changes = bool(classes[0] != classes[1])
        self._reached = Reached(len(plan.features), audit=changes)

    def _sure_at(self, k: int) -> bool:
        """Say whether the model of checkpoint k leads by enough to answer."""
        plan = self.choice.plan
        margin = plan.margins[k]
        if margin == math.inf:
            return False
        _, scores = self._ask(plan.answers[k])
        second, best = sorted(scores)[-2:]
        return best - second > margin

    def conclude(self) -> Outcome:
        """Answer with the best model whose features are complete."""
        engine, plan, course = self._engine, self.choice.plan, self._course
        reached = self._reached  # read once: the thread that computes may go on
        if course is None:
            row, charged = plan.answers[reached.done], self._charged(reached.done)
            reason = self._reason(reached)
        else:
            row, features = course.reached
            charged = self._with_model(features, row)
            reason = self._reason_of_course(row)
        labels = engine._labels[row]
        code, scores = self._ask(row)
        return Outcome(
            label=labels[code],
            scores=dict(zip(labels, scores, strict=True)),
            row=row,
            predicted=self.choice.cost,
            started_s=self.started_s,
            finished_s=engine.now(),
            reason=reason,
            accuracy=engine.accuracies[plan.row if reached.sure else row],
            charged=charged,
            drift=self.choice.drift,
            audit=reached.audit,
            passed=self._passed,
        )

    def _ask(self, row: int) -> tuple[int, list[float]]:
        """Evaluate a row's model; BadItem where the item has a gap it cannot take."""
        package = self._engine.package
        try:
            return package.models[row].answer(self._row)
        except BadRow as error:
            raise BadItem(gap_of(package.features, error.column)) from error

    def _charged(self, done: int) -> float:
        """Sum up what the curves say of the plan's first features, with drift."""
        plan = self.choice.plan
        if done == len(plan.features):
            return self.choice.cost
        features = self._features_s(plan.features[:done])
        return self._with_model(features, plan.answers[done])

    def _with_model(self, features: float, row: int) -> float:
        """Add to a cost of features that of a row's model; with drift."""
        model_s = float(self._engine.package.model_s[row])
        return (features + model_s) * self.choice.drift

    def _reason(self, reached: Reached) -> Reason | None:
        """Say why a plan ends where it did."""
        if reached.sure:
            return "sure"
        overran = reached.done < len(self.choice.plan.features)
        return "overrun" if overran else self.choice.reason

    def _reason_of_course(self, row: int) -> Reason | None:
        """Compare a course's row with what was chosen at its beginning."""
        engine, choice = self._engine, self.choice
        reached = engine.accuracies[row]
        chosen = engine.accuracies[choice.plan.row]
        if reached < chosen:
            return "overrun"
        if reached == chosen and not self._yielded:
            return choice.reason
        top, _ = engine._top(self._question.item.size)
        if reached >= engine.accuracies[top]:
            return None
        if self._yielded:
            return "pressure"
        return "waited" if choice.reason == "waited" else "budget"

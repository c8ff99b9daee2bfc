"""Exits for every plan of an index: after some features, or some base models.

They are fitted on the items that measured its accuracy. Where a confidence is asked
for, they are calibrated on items that nothing else saw.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.models.qwyc.confidence_bound import Groups, fewest_rows, lacking_rows
from polydom.models.scoring.model import Model

from ...progress import OnProgress
from ...set_search.feature_order import prefixes
from ..cache import digest
from ..candidates import Candidates
from ..costs.measure_costs import MeasuredCosts
from ..features.feature_values import FeatureTable
from ..prepare import Prepared
from ..project import ExitGoal
from ..resources import Resources
from ..training.refit import KeptModels
from ..training.search_sets import CostOf
from ..training.train_sets import Trainer
from .checkpoints import Answers, CheckpointExits, answers_of, fit_exits
from .schedules import Evaluator, ScheduleFitter, divide_aside

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
Margins = tuple[tuple[float, ...], ...]

PAYS = 0.05  # share of a plan's mean cost that exits must save to be worth having


@dataclass(frozen=True, slots=True)
class PlanExits:
    """The exits of C plans.

    Attributes
    ----------
    margins
        `margins[r][k]`: the margin beyond which plan r answers after its first k
        features; infinite where it goes on. Empty if no plan does.
    evaluators
        What follows the schedule of each plan's model; None where it has none. Empty
        if none has.
    model_costs, mean_costs : (C,) float64
        Of each plan's model, which stops early if it may, in units of the budget: a
        high quantile, and the mean.
    ends
        `ends[r][k]`: share of items that plan r answers after k features.
    facts
        Plain data for `polydom inspect`.
    """

    margins: Margins
    evaluators: tuple[Evaluator | None, ...]
    model_costs: Floats
    mean_costs: Floats
    ends: Margins
    facts: dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class ItemAnswers:
    """Answers of C candidates for N items that their models were not trained on.

    Attributes
    ----------
    margins : (N, C) float64
        Each candidate's, of the best class over the second.
    choices : (N, C) int64
        Class that each candidate chooses.
    groups : (N,)
        Number of each item's group.
    values : (N, width) float32
        Full rows of the items.
    """

    margins: Floats
    choices: Rows
    groups: Groups
    values: NDArray[np.float32]

    def of(self, candidates: Rows) -> Answers:
        """Return the answers of some candidates."""
        return Answers(self.margins[:, candidates], self.choices[:, candidates])


@dataclass(frozen=True, slots=True, eq=False)
class AnswerTimes:
    """Seconds that a model takes to answer, whole and stopped early.

    `whole_s` and `mean_s` are means over the same items, `high_s` is a high quantile.
    """

    whole_s: float
    mean_s: float
    high_s: float


# Of a plan's model, and what follows the schedule that is fitted for a goal.
Timer = Callable[[int, ExitGoal, Evaluator], AnswerTimes]


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """One way to let a plan answer early, and what that saves of its mean cost."""

    checkpoints: CheckpointExits
    saved: float = 0.0
    evaluator: Evaluator | None = None
    times: AnswerTimes | None = None


@dataclass(frozen=True, slots=True, eq=False)
class PlanCosts:
    """What a plan costs by checkpoint, k = 0 ... K, in units of the budget.

    Attributes
    ----------
    candidates : (K + 1,)
        Which of the index's candidates answers at each; the last is the plan's own.
    steps : (K + 1,)
        What the features take that lead there from the one before.
    checks : (K + 1,)
        What that candidate's whole model takes.
    """

    candidates: Rows
    steps: Floats
    checks: Floats

    @property
    def whole(self) -> float:
        """Cost of all features, and of the plan's own model."""
        return float(self.steps.sum() + self.checks[-1])

    def paid(self, margins: Floats, at: Rows) -> Floats:
        """(N,) costs where plans end `at` these checkpoints, whole models included."""
        asked = np.where(np.isfinite(margins), self.checks, 0.0)
        asked[-1] = self.checks[-1]
        paid: Floats = np.cumsum(self.steps + asked)[at]
        return paid


@dataclass(frozen=True, slots=True, eq=False)
class PlanExitFitter:
    """Fits the exits of one index's plans.

    A plan's checkpoint k is where its first k features are there, k = 0 ... K; one of
    the index's C candidates answers at each. Where the last is passed, the plan's own
    model answers, and may stop early by a schedule. Both kinds of exits together keep
    to the goal: where a plan has both, each is fitted for half of it.

    Attributes
    ----------
    goal
        What the project asks for.
    fitted
        Answers for the items to fit on, by the models that were judged.
    fresh
        Answers for the items to calibrate on, by the models that are kept; None without
        a confidence.
    schedules
        Fits schedules; None where nothing is left to fit them on.
    weight
        Units of the budget that a second costs.
    refitted
        Whether the models that are kept are others than those judged.
    """

    goal: ExitGoal
    fitted: ItemAnswers
    fresh: ItemAnswers | None = None
    schedules: ScheduleFitter | None = None
    weight: float = 1.0
    refitted: bool = False

    @property
    def _known(self) -> list[ItemAnswers]:
        """What the models that are kept answer for items that they never saw."""
        if self.fresh is None:
            return [self.fitted]
        return [self.fresh] if self.refitted else [self.fitted, self.fresh]

    def all(
        self,
        masks: Sequence[int],
        models: Sequence[Model],
        orders: Sequence[Sequence[int]],
        fallbacks: Sequence[Sequence[int]],
        model_costs: Floats,
        cost_of: CostOf,
        timer: Timer,
        on_progress: OnProgress,
    ) -> PlanExits:
        """Fit every plan's exits; the arguments are a package's, by candidate.

        `model_costs` are those of whole models.
        """
        margins, evaluators, ends, facts = [], [], [], []
        high_costs, mean_costs = model_costs.copy(), model_costs.copy()
        for row, order in enumerate(orders):
            candidates = np.array([*fallbacks[row][:-1], row])
            steps = np.diff([cost_of(mask) for mask in prefixes(order)], prepend=0.0)
            costs = PlanCosts(candidates, steps, model_costs[candidates])
            best = self._best(costs, masks[row], models[row], timer)
            facts.append({"row": row, **self._facts(costs, best, models[row])})
            margins.append(tuple(best.checkpoints.thresholds.tolist()))
            evaluators.append(best.evaluator)
            _, at = best.checkpoints.evaluate(self._answers(candidates))
            counts = np.bincount(at, minlength=len(candidates))
            ends.append(tuple((counts / counts.sum()).tolist()))
            if best.times is not None:
                high_costs[row] = self.weight * best.times.high_s
                mean_costs[row] = self.weight * best.times.mean_s
            on_progress(row + 1, None)
        some = np.isfinite([m for own in margins for m in own]).any()
        return PlanExits(
            tuple(margins) if some else (),
            tuple(evaluators) if any(evaluators) else (),
            high_costs,
            mean_costs,
            tuple(ends) if some or any(evaluators) else (),
            self._report(facts),
        )

    def _best(self, costs: PlanCosts, mask: int, model: Model, timer: Timer) -> Trial:
        """Try checkpoints, a schedule and both; take what saves most, if it pays."""
        least = PAYS * costs.whole
        trials = [Trial(CheckpointExits(np.full(len(costs.steps), np.inf)))]
        at_checkpoints = self._try(costs, self.goal)
        trials.append(at_checkpoints)
        row = int(costs.candidates[-1])

        def follow(goal: ExitGoal, checkpoints: CheckpointExits) -> Trial | None:
            if self.schedules is None or costs.checks[-1] < least:
                return None
            evaluator = self.schedules.fit(model, mask, goal)
            if evaluator is None:
                return None
            times = timer(row, goal, evaluator)
            saved = self._saved(costs, checkpoints, times)
            return Trial(checkpoints, saved, evaluator, times)

        if scheduled := follow(self.goal, trials[0].checkpoints):
            trials.append(scheduled)
            if min(at_checkpoints.saved, scheduled.saved) > least and self._can_halve():
                half = self.goal.half
                both = follow(half, self._try(costs, half).checkpoints)
                trials += [both] if both else []
        best = max(trials, key=lambda trial: trial.saved)
        return best if best.saved > least else trials[0]

    def _can_halve(self) -> bool:
        """Say whether there are items enough to promise half of the goal twice."""
        alpha, confidence = self.goal.half
        if confidence is None or self.schedules is None:
            return True
        groups = self.schedules.groups
        assert groups is not None
        return not lacking_rows(len(groups), alpha, confidence, groups)

    def _try(self, costs: PlanCosts, goal: ExitGoal) -> Trial:
        """Fit the exits of one plan at its checkpoints.

        Only a checkpoint where another candidate answers than before can be an exit;
        what the others cost is paid on the way to the next of these. The first is none:
        the prior knows nothing of the item, so it is never sure.
        """
        margins = np.full(len(costs.steps), np.inf)
        changes = np.flatnonzero(np.diff(costs.candidates)) + 1  # checkpoints
        if len(changes) < 2:
            return Trial(CheckpointExits(margins))
        paid_from = np.append(0, changes[:-1] + 1)  # the first paid for each of them
        answering, fresh = costs.candidates[changes], self.fresh
        whole = costs.steps + costs.checks
        calibrated = goal.confidence is not None and fresh is not None
        margins[changes] = fit_exits(
            self.fitted.of(answering),
            np.add.reduceat(whole[: changes[-1] + 1], paid_from),
            goal.alpha,
            confidence=goal.confidence,
            calibration=fresh.of(answering) if fresh and calibrated else None,
            groups=fresh.groups if fresh and calibrated else None,
        ).thresholds
        exits = CheckpointExits(margins)
        return Trial(exits, self._saved(costs, exits))

    def _saved(
        self,
        costs: PlanCosts,
        exits: CheckpointExits,
        times: AnswerTimes | None = None,
    ) -> float:
        """Mean cost that exits save, with what asking at checkpoints costs."""
        _, at = exits.evaluate(self._answers(costs.candidates))
        saved = costs.whole - float(costs.paid(exits.thresholds, at).mean())
        if times is not None:
            ends = float(np.mean(at == len(costs.steps) - 1))
            saved += ends * self.weight * (times.whole_s - times.mean_s)
        return saved

    def _answers(self, candidates: Rows) -> Answers:
        """Answers of some candidates for all items that their models never saw."""
        parts = [part.of(candidates) for part in self._known]
        return Answers(
            np.vstack([part.margins for part in parts]),
            np.vstack([part.choices for part in parts]),
        )

    def _facts(self, costs: PlanCosts, best: Trial, model: Model) -> dict[str, Any]:
        """Count how often a plan exits, what that saves, and how often it changes."""
        answers = self._answers(costs.candidates)
        choices, at = best.checkpoints.evaluate(answers)
        last = len(costs.steps) - 1
        facts: dict[str, Any] = {}
        if best.evaluator is not None and best.times is not None:
            ends, used = self._follow(best.evaluator)
            choices = np.where(at == last, ends, choices)
            facts["schedule"] = _schedule_facts(best.evaluator, used, best.times)
        reached = np.cumsum(costs.steps)
        whole = float(reached[-1])
        left = reached[-1] - reached[at]  # 0 at the last: no rounding below it
        return {
            "early": float(np.mean(at < last)),
            "saved": float(left.mean()) / whole if whole else 0.0,
            "changed": float(np.mean(choices != answers.choices[:, -1])),
            **facts,
        }

    def _follow(self, evaluator: Evaluator) -> tuple[Rows, Rows]:
        """Classes (N,) that a schedule gives all items, and base models used."""
        found = [evaluator.choices(part.values) for part in self._known]
        places, used = (np.concatenate(part) for part in zip(*found, strict=True))
        return evaluator.classifier.classes[places], used

    def _report(self, plans: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "alpha": self.goal.alpha,
            "confidence": self.goal.confidence,
            "fitted": len(self.fitted.groups),
            "calibrated": 0 if self.fresh is None else len(self.fresh.groups),
            "plans": plans,
        }


def _schedule_facts(
    evaluator: Evaluator, used: Rows, times: AnswerTimes
) -> dict[str, Any]:
    """Plain data of a schedule: shares of base models used, and what answers take."""
    return {
        "base_models": evaluator.size,
        "mean": float(used.mean()) / evaluator.size,
        "p99": float(np.quantile(used, 0.99)) / evaluator.size,
        "mean_us": times.mean_s * 1e6,
        "p99_us": times.high_s * 1e6,
        "whole_us": times.whole_s * 1e6,
    }


def fit_plan_exits(
    candidates: Candidates,
    kept: KeptModels,
    data: Prepared,
    trainer: Trainer,
    costs: MeasuredCosts,
    own: Resources,
) -> PlanExits:
    """Fit the exits of every candidate, where they pay and can be promised."""
    project, goal = data.project, data.project.exit_goal
    models, model_costs = kept.models, kept.model_costs
    if goal is None or data.lacking:
        facts = {"lacking": data.lacking} if data.lacking else {}
        return PlanExits((), (), model_costs, model_costs, (), facts)
    masks, tested, fresh = candidates.masks, trainer.tested, data.fresh
    table = data.table
    compared = data.final.values[tested]

    def time_answers(row: int, goal: ExitGoal, early: Evaluator) -> AnswerTimes:
        quantile = project.costs.quantile
        key = digest(trainer.task.key, masks[row], goal, quantile, project.refits)
        whole = models[row].answer
        name = f"times/{key}"
        return AnswerTimes(
            *costs.measurer.compare_answers(whole, early.answer, compared, name=name)
        )

    with own.progress.stage("fitting exits", len(masks)) as on_progress:
        fitter = PlanExitFitter(
            goal,
            ItemAnswers(
                *trainer.answers(masks),
                table.dataset.groups[tested],
                table.values[tested],
            ),
            None if fresh is None else _answers(models, fresh),
            _schedule_fitter(goal, data, trainer, own),
            costs.weight,
            project.refits,
        )
        return fitter.all(
            masks,
            models,
            candidates.orders,
            candidates.fallbacks,
            model_costs,
            costs.of_set,
            time_answers,
            on_progress,
        )


def _answers(models: Sequence[Model], table: FeatureTable) -> ItemAnswers:
    """Answer items that no model was trained on."""
    pairs = [answers_of(model, table.values) for model in models]
    margins, choices = map(np.column_stack, zip(*pairs, strict=True))
    return ItemAnswers(margins, choices, table.dataset.groups, table.values)


def _schedule_fitter(
    goal: ExitGoal, data: Prepared, trainer: Trainer, own: Resources
) -> ScheduleFitter | None:
    """Give what fits schedules; None where no items are left that models never saw."""
    project, fresh = data.project, data.fresh
    if project.search.folds is not None:
        return None
    key = digest(trainer.task.key, project.refits, fresh and fresh.dataset.digest)
    values = data.table.values[trainer.tested]
    if fresh is None or goal.confidence is None:
        return ScheduleFitter(values, None, None, own.times, key)
    calibration, groups = fresh.values, fresh.dataset.groups
    if project.refits:  # the kept models were trained on the items tested
        fewest = fewest_rows(goal.alpha, goal.confidence)
        parts = divide_aside(groups, fewest, project.seed)
        if parts is None:
            return None
        values, calibration = calibration[parts[0]], calibration[parts[1]]
        groups = groups[parts[1]]
    return ScheduleFitter(values, calibration, groups, own.times, key)


def exit_costs(
    margins: Margins,
    fallbacks: Sequence[Sequence[int]],
    model_costs: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Cost (C,) of evaluating the models at all of a plan's exits."""
    checks = np.zeros(len(model_costs))
    for row, own in enumerate(margins):
        stops = np.flatnonzero(np.isfinite(own)).tolist()
        checks[row] = model_costs[[fallbacks[row][k] for k in stops]].sum()
    return checks

"""Early exits for all plans of an index: after some features, or some base models.

Exits are fitted on the items on which the plans' quality was measured. If the project
asks for a confidence, exits are calibrated on items that no other stage uses.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydom.models.scoring.model import Model

from ...progress import OnProgress
from ...set_search.feature_order import prefixes
from ..cache import digest
from ..candidates import Candidates
from ..costs.measure_costs import MeasuredCosts
from ..prepare import ExitItems, Prepared
from ..resources import Resources
from ..training.refit import KeptModels
from ..training.search.progressive_search import CostOf
from ..training.train_sets import Trainer
from .checkpoints import CheckpointExits, answers_of
from .exit_facts import facts_of_plan, facts_of_scores
from .exit_goal import ExitGoal
from .exit_trials import (
    AnswerTimes,
    CheckpointCosts,
    ExitTrials,
    ItemAnswers,
    Timer,
    Trial,
)
from .schedules import Evaluator, ScheduleFitter, make_schedule_fitter

Floats = NDArray[np.float64]
Margins = tuple[tuple[float, ...], ...]

# Exits are kept if they save this share of a whole call in the mean, or FELT_S: less
# than that no caller feels, and a machine's noise could decide it.
PAYS = 0.1
FELT_S = 5e-6
# But not even FELT_S if it is less than this share of a call.
NOTHING = 0.01
# Seconds of a call besides its plan: reading the item, planning, filling in the answer
# (`python -m benchmarks predicted`).
ANSWERING_S = 1.2e-5


@dataclass(frozen=True, slots=True)
class PlanExits:
    """The early exits of an index's C plans."""

    # `margins[r][k]`: threshold of the margin beyond which plan r answers after its
    # first k features; infinite if it never does. Empty if no plan has exits.
    margins: Margins
    # Evaluator of each model, None without a schedule; empty if no model has a schedule
    evaluators: tuple[Evaluator | None, ...]
    # (C,) float64: High quantiles of the costs of the plans' models, in units of the
    # budget; a model with a schedule stops early
    model_costs: Floats
    mean_costs: Floats  # (C,) float64: Mean costs of the plans' models
    ends: Margins  # `ends[r][k]`: share of items that plan r answers after k features
    facts: dict[str, Any]  # Plain data for `polydom inspect`


class Gain(NamedTuple):
    """What the best exits of a plan save, also if it is too little to keep them."""

    call: float  # Mean cost of a whole call without exits
    saved: float  # Mean cost that exits save of it


@dataclass(frozen=True, slots=True, eq=False)
class PlanExitFitter:
    """Fits the early exits of all plans of an index, where they save enough."""

    trials: ExitTrials
    # Trials that choose the kinds of exits: for the same shares, without confidence,
    # and without a look at the calibration items; None without a confidence
    rehearsal: ExitTrials | None = None
    # `answering`: cost of a call besides its plan, in units of the budget. `felt`: a
    # saving that pays whatever the call costs; infinite if costs are more than time
    answering: float = 0.0
    felt: float = math.inf

    def all(
        self,
        orders: Sequence[Sequence[int]],
        fallbacks: Sequence[Sequence[int]],
        model_costs: Floats,
        cost_of: CostOf,
        on_progress: OnProgress,
    ) -> PlanExits:
        """Fit the exits of all plans, one plan for each candidate.

        Each sequence has one entry per candidate. `cost_of` returns the cost of a set's
        features.
        """
        found: list[Trial] = []
        facts, ends = [], []
        for row, order in enumerate(orders):
            candidates = np.array([*fallbacks[row][:-1], row])
            steps = np.diff([cost_of(mask) for mask in prefixes(order)], prepend=0.0)
            costs = CheckpointCosts(candidates, steps, model_costs[candidates])
            best, gain = self._best(costs)
            told, shares = facts_of_plan(costs, best, self.trials)
            told |= {"call": gain.call, "gain": gain.saved}
            told["scores"] = facts_of_scores(costs, best, self.trials)
            found.append(best)
            facts.append(told)
            ends.append(tuple(shares))
            on_progress(row + 1, None)
        return self._joined(found, ends, model_costs, facts)

    def _joined(
        self,
        found: Sequence[Trial],
        ends: Sequence[tuple[float, ...]],
        model_costs: Floats,
        facts: list[dict[str, Any]],
    ) -> PlanExits:
        """Combine the exits of all plans."""
        margins = tuple(tuple(one.checkpoints.thresholds.tolist()) for one in found)
        evaluators = tuple(one.evaluator for one in found)
        high_costs, mean_costs = model_costs.copy(), model_costs.copy()
        for row, one in enumerate(found):
            if one.times is not None:
                high_costs[row] = self.trials.weight * one.times.high_s
                mean_costs[row] = self.trials.weight * one.times.mean_s
        some = bool(np.isfinite([m for own in margins for m in own]).any())
        return PlanExits(
            margins if some else (),
            evaluators if any(evaluators) else (),
            high_costs,
            mean_costs,
            tuple(ends) if some or any(evaluators) else (),
            self._facts(facts),
        )

    def least_gain(self, call: float) -> float:
        """Return what exits must save of a call's mean cost to be worth it."""
        return max(NOTHING * call, min(PAYS * call, self.felt))

    def _best(self, costs: CheckpointCosts) -> tuple[Trial, Gain]:
        """Choose the kind of a plan's exits, then fit and calibrate exits of this kind.

        If there is a choice and a confidence, the `rehearsal` makes it. Calibration
        items play no part in it, and only the chosen exits are calibrated: the best of
        several calibrated exits would break its promise more often than each of them.
        If the exits save too little, the result has none; the second value says how
        little. If the whole model costs too little for a schedule, it counts as saved.
        """
        call, model = self._call(costs), float(costs.checks[-1])
        least = self.least_gain(call)
        kinds = self.trials.kinds(costs, least)
        cheap = model < least and self.trials.may_stop(int(costs.candidates[-1]))
        unsaved = model if cheap else 0.0
        nothing = best = Trial(CheckpointExits(np.full(len(costs.steps), np.inf)))
        rehearsed = [self.rehearsal] if self.rehearsal and len(kinds) > 1 else []
        for trials in [*rehearsed, self.trials] if kinds else []:
            best = trials.best(kinds, costs, least)
            call = self._call(costs, best.times)
            if best.saved < self.least_gain(call):
                return nothing, Gain(call, max(best.saved, unsaved))
            kinds = [best.kind]
        return best, Gain(call, best.saved if kinds else unsaved)

    def _call(self, costs: CheckpointCosts, times: AnswerTimes | None = None) -> float:
        """Return the cost of a call without exits; `times` are those of its model."""
        model = costs.checks[-1]
        if times is not None:
            model = self.trials.weight * times.whole_s
        return float(self.answering + costs.steps.sum() + model)

    def _facts(self, plans: list[dict[str, Any]]) -> dict[str, Any]:
        trials = self.trials
        fresh, shares = trials.fresh, trials.goal.shares(trials.labels).tolist()
        return {
            "alpha": max(shares),
            "alphas": shares,
            "sides": trials.goal.sides,
            "confidence": trials.goal.confidence,
            "fitted": len(trials.fitted.groups),
            "calibrated": 0 if fresh is None else len(fresh.groups),
            "unlabelled": 0 if fresh is None else len(fresh.groups) - len(fresh.codes),
            "plans": plans,
        }


def fit_plan_exits(
    candidates: Candidates,
    kept: KeptModels,
    data: Prepared,
    trainer: Trainer,
    costs: MeasuredCosts,
    resources: Resources,
) -> PlanExits:
    """Fit the early exits of all candidates.

    A plan gets exits only if they save enough cost, and if there are enough items for
    the promised confidence.
    """
    goal, model_costs = data.project.exit_goal, kept.model_costs
    if goal is None or data.lacking:
        facts = {"lacking": data.lacking} if data.lacking else {}
        return PlanExits((), (), model_costs, model_costs, (), facts)
    masks, weights = candidates.masks, data.project.costs.weights
    timed = {unit for unit, weight in weights.items() if weight} == {"s"}
    with resources.progress.stage("fitting exits", len(masks)) as on_progress:
        trials = _make_trials(goal, masks, kept, data, trainer, costs, resources)
        fitter = PlanExitFitter(
            trials,
            _make_rehearsal(trials, data, trainer, resources),
            ANSWERING_S * costs.weight,
            FELT_S * costs.weight if timed else math.inf,
        )
        return fitter.all(
            candidates.orders,
            candidates.fallbacks,
            model_costs,
            costs.of_set,
            on_progress,
        )


def _make_trials(
    goal: ExitGoal,
    masks: Sequence[int],
    kept: KeptModels,
    data: Prepared,
    trainer: Trainer,
    costs: MeasuredCosts,
    resources: Resources,
) -> ExitTrials:
    tested, dataset, fresh = trainer.tested, data.table.dataset, data.fresh
    # with folds, the kept models were trained on all items
    labelled = tested if data.project.search.folds is None else tested[:0]
    fitted = ItemAnswers(
        *trainer.answers(masks),
        dataset.groups[tested],
        data.table.values[tested],
        dataset.codes[labelled],
    )
    answers = None if fresh is None else _answers(kept.models, fresh)
    return ExitTrials(
        goal,
        dataset.labels,
        masks,
        dict(zip(masks, kept.models, strict=True)).__getitem__,
        _make_timer(masks, kept, data, trainer, costs),
        fitted.without(goal.barred),
        None if answers is None else answers.without(goal.barred),
        make_schedule_fitter(goal, data, trainer, resources),
        costs.weight,
        data.project.refits,
    )


def _make_rehearsal(
    trials: ExitTrials, data: Prepared, trainer: Trainer, resources: Resources
) -> ExitTrials | None:
    """Return trials without confidence, of the models that the search trained."""
    if trials.goal.confidence is None:
        return None
    key = digest(trainer.task.key, "rehearsal")
    unseen = data.table.values[trainer.task.splits[-1][1]]  # by the searched models
    schedules = ScheduleFitter(unseen, None, None, trials.labels, resources.times, key)
    return replace(
        trials,
        goal=trials.goal._replace(confidence=None),
        model_of=trainer.model,
        fresh=None,
        schedules=schedules,
    )


def _make_timer(
    masks: Sequence[int],
    kept: KeptModels,
    data: Prepared,
    trainer: Trainer,
    costs: MeasuredCosts,
) -> Timer:
    compared, project = data.final.values[trainer.tested], data.project
    quantile = project.costs.quantile

    def time_answers(row: int, goal: ExitGoal, early: Evaluator) -> AnswerTimes:
        key = digest(
            *(trainer.task.key, masks[row], goal, quantile, project.refits),
            "compared",
        )
        answers = kept.models[row].answer, early.answer
        mean_s, high_s = costs.measurer.compare(answers, compared, name=f"times/{key}")
        return AnswerTimes(float(mean_s[0]), float(mean_s[1]), float(high_s[1]))

    return time_answers


def _answers(models: Sequence[Model], items: ExitItems) -> ItemAnswers:
    pairs = [answers_of(model, items.values) for model in models]
    margins, choices = map(np.column_stack, zip(*pairs, strict=True))
    known = items.codes[: len(items.codes) - items.unlabelled]
    return ItemAnswers(margins, choices, items.groups, items.values, known)

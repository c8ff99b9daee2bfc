"""Early exits for all plans of an index: after some features, or some base models.

Exits are fitted on the items on which the plans' quality was measured. If the project
asks for a confidence, exits are calibrated on items that no other stage uses.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import TooFewRows
from polydom.models.qwyc.calibration import ClassTests
from polydom.models.qwyc.confidence_bound import Groups
from polydom.models.scoring.model import Model

from ...progress import OnProgress
from ...set_search.feature_order import prefixes
from ..cache import digest
from ..candidates import Candidates
from ..costs.measure_costs import MeasuredCosts
from ..prepare import ExitItems, Prepared
from ..project import ExitGoal
from ..resources import Resources
from ..training.progressive_search import CostOf
from ..training.refit import KeptModels
from ..training.train_sets import Trainer
from .checkpoints import BARRED, Answers, CheckpointExits, answers_of, fit_exits
from .early_forecasts import compare_forecasts
from .schedules import Evaluator, ScheduleFitter, can_stop, divide_aside

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
Margins = tuple[tuple[float, ...], ...]
Kind = Literal["checkpoints", "schedule", "both"]  # kinds of exits of one plan

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


@dataclass(frozen=True, slots=True, eq=False)
class ItemAnswers:
    """Answers by C candidates for N items that their models were not trained on."""

    # (N, C) float64: Scores of the best classes minus second-best scores
    margins: Floats
    choices: Rows  # (N, C) int64: Classes that the candidates choose
    groups: Groups  # (N,): Numbers of the items' groups
    values: NDArray[np.float32]  # (N, width) float32: Full rows of the items
    # (M,): Classes of the first M items. The others have no labels, or the kept models
    # were trained on them.
    codes: Rows = field(default_factory=lambda: np.empty(0, np.int64))

    def without(self, barred: Rows) -> "ItemAnswers":
        """Return the answers with margins `BARRED` where a barred class is chosen."""
        held = np.isin(self.choices, barred)
        return replace(self, margins=np.where(held, BARRED, self.margins))

    def of(self, candidates: Rows) -> Answers:
        """Return the answers by the candidates at these positions."""
        return Answers(self.margins[:, candidates], self.choices[:, candidates])


@dataclass(frozen=True, slots=True, eq=False)
class AnswerTimes:
    """Seconds that a model takes for an answer, without and with its schedule."""

    whole_s: float  # Mean seconds of the whole model
    mean_s: float  # Mean seconds of the model stopped early, on the same items
    high_s: float  # High quantile of the seconds of the model stopped early


# Times the model of a candidate, whole and by a schedule that was fitted for a goal.
Timer = Callable[[int, ExitGoal, Evaluator], AnswerTimes]


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """Exits tried for one plan, and the mean cost that they save."""

    checkpoints: CheckpointExits
    kind: Kind = "both"
    saved: float = 0.0
    evaluator: Evaluator | None = None
    times: AnswerTimes | None = None


class Gain(NamedTuple):
    """What the best exits of a plan save, also if it is too little to keep them."""

    call: float  # Mean cost of a whole call without exits
    saved: float  # Mean cost that exits save of it


@dataclass(frozen=True, slots=True, eq=False)
class PlanCosts:
    """Costs of a plan at its checkpoints 0 to K, in units of the budget."""

    # (K + 1,): Candidates that answer at the checkpoints; the last is the plan itself
    candidates: Rows
    # (K + 1,): Costs of the features between the previous checkpoint and this one
    steps: Floats
    checks: Floats  # (K + 1,): Costs of the candidates' whole models

    @property
    def changes(self) -> Rows:
        """Checkpoints at which another candidate answers than before.

        The others are no exits. Checkpoint 0 is none either, since no feature of the
        item is known there.
        """
        return np.flatnonzero(np.diff(self.candidates)) + 1

    @property
    def whole(self) -> float:
        """Cost of the plan without exits: all features and the plan's own model."""
        return float(self.steps.sum() + self.checks[-1])

    def paid(self, margins: Floats, at: Rows) -> Floats:
        """Return the cost (N,) of each item, if it is answered at checkpoint `at` (N,).

        The cost is the sum of the features up to this checkpoint, of this checkpoint's
        model, and of the models of earlier checkpoints that are exits. A checkpoint is
        an exit if its threshold in `margins` is finite.
        """
        asked = np.where(np.isfinite(margins), self.checks, 0.0)
        asked[-1] = self.checks[-1]
        paid: Floats = np.cumsum(self.steps + asked)[at]
        return paid


def _no_model(mask: int) -> Model:
    raise AssertionError(f"no model of the set {mask:x} is to be asked")


@dataclass(frozen=True, slots=True, eq=False)
class PlanExitFitter:
    """Fits the early exits of all plans of an index.

    Checkpoint k of a plan, from 0 to K, comes after its first k features. There, one of
    the index's C candidates can answer. At the last checkpoint this is the plan's own
    model, which may itself stop early by a schedule. If a plan has exits at checkpoints
    and a schedule, each of the two may change half as many answers as the goal allows.
    """

    goal: ExitGoal  # Shares of answers that may change, and the confidence
    labels: tuple[str, ...]  # (K,): Names of the classes; models answer positions
    # Answers for the items to fit on, by the models of which quality was measured
    fitted: ItemAnswers
    # Answers of the kept models for the items to calibrate on; None without such items
    fresh: ItemAnswers | None = None
    # Fitter of schedules; None if no items are left to fit them on
    schedules: ScheduleFitter | None = None
    weight: float = 1.0  # Units of the budget that a second costs
    # True if the index keeps models that were trained again on all items
    refitted: bool = False
    unlabelled: int = 0  # Number of the items to calibrate on that have no label
    # Fitter that chooses the kinds of exits: for the same shares, without confidence,
    # and without a look at the calibration items; None without a confidence
    rehearsal: "PlanExitFitter | None" = None
    # Function that returns the model of a feature set that the search has trained
    searched: Callable[[int], Model] = _no_model
    # `answering`: cost of a call besides its plan, in units of the budget. `felt`: a
    # saving that pays whatever the call costs; infinite if costs are more than time
    answering: float = 0.0
    felt: float = math.inf

    @property
    def _known(self) -> list[ItemAnswers]:
        """Answers to judge exits by: the models were not trained on these items."""
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
        """Fit the exits of all plans, one plan for each candidate.

        Each sequence has one entry per candidate. `cost_of` returns the cost of a set's
        features. `timer` times a candidate's model with and without a schedule.
        """
        margins, evaluators, ends, facts = [], [], [], []
        high_costs, mean_costs = model_costs.copy(), model_costs.copy()
        for row, order in enumerate(orders):
            candidates = np.array([*fallbacks[row][:-1], row])
            steps = np.diff([cost_of(mask) for mask in prefixes(order)], prepend=0.0)
            costs = PlanCosts(candidates, steps, model_costs[candidates])
            best, gain = self._best(costs, masks[row], models[row], timer)
            facts.append({"row": row, **self._facts(costs, best, models[row])})
            facts[-1] |= {"call": gain.call, "gain": gain.saved}
            facts[-1]["scores"] = self._forecasts(costs, best, models)
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

    def least_gain(self, call: float) -> float:
        """Return what exits must save of a call's mean cost to be worth it."""
        return max(NOTHING * call, min(PAYS * call, self.felt))

    def _best(
        self, costs: PlanCosts, mask: int, model: Model, timer: Timer
    ) -> tuple[Trial, Gain]:
        """Choose the kind of a plan's exits, then fit and calibrate exits of this kind.

        If there is a choice and a confidence, the `rehearsal` makes it. Calibration
        items play no part in it, and only the chosen exits are calibrated: the best of
        several calibrated exits would break its promise more often than each of them.
        If the exits save too little, the result has none; the second value says how
        little. If the whole model costs too little for a schedule, it counts as saved.
        """
        least = self.least_gain(self._call(costs))
        nothing = Trial(CheckpointExits(np.full(len(costs.steps), np.inf)))
        cheap = float(costs.checks[-1])
        if self.schedules is None or cheap >= least or not can_stop(model):
            cheap = 0.0
        kinds = self._kinds(costs, model, least)
        if self.rehearsal is not None and len(kinds) > 1:
            own = self.rehearsal.searched(mask)
            best = self.rehearsal._compared(kinds, costs, mask, own, timer, least)
            call = self._call(costs, best.times)
            if best.saved < self.least_gain(call):
                return nothing, Gain(call, max(best.saved, cheap))
            kinds = [best.kind]
        if not kinds:
            return nothing, Gain(self._call(costs), cheap)
        best = self._compared(kinds, costs, mask, model, timer, least)
        call = self._call(costs, best.times)
        if best.saved < self.least_gain(call):
            return nothing, Gain(call, max(best.saved, cheap))
        return best, Gain(call, best.saved)

    def _call(self, costs: PlanCosts, times: AnswerTimes | None = None) -> float:
        """Return the cost of a call without exits; `times` are those of its model."""
        model = costs.checks[-1] if times is None else self.weight * times.whole_s
        return float(self.answering + costs.steps.sum() + model)

    def _kinds(self, costs: PlanCosts, model: Model, least: float) -> list[Kind]:
        """Return the kinds of exits that the plan of a model can have.

        Exits at checkpoints must be proven for every class, as no bounds prove them.
        """
        row, kinds = int(costs.candidates[-1]), list[Kind]()
        if len(costs.changes) > 1 and not self._lacking(self.goal, row).any():
            kinds.append("checkpoints")
        if self.schedules is not None and costs.checks[-1] >= least and can_stop(model):
            kinds.append("schedule")
        if len(kinds) == 2 and not self._lacking(self.goal.half, row).any():
            kinds.append("both")
        return kinds

    def _lacking(self, goal: ExitGoal, row: int) -> NDArray[np.bool_]:
        """Return a mask (K,) of the classes with too few items to calibrate on."""
        shares = goal.shares(self.labels)
        if goal.confidence is None or self.fresh is None:
            return np.zeros(len(shares), np.bool_)
        codes, groups = self.fresh.choices[:, row], self.fresh.groups
        return ClassTests.of(codes, shares, goal.confidence, groups).lacking

    def _compared(
        self,
        kinds: Sequence[Kind],
        costs: PlanCosts,
        mask: int,
        model: Model,
        timer: Timer,
        least: float,
    ) -> Trial:
        """Fit exits of several kinds to a plan, and return those that save most.

        Both kinds of exits are tried together if each saves more than `least` alone.
        """
        tried: list[Trial] = []
        for kind in kinds:
            if kind != "both" or min([one.saved for one in tried], default=1.0) > least:
                tried.append(self._trial(kind, costs, mask, model, timer))
        return max(tried, key=lambda trial: trial.saved)

    def _trial(
        self, kind: Kind, costs: PlanCosts, mask: int, model: Model, timer: Timer
    ) -> Trial:
        """Fit exits of one kind to a plan."""
        goal = self.goal.half if kind == "both" else self.goal
        exits = CheckpointExits(np.full(len(costs.steps), np.inf))
        if kind != "schedule":
            exits = self._at_checkpoints(costs, goal)
        evaluator, times = None, None
        if kind != "checkpoints" and self.schedules is not None:
            evaluator = self.schedules.fit(model, mask, goal)
        if evaluator is not None:
            times = timer(int(costs.candidates[-1]), goal, evaluator)
        return Trial(exits, kind, self._saved(costs, exits, times), evaluator, times)

    def _at_checkpoints(self, costs: PlanCosts, goal: ExitGoal) -> CheckpointExits:
        """Fit the exits at the checkpoints of one plan, of which there are several."""
        margins, changes = np.full(len(costs.steps), np.inf), costs.changes
        paid_from = np.append(
            0, changes[:-1] + 1
        )  # the first checkpoint paid with each
        answering, fresh = costs.candidates[changes], self.fresh
        whole = costs.steps + costs.checks
        calibrated = goal.confidence is not None and fresh is not None
        try:
            fitted = fit_exits(
                self.fitted.of(answering),
                np.add.reduceat(whole[: changes[-1] + 1], paid_from),
                goal.shares(self.labels),
                confidence=goal.confidence,
                calibration=fresh.of(answering) if fresh and calibrated else None,
                groups=fresh.groups if fresh and calibrated else None,
            )
        except TooFewRows:
            return CheckpointExits(margins)
        margins[changes] = fitted.thresholds
        return CheckpointExits(margins, fitted.promise)

    def _saved(
        self,
        costs: PlanCosts,
        exits: CheckpointExits,
        times: AnswerTimes | None = None,
    ) -> float:
        """Return the mean cost per item that exits save.

        The costs of models that are evaluated at exits are subtracted.
        """
        _, at = exits.evaluate(self._answers(costs.candidates))
        saved = costs.whole - float(costs.paid(exits.thresholds, at).mean())
        if times is not None:
            ends = float(np.mean(at == len(costs.steps) - 1))
            saved += ends * self.weight * (times.whole_s - times.mean_s)
        return saved

    def _answers(self, candidates: Rows) -> Answers:
        """Return some candidates' answers for all items in `_known`."""
        parts = [part.of(candidates) for part in self._known]
        return Answers(
            np.vstack([part.margins for part in parts]),
            np.vstack([part.choices for part in parts]),
        )

    def _facts(self, costs: PlanCosts, best: Trial, model: Model) -> dict[str, Any]:
        """Return plain data: shares of early answers, saved cost, changed answers."""
        answers = self._answers(costs.candidates)
        choices, at = best.checkpoints.evaluate(answers)
        last = len(costs.steps) - 1
        facts: dict[str, Any] = {}
        if best.evaluator is not None and best.times is not None:
            ends, used = self._follow(best.evaluator)
            choices = np.where(at == last, ends, choices)
            facts["schedule"] = _schedule_facts(best.evaluator, used, best.times)
        paid = np.cumsum(costs.steps)
        whole = float(paid[-1])
        left = paid[-1] - paid[at]  # exactly 0 at the last checkpoint
        return {
            "early": float(np.mean(at < last)),
            "saved": float(left.mean()) / whole if whole else 0.0,
            "changed": float(np.mean(choices != answers.choices[:, -1])),
            "classes": self._classes(best, model),
            **facts,
        }

    def _forecasts(
        self, costs: PlanCosts, best: Trial, models: Sequence[Any]
    ) -> dict[str, Any] | None:
        """Return plain data: how good the class scores of early answers are."""
        known = [one for one in self._known if len(one.codes)]
        if not known:
            return None
        part, count = known[-1], len(known[-1].codes)
        _, at = best.checkpoints.evaluate(part.of(costs.candidates))
        answering = [models[row] for row in costs.candidates]
        of = answering, at[:count], best.evaluator
        return compare_forecasts(part.codes, part.values[:count], *of, len(self.labels))

    def _classes(self, best: Trial, model: Model) -> list[dict[str, Any]]:
        """Return plain data on what is promised of each class; [] if nothing is.

        If a plan has exits at checkpoints and a schedule, their bounds add up.
        """
        promises = [(np.arange(len(self.labels)), best.checkpoints.promise)]
        if best.evaluator is not None:
            codes = np.asarray(model.classes, np.int64)
            promises.append((codes, best.evaluator.schedule.promise))
        parts = np.zeros((3, len(self.labels)))
        for codes, promise in promises:
            if promise is not None:
                parts[0, codes] += promise.bounds
                parts[1, codes] = np.maximum(parts[1, codes], promise.rows)
                parts[2, codes] += promise.changed
        if not parts[1].any():
            return []
        return [
            {"bound": bound, "items": int(items), "changed": int(changed)}
            for bound, items, changed in parts.T.tolist()
        ]

    def _follow(self, evaluator: Evaluator) -> tuple[Rows, Rows]:
        """Return classes (N,) and numbers of base models used (N,) by a schedule."""
        found = [evaluator.choices(part.values) for part in self._known]
        places, used = (np.concatenate(part) for part in zip(*found, strict=True))
        return evaluator.classifier.classes[places], used

    def _report(self, plans: list[dict[str, Any]]) -> dict[str, Any]:
        shares = self.goal.shares(self.labels).tolist()
        return {
            "alpha": max(shares),
            "alphas": shares,
            "sides": self.goal.sides,
            "confidence": self.goal.confidence,
            "fitted": len(self.fitted.groups),
            "calibrated": 0 if self.fresh is None else len(self.fresh.groups),
            "unlabelled": self.unlabelled,
            "plans": plans,
        }


def _schedule_facts(
    evaluator: Evaluator, used: Rows, times: AnswerTimes
) -> dict[str, Any]:
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
    resources: Resources,
) -> PlanExits:
    """Fit the early exits of all candidates.

    A plan gets exits only if they save enough cost, and if there are enough items for
    the promised confidence.
    """
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
        key = digest(
            *(trainer.task.key, masks[row], goal, quantile, project.refits),
            "rounds",
        )
        whole = models[row].answer
        name = f"times/{key}"
        return AnswerTimes(
            *costs.measurer.compare_answers(whole, early.answer, compared, name=name)
        )

    timed = {unit for unit, w in project.costs.weights.items() if w} == {"s"}
    labels = table.dataset.labels
    early = {"both": [0, 1], "negative": [0], "positive": [1]}[goal.sides]
    barred = np.setdiff1d(np.arange(2), early)
    with resources.progress.stage("fitting exits", len(masks)) as on_progress:
        fitted = ItemAnswers(
            *trainer.answers(masks),
            table.dataset.groups[tested],
            table.values[tested],
            table.dataset.codes[[] if project.search.folds else tested],
        ).without(barred)
        rehearsal = None
        if goal.confidence is not None:
            asked = goal._replace(confidence=None)
            key = digest(trainer.task.key, "rehearsal")
            unseen = trainer.task.splits[-1][1]  # by the models that the search kept
            whole = ScheduleFitter(
                table.values[unseen], None, None, labels, resources.times, key
            )
            rehearsal = PlanExitFitter(
                asked,
                labels,
                fitted,
                schedules=whole,
                weight=costs.weight,
                searched=trainer.model,
            )
        fitter = PlanExitFitter(
            goal,
            labels,
            fitted,
            None if fresh is None else _answers(models, fresh).without(barred),
            make_schedule_fitter(goal, data, trainer, resources),
            costs.weight,
            project.refits,
            0 if fresh is None else fresh.unlabelled,
            rehearsal,
            answering=ANSWERING_S * costs.weight,
            felt=FELT_S * costs.weight if timed else math.inf,
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


def _answers(models: Sequence[Model], items: ExitItems) -> ItemAnswers:
    pairs = [answers_of(model, items.values) for model in models]
    margins, choices = map(np.column_stack, zip(*pairs, strict=True))
    known = items.codes[: len(items.codes) - items.unlabelled]
    return ItemAnswers(margins, choices, items.groups, items.values, known)


def make_schedule_fitter(
    goal: ExitGoal, data: Prepared, trainer: Trainer, resources: Resources
) -> ScheduleFitter | None:
    """Return a fitter of schedules, or None if no items are left to fit them on."""
    project, fresh = data.project, data.fresh
    if project.search.folds is not None and fresh is None:
        return None
    key = digest(trainer.task.key, project.refits, fresh and fresh.digest)
    values = data.table.values[trainer.tested]
    labels = data.table.dataset.labels
    if fresh is None or goal.confidence is None:
        if fresh is not None:
            values = fresh.values  # the kept models may have seen the tested items
        return ScheduleFitter(values, None, None, labels, resources.times, key)
    calibration, groups = fresh.values, fresh.groups
    if project.refits:  # the kept models were trained on the tested items
        parts = divide_aside(fresh, goal, project.seed)
        if parts is None:
            return None
        values, calibration = calibration[parts[0]], calibration[parts[1]]
        groups = groups[parts[1]]
    return ScheduleFitter(values, calibration, groups, labels, resources.times, key)

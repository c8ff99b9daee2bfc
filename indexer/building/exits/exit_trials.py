"""Exits tried for a plan: fitted to its checkpoints, its model, or both."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import TooFewRows
from polydom.models.qwyc.confidence_bound import Groups
from polydom.models.qwyc.fixed_sequence import ClassTests
from polydom.models.scoring.model import Model

from .checkpoints import BARRED, Answers, CheckpointExits, fit_exits
from .exit_goal import ExitGoal
from .schedules import Evaluator, ScheduleFitter, can_stop

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
Kind = Literal["checkpoints", "schedule", "both"]  # kinds of exits of one plan


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

    def without(self, barred: Sequence[int]) -> "ItemAnswers":
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
class CheckpointCosts:
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


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """Exits tried for one plan, and the mean cost that they save."""

    checkpoints: CheckpointExits
    kind: Kind = "both"
    saved: float = 0.0
    evaluator: Evaluator | None = None
    times: AnswerTimes | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ExitTrials:
    """Fits exits of any kind to the plans of an index's C candidates.

    Checkpoint k of a plan, from 0 to K, comes after its first k features. There, one of
    the candidates can answer. At the last checkpoint this is the plan's own model,
    which may itself stop early by a schedule. If a plan has exits at checkpoints and a
    schedule, each of the two may change half as many answers as the goal allows.
    """

    goal: ExitGoal  # Shares of answers that may change, and the confidence
    labels: tuple[str, ...]  # (K,): Names of the classes; models answer positions
    masks: Sequence[int]  # (C,): Feature sets of the candidates
    model_of: Callable[[int], Model]  # Returns the model of a feature set
    timer: Timer
    # Answers for the items to fit on, by the models of which quality was measured
    fitted: ItemAnswers
    # Answers of the kept models for the items to calibrate on; None without such items
    fresh: ItemAnswers | None = None
    # Fitter of schedules; None if no items are left to fit them on
    schedules: ScheduleFitter | None = None
    weight: float = 1.0  # Units of the budget that a second costs
    # True if the index keeps models that were trained again on all items
    refitted: bool = False

    @property
    def known(self) -> list[ItemAnswers]:
        """Answers to judge exits by: the models were not trained on these items."""
        if self.fresh is None:
            return [self.fitted]
        return [self.fresh] if self.refitted else [self.fitted, self.fresh]

    def answers(self, candidates: Rows) -> Answers:
        """Return some candidates' answers for all items in `known`."""
        parts = [part.of(candidates) for part in self.known]
        return Answers(
            np.vstack([part.margins for part in parts]),
            np.vstack([part.choices for part in parts]),
        )

    def model(self, row: int) -> Model:
        """Return the model of a candidate."""
        return self.model_of(self.masks[row])

    def may_stop(self, row: int) -> bool:
        """Return True if a candidate's model may have a schedule."""
        return self.schedules is not None and can_stop(self.model(row))

    def kinds(self, costs: CheckpointCosts, least: float) -> list[Kind]:
        """Return the kinds of exits that a plan can have.

        A schedule cannot save as much as `least` if the whole model costs less. Exits
        at checkpoints must be proven for every class, as no bounds prove them.
        """
        row, kinds = int(costs.candidates[-1]), list[Kind]()
        if len(costs.changes) > 1 and not self._lacking(self.goal, row).any():
            kinds.append("checkpoints")
        if costs.checks[-1] >= least and self.may_stop(row):
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

    def best(
        self, kinds: Sequence[Kind], costs: CheckpointCosts, least: float
    ) -> Trial:
        """Fit exits of several kinds to a plan, and return those that save most.

        Both kinds of exits are tried together if each saves more than `least` alone.
        """
        tried: list[Trial] = []
        for kind in kinds:
            if kind != "both" or min([one.saved for one in tried], default=1.0) > least:
                tried.append(self._trial(kind, costs))
        return max(tried, key=lambda trial: trial.saved)

    def _trial(self, kind: Kind, costs: CheckpointCosts) -> Trial:
        goal = self.goal.half if kind == "both" else self.goal
        row = int(costs.candidates[-1])
        exits = CheckpointExits(np.full(len(costs.steps), np.inf))
        if kind != "schedule":
            exits = self._at_checkpoints(costs, goal)
        evaluator, times = None, None
        if kind != "checkpoints" and self.schedules is not None:
            evaluator = self.schedules.fit(self.model(row), self.masks[row], goal)
        if evaluator is not None:
            times = self.timer(row, goal, evaluator)
        return Trial(exits, kind, self._saved(costs, exits, times), evaluator, times)

    def _at_checkpoints(
        self, costs: CheckpointCosts, goal: ExitGoal
    ) -> CheckpointExits:
        """Fit the exits at the checkpoints of one plan, of which there are several."""
        margins, changes = np.full(len(costs.steps), np.inf), costs.changes
        # the first checkpoint whose costs are paid with each of the changes
        paid_from = np.append(0, changes[:-1] + 1)
        whole = (costs.steps + costs.checks)[: changes[-1] + 1]
        answering = costs.candidates[changes]
        fresh = None if goal.confidence is None else self.fresh
        try:
            fitted = fit_exits(
                self.fitted.of(answering),
                np.add.reduceat(whole, paid_from),
                goal.shares(self.labels),
                confidence=goal.confidence,
                calibration=None if fresh is None else fresh.of(answering),
                groups=None if fresh is None else fresh.groups,
            )
        except TooFewRows:
            return CheckpointExits(margins)
        margins[changes] = fitted.thresholds
        return CheckpointExits(margins, fitted.promise)

    def _saved(
        self,
        costs: CheckpointCosts,
        exits: CheckpointExits,
        times: AnswerTimes | None,
    ) -> float:
        """Return the mean cost per item that exits save.

        The costs of models that are evaluated at exits are subtracted.
        """
        _, at = exits.evaluate(self.answers(costs.candidates))
        saved = costs.whole - float(costs.paid(exits.thresholds, at).mean())
        if times is not None:
            ends = float(np.mean(at == len(costs.steps) - 1))
            saved += ends * self.weight * (times.whole_s - times.mean_s)
        return saved

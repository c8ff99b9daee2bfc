"""Exits at the checkpoints of a plan: early answers from its first features.

After each feature of a plan, there is a checkpoint with a model that needs only the
features computed so far. The margin is this model's score of its best class minus its
score of the second-best. If the margin exceeds a threshold, the plan answers at this
checkpoint and computes no more features. This is QWYC with feature sets instead of base
models: margins replace running sums, and costs of features replace costs of base
models.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadInput
from polydom.models.qwyc.fixed_sequence import (
    FreshRows,
    calibrate,
    check_confidence,
    make_tests,
)
from polydom.models.qwyc.optimal_stopping import Stopping
from polydom.models.qwyc.promise import Promise
from polydom.models.qwyc.running_sums import Walk
from polydom.models.scoring.classifier import border_of
from polydom.models.scoring.model import Model
from polydom.models.scoring.stopping_rule import margins_of

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Rows = NDArray[np.int64]

# Margin of an answer that never ends a plan early; others are not below 0.
BARRED = -1.0


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """Answers for N items by the models at a plan's checkpoints 0 to K."""

    # (N, K + 1) score of the best class minus the second-best score, or BARRED
    margins: Floats
    choices: Rows  # (N, K + 1) positions of the best classes

    def __post_init__(self) -> None:
        shape = self.margins.shape
        if len(shape) != 2 or 0 in shape or self.choices.shape != shape:
            raise BadInput(
                f"margins and choices have shapes {shape} and {self.choices.shape}; "
                "both must be (N, K + 1), of at least one item and checkpoint"
            )
        if not np.isfinite(self.margins).all():
            raise BadInput("a margin is not a finite number")

    def __len__(self) -> int:
        return len(self.margins)


@dataclass(frozen=True, slots=True, eq=False)
class CheckpointExits:
    """Thresholds of a plan's checkpoints; a margin above a threshold ends the plan."""

    thresholds: Floats  # (K + 1,), infinite if a checkpoint is no exit
    # Guarantee for fresh items, by class; None without calibration
    promise: Promise | None = None

    def evaluate(self, answers: Answers) -> tuple[Rows, Rows]:
        """Return each item's class (N,), and the checkpoint (N,) that answers."""
        stops = answers.margins > self.thresholds
        stops[:, -1] = True
        at = stops.argmax(axis=1)
        return answers.choices[np.arange(len(at)), at], at

    def changed(self, answers: Answers) -> Rows:
        """Return the last checkpoint's classes for the items that exits change."""
        choices, _ = self.evaluate(answers)
        whole = answers.choices[:, -1]
        changed: Rows = whole[choices != whole]
        return changed

    def without_stops(self) -> Self:
        """Return exits that never stop: all thresholds are infinite."""
        return replace(self, thresholds=np.full(len(self.thresholds), np.inf))


def answers_of(model: Model, values: NDArray[np.float32]) -> tuple[Floats, Rows]:
    """Return a model's margins (N,) and chosen classes (N,) for rows of feature values.

    The margin is the best class's score minus the second-best score, or 0 if the model
    has only one class. If the second of two classes is chosen from another score than
    the first's, the margin is twice the distance from it.
    """
    scores = np.asarray(model.predict_scores(values), np.float64)
    margins = np.zeros(len(values)) if scores.shape[1] < 2 else margins_of(scores)
    if (border := border_of(model)) is not None:
        margins = 2 * np.abs(scores[:, 1] - border)
    return margins, np.asarray(model.predict(values), np.int64)


class CheckpointMargins:
    """Margins of items at a plan's checkpoints, in the form that `Stopping` reads.

    `Stopping` stops items with low numbers, whereas items with high margins are to
    exit. So margins are negated. They are also divided by their standard deviation at
    the checkpoint, rounded to a power of two. An exit is wrong if the last checkpoint
    would choose another class.
    """

    border: float | None = None

    def __init__(self, answers: Answers) -> None:
        self.answers = answers
        spread = answers.margins.std(axis=0)
        # dividing by powers of two rounds nothing
        self.scale = np.exp2(np.round(np.log2(np.where(spread > 0, spread, 1.0))))
        self.final = -answers.margins[:, -1] / self.scale[-1]
        self.decisions = answers.choices[:, -1]

    def prices(self, weights: Floats) -> Floats:
        """Return prices (2, N), as `RunningSums.prices` does."""
        return np.repeat(weights[None, self.decisions], 2, axis=0)

    def walk(self) -> Walk:
        """Return an iterator over the checkpoints, as `RunningSums.walk` does."""
        margins, choices = self.answers.margins, self.answers.choices

        def past(r: int, rows: Rows) -> tuple[Floats, Flags]:
            wrong: Flags = choices[rows, r] != choices[rows, -1]
            return -margins[rows, r] / self.scale[r], wrong

        return Walk(len(margins), margins.shape[1], past)


def fit_exits(
    answers: Answers,
    costs: Sequence[float] | Floats,
    alphas: Floats,
    *,
    confidence: float | None = None,
    calibration: Answers | None = None,
    groups: Rows | None = None,
) -> CheckpointExits:
    """Find thresholds at a plan's checkpoints that minimise the plan's mean cost.

    `answers` are those at checkpoints 0 to C, for items that no model was trained on.
    `costs` (C + 1,) are the checkpoints' costs, at least 0: of the model, and of the
    features computed since the checkpoint before.

    Of the items for which the last checkpoint chooses class k, exits change at most the
    share `alphas[k]`, in [0, 1). Without `confidence`, this holds for the items of
    `answers`. With a confidence, in (0, 1), it holds for fresh items and all classes
    together; `calibration` then has answers for items that are used for nothing else,
    and `groups` the numbers of their groups. Nothing proves that a later model will not
    overrule an earlier one. So there are no exits if there are too few calibration
    items of a class, or its share is 0.

    Raises BadInput if there are too few calibration items, or an argument is out of
    range.
    """
    alphas = np.ascontiguousarray(alphas, np.float64)
    groups = check_confidence(alphas, confidence, calibration, groups)
    costs = np.ascontiguousarray(costs, np.float64)
    count = answers.margins.shape[1]
    if costs.shape != (count,) or not (np.isfinite(costs) & (costs >= 0)).all():
        raise BadInput(f"costs must be {count} finite numbers, none below 0")
    never = CheckpointExits(np.full(count, np.inf))
    tests = None
    if confidence is not None and calibration is not None:
        decisions = calibration.choices[:, -1]
        tests = make_tests(decisions, alphas, confidence, groups)
        if tests.lacking.any():
            return replace(never, promise=tests.of_nothing())
    if not costs[1:].any():
        return never
    margins = CheckpointMargins(answers)
    # without a floor, a checkpoint that costs nothing would never be worth an exit
    floor = costs.max() * 1e-9
    stopping = Stopping(margins, costs=np.maximum(costs, floor), both=False)

    def exits(lower: Floats) -> CheckpointExits:
        return CheckpointExits(np.maximum(-lower * margins.scale, BARRED))

    if calibration is None or tests is None:
        return exits(stopping.within(alphas)[0])
    ladder = (exits(lower) for lower, _ in stopping.ladder(alphas))
    return calibrate(ladder, FreshRows.of(decisions, calibration), tests)

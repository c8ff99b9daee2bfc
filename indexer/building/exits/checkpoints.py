"""When the first features of a plan are enough: exits at its checkpoints.

After each feature a plan has a model whose features are all complete. Where that model
is sure, it decides as the plan's own model would have. This is QWYC with feature sets
as base models: the margin of a checkpoint's model, of the best class over the second,
takes the running sum's place, and a position costs what its features do.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadInput
from polydom.models.qwyc.confidence_bound import check_rate, fit_to_rate
from polydom.models.qwyc.optimal_stopping import Stopping
from polydom.models.qwyc.running_sums import Walk
from polydom.models.qwyc.schedule import Promise
from polydom.models.scoring.model import Model
from polydom.models.scoring.stopping_rule import margins_of

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """Answers of K + 1 checkpoints for N items; the last is what counts."""

    margins: Floats  # (N, K + 1) of the best class's score over the second best's
    choices: Rows  # (N, K + 1) positions of the classes chosen

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
        """Count the items."""
        return len(self.margins)


@dataclass(frozen=True, slots=True, eq=False)
class CheckpointExits:
    """Margins beyond which the checkpoints of a plan answer."""

    thresholds: Floats  # (K + 1,), infinite where work always goes on, as at the last
    promise: Promise | None = None  # what calibration items guarantee, if there were

    def evaluate(self, answers: Answers) -> tuple[Rows, Rows]:
        """Choices (N,) and checkpoints (N,) at which they are made."""
        stops = answers.margins > self.thresholds
        stops[:, -1] = True
        at = stops.argmax(axis=1)
        return answers.choices[np.arange(len(at)), at], at

    def changed(self, answers: Answers) -> int:
        """Count the items decided otherwise than by the last checkpoint."""
        choices, _ = self.evaluate(answers)
        return int(np.count_nonzero(choices != answers.choices[:, -1]))

    def without_stops(self) -> Self:
        """Give the exits of a plan that is always computed whole."""
        return replace(self, thresholds=np.full(len(self.thresholds), np.inf))


def answers_of(model: Model, values: NDArray[np.float32]) -> tuple[Floats, Rows]:
    """Margins (N,), 0 where there is one class, and choices (N,) of full rows."""
    scores = np.asarray(model.predict_scores(values), np.float64)
    margins = np.zeros(len(values)) if scores.shape[1] < 2 else margins_of(scores)
    return margins, np.asarray(model.predict(values), np.int64)


class CheckpointMargins:
    """Items on their way past the checkpoints, as `Stopping` follows them.

    The number of an item is minus its margin, in about the standard deviation of that
    checkpoint's margins: low is sure, wrongly where the last one answers otherwise.
    """

    border: float | None = None

    def __init__(self, answers: Answers) -> None:
        self.answers = answers
        spread = answers.margins.std(axis=0)
        # powers of two, by which margins are divided without rounding
        self.scale = np.exp2(np.round(np.log2(np.where(spread > 0, spread, 1.0))))
        self.final = -answers.margins[:, -1] / self.scale[-1]

    def walk(self) -> Walk:
        """Start as in `RunningSums`."""
        margins, choices = self.answers.margins, self.answers.choices

        def past(r: int, rows: Rows) -> tuple[Floats, Flags]:
            wrong: Flags = choices[rows, r] != choices[rows, -1]
            return -margins[rows, r] / self.scale[r], wrong

        return Walk(len(margins), margins.shape[1], past)


def fit_exits(
    answers: Answers,
    costs: Sequence[float] | Floats,
    alpha: float,
    *,
    confidence: float | None = None,
    calibration: Answers | None = None,
    groups: Rows | None = None,
) -> CheckpointExits:
    """Find the margins at which a plan's checkpoints answer, at the least mean cost.

    Parameters
    ----------
    answers
        Of items that no model was trained on; labels are not needed.
    costs
        (K + 1,) what it takes to come to each checkpoint from the one before and to
        answer there, >= 0.
    alpha
        Share of decisions that may be other than the last checkpoint's, in [0, 1): on
        these items, or with `confidence` on fresh ones.
    confidence, calibration, groups
        As for `fit_schedule`: with answers for items used for nothing else.

    Raises
    ------
    BadInput
        If an argument is outside its range or there are too few calibration items.
    """
    check_rate(alpha, confidence, calibration, groups)
    prices = np.ascontiguousarray(costs, np.float64)
    count = answers.margins.shape[1]
    if prices.shape != (count,) or not (np.isfinite(prices) & (prices >= 0)).all():
        raise BadInput(f"costs must be {count} finite numbers, none below 0")
    if not prices[1:].any():
        return CheckpointExits(np.full(count, np.inf))
    margins = CheckpointMargins(answers)
    # free steps still have to end somewhere when prices are compared
    floor = prices.max() * 1e-9
    stopping = Stopping(margins, costs=np.maximum(prices, floor), both=False)

    def exits(lower: Floats, _: Floats) -> CheckpointExits:
        return CheckpointExits(-lower * margins.scale)

    return fit_to_rate(stopping, exits, alpha, confidence, (calibration,), groups)

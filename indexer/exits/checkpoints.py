"""When the first features of a plan are enough: exits at its checkpoints.

After each feature a plan has a model whose features are all complete. Where that model
is sure, it decides as the plan's own model would have, and the features that are left
need not be computed. This is QWYC with feature sets as base models: a checkpoint's
model takes the running sum's place, its margin of the best class over the second the
sum's distance from the threshold, and a position costs what its features do.
"""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadInput
from polydom.models.qwyc.schedule import Promise
from polydom.models.scoring.model import Model
from polydom.models.scoring.stops import margins_of

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """Answers of K + 1 checkpoints for N items.

    Attributes
    ----------
    margins : (N, K + 1) float64
        By how much the best class's score exceeds the second best's.
    choices : (N, K + 1) int64
        Class chosen; the last is what counts.
    """

    margins: Floats
    choices: Rows

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
    """Margins beyond which the checkpoints of a plan answer.

    Attributes
    ----------
    thresholds : (K + 1,) float64
        By checkpoint; infinite where work always goes on. The last is infinite.
    promise : Promise or None
        What calibration items guarantee about decisions that differ from the plan's
        own model's; None without such items.
    """

    thresholds: Floats
    promise: Promise | None = None

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
        """Return the exits of a plan that is always computed whole."""
        return replace(self, thresholds=np.full(len(self.thresholds), np.inf))


def answers_of(model: Model, values: NDArray[np.float32]) -> tuple[Floats, Rows]:
    """Margins (N,) and choices (N,) of one model for the full rows `values` (N, width).

    Those of a model of a single class are 0.
    """
    scores = np.asarray(model.predict_scores(values), np.float64)
    margins = np.zeros(len(values)) if scores.shape[1] < 2 else margins_of(scores)
    return margins, np.asarray(model.predict(values), np.int64)

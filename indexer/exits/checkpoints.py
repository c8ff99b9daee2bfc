"""When the first features of a plan are enough: exits at its checkpoints.

After each feature a plan has a model whose features are all complete. Where that model
is sure, it decides as the plan's own model would have. This is QWYC with feature sets
as base models: the margin of a checkpoint's model, of the best class over the second,
takes the running sum's place, and a position costs what its features do.
"""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadInput
from polydom.models.qwyc.schedule import Promise
from polydom.models.scoring.model import Model
from polydom.models.scoring.stopping_rule import margins_of

Floats = NDArray[np.float64]
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

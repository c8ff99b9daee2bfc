"""The outcome of a request: the answer, its reason, and its cost."""

import msgspec

from ..schema.wire import Reason


class Outcome(msgspec.Struct, frozen=True):
    """The answer to a request, and its cost."""

    label: str | None  # The class; None if answers are numbers
    # Score of each class; None if the model stopped before its last base model, or if
    # answers are numbers
    scores: dict[str, float] | None
    row: int  # Row of the index whose model answered
    predicted: float  # Predicted cost of the plan, in the unit of the index's costs
    # `started_s` and `finished_s`: start and end of the work on the item, on the
    # planner's clock
    started_s: float
    finished_s: float
    # As in `Choice`. Also "overrun" if time ran out before the end of the plan, and
    # "sure" if an early exit answered.
    reason: Reason | None
    # Expected quality and accuracy of the row, in [0, 1]; after an early exit, those of
    # the whole plan. No accuracy if answers are numbers.
    quality: float
    accuracy: float | None
    # Cost of all computed features and models by the cost curves, in the index's unit
    charged: float
    drift: float = 1.0  # Correction factor that `predicted` and `charged` include
    # If an early exit was audited, this answer is the whole plan's; True if it differs
    # from the early answer. None for other answers.
    audit: bool | None = None
    # True if the audit drew this answer, and the plan took no early exit
    passed: bool = False
    # If the ensemble stopped early: lower and upper bound of each class's score. None
    # otherwise, or if base models have no bounds.
    score_bounds: dict[str, tuple[float, float]] | None = None
    # Number of base models that answered, and of all base models; None without an
    # early-exit schedule
    base_models_used: int | None = None
    base_models: int | None = None
    # Number answered, and interval that should contain the label; None if answers are
    # classes
    value: float | None = None
    interval: tuple[float, float] | None = None

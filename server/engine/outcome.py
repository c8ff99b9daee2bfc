"""The outcome of a request: the answer, its reason, and its cost."""

import msgspec

from ..schema.wire import Reason


class Outcome(msgspec.Struct, frozen=True):
    """The answer to a request, and its cost."""

    label: str | None  # The class; None if answers are numbers
    # Score of each class; None if the model stopped before its last base model, and if
    # answers are numbers
    scores: dict[str, float] | None
    row: int  # Row of the index whose model answered
    predicted: float  # Predicted cost of the plan, in the unit of the index's costs
    # `started_s` and `finished_s`: start and end of the work on the item, on the
    # planner's clock
    started_s: float
    finished_s: float
    # As in `Choice`; "overrun" if the clock stopped the plan before its end; "sure" if
    # an early exit answered
    reason: Reason | None
    # `quality` and `accuracy`: expected quality and accuracy in [0, 1] of the row, or
    # of the whole plan after an early exit; no accuracy if answers are numbers
    quality: float
    accuracy: float | None
    # Cost by the curves of all that was computed, in the unit of the costs
    charged: float
    drift: float = 1.0  # Correction factor that is part of `predicted` and `charged`
    # For an audited early exit: whether the whole plan's answer, which is this one,
    # differs from the early answer. None for other answers.
    audit: bool | None = None
    # True if the audit drew this answer, and the plan took no early exit
    passed: bool = False
    # After an early stop of the ensemble: lower and upper bound of each class's score.
    # None otherwise, and if base models have no bounds.
    score_bounds: dict[str, tuple[float, float]] | None = None
    # `base_models_used` and `base_models`: number of base models that answered, and of
    # all; None without a schedule
    base_models_used: int | None = None
    base_models: int | None = None
    # `value` and `interval`: the number answered, and the interval in which its label
    # is expected; None if answers are classes
    value: float | None = None
    interval: tuple[float, float] | None = None

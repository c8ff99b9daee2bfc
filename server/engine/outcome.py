"""The outcome of a request: the answer, its reason, and its cost."""

import msgspec

from ..schema.wire import Reason


class Outcome(msgspec.Struct, frozen=True):
    """The answer to a request, and its cost.

    Attributes
    ----------
    label
        The class; None if answers are numbers.
    scores
        Score of each class; None if the model stopped before its last base model, and
        if answers are numbers.
    row
        Row of the index whose model answered.
    predicted
        Predicted cost of the plan, in the unit of the index's costs.
    started_s, finished_s
        Start and end of the work on the item, on the planner's clock.
    reason
        As in `Choice`; "overrun" if the clock stopped the plan before its end; "sure"
        if an early exit answered.
    quality, accuracy
        Expected quality and accuracy in [0, 1] of the row, or of the whole plan after
        an early exit; no accuracy if answers are numbers.
    charged
        Cost by the curves of all that was computed, in the unit of the costs.
    drift
        Correction factor that is part of `predicted` and `charged`.
    audit
        For an audited early exit: whether the whole plan's answer, which is this one,
        differs from the early answer. None for other answers.
    passed
        True if the audit drew this answer, and the plan took no early exit.
    score_bounds
        After an early stop of the ensemble: lower and upper bound of each class's
        score. None otherwise, and if base models have no bounds.
    base_models_used, base_models
        Number of base models that answered, and of all; None without a schedule.
    value, interval
        The number answered, and the interval in which its label is expected; None if
        answers are classes.
    """

    label: str | None
    scores: dict[str, float] | None
    row: int
    predicted: float
    started_s: float
    finished_s: float
    reason: Reason | None
    quality: float
    accuracy: float | None
    charged: float
    drift: float = 1.0
    audit: bool | None = None
    passed: bool = False
    score_bounds: dict[str, tuple[float, float]] | None = None
    base_models_used: int | None = None
    base_models: int | None = None
    value: float | None = None
    interval: tuple[float, float] | None = None

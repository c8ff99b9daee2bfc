"""An outcome: what was answered to a request, why, and what it took."""

import msgspec

from ..schema.wire import Reason


class Outcome(msgspec.Struct, frozen=True):
    """An answer and what it took.

    Attributes
    ----------
    label
        The class answered; None where answers are numbers.
    scores
        The model's score for each of its classes; None where it stopped before its
        last base model, and where answers are numbers.
    row
        The index's row whose model answered.
    predicted
        What the plan was to cost, in the unit of the index's costs.
    started_s, finished_s
        When work on the item started and ended, on the planner's clock.
    reason
        As in `Choice`, or "overrun" where the clock stopped the plan halfway, or
        "sure" where the plan's first features were enough.
    quality, accuracy
        Expected, in [0, 1]: those of the row, or where it was sure those of the plan.
        There is no accuracy of numbers.
    charged
        What the curves say of all that was computed, in the unit of the costs.
    drift
        The correction that is in `predicted` and `charged`.
    audit
        Where an early exit was audited: whether the whole plan's answer, which this
        is, differs from the one that the first features gave. None elsewhere.
    passed
        Whether the audit drew this answer, though its plan passed all its exits: it is
        the whole plan's anyway.
    score_bounds
        Where the ensemble stopped early: the least and the most that each class's score
        can come to; None elsewhere, and where base models have no bounds.
    base_models_used, base_models
        How many base models answered, of how many; None where the model is not followed
        by a schedule.
    value, interval
        The number answered, and between which its label is expected; None where answers
        are classes.
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

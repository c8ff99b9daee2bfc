"""An outcome: what was answered to a request, why, and what it took."""

import msgspec

from ..schema.predict import Reason


class Outcome(msgspec.Struct, frozen=True):
    """An answer and what it took.

    Attributes
    ----------
    label
        The class answered.
    scores
        The model's score for each of its classes.
    row
        The index's row whose model answered.
    predicted
        What the plan was to cost, in the unit of the index's costs.
    started_s, finished_s
        When work on the item started and ended, on the planner's clock.
    reason
        As in `Choice`, or "overrun" where the clock stopped the plan halfway, or
        "sure" where the plan's first features were enough.
    accuracy
        Expected, in [0, 1]: that of the row, or where it was sure that of the plan.
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
    """

    label: str
    scores: dict[str, float]
    row: int
    predicted: float
    started_s: float
    finished_s: float
    reason: Reason | None
    accuracy: float
    charged: float
    drift: float = 1.0
    audit: bool | None = None
    passed: bool = False

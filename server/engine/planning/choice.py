"""The choice of a plan for one request."""

import math

import msgspec

from ...schema.wire import Reason
from .plan import Plan


class Choice(msgspec.Struct, frozen=True):
    """A plan chosen for a request, with its cost and the reason for the choice."""

    plan: Plan  # Plan to carry out
    cost: float  # Predicted cost, multiplied by the drift at the time of the choice
    # None for the most accurate plan at this size. "budget" if a better plan does not
    # fit the budget; "waited" if it would fit, had the request not waited for others;
    # "pressure" if a cheaper plan was taken because others wait; "missing" if a better
    # plan needs columns that the record lacks; "infeasible" if no acceptable plan fits.
    reason: Reason | None
    drift: float = 1.0  # Correction factor that `cost` includes
    late: bool = False  # True if the plan is carried out although it exceeds the budget
    # Budget left at the choice; infinite if a larger budget would not change the choice
    left: float = math.inf

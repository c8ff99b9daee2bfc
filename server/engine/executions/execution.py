"""Execute a plan on one item, feature by feature, while the budget lasts.

After each feature the plan may exit early: the model of the features computed so far
answers if its best class leads the second by more than a margin
(`TimedExecution._takes_exit`). If a feature fails that says "without", a
`RestExecution` goes on without the feature.
"""

import math
from collections.abc import Callable

from polydom.features.items import ReadRecord

from ..planning.plan import Choice
from ..planning.planner import Planner
from ..request import Outcome, Request
from .anytime_execution import AnytimeExecution
from .plan_execution import PlanExecution
from .timed_execution import TimedExecution

# Seconds that an any-time execution takes to choose its first feature. If no more are
# left, the answer comes at once instead.
AIMING_S = 2e-5


def execute(planner: Planner, request: Request) -> Outcome:
    """Choose a plan for the rest of the request's budget, and return its answer.

    Raises what `TimedExecution.run` raises.
    """
    return begin(planner, request).run()


def begin(
    planner: Planner,
    request: Request,
    waiting: int = 0,
    others: Callable[[], int] = int,
    choice: Choice | None = None,
) -> TimedExecution:
    """Choose the plan of a request, and return an execution that has not begun.

    The more requests are `waiting` now, the cheaper the chosen plan. During the
    execution, `others()` returns the number of requests that wait at that time; if it
    is above 0, optional improvements are skipped. `choice` is an earlier choice for the
    same request; it is used if the planner would choose the same again.
    """
    now_s = planner.now()
    if choice is None or waiting or not planner.holds(choice, request, now_s):
        choice = planner.choose(request, now_s, waiting)
    anytime = planner.anytime
    if (
        not waiting
        and anytime is not None
        and choice.left >= max(AIMING_S, anytime.least_s)
        and _may_fall_short(planner, request, choice)
    ):
        execution = AnytimeExecution(planner, anytime, request, choice, now_s, others)
        if execution.worthwhile:
            return execution
    return PlanExecution(planner, request, choice, now_s, others, audits=not waiting)


def _may_fall_short(planner: Planner, request: Request, choice: Choice) -> bool:
    """Return True if an any-time execution could improve the answer of this choice.

    It cannot if the choice is the best for the item or late, if the budget is not a
    time, or if even the best plan has less than the requested quality. Nor can it for a
    record whose columns were all read when it was decoded, and for exact scores of an
    index whose any-time rule counts on parts of models.
    """
    if type(request.item.payload) is ReadRecord and not choice.plan.exits:
        return False
    reason = choice.reason
    if reason is None or reason == "missing" or choice.late:
        return False
    if request.exact and planner.has_parts:
        return False
    if request.budget.due_s == math.inf:
        return False
    best, _ = planner.top_of(request.item)
    return planner.qualities[best] >= request.min_quality

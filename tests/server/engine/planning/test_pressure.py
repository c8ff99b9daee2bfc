"""When more come than can be served in full, cheaper plans serve more of them better.

A simulation in simulated time: arrivals at random, one computing thread, deadlines of
50 ms, and the planner's own choices. A request still waiting when nothing fits any more
is answered with the prior, as the server does.
"""

import heapq
from collections.abc import Callable

import numpy as np
import pytest

from polydom.features.items import text_item
from polydom.server.engine.budget import Deadline
from polydom.server.engine.planning.planner import Planner
from polydom.server.engine.request import Request
from tests.support.indexes.served import FEATURES_FILE, make_index

BUDGET_S = 0.05
REQUESTS = 3_000
LOADS = (0.2, 0.5, 1.0, 2.0, 3.0, 5.0)
SIZE_100 = text_item("x" * 100)

# costs at this size: 1, 6, 26 and 46 ms, for accuracies of 0.5, 0.7, 0.8 and 0.95
INDEX = make_index(scale=5.0)
assert INDEX.package is not None
PLANNER = Planner(INDEX, INDEX.package.extractor([FEATURES_FILE]))
COSTS = [INDEX.cost_s(row, 100.0) for row in range(4)]

# what is bought: (request, now, how many others wait) -> row
Policy = Callable[[Request, float, int], int]


def adapt(request: Request, now_s: float, waiting: int) -> int:
    return PLANNER.choose(request, now_s, waiting).plan.row


def spend_all(request: Request, now_s: float, waiting: int) -> int:
    return PLANNER.choose(request, now_s).plan.row


def fixed(row: int) -> Policy:
    """Always this plan, but for what fits when it does not."""

    def choose(request: Request, now_s: float, waiting: int) -> int:
        fits = COSTS[row] <= request.budget.left(now_s)
        return row if fits else spend_all(request, now_s, waiting)

    return choose


def mean_accuracy(load: float, policy: Policy) -> float:
    """Expected accuracy per request, at a multiple of what full plans can serve."""
    draws = np.random.default_rng(11)
    arrivals = draws.exponential(COSTS[-1] / load, REQUESTS).cumsum().tolist()
    # costs are high quantiles, most work takes less
    shares = draws.uniform(0.7, 1.0, REQUESTS).tolist()
    waiting: list[float] = []
    now_s, total, came = 0.0, 0.0, 0
    while came < REQUESTS or waiting:
        if not waiting:
            now_s = max(now_s, arrivals[came])
        while came < REQUESTS and arrivals[came] <= now_s:
            heapq.heappush(waiting, arrivals[came])
            came += 1
        request = Request(SIZE_100, Deadline(heapq.heappop(waiting), BUDGET_S))
        row = policy(request, now_s, len(waiting))
        if COSTS[row] <= request.budget.left(now_s):
            now_s += COSTS[row] * shares[came - 1]
            total += INDEX.qualities[row]
        else:
            total += INDEX.qualities[0]
    return float(total / REQUESTS)


RIVALS = (spend_all, *map(fixed, range(4)))


@pytest.mark.parametrize("load", LOADS)
def test_pressure_is_no_worse_than_spending_all_or_a_fixed_plan(load: float) -> None:
    adapted = mean_accuracy(load, adapt)
    best = max(mean_accuracy(load, rival) for rival in RIVALS)
    assert adapted >= best
    assert adapted > best or load <= 1


def test_pressure_takes_a_cheaper_plan_and_says_so() -> None:
    request = Request(SIZE_100, Deadline(0.0, BUDGET_S))
    choices = [PLANNER.choose(request, 0.0, waiting) for waiting in (0, 1, 50)]
    assert [choice.plan.row for choice in choices][::2] == [3, 0]
    assert [choice.reason for choice in choices][::2] == [None, "pressure"]
    costs = [choice.cost for choice in choices]
    assert costs == sorted(costs, reverse=True)


def test_pressure_respects_the_accuracy_that_was_asked_for() -> None:
    request = Request(SIZE_100, Deadline(0.0, BUDGET_S), min_quality=0.75)
    assert PLANNER.choose(request, 0.0, 1000).plan.row == 2

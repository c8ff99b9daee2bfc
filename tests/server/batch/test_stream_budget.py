"""A budget given out along a stream, against solving all of it at once."""

import numpy as np
import pytest

from polydom.server.batch.knapsack import Hull, make_hull
from polydom.server.batch.stream_budget import SAMPLE, StreamBudget
from tests.support.oracles.batch import relaxed_knapsack


def draw_hulls(count: int, seed: int) -> list[Hull]:
    """Items of six sizes, dearer with it, with plans of falling returns."""
    random = np.random.default_rng(seed)
    gains = np.array([0.1, 0.5, 0.7, 0.8, 0.82])
    made = [
        make_hull(np.arange(5), size * np.array([0.0, 1, 2, 4, 9]), gains)
        for size in (1, 2, 3, 5, 8, 13)
    ]
    return [made[k] for k in random.integers(6, size=count)]


def most_right(hulls: list[Hull], budget: float) -> float:
    """No choice within the budget expects more right answers."""
    plans = [list(zip(hull.costs, hull.qualities, strict=True)) for hull in hulls]
    return relaxed_knapsack(plans, budget)


def give_out(
    stream_budget: StreamBudget, hulls: list[Hull], budget: float, chunk: int
) -> float:
    """Expected right answers of a stream whose plans take what they were to."""
    left, right = budget, 0.0
    for start in range(0, len(hulls), chunk):
        chosen = stream_budget.choose(hulls[start : start + chunk], left)
        left -= chosen.cost
        for hull, place in zip(hulls[start:], chosen.places, strict=False):
            right += float(hull.qualities[place])
    assert left >= -1e-6
    return right


@pytest.mark.parametrize("chunk", [7, 64, 5000])
@pytest.mark.parametrize("part", [0.05, 0.2, 0.6])
def test_stream_budget_comes_near_the_optimum_where_the_number_is_known(
    chunk: int, part: float
) -> None:
    hulls = draw_hulls(2000, seed=chunk)
    budget = part * sum(float(hull.costs[-1]) for hull in hulls)
    best = most_right(hulls, budget)
    assert give_out(StreamBudget(len(hulls)), hulls, budget, chunk) >= 0.97 * best


def test_stream_budget_of_an_unknown_length_is_better_than_the_first_come() -> None:
    hulls = draw_hulls(2000, seed=1)
    budget = 0.2 * sum(float(hull.costs[-1]) for hull in hulls)
    found = give_out(StreamBudget(), hulls, budget, 64)
    first_come, left = 0.0, budget
    for hull in hulls:
        place = int(np.searchsorted(hull.costs, left, side="right")) - 1
        left -= float(hull.costs[place])
        first_come += float(hull.qualities[place])
    assert found > first_come
    assert found >= 0.7 * most_right(hulls, budget)


def test_stream_budget_gives_the_last_chunk_all_that_is_left() -> None:
    (hull,) = draw_hulls(1, seed=0)
    stream_budget = StreamBudget(3)
    assert stream_budget.choose([hull, hull], 0.0).places.tolist() == [0, 0]
    assert stream_budget.to_come() == 1
    assert stream_budget.choose([hull], 1e9).places.tolist() == [len(hull.rows) - 1]
    assert stream_budget.choose([hull], 1e9).places.tolist() == [len(hull.rows) - 1]
    assert stream_budget.to_come() == 0


def test_stream_budget_of_no_items_changes_nothing() -> None:
    stream_budget = StreamBudget()
    assert stream_budget.choose([], 1.0).places.tolist() == []
    assert (stream_budget.seen, stream_budget.to_come()) == (0, 0)


def test_stream_budget_remembers_no_more_than_a_sample() -> None:
    stream_budget = StreamBudget()
    stream_budget.choose(draw_hulls(3 * SAMPLE, seed=0), 1.0)
    assert stream_budget.seen == 3 * SAMPLE
    assert len(stream_budget._sample) == SAMPLE

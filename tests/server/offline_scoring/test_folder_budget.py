"""One total over many parts, whatever they turn out to take."""

import random

import pytest

from polydom.server.batch.batch_plan import PlanFinder
from polydom.server.batch.knapsack import Shape
from polydom.server.offline_scoring.folder_budget import AIM, FolderBudget
from polydom.server.offline_scoring.part_scoring import PartScored
from polydom.server.offline_scoring.parts import LinesPart
from tests.support.indexes.served import make_index


class Sample:
    """The one size of each part."""

    def __init__(self, sizes: list[float]) -> None:
        self.sizes = sizes

    def representative(self, number: int) -> int:
        return number

    def of(self, number: int) -> list[Shape]:
        return [Shape(self.sizes[self.representative(number)])]


def parts_of(count: int, items: int = 50) -> list[LinesPart]:
    return [LinesPart(k, k * items, items, "x", 0, 1) for k in range(count)]


def spend(
    total: float, sizes: list[float], ratio: float, overhead: float, under_way: int
) -> float:
    """Spent in all, if parts take so many times what they were to, and something."""
    draw = random.Random(1)
    parts = parts_of(len(sizes))
    finder = PlanFinder(make_index())
    budget = FolderBudget(finder, Sample(sizes), parts, total)  # type: ignore[arg-type]
    begun: list[PartScored] = []
    for part in parts:
        plan = budget.find()
        budget.begin(part, plan)
        planned = part.count * finder.mean_cost(plan, [Shape(sizes[part.number])])
        plans = planned * ratio * draw.uniform(0.9, 1.1)
        spent = plans + part.count * overhead
        begun.append(PartScored(part.number, part.count, 0, planned, plans, spent))
        if len(begun) > under_way:
            budget.end(begun.pop(draw.randrange(len(begun))))
    for one in begun:
        budget.end(one)
    return budget.spent


@pytest.mark.parametrize("under_way", [0, 8])
@pytest.mark.parametrize(("ratio", "overhead"), [(1, 0), (0.4, 2e-4), (1.5, 1e-3)])
@pytest.mark.parametrize("order", ["mixed", "small first"])
def test_the_total_is_met_whatever_parts_take(
    order: str, ratio: float, overhead: float, under_way: int
) -> None:
    draw = random.Random(0)
    sizes = [draw.uniform(1, 9000) for _ in range(200)]
    if order != "mixed":
        sizes.sort()
    total = 200 * 50 * 0.01
    spent = spend(total, sizes, ratio, overhead, under_way)
    assert spent == pytest.approx(total, rel=0.01)


def test_more_than_everything_costs_is_not_spent() -> None:
    assert spend(1e9, [100.0] * 20, 1, 0, 2) == pytest.approx(20 * 50 * 0.0092, rel=0.1)


def test_less_than_the_cheapest_cost_buys_the_cheapest() -> None:
    assert spend(0.0, [100.0] * 20, 1, 0, 2) == pytest.approx(20 * 50 * 0.0002, rel=0.1)


def test_what_a_process_takes_to_begin_is_spent_and_not_expected_again() -> None:
    parts = parts_of(40)
    sample = Sample([100.0] * 40)
    total = 40 * 50 * 0.003
    budget = FolderBudget(PlanFinder(make_index()), sample, parts, total)  # type: ignore[arg-type]
    budget.begin(parts[0], budget.find())
    budget.end(PartScored(0, 50, 0, 0.15, 0.15, 1.15, is_first=True))
    left = AIM * total - 1.15
    assert budget.find().expected_cost == pytest.approx(left / (39 * 50))


def test_a_part_that_was_scored_before_counts() -> None:
    parts = parts_of(4)
    sample = Sample([100.0] * 4)
    budget = FolderBudget(PlanFinder(make_index()), sample, parts, 0.4)  # type: ignore[arg-type]
    before = budget.find()
    budget.skip(parts[0], PartScored(0, 50, 0, 0.3, 0.3, 0.3))
    assert budget.spent == 0.3
    assert budget.find().expected_cost == pytest.approx((AIM * 0.4 - 0.3) / 150)
    assert before.expected_cost == pytest.approx(AIM * 0.4 / 200)

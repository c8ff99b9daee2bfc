"""Many items under one budget, on a clock that moves when told to."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from polydom.features.errors import BadItem, PolydomError
from polydom.features.items import Item, record_item, text_item
from polydom.server.batch.batch_budget import (
    SAMPLE,
    Answered,
    Assignment,
    BatchBudget,
    Failed,
    PlanTiming,
    StreamBudget,
    carry_out,
)
from polydom.server.batch.knapsack import Hull, make_hull
from polydom.server.engine.planning.planner import Planner
from polydom.server.engine.request import Outcome
from tests.support.clock import Clock
from tests.support.indexes import stopping_records
from tests.support.oracles.batch import relaxed_knapsack
from tests.support.planners import (
    extractor_of,
    money_planner,
    slow_planner,
    with_margins,
)

TEXT = text_item("x" * 100)  # its sets cost 0.2, 1.2, 5.2 and 9.2 ms


def run(budget: BatchBudget, count: int, chunk: int = 10) -> list[Outcome]:
    """Answer so many equal texts."""
    found: list[Outcome] = []
    for start in range(0, count, chunk):
        items: list[tuple[int, Item | PolydomError]] = [
            (start + k, TEXT) for k in range(min(chunk, count - start))
        ]
        for result in budget.answers(items):
            assert isinstance(result, Answered)
            assert result.number == len(found)
            found.append(result.outcome)
    return found


@pytest.mark.parametrize(
    ("amount", "accuracy"), [(0.0041, 0.5), (0.0241, 0.7), (0.1841, 0.95), (9.0, 0.95)]
)
def test_budget_spends_money_as_the_best_would(amount: float, accuracy: float) -> None:
    budget = BatchBudget(money_planner(), amount, count=20)
    outcomes = run(budget, 20)
    totals = budget.totals()
    assert totals.expected_accuracy == pytest.approx(accuracy)
    assert totals.spent == pytest.approx(sum(o.predicted for o in outcomes))
    assert totals.budget_met or totals.spent == pytest.approx(amount)
    assert (totals.items, totals.errors, budget.due_s) == (20, 0, float("inf"))


def test_budget_spends_what_plans_leave_of_the_time_they_were_to_take() -> None:
    """Features that take a fifth of what was predicted let more items have them."""
    found: list[float] = []
    for seconds in ((1e-3, 3e-3, 4e-3), (2e-4, 6e-4, 8e-4)):
        clock = Clock()
        budget = BatchBudget(slow_planner(clock, seconds), 0.4, count=200)
        run(budget, 200)
        totals = budget.totals()
        assert totals.budget_met
        assert totals.spent_us is not None
        assert totals.spent_us >= 0.3e6
        assert totals.expected_accuracy is not None
        found.append(totals.expected_accuracy)
    assert found[0] < found[1] == pytest.approx(0.95, abs=0.02)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_exits_in_batches_are_counted_and_audited(share: float) -> None:
    """An audit costs what the plan was given: the money, or its predicted time."""
    index = with_margins(0.0)
    for unit in ("s", "usd"):
        package = index.package
        assert package is not None
        meta = {**package.meta, "unit": unit}
        own = replace(index, package=replace(package, meta=meta))
        planner = Planner(own, extractor_of(own), now=Clock(), audit=share)
        budget = BatchBudget(planner, 9.0, count=20)
        outcomes = run(budget, 20)
        audit = planner.audit
        assert (audit.exits, audit.audited.total()) == (20, 20 * share)
        assert {outcome.row for outcome in outcomes} == {3 if share else 1}
        assert {outcome.reason for outcome in outcomes} == {None if share else "sure"}
        assert audit.changed.total() == sum(outcome.audit or 0 for outcome in outcomes)
        assert budget.totals().budget_met


@pytest.mark.parametrize("unit", ["s", "usd"])
@pytest.mark.parametrize("amount", [0.01, 0.1, 0.2, 0.3, 0.5, 0.9])
def test_what_exits_save_buys_dearer_plans_and_is_never_spent_twice(
    unit: str, amount: float
) -> None:
    """Plans of 9.2 that always end after one feature at 1.3, in a batch of 100."""
    index = with_margins(0.0)
    package = index.package
    assert package is not None
    ends = ((1.0,), (0.0, 1.0), (0.0, 0.0, 1.0), (0.0, 1.0, 0.0, 0.0))
    told, spent = [], []
    for known in ((), ends):
        meta = {**package.meta, "unit": unit}
        own = replace(index, package=replace(package, meta=meta, ends=known))
        clock = Clock()
        planner = slow_planner(clock, (1e-3, 4e-3, 4e-3), own)
        budget = BatchBudget(planner, amount, count=100)
        run(budget, 100)
        totals = budget.totals()
        assert totals.budget_met or amount < 0.02  # what the cheapest plans take
        assert totals.expected_accuracy is not None
        told.append(totals.expected_accuracy)
        spent.append(budget.spent)
    assert told[1] >= told[0]
    if amount in (0.2, 0.3):
        assert told[1] > told[0] + 0.02


@pytest.mark.parametrize("unit", ["s", "usd"])
@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize("amount", [1e-3, 4e-3, 5.7e-3, 7.5e-3, 9e-3])
def test_scores_for_all_cost_what_whole_models_do(
    unit: str, ends: bool, amount: float
) -> None:
    """Plans of 0.02, 0.13 and 0.14 ms; with whole models 0.02, 0.18 and 0.19."""
    index = stopping_records.make_index()
    package = index.package
    assert package is not None
    meta = {**package.meta, "unit": unit}
    known = package.ends if ends else ()
    own = replace(index, package=replace(package, meta=meta, ends=known))
    rows = stopping_records.draw_rows(40, 2)
    items = [record_item(stopping_records.record_of(row)) for row in rows]
    planner = Planner(own, package.extractor(), now=Clock())
    budget = BatchBudget(planner, amount, count=len(items), exact=True)
    likeliest = BatchBudget(planner, amount, count=len(items))
    likeliest.need_scores()
    found = []
    for one in (budget, likeliest):
        results = list(one.answers(enumerate(items)))
        outcomes = [r.outcome for r in results if isinstance(r, Answered)]
        assert len(outcomes) == len(items)
        assert all(outcome.scores is not None for outcome in outcomes)
        if unit != "s":
            assert one.totals().budget_met
            costs = {0: 2e-5, 1: 1.8e-4, 2: 1.9e-4}
            whole = sum(costs[outcome.row] for outcome in outcomes)
            assert one.totals().spent == pytest.approx(whole)
            assert whole + max(costs.values()) > amount or amount > 40 * 1.9e-4
        found.append([outcome.row for outcome in outcomes])
    assert found[0] == found[1]


def test_a_second_answer_that_exits_is_audited_too() -> None:
    index = with_margins(0.0)
    planner = Planner(index, extractor_of(index), now=Clock(), audit=1.0)
    budget = BatchBudget(planner, 9.0, count=1)
    before = carry_out(planner, Assignment(TEXT, 1))
    budget.record(before)
    assert planner.audit.exits == 0
    budget.record_better(before, carry_out(planner, Assignment(TEXT, 3)))
    assert (planner.audit.exits, planner.audit.audited.total()) == (1, 1)


def test_budget_gives_the_cheapest_plans_when_the_time_is_up() -> None:
    clock = Clock()
    budget = BatchBudget(slow_planner(clock, (1.0, 1.0, 1.0)), 0.5, count=40)
    outcomes = run(budget, 40)
    assert [outcome.row for outcome in outcomes[10:]] == [0] * 30
    assert not budget.totals().budget_met


def test_chunks_that_wait_leave_later_chunks_as_much() -> None:
    clock = Clock()
    planner = slow_planner(clock, (1e-3, 4e-3, 4e-3))
    budget = BatchBudget(planner, 0.5, count=40)
    parts, qualities = [], []
    for _ in range(4):
        parts.append(budget.part_of(10))
        clock.now_s += parts[-1] / 2
        budget.waited(parts[-1] / 2, 10)
        outcomes = run(budget, 10)
        qualities.append(sum(one.quality for one in outcomes) / 10)
    assert parts == pytest.approx([0.125] * 4, rel=0.2)
    assert qualities == pytest.approx([qualities[0]] * 4, rel=0.1)
    assert budget.totals().budget_met


def test_chunks_that_workers_carry_out_are_charged_when_they_are_planned() -> None:
    """Whatever is reserved meanwhile, and only until their results are recorded."""
    planner = money_planner()
    budget = BatchBudget(planner, 0.1, count=20)
    first = budget.plan([TEXT] * 10)
    left = budget.left_for_plans(10)
    assert left == pytest.approx(0.1 - first.cost)
    budget.reserved = 0.01
    second = budget.plan([TEXT] * 10)
    assert budget.left_for_plans(0) >= 0
    for chunk in (first, second):
        outcomes = (carry_out(planner, one) for one in chunk.assignments)
        list(chunk.results([(k, TEXT) for k in range(10)], outcomes))
    assert budget.spent == pytest.approx(first.cost + second.cost)
    assert budget.left_for_plans(0) == pytest.approx(0.1 - 0.01 - budget.spent)


def test_budget_keeps_errors_in_their_places() -> None:
    budget = BatchBudget(money_planner(), 1.0)
    items: list[tuple[int, Any]] = [
        (0, BadItem("no text")),
        (1, TEXT),
        (2, text_item("a\x00")),  # of which words cannot be computed
        (3, TEXT),
    ]
    results = budget.answers(items)
    said = [one.error if isinstance(one, Failed) else one.outcome for one in results]
    kinds = [type(one).__name__ for one in said]
    assert kinds == ["BadItem", "Outcome", "FeatureFailed", "Outcome"]
    totals = budget.totals()
    assert (totals.items, totals.errors) == (4, 2)
    # what was computed before the failure is paid for as the whole plan
    failed = budget.planner.index.cost_s(3, 2)
    assert totals.spent == pytest.approx(2 * 9.2e-3 + failed)
    assert list(budget.answers([])) == []


@pytest.mark.parametrize(("exact", "paid"), [(False, 1.4e-4), (True, 1.9e-4)])
def test_what_fails_is_paid_for_as_it_was_asked(exact: bool, paid: float) -> None:
    index = stopping_records.make_index()
    package = index.package
    assert package is not None
    own = replace(index, package=replace(package, meta={**package.meta, "unit": "usd"}))
    planner = Planner(own, package.extractor(), now=Clock())
    budget = BatchBudget(planner, 1.0, count=1, exact=exact)
    (row,) = stopping_records.draw_rows(1, 2)
    item = record_item({**stopping_records.record_of(row), "f": "no number"})
    (result,) = budget.answers([(0, item)])
    assert isinstance(result, Failed)
    assert budget.totals().spent == pytest.approx(paid)


def test_budget_of_nothing_expects_nothing() -> None:
    assert BatchBudget(money_planner(), 1.0).totals().expected_accuracy is None


def test_timing_starts_at_the_first_chunk_and_follows_the_others() -> None:
    timing = PlanTiming()
    timing.add(10, predicted_s=1.0, actual_s=0.5, all_s=0.6)
    assert timing.ratio == 0.5
    assert timing.overhead_s == pytest.approx(0.01)
    for _ in range(40):
        timing.add(1, predicted_s=1.0, actual_s=2.0, all_s=1.5)
    assert timing.ratio == pytest.approx(2.0, abs=0.01)
    assert timing.overhead_s == pytest.approx(0.0, abs=1e-4)


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

"""The items most likely of a class, against giving everyone the best plan."""

import msgspec
import pytest

from polydom.features.errors import BadInput
from polydom.features.items import record_item, text_item
from polydom.server.batch.batch_budget import (
    Answered,
    Assignment,
    BatchBudget,
    carry_out,
)
from polydom.server.batch.top_k import AT_LEAST, KEPT, TopK, _bytes_of
from polydom.server.engine.request import Outcome
from polydom.server.errors import TooLarge
from tests.support.planners import money_planner

PLANNER = money_planner()
TEXTS = [f"{'free $$ ' * (k % 7)}{'word ' * (k % 5)}" for k in range(300)]
ITEMS = [text_item(text) for text in TEXTS]
BEST = len(PLANNER.plans) - 1


def find(amount: float, top: int) -> tuple[BatchBudget, list[Answered]]:
    budget = BatchBudget(PLANNER, amount, count=len(ITEMS))
    top_k = TopK(budget, "spam", top)
    for result in budget.answers(enumerate(ITEMS)):
        assert isinstance(result, Answered)
        top_k.offer(result)
    for _ in top_k.improve():
        pass
    return budget, top_k.ranking()


def spam(outcome: object) -> float:
    assert isinstance(outcome, Outcome)
    assert outcome.scores is not None
    return outcome.scores["spam"]


def test_top_k_are_the_likeliest_where_the_budget_allows_all() -> None:
    _, ranking = find(99.0, top=10)
    scores = [spam(carry_out(PLANNER, Assignment(item, BEST))) for item in ITEMS]
    expected = sorted(range(len(ITEMS)), key=lambda k: (-scores[k], k))[:10]
    assert [result.number for result in ranking] == expected
    assert all(ITEMS[result.number] is result.item for result in ranking)


def test_top_k_get_their_best_plans_under_a_budget_for_few() -> None:
    # everyone's best plan costs 2.7 and more, everyone's cheapest 0.06
    budget, ranking = find(1.0, top=10)
    assert [result.outcome.row for result in ranking] == [BEST] * 10
    scores = [spam(result.outcome) for result in ranking]
    assert scores == sorted(scores, reverse=True)
    totals = budget.totals()
    assert totals.budget_met
    assert totals.items == len(ITEMS)


def test_top_k_keeps_the_first_answer_of_what_fails_at_its_best_plan() -> None:
    budget = BatchBudget(PLANNER, 0.025)
    top_k = TopK(budget, "spam", 2)
    items = [text_item("$$ \x00"), text_item("$$")]  # of the first no words are found
    for number, item in enumerate(items):
        outcome = carry_out(PLANNER, Assignment(item, 1))
        budget.record(outcome)
        top_k.offer(Answered(number, item, outcome))
    spent = budget.spent
    list(top_k.improve())
    ranking = {result.number: result.outcome.row for result in top_k.ranking()}
    assert ranking == {0: 1, 1: BEST}
    costs = [PLANNER.index.cost_s(BEST, item.size) for item in items]
    assert budget.spent == pytest.approx(spent + sum(costs))


def test_top_k_without_a_budget_are_ranked_by_the_prior() -> None:
    _, ranking = find(0.0, top=3)
    assert [result.number for result in ranking] == [0, 1, 2]


def test_top_k_keep_no_more_than_they_may_need() -> None:
    top_k = TopK(BatchBudget(PLANNER, 0.0), "spam", 2)
    outcome = carry_out(PLANNER, Assignment(ITEMS[0], 0))
    for number in range(500):
        top_k.offer(Answered(number, ITEMS[0], outcome))
    assert len(top_k._heap) == 2 * KEPT + AT_LEAST


def test_top_k_keep_no_more_bytes_than_they_may(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("polydom.server.batch.top_k.KEPT_BYTES", 300_000)
    budget = BatchBudget(PLANNER, 99.0)
    top_k = TopK(budget, "spam", 5)
    long = [text_item(f"{'free $$ ' * (k % 7)}{'x' * 20_000}") for k in range(99)]
    outcomes = [carry_out(PLANNER, Assignment(item, BEST)) for item in long]
    for number, (item, outcome) in enumerate(zip(long, outcomes, strict=True)):
        top_k.offer(Answered(number, item, outcome))
        assert top_k.kept_bytes <= 300_000
    scores = [spam(outcome) for outcome in outcomes]
    likeliest = sorted(range(len(long)), key=lambda k: (-scores[k], k))[:5]
    assert [result.number for result in top_k.ranking()] == likeliest
    sure = msgspec.structs.replace(outcomes[0], scores={"spam": 2.0})
    with pytest.raises(TooLarge, match="ask for a smaller top"):
        top_k.offer(Answered(99, text_item("x" * 300_000), sure))


def test_top_k_count_what_records_hold() -> None:
    records = [record_item({f"c{k}": "x" * 100 for k in range(n)}) for n in (1, 1000)]
    outcome = carry_out(PLANNER, Assignment(ITEMS[0], 0))
    few, many = (_bytes_of(Answered(0, record, outcome)) for record in records)
    assert many - few >= 999 * 200


def test_top_k_are_fewer_where_there_are_fewer_items() -> None:
    budget = BatchBudget(PLANNER, 1.0)
    top_k = TopK(budget, "ham", 5)
    assert list(top_k.improve()) == []
    assert top_k.ranking() == []


@pytest.mark.parametrize(
    ("label", "top", "message"),
    [("eggs", 3, "no class 'eggs'"), ("ham", 0, "top is 0")],
)
def test_top_k_refuse_what_is_no_list(label: str, top: int, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        TopK(BatchBudget(PLANNER, 1.0), label, top)

"""A plan for a batch: one price, and what that makes of every item by itself."""

import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from polydom.features.errors import BadIndexFile, BadInput
from polydom.features.items import Item, ReadRecord, record_item, text_item
from polydom.indexer.index.index import Index
from polydom.server.batch.batch_plan import Assigner, BatchPlan, uniform_hash
from polydom.server.batch.knapsack import Hulls, Shape, solve
from tests.support.indexes.served import (
    ACCURACIES,
    make_index,
    make_pair_index,
    save_index,
)
from tests.support.places import ROOT

# The steps of a text of 100 characters: 0.2 in 1 ms, and 0.25 in 8 ms.
FIRST, SECOND = 0.2 / 1e-3, 0.25 / 8e-3


def texts(count: int, longest: int = 5000) -> list[Item]:
    draw = random.Random(0)
    return [
        text_item("x" * draw.randint(1, longest) + str(number))
        for number in range(count)
    ]


@pytest.mark.parametrize(
    ("total", "price", "share", "accuracy", "cost"),
    [
        (0.0, None, 0.0, 0.5, 0.0002),
        (0.0002, None, 0.0, 0.5, 0.0002),
        (0.0007, FIRST, 0.5, 0.6, 0.0007),
        (0.00125, SECOND, 0.00625, 0.7015625, 0.00125),
        (0.0032, SECOND, 0.25, 0.7625, 0.0032),
        (0.0093, 0.0, 1.0, 0.95, 0.0092),
        (1e9, 0.0, 1.0, 0.95, 0.0092),
    ],
)
def test_one_size_has_a_price_and_a_share(
    total: float, price: float | None, share: float, accuracy: float, cost: float
) -> None:
    for count, sizes in ((1, [100.0]), (5_000_000, [100.0]), (20, [100.0] * 7)):
        plan = BatchPlan.of(
            make_index(), sizes, count=count, total_cost_s=count * total
        )
        if price is None:
            assert plan.price is None
        else:
            assert plan.price == pytest.approx(price)
        assert plan.share == pytest.approx(share, abs=1e-6)
        assert plan.expected_accuracy == pytest.approx(accuracy)
        assert plan.expected_quality == pytest.approx(accuracy)
        assert plan.expected_cost == pytest.approx(cost)


def test_a_plan_spends_its_total_and_buys_what_the_knapsack_does() -> None:
    index = make_index()
    items = texts(3000)
    sizes = [item.size for item in items]
    for mean_s in (0.0005, 0.002, 0.01, 0.03):
        total = 3000 * mean_s
        plan = BatchPlan.of(index, sizes, total_cost_s=total)
        assigned = [Assigner(index, plan).assign(item) for item in items]
        assert sum(one.cost for one in assigned) == pytest.approx(total, rel=0.03)
        accuracy = np.mean([ACCURACIES[one.row] for one in assigned])
        hulls = Hulls(index, index.coefficients)
        best = solve([hulls.of(Shape(size)) for size in sizes], total)
        whole = [
            hulls.of(Shape(size)).qualities[place]
            for size, place in zip(sizes, best.places, strict=True)
        ]
        assert accuracy == pytest.approx(np.mean(whole), abs=0.005)
        assert plan.expected_accuracy == pytest.approx(accuracy, abs=0.005)


def test_items_of_one_size_are_told_apart_by_what_they_hold() -> None:
    index = make_index("usd")
    items = [text_item(f"{number:05d}") for number in range(10_000)]
    plan = BatchPlan.of(index, [5.0], count=10_000, total_cost=7.0)
    assigned = [Assigner(index, plan).assign(item) for item in items]
    assert {one.row for one in assigned} == {0, 1}
    assert sum(one.cost for one in assigned) == pytest.approx(7.0, rel=0.02)
    again = [Assigner(index, plan).assign(item) for item in reversed(items)]
    assert [one.row for one in again[::-1]] == [one.row for one in assigned]


def test_pairs_of_sizes_have_a_price_too() -> None:
    index = make_pair_index()
    plan = BatchPlan.of(index, [(20.0, 2.0), (5.0, 1.0)], total_cost_s=0.01)
    assert plan.expected_cost == pytest.approx(0.005)
    item = text_item("one two. three", pair=True)
    assert Assigner(index, plan).assign(item).row in range(4)


def test_a_plan_is_plain_data() -> None:
    for total in (0.0, 0.0007, 9.0):
        plan = BatchPlan.of(make_index(), [100.0], total_cost_s=total, exact=True)
        assert BatchPlan.from_json(plan.to_json()) == plan
    for text in ("", "[]", '{"price":1}', plan.to_json()[:-1] + b',"more":1}'):
        with pytest.raises(BadInput, match="no plan for a batch"):
            BatchPlan.from_json(text)


def test_tickets_are_the_same_in_every_process() -> None:
    items = [text_item("déjà vu"), record_item({"b": 1, "a": None, "c": "x"})]
    code = (
        "from polydom.features.items import text_item, record_item\n"
        "from polydom.server.batch.batch_plan import uniform_hash\n"
        "print(uniform_hash(text_item('déjà vu')))\n"
        "print(uniform_hash(record_item({'a': None, 'c': 'x', 'b': 1})))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT
    )
    assert done.stdout.split() == [str(uniform_hash(item)) for item in items]
    row = ReadRecord(np.array([1.5, np.nan], np.float32))
    of_row = uniform_hash(Item("record", row, 1.0))
    assert of_row == uniform_hash(
        Item("record", ReadRecord(row.row.astype(">f4")), 1.0)
    )
    drawn = [uniform_hash(text_item(str(number))) for number in range(2000)]
    assert 0 <= min(drawn) < 0.01
    assert 0.99 < max(drawn) < 1
    assert np.mean(drawn) == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize(
    ("unit", "sizes", "terms", "message"),
    [
        ("s", [1.0], {}, "give total_cost_s"),
        ("s", [1.0], {"total_cost": 1.0}, "give total_cost_s"),
        ("usd", [1.0], {"total_cost_s": 1.0}, "counts costs in usd: give total_cost,"),
        ("s", [1.0], {"total_cost_s": -1.0}, "total_cost_s is -1.0"),
        ("s", [1.0], {"total_cost_s": float("nan")}, "total_cost_s is nan"),
        ("s", [], {"total_cost_s": 1.0}, "0 sizes of 0 items"),
        ("s", [1.0], {"total_cost_s": 1.0, "count": 0}, "1 sizes of 0 items"),
        ("s", [0.0], {"total_cost_s": 1.0}, "a size is 0"),
        ("s", [(1.0, 2.0)], {"total_cost_s": 1.0}, "a size is 1 x 2; .* one number"),
    ],
)
def test_terms_that_make_no_plan_are_refused(
    unit: str, sizes: list[float], terms: dict[str, float], message: str
) -> None:
    with pytest.raises(BadInput, match=message):
        BatchPlan.of(make_index(unit), sizes, **terms)  # type: ignore[arg-type]


def test_a_plan_is_for_one_index(tmp_path: Path) -> None:
    path = save_index(tmp_path)
    plan = BatchPlan.of(path, [100.0], total_cost_s=0.001)
    assert plan.index_version == Index.load(path).version
    Assigner(Index.load(path), plan)
    with pytest.raises(BadInput, match=f"is for index {plan.index_version[:12]}, and"):
        Assigner(make_index("usd"), plan)
    bare = Index.from_candidates([[1.0]], [0.5], (1, 2))
    with pytest.raises(BadIndexFile, match="without models"):
        BatchPlan.of(bare, [1.0], total_cost_s=1.0)

"""What budgets buy, against trying every feature set."""

import io
import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from polydom.indexer.index.facts import SkylineFacts, SkylineSet
from polydom.server.cli.reports.budget_table import (
    LADDERS,
    ROWS,
    budget_rows,
    show_budgets,
)

COSTS = st.floats(1e-6, 1e6) | st.sampled_from([0.0, 1.0, 2.0, 10.0])


def offer(cost: float, quality: float, features: list[str]) -> SkylineSet:
    return SkylineSet(0, cost, cost, quality, quality / 2, features)


@st.composite
def skylines(draw: st.DrawFn) -> list[SkylineSet]:
    """Ascending costs and accuracies; most begin with the prior."""
    costs = sorted(draw(st.sets(COSTS, min_size=1, max_size=9)))
    prior = draw(st.booleans())
    return [
        offer(cost, place / 10, [] if prior and not place else [f"f{place}"])
        for place, cost in enumerate(costs)
    ]


def best(line: list[SkylineSet], budget: float) -> int | None:
    """Place of the most accurate set within a budget, trying each; else the prior."""
    within = [k for k, one in enumerate(line) if one.cost <= budget]
    prior = [k for k, one in enumerate(line) if not one.features]
    return max([*within, *prior], key=lambda k: line[k].quality, default=None)


@given(st.lists(skylines(), min_size=1, max_size=3))
def test_each_row_is_what_its_budget_buys(lines: list[list[SkylineSet]]) -> None:
    rows = budget_rows(lines)
    (least, _), *dearer = rows
    assert least is None
    budgets = [0.0, *(budget for budget, _ in dearer if budget is not None)]
    assert len(budgets) == len(rows)
    assert budgets == sorted(set(budgets))
    for budget, (_, bought) in zip(budgets, rows, strict=True):
        assert bought == tuple(best(line, budget) for line in lines)
    assert rows[-1][1] == tuple(best(line, math.inf) for line in lines)
    assert all(a[1] != b[1] for a, b in itertools.pairwise(rows))
    for budget in budgets[1:]:
        digits = float(f"{budget:e}".split("e")[0])
        assert digits in LADDERS[0] or digits in LADDERS[1]
    decades = {math.floor(math.log10(b)) for b in budgets[1:]}
    assert len(rows) <= max(ROWS, len(decades) + 1)


def shown(
    lines: list[list[SkylineSet]],
    unit: str,
    names: list[str],
    measure: str = "accuracy",
) -> list[str]:
    console = Console(file=io.StringIO(), width=80)
    facts = [SkylineFacts(1.0, unit, measure, line) for line in lines]
    show_budgets(facts, names, console)
    assert isinstance(console.file, io.StringIO)
    return [" ".join(line.split()) for line in console.file.getvalue().splitlines()]


def line(*sets: tuple[float, float, list[str]]) -> list[SkylineSet]:
    return [offer(*one) for one in sets]


def test_one_size_has_its_features_beside_what_they_cost() -> None:
    found = line((1.0, 0.5, []), (52.0, 0.75, ["a"]), (5200.0, 0.95, ["a", "b"]))
    assert shown([found], "us", ["records"]) == [
        "what a budget buys",
        "budget accuracy time features, in computing order",
        "less 0.500 no feature: the prior answers",
        "0.0600 ms 0.750 0.0520 ms a",
        "6.00 ms 0.950 5.20 ms a, b",
    ]


def test_several_sizes_name_feature_sets_by_letters() -> None:
    small = line((0.0, 0.5, []), (1.5, 0.75, ["a"]), (3.0, 0.95, ["b"]))
    large = line((0.0, 0.5, []), (3.0, 0.95, ["b"]))
    assert shown([small, large], "usd", ["1\npixels", "9\npixels"]) == [
        "what a budget buys",
        "1 9",
        "budget pixels pixels",
        "less - 0.500 - 0.500",
        "1.5 usd A 0.750 1.5 usd - 0.500",
        "3 usd B 0.950 3 usd B 0.950 3 usd",
        "a cell: features, expected accuracy, cost. The features:",
        "- no feature: the prior answers",
        "A a",
        "B b",
    ]


@pytest.mark.parametrize("names", [["one"], ["one", "two"]])
def test_an_index_without_a_prior_buys_nothing_below_its_cheapest_set(
    names: list[str],
) -> None:
    found = line((2.0, 0.75, ["a"]))
    said = shown([found] * len(names), "usd", names)
    assert said[2].startswith("less")
    assert "0.750" in said[3]


def test_the_measure_is_named_and_accuracy_stands_beside_another() -> None:
    found = line((1.0, 0.5, []), (52.0, 0.75, ["a"]))
    assert shown([found], "us", ["records"], "macro_f1")[1:] == [
        "budget macro F1 accuracy time features, in computing order",
        "less 0.500 0.250 no feature: the prior answers",
        "0.0600 ms 0.750 0.375 0.0520 ms a",
    ]
    assert shown([found], "us", ["records"], "r2")[1:3] == [
        "budget R2 time features, in computing order",
        "less 0.500 no feature: the prior answers",
    ]
    assert "a cell: features, expected R2, cost. The features:" in shown(
        [found, found], "usd", ["1", "2"], "r2"
    )
